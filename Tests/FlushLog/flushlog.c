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

static void note(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    pthread_mutex_lock(&lock);
    if (count == room) {
        size_t wanted = room ? room * 2 : 256;
        char **grown = realloc(paths, wanted * sizeof *paths);
        if (grown) {
            paths = grown;
            room = wanted;
        }
    }
    if (count < room && (paths[count] = strdup(path))) count++;
    pthread_mutex_unlock(&lock);
}

static char *failing[16];

static int fails(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    pthread_mutex_lock(&lock);
    int isFailing = 0;
    for (size_t i = 0; i < 16; i++) isFailing |= failing[i] && strstr(path, failing[i]) != NULL;
    pthread_mutex_unlock(&lock);
    if (isFailing) errno = EIO;
    return isFailing;
}

int flush_log_fail(const char *part) {
    int place = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 16 && place < 0; i++) {
        if (failing[i]) continue;
        failing[i] = strdup(part);
        place = i;
    }
    pthread_mutex_unlock(&lock);
    return place;
}

void flush_log_mend(int place) {
    if (place < 0) return;
    pthread_mutex_lock(&lock);
    free(failing[place]);
    failing[place] = NULL;
    pthread_mutex_unlock(&lock);
}

int fsync(int file) {
    note(file);
    if (fails(file)) return -1;
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    note(file);
    if (fails(file)) return -1;
    return (int)syscall(SYS_fdatasync, file);
}

static char refused[256];

void flush_log_refuse_locks(const char *part) {
    pthread_mutex_lock(&lock);
    snprintf(refused, sizeof refused, "%s", part ? part : "");
    pthread_mutex_unlock(&lock);
}

int flock(int file, int operation) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    pthread_mutex_lock(&lock);
    int isRefused = refused[0] && strstr(path, refused) != NULL;
    pthread_mutex_unlock(&lock);
    if (isRefused) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_flock, file, operation);
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
