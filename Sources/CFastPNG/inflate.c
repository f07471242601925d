#include "inflate.h"

#include <string.h>

#include "clones.h"

// Entries of the tables. The lowest byte is the number of bits that the entry takes; the byte above it, of lengths and
// distances, is the number of those that are the code, behind which the extra bits are.
//
// One or two literals: LITERAL, their number in the bits 24 and 25, and the literals in the bytes 1 and 2.
// A length or a distance: its base from bit 16 on.
// Neither: ODD, and either END, or SUBTABLE with the first index from bit 8 on and the number of further bits from bit
// 24 on; else the code is invalid.
#define LITERAL (1u << 31)
#define ODD (1u << 30)
#define SUBTABLE (1u << 29)
#define END (1u << 28)
// Distances have no literals, and bases of 15 bits.
#define ODD_DISTANCE (1u << 31)

// A base and a number of extra bits.
#define L(base, extra) ((uint32_t)(base) << 16 | (extra))

static const uint32_t lengths[29] = {
    L(3, 0),  L(4, 0),  L(5, 0),  L(6, 0),  L(7, 0),  L(8, 0),  L(9, 0),  L(10, 0),  L(11, 1),  L(13, 1),
    L(15, 1), L(17, 1), L(19, 2), L(23, 2), L(27, 2), L(31, 2), L(35, 3), L(43, 3),  L(51, 3),  L(59, 3),
    L(67, 4), L(83, 4), L(99, 4), L(115, 4), L(131, 5), L(163, 5), L(195, 5), L(227, 5), L(258, 0)};

static const uint32_t distances[30] = {
    L(1, 0),     L(2, 0),     L(3, 0),     L(4, 0),     L(5, 1),     L(7, 1),      L(9, 2),      L(13, 2),
    L(17, 3),    L(25, 3),    L(33, 4),    L(49, 4),    L(65, 5),    L(97, 5),     L(129, 6),    L(193, 6),
    L(257, 7),   L(385, 7),   L(513, 8),   L(769, 8),   L(1025, 9),  L(1537, 9),   L(2049, 10),  L(3073, 10),
    L(4097, 11), L(6145, 11), L(8193, 12), L(12289, 12), L(16385, 13), L(24577, 13)};

static inline uint64_t load64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

// Codes

static uint32_t literal_entry(unsigned symbol, unsigned length) {
    if (symbol < 256) return LITERAL | 1 << 24 | symbol << 8 | length;
    if (symbol == 256) return ODD | END | length;
    if (symbol > 285) return ODD | length;
    return lengths[symbol - 257] + (length << 8 | length);
}

static uint32_t distance_entry(unsigned symbol, unsigned length) {
    return symbol < 30 ? distances[symbol] + (length << 8 | length) : ODD_DISTANCE | length;
}

static uint32_t plain_entry(unsigned symbol, unsigned length) { return symbol << 16 | length; }

