// DEFLATE in a zlib stream (RFC 1950, RFC 1951) out of the IDAT chunks of a PNG file.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "CFastPNG.h"

enum {
    FASTPNG_LITERAL_BITS = 11,
    FASTPNG_DISTANCE_BITS = 8,
    // Room for the codes that are longer: each table of those has two codes at least.
    FASTPNG_LITERALS = (1 << FASTPNG_LITERAL_BITS) + 288 / 2 * (1 << (15 - FASTPNG_LITERAL_BITS)),
    FASTPNG_DISTANCES = (1 << FASTPNG_DISTANCE_BITS) + 32 / 2 * (1 << (15 - FASTPNG_DISTANCE_BITS)),
    FASTPNG_STAGE = 1 << 15,
    // Building tables costs more than libpng's zlib takes for tiny blocks, of which a file that means harm may have many.
    // Fewer than these, and one more for each 256 bytes of output, are built.
    FASTPNG_MOST_TABLES = 320,
    // Zeros behind the last byte, which are read but not used.
    FASTPNG_PADDING = 64,
    FASTPNG_HISTORY = 1 << 15,
    // The longest match, the literals before it, and what copies write beyond it.
    FASTPNG_SLACK = 320,
};

typedef struct {
    // The chunks that have not been staged, and the bytes of the current one.
    const uint8_t *chunks;
    const uint8_t *body;
    size_t body_left, chunks_left;
    uint32_t crc;
    bool is_at_end;

    // The bytes of chunks, put together. The bits below `bit_count` have been taken from before `next`.
    const uint8_t *next, *staged_end;
    uint64_t bits;
    unsigned bit_count;

    // The stream has come to this point.
    enum { FASTPNG_BLOCK, FASTPNG_SYMBOLS, FASTPNG_STORED, FASTPNG_DONE } state;
    bool is_last_block, has_fixed_codes;
    size_t stored_left;

    // The output: what has been made is from `window` to `out`, and the room ends FASTPNG_SLACK bytes behind `limit`.
    uint8_t *window, *out, *limit;
    const uint8_t *summed;
    uint32_t adler;
    uint64_t made, tables;

    uint32_t literals[FASTPNG_LITERALS];
    uint32_t distances[FASTPNG_DISTANCES];
    uint8_t stage[FASTPNG_STAGE + FASTPNG_PADDING];
} fastpng_inflater;

// Begins with chunks whose lengths have been checked: `length` bytes of IDAT chunks in a row. `window`, `out` and `limit`
// are set.
bool fastpng_inflate_start(fastpng_inflater *inflater, const uint8_t *chunks, size_t length);

// Makes output until the limit is reached or the stream ends. Returns false if anything in the stream is unusual; at the
// end, if a checksum is wrong or bytes are left over.
bool fastpng_inflate(fastpng_inflater *inflater);

// The checksum of zlib's streams, which goes on.
uint32_t fastpng_adler(uint32_t adler, const uint8_t *bytes, size_t count);

static inline uint32_t fastpng_big32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
