// What the picture peers in C have in common: lines in, times out.
//
// Each line of the input is `decode FILE WIDTH HEIGHT`, with sizes of 0 for the whole picture, or
// `resize FILE WIDTH HEIGHT`, for which the picture is decoded beforehand. The answer to each is a line with the
// milliseconds it took: of the processor, all threads of the process together, and on the clock.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct file {
    char name[1024];
    unsigned char *bytes;
    size_t count;
};

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void load(struct file *file, const char *name) {
    if (strcmp(file->name, name) == 0) return;
    FILE *stream = fopen(name, "rb");
    if (stream == NULL) fail(name);
    fseek(stream, 0, SEEK_END);
    file->count = (size_t)ftell(stream);
    rewind(stream);
    free(file->bytes);
    file->bytes = malloc(file->count);
    if (fread(file->bytes, 1, file->count, stream) != file->count) fail(name);
    fclose(stream);
    strcpy(file->name, name);
}

static double milliseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

// `resize` may be NULL; `prepare` is called before, outside the time.
static int serve(
    void (*decode)(const struct file *, int, int), void (*prepare)(const struct file *), void (*resize)(int, int)) {
    static struct file file;
    char action[16], name[1024];
    int width, height;
    while (scanf("%15s %1023s %d %d", action, name, &width, &height) == 4) {
        load(&file, name);
        int resizes = strcmp(action, "resize") == 0;
        if (resizes) prepare(&file);
        double cpu = milliseconds(CLOCK_PROCESS_CPUTIME_ID), wall = milliseconds(CLOCK_MONOTONIC);
        if (resizes) resize(width, height);
        else decode(&file, width, height);
        wall = milliseconds(CLOCK_MONOTONIC) - wall;
        printf("%f %f\n", milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall);
        fflush(stdout);
    }
    return 0;
}
