/* Trains a few steps on given weights and batches, so that they can be compared with PyTorch's:
 *   train_steps IN OUT model=resnet50 channels=3 side=32 classes=10 batch=4 [stem=cifar] [steps=1]
 *     [compute=reference] [smoothing=0.1] [summed=1] [lr=0.1] [momentum=0.9] [decay=0] [nesterov=1]
 *     [airbench=1] [gradients=1] [optimizer=adamw] [beta1=0.9] [beta2=0.999] [eps=1e-8] [states=1]
 *     [freeze=NAMES] [weighted=1] [mixed=1] [parts=1] [loss=bce]
 * Prints a line "name trained rank d0 d1 ..." for each parameter, and for each step "loss L".
 * IN: all parameters in torch's order (f32; num_batches_tracked i64), then for each step its images
 * [batch][channels][side][side] f32, labels [batch] i64 and, if mixed=1, ff_loss.mix. OUT: the
 * logits of the first batch in evaluation, and after each step the logits while training, then all
 * parameters as in IN. airbench=1: Muon for filters with lr and momentum, Nesterov; SGD with
 * `decay` for the others at half the learning rate. gradients=1: a step computes the gradients,
 * which follow its logits (of trained parameters, in torch's order), and changes nothing else.
 * states=1: before the images of each step IN has all parameters, then each block of the
 * optimizer's state of trained ones, from which the step begins, and OUT has the same after its
 * logits; IN and OUT may be pipes. freeze: no gradients of these (ff_group.names), and norms among
 * them are held. weighted=1: class c has the weight 0.5 + c / 4. parts: micro-batches of a batch,
 * whose logits follow each other. Without IN and OUT ("-" "-"): prints the parameters only, each
 * line ending in "KIND SCALE" of its initial values, and "macs N"; a model with that `compute` is
 * made only if it is named. */
#include "format/base/memory.h"
#include "train/net/models/models.h"
#include "train/net/plan.h"
#include "train/recipes/loss_form.h"
#include "train/step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *argument(int argc, char **argv, const char *name, const char *otherwise) {
    const size_t length = strlen(name);
    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static double number(int argc, char **argv, const char *name, double otherwise) {
    const char *text = argument(argc, argv, name, NULL);
    return text ? atof(text) : otherwise;
}

static void stop(const char *what) {
    fprintf(stderr, "train_steps: %s\n", what);
    exit(1);
}

static void must(ff_status status, const ff_error *error) {
    if (status != FF_OK) stop(error->message);
}

static void read_exactly(void *to, size_t bytes, FILE *in) {
    if (fread(to, 1, bytes, in) != bytes) stop("IN is too short");
}

static void write_exactly(const void *from, size_t bytes, FILE *out) {
    if (fwrite(from, 1, bytes, out) != bytes) stop("OUT cannot be written");
}

/* All parameters, from or to a file. */
static void pass_parameters(ff_model *model, FILE *file, bool in) {
    ff_error error = {0};
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        const size_t bytes = p->count * (p->dtype == FF_I64 ? 8 : 4);
        char *values;
        must(ff_alloc(&values, bytes, 1, "a parameter", &error), &error);
        if (in) {
            read_exactly(values, bytes, file);
            ff_model_set(model, i, FF_PART_VALUE, values);
        } else {
            ff_model_get(model, i, FF_PART_VALUE, values);
            write_exactly(values, bytes, file);
        }
        free(values);
    }
}

/* The optimizer's state of trained parameters, block by block. */
static void pass_states(ff_model *model, FILE *file, bool in) {
    ff_error error = {0};
    for (int block = 0; block < ff_model_states(model); block++)
        for (int i = 0; i < ff_model_parameter_count(model); i++) {
            const ff_parameter *p = ff_model_parameter(model, i);
            const ff_parameter_part part = (ff_parameter_part)(FF_PART_MOMENTUM + block);
            float *values;
            if (!p->trained) continue;
            must(ff_alloc(&values, p->count, sizeof *values, "state", &error), &error);
            if (in) {
                read_exactly(values, p->count * sizeof *values, file);
                ff_model_set(model, i, part, values);
            } else {
                ff_model_get(model, i, part, values);
                write_exactly(values, p->count * sizeof *values, file);
            }
            free(values);
        }
}

static void print_parameters(const ff_model *model) {
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        printf("%s %d %d", p->name, p->trained, p->rank);
        for (int k = 0; k < p->rank; k++) printf(" %lld", (long long)p->shape[k]);
        putchar('\n');
    }
}

static void write_gradients(const ff_model *model, FILE *out) {
    ff_error error = {0};
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        float *values;
        if (!p->trained) continue;
        must(ff_alloc(&values, p->count, sizeof *values, "a gradient", &error), &error);
        ff_model_get(model, i, FF_PART_GRADIENT, values);
        write_exactly(values, p->count * sizeof *values, out);
        free(values);
    }
}

