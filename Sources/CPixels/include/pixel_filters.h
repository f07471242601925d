// Loops that change pixels in place, or compute rows of a filter. As in CPixels.h, no function checks bounds.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Lowers colours that rounding has left above their alpha to that alpha. Returns true if every alpha is 255. pixels:
// count × 4 bytes.
bool pixels_settle(uint8_t *pixels, size_t count);

// Multiplies pixels by coverage, 0…1, in place, rounded to nearest. coverage: count numbers.
void pixels_mask(uint8_t *pixels, const float *coverage, size_t count);

// Puts a premultiplied colour behind premultiplied pixels, in place. pixels: count × 4 bytes; color: 4 bytes.
void pixels_behind(uint8_t *pixels, size_t count, const uint8_t *color);

// Draws a colour over pixels, in place, where a shape covers them but a smaller shape inside of it does not. A pixel
// whose alpha is not above the outer coverage counts as filling only that shape, so that an edge cut by the same shape
// keeps its alpha. outer, inner: the coverage of both shapes, count numbers; color: premultiplied, 0…255.
void pixels_ring(uint8_t *pixels, const float *outer, const float *inner, size_t count, const float *color);

// Makes each pixel from a sum of columns, in place: red × matrix[0…3] + green × matrix[4…7] + blue × matrix[8…11] +
// alpha × matrix[12…15]. Colours are clamped to 0…alpha; alpha should stay. curve: the values that replace the colours
// before that, indexed by a colour that is not multiplied by alpha; or NULL.
void pixels_recolor(uint8_t *pixels, size_t count, const float *matrix, const float *curve);

// Weighs pixels along a row, with the same weights everywhere: pixel x of the result is the weighted sum of pixels x …
// x + taps - 1. to: count × 4 numbers; from: (count + taps - 1) × 4 numbers.
void pixels_convolve(float *to, const float *from, size_t count, const float *weights, size_t taps);

// Weighs numbers across rows: number i of the result is the weighted sum of the numbers i of all rows. to: count
// numbers; rows: taps pointers to count numbers each.
void pixels_convolve_rows(float *to, const float *const *rows, size_t count, const float *weights, size_t taps);

// Adds five rows weighed 1, 4, 6, 4, 1, for bytes or for numbers. The weights add up to 16, and nothing is divided.
// count numbers.
void pixels_halve_byte_rows(uint16_t *to, const uint8_t *const *rows, size_t count);
void pixels_halve_rows(float *to, const float *const *rows, size_t count);

// Weighs pixels along a row 1, 4, 6, 4, 1 and divides by 256, which is the sum of the weights in both directions, for
// words or for numbers: pixel x of the result is made of five pixels from 2 × x on. to: count × 4 numbers; from: (count
// × 2 + 3) × 4 numbers.
void pixels_halve_words(float *to, const uint16_t *from, size_t count);
void pixels_halve_row(float *to, const float *from, size_t count);

// Interpolates pixels: pixel x of the result is made of the four pixels from x / step on, and rounded. Alpha is clamped
// to 0…255 and colours to 0…alpha. weights: for each of the four pixels, for each x % step, the weight four times,
// which is 16 × step numbers in all. to: count × 4 bytes.
void pixels_interpolate(uint8_t *to, const float *from, size_t count, const float *weights, size_t step);

// Rounds numbers to bytes. Alpha is clamped to 0…255 and colours to 0…alpha. from: count × 4 numbers; to: count × 4
// bytes.
void pixels_round(uint8_t *to, const float *from, size_t count);
