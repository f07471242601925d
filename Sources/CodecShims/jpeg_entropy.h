/* A faster Huffman decoder for libjpeg-turbo, for files with a single scan and no flaw. At an eighth of the size, most
   of the time of libjpeg's own goes into coefficients that are not used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct jpeg_entropy jpeg_entropy;

/* Takes the place of libjpeg's decoder, after jpeg_start_decompress. Returns NULL, and nothing has changed, if it
   cannot decode the file or there is no memory. */
jpeg_entropy *dipper_jpeg_entropy_start(j_decompress_ptr cinfo);
void dipper_jpeg_entropy_end(jpeg_entropy *state);

/* Returns whether something was found that libjpeg must decide about, after which no row is right. */
bool dipper_jpeg_entropy_failed(const jpeg_entropy *state);

/* The caller tells which belongs to a decoder. */
jpeg_entropy *dipper_jpeg_entropy_of(j_decompress_ptr cinfo);
