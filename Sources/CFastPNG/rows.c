#include <stdlib.h>
#include <string.h>

#include "CFastPNG.h"
#include "clones.h"
#include "inflate.h"

enum {
    // In bytes.
    LONGEST_ROW = 1 << 16,
    // What is inflated at a time, so that it is unfiltered while it is in the processor's cache.
    STEP = 1 << 16,
    // Vectors read and write beyond the end of a row.
    MARGIN = 64,
};

struct fastpng {
    fastpng_header header;
    // In bytes: a row without its filter, and the pixel that filters look back to.
    size_t row, pixel;
    uint32_t rows_left;
    // All that there is to inflate, and the first byte in the window that has not been unfiltered.
    uint64_t bytes_left;
    uint8_t *unread;
    uint8_t *lines, *line, *line_above;
    // RGBA of an index, or of a grey of at most eight bits.
    uint8_t colors[256][4];
    fastpng_inflater inflater;
};

// Unfiltering (W3C, PNG third edition, section 9). Each step works on eight bytes, of which those of one pixel count;
// the next step writes the others anew.

INLINE i16x8 words(const uint8_t *from) {
    u8x8 bytes;
    memcpy(&bytes, from, 8);
    return __builtin_convertvector(bytes, i16x8);
}

// Adds the lower bytes, and leaves the upper ones zero.
INLINE i16x8 sum(i16x8 a, i16x8 b) { return (i16x8)((u8x16)a + (u8x16)b); }

INLINE void store(uint8_t *to, i16x8 words) {
    u8x8 bytes = __builtin_convertvector(words, u8x8);
    memcpy(to, &bytes, 8);
}

INLINE void unfilter_sub(uint8_t *to, const uint8_t *from, size_t count, const size_t pixel) {
    u8x8 left = {0};
    for (size_t i = 0; i < count; i += pixel) {
        u8x8 value;
        memcpy(&value, from + i, 8);
        left += value;
        memcpy(to + i, &left, 8);
    }
}

INLINE void unfilter_average(
    uint8_t *to, const uint8_t *from, const uint8_t *above, size_t count, const size_t pixel) {
    i16x8 left = {0};
    for (size_t i = 0; i < count; i += pixel) {
        left = sum((left + words(above + i)) >> 1, words(from + i));
        store(to + i, left);
    }
}

// The standard chooses the nearest of left, up and corner to left + up - corner. With `bound`, 3 × corner - left - up,
// that is the larger of left and up if `bound` is at most the smaller, the smaller if `bound` is at least the larger, and
// else the corner. If both are so, all three are the same. Written this way, few instructions wait for the pixel to the
// left.
INLINE void unfilter_paeth(uint8_t *to, const uint8_t *from, const uint8_t *above, size_t count, const size_t pixel) {
    i16x8 left = {0}, corner = {0}, up = words(above), rest = -up;
    for (size_t i = 0; i < count; i += pixel) {
        i16x8 bound = rest - left;
        i16x8 low = __builtin_elementwise_min(left, up), high = __builtin_elementwise_max(left, up);
        i16x8 nearest = corner ^ (((low ^ corner) & (bound >= high)) ^ ((high ^ corner) & (bound <= low)));
        left = sum(nearest, words(from + i));
        store(to + i, left);
        corner = up;
        up = words(above + i + pixel);
        rest = corner * 3 - up;
    }
}

INLINE void unfilter_pixels(
    unsigned filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t count, const size_t pixel) {
    if (filter == 1) unfilter_sub(to, from, count, pixel);
    if (filter == 3) unfilter_average(to, from, above, count, pixel);
    if (filter == 4) unfilter_paeth(to, from, above, count, pixel);
}

CLONES static void unfilter(
    unsigned filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t count, size_t pixel) {
    if (filter == 0) {
        memcpy(to, from, count);
    } else if (filter == 2) {
        for (size_t i = 0; i < count; i++) to[i] = from[i] + above[i];
    } else {
        switch (pixel) {
        case 1: unfilter_pixels(filter, to, from, above, count, 1); break;
        case 2: unfilter_pixels(filter, to, from, above, count, 2); break;
        case 3: unfilter_pixels(filter, to, from, above, count, 3); break;
        case 4: unfilter_pixels(filter, to, from, above, count, 4); break;
        case 6: unfilter_pixels(filter, to, from, above, count, 6); break;
        default: unfilter_pixels(filter, to, from, above, count, 8); break;
        }
    }
}

