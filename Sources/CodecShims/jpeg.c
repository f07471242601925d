/* For mremap. */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "jpeg_entropy.h"
#include "jpeg_shims.h"
#include "output.h"

/* Errors of libjpeg as return values. */
typedef struct jpeg_errors {
    struct jpeg_error_mgr base;
    /* Each call that may fail sets it, and it is not used after that call. */
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
} jpeg_errors;

static void escape(j_common_ptr cinfo) {
    jpeg_errors *errors = (jpeg_errors *)cinfo->err;
    errors->base.format_message(cinfo, errors->message);
    longjmp(errors->escape, 1);
}

static void keep_quiet(j_common_ptr cinfo) { (void)cinfo; }

/* Makes libjpeg jump to `escape` on errors, and print nothing. */
static void init_errors(jpeg_errors *errors) {
    jpeg_std_error(&errors->base);
    errors->base.error_exit = escape;
    errors->base.output_message = keep_quiet;
}

static bool lacks_memory(const jpeg_errors *errors) {
    int code = errors->base.msg_code;
    return code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
}

/* The coefficients of a large picture are most of what libjpeg takes. They are in the caller's memory: malloc would keep
   as much in the arena of each thread that has ever decoded one. */
typedef struct jpeg_coefficients {
    uint8_t *next;
    size_t left;
} jpeg_coefficients;

/* Replaces the array of libjpeg's memory manager, to which it is opaque. */
struct jvirt_barray_control {
    JBLOCKARRAY rows;
    JDIMENSION count;
    /* The rows from here on are undefined. */
    JDIMENSION defined;
    size_t row_bytes;
};

static jpeg_coefficients *coefficients_of(j_common_ptr cinfo);

static jvirt_barray_ptr request_array(
    j_common_ptr cinfo, int pool, boolean zeros, JDIMENSION width, JDIMENSION height, JDIMENSION most_rows) {
    (void)most_rows;
    jpeg_coefficients *memory = coefficients_of(cinfo);
    size_t row_bytes = (size_t)width * sizeof(JBLOCK);
    if (row_bytes > 0 && height > memory->left / row_bytes) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    jvirt_barray_ptr array = cinfo->mem->alloc_small(cinfo, pool, sizeof *array);
    array->rows = cinfo->mem->alloc_large(cinfo, pool, height * sizeof *array->rows);
    array->count = height;
    array->defined = zeros ? 0 : height;
    array->row_bytes = row_bytes;
    for (JDIMENSION row = 0; row < height; row++) array->rows[row] = (JBLOCKROW)(memory->next + row * row_bytes);
    memory->next += height * row_bytes;
    memory->left -= height * row_bytes;
    return array;
}

static JBLOCKARRAY access_array(
    j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start, JDIMENSION count, boolean writable) {
    (void)writable;
    if (start > array->count || count > array->count - start) ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    /* Just before use, as libjpeg does: clearing it all at first would leave nothing of it in the processor's cache. */
    for (; array->defined < start + count; array->defined++) memset(array->rows[array->defined], 0, array->row_bytes);
    return array->rows + start;
}

static void use_coefficients(j_common_ptr cinfo, void *memory, size_t size) {
    if (!memory) return;
    *coefficients_of(cinfo) = (jpeg_coefficients){memory, size};
    cinfo->mem->request_virt_barray = request_array;
    cinfo->mem->access_virt_barray = access_array;
}

/* Reading */

struct dipper_jpeg_reader {
    struct jpeg_decompress_struct cinfo;
    jpeg_errors errors;
    jpeg_coefficients coefficients;
    /* NULL if libjpeg reads codes itself. */
    jpeg_entropy *entropy;
    bool has_several_scans;
    /* libjpeg has read past the end of the bytes. */
    bool ended;
    /* libjpeg needed data that is missing. */
    bool truncated;
    /* The caller has been told that data is missing. */
    bool reported;
    /* An error ended the reading of scans. */
    bool broken_off;
    int64_t complete_scans;
    bool started;
    bool output_started;
    /* The complete rows of blocks of the only or the first scan. */
    JDIMENSION good_block_rows;
    /* A bit for each component that has occurred in a scan. */
    unsigned seen_components;
    /* The bytes of a file that arrives: how many there are, and how many that are still to come are to be skipped. */
    struct jpeg_source_mgr arriving;
    size_t arrived;
    size_t to_skip;
    /* libjpeg has warned of the file that arrives. */
    bool warned;
};

