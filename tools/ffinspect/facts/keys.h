/* --keys: the keys of all samples. */
#ifndef FF_FFINSPECT_KEYS_H
#define FF_FFINSPECT_KEYS_H

#include "format/disk/set.h"

/* Prints the keys in the order of the samples' numbers, one per line, as ff_key_text writes them;
 * with `null` the raw bytes of each key, followed by a zero byte. If the list has several splits,
 * the split's name precedes each key: train/cat/1.png. */
FF_MUST_USE ff_status ff_inspect_print_keys(const ff_set *list, bool null, ff_error *error);

#endif
