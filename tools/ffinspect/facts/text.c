#include "tools/ffinspect/facts/text.h"

#include "format/base/bytes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ff_inspect_short_id(char text[16], const uint8_t id[16]) {
    ff_hex(text, id, 6);
    return text;
}

const char *ff_inspect_float(char text[32], float value) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, 32, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return text;
}

/* Parses digits only; false if `text` does not start with one or the number is too large. */
static bool parse_whole(const char **text, uint64_t *value) {
    *value = 0;
    if (**text < '0' || **text > '9') return false;
    for (; **text >= '0' && **text <= '9'; ++*text)
        if (!ff_mul_u64(*value, 10, value) || !ff_add_u64(*value, (uint64_t)(**text - '0'), value))
            return false;
    return true;
}

ff_status ff_inspect_range(const char *text, uint64_t count, uint64_t *begin, uint64_t *end,
                           ff_error *error) {
    const char *at = text;
    *begin = 0;
    *end = count;
    bool sound = *at == ':' ? at[1] != 0 : parse_whole(&at, begin);
    bool single = sound && *at == 0;
    if (sound && *at == ':') {
        at++;
        if (*at) sound = parse_whole(&at, end);
    }
    if (!sound || *at)
        return ff_fail(error, FF_USAGE, "--sample: '%s' is neither a number nor a range A:B", text);
    if (single) *end = *begin + 1;
    if (*begin >= count || *end > count)
        return ff_fail(error, FF_USAGE,
                       "--sample: %s is out of range: there are %" PRIu64
                       " samples, numbered 0 to %" PRIu64,
                       text, count, count - 1);
    if (*begin >= *end)
        return ff_fail(error, FF_USAGE, "--sample: %s is empty: A:B needs A < B", text);
    return FF_OK;
}

ff_status ff_inspect_grid_size(const char *text, unsigned *rows, unsigned *columns,
                               ff_error *error) {
    const char *at = text;
    uint64_t r = 0, c = 0;
    bool sound = parse_whole(&at, &r) && (*at == 'x' || *at == 'X');
    if (sound) {
        at++;
        sound = parse_whole(&at, &c) && !*at;
    }
    if (!sound)
        return ff_fail(error, FF_USAGE, "--grid: '%s' is not rows x columns, like 4x8", text);
    if (r < 1 || r > 1000 || c < 1 || c > 1000)
        return ff_fail(error, FF_USAGE,
                       "--grid: %s is out of range; rows and columns go from 1 to 1000", text);
    *rows = (unsigned)r;
    *columns = (unsigned)c;
    return FF_OK;
}
