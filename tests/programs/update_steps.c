/* Updates from given gradients, and learning rates, for comparison with PyTorch's:
 *   update_steps rates SCHEDULE PEAK WARMUP_STEPS EPOCH_STEPS STEPS     prints a rate a line
 *   update_steps OPTIMIZER STEPS GRADIENTS [lr=X] [momentum=X] ... [nesterov=1] [clip=X] <IN >OUT
 * The net is smallnet. IN: all trained parameters in torch's order, then GRADIENTS times their
 * gradients, all f32. Step s has the gradients s % GRADIENTS times 1 + s / 64 and the learning rate
 * lr * (1 - s / 200). OUT: the parameters, then each block of state. Weight decay leaves out what
 * the optimizer's default says. */
#include "format/base/memory.h"
#include "train/net/model.h"
#include "train/recipes/schedule.h"
#include "train/step/update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(ff_status status, const ff_error *error) {
    if (status == FF_OK) return;
    fprintf(stderr, "update_steps: %s\n", error->message);
    exit(1);
}

static int print_rates(char **argv) {
    ff_error error = {0};
    ff_schedule schedule = {0};
    must(ff_schedule_parse(&schedule, argv[2], &error), &error);
    schedule.peak = atof(argv[3]);
    schedule.warmup_steps = (uint64_t)atoi(argv[4]);
    schedule.epoch_steps = atof(argv[5]);
    schedule.total_steps = (uint64_t)atoi(argv[6]);
    for (uint64_t step = 0; step < schedule.total_steps; step++)
        printf("%.17g\n", ff_schedule_rate(&schedule, step));
    return 0;
}

/* All trained parameters' `part`, from or to an array in torch's order. */
static void pass(ff_model *model, ff_parameter_part part, float *values, bool in) {
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        if (!p->trained) continue;
        if (in)
            ff_model_set(model, i, part, values);
        else
            ff_model_get(model, i, part, values);
        values += p->count;
    }
}

static void read_options(int argc, char **argv, ff_hyper *hyper, double *clip) {
    for (int i = 4; i < argc; i++) {
        const size_t length = strcspn(argv[i], "=");
        const double value = atof(argv[i] + length + 1);
        if (strncmp(argv[i], "nesterov", length) == 0) hyper->nesterov = value != 0;
        if (strncmp(argv[i], "clip", length) == 0) *clip = value;
        for (int k = 0; ff_hyper_name(k); k++)
            if (strlen(ff_hyper_name(k)) == length &&
                strncmp(argv[i], ff_hyper_name(k), length) == 0)
                *ff_hyper_at(hyper, k) = value;
    }
}

int main(int argc, char **argv) {
    ff_error error = {0};
    if (argc == 7 && strcmp(argv[1], "rates") == 0) return print_rates(argv);
    if (argc < 4) return 2;
    const ff_rule rule = ff_optimizer_named(argv[1], strlen(argv[1]));
    const int steps = atoi(argv[2]), gradients = atoi(argv[3]);
    const ff_optimizer *optimizer = ff_optimizer_at(rule);
    const char *no_decay = optimizer->no_decay ? optimizer->no_decay : "norm";
    const ff_group groups[] = {{.names = no_decay, .rule = rule}, {.names = "*", .rule = rule}};
    ff_hyper hypers[2] = {optimizer->defaults, optimizer->defaults};
    ff_update_options options = {.groups = hypers, .group_count = 2, .rate_steps = (uint64_t)steps};
    read_options(argc, argv, &hypers[1], &options.clip_norm);
    hypers[0] = hypers[1];
    if (optimizer->no_decay) hypers[0].weight_decay = 0;
    double *rates;
    must(ff_alloc(&rates, 2 * (uint64_t)steps, sizeof *rates, "rates", &error), &error);
    for (int i = 0; i < 2 * steps; i++)
        rates[i] = hypers[1].learning_rate * (1 - (i % steps) / 200.0);
    options.rates = rates;
    const ff_model_options how = {.name = "smallnet",
                                  .channels = 1,
                                  .height = 8,
                                  .width = 8,
                                  .classes = 10,
                                  .batch = 2,
                                  .threads = 2,
                                  .dropout = -1};
    ff_model *model;
    ff_update *update;
    ff_outcome outcome[1];
    must(ff_model_create(&model, &how, &error), &error);
    must(ff_model_set_groups(model, groups, 2, &error), &error);
    must(ff_update_create(&update, ff_model_store(model), &options, &error), &error);
    size_t count = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        if (ff_model_parameter(model, i)->trained) count += ff_model_parameter(model, i)->count;
    float *given, *values;
    const size_t arrays = 1 + (size_t)gradients;
    must(ff_alloc(&given, arrays * count, sizeof *given, "IN", &error), &error);
    must(ff_alloc(&values, count, sizeof *values, "values", &error), &error);
    if (fread(given, count * sizeof *given, arrays, stdin) != arrays) return 1;
    pass(model, FF_PART_VALUE, given, true);
    for (int step = 0; step < steps; step++) {
        const float *from = given + count * (1 + (size_t)(step % gradients));
        for (size_t i = 0; i < count; i++) values[i] = from[i] * (1 + (float)step / 64);
        pass(model, FF_PART_GRADIENT, values, true);
        ff_update_enqueue(update, outcome, 1);
    }
    must(ff_model_check(model, &error), &error);
    for (int part = -1; part < ff_model_states(model); part++) {
        pass(model, part < 0 ? FF_PART_VALUE : (ff_parameter_part)(FF_PART_MOMENTUM + part), values,
             false);
        if (fwrite(values, sizeof *values, count, stdout) != count) return 1;
    }
    ff_update_destroy(&update);
    ff_model_destroy(&model);
    free(given);
    free(values);
    free(rates);
    return 0;
}
