#pragma once
#include "jpeg_shims.h"
