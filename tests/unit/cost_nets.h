/* Nets whose steps are counted and measured, on the simulated GPU. */
#ifndef FF_TESTS_COST_NETS_H
#define FF_TESTS_COST_NETS_H

#include "tests/cuda/unit/cuda_helpers.h"

#include "train/cost/cost.h"
#include "train/step/update.h"

typedef struct net_form {
    const char *model;
    int channels, side;
    bool muon;
} net_form;

static const net_form forms[] = {
    {"smallnet", 1, 12, false}, {"cifarnet", 3, 32, true},      {"resnet18", 3, 16, false},
    {"resnet50", 3, 32, false}, {"mobilenet_v2", 3, 16, false},
};
enum { FORMS = 5, BATCH = 4, MOST_ROWS = 512 };

static const ff_group cost_groups[] = {{.names = "layers.*.conv?.weight", .rule = FF_RULE_MUON},
                                       {.names = "*", .rule = FF_RULE_SGD}};

/* Draws the trained parameters, as a run does. */
static inline void open_model(ff_model **model, const net_form *form, ff_precision precision,
                              const ff_model_device *device) {
    const ff_model_options options = {.name = form->model,
                                      .channels = form->channels,
                                      .height = form->side,
                                      .width = form->side,
                                      .classes = 4,
                                      .batch = BATCH,
                                      .threads = 1,
                                      .seed = 5,
                                      .dropout = -1,
                                      .label_smoothing = 0.1,
                                      .device = device,
                                      .precision = precision};
    assert_ok(ff_model_create(model, &options, error));
    if (form->muon) assert_ok(ff_model_set_groups(*model, cost_groups, 2, error));
}

static const ff_hyper sgds[] = {{.momentum = 0.6, .nesterov = true},
                                {.momentum = 0.9, .weight_decay = 1e-3, .nesterov = true}};
static const double rates[] = {0.02, 0.01};
static inline ff_update_options update_options(bool muon) {
    return (ff_update_options){.groups = muon ? sgds : sgds + 1,
                               .group_count = muon ? 2 : 1,
                               .rates = rates,
                               .rate_steps = 1};
}

#endif
