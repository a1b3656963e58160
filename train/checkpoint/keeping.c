#include "train/checkpoint/keeping.h"

#include <math.h>

double ff_evaluation_score(const ff_evaluated *evaluation, ff_best_by by, uint32_t views) {
    if (!evaluation->epoch || evaluation->views != views || !isfinite(evaluation->loss)) return NAN;
    return by == FF_BEST_LOSS ? -evaluation->loss : evaluation->accuracy;
}

int ff_keeping_decide(ff_kept *kept, int count, int keep) {
    int best = -1, before = -1;
    for (int i = 0; i < count; i++) {
        if (kept[i].was_best) before = i;
        if (!isnan(kept[i].score) && (best < 0 || kept[i].score > kept[best].score)) best = i;
    }
    if (best < 0) best = before;
    for (int i = 0; i < count; i++) kept[i].stays = i == best || i >= count - keep;
    return best;
}
