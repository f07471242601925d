/* For mremap. */
#define _GNU_SOURCE

#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "output.h"
#include "png_shims.h"

struct dipper_png_reader {
    png_structp png;
    png_infop info;
    const uint8_t *next;
    size_t length;
    /* The bytes with a last chunk that is complete; NULL if the caller's bytes are read. */
    uint8_t *closed;
    dipper_png_status status;
    char message[96];
};

static void fail(png_structp png, png_const_charp message) {
    dipper_png_reader *reader = png_get_error_ptr(png);
    if (reader) {
        if (reader->status == DIPPER_PNG_OK) reader->status = DIPPER_PNG_BROKEN;
        strncpy(reader->message, message ? message : "", sizeof reader->message - 1);
    }
    png_longjmp(png, 1);
}

/* Nothing is printed. */
static void warn(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void take(png_structp png, png_bytep to, size_t length) {
    dipper_png_reader *reader = png_get_io_ptr(png);
    if (length > reader->length) {
        reader->status = DIPPER_PNG_TRUNCATED;
        png_error(png, "the bytes end too early");
    }
    memcpy(to, reader->next, length);
    reader->next += length;
    reader->length -= length;
}

/* libpng takes the data of a chunk by thousands of bytes, or not at all. To use all the bytes of an incomplete chunk of
   pixels, this function makes a copy in which the chunk ends where the bytes end. Returns false without memory. */
static bool close_last_chunk(dipper_png_reader *reader) {
    const uint8_t *bytes = reader->next;
    size_t length = reader->length, at = 8;
    while (length > at && length - at > 8) {
        const uint8_t *head = bytes + at;
        size_t announced = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        size_t there = length - at - 8;
        if (there < announced + 4) {
            if (memcmp(head + 4, "IDAT", 4) != 0) return true;
            if (there > announced) there = announced;
            size_t end = at + 8 + there;
            reader->closed = malloc(end + 4);
            if (!reader->closed) return false;
            memcpy(reader->closed, bytes, end);
            png_save_uint_32(reader->closed + at, (png_uint_32)there);
            png_save_uint_32(
                reader->closed + end, (png_uint_32)crc32(crc32(0, head + 4, 4), head + 8, (uInt)there));
            reader->next = reader->closed;
            reader->length = end + 4;
            return true;
        }
        at += announced + 12;
    }
    return true;
}

dipper_png_reader *dipper_png_open(const uint8_t *bytes, size_t length, bool may_end_early) {
    dipper_png_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    reader->next = bytes;
    reader->length = length;
    if (!may_end_early || close_last_chunk(reader)) {
        reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, fail, warn);
        if (reader->png) reader->info = png_create_info_struct(reader->png);
    }
    if (!reader->info) {
        dipper_png_close(reader);
        return NULL;
    }
    return reader;
}

void dipper_png_close(dipper_png_reader *reader) {
    if (!reader) return;
    if (reader->png) png_destroy_read_struct(&reader->png, &reader->info, NULL);
    free(reader->closed);
    free(reader);
}

const char *dipper_png_message(const dipper_png_reader *reader) { return reader->message; }

static dipper_png_status failed(dipper_png_reader *reader) {
    return reader->status == DIPPER_PNG_OK ? DIPPER_PNG_BROKEN : reader->status;
}

dipper_png_status dipper_png_read_header(dipper_png_reader *reader, size_t max_chunk, dipper_png_header *header) {
    png_structp png = reader->png;
    png_infop info = reader->info;
    if (setjmp(png_jmpbuf(png))) return failed(reader);
    png_set_read_fn(png, reader, take);
    /* The caller limits the number of pixels instead. */
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png, max_chunk);
    png_set_chunk_cache_max(png, 32);
#ifdef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
    /* Chunks that nobody reads are not unpacked. After sRGB libpng would ignore a profile, which counts more. */
    static const png_byte passed_over[] =
        "bKGD\0eXIf\0hIST\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, passed_over, sizeof passed_over / 5);
#endif
#ifdef PNG_MAXIMUM_INFLATE_WINDOW
    /* Files of old writers announce a window smaller than the one they use. */
    png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
#endif
    png_read_info(png, info);

    memset(header, 0, sizeof *header);
    header->width = png_get_image_width(png, info);
    header->height = png_get_image_height(png, info);
    png_byte type = png_get_color_type(png, info);
    header->is_grey = !(type & PNG_COLOR_MASK_COLOR);
    header->is_interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    header->has_alpha = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(png, info, PNG_INFO_tRNS);
    int method;
    png_fixed_point gamma;
    header->has_gamma = png_get_gAMA_fixed(png, info, &gamma) != 0;
    if (header->has_gamma) header->gamma = gamma;
    png_fixed_point c[8];
    header->has_chromaticities =
        png_get_cHRM_fixed(png, info, &c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7]) != 0;
    if (header->has_chromaticities)
        for (int i = 0; i < 8; i++) header->chromaticities[i] = c[i];
    png_charp name;
    png_bytep profile;
    png_uint_32 length;
    if (png_get_iCCP(png, info, &name, &method, &profile, &length)) {
        header->profile = profile;
        header->profile_length = length;
    }
    return DIPPER_PNG_OK;
}

