/* The values of a pickle, the stack that opcodes work on, and the memo. */
#include "format/pickle/machine.h"

#include <inttypes.h>
#include <string.h>

/* ---- values -------------------------------------------------------------------------------- */

ff_status ff_pickle_add(ff_pickle *pickle, ff_pickle_node node, ff_pickle_value *value,
                        ff_error *error) {
    if (pickle->node_count == FF_PICKLE_VALUES_LIMIT)
        return ff_pickle_fail(pickle, error, "more than %" PRIu32 " values",
                              FF_PICKLE_VALUES_LIMIT);
    FF_TRY(ff_reserve(&pickle->node, &pickle->node_capacity, pickle->node_count + 1,
                      sizeof *pickle->node, "a pickle's values", error));
    *value = (ff_pickle_value)pickle->node_count;
    pickle->node[pickle->node_count++] = node;
    return FF_OK;
}

ff_status ff_pickle_push(ff_pickle *pickle, ff_pickle_value value, ff_error *error) {
    if (pickle->stack_count == FF_PICKLE_STACK_LIMIT)
        return ff_pickle_fail(pickle, error, "more than %" PRIu32 " values on its stack",
                              FF_PICKLE_STACK_LIMIT);
    FF_TRY(ff_reserve(&pickle->stack, &pickle->stack_capacity, pickle->stack_count + 1,
                      sizeof *pickle->stack, "a pickle's stack", error));
    pickle->stack[pickle->stack_count++] = value;
    return FF_OK;
}

ff_status ff_pickle_push_node(ff_pickle *pickle, ff_pickle_node node, ff_error *error) {
    ff_pickle_value value = 0;
    FF_TRY(ff_pickle_add(pickle, node, &value, error));
    return ff_pickle_push(pickle, value, error);
}

size_t ff_pickle_bottom(const ff_pickle *pickle) {
    return pickle->mark_count ? pickle->mark[pickle->mark_count - 1] : 0;
}

ff_status ff_pickle_pop(ff_pickle *pickle, size_t count, const ff_pickle_value **values,
                        ff_error *error) {
    if (pickle->stack_count - ff_pickle_bottom(pickle) < count)
        return ff_pickle_fail(pickle, error, "takes more from its stack than there is");
    pickle->stack_count -= count;
    *values = pickle->stack + pickle->stack_count;
    return FF_OK;
}

ff_status ff_pickle_pop_mark(ff_pickle *pickle, const ff_pickle_value **values, uint32_t *count,
                             ff_error *error) {
    if (!pickle->mark_count)
        return ff_pickle_fail(pickle, error, "goes back to a mark it never set");
    size_t bottom = ff_pickle_bottom(pickle);
    pickle->mark_count--;
    *count = (uint32_t)(pickle->stack_count - bottom);
    *values = pickle->stack + bottom;
    pickle->stack_count = bottom;
    return FF_OK;
}

static ff_status append(ff_pickle *pickle, ff_pickle_value list, const ff_pickle_value *values,
                        uint32_t count, ff_error *error) {
    ff_pickle_node *node = &pickle->node[list];
    pickle->item_count += count;
    if (pickle->item_count > FF_PICKLE_VALUES_LIMIT)
        return ff_pickle_fail(pickle, error, "more than %" PRIu32 " items in its lists",
                              FF_PICKLE_VALUES_LIMIT);
    size_t capacity = node->list.capacity;
    if (count)
        FF_TRY(ff_reserve(&node->list.item, &capacity, (size_t)node->list.count + count,
                          sizeof *values, "a pickle's list", error));
    node->list.capacity = (uint32_t)capacity;
    if (count) memcpy(node->list.item + node->list.count, values, count * sizeof *values);
    node->list.count += count;
    return FF_OK;
}

ff_status ff_pickle_push_list(ff_pickle *pickle, ff_pickle_kind kind, const ff_pickle_value *values,
                              uint32_t count, ff_error *error) {
    ff_pickle_value list = 0;
    FF_TRY(ff_pickle_add(pickle, (ff_pickle_node){.kind = kind}, &list, error));
    FF_TRY(append(pickle, list, values, count, error));
    return ff_pickle_push(pickle, list, error);
}

ff_status ff_pickle_extend(ff_pickle *pickle, ff_pickle_kind kind, const ff_pickle_value *values,
                           uint32_t count, ff_error *error) {
    if (pickle->stack_count <= ff_pickle_bottom(pickle))
        return ff_pickle_fail(pickle, error, "takes more from its stack than there is");
    ff_pickle_value top = pickle->stack[pickle->stack_count - 1];
    ff_pickle_kind found = pickle->node[top].kind;
    if (found == FF_PICKLE_OTHER) return FF_OK;
    if (found != kind || (kind == FF_PICKLE_DICT && count % 2))
        return ff_pickle_fail(pickle, error, "adds %" PRIu32 " items to %s", count,
                              ff_pickle_kind_name(pickle, found));
    return append(pickle, top, values, count, error);
}

/* ---- memo ---------------------------------------------------------------------------------- */

ff_status ff_pickle_put(ff_pickle *pickle, uint64_t index, ff_error *error) {
    if (pickle->stack_count <= ff_pickle_bottom(pickle))
        return ff_pickle_fail(pickle, error, "takes more from its stack than there is");
    if (index >= FF_PICKLE_VALUES_LIMIT)
        return ff_pickle_fail(pickle, error, "memo %" PRIu64 ", wanted less than %" PRIu32, index,
                              FF_PICKLE_VALUES_LIMIT);
    FF_TRY(ff_reserve(&pickle->memo, &pickle->memo_capacity, index + 1, sizeof *pickle->memo,
                      "a pickle's memo", error));
    if (!pickle->memo[index]) pickle->memo_count++;
    pickle->memo[index] = pickle->stack[pickle->stack_count - 1] + 1;
    return FF_OK;
}

ff_status ff_pickle_get(ff_pickle *pickle, uint64_t index, ff_error *error) {
    if (index >= pickle->memo_capacity || !pickle->memo[index])
        return ff_pickle_fail(pickle, error, "asks for memo %" PRIu64 ", which was never set",
                              index);
    return ff_pickle_push(pickle, pickle->memo[index] - 1, error);
}
