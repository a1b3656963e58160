/* Loads weights into a model from a safetensors file (one that PyTorch wrote, or a checkpoint's
 * model.safetensors) or a file of torch.save (torch/torch.h). Tensors are matched by torchvision's
 * or timm's names (naming.h) and by shape. If the model has another number of classes than the
 * file, its head, the linear layer of the logits, keeps its initial values. If the model is to be
 * trained, the file may also lack the head. num_batches_tracked may be absent. Everything else must
 * be in the file.
 *
 * Files that we write record how the images were normalized (FF_WEIGHTS_MEAN, FF_WEIGHTS_STD). They
 * are refused for data that was normalized with other numbers.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_WEIGHTS_H
#define FF_TRAIN_WEIGHTS_H

#include "format/weights/trained.h"
#include "train/checkpoint/tensors.h"
#include "train/net/model.h"

/* Keys of a file's metadata, in addition to FF_WEIGHTS_METADATA. Numbers per channel are separated
 * by blanks, "0.485 0.456 0.406". */
#define FF_WEIGHTS_MODEL "ffpack.model"
#define FF_WEIGHTS_MEAN  "ffpack.mean"
#define FF_WEIGHTS_STD   "ffpack.std"
#define FF_WEIGHTS_NET   "ffpack.net" /* ff_weights_net */

/* How images enter the net, and the net's form: what evaluation needs in addition to the values. */
typedef struct ff_weights_net {
    char model[32];
    ff_stem stem;
    uint32_t channels, height, width, classes;
    uint32_t resize; /* short side before the central crop; 0 = not resized */
    uint32_t crop;   /* 0: not cropped */
    int views;
    ff_precision precision; /* of the training; f32 if the file lacks it */
    char label[256];        /* the field that was learned */
} ff_weights_net;
/* Write and parse JSON. The caller frees the text; parsing returns false for any other text. */
FF_MUST_USE ff_status ff_weights_net_text(const ff_weights_net *net, char **text, ff_error *error);
bool ff_weights_net_parse(ff_weights_net *net, const char *text);
/* Options for a model of this form, on the CPU in f32, with the smallest plan for training, which
 * is not used. `net` must outlive the options. */
ff_model_options ff_weights_net_model(const ff_weights_net *net);

typedef struct ff_weights ff_weights;

typedef struct ff_weights_options {
    const char *path;        /* a file, a checkpoint's folder, or a run's (ff_checkpoint_find) */
    bool average;            /* load the average of --ema instead of the parameters */
    const ff_metadata *data; /* how the images are stored; NULL: any normalization */
    const ff_field *classes; /* to be learned: a head for others is left out; NULL: any */
    /* The options from which the model was made, so that a refusal can name the option that would
     * help; NULL: it names no option. */
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

/* Whether the head is loaded too, so that the model's answers mean something without training. */
bool ff_weights_has_head(const ff_weights *weights);

/* Opens a file, or the model.safetensors of a folder, without comparing checksums. */
FF_MUST_USE ff_status ff_weights_open_file(ff_tensors **file, const char *path, ff_error *error);

/* The form of a net that a file fits (weights_form.c). */
typedef struct ff_weights_form {
    ff_stem stem;     /* recorded, or the better fit; AUTO: both fit, or neither */
    bool fits;        /* every tensor of the net is there, with its shape except for the classes */
    uint32_t classes; /* of the file's head; 0 = it has no head */
} ff_weights_form;
/* `net` holds a model's name, channels, size, and some number of classes; its stem is ignored.
 * FF_BAD_DATA if the file is broken, or has the net several times. */
FF_MUST_USE ff_status ff_weights_read_form(ff_weights_form *form, const char *path,
                                           const ff_model_options *net, ff_error *error);
FF_MUST_USE ff_status ff_weights_find_form(ff_weights_form *form, const ff_tensors *file,
                                           const ff_model_options *net, ff_error *error);
/* The option with which a file that does not fit `net` would fit, as a clause in `text`: "; --stem
 * imagenet fits them"; or "". Returns `text`. */
const char *ff_weights_advice(const ff_tensors *file, const ff_model_options *net, char *text,
                              size_t size);

/* Reads a metadata text of a file, or of the model.safetensors of a folder; *text = NULL if the key
 * is missing. The caller frees it. */
FF_MUST_USE ff_status ff_weights_read_fact(const char *path, const char *key, char **text,
                                           ff_error *error);

/* Sets the model's values. */
FF_MUST_USE ff_status ff_weights_load(const ff_weights *weights, ff_error *error);

/* The texts of FF_WEIGHTS_MEAN and FF_WEIGHTS_STD for images of this data; the caller frees them.
 * Images that are not normalized have mean 0 and std 1. */
FF_MUST_USE ff_status ff_weights_normalization(const ff_metadata *data, char **mean, char **std,
                                               ff_error *error);

#endif
