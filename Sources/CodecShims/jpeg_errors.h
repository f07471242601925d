/* Errors of libjpeg as return values. Only jpeg_*.c use this header. */
#pragma once
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct dipper_jpeg_errors {
    struct jpeg_error_mgr base;
    /* Each call that may fail sets it, and it is not used after that call. */
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
} dipper_jpeg_errors;

/* Makes libjpeg jump to `escape` on errors, and print nothing. Warnings are counted. */
void dipper_jpeg_errors_init(dipper_jpeg_errors *errors);

/* Returns whether the last error was a lack of memory. */
bool dipper_jpeg_errors_lack_memory(const dipper_jpeg_errors *errors);
