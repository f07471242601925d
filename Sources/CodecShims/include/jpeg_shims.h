/* JPEG by libjpeg-turbo. Each call catches libjpeg's errors itself: no jump crosses a caller's frame. Nothing is
   printed. Only one thread at a time may use a reader or a writer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dipper_jpeg_status {
    DIPPER_JPEG_OK,
    /* The step is done, and there is more to do. */
    DIPPER_JPEG_MORE,
    /* The bytes end too early. Returned once; later calls work with the bytes that are there. */
    DIPPER_JPEG_TRUNCATED,
    /* An error; dipper_jpeg_message describes it. */
    DIPPER_JPEG_BROKEN,
    /* An error after complete scans. Another reader can stop after those scans. */
    DIPPER_JPEG_BROKEN_OFF,
    DIPPER_JPEG_TOO_MANY_SCANS,
    DIPPER_JPEG_NO_MEMORY,
    /* The file has a flaw. Another reader, that is not told it has none, decides what it is worth. */
    DIPPER_JPEG_FLAWED,
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
    /* The file was written by a program of Adobe's, or by one like it: CMYK is stored as 255 minus the ink. */
    bool is_adobe;
    /* All coefficients are held in memory until the last scan has come. */
    bool has_several_scans;
    bool is_arithmetic;
    int64_t coefficient_bytes;
} dipper_jpeg_header;

typedef struct dipper_jpeg_reader dipper_jpeg_reader;

/* Creates a reader. Returns NULL if there is no memory. */
dipper_jpeg_reader *dipper_jpeg_open(void);
void dipper_jpeg_close(dipper_jpeg_reader *reader);

/* Reads the header of a file. The bytes must stay where they are until the reader is closed. Returns OK, TRUNCATED,
   BROKEN or NO_MEMORY. */
dipper_jpeg_status dipper_jpeg_read_header(
    dipper_jpeg_reader *reader, const uint8_t *bytes, size_t count, dipper_jpeg_header *header);

/* Begins to decode to eighths of the size, as RGBA or, if the colours are CMYK, as four bytes a pixel as they are
   stored. The coefficients of a file with several scans are in `memory`, of at least `coefficient_bytes` of the header,
   which must stay until the reader is closed; with NULL in libjpeg's own. With is_flawless, an eighth is decoded faster,
   as long as the file has no flaw. */
dipper_jpeg_status dipper_jpeg_start(
    dipper_jpeg_reader *reader, int eighths, bool is_flawless, void *memory, size_t size);

/* The size of the decoded picture in pixels; known after the start. */
int64_t dipper_jpeg_output_width(const dipper_jpeg_reader *reader);
int64_t dipper_jpeg_output_height(const dipper_jpeg_reader *reader);

/* Reads a few rows of blocks of a file with several scans, before the first row is decoded. Returns OK
   when all scans have been read, or `stop_after` of them unless that is 0; otherwise MORE. No rows can be read after
   BROKEN_OFF. */
dipper_jpeg_status dipper_jpeg_absorb(dipper_jpeg_reader *reader, int64_t max_scans, int64_t stop_after);
int64_t dipper_jpeg_complete_scans(const dipper_jpeg_reader *reader);

/* Decodes rows into memory, `stride` bytes apart. TRUNCATED means that only `done` of the rows have data behind them:
   the bytes ended in the only scan, or in the first. */
dipper_jpeg_status dipper_jpeg_read_rows(
    dipper_jpeg_reader *reader, void *memory, size_t stride, int64_t rows, int64_t *done);

/* A file of one scan that is decoded while it arrives, in this order: feed, arriving_header until it is OK, start, then
   feed and read_arriving_rows in turns. Each but feed returns MORE if it needs bytes that have not been fed. What is not
   in order is FLAWED or BROKEN, also what libjpeg would only warn of: then the whole file is decoded by a new reader. */

/* Gives all bytes that have arrived so far: those of before, perhaps at another address, and more. They must stay there
   until the next call of feed, or until the reader is closed. */
void dipper_jpeg_feed(dipper_jpeg_reader *reader, const uint8_t *bytes, size_t count);
dipper_jpeg_status dipper_jpeg_read_arriving_header(dipper_jpeg_reader *reader, dipper_jpeg_header *header);
dipper_jpeg_status dipper_jpeg_read_arriving_rows(
    dipper_jpeg_reader *reader, void *memory, size_t stride, int64_t rows, int64_t *done);

/* Returns libjpeg's text about the last failure. */
const char *dipper_jpeg_message(const dipper_jpeg_reader *reader);

typedef struct dipper_jpeg_writer dipper_jpeg_writer;

/* Creates a writer of a file of this size, in pixels. Its coefficients are in `memory`, of at least as many
   bytes as dipper_jpeg_coefficient_bytes returns, which must stay until the writer is discarded; with NULL in libjpeg's
   own. Returns NULL if there is no
   memory or the size is not possible. */
dipper_jpeg_writer *dipper_jpeg_create(
    int64_t width, int64_t height, int quality, bool halves_colors, void *memory, size_t size);
size_t dipper_jpeg_coefficient_bytes(int64_t width, int64_t height, bool halves_colors);
void dipper_jpeg_discard(dipper_jpeg_writer *writer);

/* Encodes rows of RGBA, and ignores alpha. */
dipper_jpeg_status dipper_jpeg_write_rows(dipper_jpeg_writer *writer, const void *memory, size_t stride, int64_t rows);

/* Ends the file and hands over its bytes, which the caller must free with dipper_output_free. */
dipper_jpeg_status dipper_jpeg_end(dipper_jpeg_writer *writer, uint8_t **bytes, size_t *count);

/* Frees the bytes of a JPEG or PNG file that was written. */
void dipper_output_free(void *bytes, size_t count);
