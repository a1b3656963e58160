/* The shared part of evaluate and predict: their options, the run, and images instead of a packed
 * set.
 *
 * Thread rule: one thread. */
#ifndef FF_TRAIN_COMMANDS_INFERENCE_GIVEN_H
#define FF_TRAIN_COMMANDS_INFERENCE_GIVEN_H

#include "format/cli/options.h"
#include "format/storage/storage.h"
#include "train/commands/images.h"
#include "train/evaluate/inference.h"

/* The options of both commands. */
typedef struct ff_inference_given {
    ff_inference_options inference;
    ff_positionals words; /* of the command line */
    const char **images;  /* names of these: files and folders other than packed sets; for evaluate
                             exactly one */
    int image_count;
    const char *run;                   /* or checkpoint, or file of weights */
    char *checkpoint, *val, *endpoint; /* the run's; NULL = absent, and not needed */
    char content[33];                  /* content id of the set that the run evaluated on */
    int stem, views, verify;
    int64_t top;
    const char *output; /* NULL = the standard output */
    int on_error;       /* 1 = skip */
    bool json;
    ff_storage_options storage;
} ff_inference_given;

/* Reads the command line of evaluate, or of predict. The caller frees it, after a failure too. */
FF_MUST_USE ff_status ff_inference_given_read(ff_inference_given *given, bool predicts, int argc,
                                              char **argv, ff_error *error);
void ff_inference_given_free(ff_inference_given *given);

/* Packs the images (for evaluate with labels) and makes them the set. *classes: the model's. The
 * caller frees the images, which are empty, after a failure too. FF_USAGE if the weights do not
 * record how their training set was packed; the errors of ff_images_pack. */
FF_MUST_USE ff_status ff_inference_given_pack(ff_inference_given *given, ff_images *images,
                                              int64_t *classes, ff_error *error);
/* Reports at the end which images were left out; FF_BAD_DATA if some could not be read, unless
 * --on-error skip. */
FF_MUST_USE ff_status ff_inference_given_end(const ff_inference_given *given,
                                             const ff_images *images, ff_error *error);

#endif
