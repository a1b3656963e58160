/* Which parameters of a store are updated together, and their update: one pass over each run of
 * neighbours of one SGD group, and Muon filter bank by filter bank. Updates allocate nothing.
 * One thread at a time. */
#ifndef FF_TRAIN_GROUPS_H
#define FF_TRAIN_GROUPS_H

#include "train/store.h"

/* Neighbours in the store's block of trained parameters. */
typedef struct ff_span {
    int group;
    ff_rule rule;
    int parameter;        /* the first one; MUON: the only one */
    size_t offset, count; /* elements */
} ff_span;

struct ff_groups {
    ff_compute *compute;
    int count;
    int *of;        /* [parameters]: the group; -1 = not trained */
    ff_span *spans; /* in the store's order */
    int span_count;
    void *scratch; /* of Muon's steps, on the device */
    size_t scratch_bytes;
};

/* Each trained parameter belongs to the first group whose pattern matches its name. FF_USAGE where
 * none does, or where Muon meets what is no filter bank: the parameter is named. On failure *groups
 * holds nothing. The store outlives them; the caller sets store->groups. */
FF_MUST_USE ff_status ff_groups_create(ff_groups *groups, const ff_store *store,
                                       const ff_group *list, int count, ff_error *error);
void ff_groups_destroy(ff_groups *groups);

/* Updates all trained parameters; steps: [count]. */
void ff_groups_update(const ff_groups *groups, ff_store *store, const ff_sgd *steps);

#endif
