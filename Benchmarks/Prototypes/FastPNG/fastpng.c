// A measured prototype: PNG of 8 bits, RGB or RGBA, not interlaced, to RGBA, by libdeflate and unfiltering with SSE.
// Not part of the library; see README.md.
//
// cc -O2 -mssse3 -msse4.1 fastpng.c -ldeflate -lpng -lz -o fastpng && ./fastpng FILE.png [ROUNDS]
#include <immintrin.h>
#include <libdeflate.h>
#include <png.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

// Rows have this many bytes after them that may be read and written.
#define SLACK 32

static inline __m128i load(const uint8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm_cvtsi32_si128(v);
}

static inline void store(uint8_t *p, __m128i v) {
    int32_t i = _mm_cvtsi128_si32(v);
    memcpy(p, &i, 4);
}

// The byte after a pixel of three belongs to the next and is written anew by it: rows run from left to right. The input
// is read ahead by one pixel, so that it is not the byte that was just written.
#define FOR_PIXELS(bpp)                                                              \
    __m128i next = load(in);                                                         \
    for (size_t i = 0; i < length; i += bpp)

static inline __attribute__((always_inline)) void unsub(
    uint8_t *out, const uint8_t *in, size_t length, const size_t bpp) {
    __m128i a = _mm_setzero_si128();
    FOR_PIXELS(bpp) {
        a = _mm_add_epi8(next, a);
        next = load(in + i + bpp);
        store(out + i, a);
    }
}

static void unup(uint8_t *out, const uint8_t *in, const uint8_t *up, size_t length) {
    for (size_t i = 0; i < length; i++) out[i] = in[i] + up[i];
}

static inline __attribute__((always_inline)) void unaverage(
    uint8_t *out, const uint8_t *in, const uint8_t *up, size_t length, const size_t bpp) {
    const __m128i one = _mm_set1_epi8(1);
    __m128i a = _mm_setzero_si128();
    FOR_PIXELS(bpp) {
        __m128i b = load(up + i);
        // The instruction rounds up, PNG down.
        __m128i mean = _mm_sub_epi8(_mm_avg_epu8(a, b), _mm_and_si128(_mm_xor_si128(a, b), one));
        a = _mm_add_epi8(next, mean);
        next = load(in + i + bpp);
        store(out + i, a);
    }
}

static inline __attribute__((always_inline)) void unpaeth(
    uint8_t *out, const uint8_t *in, const uint8_t *up, size_t length, const size_t bpp) {
    const __m128i zero = _mm_setzero_si128();
    __m128i a = zero, c = zero;
    FOR_PIXELS(bpp) {
        __m128i b = _mm_unpacklo_epi8(load(up + i), zero);
        __m128i x = _mm_unpacklo_epi8(next, zero);
        // p = a + b - c: its distances from a, b and c.
        __m128i pa = _mm_sub_epi16(b, c), pb = _mm_sub_epi16(a, c);
        __m128i pc = _mm_abs_epi16(_mm_add_epi16(pa, pb));
        pa = _mm_abs_epi16(pa), pb = _mm_abs_epi16(pb);
        __m128i least = _mm_min_epi16(pc, _mm_min_epi16(pa, pb));
        __m128i nearest = _mm_blendv_epi8(
            _mm_blendv_epi8(c, b, _mm_cmpeq_epi16(least, pb)), a, _mm_cmpeq_epi16(least, pa));
        // Bytes are added, so the upper half stays zero.
        a = _mm_add_epi8(x, nearest);
        c = b;
        next = load(in + i + bpp);
        store(out + i, _mm_packus_epi16(a, a));
    }
}

static void unfilter(int filter, uint8_t *out, const uint8_t *in, const uint8_t *up, size_t length, size_t bpp) {
    switch (filter) {
    case 0: memcpy(out, in, length); break;
    case 1: bpp == 3 ? unsub(out, in, length, 3) : unsub(out, in, length, 4); break;
    case 2: unup(out, in, up, length); break;
    case 3: bpp == 3 ? unaverage(out, in, up, length, 3) : unaverage(out, in, up, length, 4); break;
    default: bpp == 3 ? unpaeth(out, in, up, length, 3) : unpaeth(out, in, up, length, 4); break;
    }
}

static void widen(uint8_t *to, const uint8_t *from, size_t count) {
    const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    const __m128i alpha = _mm_set1_epi32((int)0xff000000);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m128i v = _mm_loadu_si128((const __m128i *)(from + i * 3));
        _mm_storeu_si128((__m128i *)(to + i * 4), _mm_or_si128(_mm_shuffle_epi8(v, spread), alpha));
    }
    for (; i < count; i++) memcpy(to + i * 4, from + i * 3, 3), to[i * 4 + 3] = 255;
}

