/* --cache-plan: what training fetches from behind a URL, by the size of the cache. */
#ifndef FF_FFINSPECT_CACHE_PLAN_H
#define FF_FFINSPECT_CACHE_PLAN_H

#include "tools/ffinspect/facts/inspect.h"

/* FF_USAGE for an option of the order without --cache-plan, and for one without effect on it. */
FF_MUST_USE ff_status ff_inspect_check_plan(const ff_inspect_options *options, ff_error *error);

/* Prints a table: a line for each size of the cache, with the bytes that the first and each further
 * epoch fetch; with --json one JSON object. `path`: of one split. */
FF_MUST_USE ff_status ff_inspect_print_plan(const ff_inspect_options *options, const char *path,
                                            ff_error *error);

#endif
