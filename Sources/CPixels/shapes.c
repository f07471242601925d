#include "CPixels.h"
#include "rounding.h"

CLONES bool pixels_settle(uint8_t *pixels, size_t count) {
    uint32_t all = ~0u;
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, pixels + i * 4, 4);
        all &= value;
        uint8_t alpha = pixels[i * 4 + 3];
        for (int c = 0; c < 3; c++) {
            uint8_t colour = pixels[i * 4 + c];
            pixels[i * 4 + c] = colour < alpha ? colour : alpha;
        }
    }
    uint8_t bytes[4];
    memcpy(bytes, &all, 4);
    return bytes[3] == 255;
}

CLONES void pixels_mask(uint8_t *pixels, const float *coverage, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < 4; c++) pixels[i * 4 + c] = (uint8_t)((float)pixels[i * 4 + c] * coverage[i] + 0.5f);
}

CLONES void pixels_behind(uint8_t *pixels, size_t count, const uint8_t *color) {
    for (size_t i = 0; i < count; i++) {
        uint16_t rest = 255 - pixels[i * 4 + 3];
        for (int c = 0; c < 4; c++) {
            uint16_t product = color[c] * rest;
            pixels[i * 4 + c] += DIVIDED(product);
        }
    }
}

CLONES void pixels_ring(uint8_t *pixels, const float *outer, const float *inner, size_t count, const float *color) {
    float opacity = color[3] / 255;
    for (size_t i = 0; i < count; i++) {
        float part = outer[i] - inner[i];
        if (part <= 0) continue;
        float alpha = (float)pixels[i * 4 + 3] / 255;
        float room = outer[i] > alpha ? outer[i] : alpha;
        float rest = 1 - opacity * part / room;
        f32x4 result;
        for (int c = 0; c < 4; c++) result[c] = (float)pixels[i * 4 + c] * rest + color[c] * part;
        ROUND_ONE(result, pixels + i * 4);
    }
}

CLONES void pixels_recolor(uint8_t *pixels, size_t count, const float *matrix, const float *curve) {
    f32x4 columns[4];
    memcpy(columns, matrix, 64);
    for (size_t i = 0; i < count; i++) {
        float red = pixels[i * 4], green = pixels[i * 4 + 1], blue = pixels[i * 4 + 2], alpha = pixels[i * 4 + 3];
        if (curve != NULL) {
            if (alpha == 0) continue;
            float part = alpha / 255, scale = 255 / alpha;
            red = curve[(uint8_t)(red * scale + 0.5f)] * part;
            green = curve[(uint8_t)(green * scale + 0.5f)] * part;
            blue = curve[(uint8_t)(blue * scale + 0.5f)] * part;
        }
        f32x4 result = columns[0] * red + columns[1] * green + columns[2] * blue + columns[3] * alpha;
        ROUND_ONE(result, pixels + i * 4);
    }
}
