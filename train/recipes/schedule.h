/* Learning rates over a run: a linear warm-up, then a schedule, a row of the table in schedule.c.
 * Pure. */
#ifndef FF_TRAIN_SCHEDULE_H
#define FF_TRAIN_SCHEDULE_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { FF_SCHEDULE_NUMBERS = 16, FF_SCHEDULE_HELP_BYTES = 256 };

typedef struct ff_schedule {
    const char *text; /* as written: "step=30:0.1" */
    int row;
    double numbers[FF_SCHEDULE_NUMBERS], factor; /* the schedule's arguments */
    int number_count;
    double peak;           /* learning rate at the end of the warm-up */
    double epoch_steps;    /* steps of an epoch, for arguments in epochs */
    uint64_t warmup_steps; /* step s < warmup_steps runs at peak * (s + 1) / (warmup_steps + 1) */
    uint64_t total_steps;  /* steps of the whole run, including the warm-up */
} ff_schedule;

/* Reads "NAME[=ARGUMENTS]", as listed by ff_schedule_help; `text` must outlive the schedule. Sets
 * only text, row and arguments. FF_USAGE. */
FF_MUST_USE ff_status ff_schedule_parse(ff_schedule *schedule, const char *text, ff_error *error);
/* Writes "constant, cosine[=FINAL], ..." to `text` and returns it. */
const char *ff_schedule_help(char text[FF_SCHEDULE_HELP_BYTES]);
/* Whether the schedule begins with a rise of its own, and so has no warm-up. */
bool ff_schedule_rises(const ff_schedule *schedule);

/* The learning rate of step `step` (from 0). After the warm-up, t = (step - warmup_steps) /
 * (total_steps - warmup_steps), 1 from total_steps on. Epochs and steps are counted from the start
 * of the run. Each schedule except the last is the one of torch.optim.lr_scheduler, stepped every
 * step (for step and multi-step every epoch):
 *   constant     peak
 *   cosine       CosineAnnealingLR: final + (peak - final) * (1 + cos(pi t)) / 2, final = FINAL *
 *                peak (SGDR, arXiv 1608.03983, eq. 5, without restarts)
 *   linear       LinearLR: final + (peak - final) * (1 - t)
 *   step         StepLR: peak * FACTOR^k, k = the epochs before / EPOCHS
 *   multi-step   MultiStepLR: peak * FACTOR^k, k = the number of EPOCHs that are over
 *   polynomial   PolynomialLR: peak * (1 - t)^POWER
 *   one-cycle    OneCycleLR (L. Smith and N. Topin 2017, arXiv 1708.07120): from peak / 25 in a
 *                cosine to the peak in the share RISE of the steps, then to peak / 250,000 */
double ff_schedule_rate(const ff_schedule *schedule, uint64_t step);

/* The first of the epochs of step and multi-step after which a run of `steps` steps does not
 * continue; 0: there is no such epoch. */
double ff_schedule_late(const ff_schedule *schedule, uint64_t steps);

#endif
