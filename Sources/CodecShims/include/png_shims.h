/* libpng, whose errors are longjmp: each call here catches its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DIPPER_PNG_OK,
    DIPPER_PNG_BROKEN,
    /* The bytes end too early. */
    DIPPER_PNG_TRUNCATED,
    DIPPER_PNG_NO_MEMORY,
} dipper_png_status;

typedef struct {
    /* In pixels. */
    uint32_t width, height;
    bool is_grey, is_interlaced;
    /* By an alpha channel, or by colours that stand for nothing. */
    bool has_alpha;
    bool is_srgb, has_gamma, has_chromaticities;
    /* As in the file: 100,000 is 1. */
    int32_t gamma;
    /* x and y of white, red, green and blue, likewise. */
    int32_t chromaticities[8];
    /* NULL if there is none; valid until the reader is closed. */
    const uint8_t *profile;
    uint32_t profile_length;
} dipper_png_header;

typedef struct dipper_png_reader dipper_png_reader;

/* The bytes must stay until the reader is closed; with may_end_early all of them are used, also where they end inside of
   a chunk of pixels, which has no checksum then. NULL if there is no memory. */
dipper_png_reader *dipper_png_open(const uint8_t *bytes, size_t length, bool may_end_early);
void dipper_png_close(dipper_png_reader *reader);

/* What the last error was. */
const char *dipper_png_message(const dipper_png_reader *reader);

/* Reads up to the pixels. Chunks that take more than max_chunk bytes of memory are passed over or refused. */
dipper_png_status dipper_png_read_header(dipper_png_reader *reader, size_t max_chunk, dipper_png_header *header);

/* Makes ready for rows of three bytes a pixel, or of four with alpha, whatever the file has. channels: what the caller
   has memory for, 3 or 4; BROKEN if the rows would have another form. */
dipper_png_status dipper_png_start(dipper_png_reader *reader, int channels);

/* Reads the next rows, stride bytes apart. Of interlaced pictures the rows of a pass: seven passes over the same memory,
   each leaving the picture finer; with fills_blocks each pixel that has come also stands for those that have not.
   done: rows that were read, also if an error stops it. */
dipper_png_status dipper_png_read_rows(
    dipper_png_reader *reader, uint8_t *rows, size_t stride, size_t count, bool fills_blocks, size_t *done);

typedef struct dipper_png_writer dipper_png_writer;

/* NULL if there is no memory. */
dipper_png_writer *dipper_png_create(void);
/* channels: 3 or 4, of eight bits. level: of zlib, 0...9. filters: as of png_set_filter. */
dipper_png_status dipper_png_write_header(
    dipper_png_writer *writer, uint32_t width, uint32_t height, int channels, int level, int filters);
dipper_png_status dipper_png_write_rows(dipper_png_writer *writer, const uint8_t *rows, size_t stride, size_t count);
/* bytes: to be freed by the caller. */
dipper_png_status dipper_png_write_end(dipper_png_writer *writer, uint8_t **bytes, size_t *length);
void dipper_png_delete(dipper_png_writer *writer);
