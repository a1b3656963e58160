/* Finds the origin of NaN or infinite values in a step's loss or gradients. */
#ifndef FF_TRAIN_DEBUG_BAD_LOSS_H
#define FF_TRAIN_DEBUG_BAD_LOSS_H

#include "train/trainer/trainer.h"

/* Whether the run cannot continue after a step: its loss is not finite; or its gradients are not,
 * and no loss scale explains this, because none is used or the dynamic one is already too small. */
bool ff_loss_is_bad(const ff_trainer *trainer, const ff_outcome *outcome);
/* Runs the outcome's step again, operation by operation, and fails with FF_FAILED. The message has
 * step, epoch, learning rate, the first thing that is not finite (samples of the batch by number
 * and key, a parameter, an operation's output or gradient), the last good checkpoint and what to
 * do. checkpoint: its path, NULL = none. run: the folder, NULL = none. After a loss that is not
 * finite, updates have halted (ff_control.halted), so the parameters are those of the step; bad
 * gradients may be examined some updates later on a GPU. The trainer cannot train afterwards. */
FF_MUST_USE ff_status ff_loss_failed(ff_trainer *trainer, const ff_outcome *outcome,
                                     const char *checkpoint, const char *run, ff_error *error);

#endif
