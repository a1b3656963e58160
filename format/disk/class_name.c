#include "format/disk/class_name.h"

#include "format/base/readable.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_LIMIT = 200 };

ff_status ff_class_name(ff_buffer *out, const ff_field *field, int64_t value, unsigned how,
                        ff_error *error) {
    if (value < 0) return ff_buffer_printf(out, error, "unlabeled");
    if ((uint64_t)value >= field->class_count)
        return ff_buffer_printf(out, error, "%" PRId64, value);
    ff_buffer name = {0}, ascii = {0};
    const size_t most = how >> 8 ? how >> 8 : SIZE_MAX;
    ff_status status;
    FF_TRY_DONE(ff_readable(&name, field->class_name[value], strlen(field->class_name[value]),
                            NAME_LIMIT, error));
    if (how & FF_NAME_ASCII) FF_TRY_DONE(ff_readable_ascii(&ascii, name.bytes, error));
    const bool changed = ascii.bytes && strcmp(ascii.bytes, name.bytes);
    if (changed || how & FF_NAME_NUMBERED)
        FF_TRY_DONE(ff_buffer_printf(out, error, "%" PRId64 " ", value));
    FF_TRY_DONE(ff_buffer_printf(out, error, "%s", changed ? "~" : ""));
    FF_TRY_DONE(ff_shortened(out, changed ? ascii.bytes : name.bytes, most, error));
done:
    ff_buffer_free(&name);
    ff_buffer_free(&ascii);
    return status;
}
