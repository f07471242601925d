#define _GNU_SOURCE
#include "ProcessShims.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int describe(
    posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, const char *folder, const int files[],
    int count) {
    int error = 0;
    for (int i = 0; i < count && !error; i++) {
        error = files[i] < 0 ? posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR, 0)
                             : posix_spawn_file_actions_adddup2(actions, files[i], i);
    }
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(actions, count);
    if (!error) error = posix_spawn_file_actions_addchdir_np(actions, folder);
    sigset_t signals;
    sigemptyset(&signals);
    if (!error) error = posix_spawnattr_setsigmask(attributes, &signals);
    /* Signals that this program ignores, such as SIGPIPE, must end the other program. */
    sigfillset(&signals);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &signals);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    if (error) return error;
    return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int dipper_spawn(
    pid_t *id, const char *path, char *const arguments[], char *const environment[], const char *folder,
    const int files[], int count) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = describe(&actions, &attributes, folder, files, count);
        if (!error) error = posix_spawn(id, path, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static int set(pid_t id, int resource, uint64_t value) {
    struct rlimit limit = {value, value};
    return prlimit(id, resource, &limit, NULL);
}

int dipper_limit(pid_t id, uint64_t memory, uint64_t seconds) {
    if (set(id, RLIMIT_AS, memory)) return -1;
    if (set(id, RLIMIT_CPU, seconds)) return -1;
    return set(id, RLIMIT_CORE, 0);
}

int dipper_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }

int dipper_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC); }

int dipper_event(void) { return eventfd(0, EFD_CLOEXEC); }

int dipper_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

void *dipper_remap(void *start, size_t length, size_t wanted) {
    void *moved = mremap(start, length, wanted, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}

int dipper_open_below(int folder, const char *path) {
    struct open_how how = {
        .flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

int dipper_clone(int from, int to) { return ioctl(to, FICLONE, from); }

int dipper_rename_unless_taken(int folder, const char *name, int new_folder, const char *new_name) {
    return renameat2(folder, name, new_folder, new_name, RENAME_NOREPLACE);
}

static int place(int file, int command, short type, int64_t start, int64_t length, struct flock *lock) {
    *lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(file, command, lock);
}

int dipper_lock(int file, int64_t start, int64_t length) {
    struct flock lock;
    return place(file, F_OFD_SETLK, F_WRLCK, start, length, &lock);
}

int dipper_unlock(int file, int64_t start, int64_t length) {
    struct flock lock;
    return place(file, F_OFD_SETLK, F_UNLCK, start, length, &lock);
}

int64_t dipper_other_lock(int file, int64_t start, int64_t length) {
    struct flock lock;
    if (place(file, F_OFD_GETLK, F_WRLCK, start, length, &lock)) return -1;
    return lock.l_type == F_UNLCK ? 0 : lock.l_len;
}

int dipper_local_socket(const char *path, int listens) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (file < 0) return -1;
    const struct sockaddr *name = (const struct sockaddr *)&address;
    int failed = listens ? fchmod(file, 0600) || bind(file, name, sizeof address) || listen(file, SOMAXCONN)
                         : connect(file, name, sizeof address);
    if (!failed) return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}

int dipper_local_accept(int socket) {
    int file = accept4(socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (file < 0) return -1;
    if (getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid()) return file;
    close(file);
    errno = EPERM;
    return -1;
}