static uint32_t number(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

static struct libdeflate_decompressor *inflater;
static double inflating;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

// Buffers that are kept from round to round, as a decoder with a pool of memory has them.
static uint8_t *raw, *packed;

// With streams zlib unpacks a few rows at a time, else libdeflate all of them.
// 0: done; the picture is in out, width × height × 4 bytes. Else the file is broken or of another kind.
static int fast(const uint8_t *file, size_t length, uint8_t *out, bool streams) {
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
    if (length < 33 || memcmp(file, signature, 8)) return 1;
    uint32_t width = 0, height = 0;
    size_t bpp = 0, packed_length = 0;
    bool ended = false;
    for (size_t at = 8; !ended;) {
        if (length - at < 12) return 2;
        size_t size = number(file + at);
        const uint8_t *kind = file + at + 4, *body = file + at + 8;
        if (size > length - at - 12) return 2;
        if (!(kind[0] & 32) && libdeflate_crc32(0, kind, size + 4) != number(body + size)) return 3;
        if (!memcmp(kind, "IHDR", 4)) {
            if (size != 13 || body[8] != 8 || (body[9] != 2 && body[9] != 6) || body[10] || body[11] || body[12]) return 4;
            width = number(body), height = number(body + 4), bpp = body[9] == 2 ? 3 : 4;
        } else if (!memcmp(kind, "tRNS", 4)) {
            return 4;
        } else if (!memcmp(kind, "IDAT", 4)) {
            memcpy(packed + packed_length, body, size);
            packed_length += size;
        } else if (!memcmp(kind, "IEND", 4)) {
            ended = true;
        }
        at += size + 12;
    }
    if (!width || !height) return 5;
    size_t row = width * bpp, raw_length = (row + 1) * height, found;
    double before = now();
    z_stream stream = {0};
    // A few rows at a time, so that they are still in the cache when they are unfiltered.
    size_t rows = streams ? (65536 / (row + 1) ? 65536 / (row + 1) : 1) : height;
    if (streams) {
        if (inflateInit(&stream) != Z_OK) return 6;
        stream.next_in = packed;
        stream.avail_in = packed_length;
    } else if (
        libdeflate_zlib_decompress(inflater, packed, packed_length, raw, raw_length, &found) || found != raw_length) {
        return 6;
    }
    inflating = now() - before;
    // Two rows, for three bytes a pixel; with four the result itself holds them.
    uint8_t *lines = calloc(2, row + SLACK), *line = lines, *above = lines + row + SLACK;
    uint8_t *first = calloc(1, row + SLACK);
    for (uint32_t y = 0; y < height; y++) {
        if (streams && y % rows == 0) {
            size_t count = height - y < rows ? height - y : rows;
            stream.next_out = raw;
            stream.avail_out = (row + 1) * count;
            int status = inflate(&stream, Z_SYNC_FLUSH);
            if (stream.avail_out || (status != Z_OK && status != Z_STREAM_END)) return 6;
        }
        const uint8_t *in = raw + (row + 1) * (y % rows);
        if (in[0] > 4) return 7;
        // Reads and writes beyond the end of the last row stay in memory of ours.
        if (bpp == 3) {
            unfilter(in[0], line, in + 1, above, row, 3);
            widen(out + (size_t)y * width * 4, line, width);
            uint8_t *swap = line;
            line = above, above = swap;
        } else {
            unfilter(in[0], out + (size_t)y * row, in + 1, y ? out + (size_t)(y - 1) * row : first, row, 4);
        }
    }
    if (streams) inflateEnd(&stream);
    free(lines);
    free(first);
    return 0;
}

typedef struct {
    const uint8_t *bytes;
    size_t rest;
} source;

static void take(png_structp png, png_bytep to, size_t length) {
    source *s = png_get_io_ptr(png);
    if (length > s->rest) png_error(png, "too short");
    memcpy(to, s->bytes, length);
    s->bytes += length, s->rest -= length;
}

static int slow(const uint8_t *file, size_t length, uint8_t *out) {
    source s = {file, length};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, 0, 0, 0);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) return 1;
    png_set_read_fn(png, &s, take);
    png_read_info(png, info);
    size_t row = (size_t)png_get_image_width(png, info) * 4;
    uint32_t height = png_get_image_height(png, info);
    png_set_expand(png);
    png_set_filler(png, 255, PNG_FILLER_AFTER);
    png_read_update_info(png, info);
    for (uint32_t y = 0; y < height; y++) png_read_row(png, out + y * row, NULL);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    return 0;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    FILE *f = count > 1 ? fopen(arguments[1], "rb") : NULL;
    if (!f) return 2;
    int rounds = count > 2 ? atoi(arguments[2]) : 11;
    fseek(f, 0, SEEK_END);
    size_t length = ftell(f);
    rewind(f);
    uint8_t *file = malloc(length);
    if (fread(file, 1, length, f) != length || length < 33 || rounds < 1 || rounds > 1000) return 2;
    size_t pixels = (size_t)number(file + 16) * number(file + 20);
    uint8_t *a = malloc(pixels * 4 + SLACK), *b = malloc(pixels * 4 + SLACK);
    raw = malloc(pixels * 4 + number(file + 20) + SLACK), packed = malloc(length);
    inflater = libdeflate_alloc_decompressor();
    double times[4][1000];
    for (int i = 0; i < rounds; i++) {
        for (int way = 0; way < 3; way++) {
            double start = now();
            int error = way < 2 ? fast(file, length, a, way == 1) : slow(file, length, b);
            times[way][i] = now() - start;
            if (error) return printf("not decoded: %d\n", error), 1;
            if (way == 0) times[3][i] = inflating;
            if (way == 0 && i == 0) memcpy(b, a, pixels * 4);
            if (way == 1 && i == 0 && memcmp(a, b, pixels * 4)) return printf("the pictures differ\n"), 1;
        }
        if (memcmp(a, b, pixels * 4)) return printf("the pictures differ\n"), 1;
    }
    for (int way = 0; way < 4; way++) qsort(times[way], rounds, sizeof(double), ascending);
    double x = times[0][rounds / 2], z = times[1][rounds / 2], y = times[2][rounds / 2];
    printf(
        "libdeflate %.1f ms (inflate %.1f), zlib in pieces %.1f ms, libpng %.1f ms: ratios %.2f and %.2f\n", x,
        times[3][rounds / 2], z, y, x / y, z / y);
    return 0;
}
