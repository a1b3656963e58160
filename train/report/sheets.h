/* Contact sheets of a run: what the net sees, and what it gets wrong. */
#ifndef FF_TRAIN_SHEETS_H
#define FF_TRAIN_SHEETS_H

#include "loader/draw/canvas.h"
#include "train/trainer/trainer.h"

/* Draws the first samples of the run as they enter the net, augmented, in the colours that the
 * recorded mean and std restore. Batches are the same on every device, so a separate loader makes
 * them on the host; the run's loader is not touched. The caller frees the canvas, after a failure
 * too, here and below. */
FF_MUST_USE ff_status ff_sheet_inputs(const ff_trainer *trainer, ff_canvas *canvas,
                                      ff_error *error);
/* The same for the whole batch of step `step` (from 0), as far as it fits a sheet, with the
 * samples' numbers. */
FF_MUST_USE ff_status ff_sheet_step(const ff_trainer *trainer, uint64_t step, ff_canvas *canvas,
                                    ff_error *error);

/* Draws the samples with the largest losses in the trainer's tally, as stored, with their labels
 * and predictions. */
FF_MUST_USE ff_status ff_sheet_worst(const ff_trainer *trainer, ff_canvas *canvas, ff_error *error);

#endif
