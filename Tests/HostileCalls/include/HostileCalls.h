/* What a decoder that has been taken over would try. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Tries all system calls of a kind, such as "read" or "fork". Returns the name of one that was not refused; NULL if all
   were; an empty text for an unknown kind. The process is one that must not be touched. */
const char *hostile_breach(const char *kind, pid_t other);

/* Takes memory, or descriptors, until there is no more. Returns how many bytes, or descriptors, that were. */
size_t hostile_memory(size_t most);

/* Whether there is a sanitizer in this program, which takes more addresses than any limit. */
bool hostile_is_sanitized(void);

/* Maps the open files that can be written, and keeps the mappings. Returns the number of mappings. */
int hostile_keep_files(void);

/* Writes zeros into all files that can be written, each up to a length. */
void hostile_fill_files(size_t most);

/* Creates a process that waits for its end, with a number that is free. Returns the number, or -1. */
pid_t hostile_process(pid_t number);

/* Whether a process ends within a time, in milliseconds. */
bool hostile_ends(pid_t process, int time);

/* Has the C library fill memory that it hands out with bytes that follow from this one; with zero it does not. */
void hostile_fill_new_memory(int byte);

/* Ends the process by signal 11, whatever handles it. */
void hostile_crash(void);