/* From the graph alone: large nets take seconds to draw. */
static void list_net(const ff_model_options *options) {
    static const char *const kinds[] = {"constant", "uniform", "normal", "unit", "dirac"};
    ff_error error = {0};
    ff_graph *graph;
    int k = 0;
    while (ff_net_at(k) && strcmp(ff_net_at(k)->name, options->name) != 0) k++;
    if (!ff_net_at(k)) stop("no such model");
    must(ff_graph_create(&graph, options->channels, options->height, options->width, &error),
         &error);
    ff_net_at(k)->build(graph, options);
    must(ff_graph_check(graph, &error), &error);
    for (int i = 0; i < graph->parameter_count; i++) {
        const ff_graph_parameter *p = &graph->parameters[i];
        printf("%s %d %d", p->name, p->trained, p->rank);
        for (int d = 0; d < p->rank; d++) printf(" %lld", (long long)p->shape[d]);
        printf(" %s %.9g\n", kinds[p->initial], p->scale);
    }
    printf("macs %.0f\n", ff_graph_macs(graph));
    ff_graph_destroy(&graph);
}

/* A training plan without the gradients of some parameters, whose norms are held. */
static ff_plan *freeze(ff_model *model, const char *names, int batch) {
    const ff_group groups[2] = {{.names = names}, {.names = "*"}};
    ff_error error = {0};
    ff_plan *plan;
    bool *frozen;
    must(ff_model_set_groups(model, groups, 2, &error), &error);
    must(ff_alloc(&frozen, (uint64_t)ff_model_parameter_count(model), 1, "groups", &error), &error);
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        frozen[i] = ff_model_group(model, i) == 0;
    must(ff_model_plan_with(model,
                            &(ff_plan_options){.batch = batch, .training = true, .without = frozen},
                            &plan, &error),
         &error);
    free(frozen);
    return plan;
}

/* A step of `parts` micro-batches, each of a plan's size; writes their logits. */
static void run_step(ff_step *step, ff_plan *plan, ff_batch batch, int parts, size_t pixels,
                     FILE *out) {
    ff_error error = {0};
    for (int part = 1; part <= parts; part++) {
        must(part < parts ? ff_step_add(step, plan, &batch, &error)
                          : ff_step_run(step, plan, &batch, &error),
             &error);
        const ff_tensor *logits = &plan->tensors[plan->graph->output];
        write_exactly(ff_plan_at(plan, plan->logits), (size_t)logits->n * logits->c * sizeof(float),
                      out);
        batch.images = (const float *)batch.images + pixels;
        batch.labels = (const int64_t *)batch.labels + plan->batch;
        if (batch.mix) batch.mix += plan->batch;
    }
}