// Fills a table with 2^bits entries, and those of longer codes behind them. `table` has room for a subtable for each
// two symbols. Returns false for lengths that make no complete code, unless there is at most one code, of one bit.
static inline __attribute__((always_inline)) bool build(
    uint32_t *table, unsigned bits, const uint8_t *code_lengths, unsigned symbols,
    uint32_t (*entry)(unsigned, unsigned), uint32_t odd, bool may_be_single) {
    uint16_t counts[16] = {0}, places[16], sorted[288];
    for (unsigned i = 0; i < symbols; i++) counts[code_lengths[i]]++;
    int left = 1;
    unsigned longest = 0;
    places[1] = 0;
    for (unsigned length = 1; length < 16; length++) {
        left = left * 2 - counts[length];
        if (left < 0) return false;
        if (counts[length]) longest = length;
        if (length < 15) places[length + 1] = places[length] + counts[length];
    }
    for (unsigned i = 0; i < symbols; i++)
        if (code_lengths[i]) sorted[places[code_lengths[i]]++] = i;
    if (left > 0) {
        if (!may_be_single || longest > 1) return false;
        for (unsigned i = 0; i < 1u << bits; i++)
            table[i] = longest && !(i & 1) ? entry(sorted[0], 1) : odd;
        return true;
    }

    // Codes come with their first bit lowest, so that counting goes on from the highest bit.
    const uint16_t *symbol = sorted;
    unsigned code = 0, filled = 1, tables_end = 1u << bits, prefix = ~0u, subtable = 0;
    for (unsigned length = 1; length <= longest; length++) {
        if (length <= bits) {
            memcpy(table + filled, table, filled * sizeof *table);
            filled *= 2;
        }
        for (unsigned i = 0; i < counts[length]; i++) {
            uint32_t value = entry(*symbol++, length <= bits ? length : length - bits);
            if (length <= bits) {
                table[code] = value;
            } else {
                unsigned sub_bits = longest - bits, low = code & ((1u << bits) - 1);
                if (low != prefix) {
                    prefix = low;
                    subtable = tables_end;
                    tables_end += 1u << sub_bits;
                    table[low] = odd | SUBTABLE | sub_bits << 24 | subtable << 8 | bits;
                }
                for (unsigned at = code >> bits; at < 1u << sub_bits; at += 1u << (length - bits))
                    table[subtable + at] = value;
            }
            unsigned open = ~code & ((1u << length) - 1);
            if (!open) break;
            unsigned bit = 1u << (31 - __builtin_clz(open));
            code = (code & (bit - 1)) | bit;
        }
    }
    for (; filled < 1u << bits; filled *= 2) memcpy(table + filled, table, filled * sizeof *table);
    return true;
}

// Puts two literals into one entry where both codes fit.
static void pair_literals(uint32_t *table) {
    const unsigned bits = FASTPNG_LITERAL_BITS;
    // Downwards: the entry of the second code is at a lower index, where it is still alone.
    for (unsigned i = 1u << bits; i-- > 0;) {
        uint32_t first = table[i], length = first & 0xFF;
        if (!(first & LITERAL)) continue;
        uint32_t second = table[i >> length];
        if (!(second & LITERAL) || length + (second & 0xFF) > bits) continue;
        table[i] = (first & 0xFFFF) + (second & 0xFF) + ((second & 0xFF00) << 8) + (LITERAL | 2 << 24);
    }
}

static bool build_codes(
    fastpng_inflater *inflater, const uint8_t *literal_lengths, unsigned literal_count,
    const uint8_t *distance_lengths, unsigned distance_count) {
    if (!build(
            inflater->literals, FASTPNG_LITERAL_BITS, literal_lengths, literal_count, literal_entry, ODD, false) ||
        !build(
            inflater->distances, FASTPNG_DISTANCE_BITS, distance_lengths, distance_count, distance_entry,
            ODD_DISTANCE, true))
        return false;
    pair_literals(inflater->literals);
    return true;
}

// Input

// Reads on until `count` bytes are staged, or all that there are, with zeros behind them. Returns false for a chunk with
// a wrong checksum.
static bool stage(fastpng_inflater *inflater, size_t count) {
    // Whole bytes of the bit buffer go back.
    inflater->next -= inflater->bit_count >> 3;
    inflater->bit_count &= 7;
    inflater->bits &= (1u << inflater->bit_count) - 1;
    if (inflater->next > inflater->staged_end) return false;
    size_t rest = (size_t)(inflater->staged_end - inflater->next);
    if (rest >= count || inflater->is_at_end) return true;
    memmove(inflater->stage, inflater->next, rest);
    while (rest < FASTPNG_STAGE) {
        if (inflater->body_left == 0) {
            if (inflater->body) {
                if (fastpng_big32(inflater->body) != inflater->crc) return false;
                inflater->chunks = inflater->body + 4;
            }
            if (inflater->chunks_left == 0) {
                inflater->is_at_end = true;
                break;
            }
            inflater->body_left = fastpng_big32(inflater->chunks);
            inflater->chunks_left -= inflater->body_left + 12;
            inflater->crc = fastpng_crc(0, inflater->chunks + 4, 4);
            inflater->body = inflater->chunks + 8;
            continue;
        }
        size_t taken = FASTPNG_STAGE - rest < inflater->body_left ? FASTPNG_STAGE - rest : inflater->body_left;
        memcpy(inflater->stage + rest, inflater->body, taken);
        inflater->crc = fastpng_crc(inflater->crc, inflater->stage + rest, taken);
        inflater->body += taken;
        inflater->body_left -= taken;
        rest += taken;
    }
    memset(inflater->stage + rest, 0, FASTPNG_PADDING);
    inflater->next = inflater->stage;
    inflater->staged_end = inflater->stage + rest;
    return true;
}

