#pragma once

/* How often a file or folder whose path ends with this has been flushed to the device by this process, be it by fsync
   or by fdatasync, and by whichever library. */
int flush_log_count(const char *suffix);

/* From now on files and folders whose paths contain this cannot be flushed.
   Returns what ends that; negative if too many fail already. */
int flush_log_fail(const char *part);

/* Files and folders can be flushed again. */
void flush_log_mend(int place);
