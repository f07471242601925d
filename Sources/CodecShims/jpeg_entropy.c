#include <stdlib.h>
#include <string.h>

#include "jpeg_entropy.h"

#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && JPEG_LIB_VERSION == 62

/* As in jpegint.h, which not every system has. */
struct jpeg_entropy_decoder {
    void (*start_pass)(j_decompress_ptr cinfo);
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *blocks);
    boolean insufficient_data;
};

enum {
    INDEX_BITS = 12,
    /* So many bits are at hand before each look-up, and none takes more: a code and its value have at most 31. */
    NEEDED_BITS = 32,
    ENDS_BLOCK = 1 << 15,
};

/* Tables with the next bits as index. An entry is zero if the code is longer than the index, or does not exist. */
typedef struct code_table {
    /* The first code: its length, and from bit 8 on its symbol. */
    uint16_t first[1 << INDEX_BITS];
    /* As many codes of coefficients as the index has whole: the bits of these and of their values, and from bit 8 on
       the number of coefficients. */
    uint16_t all[1 << INDEX_BITS];
    /* For longer codes: what follows the last code of each length, aligned to 16 bits; the number of the first symbol
       of a length, less its code; and the symbols. */
    uint32_t ends[17];
    int32_t offsets[17];
    uint8_t symbols[256];
} code_table;

/* Where the decoder is. A function copies it, so that the compiler keeps it in registers. */
typedef struct position {
    const uint8_t *next, *end;
    /* The first is the highest. */
    uint64_t bits;
    int count;
    /* The bits of `count` that the file does not have. */
    int missing;
    bool failed;
} position;

struct jpeg_entropy {
    position at;
    unsigned restarts_left;
    uint8_t next_restart;
    uint32_t means[MAX_COMPS_IN_SCAN];
    code_table *means_codes[NUM_HUFF_TBLS], *codes[NUM_HUFF_TBLS];
};

static const uint8_t natural_order[DCTSIZE2] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* ITU-T T.81, C.2. */
static code_table *make_codes(const JHUFF_TBL *given) {
    code_table *table = given ? calloc(1, sizeof *table) : NULL;
    if (!table) return NULL;
    uint32_t code = 0;
    int symbol = 0;
    for (int length = 1; length <= 16; length++) {
        table->offsets[length] = symbol - (int32_t)(code >> (16 - length));
        for (int i = 0; i < given->bits[length] && symbol < 256; i++, symbol++) {
            uint32_t size = 1u << (16 - length);
            if (code + size > 1 << 16) break;
            for (uint32_t at = code; length <= INDEX_BITS && at < code + size; at += 1 << (16 - INDEX_BITS))
                table->first[at >> (16 - INDEX_BITS)] = (uint16_t)(length | given->huffval[symbol] << 8);
            code += size;
        }
        table->ends[length] = code;
    }
    memcpy(table->symbols, given->huffval, sizeof table->symbols);
    for (uint32_t index = 0; index < 1 << INDEX_BITS; index++) {
        unsigned taken = 0, coefficients = 0;
        for (;;) {
            unsigned entry = table->first[index << taken & ((1 << INDEX_BITS) - 1)];
            unsigned length = entry & 255, run = entry >> 12, value = entry >> 8 & 15;
            if (length == 0 || taken + length > INDEX_BITS) break;
            if (coefficients + run + 1 >= ENDS_BLOCK >> 8) break;
            taken += length + value;
            coefficients += run + 1;
            if (value == 0 && run < 15) coefficients = (coefficients - run - 1) | ENDS_BLOCK >> 8;
            if (coefficients >= ENDS_BLOCK >> 8 || taken >= INDEX_BITS) break;
        }
        table->all[index] = (uint16_t)(taken | coefficients << 8);
    }
    return table;
}

static inline __attribute__((always_inline)) void refill(position *at) {
    if (at->count >= NEEDED_BITS) return;
    if (at->end - at->next >= 8) {
        uint64_t word;
        memcpy(&word, at->next, 8);
        word = __builtin_bswap64(word);
        /* No byte is 0xFF. */
        if (!((~word - 0x0101010101010101) & word & 0x8080808080808080)) {
            at->bits |= word >> at->count;
            int bytes = (63 - at->count) >> 3;
            at->next += bytes;
            at->count += bytes * 8;
            return;
        }
    }
    while (at->count <= 56) {
        uint64_t byte = 0;
        /* A marker ends the data; 0xFF 0 is a byte of 0xFF. */
        if (at->next < at->end && (*at->next != 0xFF || (at->end - at->next > 1 && at->next[1] == 0))) {
            byte = *at->next;
            at->next += byte == 0xFF ? 2 : 1;
        } else {
            at->missing += 8;
        }
        at->bits |= byte << (56 - at->count);
        at->count += 8;
    }
}

static inline __attribute__((always_inline)) void drop(position *at, unsigned count) {
    at->bits <<= count;
    at->count -= (int)count;
}

/* Returns the next code's symbol, and drops the code. */
static inline __attribute__((always_inline)) unsigned symbol_of(position *at, const code_table *table) {
    unsigned entry = table->first[at->bits >> (64 - INDEX_BITS)];
    if (__builtin_expect(entry & 255, 1)) {
        drop(at, entry & 255);
        return entry >> 8;
    }
    uint32_t code = (uint32_t)(at->bits >> 48);
    for (int length = INDEX_BITS + 1; length <= 16; length++) {
        if (code >= table->ends[length]) continue;
        drop(at, (unsigned)length);
        return table->symbols[((int32_t)(code >> (16 - length)) + table->offsets[length]) & 255];
    }
    at->failed = true;
    return 0;
}

