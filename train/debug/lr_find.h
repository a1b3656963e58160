/* The search for a learning rate (L. Smith 2015, arXiv 1506.01186, section 3.3): some hundred steps
 * whose rate rises from small to large by the same factor each. The rule is that of fastai's
 * lr_find. */
#ifndef FF_TRAIN_DEBUG_LR_FIND_H
#define FF_TRAIN_DEBUG_LR_FIND_H

#include "loader/draw/canvas.h"
#include "train/report/json_log.h"
#include "train/trainer/trainer.h"

#include <stdio.h>

typedef struct ff_lr_curve {
    size_t count; /* steps taken: fewer than requested if the loss rose to 4 times its least, or was
                     not a number */
    double *rate, *loss, *mean; /* [count]; mean: of the losses so far, weights falling by 0.98 */
    /* The rate half-way through the longest fall of `mean`, without the first tenth of the
     * requested steps and the last 5 (fastai's "valley"); 0 = the loss never falls for long
     * enough. */
    double suggested;
    /* Rates in the same part of the curve, as in fastai. "steep": where `mean` falls the most from
     * a step to the next. "minimum": a tenth of the rate where `mean` is the least. 0 = the curve
     * is too short. */
    double steep, minimum;
} ff_lr_curve;

/* Takes the steps of a trainer made with options.sweep; the trainer cannot be used afterwards.
 * Release with ff_lr_curve_free, after a failure too. */
FF_MUST_USE ff_status ff_lr_find(ff_trainer *trainer, ff_lr_curve *curve, ff_error *error);
void ff_lr_curve_free(ff_lr_curve *curve);

/* Prints some 20 lines with a bar each, including the last step, and a line with the three
 * rates. */
void ff_lr_curve_print(FILE *out, const ff_lr_curve *curve);
/* Appends one object: event "lr-find". */
FF_MUST_USE ff_status ff_lr_curve_log(const ff_lr_curve *curve, ff_json_log *log, ff_error *error);
/* Draws the rates from left to right on a scale of powers of ten. The caller frees the canvas. */
FF_MUST_USE ff_status ff_lr_curve_draw(const ff_lr_curve *curve, ff_canvas *canvas,
                                       ff_error *error);

#endif
