#include "train/sets/sizes.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LARGEST_SIDE = 65536, LAST_EPOCH = 1000000 };

/* Reads a number without a sign and moves *text past it; false for anything else. */
static bool read_number(const char **text, long most, uint32_t *number) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    const long value = strtol(*text, &end, 10);
    if (value > most) return false;
    *number = (uint32_t)value;
    *text = end;
    return true;
}

static ff_status add(ff_sizes *sizes, uint32_t epoch, uint32_t side, ff_error *error) {
    const int last = sizes->count - 1;
    if (sizes->count && sizes->side[last] == side) return FF_OK;
    if (sizes->count && sizes->epoch[last] == epoch) {
        sizes->side[last] = side; /* nothing is trained at the earlier size */
        return FF_OK;
    }
    if (sizes->count == FF_SIZES)
        return ff_fail(error, FF_USAGE, "--sizes: more than %d changes of the size", FF_SIZES);
    sizes->epoch[sizes->count] = epoch;
    sizes->side[sizes->count++] = side;
    return FF_OK;
}

/* Adds a ramp from the previous size at epoch `begin` to `side` at epoch `end`. */
static ff_status add_ramp(ff_sizes *sizes, uint32_t begin, uint32_t end, uint32_t side,
                          ff_error *error) {
    const double from = sizes->side[sizes->count - 1], multiple = side < 128 ? 4 : 32;
    for (uint32_t epoch = begin; epoch < end; epoch++) {
        const double here = from + (side - from) * (epoch - begin) / (end - begin);
        const double rounded = multiple * floor(here / multiple + 0.5);
        if (epoch > begin && rounded >= 1) FF_TRY(add(sizes, epoch, (uint32_t)rounded, error));
    }
    return add(sizes, end, side, error);
}

ff_status ff_sizes_parse(ff_sizes *sizes, const char *text, uint32_t whole, ff_error *error) {
    *sizes = (ff_sizes){.count = 1, .side = {whole}};
    uint32_t before = 0;
    for (const char *at = text; at;) {
        const char *part = at;
        uint32_t begin, end, side;
        bool good = read_number(&at, LAST_EPOCH, &begin);
        end = begin;
        if (good && *at == '-') at++, good = read_number(&at, LAST_EPOCH, &end) && end > begin;
        good = good && *at++ == ':' && read_number(&at, LARGEST_SIDE, &side) && side > 0;
        if (!good || (*at && *at != ',') || (part != text && begin <= before))
            return ff_fail(
                error, FF_USAGE,
                "--sizes: '%s' is not as in 0:160,30:192,60-76:224, epochs in their order "
                "with the size of images from there on",
                part);
        FF_TRY(add_ramp(sizes, begin, end, side, error));
        before = end;
        at = *at ? at + 1 : NULL;
    }
    return FF_OK;
}