// Conversion to RGBA

INLINE unsigned big16(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }

// As libpng rounds: to nearest.
INLINE uint8_t rounded(unsigned sample) { return (uint8_t)((sample * 255 + 32895) >> 16); }

// Adds an alpha of 255. The vectors read beyond the end of the row.
CLONES static void convert_rgb(uint8_t *to, const uint8_t *from, size_t width) {
    const u8x16 full = ~(u8x16){0};
    size_t x = 0;
    for (; x + 4 <= width; x += 4) {
        u8x16 value;
        memcpy(&value, from + x * 3, 16);
        value = __builtin_shufflevector(value, full, 0, 1, 2, 16, 3, 4, 5, 16, 6, 7, 8, 16, 9, 10, 11, 16);
        memcpy(to + x * 4, &value, 16);
    }
    for (; x < width; x++) {
        memcpy(to + x * 4, from + x * 3, 3);
        to[x * 4 + 3] = 255;
    }
}

static void convert_indices(
    uint8_t *to, const uint8_t *from, size_t width, unsigned depth, const uint8_t (*colors)[4]) {
    if (depth == 8) {
        for (size_t x = 0; x < width; x++) memcpy(to + x * 4, colors[from[x]], 4);
        return;
    }
    for (size_t x = 0; x < width; x++) {
        size_t bit = x * depth;
        unsigned index = from[bit >> 3] >> (8 - depth - (bit & 7)) & ((1u << depth) - 1);
        memcpy(to + x * 4, colors[index], 4);
    }
}

// Samples of one or two bytes, the colours first.
INLINE void convert_samples(
    uint8_t *to, const uint8_t *from, size_t width, const fastpng_header *header, const size_t size,
    const size_t colors, const bool has_alpha) {
    const uint16_t mask = size == 1 ? 0xFF : 0xFFFF;
    for (size_t x = 0; x < width; x++, to += 4, from += (colors + has_alpha) * size) {
        bool is_key = !has_alpha && header->has_key;
        for (size_t c = 0; c < 3; c++) {
            const uint8_t *p = from + (colors == 3 ? c : 0) * size;
            to[c] = size == 1 ? *p : rounded(big16(p));
            is_key = is_key && (size == 1 ? *p : big16(p)) == (header->key[colors == 3 ? c : 0] & mask);
        }
        const uint8_t *alpha = from + colors * size;
        to[3] = has_alpha ? (size == 1 ? *alpha : rounded(big16(alpha))) : is_key ? 0 : 255;
    }
}

CLONES static void convert(uint8_t *to, const uint8_t *from, const fastpng *reader) {
    const fastpng_header *header = &reader->header;
    size_t width = header->width;
    bool is_wide = header->depth == 16;
    switch (header->color_type) {
    case 0:
        if (!is_wide) return convert_indices(to, from, width, header->depth, reader->colors);
        return convert_samples(to, from, width, header, 2, 1, false);
    case 2:
        if (is_wide) return convert_samples(to, from, width, header, 2, 3, false);
        if (header->has_key) return convert_samples(to, from, width, header, 1, 3, false);
        return convert_rgb(to, from, width);
    case 3: return convert_indices(to, from, width, header->depth, reader->colors);
    case 4:
        if (is_wide) return convert_samples(to, from, width, header, 2, 1, true);
        return convert_samples(to, from, width, header, 1, 1, true);
    default:
        if (is_wide) return convert_samples(to, from, width, header, 2, 3, true);
        memcpy(to, from, width * 4);
    }
}

// A grey of less than eight bits is spread over all eight.
static void make_colors(fastpng *reader) {
    const fastpng_header *header = &reader->header;
    if (header->color_type == 3) memcpy(reader->colors, header->palette, sizeof reader->colors);
    if (header->color_type != 0 || header->depth > 8) return;
    unsigned most = (1u << header->depth) - 1;
    for (unsigned i = 0; i <= most; i++) {
        memset(reader->colors[i], (int)(i * (255 / most)), 3);
        reader->colors[i][3] = header->has_key && i == (header->key[0] & most) ? 0 : 255;
    }
}

