/* --keys: the keys of all samples. */
#ifndef FF_FFINSPECT_KEYS_H
#define FF_FFINSPECT_KEYS_H

#include "format/set.h"

/* Prints the keys in the order of the samples' numbers, a line each, as ff_key_text writes them, or
 * with `null` as they are with a zero byte after each. Of several splits the split's name stands in
 * front: train/cat/1.png. */
FF_MUST_USE ff_status ff_inspect_print_keys(const ff_set *list, bool null, ff_error *error);

#endif
