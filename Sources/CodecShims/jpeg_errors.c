#include "jpeg_errors.h"

#include <jerror.h>

static void escape(j_common_ptr cinfo) {
    dipper_jpeg_errors *errors = (dipper_jpeg_errors *)cinfo->err;
    errors->base.format_message(cinfo, errors->message);
    longjmp(errors->escape, 1);
}

static void keep_quiet(j_common_ptr cinfo) { (void)cinfo; }

static void count_warnings(j_common_ptr cinfo, int level) {
    if (level < 0) cinfo->err->num_warnings++;
}

void dipper_jpeg_errors_init(dipper_jpeg_errors *errors) {
    jpeg_std_error(&errors->base);
    errors->base.error_exit = escape;
    errors->base.output_message = keep_quiet;
    errors->base.emit_message = count_warnings;
    errors->message[0] = 0;
}

bool dipper_jpeg_errors_lack_memory(const dipper_jpeg_errors *errors) {
    int code = errors->base.msg_code;
    return code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
}
