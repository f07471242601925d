// Compares the decoder of complete GIF frames, Sources/CPixels/gif.c, with giflib: what it unpacks, giflib unpacks to the
// same indices, and reads as far. See `fuzz-c` in the Makefile.
//
// usage: gif_fuzz [libFuzzer's options] FOLDER…

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gif_lib.h>

#include "CPixels.h"

enum { MOST_PIXELS = 1 << 18, MOST_FRAMES = 8 };

typedef struct {
    const uint8_t *bytes;
    size_t length, at;
} input;

static unsigned long frames, fast_frames;

static int read_input(GifFileType *file, GifByteType *to, int count) {
    input *from = file->UserData;
    size_t there = from->length - from->at;
    if ((size_t)count > there) count = (int)there;
    memcpy(to, from->bytes + from->at, (size_t)count);
    from->at += (size_t)count;
    return count;
}

static void tell(void) { fprintf(stderr, "%lu frames, %lu unpacked fast and alike\n", frames, fast_frames); }

static void fail(const char *rule) {
    fprintf(stderr, "Broken: %s\n", rule);
    abort();
}

// Returns whether giflib has unpacked the frame.
static bool compare(GifFileType *file, input *from) {
    size_t width = (size_t)file->Image.Width, height = (size_t)file->Image.Height, count = width * height;
    if (count == 0 || count > MOST_PIXELS) return false;
    // Of its very size, so that Address Sanitizer sees what is beyond.
    size_t rest = from->length - from->at, used = 0;
    uint8_t *bytes = malloc(rest), *memory = malloc(pixels_gif_memory(count)), *line = malloc(width);
    memcpy(bytes, from->bytes + from->at, rest);
    const uint8_t *fast = pixels_gif_unpack(memory, count, bytes, rest, from->bytes[from->at - 1], &used);
    size_t end = from->at + used;
    bool is_sound = true;
    for (size_t y = 0; y < height && is_sound; y++) {
        is_sound = DGifGetLine(file, line, (int)width) == GIF_OK;
        if (fast && !is_sound) fail("what is unpacked fast, giflib unpacks");
        if (fast && memcmp(line, fast + y * width, width) != 0) fail("the indices are the same");
    }
    if (fast && from->at != end) fail("giflib reads as far");
    frames++;
    fast_frames += fast != NULL;
    free(bytes);
    free(memory);
    free(line);
    return is_sound;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static bool tells;
    if (!tells) atexit(tell);
    tells = true;
    input from = {bytes, length, 0};
    int error;
    GifFileType *file = DGifOpen(&from, read_input, &error);
    if (!file) return 0;
    GifRecordType record;
    int count = 0;
    while (count < MOST_FRAMES && DGifGetRecordType(file, &record) == GIF_OK && record != TERMINATE_RECORD_TYPE) {
        if (record == IMAGE_DESC_RECORD_TYPE) {
            count++;
            if (DGifGetImageHeader(file) != GIF_OK || !compare(file, &from)) break;
        } else if (record == EXTENSION_RECORD_TYPE) {
            GifByteType *block;
            int code, status = DGifGetExtension(file, &code, &block);
            while (status == GIF_OK && block) status = DGifGetExtensionNext(file, &block);
            if (status != GIF_OK) break;
        }
    }
    DGifCloseFile(file, &error);
    return 0;
}
