#include "CPicturePeers.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

struct source {
    const uint8_t *next;
    size_t rest;
};

static void take(png_structp png, png_bytep to, size_t count) {
    struct source *source = png_get_io_ptr(png);
    if (count > source->rest) png_error(png, "the file ends too early");
    memcpy(to, source->next, count);
    source->next += count;
    source->rest -= count;
}

void peer_png_full(const uint8_t *bytes, size_t count, uint8_t *out) {
    struct source source = {bytes, count};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) abort();
    png_set_read_fn(png, &source, take);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_filler(png, 0xFF, PNG_FILLER_AFTER);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t stride = png_get_rowbytes(png, info);
    size_t height = png_get_image_height(png, info);
    uint8_t *pixels = out ? out : malloc(stride * height);
    png_bytep *rows = malloc(height * sizeof *rows);
    for (size_t row = 0; row < height; row++) rows[row] = pixels + row * stride;
    png_read_image(png, rows);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    free(rows);
    if (out == NULL) free(pixels);
}
