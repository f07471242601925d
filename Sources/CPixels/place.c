#include "CPixels.h"
#include "clones.h"

static void reverse(uint8_t *to, const uint8_t *from, size_t width) {
    for (size_t x = 0; x < width; x++) memcpy(to + (width - 1 - x) * 4, from + x * 4, 4);
}

CLONES void pixels_place(
    uint8_t *to, ptrdiff_t step_x, ptrdiff_t step_y, const uint8_t *from, size_t stride, size_t width, size_t height) {
    if (step_x == 4 || step_x == -4) {
        for (size_t y = 0; y < height; y++, to += step_y, from += stride) {
            if (step_x == 4)
                memcpy(to, from, width * 4);
            else
                reverse(to - (width - 1) * 4, from, width);
        }
        return;
    }
    // Columns become rows: blocks of four rows with four pixels each.
    size_t y = 0;
    for (; y + 4 <= height; y += 4) {
        const uint8_t *source = from + y * stride;
        // The lowest of the four places in a row of the result.
        uint8_t *target = to + (step_y > 0 ? (ptrdiff_t)y * 4 : -(ptrdiff_t)(y + 3) * 4);
        const uint8_t *r0 = source, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
        if (step_y < 0) {
            const uint8_t *swap = r0;
            r0 = r3, r3 = swap, swap = r1, r1 = r2, r2 = swap;
        }
        size_t x = 0;
        for (; x + 4 <= width; x += 4) {
            u32x4 a, b, c, d;
            memcpy(&a, r0 + x * 4, 16);
            memcpy(&b, r1 + x * 4, 16);
            memcpy(&c, r2 + x * 4, 16);
            memcpy(&d, r3 + x * 4, 16);
            u32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ba = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            u32x4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), dc = __builtin_shufflevector(c, d, 2, 6, 3, 7);
            u32x4 out[4] = {
                __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                __builtin_shufflevector(ba, dc, 0, 1, 4, 5), __builtin_shufflevector(ba, dc, 2, 3, 6, 7)};
            for (int k = 0; k < 4; k++, target += step_x) memcpy(target, &out[k], 16);
        }
        for (; x < width; x++, target += step_x) {
            memcpy(target, r0 + x * 4, 4);
            memcpy(target + 4, r1 + x * 4, 4);
            memcpy(target + 8, r2 + x * 4, 4);
            memcpy(target + 12, r3 + x * 4, 4);
        }
    }
    for (; y < height; y++) {
        uint8_t *target = to + (ptrdiff_t)y * step_y;
        for (size_t x = 0; x < width; x++, target += step_x) memcpy(target, from + y * stride + x * 4, 4);
    }
}
