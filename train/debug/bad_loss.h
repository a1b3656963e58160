/* A step whose loss, or gradients, are NaN or infinite: where that comes from. */
#ifndef FF_TRAIN_DEBUG_BAD_LOSS_H
#define FF_TRAIN_DEBUG_BAD_LOSS_H

#include "train/trainer/trainer.h"

/* Whether the run cannot go on after a step: its loss is not finite; or its gradients are not,
 * where no loss scale is to blame: none is used, or the one that moves is below any use. */
bool ff_loss_is_bad(const ff_trainer *trainer, const ff_outcome *outcome);
/* Runs the step of that outcome again, operation by operation, and fails with FF_FAILED: step,
 * epoch, learning rate, the first thing that is not finite (samples of the batch by number and key,
 * a parameter, an operation's output or gradient), the last good checkpoint and what to do.
 * checkpoint: its path, NULL = none. run: the folder, NULL = none. The updates have halted
 * where the loss was not finite (ff_control.halted), so that the parameters are those of the
 * step; on a GPU gradients may be looked at some updates later. The trainer cannot train
 * afterwards. */
FF_MUST_USE ff_status ff_loss_failed(ff_trainer *trainer, const ff_outcome *outcome,
                                     const char *checkpoint, const char *run, ff_error *error);

#endif
