#pragma once
#include <stddef.h>

/* How often a file or folder whose path ends with this has been flushed to the device by this process, be it by fsync
   or by fdatasync, and by whichever library. */
int flush_log_count(const char *suffix);
