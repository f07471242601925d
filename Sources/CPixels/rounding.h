#pragma once
#include "clones.h"

// Rounds n / 255 to nearest; exact for all products of two bytes.
#define DIVIDED(n) (((n) + 128 + (((n) + 128) >> 8)) >> 8)

// Stores two pixels: alpha clamped to 0…255, colours clamped to 0…alpha, rounded to nearest.
#define ROUND(sum, to)                                                                     \
    do {                                                                                   \
        f32x8 rounded = (sum) + 0.5f;                                                      \
        f32x8 top = __builtin_shufflevector(rounded, rounded, 3, 3, 3, 3, 7, 7, 7, 7);     \
        top = __builtin_elementwise_min(top, (f32x8){0} + 255.0f);                         \
        rounded = __builtin_elementwise_min(rounded, top);                                 \
        rounded = __builtin_elementwise_max(rounded, (f32x8){0});                          \
        u8x8 bytes = __builtin_convertvector(__builtin_convertvector(rounded, i32x8), u8x8); \
        memcpy(to, &bytes, 8);                                                             \
    } while (0)

// Stores one pixel: alpha clamped to 0…255, colours clamped to 0…alpha, rounded to nearest.
#define ROUND_ONE(sum, to)                                                                 \
    do {                                                                                   \
        f32x4 one = (sum);                                                                 \
        uint8_t pair[8];                                                                   \
        ROUND(__builtin_shufflevector(one, one, 0, 1, 2, 3, 0, 1, 2, 3), pair);            \
        memcpy(to, pair, 4);                                                               \
    } while (0)
