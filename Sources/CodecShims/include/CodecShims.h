#pragma once
#include "jpeg_shims.h"
#include "png_shims.h"