/* ITU-T T.81, F.2.2.1: a value of so many bits. */
static inline __attribute__((always_inline)) int32_t value_of(position *at, unsigned size) {
    if (size == 0) return 0;
    int32_t value = (int32_t)(at->bits >> (64 - size));
    drop(at, size);
    return value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
}

static inline __attribute__((always_inline)) void skip_block(position *at, const code_table *table) {
    unsigned done = 1;
    while (done < DCTSIZE2) {
        refill(at);
        unsigned entry = table->all[at->bits >> (64 - INDEX_BITS)];
        unsigned next = done + (entry >> 8 & 127);
        if (__builtin_expect(entry != 0 && next < DCTSIZE2, 1)) {
            drop(at, entry & 255);
            if (entry & ENDS_BLOCK) return;
            done = next;
            continue;
        }
        /* Code by code up to the last coefficient, after which no code ends the block. */
        unsigned symbol = symbol_of(at, table);
        drop(at, symbol & 15);
        if (symbol < 0xF0 && (symbol & 15) == 0) return;
        done += (symbol >> 4) + 1;
    }
    if (done > DCTSIZE2) at->failed = true;
}

static inline __attribute__((always_inline)) void read_block(position *at, const code_table *table, JCOEFPTR block) {
    for (unsigned done = 1; done < DCTSIZE2; done++) {
        refill(at);
        unsigned symbol = symbol_of(at, table), size = symbol & 15;
        if (size == 0 && symbol < 0xF0) return;
        done += symbol >> 4;
        int32_t value = value_of(at, size);
        if (done >= DCTSIZE2) {
            at->failed = true;
            return;
        }
        block[natural_order[done]] = (JCOEF)value;
    }
}

/* Between the parts of a scan: the next marker, with no bits before it but those that fill up a byte. */
static void restart(j_decompress_ptr cinfo, jpeg_entropy *state) {
    position *at = &state->at;
    int unread = at->count - at->missing;
    if (unread < 0 || unread > 7 || at->end - at->next < 2 || at->next[0] != 0xFF
        || at->next[1] != 0xD0 + state->next_restart) {
        at->failed = true;
        return;
    }
    at->next += 2;
    at->bits = 0;
    at->count = at->missing = 0;
    state->next_restart = (state->next_restart + 1) & 7;
    memset(state->means, 0, sizeof state->means);
    state->restarts_left = cinfo->restart_interval;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks) {
    jpeg_entropy *state = dipper_jpeg_entropy_of(cinfo);
    if (cinfo->restart_interval && state->restarts_left == 0) restart(cinfo, state);
    if (state->at.failed) return TRUE;
    state->restarts_left--;
    position at = state->at;
    for (int index = 0; index < cinfo->blocks_in_MCU; index++) {
        int number = cinfo->MCU_membership[index];
        const jpeg_component_info *component = cinfo->cur_comp_info[number];
        refill(&at);
        unsigned size = symbol_of(&at, state->means_codes[component->dc_tbl_no]) & 15;
        state->means[number] += (uint32_t)value_of(&at, size);
        JCOEFPTR block = *blocks[index];
        block[0] = (JCOEF)state->means[number];
        const code_table *codes = state->codes[component->ac_tbl_no];
        if (component->DCT_scaled_size > 1) read_block(&at, codes, block);
        else skip_block(&at, codes);
    }
    if (at.count < at.missing) at.failed = true;
    state->at = at;
    return TRUE;
}

jpeg_entropy *dipper_jpeg_entropy_start(j_decompress_ptr cinfo) {
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8) return NULL;
    /* A lossless file has other decoders. */
    if (cinfo->Ss != 0 || cinfo->Se != DCTSIZE2 - 1 || cinfo->Ah != 0 || cinfo->Al != 0) return NULL;
    jpeg_entropy *state = calloc(1, sizeof *state);
    if (!state) return NULL;
    state->at.next = cinfo->src->next_input_byte;
    state->at.end = state->at.next + cinfo->src->bytes_in_buffer;
    state->restarts_left = cinfo->restart_interval;
    for (int index = 0; index < cinfo->comps_in_scan; index++) {
        const jpeg_component_info *component = cinfo->cur_comp_info[index];
        code_table **means = &state->means_codes[component->dc_tbl_no], **codes = &state->codes[component->ac_tbl_no];
        if (!*means) *means = make_codes(cinfo->dc_huff_tbl_ptrs[component->dc_tbl_no]);
        if (!*codes) *codes = make_codes(cinfo->ac_huff_tbl_ptrs[component->ac_tbl_no]);
        if (!*means || !*codes) {
            dipper_jpeg_entropy_end(state);
            return NULL;
        }
    }
    cinfo->entropy->decode_mcu = decode_mcu;
    return state;
}

#else

jpeg_entropy *dipper_jpeg_entropy_start(j_decompress_ptr cinfo) {
    (void)cinfo;
    return NULL;
}

struct jpeg_entropy {
    struct { bool failed; } at;
    void *means_codes[NUM_HUFF_TBLS], *codes[NUM_HUFF_TBLS];
};

#endif

void dipper_jpeg_entropy_end(jpeg_entropy *state) {
    if (!state) return;
    for (int index = 0; index < NUM_HUFF_TBLS; index++) {
        free(state->means_codes[index]);
        free(state->codes[index]);
    }
    free(state);
}

bool dipper_jpeg_entropy_failed(const jpeg_entropy *state) { return state && state->at.failed; }
