#include "loader/order.h"

static const char *const names[FF_ORDER_KIND_COUNT] = {
    [FF_ORDER_RANDOM] = "random",
    [FF_ORDER_BLOCK] = "block",
    [FF_ORDER_SEQUENTIAL] = "sequential",
};

const char *ff_order_name(ff_order_kind kind) {
    return names[kind];
}

uint64_t ff_order_default_block(uint64_t sample_bytes) {
    const uint64_t block_bytes = UINT64_C(1) << 20;
    if (sample_bytes == 0) sample_bytes = 1;
    return sample_bytes < block_bytes ? block_bytes / sample_bytes : 1;
}

uint64_t ff_order_default_group(uint64_t block_bytes, uint64_t bytes) {
    const uint64_t group = bytes / (block_bytes ? block_bytes : 1);
    if (group > FF_ORDER_GROUP) return FF_ORDER_GROUP;
    return group < FF_ORDER_GROUP_LEAST ? FF_ORDER_GROUP_LEAST : group;
}

ff_status ff_order_check(const ff_order_spec *spec, ff_error *error) {
    const uint64_t limit = UINT64_C(1) << 62; /* positions and sums of two of them fit */
    if (spec->count == 0 || spec->count > limit)
        return ff_fail(error, FF_USAGE, "an order needs 1 to 2^62 samples, not %llu",
                       (unsigned long long)spec->count);
    if (spec->kind != FF_ORDER_BLOCK) return FF_OK;
    if (spec->block == 0 || spec->group == 0 || spec->block > limit / 2 ||
        spec->group > limit / 2 / spec->block)
        return ff_fail(error, FF_USAGE,
                       "block order needs a block and a group of at least 1 whose product is at "
                       "most 2^61, not %llu and %llu",
                       (unsigned long long)spec->block, (unsigned long long)spec->group);
    return FF_OK;
}
