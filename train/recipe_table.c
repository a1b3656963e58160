#include "train/recipe_table.h"

#include <string.h>

/* smallnet: chosen on Fashion-MNIST for accuracy within a minute of two cores.
 * resnet18, resnet50, vgg16_bn: the usual recipe of CIFAR-10 (K. He et al., arXiv 1512.03385,
 * section 4.2, with cosine instead of steps, and label smoothing), for vgg16_bn at half its rate.
 * Random crops of large images need a --crop smaller than they are; without one "crop" does
 * nothing. */
static const ff_recipe_defaults table[] = {
    {.model = "smallnet",
     .epochs = 8,
     .batch = 128,
     .learning_rate = 0.4,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 2e-4,
     .label_smoothing = 0,
     .warmup_epochs = 1,
     .augment_small = "flip",
     .augment = "crop,flip"},
    {.model = "resnet18",
     .epochs = 30,
     .batch = 128,
     .learning_rate = 0.1,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 5e-4,
     .label_smoothing = 0.1,
     .warmup_epochs = 2,
     .augment_small = "crop=4,flip",
     .augment = "crop,flip"},
    {.model = "resnet50",
     .epochs = 30,
     .batch = 128,
     .learning_rate = 0.1,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 5e-4,
     .label_smoothing = 0.1,
     .warmup_epochs = 2,
     .augment_small = "crop=4,flip",
     .augment = "crop,flip"},
    {.model = "vgg16_bn",
     .epochs = 30,
     .batch = 128,
     .learning_rate = 0.05,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 5e-4,
     .label_smoothing = 0.1,
     .warmup_epochs = 2,
     .augment_small = "crop=4,flip",
     .augment = "crop,flip"},
    {.model = NULL,
     .epochs = 30,
     .batch = 128,
     .learning_rate = 0.05,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 5e-4,
     .label_smoothing = 0.1,
     .warmup_epochs = 1,
     .augment_small = "crop=4,flip",
     .augment = "crop,flip"},
};

const ff_recipe_defaults *ff_recipe_defaults_of(const char *model) {
    const ff_recipe_defaults *row = table;
    while (row->model && strcmp(row->model, model) != 0) row++;
    return row;
}
