#include "CPicturePeers.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

enum { rowsAtOnce = 4 };

static void decode(const uint8_t *bytes, size_t count, int eighths, uint8_t **out, int *width, int *height) {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, bytes, count);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = JCS_EXT_RGBA;
    jpeg.scale_num = eighths;
    jpeg.scale_denom = 8;
    jpeg_start_decompress(&jpeg);
    size_t stride = (size_t)jpeg.output_width * 4;
    if (*out == NULL) *out = malloc(stride * jpeg.output_height);
    while (jpeg.output_scanline < jpeg.output_height) {
        JSAMPROW rows[rowsAtOnce];
        JDIMENSION rest = jpeg.output_height - jpeg.output_scanline;
        JDIMENSION wanted = rest < rowsAtOnce ? rest : rowsAtOnce;
        for (JDIMENSION row = 0; row < wanted; row++) rows[row] = *out + (jpeg.output_scanline + row) * stride;
        jpeg_read_scanlines(&jpeg, rows, wanted);
    }
    *width = jpeg.output_width;
    *height = jpeg.output_height;
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
}

void peer_jpeg_full(const uint8_t *bytes, size_t count, uint8_t *out) {
    int width, height;
    uint8_t *pixels = out;
    decode(bytes, count, 8, &pixels, &width, &height);
    if (out == NULL) free(pixels);
}

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

// How much of pixel `index` lies between `start` and `end`.
static float overlap(int index, double start, double end) {
    return (float)(least(index + 1, end) - most(index, start));
}

// Each pixel is the mean of the area it covers: rows first, then along the row.
static void average(
    const uint8_t *from, int fromWidth, int fromHeight, uint8_t *to, int toWidth, int toHeight, float *sums) {
    double across = (double)fromWidth / toWidth, down = (double)fromHeight / toHeight;
    float share = (float)(1 / (across * down));
    int values = fromWidth * 4;
    for (int y = 0; y < toHeight; y++) {
        double top = y * down, bottom = least(top + down, fromHeight);
        for (int value = 0; value < values; value++) sums[value] = 0;
        for (int row = (int)top; row < bottom; row++) {
            float weight = overlap(row, top, bottom) * share;
            const uint8_t *pixels = from + (size_t)row * values;
            for (int value = 0; value < values; value++) sums[value] += weight * pixels[value];
        }
        uint8_t *target = to + (size_t)y * toWidth * 4;
        for (int x = 0; x < toWidth; x++) {
            double left = x * across, right = least(left + across, fromWidth);
            float mean[4] = {0.5f, 0.5f, 0.5f, 0.5f};
            for (int column = (int)left; column < right; column++) {
                float weight = overlap(column, left, right);
                for (int channel = 0; channel < 4; channel++) mean[channel] += weight * sums[column * 4 + channel];
            }
            for (int channel = 0; channel < 4; channel++) target[x * 4 + channel] = (uint8_t)least(mean[channel], 255);
        }
    }
}

void peer_jpeg_small(
    const uint8_t *bytes, size_t count, uint8_t *scratch, uint8_t *out, int width, int height) {
    int fromWidth, fromHeight;
    decode(bytes, count, 1, &scratch, &fromWidth, &fromHeight);
    float *sums = malloc(sizeof(float) * 4 * (size_t)fromWidth);
    average(scratch, fromWidth, fromHeight, out, width, height, sums);
    free(sums);
}