int main(int argc, char **argv) {
    ff_error error = {0};
    if (argc < 4) stop("usage: train_steps IN OUT model=NAME ...");
    const int side = (int)number(argc, argv, "side", 32);
    const int samples = (int)number(argc, argv, "batch", 4);
    const int parts = (int)number(argc, argv, "parts", 1);
    const bool mixed = number(argc, argv, "mixed", 0) != 0;
    float class_weights[1000];
    for (int c = 0; c < 1000; c++) class_weights[c] = 0.5f + (float)c / 4;
    const char *stem = argument(argc, argv, "stem", "auto");
    const char *frozen = argument(argc, argv, "freeze", NULL);
    ff_loss_form loss;
    must(ff_loss_parse(&loss, argument(argc, argv, "loss", "cross-entropy"), &error), &error);
    const ff_model_options options = {
        .held_norms = frozen,
        .name = argument(argc, argv, "model", ""),
        .stem = strcmp(stem, "cifar") == 0      ? FF_STEM_CIFAR
                : strcmp(stem, "imagenet") == 0 ? FF_STEM_IMAGENET
                                                : FF_STEM_AUTO,
        .channels = (int)number(argc, argv, "channels", 3),
        .height = side,
        .width = side,
        .classes = (int)number(argc, argv, "classes", 10),
        .batch = samples / parts,
        .threads = 2,
        .loss = loss,
        .label_smoothing = number(argc, argv, "smoothing", 0),
        .class_weights = number(argc, argv, "weighted", 0) != 0 ? class_weights : NULL,
        .summed_loss = number(argc, argv, "summed", 0) != 0,
        .compute = argument(argc, argv, "compute", NULL),
    };
    const double rate = number(argc, argv, "lr", 0.1), momentum = number(argc, argv, "momentum", 0);
    const bool airbench = number(argc, argv, "airbench", 0) != 0;
    const ff_group groups[2] = {{.names = "*.conv?.weight", .rule = FF_RULE_MUON},
                                {.names = "*", .rule = FF_RULE_SGD}};
    const char *optimizer = argument(argc, argv, "optimizer", NULL);
    const ff_group all = {.names = "*",
                          .rule = optimizer ? ff_optimizer_named(optimizer, strlen(optimizer))
                                            : FF_RULE_SGD};
    const ff_hyper sgd = {.momentum = momentum,
                          .weight_decay = number(argc, argv, "decay", 0),
                          .nesterov = number(argc, argv, "nesterov", 0) != 0,
                          .beta1 = number(argc, argv, "beta1", 0.9),
                          .beta2 = number(argc, argv, "beta2", 0.999),
                          .epsilon = number(argc, argv, "eps", 1e-8)};
    const bool states = number(argc, argv, "states", 0) != 0;
    const ff_hyper sgds[2] = {sgd, sgd};
    const double rates[2] = {rate, rate / 2};
    const ff_step_options how = {.update.groups = sgds,
                                 .update.group_count =
                                     airbench || argument(argc, argv, "freeze", NULL) ? 2 : 1,
                                 .update.rates = rates,
                                 .update.rate_steps = 1,
                                 .update.part_samples = options.batch,
                                 .update.summed = options.summed_loss,
                                 .send_steps = 1};
    ff_model *model;
    if (strcmp(argv[1], "-") == 0 && !options.compute) {
        list_net(&options);
        return 0;
    }
    must(ff_model_create(&model, &options, &error), &error);
    if (airbench) must(ff_model_set_groups(model, groups, 2, &error), &error);
    if (optimizer) must(ff_model_set_groups(model, &all, 1, &error), &error);
    print_parameters(model);
    if (strcmp(argv[1], "-") == 0) {
        ff_model_destroy(&model);
        return 0;
    }
    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
    if (!in || !out) stop("cannot open IN or OUT");
    const size_t pixels = (size_t)options.batch * options.channels * side * side;
    const size_t logits_bytes = (size_t)options.batch * options.classes * sizeof(float);
    float *images, *mix;
    int64_t *labels;
    must(ff_alloc_aligned(&images, parts * pixels, sizeof(float), 64, "images", &error), &error);
    must(ff_alloc(&labels, (uint64_t)samples, sizeof(int64_t), "labels", &error), &error);
    must(ff_alloc(&mix, (uint64_t)samples, sizeof(float), "labels", &error), &error);
    if (parts > 1) must(ff_store_reserve_sums(ff_model_store(model), false, &error), &error);
    if (!states) pass_parameters(model, in, true);
    ff_plan *evaluation, *plan = ff_model_training_plan(model);
    if (frozen) plan = freeze(model, frozen, options.batch);
    ff_step *step;
    must(ff_model_plan(model, options.batch, false, &evaluation, &error), &error);
    must(ff_step_create(&step, model, &how, &error), &error);
    for (int i = 0; i < (int)number(argc, argv, "steps", 1); i++) {
        const ff_outcome *outcomes;
        ff_outcome ignored;
        uint32_t found;
        if (states) {
            pass_parameters(model, in, true);
            pass_states(model, in, true);
        }
        read_exactly(images, parts * pixels * sizeof(float), in);
        read_exactly(labels, (size_t)samples * sizeof(int64_t), in);
        if (mixed) read_exactly(mix, (size_t)samples * sizeof(float), in);
        const ff_batch batch = {
            .images = images, .labels = labels, .label_dtype = FF_I64, .mix = mixed ? mix : NULL};
        if (i == 0 && !states) {
            ff_plan_enqueue(evaluation, &batch, false, &ignored, 1, NULL);
            must(ff_model_check(model, &error), &error);
            write_exactly(ff_plan_at(evaluation, evaluation->logits), logits_bytes, out);
        }
        if (number(argc, argv, "gradients", 0) != 0) {
            must(ff_step_gradients(step, plan, &batch, &ignored, &error), &error);
            outcomes = &ignored;
            write_exactly(ff_plan_at(plan, plan->logits), logits_bytes, out);
            write_gradients(model, out);
        } else {
            run_step(step, plan, batch, parts, pixels, out);
            must(ff_step_outcomes(step, true, &outcomes, &found, &error), &error);
        }
        printf("loss %.9g\n", ff_outcome_loss(outcomes) / (double)outcomes->count);
        if (!states) continue;
        pass_parameters(model, out, false);
        pass_states(model, out, false);
        fflush(stdout);
        fflush(out);
    }
    if (!states) pass_parameters(model, out, false);
    if (fclose(out) != 0) stop("OUT cannot be written");
    fclose(in);
    free(images);
    free(labels);
    free(mix);
    ff_step_destroy(&step);
    ff_model_destroy(&model);
    return 0;
}