static dipper_jpeg_reader *reader_of(j_decompress_ptr cinfo) { return (dipper_jpeg_reader *)cinfo->client_data; }

jpeg_entropy *dipper_jpeg_entropy_of(j_decompress_ptr cinfo) { return reader_of(cinfo)->entropy; }

static void note_truncation(dipper_jpeg_reader *reader) {
    if (reader->truncated) return;
    reader->truncated = true;
    if (!reader->has_several_scans || reader->cinfo.input_scan_number <= 1) {
        reader->good_block_rows = reader->cinfo.input_iMCU_row;
    }
}

/* At the end of the bytes libjpeg warns, and supplies an end-of-image marker as often as it asks for more. */
static void take_warning(j_common_ptr common, int level) {
    if (level >= 0) return;
    dipper_jpeg_reader *reader = reader_of((j_decompress_ptr)common);
    reader->warned = true;
    if (common->err->msg_code == JWRN_JPEG_EOF) {
        reader->ended = true;
        /* The arithmetic decoder continues with zeros and emits no other warning. */
        if (reader->cinfo.arith_code && reader->started) note_truncation(reader);
    }
    /* The marker that the decoder met is the one that libjpeg has made up. */
    if (common->err->msg_code == JWRN_HIT_MARKER && reader->ended) note_truncation(reader);
}

static dipper_jpeg_status failure(dipper_jpeg_reader *reader) {
    if (lacks_memory(&reader->errors)) return DIPPER_JPEG_NO_MEMORY;
    return reader->ended ? DIPPER_JPEG_TRUNCATED : DIPPER_JPEG_BROKEN;
}

static bool create(dipper_jpeg_reader *reader) {
    if (setjmp(reader->errors.escape)) return false;
    jpeg_create_decompress(&reader->cinfo);
    return true;
}

dipper_jpeg_reader *dipper_jpeg_open(void) {
    dipper_jpeg_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    init_errors(&reader->errors);
    reader->errors.base.emit_message = take_warning;
    reader->cinfo.err = &reader->errors.base;
    reader->cinfo.client_data = reader;
    if (!create(reader)) {
        dipper_jpeg_close(reader);
        return NULL;
    }
    return reader;
}

void dipper_jpeg_close(dipper_jpeg_reader *reader) {
    if (!reader) return;
    /* Only frees memory, so that no error can occur. */
    jpeg_destroy_decompress(&reader->cinfo);
    dipper_jpeg_entropy_end(reader->entropy);
    free(reader);
}

static void describe(dipper_jpeg_reader *reader, dipper_jpeg_header *header) {
    j_decompress_ptr cinfo = &reader->cinfo;
    header->width = cinfo->image_width;
    header->height = cinfo->image_height;
    switch (cinfo->jpeg_color_space) {
    case JCS_GRAYSCALE: header->colors = DIPPER_JPEG_GREY; break;
    case JCS_RGB:
    case JCS_YCbCr: header->colors = DIPPER_JPEG_RGB; break;
    case JCS_CMYK:
    case JCS_YCCK: header->colors = DIPPER_JPEG_CMYK; break;
    default: header->colors = DIPPER_JPEG_UNKNOWN;
    }
    header->is_adobe = cinfo->saw_Adobe_marker;
    reader->has_several_scans = jpeg_has_multiple_scans(cinfo);
    header->has_several_scans = reader->has_several_scans;
    header->is_arithmetic = cinfo->arith_code;
    header->coefficient_bytes = 0;
    for (int index = 0; reader->has_several_scans && index < cinfo->num_components; index++) {
        const jpeg_component_info *component = &cinfo->comp_info[index];
        int64_t columns = (int64_t)component->width_in_blocks + component->h_samp_factor;
        int64_t rows = (int64_t)component->height_in_blocks + component->v_samp_factor;
        header->coefficient_bytes += columns * rows * (int64_t)sizeof(JBLOCK);
    }
}

