#define _GNU_SOURCE
#include "HostileCalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef __NR_openat2
#define __NR_openat2 437
#endif

/* A call is refused by the wall with EPERM, and by nothing else. */
#define TRY(name, ...)                                                   \
    do {                                                                 \
        errno = 0;                                                       \
        if (syscall(__NR_##name, __VA_ARGS__) != -1 || errno != EPERM) { \
            return #name;                                                \
        }                                                                \
    } while (0)

static const char *try_read(void) {
    struct { unsigned long long flags, mode, resolve; } how = {0};
    TRY(openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
    TRY(openat2, AT_FDCWD, "/etc/passwd", &how, sizeof how);
    char bytes[256];
    TRY(readlinkat, AT_FDCWD, "/proc/self/exe", bytes, sizeof bytes);
    TRY(getdents64, 3, bytes, sizeof bytes);
    TRY(read, 3, bytes, sizeof bytes);
    TRY(newfstatat, AT_FDCWD, "/etc/passwd", bytes, 0);
    TRY(getcwd, bytes, sizeof bytes);
    return NULL;
}

static const char *try_write(void) {
    TRY(openat, AT_FDCWD, "/tmp/dipper-hostile", O_WRONLY | O_CREAT, 0600);
    TRY(mkdirat, AT_FDCWD, "/tmp/dipper-hostile", 0700);
    TRY(unlinkat, AT_FDCWD, "/tmp/dipper-hostile", 0);
    TRY(renameat2, AT_FDCWD, "/tmp/a", AT_FDCWD, "/tmp/b", 0);
    TRY(memfd_create, "hostile", 0);
    TRY(write, 1, "x", 1);
    TRY(ioctl, 0, TIOCSTI, "x");
    return NULL;
}

static const char *try_socket(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int ends[2];
    TRY(socket, AF_INET, SOCK_STREAM, 0);
    TRY(socket, AF_UNIX, SOCK_STREAM, 0);
    TRY(socket, AF_NETLINK, SOCK_RAW, 0);
    TRY(socketpair, AF_UNIX, SOCK_STREAM, 0, ends);
    TRY(connect, 3, &address, sizeof address);
    TRY(bind, 3, &address, sizeof address);
    TRY(accept4, 3, NULL, NULL, 0);
    return NULL;
}

static const char *try_fork(void) {
    struct clone_args all = {.exit_signal = SIGCHLD};
    TRY(clone, SIGCHLD, NULL, NULL, NULL, NULL);
    TRY(clone, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
    TRY(clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, malloc(1 << 16), NULL, NULL, NULL);
    TRY(clone3, &all, sizeof all);
#ifdef __NR_fork
    TRY(fork, 0);
    TRY(vfork, 0);
#endif
    TRY(unshare, CLONE_NEWUSER);
    return NULL;
}

static const char *try_exec(void) {
    char *const words[] = {"/bin/true", NULL};
    TRY(execve, words[0], words, words + 1);
    TRY(execveat, AT_FDCWD, words[0], words, words + 1, 0);
    return NULL;
}

static const char *try_signal(pid_t other) {
    TRY(kill, other, 0);
    TRY(kill, -1, 0);
    TRY(tgkill, other, other, 0);
    TRY(rt_sigqueueinfo, other, SIGTERM, NULL);
    TRY(pidfd_open, other, 0);
    TRY(pidfd_send_signal, 3, 0, NULL, 0);
    return NULL;
}

static const char *try_map(void) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return "mmap of a page";
    TRY(mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRY(mmap, NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRY(mprotect, page, 4096, PROT_READ | PROT_EXEC);
    TRY(pkey_mprotect, page, 4096, PROT_READ | PROT_EXEC, -1);
    TRY(personality, 0x0400000);
    /* MADV_FREE, MADV_REMOVE, MADV_MERGEABLE, MADV_WIPEONFORK, MADV_PAGEOUT, MADV_POPULATE_WRITE. */
    const int advices[] = {8, 9, 12, 18, 21, 23};
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++) TRY(madvise, page, 4096, advices[i]);
    munmap(page, 4096);
    return NULL;
}

static const char *try_peek(pid_t other) {
    char bytes[64];
    struct iovec here = {bytes, sizeof bytes}, there = {(void *)&errno, sizeof bytes};
    TRY(process_vm_readv, other, &here, 1, &there, 1, 0);
    TRY(process_vm_writev, other, &here, 1, &there, 1, 0);
    TRY(ptrace, PTRACE_ATTACH, other, 0, 0);
    TRY(shmget, 0, 4096, 0600);
    TRY(pidfd_getfd, 3, 3, 0);
    TRY(userfaultfd, 0);
    return NULL;
}

static const char *try_escape(pid_t other) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    TRY(prlimit64, 0, RLIMIT_AS, &limit, NULL);
    TRY(prlimit64, other, RLIMIT_AS, &limit, NULL);
    TRY(setrlimit, RLIMIT_FSIZE, &limit);
    TRY(prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    TRY(seccomp, 0, 0, NULL);
    TRY(rt_sigaction, SIGIO, NULL, NULL, 8);
    TRY(rt_sigprocmask, SIG_BLOCK, NULL, NULL, 8);
    TRY(fcntl, 4, F_SETFL, 0);
    TRY(close, 3);
    TRY(close, 4);
    TRY(setuid, 0);
    TRY(chroot, "/");
    TRY(mount, NULL, "/", NULL, 0, NULL);
    TRY(io_uring_setup, 1, NULL);
    TRY(bpf, 0, NULL, 0);
    TRY(keyctl, 0, 0, 0, 0, 0);
    TRY(perf_event_open, NULL, 0, 0, 0, 0);
    return NULL;
}

static const char *try_descriptors(void) {
    int ends[2];
    TRY(dup, 3);
    TRY(dup3, 3, 12, 0);
    TRY(fcntl, 3, F_DUPFD, 0);
    TRY(pipe2, ends, 0);
    TRY(eventfd2, 0, 0);
    TRY(epoll_create1, 0);
    TRY(timerfd_create, 0, 0);
    TRY(signalfd4, -1, NULL, 8, 0);
    TRY(inotify_init1, 0);
    /* Of others, such as helpers that were started before; 5 is the file for the pixels. */
    for (int file = 6; file < 256; file++) {
        struct pollfd state = {.fd = file};
        if (poll(&state, 1, 0) != 1 || state.revents != POLLNVAL) return "an open descriptor";
    }
    return NULL;
}

const char *hostile_breach(const char *kind, pid_t other) {
    if (!strcmp(kind, "read")) return try_read();
    if (!strcmp(kind, "write")) return try_write();
    if (!strcmp(kind, "socket")) return try_socket();
    if (!strcmp(kind, "fork")) return try_fork();
    if (!strcmp(kind, "exec")) return try_exec();
    if (!strcmp(kind, "signal")) return try_signal(other);
    if (!strcmp(kind, "map")) return try_map();
    if (!strcmp(kind, "peek")) return try_peek(other);
    if (!strcmp(kind, "escape")) return try_escape(other);
    if (!strcmp(kind, "descriptors")) return try_descriptors();
    return "";
}

bool hostile_is_sanitized(void) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

size_t hostile_memory(size_t most) {
    const size_t step = 64 << 20;
    size_t taken = 0;
    char *last = NULL;
    while (taken < most) {
        char *memory = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) break;
        /* A list, to give all back. */
        *(char **)memory = last;
        last = memory;
        taken += step;
    }
    while (last) {
        char *next = *(char **)last;
        munmap(last, step);
        last = next;
    }
    return taken;
}

int hostile_keep_files(void) {
    int count = 0;
    for (int file = 5; file < 16; file++) {
        if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED) count++;
    }
    return count;
}

void hostile_fill_files(size_t most) {
    static const char zeros[1 << 16];
    for (int file = 5; file < 16; file++) {
        for (size_t done = 0; done < most; done += sizeof zeros) {
            if (pwrite(file, zeros, sizeof zeros, (off_t)done) < 0) break;
        }
    }
}

pid_t hostile_process(pid_t number) {
    struct clone_args wanted = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};
    pid_t id = (pid_t)syscall(__NR_clone3, &wanted, sizeof wanted);
    if (id == 0) {
        /* Other threads may have held locks: only system calls. */
        for (;;) syscall(__NR_ppoll, NULL, 0, NULL, NULL, 8);
    }
    return id;
}

bool hostile_ends(pid_t process, int time) {
    int file = (int)syscall(__NR_pidfd_open, process, 0);
    if (file < 0) return errno == ESRCH;
    struct pollfd state = {.fd = file, .events = POLLIN};
    int ready = poll(&state, 1, time);
    close(file);
    return ready == 1;
}

void hostile_fill_new_memory(int byte) { mallopt(M_PERTURB, byte); }

void hostile_crash(void) {
    volatile int *nothing = NULL;
    *nothing = 1;
}
