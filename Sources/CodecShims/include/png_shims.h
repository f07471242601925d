/* PNG by libpng. libpng reports errors by longjmp: each call here catches its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <CFastPNG.h>

typedef enum {
    DIPPER_PNG_OK,
    DIPPER_PNG_BROKEN,
    /* The bytes end too early. */
    DIPPER_PNG_TRUNCATED,
} dipper_png_status;

typedef struct {
    /* In pixels. */
    uint32_t width, height;
    bool is_grey, is_interlaced;
    /* Whether there is an alpha channel, or colours that stand for transparency. */
    bool has_alpha;
    bool has_gamma, has_chromaticities;
    /* The gamma as in the file: 100,000 is 1. */
    int32_t gamma;
    /* The x and y of white, red, green and blue, as in the file: 100,000 is 1. */
    int32_t chromaticities[8];
    /* The ICC profile, valid until the reader is closed; NULL if there is none. */
    const uint8_t *profile;
    uint32_t profile_length;
} dipper_png_header;

typedef struct dipper_png_reader dipper_png_reader;

/* Creates a reader. The bytes must stay until the reader is closed. With may_end_early the reader uses all bytes even
   if they end inside of a chunk of pixels, whose checksum is then not checked. Returns NULL if there is no memory. */
dipper_png_reader *dipper_png_open(const uint8_t *bytes, size_t length, bool may_end_early);
void dipper_png_close(dipper_png_reader *reader);

/* Returns the text of the last error. */
const char *dipper_png_message(const dipper_png_reader *reader);

/* Reads the file up to the pixels. Chunks that take more than max_chunk bytes of memory are skipped or refused. */
dipper_png_status dipper_png_read_header(dipper_png_reader *reader, size_t max_chunk, dipper_png_header *header);

/* Describes the picture for a decoder of complete pictures other than libpng; between the two calls beside this one.
   Returns false if the picture is interlaced, or ends early. */
bool dipper_png_describe(const dipper_png_reader *reader, fastpng_header *header);

/* Prepares for rows of three bytes a pixel, or of four bytes with alpha, whatever the form of the file. channels: the
   number that the caller has memory for, 3 or 4. Returns BROKEN if the rows would have another form. */
dipper_png_status dipper_png_start(dipper_png_reader *reader, int channels);

/* Reads the next rows, stride bytes apart. In an interlaced picture these are the rows of a pass: the caller passes the
   same memory for seven passes, and each pass makes the picture finer. With fills_blocks each pixel that has come also
   stands for those that have not. done: the number of rows that were read, even if an error ends the call. */
dipper_png_status dipper_png_read_rows(
    dipper_png_reader *reader, uint8_t *rows, size_t stride, size_t count, bool fills_blocks, size_t *done);

typedef struct dipper_png_writer dipper_png_writer;

/* Creates a writer. Returns NULL if there is no memory. */
dipper_png_writer *dipper_png_create(void);
/* Writes the header. channels: 3 or 4, of eight bits each. level: zlib's, 0 to 9. filters: as for png_set_filter. */
dipper_png_status dipper_png_write_header(
    dipper_png_writer *writer, uint32_t width, uint32_t height, int channels, int level, int filters);
dipper_png_status dipper_png_write_row(dipper_png_writer *writer, const uint8_t *row);
/* Ends the file and hands over its bytes, which the caller must free with dipper_output_free. */
dipper_png_status dipper_png_write_end(dipper_png_writer *writer, uint8_t **bytes, size_t *length);
void dipper_png_delete(dipper_png_writer *writer);
