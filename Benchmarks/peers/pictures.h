// What the picture peers in C have in common: lines in, times out.
//
// Each line of the input is `decode FILE WIDTH HEIGHT`, with sizes of 0 for the whole picture, or
// `ACTION FILE NUMBER NUMBER` such as `resize FILE WIDTH HEIGHT`, for which the picture is decoded beforehand. The answer to each is a line with the
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

// Something to be done to a picture that is decoded already.
struct action {
    const char *name;
    void (*run)(int, int);
    // Called before, outside the time; may be NULL.
    void (*prepare)(int, int);
};

// `actions` ends with a name that is NULL; `prepare` is called before each of them, outside the time.
static int serve(
    void (*decode)(const struct file *, int, int), void (*prepare)(const struct file *), const struct action *actions) {
    static struct file file;
    char name[16], path[1024];
    int width, height;
    while (scanf("%15s %1023s %d %d", name, path, &width, &height) == 4) {
        load(&file, path);
        const struct action *action = NULL;
        if (strcmp(name, "decode") != 0) {
            for (action = actions; action->name != NULL && strcmp(action->name, name) != 0; action++) {}
            if (action->name == NULL) fail(name);
            prepare(&file);
            if (action->prepare != NULL) action->prepare(width, height);
        }
        double cpu = milliseconds(CLOCK_PROCESS_CPUTIME_ID), wall = milliseconds(CLOCK_MONOTONIC);
        if (action != NULL) action->run(width, height);
        else decode(&file, width, height);
        wall = milliseconds(CLOCK_MONOTONIC) - wall;
        printf("%f %f\n", milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall);
        fflush(stdout);
    }
    return 0;
}
