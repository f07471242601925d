#define _GNU_SOURCE
#include "ProcessShims.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FILES = 3 };

/* Older headers lack these. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_send_signal 424
#define __NR_pidfd_open 434
#endif
/* P_PIDFD. */
#define BY_DESCRIPTOR ((idtype_t)3)

pid_t dipper_fork_sibling(void) {
#if !defined(__has_feature) || !__has_feature(thread_sanitizer)
    /* A thread more may hold locks, which the copy would have for good. The sanitizer has one of its own. */
    struct stat threads;
    if (stat("/proc/self/task", &threads) == 0 && threads.st_nlink > 3) {
        errno = EBUSY;
        return -1;
    }
#endif
    /* The C library has no fork that takes flags. */
    return (pid_t)syscall(__NR_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

int dipper_process(pid_t id) {
    int process = (int)syscall(__NR_pidfd_open, id, 0);
    if (process < 0 && errno == ESRCH) return -2;
    siginfo_t state = {0};
    int failed = process < 0 ? waitid(P_PID, (id_t)id, &state, WEXITED | WNOHANG | WNOWAIT)
                             : waitid(BY_DESCRIPTOR, (id_t)process, &state, WEXITED | WNOHANG | WNOWAIT);
    if (!failed) return process < 0 ? -1 : process;
    /* Another process has the number already. Kernels before 5.4 cannot wait by a descriptor. */
    int other = errno == ECHILD;
    if (process >= 0) close(process);
    return other ? -2 : -1;
}

int dipper_signal(int process, pid_t id, int number) {
    return process < 0 ? kill(id, number) : (int)syscall(__NR_pidfd_send_signal, process, number, NULL, 0);
}

int dipper_wait(int process, pid_t id, int *number) {
    siginfo_t end = {0};
    int failed;
    do failed = waitid(process < 0 ? P_PID : BY_DESCRIPTOR, (id_t)(process < 0 ? id : process), &end, WEXITED);
    while (failed && errno == EINTR);
    if (failed) return -1;
    *number = end.si_code == CLD_EXITED ? 0 : end.si_status;
    return end.si_code == CLD_EXITED ? end.si_status : 0;
}

int dipper_socket_pair(int ends[2]) { return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends); }

int dipper_shared_file(const char *name) {
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    /* Kernels before 6.3 do not know the last flag. */
    return file < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : file;
}

int dipper_shared_memory(const char *name, size_t length) {
    int file = dipper_shared_file(name);
    if (file < 0) return -1;
    if (ftruncate(file, (off_t)length) == 0
        && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}

int dipper_seal(int file) {
    return fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

void dipper_retire(int file) {
    if (ftruncate(file, 0) == 0) fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

int dipper_send(int socket, const void *bytes, size_t count, const int files[], int file_count) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * MOST_FILES)];
    } control = {0};
    struct iovec part = {(void *)bytes, count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (file_count > 0) {
        size_t size = sizeof(int) * (size_t)(file_count < MOST_FILES ? file_count : MOST_FILES);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
        memcpy(CMSG_DATA(header), files, size);
    }
    ssize_t sent;
    /* A helper may send nothing but bytes. */
    do sent = file_count > 0 ? sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                             : send(socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)count ? 0 : -1;
}

ssize_t dipper_receive(int socket, void *bytes, size_t size, int files[], int waits) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * MOST_FILES)];
    } control;
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (files) {
        message.msg_control = &control;
        /* The kernel fills what is there with descriptors, also the bytes that only align. */
        message.msg_controllen = CMSG_LEN(sizeof(int) * MOST_FILES);
        for (int i = 0; i < MOST_FILES; i++) files[i] = -1;
    }
    ssize_t received;
    do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (waits ? 0 : MSG_DONTWAIT));
    while (received < 0 && errno == EINTR);
    if (received <= 0) return received;
    struct cmsghdr *header = files ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        memcpy(files, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    }
    if (!(message.msg_flags & MSG_TRUNC)) return received;
    errno = EMSGSIZE;
    return -1;
}

/* Only the soft limit, which the process cannot change behind its wall, and this one can raise again. */
static int limit(pid_t id, int resource, uint64_t value) {
    struct rlimit limit;
    if (prlimit(id, resource, NULL, &limit)) return -1;
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    return prlimit(id, resource, &limit, NULL);
}

int dipper_allow(pid_t id, uint64_t memory, uint64_t file, uint64_t seconds) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    /* Sanitizers take more addresses than any limit. */
    memory = RLIM_INFINITY;
#endif
#endif
    return limit(id, RLIMIT_AS, memory) || limit(id, RLIMIT_FSIZE, file) || limit(id, RLIMIT_CPU, seconds) ? -1 : 0;
}

/* The kernel sends SIGIO, which ends this process, when the other end of a pipe is closed. Unlike with PR_SET_PDEATHSIG,
   the end of the thread that has started this process does not matter. */
static int end_with(int pipe) {
    if (fcntl(pipe, F_SETOWN, getpid()) || fcntl(pipe, F_SETFL, O_ASYNC)) return errno;
    struct pollfd state = {.fd = pipe};
    if (poll(&state, 1, 0) == 1) _exit(0);
    return 0;
}

