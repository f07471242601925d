// Compares the decoder of complete PNG pictures, Sources/CFastPNG, with libpng: what it decodes, libpng decodes to the
// same pixels. Inputs are mutated where it matters: chunks get their right checksums, streams their right end, so that
// the tables of codes, the filters and the forms of pixels are met. See `fuzz-c` in the Makefile.
//
// usage: png_fuzz [libFuzzer's options] FOLDER…

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "CFastPNG.h"
#include "png_shims.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { MOST_PIXELS = 1 << 18 };

static unsigned long inputs, fast_pictures, refused_pictures;

static void tell(void) {
    fprintf(
        stderr, "%lu inputs, %lu decoded fast and alike, %lu pictures by libpng alone\n", inputs, fast_pictures,
        refused_pictures);
}

static void fail(const char *rule) {
    fprintf(stderr, "Broken: %s\n", rule);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (inputs++ == 0) atexit(tell);
    dipper_png_reader *reader = dipper_png_open(bytes, length, false);
    dipper_png_header header;
    if (!reader) return 0;
    if (dipper_png_read_header(reader, 1 << 20, &header) != DIPPER_PNG_OK || header.is_interlaced ||
        (uint64_t)header.width * header.height > MOST_PIXELS) {
        dipper_png_close(reader);
        return 0;
    }
    fastpng_header form;
    int channels = header.has_alpha ? 4 : 3;
    if (!dipper_png_describe(reader, &form)) fail("a complete picture is described");
    if (dipper_png_start(reader, channels) != DIPPER_PNG_OK) {
        dipper_png_close(reader);
        return 0;
    }
    size_t stride = (size_t)header.width * 4;
    // Of its very size, so that Address Sanitizer sees a write behind it.
    uint8_t *fast = malloc(stride * header.height), *slow = malloc(stride * header.height);
    fastpng *rows = fastpng_open(&form);
    bool is_fast = rows != NULL;
    // In steps, as a caller with bands reads.
    size_t step = 1 + length % 17;
    for (size_t y = 0; is_fast && y < header.height; y += step)
        is_fast = fastpng_read(rows, fast + y * stride, y + step < header.height ? step : header.height - y);
    fastpng_close(rows);
    size_t done;
    dipper_png_status status = dipper_png_read_rows(reader, slow, stride, header.height, false, &done);
    if (is_fast) {
        if (status != DIPPER_PNG_OK || done != header.height) fail("what is decoded fast, libpng decodes");
        for (size_t i = 0; i < (size_t)header.width * header.height; i++) {
            const uint8_t *pixel = slow + i / header.width * stride + i % header.width * channels;
            if (memcmp(fast + i * 4, pixel, channels) != 0 || (channels == 3 && fast[i * 4 + 3] != 255))
                fail("the pixels are the same");
        }
        fast_pictures++;
    } else if (status == DIPPER_PNG_OK) {
        refused_pictures++;
    }
    free(fast);
    free(slow);
    dipper_png_close(reader);
    return 0;
}

// Mutation

static uint32_t big32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

static void put32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static size_t put_chunk(uint8_t *to, const char *kind, const uint8_t *body, size_t length) {
    put32(to, (uint32_t)length);
    memcpy(to + 4, kind, 4);
    memmove(to + 8, body, length);
    put32(to + 8 + length, (uint32_t)crc32(0, to + 4, (uInt)length + 4));
    return length + 12;
}

static uint8_t stream[1 << 20], raw[1 << 21], chunks[1 << 16];

// Unpacks the stream, which has a header of two bytes and a checksum behind, and returns the number of bytes in `raw`.
// used: the bytes of the stream before the checksum, or 0 if the stream is broken.
static size_t unpack(size_t length, size_t *used) {
    z_stream z = {0};
    *used = 0;
    if (length < 2 || inflateInit2(&z, -15) != Z_OK) return 0;
    z.next_in = stream + 2;
    z.avail_in = (uInt)length - 2;
    z.next_out = raw;
    z.avail_out = sizeof raw;
    if (inflate(&z, Z_FINISH) == Z_STREAM_END) *used = 2 + z.total_in;
    size_t made = z.total_out;
    inflateEnd(&z);
    return made;
}

static size_t pack(size_t length) {
    z_stream z = {0};
    int level = rand() % 10, strategy = rand() % 5;
    if (deflateInit2(&z, level, Z_DEFLATED, 9 + rand() % 7, 1 + rand() % 9, strategy) != Z_OK) return 0;
    z.next_out = stream;
    z.avail_out = sizeof stream;
    z.next_in = raw;
    // Several blocks, of several kinds.
    for (size_t left = length; left > 0;) {
        size_t count = rand() % 4 == 0 ? left : 1 + (size_t)rand() % left;
        z.avail_in = (uInt)count;
        if (deflate(&z, rand() % 2 ? Z_BLOCK : Z_NO_FLUSH) != Z_OK) break;
        left -= count - z.avail_in;
        if (rand() % 3 == 0) deflateParams(&z, rand() % 10, rand() % 5);
    }
    while (deflate(&z, Z_FINISH) == Z_OK) {}
    size_t made = z.total_out;
    deflateEnd(&z);
    return made;
}

