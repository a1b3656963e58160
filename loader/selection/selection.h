/* Room loader/selection, floor 5: which samples of a set a loader has.
 *
 * A selection is a list of sample numbers, computed once from all of its options. It stands between
 * the set and the order: an order's place p is the selection's sample p, so
 * ranks, threads, resumes and placements see numbers of samples as without a selection. parts.c
 * divides a set by its keys, for splits and folds; list.c reads lists of numbers or keys. weights.c
 * makes tables of how often each sample comes, and of the samples of each class.
 *
 * May include format.
 *
 * Thread rule: read-only once made. */
#ifndef FF_LOADER_SELECTION_H
#define FF_LOADER_SELECTION_H

#include "format/reader/reader.h"

typedef struct ff_selection {
    ff_storage_order numbers; /* [count], each below `of`; a number may come several times */
    uint64_t count, of;       /* samples selected, at least 1; of the set */
    bool repeats;             /* a number comes several times */
    uint64_t id; /* XXH3 of each number, a u64, with that of those before it as the seed */
} ff_selection;

/* The options of a selection. A sample is selected if all of them match. All NULL: all samples. */
typedef struct ff_selection_rule {
    const int64_t *index; /* [index_count] numbers, in this order; NULL = those of `list`, or all */
    size_t index_count;
    /* A text file with a number a line, in this order, or with a key a line, then in the order of
     * the numbers; "numbers:FILE" and "keys:FILE" decide where both fit. */
    const char *list;
    const char *where; /* an expression (format/select/where.h) */
    /* "train:0.9" (the first nine tenths by the hash of their keys, as of ffpack --split
     * train=0.9,val=0.1), "val:0.1" (any name but train: the last tenth), or "val of
     * train=0.8,val=0.1,test=0.1"; then any of " seed=N", " stratified" and " group-by=REGEX",
     * which comes last. */
    const char *split;
    /* "2/5": the second of five equal parts, by the same hash; "not 2/5": all others; and the same
     * words after it. */
    const char *fold;
    const char *label; /* field of " stratified"; NULL = the first one of classes */
} ff_selection_rule;

static inline bool ff_selection_asked(const ff_selection_rule *rule) {
    return rule->index || rule->list || rule->where || rule->split || rule->fold;
}

/* The file's path in ff_selection_rule.list: what follows "keys:" or "numbers:", or all of it. */
const char *ff_selection_list_path(const char *list);

/* FF_USAGE: an expression, a part or a list that cannot be read, a number out of range or an
 * unknown key (which the message names), or no sample matches; also the reader's errors.
 * Released with ff_selection_free; zeroed on failure. */
FF_MUST_USE ff_status ff_selection_make(ff_selection *selection, ff_dataset *dataset,
                                        const ff_selection_rule *rule, ff_error *error);
/* A zeroed selection is accepted. */
void ff_selection_free(ff_selection *selection);

/* The label field of this name, or the first one of classes if `label` is NULL; FF_USAGE: there is
 * none, or it does not hold classes. */
FF_MUST_USE ff_status ff_selection_field(ff_dataset *dataset, const char *label, size_t *field,
                                         ff_error *error);

/* "512 of 2048 samples (00a1b2c3d4e5f607)": the same for the same samples in the same order; of
 * NULL or a zeroed selection "all samples". */
typedef struct ff_selection_text {
    char text[80];
} ff_selection_text;
ff_selection_text ff_selection_say(const ff_selection *selection);

/* The samples of an order's places: the selection's, or all of the set's where it is NULL;
 * `stored`: in storage order, each as often as it was selected; without a selection that of
 * ff_dataset_storage_order_later. Released with ff_storage_order_free; zeroed on failure. */
FF_MUST_USE ff_status ff_selection_places(const ff_selection *selection, ff_dataset *dataset,
                                          bool stored, ff_storage_order *places, ff_error *error);

#endif
