/* The bytes of a file that is being written. Above 256 KiB they are a mapping: malloc would keep as much in the arena of
   each thread that has ever written such a file. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t dipper_largest_heap_output = 256 << 10;

/* Returns NULL, and nothing has changed, if there is no memory. */
static inline uint8_t *dipper_grow(uint8_t *bytes, size_t capacity, size_t wanted) {
    if (wanted <= dipper_largest_heap_output) return realloc(bytes, wanted);
    if (capacity > dipper_largest_heap_output) {
        void *moved = mremap(bytes, capacity, wanted, MREMAP_MAYMOVE);
        return moved == MAP_FAILED ? NULL : moved;
    }
    void *mapping = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return NULL;
    if (bytes) memcpy(mapping, bytes, capacity);
    free(bytes);
    return mapping;
}

/* Returns the bytes without room, to be freed by dipper_output_free. Returns NULL, and nothing has changed, if there is no
   memory. */
static inline uint8_t *dipper_finish(uint8_t *bytes, size_t capacity, size_t count) {
    if (capacity <= dipper_largest_heap_output) {
        uint8_t *tight = count ? realloc(bytes, count) : NULL;
        return tight ? tight : bytes;
    }
    /* A shorter mapping stays where it is. */
    if (count > dipper_largest_heap_output) return mremap(bytes, capacity, count, 0) == MAP_FAILED ? NULL : bytes;
    uint8_t *copy = malloc(count);
    if (!copy) return NULL;
    memcpy(copy, bytes, count);
    munmap(bytes, capacity);
    return copy;
}

static inline void dipper_drop(uint8_t *bytes, size_t capacity) {
    if (capacity > dipper_largest_heap_output)
        munmap(bytes, capacity);
    else
        free(bytes);
}
