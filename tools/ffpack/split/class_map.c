#include "tools/ffpack/split/class_map.h"

#include <inttypes.h>
#include <stdlib.h>

ff_status ff_class_map_create(ff_class_map *map, size_t field_count, ff_error *error) {
    *map = (ff_class_map){.field_count = field_count};
    FF_TRY(ff_alloc(&map->to, field_count, sizeof *map->to, "classes", error));
    return ff_alloc(&map->count, field_count, sizeof *map->count, "classes", error);
}

ff_status ff_class_map_add(ff_class_map *map, size_t field, uint32_t count, ff_error *error) {
    map->count[field] = count;
    return ff_alloc(&map->to[field], count, sizeof **map->to, "classes", error);
}

void ff_class_store(const ff_field *field, int64_t number, void *value) {
    if (field->dtype == FF_I64)
        ff_store_u64(value, (uint64_t)number);
    else
        ff_store_u32(value, (uint32_t)number);
}

ff_status ff_class_map_apply(const ff_class_map *map, const ff_field *field, size_t index,
                             void *mapped, const void **label, ff_error *error) {
    if (!map->to[index]) return FF_OK;
    int64_t value = ff_field_class(field, *label);
    if (value < -1 || value >= (int64_t)map->count[index])
        return ff_fail(error, FF_BAD_DATA, "class %" PRId64 " of field %s, wanted -1 to %u", value,
                       field->name, map->count[index] - 1);
    ff_class_store(field, value < 0 ? value : map->to[index][value], mapped);
    *label = mapped;
    return FF_OK;
}

void ff_class_map_free(ff_class_map *map) {
    for (size_t i = 0; map->to && i < map->field_count; i++) free(map->to[i]);
    free(map->to);
    free(map->count);
    *map = (ff_class_map){0};
}
