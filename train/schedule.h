/* Learning rates over a run: linear warm-up, then a cosine or a line to zero. Pure. */
#ifndef FF_TRAIN_SCHEDULE_H
#define FF_TRAIN_SCHEDULE_H

#include <stdint.h>

typedef enum ff_schedule_kind {
    FF_SCHEDULE_CONSTANT,
    FF_SCHEDULE_COSINE,
    FF_SCHEDULE_LINEAR
} ff_schedule_kind;

typedef struct ff_schedule {
    ff_schedule_kind kind;
    double peak;           /* learning rate at the end of the warm-up */
    double final;          /* COSINE, LINEAR: reached after the last step; usually 0 */
    uint64_t warmup_steps; /* step s < warmup_steps runs at peak * (s + 1) / (warmup_steps + 1) */
    uint64_t total_steps;  /* steps of the whole run, the warm-up among them */
} ff_schedule;

/* "constant", "cosine", "linear". */
const char *ff_schedule_name(ff_schedule_kind kind);

/* The learning rate of step `step` (from 0). After the warm-up, with t = (step - warmup_steps) /
 * (total_steps - warmup_steps) in [0, 1): final + (peak - final) * (1 + cos(pi t)) / 2 (SGDR,
 * arXiv 1608.03983, eq. 5, without restarts), or final + (peak - final) * (1 - t) (LINEAR). Steps
 * from total_steps on run at `final` (COSINE, LINEAR) or `peak` (CONSTANT). */
double ff_schedule_rate(const ff_schedule *schedule, uint64_t step);

#endif
