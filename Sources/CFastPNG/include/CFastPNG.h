// The pixels of a complete PNG picture that is not interlaced: an inflater, unfiltering and conversion of our own, row
// by row in the processor's cache, with the same memory whatever the size of the picture.
//
// All or nothing: a stream with anything unusual in it ends with `false`, and the caller decodes the file anew by
// libpng, which alone decides what a damaged file is worth. What is read to the end here, libpng reads to the same
// pixels.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What the header says; a reader of headers has checked it.
typedef struct {
    // In pixels.
    uint32_t width, height;
    // As in IHDR: 1, 2, 4, 8 or 16 bits a sample, and colour type 0, 2, 3, 4 or 6.
    uint8_t depth, color_type;
    // Whether pixels of one colour, `key`, are transparent. A grey is key[0].
    bool has_key;
    uint16_t key[3];
    // RGBA of all 256 indices, for colour type 3.
    uint8_t palette[256 * 4];
    // The chunks from the first IDAT on, beginning with its length, to the end of the file.
    const uint8_t *chunks;
    size_t length;
} fastpng_header;

typedef struct fastpng fastpng;

// Creates a reader. The chunks must stay until the reader is closed. Returns NULL for what is left to libpng: a file
// that ends in the pixels, rows above 64 KiB, and when there is no memory. A reader takes at most 400 KiB.
fastpng *fastpng_open(const fastpng_header *header);
void fastpng_close(fastpng *reader);

// Reads the next rows of RGBA, without gaps; at most as many as there still are. With the last row the checksums of the
// stream and of all IDAT have been compared. Returns false if the file must be decoded by libpng.
bool fastpng_read(fastpng *reader, uint8_t *to, size_t rows);

// A checksum of a chunk's name and bytes, or of some of them behind those of `crc`; 0 at the start.
uint32_t fastpng_crc(uint32_t crc, const uint8_t *bytes, size_t count);
