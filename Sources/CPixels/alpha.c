#include "CPixels.h"
#include "rounding.h"

bool pixels_are_sanitized(void) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    return true;
#endif
#endif
    return false;
}

CLONES bool pixels_premultiply(uint8_t *pixels, size_t count) {
    const u8x32 colours = {255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0,
                           255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0};
    u8x32 all = ~(u8x32){0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        u8x32 value;
        memcpy(&value, pixels + i * 4, 32);
        all &= value;
        u8x32 alpha = __builtin_shufflevector(
            value, value, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15, 19, 19, 19, 19, 23, 23, 23, 23, 27,
            27, 27, 27, 31, 31, 31, 31);
        // The factor of alpha itself is 255, so that alpha stays.
        alpha |= ~colours;
        u16x32 product = __builtin_convertvector(value, u16x32) * __builtin_convertvector(alpha, u16x32);
        product = DIVIDED(product);
        value = __builtin_convertvector(product, u8x32);
        memcpy(pixels + i * 4, &value, 32);
    }
    unsigned opaque = 255;
    for (int lane = 3; lane < 32; lane += 4) opaque &= all[lane];
    for (; i < count; i++) {
        unsigned alpha = pixels[i * 4 + 3];
        opaque &= alpha;
        for (int c = 0; c < 3; c++) {
            unsigned product = pixels[i * 4 + c] * alpha;
            pixels[i * 4 + c] = DIVIDED(product);
        }
    }
    return opaque == 255;
}

CLONES void pixels_unpremultiply(uint8_t *to, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t alpha = from[i * 4 + 3];
        // Single precision is exact enough: c × 255 / a + 0.5 is never closer to a whole number than 1 / 510 without
        // being one.
        float scale = alpha ? 255.0f / (float)alpha : 0;
        for (int c = 0; c < 3; c++) {
            float value = (float)from[i * 4 + c] * scale + 0.5f;
            to[i * 4 + c] = (uint8_t)(value > 255 ? 255 : value);
        }
        to[i * 4 + 3] = alpha;
    }
}

CLONES bool pixels_are_opaque(const uint8_t *pixels, size_t count) {
    uint32_t all = ~0u;
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, pixels + i * 4, 4);
        all &= value;
    }
    uint8_t bytes[4];
    memcpy(bytes, &all, 4);
    return bytes[3] == 255;
}

CLONES void pixels_drop_alpha(uint8_t *to, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (int c = 0; c < 3; c++) to[i * 3 + c] = from[i * 4 + c];
    }
}

CLONES void pixels_add_alpha(uint8_t *to, const uint8_t *from, size_t count) {
    size_t i = 0;
    // Each step reads sixteen bytes for four pixels of twelve bytes, so the last few pixels are done one by one.
    for (; i + 10 <= count; i += 8) {
        u8x16 a, b;
        memcpy(&a, from + i * 3, 16);
        memcpy(&b, from + i * 3 + 12, 16);
        const u8x16 full = ~(u8x16){0};
        a = __builtin_shufflevector(a, full, 0, 1, 2, 16, 3, 4, 5, 16, 6, 7, 8, 16, 9, 10, 11, 16);
        b = __builtin_shufflevector(b, full, 0, 1, 2, 16, 3, 4, 5, 16, 6, 7, 8, 16, 9, 10, 11, 16);
        memcpy(to + i * 4, &a, 16);
        memcpy(to + i * 4 + 16, &b, 16);
    }
    for (; i < count; i++) {
        uint8_t red = from[i * 3], green = from[i * 3 + 1], blue = from[i * 3 + 2];
        to[i * 4] = red;
        to[i * 4 + 1] = green;
        to[i * 4 + 2] = blue;
        to[i * 4 + 3] = 255;
    }
}

CLONES void pixels_swap_red_blue(uint8_t *restrict to, const uint8_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (int c = 0; c < 3; c++) to[i * 4 + c] = from[i * 4 + 2 - c];
        to[i * 4 + 3] = from[i * 4 + 3];
    }
}
