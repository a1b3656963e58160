/* Results of a run, computed from its log. Pure functions. */
#ifndef FF_TRAIN_REPORT_PAGE_RUN_SUMS_H
#define FF_TRAIN_REPORT_PAGE_RUN_SUMS_H

#include "train/report/page/run_log.h"

/* The indexes of the last evaluated epoch and of the best one, by the run's own metric (--best-by);
 * -1 = none. */
void ff_run_evaluated(const ff_run_log *run, long *last, long *best);
/* Whether the run's metric is the loss, not the accuracy. */
bool ff_run_is_by_loss(const ff_run_log *run);
/* The number of the last finished epoch; 0 = none. */
double ff_run_last_epoch(const ff_run_log *run);
/* "done", "stopped early", "interrupted", "preempted", "failed"; without an end "running", if a
 * process holds the run's folder, else "killed"; "not ended" for a log without its folder. */
const char *ff_run_status(const ff_run_log *run);

/* The parts of a run's time. */
enum { FF_RUN_COMPUTE, FF_RUN_WAIT, FF_RUN_EVALUATION, FF_RUN_WARM_UP, FF_RUN_OTHER, FF_RUN_TIMES };
/* Adds up all sessions of the run, in seconds: sets the parts and returns their sum. *rate: samples
 * a second of training; NaN if the run has not trained. */
double ff_run_times(const ff_run_log *run, double parts[FF_RUN_TIMES], double *rate);

#endif