dipper_jpeg_status dipper_jpeg_read_header(
    dipper_jpeg_reader *reader, const uint8_t *bytes, size_t count, dipper_jpeg_header *header) {
    j_decompress_ptr cinfo = &reader->cinfo;
    if (setjmp(reader->errors.escape)) return failure(reader);
    jpeg_mem_src(cinfo, bytes, count);
    jpeg_read_header(cinfo, TRUE);
    describe(reader, header);
    return DIPPER_JPEG_OK;
}

static void note_components(dipper_jpeg_reader *reader) {
    for (int index = 0; index < reader->cinfo.comps_in_scan; index++) {
        reader->seen_components |= 1u << reader->cinfo.cur_comp_info[index]->component_index;
    }
}

dipper_jpeg_status dipper_jpeg_start(
    dipper_jpeg_reader *reader, int eighths, bool is_flawless, void *memory, size_t size) {
    j_decompress_ptr cinfo = &reader->cinfo;
    if (setjmp(reader->errors.escape)) return failure(reader);
    use_coefficients((j_common_ptr)cinfo, memory, size);
    switch (cinfo->jpeg_color_space) {
    case JCS_CMYK:
    case JCS_YCCK: cinfo->out_color_space = JCS_CMYK; break;
    default: cinfo->out_color_space = JCS_EXT_RGBA;
    }
    cinfo->scale_num = (unsigned)eighths;
    cinfo->scale_denom = 8;
    cinfo->buffered_image = reader->has_several_scans;
    /* Only the mean of each block is used, and smoothing would change it. */
    if (eighths == 1) cinfo->do_block_smoothing = FALSE;
    reader->good_block_rows = (JDIMENSION)-1;
    reader->started = true;
    note_components(reader);
    jpeg_start_decompress(cinfo);
    if (eighths == 1 && is_flawless && !reader->has_several_scans) reader->entropy = dipper_jpeg_entropy_start(cinfo);
    /* The caller's rows have four bytes a pixel. */
    return cinfo->output_components == 4 ? DIPPER_JPEG_OK : DIPPER_JPEG_BROKEN;
}

int64_t dipper_jpeg_complete_scans(const dipper_jpeg_reader *reader) { return reader->complete_scans; }

int64_t dipper_jpeg_output_width(const dipper_jpeg_reader *reader) { return reader->cinfo.output_width; }
int64_t dipper_jpeg_output_height(const dipper_jpeg_reader *reader) { return reader->cinfo.output_height; }

/* Returns whether a file without an end marker is complete nevertheless. */
static bool has_everything(const dipper_jpeg_reader *reader) {
    const struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    if (reader->seen_components != (1u << cinfo->num_components) - 1) return false;
    if (!cinfo->progressive_mode || !cinfo->coef_bits) return true;
    for (int component = 0; component < cinfo->num_components; component++) {
        for (int index = 0; index < DCTSIZE2; index++) {
            if (cinfo->coef_bits[component][index] != 0) return false;
        }
    }
    return true;
}

static dipper_jpeg_status absorbed(dipper_jpeg_reader *reader) {
    if (reader->ended && !has_everything(reader)) note_truncation(reader);
    if (!reader->truncated || reader->reported) return DIPPER_JPEG_OK;
    reader->reported = true;
    return DIPPER_JPEG_TRUNCATED;
}

