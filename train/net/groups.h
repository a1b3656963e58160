/* Which parameters of a store are updated together: spans of adjacent parameters in one group;
 * single parameters for optimizers with norms. */
#ifndef FF_TRAIN_GROUPS_H
#define FF_TRAIN_GROUPS_H

#include "train/net/store.h"

/* Adjacent parameters in the store's block of trained parameters. */
typedef struct ff_span {
    int group;
    ff_rule rule;
    int parameter;        /* the first one; for an optimizer with norms the only one */
    size_t offset, count; /* elements */
} ff_span;

struct ff_groups {
    int count;
    int *of;        /* [parameters]: the group; -1 = not trained */
    ff_span *spans; /* in the store's order */
    int span_count;
};

/* Each trained parameter belongs to the first group that it matches. FF_USAGE, naming the
 * parameter, if it matches no group or if Muon would get anything other than a filter bank. On
 * failure *groups holds nothing. The store must outlive the groups; the caller sets
 * store->groups. */
FF_MUST_USE ff_status ff_groups_create(ff_groups *groups, const ff_store *store,
                                       const ff_group *list, int count, ff_error *error);
/* Whether a pattern of a list as in ff_group.names matches no trained parameter; writes the first
 * such pattern. Without `kinds`, norm and bias need no match: a net may not have any. */
enum { FF_GROUPS_PATTERN = 256 };
bool ff_groups_unmatched(const ff_graph *graph, const char *list, bool kinds,
                         char pattern[FF_GROUPS_PATTERN]);
/* Whether all trained parameters of a batch norm match a list as in ff_group.names. */
bool ff_groups_match_norm(const ff_graph *graph, const ff_layer *norm, const char *list);
void ff_groups_destroy(ff_groups *groups);

#endif
