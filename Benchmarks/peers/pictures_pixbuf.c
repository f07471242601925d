// gdk-pixbuf with the loaders of its own; see pictures.h.
#include "pictures.h"

#include <gdk-pixbuf/gdk-pixbuf.h>

static void decode(const struct file *file, int width, int height) {
    GInputStream *stream = g_memory_input_stream_new_from_data(file->bytes, (gssize)file->count, NULL);
    GError *error = NULL;
    GdkPixbuf *picture = width > 0
        ? gdk_pixbuf_new_from_stream_at_scale(stream, width, height, TRUE, NULL, &error)
        : gdk_pixbuf_new_from_stream(stream, NULL, &error);
    if (picture == NULL) fail(error->message);
    g_object_unref(picture);
    g_object_unref(stream);
}

int main(void) { return serve(decode, NULL, (const struct action[]){{NULL, NULL, NULL}}); }
