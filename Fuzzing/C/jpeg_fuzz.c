// Compares our decoder of Huffman codes, Sources/CodecShims/jpeg_entropy.c, with that of libjpeg-turbo: a file without
// a flaw gives the same pixels at an eighth of the size. See `fuzz-c` in the Makefile.
//
// usage: jpeg_fuzz [libFuzzer's options] FOLDER…

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jpeg_shims.h"

enum { MOST_PIXELS = 1 << 20 };

static unsigned long files, fast_files;

static void tell(void) { fprintf(stderr, "%lu files, %lu decoded fast and alike\n", files, fast_files); }

// Returns the pixels, or NULL with the status of the step that failed.
static uint8_t *decode(
    const uint8_t *bytes, size_t count, bool is_flawless, size_t *length, dipper_jpeg_status *status) {
    dipper_jpeg_header header;
    dipper_jpeg_reader *reader = dipper_jpeg_open();
    uint8_t *pixels = NULL;
    *status = dipper_jpeg_read_header(reader, bytes, count, &header);
    if (*status == DIPPER_JPEG_OK && (header.has_several_scans || header.width * header.height > MOST_PIXELS))
        *status = DIPPER_JPEG_TOO_MANY_SCANS;
    if (*status == DIPPER_JPEG_OK) *status = dipper_jpeg_start(reader, 1, is_flawless, NULL, 0);
    if (*status == DIPPER_JPEG_OK) {
        int64_t width = dipper_jpeg_output_width(reader), height = dipper_jpeg_output_height(reader), done = 0;
        *length = (size_t)(width * height * 4);
        pixels = calloc(1, *length);
        *status = dipper_jpeg_read_rows(reader, pixels, (size_t)width * 4, height, &done);
    }
    dipper_jpeg_close(reader);
    if (*status == DIPPER_JPEG_OK) return pixels;
    free(pixels);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (files++ == 0) atexit(tell);
    size_t length = 0, other_length = 0;
    dipper_jpeg_status status;
    uint8_t *fast = decode(bytes, count, true, &length, &status);
    if (!fast) return 0;
    uint8_t *pixels = decode(bytes, count, false, &other_length, &status);
    if (!pixels || length != other_length || memcmp(fast, pixels, length) != 0) {
        fprintf(stderr, "Broken: libjpeg decodes to the same pixels\n");
        abort();
    }
    fast_files++;
    free(fast);
    free(pixels);
    return 0;
}
