// gdk-pixbuf goes through all frames of an animation: milliseconds of the processor for each, and the peak of memory in
// MB. Usage: animation_pixbuf FILE FRAMES MILLISECONDS, the milliseconds being those from one frame to the next.
#define GDK_PIXBUF_DISABLE_DEPRECATION_WARNINGS
#define GLIB_DISABLE_DEPRECATION_WARNINGS
#include <gdk-pixbuf/gdk-pixbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int frames = atoi(arguments[2]), step = atoi(arguments[3]);
    GError *error = NULL;
    double start = milliseconds();
    GdkPixbufAnimation *animation = gdk_pixbuf_animation_new_from_file(arguments[1], &error);
    if (animation == NULL) {
        fprintf(stderr, "%s\n", error->message);
        return 1;
    }
    GTimeVal now = {1000, 0};
    GdkPixbufAnimationIter *iter = gdk_pixbuf_animation_get_iter(animation, &now);
    unsigned sum = 0;
    for (int frame = 0; frame < frames; frame++) {
        sum += gdk_pixbuf_get_pixels(gdk_pixbuf_animation_iter_get_pixbuf(iter))[frame % 1000];
        g_time_val_add(&now, step * 1000);
        gdk_pixbuf_animation_iter_advance(iter, &now);
    }
    double time = milliseconds() - start;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    // The sum keeps the compiler from leaving anything out.
    printf("%f %f %u\n", time / frames, usage.ru_maxrss / 1024.0, sum & 1);
    return 0;
}
