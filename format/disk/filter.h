/* Filters: exactly reversible transforms of a sample's bytes before zstd (FORMAT.md). Thread rule:
 * pure. */
#ifndef FF_FORMAT_FILTER_H
#define FF_FORMAT_FILTER_H

#include "format/disk/metadata.h"

/* For FF_FILTER_TABLE: finds the index of a value in a channel's table. */
typedef struct ff_table_lookup ff_table_lookup;
FF_MUST_USE ff_status ff_table_lookup_create(ff_table_lookup **lookup, const ff_metadata *metadata,
                                             ff_error *error);
void ff_table_lookup_destroy(ff_table_lookup **lookup);

/* Bytes of a filtered tensor: one per element for table, else unchanged. */
uint64_t ff_filtered_bytes(const ff_metadata *metadata, ff_filter filter, uint64_t tensor_bytes);

/* Filters one tensor. False if a value is not in the table. */
bool ff_filter_apply(const ff_metadata *metadata, ff_filter filter, const ff_table_lookup *lookup,
                     uint32_t height, uint32_t width, const uint8_t *tensor, uint8_t *filtered);

/* Reverses the filter. `filtered` is overwritten (row deltas are summed in place). */
void ff_filter_undo(const ff_metadata *metadata, ff_filter filter, uint32_t height, uint32_t width,
                    uint8_t *filtered, uint8_t *tensor);

#endif
