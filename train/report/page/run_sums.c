#include "train/report/page/run_sums.h"

#include <math.h>
#include <string.h>

bool ff_run_is_by_loss(const ff_run_log *run) {
    size_t length;
    const char *kept = ff_run_log_setting(&run->recipe, "best-by", &length);
    const char *told = ff_run_log_text(run->start, "best_by");
    if (*told) return !strcmp(told, "loss");
    return kept && length == strlen("loss") && !memcmp(kept, "loss", length);
}

/* The score of an epoch's evaluation, larger is better; NaN: no score. */
static double score(const ff_run_log *run, size_t i, bool by_loss) {
    const double loss = ff_run_log_at(run, i, "val_loss");
    if (!isfinite(loss)) return NAN;
    return by_loss ? -loss : ff_run_log_at(run, i, "val_accuracy");
}

void ff_run_evaluated(const ff_run_log *run, long *last, long *best) {
    const bool by_loss = ff_run_is_by_loss(run);
    *last = *best = -1;
    for (size_t i = 0; i < json_array_size(run->epochs); i++) {
        if (!isfinite(ff_run_log_at(run, i, "val_accuracy"))) continue;
        *last = (long)i;
        if (!isfinite(score(run, i, by_loss))) continue;
        if (*best < 0 || score(run, i, by_loss) > score(run, (size_t)*best, by_loss)) *best = *last;
    }
    /* A run that has ended records its best epoch. */
    for (size_t i = 0; i < json_array_size(run->epochs); i++)
        if (ff_run_log_at(run, i, "epoch") == ff_run_log_number(run->end, "best_epoch"))
            *best = (long)i;
}

double ff_run_last_epoch(const ff_run_log *run) {
    const size_t epochs = json_array_size(run->epochs);
    return epochs ? ff_run_log_at(run, epochs - 1, "epoch") : 0;
}

const char *ff_run_status(const ff_run_log *run) {
    return run->end ? ff_run_log_text(run->end, "status") : run->unended;
}

static double or_zero(double value) {
    return isfinite(value) ? value : 0;
}

/* Read from the line of the end, which counts all sessions of a resumed run and an epoch that was
 * stopped; without this line, from the epochs. */
double ff_run_times(const ff_run_log *run, double parts[FF_RUN_TIMES], double *rate) {
    double train = 0, wait = 0, samples = 0, total;
    for (size_t i = 0; i < json_array_size(run->epochs); i++) {
        const double seconds = or_zero(ff_run_log_at(run, i, "seconds"));
        train += seconds;
        wait += seconds * or_zero(ff_run_log_at(run, i, "data_wait_percent")) / 100;
        samples += seconds * or_zero(ff_run_log_at(run, i, "samples_per_second"));
    }
    if (isfinite(ff_run_log_number(run->end, "train_seconds"))) {
        train = ff_run_log_number(run->end, "train_seconds");
        wait = train * or_zero(ff_run_log_number(run->end, "data_wait_percent")) / 100;
        samples = or_zero(ff_run_log_number(run->end, "samples"));
    }
    *rate = train > 0 ? samples / train : NAN;
    parts[FF_RUN_EVALUATION] = or_zero(ff_run_log_number(run->end, "val_seconds"));
    parts[FF_RUN_WARM_UP] = or_zero(ff_run_log_number(run->end, "warm_up_seconds"));
    total = fmax(run->seconds_before + or_zero(ff_run_log_number(run->end, "seconds")),
                 train + parts[FF_RUN_EVALUATION] + parts[FF_RUN_WARM_UP]);
    parts[FF_RUN_WAIT] = wait;
    parts[FF_RUN_COMPUTE] = train - wait;
    parts[FF_RUN_OTHER] = total - train - parts[FF_RUN_EVALUATION] - parts[FF_RUN_WARM_UP];
    return total;
}