bool dipper_png_describe(const dipper_png_reader *reader, fastpng_header *header) {
    png_structp png = reader->png;
    png_infop info = reader->info;
    if (reader->closed || png_get_interlace_type(png, info) != PNG_INTERLACE_NONE) return false;
    memset(header, 0, sizeof *header);
    header->width = png_get_image_width(png, info);
    header->height = png_get_image_height(png, info);
    header->depth = png_get_bit_depth(png, info);
    header->color_type = png_get_color_type(png, info);
    png_bytep alphas = NULL;
    png_color_16p key = NULL;
    int alpha_count = 0, color_count = 0;
    bool has_transparency = png_get_tRNS(png, info, &alphas, &alpha_count, &key) != 0;
    if (header->color_type == PNG_COLOR_TYPE_PALETTE) {
        png_colorp colors;
        if (!png_get_PLTE(png, info, &colors, &color_count)) return false;
        /* As in libpng, an index beyond the palette is black. */
        for (int i = 0; i < 256; i++) {
            uint8_t *color = header->palette + i * 4;
            if (i < color_count) memcpy(color, (uint8_t[]){colors[i].red, colors[i].green, colors[i].blue}, 3);
            color[3] = has_transparency && i < alpha_count ? alphas[i] : 255;
        }
    } else if (has_transparency && key) {
        header->has_key = true;
        bool is_grey = header->color_type == PNG_COLOR_TYPE_GRAY;
        header->key[0] = is_grey ? key->gray : key->red;
        header->key[1] = key->green;
        header->key[2] = key->blue;
    }
    /* The first eight bytes of the first IDAT have been read. */
    header->chunks = reader->next - 8;
    header->length = reader->length + 8;
    return true;
}

dipper_png_status dipper_png_start(dipper_png_reader *reader, int channels) {
    png_structp png = reader->png;
    if (setjmp(png_jmpbuf(png))) return failed(reader);
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, reader->info);
    size_t width = png_get_image_width(png, reader->info);
    bool has_alpha = (png_get_color_type(png, reader->info) & PNG_COLOR_MASK_ALPHA) != 0;
    /* The caller has computed the memory for rows of this form from the header. */
    if (png_get_channels(png, reader->info) != channels || has_alpha != (channels == 4) ||
        png_get_bit_depth(png, reader->info) != 8 ||
        png_get_rowbytes(png, reader->info) != width * (size_t)channels)
        png_error(png, "the rows have another form");
    return DIPPER_PNG_OK;
}

dipper_png_status dipper_png_read_rows(
    dipper_png_reader *reader, uint8_t *rows, size_t stride, size_t count, bool fills_blocks, size_t *done) {
    png_structp png = reader->png;
    *done = 0;
    if (setjmp(png_jmpbuf(png))) return failed(reader);
    for (; *done < count; ++*done, rows += stride) {
        if (fills_blocks)
            png_read_row(png, NULL, rows);
        else
            png_read_row(png, rows, NULL);
    }
    return DIPPER_PNG_OK;
}

/* Writing */

struct dipper_png_writer {
    png_structp png;
    png_infop info;
    uint8_t *bytes;
    size_t length, capacity;
};

static void put(png_structp png, png_bytep from, size_t length) {
    dipper_png_writer *writer = png_get_io_ptr(png);
    if (length > writer->capacity - writer->length) {
        size_t capacity = writer->capacity * 2 + length + 65536;
        uint8_t *bytes = capacity > writer->capacity ? dipper_grow(writer->bytes, writer->capacity, capacity) : NULL;
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
    dipper_drop(writer->bytes, writer->capacity);
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

dipper_png_status dipper_png_write_row(dipper_png_writer *writer, const uint8_t *row) {
    if (setjmp(png_jmpbuf(writer->png))) return DIPPER_PNG_BROKEN;
    png_write_row(writer->png, row);
    return DIPPER_PNG_OK;
}

dipper_png_status dipper_png_write_end(dipper_png_writer *writer, uint8_t **bytes, size_t *length) {
    png_structp png = writer->png;
    if (setjmp(png_jmpbuf(png))) return DIPPER_PNG_BROKEN;
    png_write_end(png, NULL);
    *bytes = dipper_finish(writer->bytes, writer->capacity, writer->length);
    if (!*bytes) return DIPPER_PNG_BROKEN;
    *length = writer->length;
    writer->bytes = NULL;
    writer->capacity = 0;
    return DIPPER_PNG_OK;
}
