#include "train/recipes/table.h"

#include <string.h>

/* smallnet: chosen on Fashion-MNIST for accuracy within a minute of two cores.
 *
 * USUAL: the usual recipe of CIFAR-10 (K. He et al., arXiv 1512.03385, section 4.2, with cosine
 * instead of steps, and label smoothing), with half its rate for vgg and mobilenet_v2, and a tenth
 * for vgg without norms, as in torchvision.
 *
 * cifar-speed: K. Jordan's airbench94_muon (cifar10-airbench, and arXiv 2404.00498), with the same
 * numbers. The batch is 2000, so 3 epochs of CIFAR-10 are 75 steps. The loss is a sum over the
 * batch; its gradients overflow f16 at scales of 3,300 to 7,200 in the first steps; 128 is far
 * below (tests/programs/gradient_range.c). The padding of "crop" without a number is chosen by the
 * size (trainer.c). */
#define USUAL(net, rate)                                                                           \
    {                                                                                              \
        .name = net, .model = net, .epochs = 30, .batch = 128, .learning_rate = rate,              \
        .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4, .label_smoothing = 0.1,           \
        .warmup_epochs = 2, .schedule = "cosine", .augment_small = "crop=4,flip",                  \
        .augment = "crop,flip"                                                                     \
    }

static const ff_recipe table[] = {
    {.name = "smallnet",
     .model = "smallnet",
     .epochs = 8,
     .batch = 128,
     .learning_rate = 0.4,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 2e-4,
     .label_smoothing = 0,
     .warmup_epochs = 1,
     .schedule = "cosine",
     .augment_small = "flip",
     .augment = "crop,flip"},
    USUAL("resnet18", 0.1),
    USUAL("resnet34", 0.1),
    USUAL("resnet50", 0.1),
    USUAL("resnet101", 0.1),
    USUAL("resnet152", 0.1),
    USUAL("vgg11", 0.01),
    USUAL("vgg11_bn", 0.05),
    USUAL("vgg13", 0.01),
    USUAL("vgg13_bn", 0.05),
    USUAL("vgg16", 0.01),
    USUAL("vgg16_bn", 0.05),
    USUAL("vgg19", 0.01),
    USUAL("vgg19_bn", 0.05),
    USUAL("mobilenet_v2", 0.05),
    {.name = "cifar-speed",
     .model = "cifarnet",
     .epochs = 8,
     .batch = 2000,
     .label_smoothing = 0.2,
     .schedule = "linear",
     .augment_small = "crop=2:reflect,flip=alternate",
     .augment = "crop,flip=alternate",
     .summed_loss = true,
     .views = 6,
     .loss_scale = 128,
     .evaluates_once = true,
     .groups = {{.names = "layers.*.conv?.weight",
                 .rule = FF_RULE_MUON,
                 .learning_rate = 0.24,
                 .momentum = 0.6,
                 .nesterov = true},
                {.names = "whiten.bias",
                 .learning_rate = 0.053,
                 .momentum = 0.85,
                 .nesterov = true,
                 .weight_decay = 2e-6 * 2000 / 0.053,
                 .epochs = 3},
                {.names = "layers.*.norm?.bias",
                 .learning_rate = 0.053,
                 .momentum = 0.85,
                 .nesterov = true,
                 .weight_decay = 2e-6 * 2000 / 0.053},
                {.names = "head.weight",
                 .learning_rate = 0.67,
                 .momentum = 0.85,
                 .nesterov = true,
                 .weight_decay = 2e-6 * 2000 / 0.67}}},
    {.model = NULL,
     .epochs = 30,
     .batch = 128,
     .learning_rate = 0.05,
     .momentum = 0.9,
     .nesterov = true,
     .weight_decay = 5e-4,
     .label_smoothing = 0.1,
     .warmup_epochs = 1,
     .schedule = "cosine",
     .augment_small = "crop=4,flip",
     .augment = "crop,flip"},
};

const ff_recipe *ff_recipe_of(const char *model) {
    const ff_recipe *row = table;
    while (row->model && strcmp(row->model, model) != 0) row++;
    return row;
}

const ff_recipe *ff_recipe_named(const char *recipe) {
    const ff_recipe *row = table;
    while (row->name && strcmp(row->name, recipe) != 0) row++;
    return row->name ? row : NULL;
}

const char *ff_recipe_name(int index) {
    const int count = (int)(sizeof table / sizeof *table);
    return index >= 0 && index < count ? table[index].name : NULL;
}
