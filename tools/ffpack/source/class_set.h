/* The class names of a field while a source is listed: each name is numbered by first appearance,
 * and finally by its rank in the order of the names' bytes. Memory: the names, at most
 * FF_METADATA_LIMIT_BYTES of them, since the metadata must hold them. Thread rule: one thread at a
 * time. */
#ifndef FF_FFPACK_CLASS_SET_H
#define FF_FFPACK_CLASS_SET_H

#include "format/disk/metadata.h"

typedef struct ff_class_set {
    uint32_t count;
    uint64_t bytes_used;
    size_t bytes_capacity, offset_capacity;
    char *bytes;       /* the names, each ended by a zero */
    uint64_t *offset;  /* [count] into bytes */
    size_t slot_count; /* a power of two, or 0 */
    uint32_t *slot;    /* number + 1 by the name's hash; 0 = free */
} ff_class_set;        /* zero-initialised {0} */

/* *number = the name's number, a new one if it is not in the set. FF_BAD_DATA (a message to be
 * prefixed with the item) for an empty name, a zero byte in it, or too many. */
FF_MUST_USE ff_status ff_class_set_add(ff_class_set *set, const char *name, size_t bytes,
                                       uint32_t *number, ff_error *error);
/* The name's number, or UINT32_MAX. */
uint32_t ff_class_set_find(const ff_class_set *set, const char *name, size_t bytes);
static inline const char *ff_class_set_name(const ff_class_set *set, uint32_t number) {
    return set->bytes + set->offset[number];
}

/* *rank [count], allocated: the rank of each number in the order of the names' bytes. Adds the
 * names in that order as classes of a field. */
FF_MUST_USE ff_status ff_class_set_finish(const ff_class_set *set, ff_metadata *labels,
                                          size_t field, uint32_t **rank, ff_error *error);

/* The set of a field's class names, in their order. */
FF_MUST_USE ff_status ff_class_set_take(ff_class_set *set, const ff_field *field, ff_error *error);

void ff_class_set_free(ff_class_set *set);

#endif