static size_t limited(size_t count, size_t most) { return count < most ? count : most; }

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    srand(seed);
    if (size < 57 || rand() % 50 == 0) return LLVMFuzzerMutate(data, size, max_size);
    // Chunks other than pixels on one side, and the stream on the other.
    uint8_t header[13];
    size_t beside = 0, length = 0;
    memcpy(header, data + 16, 13);
    for (size_t at = 33; at + 12 <= size;) {
        size_t count = big32(data + at);
        if (count > size - at - 12) break;
        if (memcmp(data + at + 4, "IDAT", 4) == 0) {
            count = limited(count, sizeof stream - length);
            memcpy(stream + length, data + at + 8, count);
            length += count;
        } else if (memcmp(data + at + 4, "IEND", 4) != 0 && beside + count + 12 <= 4096) {
            memcpy(chunks + beside, data + at, count + 12);
            beside += count + 12;
        }
        at += big32(data + at) + 12;
    }
    size_t used, made = unpack(length, &used);
    bool is_new = false, is_sound = true;
    switch (rand() % 8) {
    case 0: LLVMFuzzerMutate(header, 13, 13); break;
    case 1: {
        static const uint8_t forms[15][2] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}, {8, 2}, {16, 2}, {1, 3},
                                             {2, 3}, {4, 3}, {8, 3}, {8, 4}, {16, 4}, {8, 6}, {16, 6}};
        memcpy(header + 8, forms[rand() % 15], 2);
        if (header[9] == 3 && rand() % 2) {
            uint8_t palette[256 * 3];
            for (size_t i = 0; i < sizeof palette; i++) palette[i] = (uint8_t)rand();
            size_t colors = 1 + (size_t)rand() % (1 << limited(header[8], 8));
            beside += put_chunk(chunks + beside, "PLTE", palette, colors * 3);
        }
        uint8_t key[6] = {0, (uint8_t)rand(), 0, (uint8_t)rand(), 0, (uint8_t)rand()};
        if (rand() % 2) beside += put_chunk(chunks + beside, "tRNS", key, header[9] == 0 ? 2 : 6);
        break;
    }
    case 2:
        if (beside > 0) {
            size_t count = big32(chunks);
            LLVMFuzzerMutate(chunks + 8, count, count);
            char kind[4];
            memcpy(kind, chunks + 4, 4);
            put_chunk(chunks, kind, chunks + 8, count);
        }
        break;
    case 3: is_sound = rand() % 4 != 0; break;
    case 4:
    case 5:
        // Other pixels.
        made = LLVMFuzzerMutate(raw, limited(made, sizeof raw), sizeof raw);
        is_new = true;
        break;
    default:
        // Other codes.
        length = LLVMFuzzerMutate(stream + 2, length > 2 ? length - 2 : 0, limited(sizeof stream - 16, max_size)) + 2;
        made = unpack(length, &used);
    }
    // A size for which the bytes are enough.
    static const uint8_t samples[7] = {1, 1, 3, 1, 2, 1, 4};
    size_t bits = header[9] < 7 ? header[8] * samples[header[9]] : 8;
    if (made > 1 && rand() % 8) {
        size_t width = rand() % 2 ? big32(header) : 1 + (size_t)rand() % 600;
        width = limited(width ? width : 1, (made - 1) * 8 / (bits ? bits : 1));
        if (width == 0) width = 1;
        size_t row = (width * bits + 7) / 8 + 1, height = made / row;
        put32(header, (uint32_t)width);
        put32(header + 4, (uint32_t)(height ? height : 1));
        if (rand() % 8 && height > 0) {
            for (size_t y = 0; y < height; y++) raw[y * row] %= 5;
            made = height * row;
            // With the stream as it is, the rest of the bytes is too much.
            is_new = is_new || rand() % 2;
        }
    }
    if (is_new || rand() % 16 == 0) length = pack(made), used = length > 4 ? length - 4 : 0, unpack(length, &used);
    if (used && is_sound) {
        if ((stream[0] << 8 | stream[1]) % 31 || (stream[0] & 15) != 8) stream[0] = 0x78, stream[1] = 1;
        put32(stream + used, (uint32_t)adler32(1, raw, (uInt)unpack(length, &used)));
        length = used + 4;
    }
    size_t at = 8;
    if (33 + beside + length + 12 * 40 + 12 > max_size) return size;
    memcpy(data, "\x89PNG\r\n\x1a\n", 8);
    at += put_chunk(data + at, "IHDR", header, 13);
    memcpy(data + at, chunks, beside);
    at += beside;
    size_t pieces = rand() % 2 ? 1 : 1 + rand() % 39;
    for (size_t i = 0, from = 0; i < pieces; i++) {
        size_t count = i + 1 == pieces ? length - from : rand() % (length / pieces * 2 + 1);
        count = limited(count, length - from);
        at += put_chunk(data + at, "IDAT", stream + from, count);
        from += count;
    }
    return at + put_chunk(data + at, "IEND", data, 0);
}