/* When memory is short, the kernel ends this process before the one that has started it. No part of the wall. */
static void end_first(void) {
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, "1000", 4) < 0) errno = 0;
    close(file);
}

static int limit_self(int pipe) {
    /* What handles crashes, such as Swift's runtime, could not do so behind the wall, and would try again and again. */
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    const struct rlimit none = {0, 0}, files = {16, 16};
    if (setrlimit(RLIMIT_CORE, &none) || setrlimit(RLIMIT_NPROC, &none) || setrlimit(RLIMIT_MSGQUEUE, &none)) return errno;
    if (setrlimit(RLIMIT_MEMLOCK, &none) || setrlimit(RLIMIT_NOFILE, &files)) return errno;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) return errno;
    return end_with(pipe);
}

/* A set of rules that allows nothing of what the kernel can forbid: all access to files that are not open, and, from
   version 4 and 6 of Landlock, to TCP, to abstract sockets and signals of other processes. */
static int forbid_files(void) {
    long version = syscall(__NR_landlock_create_ruleset, NULL, 0, 1);
    if (version < 0) return errno;
    struct {
        uint64_t files, network, scopes;
    } forbidden = {version >= 5 ? 0xFFFF : version >= 3 ? 0x7FFF : version == 2 ? 0x3FFF : 0x1FFF, 3, 3};
    size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    int rules = (int)syscall(__NR_landlock_create_ruleset, &forbidden, size, 0);
    if (rules < 0) return errno;
    int error = syscall(__NR_landlock_restrict_self, rules, 0) ? errno : 0;
    close(rules);
    return error;
}

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + 8 * (index))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)
/* `then` instructions follow for this call. */
#define CALL(number, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, (then))
#define ALLOW(name) CALL(__NR_##name, 1), RETURN(SECCOMP_RET_ALLOW)
#define ALLOW_ADVICE(advice) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (advice), 0, 1), RETURN(SECCOMP_RET_ALLOW)
#define ALLOW_UNLESS_EXECUTABLE(name)                                                                        \
    CALL(__NR_##name, 4), LOAD(ARGUMENT(2)), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), REFUSE, \
        RETURN(SECCOMP_RET_ALLOW)

/* What decoding takes: memory, the time, locks, the messages and their descriptors, and writing the pixels. Everything
   else fails with EPERM, which libraries expect of calls that they can do without. */
static int forbid_calls(int first_file) {
    struct sock_filter filter[] = {
        LOAD(offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(offsetof(struct seccomp_data, nr)),
#ifdef __x86_64__
        /* The calls of x32. */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
#endif
        ALLOW_UNLESS_EXECUTABLE(mmap),
        ALLOW_UNLESS_EXECUTABLE(mprotect),
        ALLOW(munmap),
        ALLOW(mremap),
        /* What the allocators of pixels and of the C library advise. */
        CALL(__NR_madvise, 8),
        LOAD(ARGUMENT(2)),
        ALLOW_ADVICE(MADV_DONTNEED),
        ALLOW_ADVICE(MADV_HUGEPAGE),
        ALLOW_ADVICE(MADV_NOHUGEPAGE),
        REFUSE,
        ALLOW(brk),
        ALLOW(futex),
        ALLOW(clock_gettime),
        ALLOW(gettimeofday),
        ALLOW(getrandom),
        ALLOW(sched_yield),
        ALLOW(nanosleep),
        ALLOW(clock_nanosleep),
        ALLOW(getpid),
        ALLOW(gettid),
        ALLOW(recvmsg),
        ALLOW(sendto),
        ALLOW(pwrite64),
#ifdef __NR_poll
        ALLOW(poll),
#else
        ALLOW(ppoll),
#endif
        ALLOW(restart_syscall),
        ALLOW(exit),
        ALLOW(exit_group),
        /* The socket and the pipe stay open. */
        CALL(__NR_close, 4),
        LOAD(ARGUMENT(0)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)first_file, 1, 0),
        REFUSE,
        RETURN(SECCOMP_RET_ALLOW),
        REFUSE,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    long failed = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return failed < 0 ? errno : failed > 0 ? ESRCH : 0;
}

#else

static int forbid_calls(int first_file) { return ENOSYS; }

#endif

/* What root may do beside the calls that are forbidden. */
static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)) return errno;
    return syscall(__NR_capset, &header, none) ? errno : 0;
}

struct dipper_wall dipper_build_wall(int pipe, void (*prepare)(void *), void *argument) {
    struct dipper_wall wall = {0};
    /* What the program has opened before, such as a log. */
    if (syscall(__NR_close_range, pipe + 1, ~0U, 0)) wall.limits = errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) wall.privileges = errno;
    end_first();
    wall.files = forbid_files();
    int error = drop_capabilities();
    if (error) wall.privileges = error;
    /* Threads that it starts have no more rights than this one. */
    prepare(argument);
    error = limit_self(pipe);
    if (error) wall.limits = error;
    wall.calls = forbid_calls(pipe + 1);
    return wall;
}
