/* JPEG by libjpeg-turbo. Each call catches libjpeg's errors itself: no jump passes over a caller's frame. Nothing is
   printed. One thread at a time for each reader or writer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dipper_jpeg_status {
    DIPPER_JPEG_OK,
    /* The step is done, and there is more to do. */
    DIPPER_JPEG_MORE,
    /* The bytes end too early. Said once; what follows is made of what is there. */
    DIPPER_JPEG_TRUNCATED,
    /* See dipper_jpeg_message. */
    DIPPER_JPEG_BROKEN,
    /* The same after complete scans, which another reader may stop after. */
    DIPPER_JPEG_BROKEN_OFF,
    DIPPER_JPEG_TOO_MANY_SCANS,
    DIPPER_JPEG_NO_MEMORY,
} dipper_jpeg_status;

typedef enum dipper_jpeg_colors {
    DIPPER_JPEG_GREY,
    DIPPER_JPEG_RGB,
    DIPPER_JPEG_CMYK,
    DIPPER_JPEG_UNKNOWN,
} dipper_jpeg_colors;

typedef struct dipper_jpeg_header {
    int64_t width, height;
    dipper_jpeg_colors colors;
    /* Written by a program of Adobe's or like one: CMYK is stored as 255 minus the ink. */
    bool is_adobe;
    /* All coefficients are held until the last scan has come. */
    bool has_several_scans;
    bool is_arithmetic;
    int64_t coefficient_bytes;
} dipper_jpeg_header;

typedef struct dipper_jpeg_reader dipper_jpeg_reader;

/* A reader of bytes that stay where they are until it is closed; null without memory. */
dipper_jpeg_reader *dipper_jpeg_open(const uint8_t *bytes, size_t count);
void dipper_jpeg_close(dipper_jpeg_reader *reader);

/* OK, TRUNCATED, BROKEN or NO_MEMORY. */
dipper_jpeg_status dipper_jpeg_read_header(dipper_jpeg_reader *reader, dipper_jpeg_header *header);

/* Begins to decode to eighths of the size, as RGBA or, if the colours are CMYK, as four bytes as they are stored.
   `memory` is the most that libjpeg may take, in bytes. */
dipper_jpeg_status dipper_jpeg_start(dipper_jpeg_reader *reader, int eighths, size_t memory);

/* The size to which is decoded; known after the start. */
int64_t dipper_jpeg_output_width(const dipper_jpeg_reader *reader);
int64_t dipper_jpeg_output_height(const dipper_jpeg_reader *reader);

/* For files of several scans, before the first row: takes in some rows of blocks of some scan. OK when all scans are
   in, or `stop_after` of them unless that is 0; else MORE. No rows can be read after BROKEN_OFF. */
dipper_jpeg_status dipper_jpeg_absorb(dipper_jpeg_reader *reader, int steps, int64_t max_scans, int64_t stop_after);
int64_t dipper_jpeg_complete_scans(const dipper_jpeg_reader *reader);

/* Decodes rows into memory of `stride` bytes each. TRUNCATED says that only `done` of them have data behind them:
   the bytes ended in the only scan, or in the first. */
dipper_jpeg_status dipper_jpeg_read_rows(
    dipper_jpeg_reader *reader, void *memory, size_t stride, int64_t rows, int64_t *done);

/* What libjpeg says about the last failure. */
const char *dipper_jpeg_message(const dipper_jpeg_reader *reader);

typedef struct dipper_jpeg_writer dipper_jpeg_writer;

/* A writer of a file of a size; null without memory. */
dipper_jpeg_writer *dipper_jpeg_create(int64_t width, int64_t height, int quality, bool halves_colors);
void dipper_jpeg_discard(dipper_jpeg_writer *writer);

/* Encodes rows of RGBA whose alpha is passed over. */
dipper_jpeg_status dipper_jpeg_write_rows(dipper_jpeg_writer *writer, const void *memory, size_t stride, int64_t rows);

/* Ends the file and hands over its bytes, which are the caller's to free. */
dipper_jpeg_status dipper_jpeg_end(dipper_jpeg_writer *writer, uint8_t **bytes, size_t *count);
