#define _GNU_SOURCE
#include "WriteLog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The functions below replace those of the C library in the whole process, including libsqlite3. During a recording,
   each change is made under the lock, so that the log has the order of the changes. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_recording;

static struct write_log_step *steps;
static size_t count, room;

/* The existing files and folders by device and inode number. The kernel reuses inode numbers; the log's are unique. */
static struct object {
    dev_t device;
    ino_t inode;
    uint64_t number;
} *objects;
static size_t object_count, object_room;
static uint64_t last_number;

static void *grown(void *items, size_t *room, size_t size) {
    *room = *room ? *room * 2 : 1024;
    items = realloc(items, *room * size);
    if (!items) abort();
    return items;
}

static struct write_log_step *add(enum write_log_kind kind, uint64_t object) {
    if (count == room) steps = grown(steps, &room, sizeof *steps);
    struct write_log_step *step = &steps[count++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->object = object;
    return step;
}

static uint64_t number_of(const struct stat *status) {
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].inode == status->st_ino && objects[i].device == status->st_dev) return objects[i].number;
    return 0;
}

static void forget(uint64_t number) {
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].number == number) {
            objects[i] = objects[--object_count];
            return;
        }
}

static uint64_t remember(const struct stat *status) {
    forget(number_of(status));
    if (object_count == object_room) objects = grown(objects, &object_room, sizeof *objects);
    objects[object_count++] = (struct object){status->st_dev, status->st_ino, ++last_number};
    return last_number;
}

static uint64_t number_of_file(int file) {
    struct stat status;
    return fstat(file, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) ? number_of(&status) : 0;
}

/* Finds the folder of a path (0 if it is not recorded) and the last component of the path. */
static uint64_t folder_of(int base, const char *path, const char **name) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    struct stat status;
    if (!slash) {
        int failed = base == AT_FDCWD ? stat(".", &status) : fstat(base, &status);
        return failed ? 0 : number_of(&status);
    }
    size_t length = slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) return 0;
    memcpy(folder, path, length);
    folder[length] = 0;
    return fstatat(base, folder, &status, 0) == 0 ? number_of(&status) : 0;
}

static void note_write(uint64_t object, off_t offset, const void *bytes, size_t size) {
    struct write_log_step *step = add(WRITE_LOG_WRITE, object);
    void *copy = malloc(size);
    if (!copy) abort();
    step->bytes = memcpy(copy, bytes, size);
    step->size = size;
    step->offset = (uint64_t)offset;
}

/* MARK: what is recorded */