dipper_jpeg_status dipper_jpeg_absorb(dipper_jpeg_reader *reader, int64_t max_scans, int64_t stop_after) {
    j_decompress_ptr cinfo = &reader->cinfo;
    if (!reader->has_several_scans) return DIPPER_JPEG_OK;
    if (reader->broken_off) return DIPPER_JPEG_BROKEN_OFF;
    if (setjmp(reader->errors.escape)) {
        dipper_jpeg_status status = failure(reader);
        if (reader->complete_scans == 0 || status == DIPPER_JPEG_NO_MEMORY) return status;
        /* What the reader knows of the frame may be half changed, so it cannot continue. */
        reader->broken_off = true;
        if (status != DIPPER_JPEG_TRUNCATED || reader->reported) return DIPPER_JPEG_BROKEN_OFF;
        reader->reported = true;
        return status;
    }
    for (int step = 0; step < 16; step++) {
        if (stop_after > 0 && reader->complete_scans >= stop_after) return DIPPER_JPEG_OK;
        if (cinfo->input_scan_number > max_scans) return DIPPER_JPEG_TOO_MANY_SCANS;
        int result = jpeg_consume_input(cinfo);
        if (result == JPEG_REACHED_EOI) return absorbed(reader);
        if (result == JPEG_REACHED_SOS) note_components(reader);
        if (result == JPEG_SCAN_COMPLETED) reader->complete_scans++;
        if (reader->truncated && !reader->reported) {
            reader->reported = true;
            return DIPPER_JPEG_TRUNCATED;
        }
    }
    return DIPPER_JPEG_MORE;
}

/* Returns the number of output rows that have data behind them. */
static int64_t good_rows(const dipper_jpeg_reader *reader) {
    const struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    int64_t rows = cinfo->output_height;
    if (reader->good_block_rows == (JDIMENSION)-1) return rows;
    int64_t good = (int64_t)reader->good_block_rows * cinfo->max_v_samp_factor * cinfo->min_DCT_scaled_size;
    return good < rows ? good : rows;
}

dipper_jpeg_status dipper_jpeg_read_rows(
    dipper_jpeg_reader *reader, void *memory, size_t stride, int64_t rows, int64_t *done) {
    j_decompress_ptr cinfo = &reader->cinfo;
    *done = 0;
    if (setjmp(reader->errors.escape)) return failure(reader);
    if (reader->has_several_scans && !reader->output_started) {
        reader->output_started = true;
        jpeg_start_output(cinfo, cinfo->input_scan_number);
    }
    int64_t start = cinfo->output_scanline;
    /* libjpeg returns at most as many rows at a time as the largest vertical sampling factor, which is four. */
    JSAMPROW pointers[4];
    while ((int64_t)cinfo->output_scanline < start + rows) {
        if ((int64_t)cinfo->output_scanline >= good_rows(reader)) break;
        int64_t next = cinfo->output_scanline - start;
        int count = 0;
        for (; count < 4 && next + count < rows; count++) {
            pointers[count] = (JSAMPROW)((uint8_t *)memory + (size_t)(next + count) * stride);
        }
        if (jpeg_read_scanlines(cinfo, pointers, (JDIMENSION)count) == 0) break;
    }
    if (dipper_jpeg_entropy_failed(reader->entropy)) return DIPPER_JPEG_FLAWED;
    int64_t good = good_rows(reader) - start;
    *done = good < (int64_t)cinfo->output_scanline - start ? good : (int64_t)cinfo->output_scanline - start;
    return *done < rows ? DIPPER_JPEG_TRUNCATED : DIPPER_JPEG_OK;
}

/* Files that arrive */

static void need_nothing(j_decompress_ptr cinfo) { (void)cinfo; }

/* libjpeg goes back to where it can begin again, and returns. */
static boolean wait_for_more(j_decompress_ptr cinfo) {
    (void)cinfo;
    return FALSE;
}

static void skip_arriving(j_decompress_ptr cinfo, long count) {
    if (count <= 0) return;
    struct jpeg_source_mgr *source = cinfo->src;
    size_t here = (size_t)count < source->bytes_in_buffer ? (size_t)count : source->bytes_in_buffer;
    source->next_input_byte += here;
    source->bytes_in_buffer -= here;
    reader_of(cinfo)->to_skip += (size_t)count - here;
}