// Returns the length of the IDAT chunks in a row, or 0 if they are not complete or no other chunk follows.
static size_t length_of_data(const uint8_t *chunks, size_t length) {
    size_t at = 0;
    while (length - at >= 12) {
        if (memcmp(chunks + at + 4, "IDAT", 4) != 0) return at;
        uint32_t announced = fastpng_big32(chunks + at);
        if (announced > INT32_MAX || announced > length - at - 12) return 0;
        at += announced + 12;
    }
    return 0;
}

fastpng *fastpng_open(const fastpng_header *header) {
    static const uint8_t samples[7] = {1, 0, 3, 1, 2, 0, 4};
    size_t length = length_of_data(header->chunks, header->length);
    uint64_t bits = (uint64_t)header->depth * samples[header->color_type];
    uint64_t row = ((uint64_t)header->width * bits + 7) / 8;
    if (length == 0 || row == 0 || row > LONGEST_ROW) return NULL;
    // A small picture needs no more window than its bytes.
    uint64_t all = (row + 1) * header->height;
    size_t window = FASTPNG_HISTORY + STEP + row;
    if (window > all) window = all;
    fastpng *reader = malloc(sizeof *reader);
    if (!reader) return NULL;
    reader->header = *header;
    reader->row = row;
    reader->pixel = bits < 8 ? 1 : bits / 8;
    reader->rows_left = header->height;
    reader->bytes_left = all;
    reader->lines = reader->line = calloc(2, row + MARGIN);
    fastpng_inflater *inflater = &reader->inflater;
    inflater->window = malloc(window + FASTPNG_SLACK);
    if (!reader->lines || !inflater->window) {
        fastpng_close(reader);
        return NULL;
    }
    reader->line_above = reader->line + row + MARGIN;
    inflater->out = reader->unread = inflater->window;
    inflater->limit = inflater->window + window;
    make_colors(reader);
    if (!fastpng_inflate_start(inflater, header->chunks, length)) {
        fastpng_close(reader);
        return NULL;
    }
    return reader;
}

void fastpng_close(fastpng *reader) {
    if (!reader) return;
    free(reader->inflater.window);
    free(reader->lines);
    free(reader);
}

// Inflates more, behind the history that matches may copy from. Returns false if there is no more, or too much.
static bool inflate_more(fastpng *reader) {
    fastpng_inflater *inflater = &reader->inflater;
    if (inflater->state == FASTPNG_DONE) return false;
    if (inflater->out > inflater->limit) {
        size_t kept = (size_t)(inflater->out - reader->unread);
        if (kept < FASTPNG_HISTORY) kept = FASTPNG_HISTORY;
        size_t shift = (size_t)(inflater->out - inflater->window) - kept;
        memmove(inflater->window, inflater->out - kept, kept);
        inflater->out -= shift;
        inflater->summed -= shift;
        reader->unread -= shift;
    }
    const uint8_t *before = inflater->out;
    if (!fastpng_inflate(inflater)) return false;
    uint64_t made = (uint64_t)(inflater->out - before);
    if (made > reader->bytes_left) return false;
    reader->bytes_left -= made;
    return true;
}

bool fastpng_read(fastpng *reader, uint8_t *to, size_t rows) {
    fastpng_inflater *inflater = &reader->inflater;
    if (rows > reader->rows_left) return false;
    for (; rows > 0; rows--, to += (size_t)reader->header.width * 4) {
        while ((size_t)(inflater->out - reader->unread) <= reader->row)
            if (!inflate_more(reader)) return false;
        unsigned filter = *reader->unread;
        if (filter > 4) return false;
        unfilter(filter, reader->line, reader->unread + 1, reader->line_above, reader->row, reader->pixel);
        convert(to, reader->line, reader);
        uint8_t *line = reader->line;
        reader->line = reader->line_above;
        reader->line_above = line;
        reader->unread += reader->row + 1;
        reader->rows_left--;
    }
    if (reader->rows_left > 0) return true;
    while (inflater->state != FASTPNG_DONE)
        if (!inflate_more(reader)) return false;
    return reader->bytes_left == 0;
}
