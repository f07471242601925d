/* System calls for processes and files that Swift does not see: the C library declares them only for GNU's dialect. Each function
   reports errors as the system does: -1 with errno, or in dipper_spawn the error itself. Descriptors that these
   functions open are closed in programs that are started later. */
#pragma once
#include <malloc.h>
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

/* What follows is for processes that decode apart, and for the program that starts them. */

/* Creates two connected local sockets of packets. */
int dipper_socket_pair(int ends[2]);

/* Creates an empty file that is in memory only, and that can be sealed. Only /proc shows the name. */
int dipper_shared_file(const char *name);

/* The same with zeros up to a length that nobody can change. */
int dipper_shared_memory(const char *name, size_t length);

/* Forbids everybody, for good, to change the bytes or the length of a file. Fails with EBUSY if a process has mapped the
   file for writing. */
int dipper_seal(int file);

/* Empties a file and forbids everybody to fill it again, unless it is sealed. */
void dipper_retire(int file);

/* Sends a packet with at most three descriptors, without waiting. */
int dipper_send(int socket, const void *bytes, size_t count, const int files[], int file_count);

/* Receives a packet and returns its length, or 0 if the other end is closed. The three places of `files`, which may
   be NULL, receive the descriptors, or -1. A longer packet fails with EMSGSIZE; without `waits`, no packet with EAGAIN. */
ssize_t dipper_receive(int socket, void *bytes, size_t size, int files[], int waits);

/* Copies this process. The copy is a child of the process that has started this one. Returns the number of the copy, and 0
   in the copy. Fails with EBUSY if this process has more than one thread. */
pid_t dipper_fork_sibling(void);

/* Returns a descriptor of a child (pidfd), which does not stand for another process that gets the number later; -1 if the
   kernel has none, -2 if there is no such child. The next two functions use the number if there is no descriptor. */
int dipper_process(pid_t id);
int dipper_signal(int process, pid_t id, int number);

/* Waits for the end of a child. Returns its status, and 0 with the number of the signal that has ended it; fails with
   ECHILD if other code has waited for it. */
int dipper_wait(int process, pid_t id, int *number);

/* Limits what a process may use: addresses, and the length of a file that it writes, in bytes; processor time in
   seconds, from its start. */
int dipper_allow(pid_t id, uint64_t memory, uint64_t file, uint64_t seconds);

/* The errors of the parts of the wall, 0 for those that stand. */
struct dipper_wall {
    /* Programs that this one starts would have no more privileges. */
    int privileges;
    /* No other process, no core, few descriptors, the end with the program. */
    int limits;
    /* Landlock: no file can be opened, no connection made. */
    int files;
    /* seccomp: no calls but a few. */
    int calls;
};

/* Builds the wall around this process, for good. The process ends when the other end of the pipe is closed. The pipe and
   the descriptors below it cannot be closed any more. */
struct dipper_wall dipper_build_wall(int pipe, void (*prepare)(void *), void *argument);
