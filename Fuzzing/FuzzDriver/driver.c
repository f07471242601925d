#include "FuzzDriver.h"

#include <stdio.h>

/* Part of libFuzzer, which `make fuzz` links. Weak, so that the package builds without it. */
__attribute__((weak)) int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*input)(const uint8_t *, size_t));

int fuzz_driver(int argc, char **argv, int (*input)(const uint8_t *bytes, size_t count)) {
    if (!LLVMFuzzerRunDriver) {
        fputs("This program was built without libFuzzer: use `make fuzz`.\n", stderr);
        return 3;
    }
    return LLVMFuzzerRunDriver(&argc, &argv, input);
}
