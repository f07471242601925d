/* System calls for processes and files that Swift does not see: the C library declares them only for GNU's dialect. Each function
   reports errors as the system does: -1 with errno, or in dipper_spawn the error itself. Descriptors that these
   functions open are closed in programs that are started later. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <sys/vfs.h>

/* Starts a program in a process group of its own, in the given folder, with no signal blocked and with the default
   actions of all signals. Its descriptors 0, 1 and so on are the given ones, in this order; a negative one stands for
   /dev/null; all others are closed. No given descriptor may be less than their count. The lists of texts end with
   NULL. */
int dipper_spawn(
    pid_t *id, const char *path, char *const arguments[], char *const environment[], const char *folder,
    const int files[], int count);

/* Limits a program: memory in bytes, processor time in seconds. The program leaves no core. */
int dipper_limit(pid_t id, uint64_t memory, uint64_t seconds);

/* Creates a pipe: bytes written to the second end are read from the first. */
int dipper_pipe(int ends[2]);

/* Takes a connection that waits at a listening socket. */
int dipper_accept(int listener);

/* Creates an event descriptor (eventfd). After a write to it, eight bytes can be read that are a number. */
int dipper_event(void);

/* Creates an empty file that is in memory only. Only /proc shows the name. */
int dipper_memory_file(const char *name);

/* Changes the length of a mapping without copying it; the mapping may move. Returns NULL if there is no room: then the
   mapping stays as it was. */
void *dipper_remap(void *start, size_t length, size_t wanted);

/* Opens a file for reading whose path begins in a folder, leads through no link and does not leave the folder. Fails
   with ENOSYS or EPERM if the kernel, or what stands before it, does not know this call (openat2). */
int dipper_open_below(int folder, const char *path);

/* Makes a file have the bytes of another one, which they then share on the disk. Fails if the file system cannot. */
int dipper_clone(int from, int to);

/* Renames a file; fails with EEXIST if the new name is taken, with EINVAL or ENOSYS if the file system can only replace
   files. */
int dipper_rename_unless_taken(int folder, const char *name, int new_folder, const char *new_name);

/* Locks a range of a file for the open file description (F_OFD_SETLK), without waiting: fails with EAGAIN or EACCES if
   another one has locked a part of it. The kernel releases the lock when the description is closed, so also when its
   last process ends. */
int dipper_lock(int file, int64_t start, int64_t length);
int dipper_unlock(int file, int64_t start, int64_t length);

/* Returns the length of a lock that another open file description has in a range, 0 if there is none, or -1. */
int64_t dipper_other_lock(int file, int64_t start, int64_t length);

/* Creates a local socket of packets that does not block, and has it listen at a path, where only this user may connect to
   it, or connects it to one. */
int dipper_local_socket(const char *path, int listens);

/* Accepts a connection, which does not block. Fails with EPERM if it is another user's. */
int dipper_local_accept(int socket);
