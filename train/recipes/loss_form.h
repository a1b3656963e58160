/* The words of --loss: a row of the table in loss_form.c for each. Pure. */
#ifndef FF_TRAIN_LOSS_FORM_H
#define FF_TRAIN_LOSS_FORM_H

#include "format/base/status.h"
#include "train/compute/arguments.h"

enum { FF_LOSS_TEXT_BYTES = 48 };

/* Reads "NAME" or, of binary cross entropy, "NAME=THRESHOLD". FF_USAGE. */
FF_MUST_USE ff_status ff_loss_parse(ff_loss_form *form, const char *text, ff_error *error);
/* Writes the words that ff_loss_parse reads to `text` and returns it. */
const char *ff_loss_text(const ff_loss_form *form, char text[FF_LOSS_TEXT_BYTES]);

#endif
