#pragma once
#include <xxhash.h>

/* The same function as the library's, with the widest vector unit that the machine has. */
#if defined(__x86_64__)
XXH_PUBLIC_API XXH64_hash_t XXH3_64bits_withSeed_dispatch(const void *input, size_t length, XXH64_hash_t seed);
static inline XXH64_hash_t bench_xxh3(const void *input, size_t length) {
    return XXH3_64bits_withSeed_dispatch(input, length, 0);
}
#else
static inline XXH64_hash_t bench_xxh3(const void *input, size_t length) {
    return XXH3_64bits_withSeed(input, length, 0);
}
#endif
