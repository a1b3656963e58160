#include "loader/sequence/order.h"

static const char *const names[FF_ORDER_KIND_COUNT] = {
    [FF_ORDER_RANDOM] = "random",
    [FF_ORDER_BLOCK] = "block",
    [FF_ORDER_SEQUENTIAL] = "sequential",
    [FF_ORDER_NODE_BLOCK] = "node-block",
};

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most) {
    return value < least ? least : value > most ? most : value;
}

const char *ff_order_name(ff_order_kind kind) {
    return names[kind];
}

uint64_t ff_order_default_block(uint64_t sample_bytes) {
    const uint64_t block_bytes = UINT64_C(1) << 20;
    if (sample_bytes == 0) sample_bytes = 1;
    return sample_bytes < block_bytes ? block_bytes / sample_bytes : 1;
}

uint64_t ff_order_default_group(uint64_t block_bytes, uint64_t bytes) {
    return clamp(bytes / (block_bytes ? block_bytes : 1), FF_ORDER_GROUP_LEAST, FF_ORDER_GROUP);
}

void ff_order_fit(uint64_t sample_bytes, uint64_t samples, uint64_t *block, uint64_t *group) {
    const uint64_t bytes = sample_bytes ? sample_bytes : 1;
    const uint64_t most = clamp(32, (1u << 20) / bytes, (4u << 20) / bytes);
    *block = clamp(samples / FF_ORDER_GROUP_MIXED, (320u << 10) / bytes, most);
    *block = clamp(*block, 1, clamp(samples / FF_ORDER_GROUP_LEAST, 1, UINT64_MAX));
    *group = clamp(samples / *block, FF_ORDER_GROUP_LEAST, FF_ORDER_GROUP);
}

ff_status ff_order_check(const ff_order_spec *spec, ff_error *error) {
    const uint64_t limit = UINT64_C(1) << 62; /* positions, and the sum of two of them, fit */
    if (spec->count == 0 || spec->count > limit)
        return ff_fail(error, FF_USAGE, "an order needs 1 to 2^62 samples, not %llu",
                       (unsigned long long)spec->count);
    if (!ff_order_has_blocks(spec->kind)) return FF_OK;
    if (spec->block == 0 || spec->group == 0 || spec->block > limit / 2 ||
        spec->group > limit / 2 / spec->block)
        return ff_fail(error, FF_USAGE,
                       "block order needs a block and a group of at least 1 whose product is at "
                       "most 2^61, not %llu and %llu",
                       (unsigned long long)spec->block, (unsigned long long)spec->group);
    if (spec->kind == FF_ORDER_NODE_BLOCK &&
        (!spec->machines || !spec->batch || spec->batch > UINT32_MAX ||
         spec->machines > spec->batch / (spec->pairs ? 2 : 1)))
        return ff_fail(error, FF_USAGE,
                       "node-block order needs 1 to %llu machines, as many as a batch has %s, not "
                       "%u",
                       (unsigned long long)(spec->batch / (spec->pairs ? 2 : 1)),
                       spec->pairs ? "pairs" : "samples", spec->machines);
    return FF_OK;
}
