#pragma once
#include <stddef.h>
#include <stdint.h>

/* Records all changes that this process and its libraries make in one folder and below it, in order.
   Numbers, which are never reused, identify files and folders; the folder itself is 1. */

enum write_log_kind {
    WRITE_LOG_CREATE = 1,    /* object gets the name folder/name, in addition to its other names */
    WRITE_LOG_MAKE_FOLDER,   /* object appears as folder/name */
    WRITE_LOG_UNLINK,        /* object vanishes from folder/name */
    WRITE_LOG_REMOVE_FOLDER, /* object vanishes from folder/name */
    WRITE_LOG_RENAME,        /* object moves from folder/name to other_folder/other_name */
    WRITE_LOG_WRITE,         /* bytes are written into object at offset */
    WRITE_LOG_TRUNCATE,      /* object gets the size offset */
    WRITE_LOG_FLUSH,         /* object was flushed to the device: fsync or fdatasync has returned */
    WRITE_LOG_MARK,          /* write_log_mark(offset) */
    WRITE_LOG_UNKNOWN        /* a call that this log does not support; name contains it */
};

struct write_log_step {
    enum write_log_kind kind;
    uint64_t object, folder, other_folder, offset;
    const char *name, *other_name;
    const uint8_t *bytes;
    size_t size;
};

/* Starts recording an empty folder. Returns 0, or -1 if it cannot be read or another recording is running. */
int write_log_start(const char *folder);
void write_log_mark(uint64_t number);
/* Ends the recording and returns the number of steps, which remain available until the next start. */
size_t write_log_stop(void);
struct write_log_step write_log_step_at(size_t index);
