#include <string.h>
#include <zlib.h>

#include "clones.h"
#include "inflate.h"

uint32_t fastpng_crc(uint32_t crc, const uint8_t *bytes, size_t count) { return (uint32_t)crc32_z(crc, bytes, count); }

// RFC 1950, 8.2. Columns of 32 bytes are added up in 16 bits, which hold 22 of them.
CLONES uint32_t fastpng_adler(uint32_t adler, const uint8_t *bytes, size_t count) {
    enum { WIDTH = 32, ROWS = 22, BLOCK = WIDTH * ROWS };
    const uint32_t prime = 65521;
    uint64_t a = adler & 0xFFFF, b = adler >> 16;
    for (; count >= BLOCK; count -= BLOCK) {
        // The sums of all bytes so far, and the sums of those sums, which count each byte once for each later row.
        u16x32 sums = {0}, sums_of_sums = {0};
        for (int row = 0; row < ROWS; row++, bytes += WIDTH) {
            u8x32 value;
            memcpy(&value, bytes, WIDTH);
            sums_of_sums += sums;
            sums += __builtin_convertvector(value, u16x32);
        }
        uint32_t total = 0, rows = 0, columns = 0;
        for (uint32_t i = 0; i < WIDTH; i++) {
            total += sums[i];
            rows += sums_of_sums[i];
            columns += sums[i] * (WIDTH - i);
        }
        b = (b + BLOCK * a + (uint64_t)WIDTH * rows + columns) % prime;
        a = (a + total) % prime;
    }
    for (; count > 0; count--) {
        a += *bytes++;
        b += a;
    }
    return (uint32_t)(b % prime << 16 | a % prime);
}
