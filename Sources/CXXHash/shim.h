#pragma once
#include <xxhash.h>

/* On x86 the library picks the widest vector unit at run time, but only through entries that its main header
   does not declare. */
#if defined(__x86_64__)
XXH_PUBLIC_API XXH64_hash_t XXH3_64bits_withSeed_dispatch(const void *input, size_t length, XXH64_hash_t seed);
static inline XXH64_hash_t dipper_xxh3_seeded(const void *input, size_t length, XXH64_hash_t seed) {
    return XXH3_64bits_withSeed_dispatch(input, length, seed);
}
#else
static inline XXH64_hash_t dipper_xxh3_seeded(const void *input, size_t length, XXH64_hash_t seed) {
    return XXH3_64bits_withSeed(input, length, seed);
}
#endif
