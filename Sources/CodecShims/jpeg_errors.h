/* Errors of libjpeg as return values. Of use to jpeg_*.c only. */
#pragma once
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct dipper_jpeg_errors {
    struct jpeg_error_mgr base;
    /* Set by each call that may fail, and not left beyond it. */
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
} dipper_jpeg_errors;

/* Makes libjpeg jump to `escape` on errors and keep quiet about the rest. */
void dipper_jpeg_errors_init(dipper_jpeg_errors *errors);

/* Whether the last error was a lack of memory. */
bool dipper_jpeg_errors_lack_memory(const dipper_jpeg_errors *errors);
