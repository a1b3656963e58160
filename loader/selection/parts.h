/* Which part of a set a sample belongs to, by the hash of its key (format/select/split_rule.h).
 * Private to loader/selection/. Thread rule: read-only once made. */
#ifndef FF_LOADER_SELECTION_PARTS_H
#define FF_LOADER_SELECTION_PARTS_H

#include "format/reader/reader.h"
#include "format/select/split_rule.h"

/* Zero-initialised: every sample; released with ff_part_free. */
typedef struct ff_part {
    ff_split_rule rule;
    size_t part;            /* of the rule's */
    bool others;            /* all but this part */
    unsigned char *divided; /* [samples]: the part of each, where classes are divided; else NULL */
} ff_part;

/* `split` and `fold` as in ff_selection_rule; one of them is NULL. `label`: the field whose classes
 * are divided, NULL = the first one of classes. FF_USAGE. */
FF_MUST_USE ff_status ff_part_make(ff_part *part, const char *split, const char *fold,
                                   const char *label, ff_dataset *dataset, ff_error *error);
void ff_part_free(ff_part *part);

/* *has = whether sample `number` with this key belongs to the part. FF_USAGE where group-by does
 * not match the key. */
FF_MUST_USE ff_status ff_part_look(const ff_part *part, uint64_t number, const char *key,
                                   size_t key_bytes, bool *has, ff_error *error);

#endif
