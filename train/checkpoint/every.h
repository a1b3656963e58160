/* When checkpoints are written, besides after the best evaluation so far, after the last step, and
 * where a signal or a failure ends the run. Pure. */
#ifndef FF_TRAIN_EVERY_H
#define FF_TRAIN_EVERY_H

#include "format/base/status.h"

#include <stdbool.h>

typedef enum ff_every_unit {
    /* After an epoch, where ff_every_worthwhile. */
    FF_EVERY_CHOSEN,
    FF_EVERY_EPOCHS,
    FF_EVERY_STEPS,
    FF_EVERY_MINUTES,
} ff_every_unit;

typedef struct ff_every {
    ff_every_unit unit;
    double amount; /* above 0; of epochs and steps a whole number */
} ff_every;

/* "epoch", "5 epochs", "1000 steps", "2.5 minutes"; a number alone counts epochs; NULL: CHOSEN.
 * FF_USAGE for other texts. */
FF_MUST_USE ff_status ff_every_parse(ff_every *every, const char *text, ff_error *error);

/* Whether the end of an epoch is worth a checkpoint, so many seconds after the last one was begun,
 * which took so many (0: there is none yet): checkpoints take a hundredth of the time, or one is
 * 30 s old. */
bool ff_every_worthwhile(double seconds, double took);

#endif