bool fastpng_inflate_start(fastpng_inflater *inflater, const uint8_t *chunks, size_t length) {
    inflater->chunks = chunks;
    inflater->chunks_left = length;
    inflater->body = NULL;
    inflater->body_left = 0;
    inflater->is_at_end = false;
    inflater->next = inflater->staged_end = inflater->stage;
    inflater->bits = 0;
    inflater->bit_count = 0;
    inflater->state = FASTPNG_BLOCK;
    inflater->is_last_block = inflater->has_fixed_codes = false;
    inflater->summed = inflater->window;
    inflater->adler = 1;
    inflater->made = inflater->tables = 0;
    if (!stage(inflater, 2) || inflater->staged_end - inflater->next < 2) return false;
    unsigned method = inflater->next[0], flags = inflater->next[1];
    inflater->next += 2;
    // Deflate with a window of at most 32 KiB, and no dictionary.
    return (method & 15) == 8 && method >> 4 <= 7 && (method << 8 | flags) % 31 == 0 && !(flags & 32);
}

#define FILL(bits, count, next)            \
    do {                                   \
        bits |= load64(next) << count;     \
        next += (63 - count) >> 3;         \
        count |= 56;                       \
    } while (0)

// Few enough for all headers of blocks.
#define TAKE(number) (taken = inflater->bits & ((1u << (number)) - 1), inflater->bits >>= (number), \
                      inflater->bit_count -= (number), taken)

// Reads the header of a block.
static bool begin_block(fastpng_inflater *inflater) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    // The longest header has 17 bits, 19 lengths of three bits, and 316 of up to 14 bits.
    if (!stage(inflater, 1024)) return false;
    const uint8_t *last = inflater->staged_end + 8;
    unsigned taken;
    FILL(inflater->bits, inflater->bit_count, inflater->next);
    inflater->is_last_block = TAKE(1);
    switch (TAKE(2)) {
    case 0: {
        TAKE(inflater->bit_count & 7);
        if (!stage(inflater, 4) || inflater->staged_end - inflater->next < 4) return false;
        unsigned length = inflater->next[0] | inflater->next[1] << 8;
        unsigned inverse = inflater->next[2] | inflater->next[3] << 8;
        if ((length ^ inverse) != 0xFFFF) return false;
        inflater->next += 4;
        inflater->stored_left = length;
        inflater->state = FASTPNG_STORED;
        return true;
    }
    case 1: {
        uint8_t code_lengths[288 + 32];
        inflater->state = FASTPNG_SYMBOLS;
        if (inflater->has_fixed_codes) return true;
        memset(code_lengths, 8, 288);
        memset(code_lengths + 144, 9, 112);
        memset(code_lengths + 256, 7, 24);
        memset(code_lengths + 288, 5, 32);
        inflater->has_fixed_codes = true;
        return build_codes(inflater, code_lengths, 288, code_lengths + 288, 32);
    }
    case 2: break;
    default: return false;
    }

    unsigned literal_count = TAKE(5) + 257, distance_count = TAKE(5) + 1, count = TAKE(4) + 4;
    if (literal_count > 286 || distance_count > 30) return false;
    if (inflater->tables++ >= FASTPNG_MOST_TABLES + inflater->made / 256) return false;
    uint8_t code_lengths[286 + 30] = {0};
    uint32_t table[128];
    for (unsigned i = 0; i < count; i++) {
        FILL(inflater->bits, inflater->bit_count, inflater->next);
        code_lengths[order[i]] = TAKE(3);
    }
    if (!build(table, 7, code_lengths, 19, plain_entry, 0, false)) return false;
    memset(code_lengths, 0, 19);
    for (unsigned i = 0; i < literal_count + distance_count;) {
        if (inflater->next > last) return false;
        FILL(inflater->bits, inflater->bit_count, inflater->next);
        uint32_t entry = table[inflater->bits & 127];
        TAKE(entry & 0xFF);
        unsigned symbol = entry >> 16, repeats, value = 0;
        if (symbol < 16) {
            code_lengths[i++] = symbol;
            continue;
        }
        if (symbol == 16) {
            if (i == 0) return false;
            value = code_lengths[i - 1];
            repeats = 3 + TAKE(2);
        } else {
            repeats = symbol == 17 ? 3 + TAKE(3) : 11 + TAKE(7);
        }
        if (repeats > literal_count + distance_count - i) return false;
        memset(code_lengths + i, (int)value, repeats);
        i += repeats;
    }
    if (code_lengths[256] == 0) return false;
    inflater->has_fixed_codes = false;
    inflater->state = FASTPNG_SYMBOLS;
    return build_codes(inflater, code_lengths, literal_count, code_lengths + literal_count, distance_count);
}

