#include "CPixels.h"
#include "rounding.h"

CLONES void pixels_convolve(float *to, const float *from, size_t count, const float *weights, size_t taps) {
    size_t x = 0;
    // Eight pixels at once, each with a sum of its own, so that each weight is read once for all of them.
    for (; x + 8 <= count; x += 8) {
        f32x8 sum[4] = {{0}, {0}, {0}, {0}};
        const float *source = from + x * 4;
        for (size_t t = 0; t < taps; t++, source += 4) {
            for (int k = 0; k < 4; k++) {
                f32x8 value;
                memcpy(&value, source + k * 8, 32);
                sum[k] += value * weights[t];
            }
        }
        memcpy(to + x * 4, sum, sizeof sum);
    }
    for (; x < count; x++) {
        f32x4 sum = {0};
        for (size_t t = 0; t < taps; t++) {
            f32x4 value;
            memcpy(&value, from + (x + t) * 4, 16);
            sum += value * weights[t];
        }
        memcpy(to + x * 4, &sum, 16);
    }
}

CLONES void pixels_convolve_rows(
    float *to, const float *const *rows, size_t count, const float *weights, size_t taps) {
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        f32x8 sum[4] = {{0}, {0}, {0}, {0}};
        for (size_t t = 0; t < taps; t++) {
            for (int k = 0; k < 4; k++) {
                f32x8 value;
                memcpy(&value, rows[t] + i + k * 8, 32);
                sum[k] += value * weights[t];
            }
        }
        memcpy(to + i, sum, sizeof sum);
    }
    for (; i < count; i++) {
        float sum = 0;
        for (size_t t = 0; t < taps; t++) sum += rows[t][i] * weights[t];
        to[i] = sum;
    }
}

CLONES void pixels_halve_byte_rows(uint16_t *to, const uint8_t *const *rows, size_t count) {
    const uint8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4];
    for (size_t i = 0; i < count; i++)
        to[i] = (uint16_t)((a[i] + e[i]) + ((b[i] + d[i]) << 2) + c[i] * 6);
}

CLONES void pixels_halve_rows(float *to, const float *const *rows, size_t count) {
    const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4];
    for (size_t i = 0; i < count; i++) to[i] = (a[i] + e[i]) + 4 * (b[i] + d[i]) + 6 * c[i];
}

CLONES void pixels_halve_words(float *to, const uint16_t *from, size_t count) {
    typedef uint16_t u16x8 __attribute__((vector_size(16)));
    size_t x = 0;
    // Two pixels at once. The sum fits into 16 bits exactly: it is at most 255 × 256.
    for (; x + 2 <= count; x += 2, from += 16) {
        u16x8 p, q, r, s;
        memcpy(&p, from, 16);       // pixels 0 and 1
        memcpy(&q, from + 8, 16);   // 2 and 3
        memcpy(&r, from + 16, 16);  // 4 and 5
        u16x4 last;
        memcpy(&last, from + 24, 8);
        s = __builtin_shufflevector(last, last, 0, 1, 2, 3, 0, 1, 2, 3);
        u16x8 a = __builtin_shufflevector(p, q, 0, 1, 2, 3, 8, 9, 10, 11);
        u16x8 b = __builtin_shufflevector(p, q, 4, 5, 6, 7, 12, 13, 14, 15);
        u16x8 c = __builtin_shufflevector(q, r, 0, 1, 2, 3, 8, 9, 10, 11);
        u16x8 d = __builtin_shufflevector(q, r, 4, 5, 6, 7, 12, 13, 14, 15);
        u16x8 e = __builtin_shufflevector(r, s, 0, 1, 2, 3, 8, 9, 10, 11);
        u16x8 sum = (a + e) + ((b + d) << 2) + c * 6;
        f32x8 result = __builtin_convertvector(sum, f32x8) * (1.0f / 256);
        memcpy(to + x * 4, &result, 32);
    }
    for (; x < count; x++, from += 8)
        for (int c = 0; c < 4; c++)
            to[x * 4 + c] =
                (float)((from[c] + from[16 + c]) + 4 * (from[4 + c] + from[12 + c]) + 6 * from[8 + c]) / 256;
}

CLONES void pixels_halve_row(float *to, const float *from, size_t count) {
    for (size_t x = 0; x < count; x++, from += 8) {
        f32x4 a, b, c, d, e;
        memcpy(&a, from, 16);
        memcpy(&b, from + 4, 16);
        memcpy(&c, from + 8, 16);
        memcpy(&d, from + 12, 16);
        memcpy(&e, from + 16, 16);
        f32x4 sum = ((a + e) + 4 * (b + d) + 6 * c) * (1.0f / 256);
        memcpy(to + x * 4, &sum, 16);
    }
}

CLONES void pixels_interpolate(uint8_t *to, const float *from, size_t count, const float *weights, size_t step) {
    size_t x = 0;
    for (; x < count; from += 4) {
        f32x4 p[4];
        memcpy(p, from, sizeof p);
        f32x8 a = __builtin_shufflevector(p[0], p[0], 0, 1, 2, 3, 0, 1, 2, 3);
        f32x8 b = __builtin_shufflevector(p[1], p[1], 0, 1, 2, 3, 0, 1, 2, 3);
        f32x8 c = __builtin_shufflevector(p[2], p[2], 0, 1, 2, 3, 0, 1, 2, 3);
        f32x8 d = __builtin_shufflevector(p[3], p[3], 0, 1, 2, 3, 0, 1, 2, 3);
        size_t phase = 0;
        for (; phase + 2 <= step && x + 2 <= count; phase += 2, x += 2) {
            f32x8 w0, w1, w2, w3;
            const float *w = weights + phase * 4;
            memcpy(&w0, w, 32);
            memcpy(&w1, w + step * 4, 32);
            memcpy(&w2, w + step * 8, 32);
            memcpy(&w3, w + step * 12, 32);
            f32x8 sum = (a * w0 + b * w1) + (c * w2 + d * w3);
            ROUND(sum, to + x * 4);
        }
        for (; phase < step && x < count; phase++, x++) {
            const float *w = weights + phase * 4;
            f32x4 sum = (p[0] * w[0] + p[1] * w[step * 4]) + (p[2] * w[step * 8] + p[3] * w[step * 12]);
            ROUND_ONE(sum, to + x * 4);
        }
    }
}

CLONES void pixels_round(uint8_t *to, const float *from, size_t count) {
    size_t x = 0;
    for (; x + 2 <= count; x += 2) {
        f32x8 value;
        memcpy(&value, from + x * 4, 32);
        ROUND(value, to + x * 4);
    }
    if (x < count) {
        f32x4 value;
        memcpy(&value, from + x * 4, 16);
        ROUND_ONE(value, to + x * 4);
    }
}
