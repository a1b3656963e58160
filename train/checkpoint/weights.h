/* Weights for a model from a safetensors file (one that PyTorch wrote, or a checkpoint's
 * model.safetensors) or a file of torch.save (torch/torch.h). Tensors are matched by torchvision's
 * or timm's names (naming.h) and by shape. A model for another number of classes keeps the initial
 * values of its head, the linear layer of the logits; one that is to be trained, also where the
 * file has no head. num_batches_tracked may be absent. Everything else must be there.
 *
 * Files that we write record how the images were normalized (FF_WEIGHTS_MEAN, FF_WEIGHTS_STD);
 * where the data was normalized with other numbers they are refused.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_WEIGHTS_H
#define FF_TRAIN_WEIGHTS_H

#include "format/trained.h"
#include "train/checkpoint/tensors.h"
#include "train/net/model.h"

/* Keys of a file's metadata, beside FF_WEIGHTS_METADATA. Numbers of the channels with blanks
 * between, "0.485 0.456 0.406". */
#define FF_WEIGHTS_MODEL "ffpack.model"
#define FF_WEIGHTS_MEAN  "ffpack.mean"
#define FF_WEIGHTS_STD   "ffpack.std"
#define FF_WEIGHTS_NET   "ffpack.net" /* ff_weights_net */

/* How images enter the net, and its form: what evaluation needs besides the values. */
typedef struct ff_weights_net {
    char model[32];
    ff_stem stem;
    uint32_t channels, height, width, classes;
    uint32_t resize; /* short side before the central crop; 0 = not resized */
    uint32_t crop;   /* 0: samples enter whole, or resized */
    int views;
    ff_precision precision; /* of the training; f32 where the file does not say it */
    char label[256];        /* the field learned */
} ff_weights_net;
/* As JSON, which the caller frees; and back: false where the text is no such. */
FF_MUST_USE ff_status ff_weights_net_text(const ff_weights_net *net, char **text, ff_error *error);
bool ff_weights_net_parse(ff_weights_net *net, const char *text);
/* A model of this form, on the CPU in f32, with a plan for training of the smallest batch, which is
 * not used. `net` must outlive the options. */
ff_model_options ff_weights_net_model(const ff_weights_net *net);

typedef struct ff_weights ff_weights;

typedef struct ff_weights_options {
    const char *path;        /* a file, a checkpoint's folder, or a run's (ff_checkpoint_find) */
    bool average;            /* of a checkpoint: the average of --ema in place of the parameters */
    const ff_metadata *data; /* how the images are stored; NULL: any normalization */
    const ff_field *classes; /* to be learned: a head for others is left out; NULL: any */
    /* What the model was made from, so that a refusal names the option that would help; NULL: it
     * names none. */
    const ff_model_options *net;
} ff_weights_options;

/* Opens the file and matches it with the model, without loading values. FF_BAD_DATA or FF_USAGE
 * naming the first tensors that are missing or have other shapes; FF_IO, FF_NO_MEMORY. On failure
 * *weights = NULL. The model must outlive the weights. */
FF_MUST_USE ff_status ff_weights_open(ff_weights **weights, const ff_weights_options *options,
                                      ff_model *model, ff_error *error);
void ff_weights_close(ff_weights **weights); /* NULL is accepted */

/* What is loaded and what is not, in one or two sentences. Owned by the weights. */
const char *ff_weights_text(const ff_weights *weights);

/* A file, or the model.safetensors of a folder, without a comparison of checksums. */
FF_MUST_USE ff_status ff_weights_open_file(ff_tensors **file, const char *path, ff_error *error);

/* The form of a net that a file fits (weights_form.c). */
typedef struct ff_weights_form {
    ff_stem stem;     /* which it fits better, or that it says; AUTO: both, or neither */
    bool fits;        /* every tensor of the net is there, in its shape but for the classes */
    uint32_t classes; /* of its head; 0 = it has none */
} ff_weights_form;
/* `net` has a model's name, channels, size, and some number of classes; its stem is ignored.
 * FF_BAD_DATA where the file is broken, or has the net several times. */
FF_MUST_USE ff_status ff_weights_read_form(ff_weights_form *form, const char *path,
                                           const ff_model_options *net, ff_error *error);
FF_MUST_USE ff_status ff_weights_find_form(ff_weights_form *form, const ff_tensors *file,
                                           const ff_model_options *net, ff_error *error);
/* The option with which a file would fit that does not fit `net`, as a clause in `text`: "; --stem
 * imagenet fits them"; or "". Returns `text`. */
const char *ff_weights_advice(const ff_tensors *file, const ff_model_options *net, char *text,
                              size_t size);

/* A text of the metadata of a file, or of the model.safetensors of a folder; *text = NULL where it
 * has none. The caller frees it. */
FF_MUST_USE ff_status ff_weights_read_fact(const char *path, const char *key, char **text,
                                           ff_error *error);

/* Sets the model's values. */
FF_MUST_USE ff_status ff_weights_load(const ff_weights *weights, ff_error *error);

/* The texts of FF_WEIGHTS_MEAN and FF_WEIGHTS_STD for images of this data; the caller frees them.
 * Images that are not normalized have mean 0 and std 1. */
FF_MUST_USE ff_status ff_weights_normalization(const ff_metadata *data, char **mean, char **std,
                                               ff_error *error);

#endif