void dipper_jpeg_feed(dipper_jpeg_reader *reader, const uint8_t *bytes, size_t count) {
    struct jpeg_source_mgr *source = &reader->arriving;
    if (!reader->cinfo.src) {
        source->init_source = need_nothing;
        source->fill_input_buffer = wait_for_more;
        source->skip_input_data = skip_arriving;
        source->resync_to_restart = jpeg_resync_to_restart;
        source->term_source = need_nothing;
        reader->cinfo.src = source;
    }
    size_t taken = reader->arrived - source->bytes_in_buffer;
    size_t skipped = reader->to_skip < count - taken ? reader->to_skip : count - taken;
    reader->to_skip -= skipped;
    source->next_input_byte = bytes + taken + skipped;
    source->bytes_in_buffer = count - taken - skipped;
    reader->arrived = count;
}

dipper_jpeg_status dipper_jpeg_read_arriving_header(dipper_jpeg_reader *reader, dipper_jpeg_header *header) {
    if (setjmp(reader->errors.escape)) return failure(reader);
    int result = jpeg_read_header(&reader->cinfo, TRUE);
    if (reader->warned) return DIPPER_JPEG_FLAWED;
    if (result == JPEG_SUSPENDED) return DIPPER_JPEG_MORE;
    describe(reader, header);
    return DIPPER_JPEG_OK;
}

dipper_jpeg_status dipper_jpeg_read_arriving_rows(
    dipper_jpeg_reader *reader, void *memory, size_t stride, int64_t rows, int64_t *done) {
    *done = 0;
    if (setjmp(reader->errors.escape)) return failure(reader);
    while (*done < rows && reader->cinfo.output_scanline < reader->cinfo.output_height) {
        JSAMPROW pointers[4];
        int count = 0;
        for (; count < 4 && *done + count < rows; count++) {
            pointers[count] = (JSAMPROW)((uint8_t *)memory + (size_t)(*done + count) * stride);
        }
        JDIMENSION read = jpeg_read_scanlines(&reader->cinfo, pointers, (JDIMENSION)count);
        if (read == 0) break;
        *done += read;
    }
    if (reader->warned) return DIPPER_JPEG_FLAWED;
    return *done < rows ? DIPPER_JPEG_MORE : DIPPER_JPEG_OK;
}

const char *dipper_jpeg_message(const dipper_jpeg_reader *reader) { return reader->errors.message; }

/* Writing */

struct dipper_jpeg_writer {
    struct jpeg_compress_struct cinfo;
    jpeg_errors errors;
    jpeg_coefficients coefficients;
    struct jpeg_destination_mgr destination;
    uint8_t *bytes;
    size_t capacity;
};

static dipper_jpeg_writer *writer_of(j_compress_ptr cinfo) { return (dipper_jpeg_writer *)cinfo->client_data; }

static jpeg_coefficients *coefficients_of(j_common_ptr cinfo) {
    if (cinfo->is_decompressor) return &reader_of((j_decompress_ptr)cinfo)->coefficients;
    return &writer_of((j_compress_ptr)cinfo)->coefficients;
}

static void grow(j_compress_ptr cinfo) {
    dipper_jpeg_writer *writer = writer_of(cinfo);
    size_t capacity = writer->capacity ? writer->capacity * 2 : 1 << 16;
    uint8_t *bytes = dipper_grow(writer->bytes, writer->capacity, capacity);
    if (!bytes) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    writer->destination.next_output_byte = bytes + writer->capacity;
    writer->destination.free_in_buffer = capacity - writer->capacity;
    writer->bytes = bytes;
    writer->capacity = capacity;
}

static boolean empty_output_buffer(j_compress_ptr cinfo) {
    grow(cinfo);
    return TRUE;
}

static void term_destination(j_compress_ptr cinfo) { (void)cinfo; }

