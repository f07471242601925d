#define _GNU_SOURCE
#include "FlushLog.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The functions below replace those of the C library in the whole process, including libsqlite3. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char **paths;
static size_t count, room;
static char *failing[16];

/* Notes the flush; returns whether it fails. */
static int noted(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    pthread_mutex_lock(&lock);
    if (count == room) {
        room = room ? room * 2 : 256;
        if (!(paths = realloc(paths, room * sizeof *paths))) abort();
    }
    paths[count++] = strdup(path);
    int is_failing = 0;
    for (size_t i = 0; i < 16; i++) is_failing |= failing[i] && strstr(path, failing[i]) != NULL;
    pthread_mutex_unlock(&lock);
    if (is_failing) errno = EIO;
    return is_failing;
}

int fsync(int file) { return noted(file) ? -1 : (int)syscall(SYS_fsync, file); }
int fdatasync(int file) { return noted(file) ? -1 : (int)syscall(SYS_fdatasync, file); }

int flush_log_fail(const char *part) {
    int place = 0;
    pthread_mutex_lock(&lock);
    while (place < 16 && failing[place]) place++;
    if (place < 16) failing[place] = strdup(part);
    pthread_mutex_unlock(&lock);
    return place < 16 ? place : -1;
}

void flush_log_mend(int place) {
    if (place < 0) return;
    pthread_mutex_lock(&lock);
    free(failing[place]);
    failing[place] = NULL;
    pthread_mutex_unlock(&lock);
}

int flush_log_count(const char *suffix) {
    int found = 0;
    size_t length = strlen(suffix);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        size_t whole = strlen(paths[i]);
        if (whole >= length && strcmp(paths[i] + whole - length, suffix) == 0) found++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
