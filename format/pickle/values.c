/* Access to the values read. */
#include "format/pickle/machine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ff_pickle_value ff_pickle_root(const ff_pickle *pickle) {
    return pickle->stack[0];
}

uint64_t ff_pickle_end(const ff_pickle *pickle) {
    return pickle->at;
}

ff_pickle_kind ff_pickle_kind_of(const ff_pickle *pickle, ff_pickle_value value) {
    return pickle->node[value].kind;
}

const char *ff_pickle_kind_name(const ff_pickle *pickle, ff_pickle_kind kind) {
    static const char *const names[] = {"None",     "a truth value",    "a whole number",
                                        "a number", "a string",         "bytes",
                                        "a list",   "a dict",           "",
                                        "",         "an imported name", "an object"};
    if (kind == FF_PICKLE_ARRAY) return pickle->reader->array;
    return kind == FF_PICKLE_TYPE ? pickle->reader->type : names[kind];
}

ff_status ff_pickle_find(ff_pickle *pickle, ff_pickle_value dict, const char *key, bool *found,
                         ff_pickle_value *value, ff_error *error) {
    const ff_pickle_node *node = &pickle->node[dict];
    size_t length = strlen(key);
    char text[256];
    *found = false;
    if (node->kind != FF_PICKLE_DICT || length >= sizeof text) return FF_OK;
    for (uint32_t i = node->list.count; i > 0 && !*found; i -= 2) {
        const ff_pickle_node *candidate = &pickle->node[node->list.item[i - 2]];
        if (candidate->kind != FF_PICKLE_TEXT && candidate->kind != FF_PICKLE_BYTES) continue;
        if (candidate->place.bytes != length) continue;
        FF_TRY(ff_pickle_fetch(pickle, candidate->place, text, length, error));
        *found = !memcmp(text, key, length);
        *value = node->list.item[i - 1];
    }
    return FF_OK;
}

uint32_t ff_pickle_count(const ff_pickle *pickle, ff_pickle_value list) {
    return pickle->node[list].list.count;
}

ff_pickle_value ff_pickle_item(const ff_pickle *pickle, ff_pickle_value list, uint32_t index) {
    return pickle->node[list].list.item[index];
}

int64_t ff_pickle_integer(const ff_pickle *pickle, ff_pickle_value value) {
    return pickle->node[value].integer;
}

ff_status ff_pickle_text(ff_pickle *pickle, ff_pickle_value value, size_t limit, char **text,
                         size_t *length, ff_error *error) {
    ff_pickle_place place = pickle->node[value].place;
    *text = NULL;
    if (place.bytes > limit)
        return ff_pickle_fail(pickle, error, "a string of %" PRIu64 " bytes, wanted at most %zu",
                              (uint64_t)place.bytes, limit);
    FF_TRY(ff_alloc(text, place.bytes + 1, 1, "a string", error));
    ff_status status = ff_pickle_fetch(pickle, place, *text, place.bytes, error);
    if (length) *length = place.bytes;
    if (status == FF_OK) return FF_OK;
    free(*text);
    *text = NULL;
    return status;
}

ff_status ff_pickle_decoded(const ff_pickle *pickle, int *fd, ff_error *error) {
    *fd = fcntl(pickle->decoded_fd, F_DUPFD_CLOEXEC, 0);
    if (*fd >= 0) return FF_OK;
    return ff_fail_errno(error, "%s: cannot use temporary space twice", pickle->temporary);
}
