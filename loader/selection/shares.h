/* The shares of several sets that are opened as one (ff_dataset_open_several), for
 * loader/sequence/sampling.h.
 *
 * Thread rule: read-only once made. */
#ifndef FF_LOADER_SHARES_H
#define FF_LOADER_SHARES_H

#include "loader/selection/selection.h"

/* The shares from an epoch on. */
typedef struct ff_shares_stage {
    uint32_t epoch;
    uint64_t
        upto[FF_SETS_LIMIT + 1]; /* [count + 1]: sums of the shares, whole numbers, from 0 on */
} ff_shares_stage;

/* All zero without shares. */
typedef struct ff_shares {
    ff_shares_stage *stage;            /* [stages]; the first begins with epoch 0 */
    uint32_t stages, count;            /* sets */
    uint64_t begin[FF_SETS_LIMIT + 1]; /* [count + 1]: the sets' places */
    ff_selection order;                /* the selected samples by set; zeroed = all samples */
    bool by_batch;                     /* the shares are those of each batch, not of an epoch */
    uint64_t id;                       /* XXH3 of all of this */
} ff_shares;

/* given: "0.8,0.2", a number from 0 to 1000000 for each set, of any sum, in millionths; other
 * shares from an epoch on follow: "0.8,0.2;10:0.5,0.5". selection: NULL = all samples. FF_USAGE: a
 * text that cannot be read, too few or too many numbers, all 0, or a set with a share of which no
 * sample is selected. Released with ff_shares_free; zeroed on failure. */
FF_MUST_USE ff_status ff_shares_make(ff_shares *shares, ff_dataset *dataset,
                                     const ff_selection *selection, const char *given,
                                     bool by_batch, ff_error *error);
/* A zeroed one is accepted. */
void ff_shares_free(ff_shares *shares);

/* The table of ff_sampling for epochs of `units` units of `unit` draws; the caller frees it. */
FF_MUST_USE ff_status ff_shares_table(const ff_shares *shares, uint64_t units, uint64_t unit,
                                      uint64_t **table, ff_error *error);

#endif
