#include "train/schedule.h"

#include <math.h>

const char *ff_schedule_name(ff_schedule_kind kind) {
    static const char *const names[] = {"constant", "cosine", "linear"};
    return names[kind];
}

double ff_schedule_rate(const ff_schedule *schedule, uint64_t step) {
    if (step < schedule->warmup_steps)
        return schedule->peak * ((double)step + 1.0) / ((double)schedule->warmup_steps + 1.0);
    if (schedule->kind == FF_SCHEDULE_CONSTANT) return schedule->peak;
    if (step >= schedule->total_steps) return schedule->final;
    const double pi = 3.14159265358979323846;
    double t = (double)(step - schedule->warmup_steps) /
               (double)(schedule->total_steps - schedule->warmup_steps);
    if (schedule->kind == FF_SCHEDULE_LINEAR)
        return schedule->final + (schedule->peak - schedule->final) * (1.0 - t);
    return schedule->final + (schedule->peak - schedule->final) * (1.0 + cos(pi * t)) / 2.0;
}
