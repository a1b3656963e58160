#include "train/store.h"

#include "format/base/memory.h"
#include "loader/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Floats that the parameter takes in its block. */
static size_t held_count(const ff_store *store, int parameter) {
    const ff_graph_parameter *p = &store->graph->parameters[parameter];
    const ff_layer *layer = &store->graph->layers[p->layer];
    const bool weight = parameter == layer->parameter;
    if (layer->kind == FF_LAYER_CONV && weight) return store->convs[p->layer]->weight_count;
    if (layer->kind == FF_LAYER_LINEAR && weight)
        return ff_tensor_sample(&store->tensors[layer->from]) * (size_t)layer->c;
    return (size_t)ff_tensor_padded_channels(&store->tensors[p->layer]);
}

ff_status ff_store_create(ff_store *store, const ff_graph *graph, ff_conv *const *convs,
                          const ff_tensor *tensors, ff_error *error) {
    ff_status status;
    const size_t parameters = (size_t)graph->parameter_count;
    *store = (ff_store){.graph = graph, .convs = convs, .tensors = tensors};
    FF_TRY_DONE(ff_alloc(&store->offsets, parameters, sizeof(size_t), "parameters", error));
    FF_TRY_DONE(ff_alloc(&store->tracked, parameters, sizeof(int64_t), "parameters", error));
    for (int i = 0; i < graph->parameter_count; i++) {
        const ff_graph_parameter *p = &graph->parameters[i];
        if (p->dtype != FF_F32) continue;
        size_t *total = p->trained ? &store->trained_count : &store->buffer_count;
        store->offsets[i] = *total;
        *total += ff_align_u64(held_count(store, i), 64 / sizeof(float));
    }
    struct {
        float **block;
        size_t count;
        const char *what;
    } blocks[] = {
        {&store->values, store->trained_count, "the parameters"},
        {&store->gradients, store->trained_count, "the parameters' gradients"},
        {&store->momentum, store->trained_count, "the optimizer's state"},
        {&store->buffers, store->buffer_count, "the running statistics"},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        FF_TRY_DONE(ff_alloc_aligned(blocks[i].block, blocks[i].count, sizeof(float), 4096,
                                     blocks[i].what, error));
        memset(*blocks[i].block, 0, blocks[i].count * sizeof(float));
    }
    return FF_OK;
done:
    ff_store_destroy(store);
    return status;
}

void ff_store_destroy(ff_store *store) {
    free(store->values);
    free(store->gradients);
    free(store->momentum);
    free(store->buffers);
    free(store->tracked);
    free(store->offsets);
    *store = (ff_store){0};
}

float *ff_store_block(const ff_store *store, int parameter) {
    return store->graph->parameters[parameter].trained ? store->values : store->buffers;
}

static size_t logical_count(const ff_graph_parameter *p) {
    size_t count = 1;
    for (int i = 0; i < p->rank; i++) count *= (size_t)p->shape[i];
    return count;
}

/* Linear weights between torch's inputs [c][h][w] and the order of the activations. */
static void permute(const ff_tensor *input, size_t outputs, float *held, float *torch_order,
                    bool import) {
    ff_tensor one = *input;
    one.n = 1;
    const size_t sample = ff_tensor_sample(&one);
    if (import) memset(held, 0, sample * outputs * sizeof *held);
    for (size_t o = 0; o < outputs; o++)
        for (int c = 0; c < one.c; c++)
            for (int h = 0; h < one.h; h++)
                for (int w = 0; w < one.w; w++, torch_order++) {
                    float *at = held + o * sample + ff_tensor_at(&one, 0, c, h, w);
                    if (import)
                        *at = *torch_order;
                    else
                        *torch_order = *at;
                }
}

