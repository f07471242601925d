#include "CPixels.h"
#include "rounding.h"

#define INLINE static inline __attribute__((always_inline))

// `height` is a constant after inlining.
INLINE void add_rows(
    uint16_t *sums, const uint8_t *rows, size_t stride, const size_t height, size_t width, uint16_t kept) {
    for (size_t i = 0; i < width; i++) {
        uint16_t sum = sums[i] & kept;
        for (size_t row = 0; row < height; row++) sum += rows[row * stride + i];
        sums[i] = sum;
    }
}

CLONES void pixels_add_rows(
    uint16_t *sums, const uint8_t *rows, size_t stride, size_t height, size_t width, bool begins) {
    uint16_t kept = begins ? 0 : 0xFFFF;
    // Four rows at a time, so that the sums are read and written less often.
    for (; height >= 4; height -= 4, rows += stride * 4, kept = 0xFFFF) add_rows(sums, rows, stride, 4, width, kept);
    switch (height) {
    case 3: add_rows(sums, rows, stride, 3, width, kept); break;
    case 2: add_rows(sums, rows, stride, 2, width, kept); break;
    case 1: add_rows(sums, rows, stride, 1, width, kept); break;
    }
}

CLONES void pixels_widen(float *to, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = from[i];
}

CLONES void pixels_pair_bytes(int16_t *to, const uint8_t *from, size_t width) {
    for (; width >= 2; width -= 2, from += 8, to += 16) {
        u8x8 bytes;
        memcpy(&bytes, from, 8);
        bytes = __builtin_shufflevector(bytes, bytes, 0, 4, 1, 5, 2, 6, 3, 7);
        i16x8 pair = __builtin_convertvector(bytes, i16x8) << 7;
        memcpy(to, &pair, 16);
    }
    for (int color = 0; width && color < 4; color++) to[color * 2] = (int16_t)(from[color] << 7);
}

CLONES void pixels_pair_squares(int16_t *to, const uint8_t *from, size_t stride, size_t width) {
    const uint8_t *below = from + stride;
    for (; width >= 4; width -= 4, from += 16, below += 16, to += 16) {
        u8x16 a, b;
        memcpy(&a, from, 16);
        memcpy(&b, below, 16);
#define LEFT(v) __builtin_convertvector(__builtin_shufflevector(v, v, 0, 8, 1, 9, 2, 10, 3, 11), i16x8)
#define RIGHT(v) __builtin_convertvector(__builtin_shufflevector(v, v, 4, 12, 5, 13, 6, 14, 7, 15), i16x8)
        i16x8 pair = (LEFT(a) + RIGHT(a) + LEFT(b) + RIGHT(b)) << 5;
        memcpy(to, &pair, 16);
    }
    for (size_t x = 0; x < width; x++) {
        for (size_t color = 0; color < 4; color++) {
            int16_t sum = (int16_t)((from[x * 4 + color] + below[x * 4 + color]) << 5);
            int16_t *place = to + color * 2 + x / 2;
            *place = (int16_t)(sum + (x % 2 ? *place : 0));
        }
    }
}

INLINE void add_box(uint16_t *to, const uint16_t *sums, size_t count, uint32_t scale, bool is_small) {
    u16x4 value, sum = {0};
    u32x4 total = {0};
    for (size_t i = 0; i < count; i++) {
        memcpy(&value, sums + i * 4, 8);
        if (is_small) sum += value;
        else total += __builtin_convertvector(value, u32x4);
    }
    // For large boxes the scale would be too coarse: a plain colour would not stay as it is.
    if (is_small) total = (__builtin_convertvector(sum, u32x4) * scale + (1 << 15)) >> 16;
    else total = (total * 128 + scale / 2) / scale;
    sum = __builtin_convertvector(total, u16x4);
    memcpy(to, &sum, 8);
}

INLINE void pair_boxes(int16_t *to, const uint16_t *sums, size_t width, size_t box, uint32_t scale, bool is_small) {
    for (size_t x = 0; x < width; x += 2 * box, to += 16, sums += 8 * box) {
        uint16_t both[8] = {0};
        size_t rest = width - x;
        add_box(both, sums, rest < box ? rest : box, scale, is_small);
        if (rest > box) add_box(both + 4, sums + box * 4, rest < 2 * box ? rest - box : box, scale, is_small);
        i16x8 pair;
        memcpy(&pair, both, 16);
        pair = __builtin_shufflevector(pair, pair, 0, 4, 1, 5, 2, 6, 3, 7);
        memcpy(to, &pair, 16);
    }
}

