#pragma once
#include <stdint.h>
#include <string.h>

// Compiles a function for two instruction sets; the program chooses one when it starts. See Sources/CPixels/clones.h.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define PLAIN 1
#endif
#endif
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && !defined(PLAIN)
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef int16_t i16x8 __attribute__((vector_size(16)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));
typedef uint8_t u8x32 __attribute__((vector_size(32)));
typedef uint16_t u16x32 __attribute__((vector_size(64)));
