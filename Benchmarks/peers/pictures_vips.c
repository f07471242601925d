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

// A true convolution with whole weights, both directions one after the other; weights below a fifth of the middle one
// are left out, as is its default.
static void blur(int sigma, int unused) {
    (void)unused;
    VipsImage *soft;
    check(vips_gaussblur(picture, &soft, (double)sigma, NULL));
    size_t count;
    void *memory = pixels(soft, &count);
    g_free(memory);
    g_object_unref(soft);
}

static VipsImage *mask;

// The mask is drawn once, and not in the time.
static void prepare_mask(int radius, int unused) {
    (void)unused;
    if (mask != NULL) return;
    char svg[256];
    int length = snprintf(
        svg, sizeof svg, "<svg width='%d' height='%d'><rect width='100%%' height='100%%' rx='%d' fill='white'/></svg>",
        picture->Xsize, picture->Ysize, radius);
    VipsImage *drawn, *alpha;
    check(vips_svgload_buffer(svg, (size_t)length, &drawn, NULL));
    check(vips_extract_band(drawn, &alpha, 3, NULL));
    size_t count;
    void *memory = pixels(alpha, &count);
    mask = vips_image_new_from_memory(memory, count, alpha->Xsize, alpha->Ysize, 1, VIPS_FORMAT_UCHAR);
    g_object_unref(alpha);
    g_object_unref(drawn);
}

// The mask becomes the alpha of the opaque picture; colours are not multiplied by it.
static void round_corners(int radius, int unused) {
    (void)radius, (void)unused;
    VipsImage *colors, *joined;
    check(vips_extract_band(picture, &colors, 0, "n", 3, NULL));
    check(vips_bandjoin2(colors, mask, &joined, NULL));
    size_t count;
    void *memory = pixels(joined, &count);
    g_free(memory);
    g_object_unref(joined);
    g_object_unref(colors);
}

int main(int argc, char **argv) {
    if (argc < 1 || VIPS_INIT(argv[0])) vips_error_exit(NULL);
    vips_concurrency_set(1);
    vips_cache_set_max(0);
    const struct action actions[] = {
        {"resize", resize, NULL}, {"blur", blur, NULL}, {"round", round_corners, prepare_mask}, {NULL, NULL, NULL}};
    return serve(decode, prepare, actions);
}
