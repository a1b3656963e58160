/* The same facts as JSON. Class and field names are written by ff_json_text, keys by ff_json_key;
 * mean and std are written as numbers and as bits. Every function returns a new reference in
 * `*out`, or NULL on failure. */
#ifndef FF_FFINSPECT_JSON_H
#define FF_FFINSPECT_JSON_H

#include "format/reader/verification.h"
#include "tools/ffinspect/checks/bench.h"
#include "tools/ffinspect/checks/stats.h"

#include <jansson.h>

/* An object with the summary's facts. */
FF_MUST_USE ff_status ff_inspect_json_summary(json_t **out, ff_dataset *dataset, ff_error *error);

/* An array of channels. */
FF_MUST_USE ff_status ff_inspect_json_stats(json_t **out, const ff_channel_stats *stats,
                                            uint32_t channels, ff_error *error);

/* {"good": ..., "bytes", "files", "problems": [...]} */
FF_MUST_USE ff_status ff_inspect_json_verification(json_t **out,
                                                   const ff_verification *verification,
                                                   ff_error *error);

/* An array of samples [begin, end): entry, labels, first values. */
FF_MUST_USE ff_status ff_inspect_json_samples(json_t **out, ff_dataset *dataset, uint64_t begin,
                                              uint64_t end, ff_error *error);

/* An array of rows. */
FF_MUST_USE ff_status ff_inspect_json_bench(json_t **out, const ff_bench *bench, ff_error *error);

#endif
