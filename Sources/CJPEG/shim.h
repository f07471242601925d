#pragma once
/* jpeglib.h takes for granted what stdio.h declares. */
#include <stdio.h>
#include <jpeglib.h>
