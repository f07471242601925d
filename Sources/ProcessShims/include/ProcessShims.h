/* What Swift cannot say of processes: calls that the C library declares for GNU's dialect alone. Each answers as the
   system does: -1 with errno, or in dipper_spawn the error itself. Whatever they open is closed in other programs. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts a program in a group of its own, in the root folder, with the signals as they are by default. Its standard
   input is empty, the other descriptors are those given, in this order: 1, 2, 3. All others are closed. Each of those
   given is greater than 3. Lists end with NULL. */
int dipper_spawn(pid_t *id, const char *path, char *const arguments[], char *const environment[], const int files[3]);

/* The most that a program may take: memory in bytes, processor time in seconds. It leaves no core. */
int dipper_limit(pid_t id, uint64_t memory, uint64_t seconds);

/* What is written to the second end is read from the first. */
int dipper_pipe(int ends[2]);

/* Can be read once something was written to it: eight bytes that are a number. */
int dipper_event(void);

/* An empty file that is in memory only. */
int dipper_memory_file(void);

/* Gives a mapping another length, elsewhere if need be, without copying it. NULL where there is no room: the mapping is
   as it was. */
void *dipper_remap(void *start, size_t length, size_t wanted);
