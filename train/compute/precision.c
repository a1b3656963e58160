#include "train/compute/precision.h"

#include "format/cli/nearest.h"

#include <string.h>

static const struct {
    const char *name;
    ff_dtype dtype;
} precisions[FF_PRECISION_COUNT] = {
    [FF_PRECISION_F32] = {"f32", FF_F32},
    [FF_PRECISION_TF32] = {"tf32", FF_F32},
    [FF_PRECISION_F16] = {"f16", FF_F16},
    [FF_PRECISION_BF16] = {"bf16", FF_BF16},
};

bool ff_precision_is_auto(const char *name) {
    return name && strcmp(name, FF_PRECISION_AUTO) == 0;
}

const char *ff_precision_name(ff_precision precision) {
    return precisions[precision].name;
}

bool ff_precision_parse(const char *name, ff_precision *precision) {
    for (int i = 0; i < FF_PRECISION_COUNT; ++i)
        if (!strcmp(name, precisions[i].name)) {
            *precision = (ff_precision)i;
            return true;
        }
    return false;
}

ff_status ff_precision_read(const char *name, ff_precision *precision, ff_error *error) {
    ff_nearest nearest = {.wanted = name, .length = strlen(name)};
    if (ff_precision_parse(name, precision)) return FF_OK;
    for (int i = FF_PRECISION_COUNT; i-- > 0;) ff_nearest_offer(&nearest, precisions[i].name);
    return ff_fail(error, FF_USAGE, "--precision: '%s' is not one of " FF_PRECISION_NAMES "%s%s%s",
                   name, nearest.name ? "; did you mean " : "", nearest.name ? nearest.name : "",
                   nearest.name ? "?" : "");
}

ff_dtype ff_precision_dtype(ff_precision precision) {
    return precisions[precision].dtype;
}
