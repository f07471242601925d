#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "png_shims.h"

struct dipper_png_writer {
    png_structp png;
    png_infop info;
    uint8_t *bytes;
    size_t length, capacity;
};

static void fail(png_structp png, png_const_charp message) {
    (void)message;
    png_longjmp(png, 1);
}

static void warn(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void put(png_structp png, png_bytep from, size_t length) {
    dipper_png_writer *writer = png_get_io_ptr(png);
    if (length > writer->capacity - writer->length) {
        size_t capacity = writer->capacity * 2 + length + 65536;
        uint8_t *bytes = capacity > writer->capacity ? realloc(writer->bytes, capacity) : NULL;
        if (!bytes) png_error(png, "no memory");
        writer->bytes = bytes;
        writer->capacity = capacity;
    }
    memcpy(writer->bytes + writer->length, from, length);
    writer->length += length;
}

static void flush(png_structp png) { (void)png; }

dipper_png_writer *dipper_png_create(void) {
    dipper_png_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return NULL;
    writer->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, fail, warn);
    if (writer->png) writer->info = png_create_info_struct(writer->png);
    if (!writer->info) {
        dipper_png_delete(writer);
        return NULL;
    }
    return writer;
}

void dipper_png_delete(dipper_png_writer *writer) {
    if (!writer) return;
    if (writer->png) png_destroy_write_struct(&writer->png, &writer->info);
    free(writer->bytes);
    free(writer);
}

dipper_png_status dipper_png_write_header(
    dipper_png_writer *writer, uint32_t width, uint32_t height, int channels, int level, int filters) {
    png_structp png = writer->png;
    if (setjmp(png_jmpbuf(png))) return DIPPER_PNG_BROKEN;
    png_set_write_fn(png, writer, put, flush);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(
        png, writer->info, width, height, 8, channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB,
        PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_sRGB(png, writer->info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_set_compression_level(png, level);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, filters);
    /* A larger buffer gives fewer and larger chunks. */
    png_set_compression_buffer_size(png, 65536);
    png_write_info(png, writer->info);
    return DIPPER_PNG_OK;
}

dipper_png_status dipper_png_write_rows(dipper_png_writer *writer, const uint8_t *rows, size_t stride, size_t count) {
    png_structp png = writer->png;
    if (setjmp(png_jmpbuf(png))) return DIPPER_PNG_BROKEN;
    for (size_t i = 0; i < count; i++) png_write_row(png, rows + i * stride);
    return DIPPER_PNG_OK;
}

dipper_png_status dipper_png_write_end(dipper_png_writer *writer, uint8_t **bytes, size_t *length) {
    png_structp png = writer->png;
    if (setjmp(png_jmpbuf(png))) return DIPPER_PNG_BROKEN;
    png_write_end(png, NULL);
    *bytes = writer->bytes;
    *length = writer->length;
    writer->bytes = NULL;
    return DIPPER_PNG_OK;
}