// Output

static inline __attribute__((always_inline)) void copy_match(uint8_t *to, unsigned length, unsigned distance) {
    const uint8_t *from = to - distance;
    uint8_t *end = to + length;
    if (distance >= 16) {
        do {
            memcpy(to, from, 16);
            to += 16, from += 16;
        } while (to < end);
    } else if (distance == 1) {
        uint64_t word = *from * 0x0101010101010101u;
        do {
            memcpy(to, &word, 8);
            to += 8;
        } while (to < end);
    } else if (distance >= 8) {
        do {
            memcpy(to, from, 8);
            to += 8, from += 8;
        } while (to < end);
    } else {
        // Of eight bytes the first `distance` are right.
        do {
            uint64_t word;
            memcpy(&word, from, 8);
            memcpy(to, &word, 8);
            to += distance, from += distance;
        } while (to < end);
    }
}

// Decodes symbols until the input, the room or the block ends.
CLONES static bool take_symbols(fastpng_inflater *inflater) {
    const uint32_t literal_mask = (1u << FASTPNG_LITERAL_BITS) - 1, distance_mask = (1u << FASTPNG_DISTANCE_BITS) - 1;
    const uint32_t *literals = inflater->literals, *distances = inflater->distances;
    const uint8_t *next = inflater->next;
    // At the end, bytes behind the last one are taken into the bit buffer, but no bits of them used.
    const uint8_t *input_limit = inflater->staged_end + (inflater->is_at_end ? 8 : -32);
    uint8_t *out = inflater->out, *window = inflater->window, *limit = inflater->limit;
    uint64_t bits = inflater->bits;
    unsigned count = inflater->bit_count;
    bool is_sound = true;

#define DROP(entry) (bits >>= (entry) & 0xFF, count -= (entry) & 0xFF)
#define SUBINDEX(entry) (((entry) >> 8 & 0xFFFF) + (bits & ((1u << ((entry) >> 24 & 15)) - 1)))
#define VALUE(entry) (((entry) >> 16) + (unsigned)((bits & ((1ull << ((entry) & 0xFF)) - 1)) >> ((entry) >> 8 & 31)))
// The second byte does not count, and is written over, if there is one literal.
#define PUT(entry)                      \
    do {                                \
        out[0] = (uint8_t)((entry) >> 8);  \
        out[1] = (uint8_t)((entry) >> 16); \
        out += (entry) >> 24 & 3;       \
        DROP(entry);                    \
    } while (0)

    if (next <= input_limit) {
        FILL(bits, count, next);
        uint32_t entry = literals[bits & literal_mask];
        while (next <= input_limit && out <= limit) {
            FILL(bits, count, next);
            if (entry & LITERAL) {
                PUT(entry);
                entry = literals[bits & literal_mask];
                if (entry & LITERAL) {
                    PUT(entry);
                    entry = literals[bits & literal_mask];
                    if (entry & LITERAL) {
                        PUT(entry);
                        entry = literals[bits & literal_mask];
                        continue;
                    }
                }
            }
            // At least 32 bits are left, and a length takes at most 20.
            if (entry & ODD) {
                if (entry & SUBTABLE) {
                    DROP(entry);
                    entry = literals[SUBINDEX(entry)];
                    if (entry & LITERAL) {
                        PUT(entry);
                        entry = literals[bits & literal_mask];
                        continue;
                    }
                }
                if (entry & ODD) {
                    is_sound = entry & END;
                    DROP(entry);
                    inflater->state = inflater->is_last_block ? FASTPNG_DONE : FASTPNG_BLOCK;
                    break;
                }
            }
            unsigned length = VALUE(entry);
            DROP(entry);
            FILL(bits, count, next);
            uint32_t far = distances[bits & distance_mask];
            if (far & ODD_DISTANCE) {
                if (far & SUBTABLE) {
                    DROP(far);
                    far = distances[SUBINDEX(far)];
                }
                if (far & ODD_DISTANCE) {
                    is_sound = false;
                    break;
                }
            }
            unsigned distance = VALUE(far);
            DROP(far);
            entry = literals[bits & literal_mask];
            if (distance > (size_t)(out - window)) {
                is_sound = false;
                break;
            }
            copy_match(out, length, distance);
            out += length;
        }
    }
    inflater->next = next;
    inflater->out = out;
    inflater->bits = bits;
    inflater->bit_count = count;
    return is_sound;
}

