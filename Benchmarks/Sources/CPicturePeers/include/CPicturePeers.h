#pragma once

#include <stddef.h>
#include <stdint.h>

// libjpeg-turbo and libpng, as a program in C would call them. The pictures are the benchmark's own: an error in one
// ends the program.

/// Decodes a JPEG to RGBA.
/// @param out 4 bytes a pixel; NULL: into memory taken for this and freed.
void peer_jpeg_full(const uint8_t *bytes, size_t count, uint8_t *out);

/// Decodes a JPEG at an eighth of its size, and averages that to `width` × `height`.
/// @param scratch for the eighth, 4 bytes a pixel.
void peer_jpeg_small(
    const uint8_t *bytes, size_t count, uint8_t *scratch, uint8_t *out, int width, int height);

/// Decodes a PNG to RGBA.
/// @param out 4 bytes a pixel; NULL: into memory taken for this and freed.
void peer_png_full(const uint8_t *bytes, size_t count, uint8_t *out);
