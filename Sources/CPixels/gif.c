#include "CPixels.h"
#include "rounding.h"

// The string of a code: where it was written, and its length.
typedef struct {
    uint32_t start, length;
} string;

enum { MOST_CODES = 4096, LITERALS = 256, MARGIN = 16 };

size_t pixels_gif_memory(size_t count) { return MOST_CODES * sizeof(string) + LITERALS + count + MARGIN; }

// Strings are copied from the output: a new one is the one before and the pixel that was written behind it.
const uint8_t *pixels_gif_unpack(
    void *memory, size_t count, const uint8_t *bytes, size_t length, unsigned code_size, size_t *used) {
    string *strings = memory;
    uint8_t *base = (uint8_t *)(strings + MOST_CODES), *first = base + LITERALS, *out = first, *end = first + count;
    if (code_size < 2 || code_size > 8 || count == 0 || count > UINT32_MAX - LITERALS) return NULL;
    const unsigned clear = 1u << code_size;
    for (unsigned i = 0; i < LITERALS; i++) {
        base[i] = i;
        strings[i] = (string){i, 1};
    }
    const uint8_t *next = bytes, *file_end = bytes + length, *block_end = bytes;
    uint64_t bits = 0;
    unsigned bit_count = 0, code_bits = code_size + 1, known = clear + 2;
    // The string before; none after a clear code.
    string last = {0, 0};
    while (out < end) {
        while (bit_count < code_bits) {
            if (next == block_end) {
                if (next == file_end || *next == 0 || *next > file_end - next - 1) return NULL;
                block_end = next + 1 + *next;
                next++;
            }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            if (block_end - next >= 8) {
                uint64_t word;
                memcpy(&word, next, 8);
                bits |= word << bit_count;
                next += (63 - bit_count) >> 3;
                bit_count |= 56;
                break;
            }
#endif
            bits |= (uint64_t)*next++ << bit_count;
            bit_count += 8;
        }
        unsigned code = bits & ((1u << code_bits) - 1);
        bits >>= code_bits;
        bit_count -= code_bits;
        if (code == clear) {
            code_bits = code_size + 1;
            known = clear + 2;
            last.length = 0;
            continue;
        }
        if (code == clear + 1) return NULL;
        bool is_new = false;
        if (last.length > 0 && known < MOST_CODES) {
            is_new = code == known;
            strings[known++] = (string){last.start, last.length + 1};
            if (known == 1u << code_bits && code_bits < 12) code_bits++;
        }
        if (code >= known) return NULL;
        string found = strings[code];
        size_t rest = (size_t)(end - out);
        last = (string){(uint32_t)(out - base), found.length};
        if (found.length > rest) {
            found.length = (uint32_t)rest;
            is_new = false;
        }
        const uint8_t *from = base + found.start;
        for (size_t i = 0; i < found.length; i += 16) {
            u8x16 value;
            memcpy(&value, from + i, 16);
            memcpy(out + i, &value, 16);
        }
        // The last pixel of a string that this code itself ends is its first.
        if (is_new) out[found.length - 1] = *out;
        out += found.length;
    }
    // What is behind the last pixel is passed over.
    while (true) {
        if (block_end == file_end) return NULL;
        unsigned size = *block_end++;
        if (size == 0) break;
        if (size > file_end - block_end) return NULL;
        block_end += size;
    }
    *used = (size_t)(block_end - bytes);
    return first;
}

CLONES void pixels_gif_draw(uint32_t *row, const uint8_t *indices, size_t count, const uint32_t *colors) {
    for (size_t i = 0; i < count; i++) {
        uint32_t color = colors[indices[i]];
        row[i] = color ? color : row[i];
    }
}
