/* What evaluate and predict have in common: their options, the run, and images in place of a packed
 * set.
 *
 * Thread rule: one thread. */
#ifndef FF_TRAIN_COMMANDS_INFERENCE_GIVEN_H
#define FF_TRAIN_COMMANDS_INFERENCE_GIVEN_H

#include "format/base/options.h"
#include "train/commands/images.h"
#include "train/evaluate/inference.h"

/* The options of both commands. */
typedef struct ff_inference_given {
    ff_inference_options inference;
    const char **arguments;
    const char **images; /* of these: files and folders, which are no packed set; of evaluate one */
    int image_count;
    const char *run;        /* or checkpoint, or file of weights */
    char *checkpoint, *val; /* of a run; NULL = not given, not needed */
    char content[33];       /* content id of the set that the run evaluated on */
    int stem, views, verify;
    int64_t top;
    const char *output; /* NULL = the standard output */
    int on_error;       /* 1 = skip */
    bool json;
    ff_options_result result; /* of the command line: DONE = --help was printed */
} ff_inference_given;

/* Reads the command line of evaluate, or of predict. The caller frees it, after a failure too. */
FF_MUST_USE ff_status ff_inference_given_read(ff_inference_given *given, bool predicts, int argc,
                                              char **argv, ff_error *error);
void ff_inference_given_free(ff_inference_given *given);

/* Packs the images, of evaluate with labels, and makes them the set. *classes: of the model. The
 * caller frees the images, which are empty, after a failure too. FF_USAGE where the weights do not
 * say how theirs were packed; the errors of ff_images_pack. */
FF_MUST_USE ff_status ff_inference_given_pack(ff_inference_given *given, ff_images *images,
                                              int64_t *classes, ff_error *error);
/* Says at the end what of the images had no part; FF_BAD_DATA where some could not be read, unless
 * --on-error skip. */
FF_MUST_USE ff_status ff_inference_given_end(const ff_inference_given *given,
                                             const ff_images *images, ff_error *error);

#endif