static bool take_stored(fastpng_inflater *inflater) {
    while (inflater->stored_left > 0) {
        if (!stage(inflater, 1)) return false;
        size_t room = (size_t)(inflater->limit + FASTPNG_SLACK - inflater->out);
        size_t there = (size_t)(inflater->staged_end - inflater->next);
        size_t count = inflater->stored_left < there ? inflater->stored_left : there;
        if (there == 0) return false;
        if (room == 0) return true;
        if (count > room) count = room;
        memcpy(inflater->out, inflater->next, count);
        inflater->next += count;
        inflater->out += count;
        inflater->stored_left -= count;
    }
    inflater->state = inflater->is_last_block ? FASTPNG_DONE : FASTPNG_BLOCK;
    return true;
}

static void sum_up(fastpng_inflater *inflater) {
    size_t count = (size_t)(inflater->out - inflater->summed);
    inflater->adler = fastpng_adler(inflater->adler, inflater->summed, count);
    inflater->made += count;
    inflater->summed = inflater->out;
}

bool fastpng_inflate(fastpng_inflater *inflater) {
    while (inflater->out <= inflater->limit && inflater->state != FASTPNG_DONE) {
        bool is_sound = true;
        switch (inflater->state) {
        case FASTPNG_BLOCK: is_sound = begin_block(inflater); break;
        case FASTPNG_STORED: is_sound = take_stored(inflater); break;
        default:
            // Without more input the last symbols must be the end of the block.
            if (inflater->staged_end - inflater->next < 32) is_sound = stage(inflater, 64);
            is_sound = is_sound && take_symbols(inflater);
            if (inflater->is_at_end && inflater->next > inflater->staged_end + 8) is_sound = false;
        }
        if (!is_sound) return false;
    }
    sum_up(inflater);
    if (inflater->state != FASTPNG_DONE) return true;
    unsigned taken;
    TAKE(inflater->bit_count & 7);
    (void)taken;
    if (!stage(inflater, FASTPNG_STAGE)) return false;
    return inflater->is_at_end && inflater->staged_end - inflater->next == 4 &&
           fastpng_big32(inflater->next) == inflater->adler;
}
