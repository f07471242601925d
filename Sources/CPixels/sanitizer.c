#include "CPixels.h"

bool pixels_are_sanitized(void) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    return true;
#endif
#endif
    return false;
}
