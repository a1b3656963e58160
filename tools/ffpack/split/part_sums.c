#include "tools/ffpack/split/part_sums.h"

#include "format/disk/kept.h"
#include "format/writer/pending.h"

#include <string.h>

/* The two numbers of sums.ffp: the bits of low and high, which become 0 and 1. */
static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ff_status ff_part_sums_write(const ff_sample_plan *plan, const ff_stats *sums,
                             const ff_metadata *metadata, const char *folder, ff_error *error) {
    const bool ranged = plan->values == FF_VALUES_U16;
    ff_kept kept = {
        .number = {bits_of(ranged ? plan->low : 0), bits_of(ranged ? plan->high : 255)}};
    ff_status status;
    FF_TRY_DONE(ff_metadata_write(metadata, &kept.text, error));
    if (sums) FF_TRY_DONE(ff_stats_encode(sums, &kept.note, error));
    FF_TRY_DONE(ff_kept_write(&kept, folder, FF_SUMS_NAME, error));
done:
    ff_kept_free(&kept);
    return status;
}
