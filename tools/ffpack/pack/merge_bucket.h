/* `ffpack merge s3://bucket/set`: the parts that lie there become the set, by its index alone. */
#ifndef FF_FFPACK_MERGE_BUCKET_H
#define FF_FFPACK_MERGE_BUCKET_H

#include "tools/ffpack/parts/merge.h"

/* Like ff_merge_run, for an output that is a URL; fetches the ends of all shards into the cache's
 * folder. FF_USAGE with wait_seconds, or if another set is there without `force`. */
FF_MUST_USE ff_status ff_merge_bucket_run(const ff_merge_options *options, ff_merge_report *report,
                                          ff_error *error);

#endif
