#include <stdlib.h>

#include "jpeg_errors.h"
#include "jpeg_shims.h"

#include <jerror.h>

struct dipper_jpeg_writer {
    struct jpeg_compress_struct cinfo;
    dipper_jpeg_errors errors;
    struct jpeg_destination_mgr destination;
    uint8_t *bytes;
    size_t capacity;
};

static dipper_jpeg_writer *writer_of(j_compress_ptr cinfo) { return (dipper_jpeg_writer *)cinfo->client_data; }

static void grow(j_compress_ptr cinfo) {
    dipper_jpeg_writer *writer = writer_of(cinfo);
    size_t capacity = writer->capacity ? writer->capacity * 2 : 1 << 16;
    uint8_t *bytes = realloc(writer->bytes, capacity);
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

static dipper_jpeg_status failure(const dipper_jpeg_writer *writer) {
    return dipper_jpeg_errors_lack_memory(&writer->errors) ? DIPPER_JPEG_NO_MEMORY : DIPPER_JPEG_BROKEN;
}

static bool start(dipper_jpeg_writer *writer, int64_t width, int64_t height, int quality, bool halves_colors) {
    j_compress_ptr cinfo = &writer->cinfo;
    if (setjmp(writer->errors.escape)) return false;
    jpeg_create_compress(cinfo);
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

dipper_jpeg_writer *dipper_jpeg_create(int64_t width, int64_t height, int quality, bool halves_colors) {
    if (width <= 0 || height <= 0 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION) return NULL;
    dipper_jpeg_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return NULL;
    dipper_jpeg_errors_init(&writer->errors);
    writer->cinfo.err = &writer->errors.base;
    writer->cinfo.client_data = writer;
    if (!start(writer, width, height, quality, halves_colors)) {
        dipper_jpeg_discard(writer);
        return NULL;
    }
    return writer;
}

void dipper_jpeg_discard(dipper_jpeg_writer *writer) {
    if (!writer) return;
    /* Only frees memory, so that no error can occur. */
    jpeg_destroy_compress(&writer->cinfo);
    free(writer->bytes);
    free(writer);
}

dipper_jpeg_status dipper_jpeg_write_rows(
    dipper_jpeg_writer *writer, const void *memory, size_t stride, int64_t rows) {
    if (setjmp(writer->errors.escape)) return failure(writer);
    for (int64_t row = 0; row < rows; row++) {
        /* libjpeg does not write to the rows that it is given. */
        JSAMPROW pointer = (JSAMPROW)(uintptr_t)((const uint8_t *)memory + (size_t)row * stride);
        jpeg_write_scanlines(&writer->cinfo, &pointer, 1);
    }
    return DIPPER_JPEG_OK;
}

dipper_jpeg_status dipper_jpeg_end(dipper_jpeg_writer *writer, uint8_t **bytes, size_t *count) {
    if (setjmp(writer->errors.escape)) return failure(writer);
    jpeg_finish_compress(&writer->cinfo);
    *count = writer->capacity - writer->destination.free_in_buffer;
    *bytes = writer->bytes;
    writer->bytes = NULL;
    writer->capacity = 0;
    return DIPPER_JPEG_OK;
}
