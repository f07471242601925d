// Loops that change pixels in place, or make rows of a filter. As in CPixels.h nothing checks bounds.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Brings colours above their alpha down to it, which is a matter of rounding; true if every alpha is 255.
// pixels: count × 4 bytes.
bool pixels_settle(uint8_t *pixels, size_t count);

// Multiplies pixels by coverage, 0…1, in place, rounded to nearest. coverage: count numbers.
void pixels_mask(uint8_t *pixels, const float *coverage, size_t count);

// Puts a premultiplied colour behind premultiplied pixels, in place. pixels: count × 4 bytes; color: 4 bytes.
void pixels_behind(uint8_t *pixels, size_t count, const uint8_t *color);

// Draws the part of a pixel that is in a shape, but not in a smaller one inside it, in a colour over what is there, in
// place. What is there fills no more than the shape if its alpha says so: such an edge keeps its alpha.
// outer, inner: the coverage of both shapes, count numbers; color: premultiplied, 0…255.
void pixels_ring(uint8_t *pixels, const float *outer, const float *inner, size_t count, const float *color);

// Makes each pixel from a sum of columns, red × matrix[0…3] + green × matrix[4…7] + blue × matrix[8…11] + alpha ×
// matrix[12…15], in place; colours are brought into 0…alpha, alpha should stay. curve: for each value of a colour that is
// not multiplied by alpha what is taken for it, or NULL.
void pixels_recolor(uint8_t *pixels, size_t count, const float *matrix, const float *curve);

// Weighs pixels along a row by the same weights everywhere: pixel x is the sum of pixels x … x + taps - 1.
// to: count × 4 numbers; from: (count + taps - 1) × 4 numbers.
void pixels_convolve(float *to, const float *from, size_t count, const float *weights, size_t taps);

// The same across rows. to: count numbers; rows: taps pointers to as many.
void pixels_convolve_rows(float *to, const float *const *rows, size_t count, const float *weights, size_t taps);

// Five rows weighed 1, 4, 6, 4, 1, which is 16 in all. count numbers.
void pixels_halve_byte_rows(uint16_t *to, const uint8_t *const *rows, size_t count);
void pixels_halve_rows(float *to, const float *const *rows, size_t count);

// Pixels weighed 1, 4, 6, 4, 1 and divided by 256, which both directions have in all: pixel x is made of five pixels from
// 2 × x on. to: count × 4 numbers; from: (count × 2 + 3) × 4 numbers.
void pixels_halve_words(float *to, const uint16_t *from, size_t count);
void pixels_halve_row(float *to, const float *from, size_t count);

// Pixels between pixels: pixel x is made of the four from x / step on. Rounded, alpha brought into 0…255 and colours into
// 0…alpha. weights: for each of the four, for each x % step, the weight four times, which is 16 × step numbers in all.
// to: count × 4 bytes.
void pixels_interpolate(uint8_t *to, const float *from, size_t count, const float *weights, size_t step);

// Rounds alike. count × 4 numbers and bytes.
void pixels_round(uint8_t *to, const float *from, size_t count);
