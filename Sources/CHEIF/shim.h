#pragma once
#include <libheif/heif.h>
#include <libheif/heif_plugin.h>
#include <libde265/de265.h>
