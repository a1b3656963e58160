/* A trained model and a packed set, ready to be evaluated or predicted: the model as its weights
 * file describes it, the set as training would evaluate it.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_INFERENCE_H
#define FF_TRAIN_INFERENCE_H

#include "train/checkpoint/weights.h"
#include "train/evaluate/evaluate.h"
#include "train/machine/machine.h"

typedef struct ff_inference_options {
    const char *weights; /* a checkpoint's folder or a safetensors file */
    const char *data;    /* a split's folder, or one with `val`, `valid` or `test` */
    /* NULL, negative or AUTO: as the file records. PyTorch's files record nothing of this: `model`
     * is needed. */
    const char *model, *label;
    ff_stem stem;
    int64_t crop, resize, views;
    /* NULL: as trained; f32 if the file does not record it, or the CPU does not have it */
    const char *precision;
    bool any_normalization;
    bool average; /* the average of --ema instead of the parameters */
    ff_verify verify;
    bool
        predicts; /* labels are not needed; the classes are those of the file if it lists classes */
    bool made; /* the set was packed for this file, with its numbers of classes as labels: it is not
                  compared with what the file records */
    const char *device;
    double tune_seconds; /* as in machine.h; 0: engines are neither timed nor compiled */
    int64_t batch, threads;
    bool quiet;
} ff_inference_options;

/* No weights, no data; everything else as the file records, batches of 128. */
ff_inference_options ff_inference_default_options(void);

/* The facts that a file of weights records about its net and its training set. */
typedef struct ff_learned {
    ff_weights_net net;
    ff_metadata trained; /* channels 0: not recorded, as in PyTorch's files */
    const ff_field
        *names; /* the field of `trained` with the classes; NULL: the file lacks classes */
} ff_learned;

/* FF_USAGE, FF_BAD_DATA, FF_IO, FF_NO_MEMORY. The caller frees *learned, after a failure too. */
FF_MUST_USE ff_status ff_learned_read(ff_learned *learned, const char *weights, ff_error *error);
void ff_learned_free(ff_learned *learned);

typedef struct ff_inference {
    ff_dataset *set;
    size_t field; /* of the label, if `labelled` */
    bool labelled;
    ff_learned learned;
    ff_weights_net net;    /* completed from the options and the set */
    const ff_field *names; /* the field with the classes: the file's, or else the set's */
    /* If the set's classes are others, or in another order: the model's number of each class; -1 =
     * the model lacks the class and its samples are left out. NULL: the same classes. */
    int32_t *class_numbers;
    uint64_t unknown; /* samples left out for this reason */
    ff_machine *machine;
    ff_model *model;
    ff_plan *plan;
    ff_tally *tally;
    ff_feed *feed;
    char *text; /* what was loaded */
    bool over;  /* the last batch was predicted */
} ff_inference;

/* FF_USAGE, FF_BAD_DATA (also if the set was packed differently from the training set), FF_IO,
 * FF_NO_MEMORY. The options must outlive it. On failure *inference = NULL. */
FF_MUST_USE ff_status ff_inference_open(ff_inference **inference,
                                        const ff_inference_options *options, ff_error *error);
void ff_inference_close(ff_inference **inference); /* NULL is accepted */

/* The logits of the next batch's samples, in the order of the set's numbers: [count][classes] in
 * `values`, which has space for a batch of padded channels (ff_plan_batch). *count = 0 after the
 * last batch. */
FF_MUST_USE ff_status ff_inference_next(ff_inference *inference, float *values, uint32_t *count,
                                        ff_error *error);

#endif
