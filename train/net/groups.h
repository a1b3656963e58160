/* Which parameters of a store are updated together: spans of adjacent ones in one group; those of
 * optimizers with norms one by one. */
#ifndef FF_TRAIN_GROUPS_H
#define FF_TRAIN_GROUPS_H

#include "train/net/store.h"

/* Adjacent parameters in the store's block of trained parameters. */
typedef struct ff_span {
    int group;
    ff_rule rule;
    int parameter;        /* the first one; of an optimizer with norms the only one */
    size_t offset, count; /* elements */
} ff_span;

struct ff_groups {
    int count;
    int *of;        /* [parameters]: the group; -1 = not trained */
    ff_span *spans; /* in the store's order */
    int span_count;
};

/* Each trained parameter belongs to the first group that it matches. FF_USAGE, naming the
 * parameter, where none does or where Muon would get anything other than a filter bank. On failure
 * *groups holds nothing. The store must outlive the groups; the caller sets store->groups. */
FF_MUST_USE ff_status ff_groups_create(ff_groups *groups, const ff_store *store,
                                       const ff_group *list, int count, ff_error *error);
/* Whether a pattern of a list as ff_group.names matches no trained parameter: the first such.
 * Without `kinds`, norm and bias need no match: a net may have none. */
enum { FF_GROUPS_PATTERN = 256 };
bool ff_groups_unmatched(const ff_graph *graph, const char *list, bool kinds,
                         char pattern[FF_GROUPS_PATTERN]);
/* Whether all trained parameters of a batch norm match a list as ff_group.names. */
bool ff_groups_match_norm(const ff_graph *graph, const ff_layer *norm, const char *list);
void ff_groups_destroy(ff_groups *groups);

#endif