/* Ends a recorded call, and returns its result. */
static int unlocked(int result, int error) {
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

/* A step in which an object gets, loses or changes a name. */
static struct write_log_step *add_name(enum write_log_kind kind, uint64_t object, uint64_t folder, const char *name) {
    struct write_log_step *step = add(kind, object);
    step->folder = folder;
    step->name = strdup(name);
    return step;
}

static int opened(int base, const char *path, int flags, mode_t mode) {
    if (!atomic_load(&is_recording) || !(flags & (O_CREAT | O_TRUNC)))
        return (int)syscall(SYS_openat, base, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before, after;
    int was_there = fstatat(base, path, &before, 0) == 0;
    int file = (int)syscall(SYS_openat, base, path, flags, mode);
    int error = errno;
    if (file >= 0 && fstat(file, &after) == 0 && S_ISREG(after.st_mode)) {
        const char *name;
        uint64_t folder = folder_of(base, path, &name), object = number_of(&after);
        if (!was_there && folder)
            add_name(WRITE_LOG_CREATE, remember(&after), folder, name);
        else if (was_there && object && flags & O_TRUNC && before.st_size > 0)
            add(WRITE_LOG_TRUNCATE, object);
    }
    return unlocked(file, error);
}

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

#define OPEN(...)                                                                                                       \
    va_list list;                                                                                                       \
    va_start(list, flags);                                                                                              \
    mode_t mode = mode_of(flags, list);                                                                                 \
    va_end(list);                                                                                                       \
    return opened(__VA_ARGS__, path, flags, mode);

int open(const char *path, int flags, ...) { OPEN(AT_FDCWD) }
int open64(const char *path, int flags, ...) { OPEN(AT_FDCWD) }
int openat(int base, const char *path, int flags, ...) { OPEN(base) }
int openat64(int base, const char *path, int flags, ...) { OPEN(base) }

static ssize_t written(int file, const void *bytes, size_t size, off_t offset, int is_positioned) {
    uint64_t object = 0;
    int holds = 0;
    if (atomic_load(&is_recording)) {
        pthread_mutex_lock(&lock);
        object = number_of_file(file);
        holds = object != 0;
        /* Writes to other objects, such as pipes, may block, so they are made without the lock. */
        if (!holds) pthread_mutex_unlock(&lock);
    }
    off_t place = offset;
    if (holds && !is_positioned)
        place = lseek(file, 0, fcntl(file, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    ssize_t result = is_positioned ? syscall(SYS_pwrite64, file, bytes, size, offset)
                                   : syscall(SYS_write, file, bytes, size);
    int error = errno;
    if (holds) {
        if (result > 0) note_write(object, place, bytes, (size_t)result);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return result;
}

/* Neither the store nor SQLite writes by writev: PowerCut fails if the recording lacks bytes of a file. */
ssize_t write(int file, const void *bytes, size_t size) { return written(file, bytes, size, 0, 0); }
ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) { return written(file, bytes, size, offset, 1); }
ssize_t pwrite64(int file, const void *bytes, size_t size, off_t offset) { return pwrite(file, bytes, size, offset); }

static int truncated(int file, off_t size) {
    if (!atomic_load(&is_recording)) return (int)syscall(SYS_ftruncate, file, size);
    pthread_mutex_lock(&lock);
    uint64_t object = number_of_file(file);
    int result = (int)syscall(SYS_ftruncate, file, size), error = errno;
    if (result == 0 && object) add(WRITE_LOG_TRUNCATE, object)->offset = (uint64_t)size;
    return unlocked(result, error);
}

int ftruncate(int file, off_t size) { return truncated(file, size); }
int ftruncate64(int file, off_t size) { return truncated(file, size); }

/* Returns its error, and sets no errno. */
static int allocated(int file, off_t offset, off_t length) {
    if (!atomic_load(&is_recording)) return syscall(SYS_fallocate, file, 0, offset, length) ? errno : 0;
    pthread_mutex_lock(&lock);
    uint64_t object = number_of_file(file);
    struct stat before;
    int failed = fstat(file, &before) || syscall(SYS_fallocate, file, 0, offset, length) ? errno : 0;
    if (!failed && object && before.st_size < offset + length)
        add(WRITE_LOG_TRUNCATE, object)->offset = (uint64_t)(offset + length);
    pthread_mutex_unlock(&lock);
    return failed;
}

int posix_fallocate(int file, off_t offset, off_t length) { return allocated(file, offset, length); }
int posix_fallocate64(int file, off_t offset, off_t length) { return allocated(file, offset, length); }

static int flushed(int file, long call) {
    if (!atomic_load(&is_recording)) return (int)syscall(call, file);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(call, file), error = errno;
    uint64_t object = number_of_file(file);
    if (result == 0 && object) add(WRITE_LOG_FLUSH, object);
    return unlocked(result, error);
}

int fsync(int file) { return flushed(file, SYS_fsync); }
int fdatasync(int file) { return flushed(file, SYS_fdatasync); }

/* Ends a call that has made a file or a folder if its result is 0. */
static int made(enum write_log_kind kind, int base, const char *path, int result) {
    int error = errno;
    const char *name;
    struct stat status;
    uint64_t folder = folder_of(base, path, &name);
    if (result == 0 && folder && fstatat(base, path, &status, 0) == 0) add_name(kind, remember(&status), folder, name);
    return unlocked(result, error);
}

int mkdirat(int base, const char *path, mode_t mode) {
    if (!atomic_load(&is_recording)) return (int)syscall(SYS_mkdirat, base, path, mode);
    pthread_mutex_lock(&lock);
    return made(WRITE_LOG_MAKE_FOLDER, base, path, (int)syscall(SYS_mkdirat, base, path, mode));
}

int mknodat(int base, const char *path, mode_t mode, dev_t device) {
    if (!atomic_load(&is_recording)) return (int)syscall(SYS_mknodat, base, path, mode, device);
    pthread_mutex_lock(&lock);
    return made(WRITE_LOG_CREATE, base, path, (int)syscall(SYS_mknodat, base, path, mode, device));
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int base, const char *path, int flags) {
    if (!atomic_load(&is_recording)) return (int)syscall(SYS_unlinkat, base, path, flags);
    pthread_mutex_lock(&lock);
    const char *name;
    struct stat status;
    uint64_t folder = folder_of(base, path, &name), object = 0;
    if (folder && fstatat(base, path, &status, AT_SYMLINK_NOFOLLOW) == 0) object = number_of(&status);
    int result = (int)syscall(SYS_unlinkat, base, path, flags), error = errno;
    if (result == 0 && object) {
        add_name(flags & AT_REMOVEDIR ? WRITE_LOG_REMOVE_FOLDER : WRITE_LOG_UNLINK, object, folder, name);
        /* It may have another name. */
        if (S_ISDIR(status.st_mode) || status.st_nlink <= 1) forget(object);
    }
    return unlocked(result, error);
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int renameat2(int from, const char *path, int to, const char *new_path, unsigned flags) {
    if (!atomic_load(&is_recording)) return (int)syscall(SYS_renameat2, from, path, to, new_path, flags);
    pthread_mutex_lock(&lock);
    const char *name, *new_name;
    struct stat status;
    uint64_t folder = folder_of(from, path, &name), new_folder = folder_of(to, new_path, &new_name);
    uint64_t object = 0, replaced = 0;
    if (fstatat(from, path, &status, AT_SYMLINK_NOFOLLOW) == 0) object = number_of(&status);
    if (fstatat(to, new_path, &status, AT_SYMLINK_NOFOLLOW) == 0) replaced = number_of(&status);
    int result = (int)syscall(SYS_renameat2, from, path, to, new_path, flags), error = errno;
    if (result == 0 && (object || new_folder) && object != replaced) {
        int is_plain = object && folder && new_folder && !(flags & RENAME_EXCHANGE);
        struct write_log_step *step =
            is_plain ? add_name(WRITE_LOG_RENAME, object, folder, name)
                     : add_name(WRITE_LOG_UNKNOWN, object, folder, "rename across the border, or an exchange");
        step->other_folder = new_folder;
        step->other_name = strdup(new_name);
        if (replaced) forget(replaced);
    }
    return unlocked(result, error);
}

int renameat(int from, const char *path, int to, const char *new_path) {
    return renameat2(from, path, to, new_path, 0);
}
int rename(const char *path, const char *new_path) { return renameat2(AT_FDCWD, path, AT_FDCWD, new_path, 0); }

int linkat(int from, const char *path, int to, const char *new_path, int flags) {
    if (!atomic_load(&is_recording)) return (int)syscall(SYS_linkat, from, path, to, new_path, flags);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_linkat, from, path, to, new_path, flags), error = errno;
    const char *name;
    struct stat status;
    uint64_t folder = folder_of(to, new_path, &name);
    if (result == 0 && folder && fstatat(to, new_path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        uint64_t object = number_of(&status);
        if (object)
            add_name(WRITE_LOG_CREATE, object, folder, name);
        else
            add_name(WRITE_LOG_UNKNOWN, object, folder, "link from elsewhere");
    }
    return unlocked(result, error);
}

int link(const char *path, const char *new_path) { return linkat(AT_FDCWD, path, AT_FDCWD, new_path, 0); }

/* MARK: the recording */

int write_log_start(const char *folder) {
    struct stat status;
    if (stat(folder, &status) != 0) return -1;
    pthread_mutex_lock(&lock);
    int is_free = !atomic_load(&is_recording);
    if (is_free) {
        for (size_t i = 0; i < count; i++) {
            free((void *)steps[i].name);
            free((void *)steps[i].other_name);
            free((void *)steps[i].bytes);
        }
        count = object_count = 0;
        last_number = 0;
        remember(&status);
        atomic_store(&is_recording, 1);
    }
    pthread_mutex_unlock(&lock);
    return is_free ? 0 : -1;
}

void write_log_mark(uint64_t number) {
    pthread_mutex_lock(&lock);
    if (atomic_load(&is_recording)) add(WRITE_LOG_MARK, 0)->offset = number;
    pthread_mutex_unlock(&lock);
}

size_t write_log_stop(void) {
    pthread_mutex_lock(&lock);
    atomic_store(&is_recording, 0);
    size_t result = count;
    pthread_mutex_unlock(&lock);
    return result;
}

struct write_log_step write_log_step_at(size_t index) { return steps[index]; }
