#pragma once
#include <stddef.h>
#include <stdint.h>

/* Runs libFuzzer with the program's arguments; `input` is called with every input, and returns 0, or -1 for an input
   that is not worth keeping. Returns the exit status: 3 if the program was built without libFuzzer. */
int fuzz_driver(int argc, char **argv, int (*input)(const uint8_t *bytes, size_t count));
