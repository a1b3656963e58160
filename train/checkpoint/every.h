/* When checkpoints are written. In addition, a run always writes one after the best evaluation so
 * far, after the last step, and when a signal or a failure ends it. Pure. */
#ifndef FF_TRAIN_EVERY_H
#define FF_TRAIN_EVERY_H

#include "format/base/status.h"

#include <stdbool.h>

typedef enum ff_every_unit {
    /* after an epoch, if ff_every_worthwhile */
    FF_EVERY_CHOSEN,
    FF_EVERY_EPOCHS,
    FF_EVERY_STEPS,
    FF_EVERY_MINUTES,
} ff_every_unit;

typedef struct ff_every {
    ff_every_unit unit;
    double amount; /* above 0; a whole number for epochs and steps */
} ff_every;

/* Parses "epoch", "5 epochs", "1000 steps", "2.5 minutes"; a number alone counts epochs; NULL:
 * CHOSEN. FF_USAGE for other texts. */
FF_MUST_USE ff_status ff_every_parse(ff_every *every, const char *text, ff_error *error);

/* Whether the end of an epoch is worth a checkpoint. `seconds`: the time since the last checkpoint
 * was begun; `took`: how long that one took (0: there is no checkpoint yet). True if checkpoints
 * take at most a hundredth of the time, or the last one is 30 s old. */
bool ff_every_worthwhile(double seconds, double took);

#endif
