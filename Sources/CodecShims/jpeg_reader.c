#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "jpeg_errors.h"
#include "jpeg_shims.h"

#include <jerror.h>

struct dipper_jpeg_reader {
    struct jpeg_decompress_struct cinfo;
    dipper_jpeg_errors errors;
    struct jpeg_source_mgr source;
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
};

static dipper_jpeg_reader *reader_of(j_decompress_ptr cinfo) { return (dipper_jpeg_reader *)cinfo->client_data; }

static void note_truncation(dipper_jpeg_reader *reader) {
    if (reader->truncated) return;
    reader->truncated = true;
    if (!reader->has_several_scans || reader->cinfo.input_scan_number <= 1) {
        reader->good_block_rows = reader->cinfo.input_iMCU_row;
    }
}

static void emit_message(j_common_ptr common, int level) {
    if (level >= 0) return;
    common->err->num_warnings++;
    dipper_jpeg_reader *reader = reader_of((j_decompress_ptr)common);
    /* The marker that libjpeg met is the one that fill_input_buffer has made up. */
    if (common->err->msg_code == JWRN_HIT_MARKER && reader->ended) note_truncation(reader);
}

static void init_source(j_decompress_ptr cinfo) { (void)cinfo; }
static void term_source(j_decompress_ptr cinfo) { (void)cinfo; }

/* At the end of the bytes, supplies an end-of-image marker as often as libjpeg asks. */
static boolean fill_input_buffer(j_decompress_ptr cinfo) {
    static const JOCTET end[2] = {0xFF, JPEG_EOI};
    dipper_jpeg_reader *reader = reader_of(cinfo);
    reader->ended = true;
    reader->source.next_input_byte = end;
    reader->source.bytes_in_buffer = sizeof end;
    /* The arithmetic decoder continues with zeros and emits no warning. */
    if (cinfo->arith_code && reader->started) note_truncation(reader);
    return TRUE;
}

static void skip_input_data(j_decompress_ptr cinfo, long count) {
    struct jpeg_source_mgr *source = cinfo->src;
    if (count <= 0) return;
    if ((unsigned long)count <= source->bytes_in_buffer) {
        source->next_input_byte += count;
        source->bytes_in_buffer -= (size_t)count;
    } else {
        fill_input_buffer(cinfo);
    }
}

static dipper_jpeg_status failure(dipper_jpeg_reader *reader) {
    if (dipper_jpeg_errors_lack_memory(&reader->errors)) return DIPPER_JPEG_NO_MEMORY;
    return reader->ended ? DIPPER_JPEG_TRUNCATED : DIPPER_JPEG_BROKEN;
}

static bool create(dipper_jpeg_reader *reader) {
    if (setjmp(reader->errors.escape)) return false;
    jpeg_create_decompress(&reader->cinfo);
    return true;
}

dipper_jpeg_reader *dipper_jpeg_open(const uint8_t *bytes, size_t count) {
    dipper_jpeg_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    dipper_jpeg_errors_init(&reader->errors);
    reader->errors.base.emit_message = emit_message;
    reader->cinfo.err = &reader->errors.base;
    reader->cinfo.client_data = reader;
    if (!create(reader)) {
        dipper_jpeg_close(reader);
        return NULL;
    }
    reader->source.init_source = init_source;
    reader->source.fill_input_buffer = fill_input_buffer;
    reader->source.skip_input_data = skip_input_data;
    reader->source.resync_to_restart = jpeg_resync_to_restart;
    reader->source.term_source = term_source;
    reader->source.next_input_byte = bytes;
    reader->source.bytes_in_buffer = count;
    reader->cinfo.src = &reader->source;
    return reader;
}

void dipper_jpeg_close(dipper_jpeg_reader *reader) {
    if (!reader) return;
    /* Only frees memory, so that no error can occur. */
    jpeg_destroy_decompress(&reader->cinfo);
    free(reader);
}

dipper_jpeg_status dipper_jpeg_read_header(dipper_jpeg_reader *reader, dipper_jpeg_header *header) {
    j_decompress_ptr cinfo = &reader->cinfo;
    if (setjmp(reader->errors.escape)) return failure(reader);
    jpeg_read_header(cinfo, TRUE);
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
    return DIPPER_JPEG_OK;
}

static void note_components(dipper_jpeg_reader *reader) {
    for (int index = 0; index < reader->cinfo.comps_in_scan; index++) {
        reader->seen_components |= 1u << reader->cinfo.cur_comp_info[index]->component_index;
    }
}

dipper_jpeg_status dipper_jpeg_start(dipper_jpeg_reader *reader, int eighths, size_t memory) {
    j_decompress_ptr cinfo = &reader->cinfo;
    if (setjmp(reader->errors.escape)) return failure(reader);
    cinfo->mem->max_memory_to_use = memory > (size_t)LONG_MAX ? LONG_MAX : (long)memory;
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

dipper_jpeg_status dipper_jpeg_absorb(dipper_jpeg_reader *reader, int steps, int64_t max_scans, int64_t stop_after) {
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
    for (int step = 0; step < steps; step++) {
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
    int64_t good = good_rows(reader) - start;
    *done = good < (int64_t)cinfo->output_scanline - start ? good : (int64_t)cinfo->output_scanline - start;
    return *done < rows ? DIPPER_JPEG_TRUNCATED : DIPPER_JPEG_OK;
}

const char *dipper_jpeg_message(const dipper_jpeg_reader *reader) { return reader->errors.message; }
