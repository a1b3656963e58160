#include "tools/ffpack/source/class_set.h"

#include "format/disk/checksum.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

/* The slot of a name, or the free slot for it. At least a quarter of the slots is free. */
static size_t find_slot(const ff_class_set *set, const char *name, size_t bytes) {
    size_t mask = set->slot_count - 1;
    for (size_t at = ff_checksum(name, bytes) & mask;; at = (at + 1) & mask) {
        if (!set->slot[at]) return at;
        const char *other = ff_class_set_name(set, set->slot[at] - 1);
        if (!strncmp(other, name, bytes) && !other[bytes]) return at;
    }
}

static ff_status grow(ff_class_set *set, ff_error *error) {
    ff_class_set grown = *set;
    grown.slot_count = set->slot_count ? set->slot_count * 2 : FIRST_SLOTS;
    FF_TRY(ff_alloc(&grown.slot, grown.slot_count, sizeof *grown.slot, "class names", error));
    for (uint32_t i = 0; i < set->count; i++) {
        const char *name = ff_class_set_name(set, i);
        grown.slot[find_slot(&grown, name, strlen(name))] = i + 1;
    }
    free(set->slot);
    *set = grown;
    return FF_OK;
}

uint32_t ff_class_set_find(const ff_class_set *set, const char *name, size_t bytes) {
    if (!set->count || memchr(name, 0, bytes)) return UINT32_MAX;
    uint32_t found = set->slot[find_slot(set, name, bytes)];
    return found ? found - 1 : UINT32_MAX;
}

ff_status ff_class_set_add(ff_class_set *set, const char *name, size_t bytes, uint32_t *number,
                           ff_error *error) {
    if (!bytes) return ff_fail(error, FF_BAD_DATA, "the name of its class is empty");
    if (memchr(name, 0, bytes))
        return ff_fail(error, FF_BAD_DATA, "the name of its class has a zero byte");
    *number = ff_class_set_find(set, name, bytes);
    if (*number != UINT32_MAX) return FF_OK;
    if (set->count == FF_CLASSES_LIMIT || set->bytes_used + bytes >= FF_METADATA_LIMIT_BYTES)
        return ff_fail(
            error, FF_BAD_DATA,
            "the name of its class is one too many: at most %u, of %u MiB together; is this a label?",
            FF_CLASSES_LIMIT, (unsigned)(FF_METADATA_LIMIT_BYTES >> 20));
    if (((uint64_t)set->count + 1) * 4 > (uint64_t)set->slot_count * 3) FF_TRY(grow(set, error));
    FF_TRY(ff_reserve(&set->bytes, &set->bytes_capacity, set->bytes_used + bytes + 1, 1,
                      "class names", error));
    FF_TRY(ff_reserve(&set->offset, &set->offset_capacity, (size_t)set->count + 1,
                      sizeof *set->offset, "class names", error));
    memcpy(set->bytes + set->bytes_used, name, bytes);
    set->bytes[set->bytes_used + bytes] = 0;
    size_t slot = find_slot(set, name, bytes);
    set->offset[set->count] = set->bytes_used;
    set->bytes_used += bytes + 1;
    *number = set->count++;
    set->slot[slot] = set->count;
    return FF_OK;
}

static int compare_names(const void *a, const void *b, void *context) {
    const ff_class_set *set = context;
    return strcmp(ff_class_set_name(set, *(const uint32_t *)a),
                  ff_class_set_name(set, *(const uint32_t *)b));
}

ff_status ff_class_set_finish(const ff_class_set *set, ff_metadata *labels, size_t field,
                              uint32_t **rank, ff_error *error) {
    uint32_t *sorted;
    *rank = NULL;
    FF_TRY(ff_alloc(&sorted, set->count, sizeof *sorted, "class names", error));
    for (uint32_t i = 0; i < set->count; i++) sorted[i] = i;
    qsort_r(sorted, set->count, sizeof *sorted, compare_names, (void *)set);
    ff_status status = ff_alloc(rank, set->count, sizeof **rank, "class names", error);
    for (uint32_t i = 0; i < set->count && status == FF_OK; i++) {
        (*rank)[sorted[i]] = i;
        status = ff_metadata_add_class(labels, field, ff_class_set_name(set, sorted[i]), error);
    }
    free(sorted);
    if (status != FF_OK) {
        free(*rank);
        *rank = NULL;
    }
    return status;
}

ff_status ff_class_set_take(ff_class_set *set, const ff_field *field, ff_error *error) {
    for (uint32_t i = 0; i < field->class_count; i++) {
        uint32_t number;
        const char *name = field->class_name[i];
        FF_TRY(ff_class_set_add(set, name, strlen(name), &number, error));
    }
    return FF_OK;
}

void ff_class_set_free(ff_class_set *set) {
    free(set->bytes);
    free(set->offset);
    free(set->slot);
    *set = (ff_class_set){0};
}
