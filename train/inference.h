/* A trained model and a packed set, ready to be evaluated or predicted: the model as its weights
 * file describes it, the set as training would evaluate it.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_INFERENCE_H
#define FF_TRAIN_INFERENCE_H

#include "train/checkpoint/weights.h"
#include "train/evaluate.h"
#include "train/machine.h"

typedef struct ff_inference_options {
    const char *weights; /* a checkpoint's folder or a safetensors file */
    const char *data;    /* a split's folder, or one with `val`, `valid` or `test` */
    /* NULL, negative or AUTO: as the file says; a file of PyTorch's says nothing, then `model` is
     * needed. */
    const char *model, *label;
    ff_stem stem;
    int64_t crop, resize, views;
    const char *precision; /* on a GPU; NULL: as in the training, f32 where the file does not say */
    bool any_normalization;
    bool average; /* the average of --ema in place of the parameters */
    ff_verify verify;
    bool
        predicts; /* labels are not needed; the classes are those of the file, where it says them */
    bool made;    /* the set was packed for this file: it is not compared with what it says */
    const char *device;
    int64_t batch, threads;
    bool quiet;
} ff_inference_options;

/* No weights, no data; everything else as the file says, batches of 128. */
ff_inference_options ff_inference_default_options(void);

typedef struct ff_inference {
    ff_dataset *set;
    size_t field; /* the label's, where `labelled` */
    bool labelled;
    ff_weights_net net;
    ff_metadata trained;   /* of the training set; channels 0: the file does not say */
    const ff_field *names; /* the field with the classes */
    ff_machine *machine;
    ff_model *model;
    ff_plan *plan;
    ff_tally *tally;
    ff_feed *feed;
    char *text; /* what was loaded */
    bool over;  /* the last batch was predicted */
} ff_inference;

/* What `weights` says of the set that it was trained on; the caller frees it. FF_USAGE where it
 * says nothing, as a file of PyTorch's. */
FF_MUST_USE ff_status ff_inference_trained(ff_metadata *trained, const char *weights,
                                           ff_error *error);

/* FF_USAGE, FF_BAD_DATA (also: the set was packed otherwise than the training set), FF_IO,
 * FF_NO_MEMORY. The options must outlive it. On failure *inference = NULL. */
FF_MUST_USE ff_status ff_inference_open(ff_inference **inference,
                                        const ff_inference_options *options, ff_error *error);
void ff_inference_close(ff_inference **inference); /* NULL is accepted */

/* The logits of the next batch's samples, in the order of the set's numbers: [count][classes] in
 * `values`, which has space for a batch of padded channels (ff_plan_batch). *count = 0 after the
 * last one. */
FF_MUST_USE ff_status ff_inference_next(ff_inference *inference, float *values, uint32_t *count,
                                        ff_error *error);

#endif
