/* How a file of weights names and shapes the tensors of a model: by torchvision's names, which are
 * also ours, or by timm's; and with a prefix ("module." of DistributedDataParallel, "_orig_mod." of
 * torch.compile, "backbone.", "model.").
 *
 * Thread rule: any number of threads. */
#ifndef FF_TRAIN_NAMING_H
#define FF_TRAIN_NAMING_H

#include "train/checkpoint/tensors.h"
#include "train/net/model.h"

enum { FF_NAMING_BYTES = 256 };

typedef struct ff_naming {
    char prefix[FF_NAMING_BYTES];
    bool timm;
} ff_naming;

/* Finds the naming under which the file has most of the model's tensors; if every naming finds
 * fewer than half of them, ours. FF_BAD_DATA if the file has the tensors several times, with
 * different prefixes. */
FF_MUST_USE ff_status ff_naming_find(ff_naming *naming, const ff_tensors *file,
                                     const ff_model *model, ff_error *error);
/* Writes the file's name of a parameter to `text` and returns `text`. */
const char *ff_naming_of(const ff_naming *naming, const char *parameter,
                         char text[2 * FF_NAMING_BYTES]);

/* Whether the parameter belongs to the model's head. */
bool ff_naming_is_head(const ff_model *model, const ff_parameter *parameter);
/* Whether the tensor has the parameter's shape. any_classes: a head's first side may differ. In
 * timm, VGG's linear layers are convolutions over all their inputs, with their elements in the same
 * order. */
bool ff_naming_fits(const ff_parameter *parameter, const ff_safetensor *tensor, bool any_classes);

#endif
