#include "CPixels.h"
#include "rounding.h"

CLONES void pixels_add_rows(
    uint16_t *sums, const uint8_t *rows, size_t stride, size_t height, size_t width, bool begins) {
    // Four rows at a time, so that the sums are read and written less often.
    for (; height >= 4; height -= 4, rows += stride * 4, begins = false) {
        const uint8_t *a = rows, *b = a + stride, *c = b + stride, *d = c + stride;
        if (begins)
            for (size_t i = 0; i < width; i++) sums[i] = a[i] + b[i] + c[i] + d[i];
        else
            for (size_t i = 0; i < width; i++) sums[i] += a[i] + b[i] + c[i] + d[i];
    }
    for (; height > 0; height--, rows += stride, begins = false) {
        if (begins)
            for (size_t i = 0; i < width; i++) sums[i] = rows[i];
        else
            for (size_t i = 0; i < width; i++) sums[i] += rows[i];
    }
}

CLONES void pixels_add_boxes(float *to, const uint16_t *sums, size_t width, size_t box) {
    for (size_t x = 0; x < width; x += box, to += 4) {
        size_t count = width - x < box ? width - x : box;
        u32x4 total = {0, 0, 0, 0};
        for (size_t i = 0; i < count; i++) {
            u16x4 value;
            memcpy(&value, sums + (x + i) * 4, 8);
            total += __builtin_convertvector(value, u32x4);
        }
        f32x4 result = __builtin_convertvector(total, f32x4);
        memcpy(to, &result, 16);
    }
}

CLONES void pixels_widen(float *to, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = from[i];
}

CLONES void pixels_weigh_row(
    float *to, size_t width, const float *from, const int32_t *starts, const int32_t *counts, const float *weights,
    size_t taps) {
    for (size_t x = 0; x < width; x++) {
        const float *source = from + (size_t)starts[x] * 4;
        const float *weight = weights + x * taps;
        int32_t count = counts[x], i = 0;
        // Several sums, because each addition to a single sum would wait for the one before.
        f32x4 sum[4] = {{0}, {0}, {0}, {0}};
        for (; i + 4 <= count; i += 4) {
            for (int k = 0; k < 4; k++) {
                f32x4 value;
                memcpy(&value, source + (i + k) * 4, 16);
                sum[k] += value * weight[i + k];
            }
        }
        for (; i < count; i++) {
            f32x4 value;
            memcpy(&value, source + i * 4, 16);
            sum[0] += value * weight[i];
        }
        f32x4 result = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        memcpy(to + x * 4, &result, 16);
    }
}

CLONES void pixels_weigh_rows(
    uint8_t *to, size_t width, const float *ring, size_t rows, size_t first, const float *weights, size_t count) {
    size_t length = width * 4, i = 0;
    // The number of rows before the end of the ring, after which its first row follows.
    size_t before = rows - first < count ? rows - first : count;
    for (; i + 16 <= length; i += 16) {
        f32x8 a = {0}, b = {0};
        const float *row = ring + first * length + i;
        for (size_t t = 0; t < count; t++, row += length) {
            if (t == before) row = ring + i;
            f32x8 x, y;
            memcpy(&x, row, 32);
            memcpy(&y, row + 8, 32);
            a += x * weights[t];
            b += y * weights[t];
        }
        ROUND(a, to + i);
        ROUND(b, to + i + 8);
    }
    for (; i < length; i += 4) {
        f32x8 a = {0};
        const float *row = ring + first * length + i;
        for (size_t t = 0; t < count; t++, row += length) {
            if (t == before) row = ring + i;
            f32x4 x;
            memcpy(&x, row, 16);
            x *= weights[t];
            a += __builtin_shufflevector(x, x, 0, 1, 2, 3, 0, 1, 2, 3);
        }
        uint8_t pair[8];
        ROUND(a, pair);
        memcpy(to + i, pair, 4);
    }
}