void ff_store_export(const ff_store *store, const ff_compute *compute, int parameter,
                     const float *block, float *to) {
    const ff_graph_parameter *p = &store->graph->parameters[parameter];
    const ff_layer *layer = &store->graph->layers[p->layer];
    const float *from = block + store->offsets[parameter];
    if (p->rank == 4)
        compute->ops->conv_export(store->convs[p->layer], from, to);
    else if (p->rank == 2)
        permute(&store->tensors[layer->from], (size_t)layer->c, (float *)from, to, false);
    else
        memcpy(to, from, logical_count(p) * sizeof *to);
}

void ff_store_import(const ff_store *store, const ff_compute *compute, int parameter, float *block,
                     const float *from) {
    const ff_graph_parameter *p = &store->graph->parameters[parameter];
    const ff_layer *layer = &store->graph->layers[p->layer];
    float *to = block + store->offsets[parameter];
    if (p->rank == 4)
        compute->ops->conv_import(store->convs[p->layer], from, to);
    else if (p->rank == 2)
        permute(&store->tensors[layer->from], (size_t)layer->c, to, (float *)from, true);
    else
        memcpy(to, from, logical_count(p) * sizeof *to);
}

/* Box and Muller 1958. Words become doubles in (0, 1]. */
static double normal(const ff_random *random) {
    const double pi = 3.14159265358979323846;
    double u = ((double)random->word[0] + 1.0) * 0x1p-32;
    double v = (double)random->word[1] * 0x1p-32;
    return sqrt(-2.0 * log(u)) * cos(2.0 * pi * v);
}

/* Divides by the deviation (torch's std: of a sample, count - 1). */
static void make_unit(float *values, size_t count) {
    double sum = 0, squares = 0;
    for (size_t e = 0; e < count; e++) sum += (double)values[e];
    const double mean = sum / (double)count;
    for (size_t e = 0; e < count; e++)
        squares += ((double)values[e] - mean) * ((double)values[e] - mean);
    const double deviation = sqrt(squares / (double)(count > 1 ? count - 1 : 1));
    for (size_t e = 0; deviation > 0 && e < count; e++)
        values[e] = (float)((double)values[e] / deviation);
}

/* Filters [o][i][h][w]: of the first as many as there are inputs, each passes its own one on. */
static void make_dirac(const ff_graph_parameter *p, float *filters) {
    const int64_t taps = p->shape[2] * p->shape[3];
    const int64_t middle = p->shape[2] / 2 * p->shape[3] + p->shape[3] / 2;
    for (int64_t o = 0; o < p->shape[0] && o < p->shape[1]; o++) {
        float *filter = filters + o * p->shape[1] * taps;
        memset(filter, 0, (size_t)(p->shape[1] * taps) * sizeof *filter);
        filter[o * taps + middle] = 1;
    }
}

ff_status ff_store_initialise(ff_store *store, const ff_compute *compute, uint64_t seed,
                              ff_error *error) {
    for (int i = 0; i < store->graph->parameter_count; i++) {
        const ff_graph_parameter *p = &store->graph->parameters[i];
        if (p->dtype != FF_F32) continue;
        const size_t count = logical_count(p);
        float *drawn;
        FF_TRY(ff_alloc(&drawn, count, sizeof *drawn, "initial values", error));
        for (size_t e = 0; e < count; e++) {
            double value = p->scale;
            if (p->initial != FF_INITIAL_CONSTANT) {
                ff_random random = ff_philox_draw(seed, FF_DOMAIN_INIT, (uint32_t)i, e, 0);
                value *= p->initial == FF_INITIAL_NORMAL
                             ? normal(&random)
                             : 2.0 * (double)random.word[0] * 0x1p-32 - 1.0;
            }
            drawn[e] = (float)value;
        }
        if (p->initial == FF_INITIAL_UNIT) make_unit(drawn, count);
        if (p->initial == FF_INITIAL_DIRAC) make_dirac(p, drawn);
        ff_store_import(store, compute, i, ff_store_block(store, i), drawn);
        free(drawn);
    }
    return FF_OK;
}
