// Loops over pixels of four bytes: red, green, blue, alpha. On x86-64 with glibc they are compiled for two instruction
// sets, and the program chooses the machine's best when it starts.
//
// No function checks bounds: the caller has made sure that every range named is inside its memory.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pixel_filters.h"

// Returns whether this file was compiled for Address Sanitizer.
bool pixels_are_sanitized(void);

// Multiplies colours by alpha, c × a / 255 rounded to nearest, in place. Returns true if every alpha is 255. pixels:
// count × 4 bytes.
bool pixels_premultiply(uint8_t *pixels, size_t count);

// Divides colours by alpha, c × 255 / a rounded to nearest and at most 255; transparent pixels become zero.
// from and to: count × 4 bytes; they may be the same.
void pixels_unpremultiply(uint8_t *to, const uint8_t *from, size_t count);

// Returns true if every alpha is 255. pixels: count × 4 bytes.
bool pixels_are_opaque(const uint8_t *pixels, size_t count);

// Leaves out alpha. from: count × 4 bytes, to: count × 3 bytes.
void pixels_drop_alpha(uint8_t *to, const uint8_t *from, size_t count);

// Adds an alpha of 255. from: count × 3 bytes, to: count × 4 bytes. They may overlap if from ends where to ends.
void pixels_add_alpha(uint8_t *to, const uint8_t *from, size_t count);

// Exchanges red and blue. from and to: count × 4 bytes each, which do not overlap.
void pixels_swap_red_blue(uint8_t *to, const uint8_t *from, size_t count);

// Adds up the columns of several rows: sums[i] = (begins ? 0 : sums[i]) + row 0[i] + row 1[i] …; at most 257 rows in
// all, so that 16 bits hold the sums. rows: height rows of width bytes, stride bytes apart; sums: width numbers.
void pixels_add_rows(
    uint16_t *sums, const uint8_t *rows, size_t stride, size_t height, size_t width, bool begins);

// Converts bytes to numbers. count numbers.
void pixels_widen(float *to, const uint8_t *from, size_t count);

// A resampler's numbers come in pairs, because processors have an instruction that multiplies two numbers by two
// weights and adds the products. Of two rows, each two pixels side by side are 16 numbers: of the upper row both
// reds, greens, blues and alphas, then of the lower row. A full byte is 255 × 128.

// Makes one of the two rows from pixels. from: width × 4 bytes; to: the first number of the row.
void pixels_pair_bytes(int16_t *to, const uint8_t *from, size_t width);

// Makes one of the two rows from the means of squares of four pixels. A last column alone counts half. from: two rows
// of width pixels, stride bytes apart.
void pixels_pair_squares(int16_t *to, const uint8_t *from, size_t stride, size_t width);

// Makes one of the two rows from sums of columns: the sum of each box of columns divided by area, the number of
// pixels of a whole box. The last box has the remaining columns. sums: width × 4 numbers; area: at most 65,536.
void pixels_pair_boxes(int16_t *to, const uint16_t *sums, size_t width, size_t box, size_t area);

// Weighs both rows: pixel x of the result is the sum of counts[x] pairs of pixels from pair starts[x] on, each
// multiplied by its pair of weights in weights[x × taps…]. A weight of 1 is 16,384. to: width × 8 numbers, of each
// pixel and colour that of the upper and that of the lower row, 255 × 64 for a full byte; from: reaches to the end of
// the last range.
void pixels_weigh_row(
    int16_t *to, size_t width, const int16_t *from, const int32_t *starts, const int32_t *counts,
    const int16_t *weights, size_t taps);

// Weighs rows and rounds: the result is the sum of count pairs of rows, each multiplied by its pair of weights, from
// pair first on in a ring of `rows` pairs of width × 8 numbers each. Alpha is clamped to 0…255 and colours to
// 0…alpha. to: width × 4 bytes.
void pixels_weigh_rows(
    uint8_t *to, size_t width, const int16_t *ring, size_t rows, size_t first, const int16_t *weights, size_t count);

// Places pixels as an orientation requires: pixel (x, y) goes to `to + x × step_x + y × step_y` bytes. One of the steps
// is 4 or -4. from: height rows of width pixels, stride bytes apart.
void pixels_place(
    uint8_t *to, ptrdiff_t step_x, ptrdiff_t step_y, const uint8_t *from, size_t stride, size_t width, size_t height);

// Unpacks the indices of a GIF frame (GIF 89a, appendix F): count pixels, from the blocks behind the byte with the size
// of codes. Returns where the indices are in `memory`, of pixels_gif_memory(count) bytes, and how many bytes of the blocks
// are used, with the empty one at the end. Returns NULL if anything is unusual; giflib then decides what the frame is worth.
const uint8_t *pixels_gif_unpack(
    void *memory, size_t count, const uint8_t *bytes, size_t length, unsigned code_size, size_t *used);
size_t pixels_gif_memory(size_t count);

// Draws pixels of a palette of 256 colours. A colour of zero leaves the pixel as it is.
void pixels_gif_draw(uint32_t *row, const uint8_t *indices, size_t count, const uint32_t *colors);
