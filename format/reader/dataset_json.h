/* What a packed set is, as JSON: all facts that can be found without reading its whole index. Mean
 * and std are written as numbers and as bits. */
#ifndef FF_FORMAT_DATASET_JSON_H
#define FF_FORMAT_DATASET_JSON_H

#include "format/reader/reader.h"

#include <jansson.h>

/* *out = a new reference to an object; NULL on failure (FF_NO_MEMORY). Class names, field names and
 * provenance may be any bytes. With `plain` they are text, percent-escaped only if they are not
 * UTF-8; otherwise they are always percent-escaped (ff_escape), so that a program can recover each
 * name. */
FF_MUST_USE ff_status ff_dataset_json(json_t **out, const ff_dataset *dataset, bool plain,
                                      ff_error *error);

/* A number of bits, in hexadecimal digits. NULL when out of memory. */
json_t *ff_json_hex(uint64_t value, int digits);

/* Whether Normalize is applied to the stored values: "applied", "recorded" or "none". */
const char *ff_metadata_normalize_state(const ff_metadata *metadata);

#endif
