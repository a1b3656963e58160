/* What `best`, `last` and --keep mean: which checkpoints of a run stay, and where its links point.
 *
 * The checkpoints of a run form one line, each continuing the one before. When a run resumes from
 * an older checkpoint, the newer ones leave the line (keeper.h moves them to a folder of their
 * own). In the line:
 *
 *   last      is the newest: the one with the most steps
 *   best      is the one whose evaluation has the best score; the first of equals
 *   --keep N  keeps the newest N, and best
 *
 * An evaluation has a score if its loss is finite and it used the same number of views as this run.
 * If no checkpoint has a score, the checkpoint that was `best` before stays `best`.
 *
 * Pure functions. */
#ifndef FF_TRAIN_KEEPING_H
#define FF_TRAIN_KEEPING_H

#include "train/checkpoint/state.h"

/* The metric that selects the best checkpoint. */
typedef enum ff_best_by { FF_BEST_ACCURACY, FF_BEST_LOSS } ff_best_by;

/* The score of an evaluation, larger is better; NAN: it has no score. `views`: those of this run's
 * evaluations. */
double ff_evaluation_score(const ff_evaluated *evaluation, ff_best_by by, uint32_t views);

typedef struct ff_kept {
    uint64_t step;
    double score;
    bool was_best; /* it was `best` when this process began */
    bool stays;    /* set by ff_keeping_decide */
} ff_kept;

/* kept: [count], by increasing step. Sets `stays` of each. Returns the index of the best; -1 =
 * none. */
int ff_keeping_decide(ff_kept *kept, int count, int keep);

#endif
