/* How a file of weights names and shapes the tensors of a model: by torchvision's names, which are
 * ours, or timm's; and with what in front of them ("module." of DistributedDataParallel,
 * "_orig_mod." of torch.compile, "backbone.", "model.").
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

/* The naming by which the file has most of the model's tensors; where it has fewer than half of
 * them by any, ours. FF_BAD_DATA where it has them several times, with other prefixes. */
FF_MUST_USE ff_status ff_naming_find(ff_naming *naming, const ff_tensors *file,
                                     const ff_model *model, ff_error *error);
/* The file's name of a parameter in `text`, which is returned. */
const char *ff_naming_of(const ff_naming *naming, const char *parameter,
                         char text[2 * FF_NAMING_BYTES]);

/* Whether the parameter is of the model's head. */
bool ff_naming_is_head(const ff_model *model, const ff_parameter *parameter);
/* Whether the tensor has the parameter's shape; any_classes: but for the first side, of a head. In
 * timm VGG's linear layers are convolutions over all their inputs, with their elements in one
 * order.
 */
bool ff_naming_fits(const ff_parameter *parameter, const ff_safetensor *tensor, bool any_classes);

#endif