CLONES void pixels_pair_boxes(int16_t *to, const uint16_t *sums, size_t width, size_t box, size_t area) {
    // 16 bits hold the sum of 257 bytes, and 32 bits 128 times that of 65,536.
    if (area <= 257) pair_boxes(to, sums, width, box, (uint32_t)((128 << 16) / area), true);
    else pair_boxes(to, sums, width, box, (uint32_t)area, false);
}

// Multiplies eight pairs of numbers by a pair of weights, and adds up each pair.
INLINE void weigh(i32x8 *sum, const int16_t *pairs, const int16_t *weights) {
    int32_t both;
    memcpy(&both, weights, 4);
#if defined(__SSE2__)
    // The compiler joins the two if the machine has longer vectors.
    i16x8 values[2], weight = (i16x8)((i32x4){0} + both);
    memcpy(values, pairs, 32);
    i32x4 upper = __builtin_ia32_pmaddwd128(values[0], weight), lower = __builtin_ia32_pmaddwd128(values[1], weight);
    *sum += __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    for (int i = 0; i < 8; i++) (*sum)[i] += pairs[2 * i] * weights[0] + pairs[2 * i + 1] * weights[1];
#endif
}

CLONES void pixels_weigh_row(
    int16_t *to, size_t width, const int16_t *from, const int32_t *starts, const int32_t *counts,
    const int16_t *weights, size_t taps) {
    for (size_t x = 0; x < width; x++, to += 8, weights += taps) {
        const int16_t *source = from + (size_t)starts[x] * 16;
        size_t count = (size_t)counts[x], i = 0;
        // Two sums, because each addition to a single sum would wait for the one before.
        i32x8 even = {0}, odd = {0};
        for (; i + 2 <= count; i += 2) {
            weigh(&even, source + i * 16, weights + i * 2);
            weigh(&odd, source + i * 16 + 16, weights + i * 2 + 2);
        }
        if (i < count) weigh(&even, source + i * 16, weights + i * 2);
        even = (even + odd + (1 << 14)) >> 15;
        i32x4 upper = __builtin_shufflevector(even, even, 0, 1, 2, 3);
        i32x4 lower = __builtin_shufflevector(even, even, 4, 5, 6, 7);
        i32x4 pairs = (upper & 0xFFFF) | (lower << 16);
        memcpy(to, &pairs, 16);
    }
}

// Stores two pixels: alpha clamped to 0…255, colours clamped to 0…alpha, rounded to nearest.
INLINE void round_pixels(uint8_t *to, const i32x8 *sum) {
    i32x8 rounded = (*sum + (1 << 19)) >> 20;
    i32x8 top = __builtin_shufflevector(rounded, rounded, 3, 3, 3, 3, 7, 7, 7, 7);
    top = __builtin_elementwise_min(top, (i32x8){0} + 255);
    rounded = __builtin_elementwise_max(__builtin_elementwise_min(rounded, top), (i32x8){0});
    u8x8 bytes = __builtin_convertvector(rounded, u8x8);
    memcpy(to, &bytes, 8);
}

CLONES void pixels_weigh_rows(
    uint8_t *to, size_t width, const int16_t *ring, size_t rows, size_t first, const int16_t *weights, size_t count) {
    size_t length = width * 8, i = 0;
    // The number of rows before the end of the ring, after which its first row follows.
    size_t before = rows - first < count ? rows - first : count;
    for (; i + 32 <= length; i += 32) {
        i32x8 a = {0}, b = {0};
        const int16_t *row = ring + first * length + i;
        for (size_t t = 0; t < count; t++, row += length) {
            if (t == before) row = ring + i;
            weigh(&a, row, weights + t * 2);
            weigh(&b, row + 16, weights + t * 2);
        }
        round_pixels(to + i / 2, &a);
        round_pixels(to + i / 2 + 8, &b);
    }
    for (; i < length; i += 8) {
        i32x8 a = {0};
        const int16_t *row = ring + first * length + i;
        for (size_t t = 0; t < count; t++, row += length) {
            if (t == before) row = ring + i;
            int16_t pixel[16] = {0};
            memcpy(pixel, row, 16);
            weigh(&a, pixel, weights + t * 2);
        }
        uint8_t two[8];
        round_pixels(two, &a);
        memcpy(to + i / 2, two, 4);
    }
}
