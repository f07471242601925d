// libvips on one thread, without its cache of results; see pictures.h.
#include "pictures.h"

#include <vips/vips.h>

static void check(int failed) {
    if (failed) vips_error_exit(NULL);
}

// Pixels are made when they are asked for.
static void *pixels(VipsImage *image, size_t *count) {
    void *memory = vips_image_write_to_memory(image, count);
    if (memory == NULL) vips_error_exit(NULL);
    return memory;
}

static void decode(const struct file *file, int width, int height) {
    VipsImage *image = NULL;
    if (width > 0) {
        check(vips_thumbnail_buffer(file->bytes, file->count, &image, width, "height", height, NULL));
    } else if (file->bytes[0] == 0xFF) {
        check(vips_jpegload_buffer(file->bytes, file->count, &image, NULL));
    } else {
        image = vips_image_new_from_buffer(file->bytes, file->count, "", NULL);
        check(image == NULL);
    }
    size_t count;
    void *memory = pixels(image, &count);
    g_free(memory);
    g_object_unref(image);
}

static void *prepared;
static VipsImage *picture;

// Four bytes a pixel, as ours.
static void prepare(const struct file *file) {
    if (picture != NULL) return;
    VipsImage *loaded = vips_image_new_from_buffer(file->bytes, file->count, "", NULL), *wide;
    check(loaded == NULL);
    check(vips_addalpha(loaded, &wide, NULL));
    size_t count;
    prepared = pixels(wide, &count);
    picture = vips_image_new_from_memory(prepared, count, wide->Xsize, wide->Ysize, wide->Bands, VIPS_FORMAT_UCHAR);
    picture->Type = VIPS_INTERPRETATION_sRGB;
    g_object_unref(wide);
    g_object_unref(loaded);
}

static void resize(int width, int height) {
    VipsImage *small;
    check(
        vips_resize(
            picture, &small, (double)width / picture->Xsize, "vscale", (double)height / picture->Ysize, "kernel",
            VIPS_KERNEL_LANCZOS3, NULL));
    size_t count;
    void *memory = pixels(small, &count);
    g_free(memory);
    g_object_unref(small);
}

int main(int argc, char **argv) {
    if (argc < 1 || VIPS_INIT(argv[0])) vips_error_exit(NULL);
    vips_concurrency_set(1);
    vips_cache_set_max(0);
    return serve(decode, prepare, resize);
}
