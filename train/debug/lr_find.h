/* The search for a learning rate (L. Smith 2015, arXiv 1506.01186, section 3.3): some hundred steps
 * whose rate rises from small to large by the same factor each; the rule is fastai's lr_find. */
#ifndef FF_TRAIN_DEBUG_LR_FIND_H
#define FF_TRAIN_DEBUG_LR_FIND_H

#include "loader/draw/canvas.h"
#include "train/report/json_log.h"
#include "train/trainer/trainer.h"

#include <stdio.h>

typedef struct ff_lr_curve {
    size_t count;               /* steps taken: fewer than asked where the loss rose to 4 times its
                                   least, or was no number */
    double *rate, *loss, *mean; /* [count]; mean: of the losses so far, weights falling by 0.98 */
    /* Of the longest fall of `mean` without the first tenth of the asked steps and the last 5, half
     * of the way through (fastai's "valley"); 0 = the loss never falls for long enough. */
    double suggested;
    /* Of the same part of the curve, the rates that fastai calls "steep", where `mean` falls the
     * most from a step to the next, and "minimum", a tenth of the rate where `mean` is the least;
     * 0 = the curve is too short. */
    double steep, minimum;
} ff_lr_curve;

/* Takes the steps of a trainer made with options.sweep; it cannot be used afterwards. Release with
 * ff_lr_curve_free in any case. */
FF_MUST_USE ff_status ff_lr_find(ff_trainer *trainer, ff_lr_curve *curve, ff_error *error);
void ff_lr_curve_free(ff_lr_curve *curve);

/* Some 20 lines with a bar each, the last step among them, and a line of the three rates. */
void ff_lr_curve_print(FILE *out, const ff_lr_curve *curve);
/* Appends one object: event "lr-find". */
FF_MUST_USE ff_status ff_lr_curve_log(const ff_lr_curve *curve, ff_json_log *log, ff_error *error);
/* Rates from left to right on a scale of powers of ten. The caller frees the canvas. */
FF_MUST_USE ff_status ff_lr_curve_draw(const ff_lr_curve *curve, ff_canvas *canvas,
                                       ff_error *error);

#endif
