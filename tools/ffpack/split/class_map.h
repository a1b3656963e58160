/* Maps the class numbers of one list of classes to the numbers of another list, field by field.
 * Thread rule: read-only once filled. */
#ifndef FF_FFPACK_CLASS_MAP_H
#define FF_FFPACK_CLASS_MAP_H

#include "format/disk/metadata.h"

/* Zero-initialised; owned arrays. */
typedef struct ff_class_map {
    size_t field_count;
    int64_t **to;    /* [field_count]: the new number of each, or NULL if numbers stay */
    uint32_t *count; /* [field_count] numbers in `to` */
} ff_class_map;

/* A map that changes nothing yet. */
FF_MUST_USE ff_status ff_class_map_create(ff_class_map *map, size_t field_count, ff_error *error);

/* Maps `count` numbers of a field from now on, all to 0 at first. */
FF_MUST_USE ff_status ff_class_map_add(ff_class_map *map, size_t field, uint32_t count,
                                       ff_error *error);

/* Maps *label, a value of field `index` as stored: *mapped (8 bytes) holds the new one, and *label
 * points to it. -1, no label, stays. FF_BAD_DATA if the number belongs to no class. */
FF_MUST_USE ff_status ff_class_map_apply(const ff_class_map *map, const ff_field *field,
                                         size_t index, void *mapped, const void **label,
                                         ff_error *error);

/* Stores a class number as a value of the field. */
void ff_class_store(const ff_field *field, int64_t number, void *value);

void ff_class_map_free(ff_class_map *map);

#endif