static dipper_jpeg_status write_failure(const dipper_jpeg_writer *writer) {
    return lacks_memory(&writer->errors) ? DIPPER_JPEG_NO_MEMORY : DIPPER_JPEG_BROKEN;
}

static bool start_writing(
    dipper_jpeg_writer *writer, int64_t width, int64_t height, int quality, bool halves_colors, void *memory,
    size_t size) {
    j_compress_ptr cinfo = &writer->cinfo;
    if (setjmp(writer->errors.escape)) return false;
    jpeg_create_compress(cinfo);
    use_coefficients((j_common_ptr)cinfo, memory, size);
    writer->destination.init_destination = grow;
    writer->destination.empty_output_buffer = empty_output_buffer;
    writer->destination.term_destination = term_destination;
    cinfo->dest = &writer->destination;
    cinfo->image_width = (JDIMENSION)width;
    cinfo->image_height = (JDIMENSION)height;
    cinfo->input_components = 4;
    cinfo->in_color_space = JCS_EXT_RGBX;
    jpeg_set_defaults(cinfo);
    jpeg_set_quality(cinfo, quality, TRUE);
    cinfo->optimize_coding = TRUE;
    cinfo->comp_info[0].h_samp_factor = halves_colors ? 2 : 1;
    cinfo->comp_info[0].v_samp_factor = halves_colors ? 2 : 1;
    jpeg_start_compress(cinfo, TRUE);
    return true;
}

size_t dipper_jpeg_coefficient_bytes(int64_t width, int64_t height, bool halves_colors) {
    if (width <= 0 || height <= 0 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION) return 0;
    size_t pixels = (size_t)((width + 15) / 16 * 16) * (size_t)((height + 15) / 16 * 16);
    return sizeof(JCOEF) * (halves_colors ? pixels + pixels / 2 : 3 * pixels);
}

dipper_jpeg_writer *dipper_jpeg_create(
    int64_t width, int64_t height, int quality, bool halves_colors, void *memory, size_t size) {
    if (width <= 0 || height <= 0 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION) return NULL;
    dipper_jpeg_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return NULL;
    init_errors(&writer->errors);
    writer->cinfo.err = &writer->errors.base;
    writer->cinfo.client_data = writer;
    if (!start_writing(writer, width, height, quality, halves_colors, memory, size)) {
        dipper_jpeg_discard(writer);
        return NULL;
    }
    return writer;
}

void dipper_jpeg_discard(dipper_jpeg_writer *writer) {
    if (!writer) return;
    /* Only frees memory, so that no error can occur. */
    jpeg_destroy_compress(&writer->cinfo);
    dipper_drop(writer->bytes, writer->capacity);
    free(writer);
}

dipper_jpeg_status dipper_jpeg_write_rows(
    dipper_jpeg_writer *writer, const void *memory, size_t stride, int64_t rows) {
    if (setjmp(writer->errors.escape)) return write_failure(writer);
    for (int64_t row = 0; row < rows; row++) {
        /* libjpeg does not write to the rows that it is given. */
        JSAMPROW pointer = (JSAMPROW)(uintptr_t)((const uint8_t *)memory + (size_t)row * stride);
        jpeg_write_scanlines(&writer->cinfo, &pointer, 1);
    }
    return DIPPER_JPEG_OK;
}

dipper_jpeg_status dipper_jpeg_end(dipper_jpeg_writer *writer, uint8_t **bytes, size_t *count) {
    if (setjmp(writer->errors.escape)) return write_failure(writer);
    jpeg_finish_compress(&writer->cinfo);
    *count = writer->capacity - writer->destination.free_in_buffer;
    *bytes = dipper_finish(writer->bytes, writer->capacity, *count);
    if (!*bytes) return DIPPER_JPEG_NO_MEMORY;
    writer->bytes = NULL;
    writer->capacity = 0;
    return DIPPER_JPEG_OK;
}

void dipper_output_free(void *bytes, size_t count) { dipper_drop(bytes, count); }
