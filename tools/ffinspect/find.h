/* --find: the samples that have a key. */
#ifndef FF_FFINSPECT_FIND_H
#define FF_FFINSPECT_FIND_H

#include "format/disk/set.h"

#include <jansson.h>

/* Prints a line for each sample that has this key, in any split: its split, number, shard, size and
 * labels. `key` is spelled in its own bytes or as ffinspect prints it (%XX), and may begin with the
 * split's name. FF_FAILED with the nearest key if no sample has it. */
FF_MUST_USE ff_status ff_inspect_print_found(const ff_set *list, const char *key, ff_error *error);

/* *out = an array of the samples' objects (json.h), with "split", a new reference. If no sample has
 * the key, `verdict` is filled. */
FF_MUST_USE ff_status ff_inspect_json_found(json_t **out, const ff_set *list, const char *key,
                                            ff_error *verdict, ff_error *error);

#endif
