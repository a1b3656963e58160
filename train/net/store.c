#include "train/net/store.h"

#include "format/base/memory.h"
#include "format/disk/dtype.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Elements of the parameter in its block. */
static size_t held_count(const ff_store *store, int parameter) {
    const ff_graph_parameter *p = &store->graph->parameters[parameter];
    const ff_layer *layer = &store->graph->layers[p->layer];
    const bool weight = parameter == layer->parameter;
    if (layer->kind == FF_LAYER_CONV && weight) return store->convs[p->layer]->weight_count;
    if (layer->kind == FF_LAYER_LINEAR && weight)
        return ff_tensor_sample(&store->tensors[layer->from]) *
               (size_t)ff_tensor_padded_channels(&store->tensors[p->layer]);
    return (size_t)ff_tensor_padded_channels(&store->tensors[p->layer]);
}

/* Weights: the factors of convolutions and linear layers. */
static bool is_weight(const ff_graph_parameter *p) {
    return p->rank >= 2;
}

/* Sets the offset of every parameter of the kind in its block, beginning with the last layer. */
static void place(ff_store *store, bool weights) {
    const ff_graph *graph = store->graph;
    for (int layer = graph->layer_count; layer-- > 0;)
        for (int i = 0; i < graph->parameter_count; i++) {
            const ff_graph_parameter *p = &graph->parameters[i];
            if (p->layer != layer || p->dtype != FF_F32 || is_weight(p) != weights) continue;
            size_t *total = p->trained ? &store->trained_count : &store->buffer_count;
            store->offsets[i] = *total;
            *total += ff_align_u64(held_count(store, i), 16);
        }
}

ff_status ff_store_reserve_states(ff_store *store, int count, ff_error *error) {
    assert(count <= FF_STATES);
    for (int i = 0; i < count; i++)
        if (!store->state[i])
            FF_TRY(ff_compute_allocate(store->compute, &store->state[i],
                                       store->trained_count * sizeof(float),
                                       "the optimizer's state", error));
    return FF_OK;
}

static ff_status reserve_sums(ff_store *store, uint64_t levels, size_t count, ff_error *error) {
    const char *what = "the sums of gradients";
    store->sum_count = count;
    if (!store->sums)
        FF_TRY(ff_compute_allocate(store->compute, &store->sums, levels * count * sizeof(float),
                                   what, error));
    return ff_compute_allocate(store->compute, &store->total, levels * sizeof *store->total, what,
                               error);
}

ff_status ff_store_reserve_sums(ff_store *store, bool in_place, ff_error *error) {
    if (in_place && store->compute->dtype == FF_F32) store->sums = (void *)store->gradients;
    return reserve_sums(store, 1, store->trained_count, error);
}

ff_status ff_store_reserve_tree(ff_store *store, int64_t parts, ff_error *error) {
    uint64_t levels = 1;
    while (INT64_C(1) << levels < parts) levels++;
    FF_TRY(reserve_sums(store, levels, store->trained_count + store->buffer_count, error));
    return ff_compute_allocate(store->compute, &store->held, store->buffer_count * sizeof(float),
                               "the running statistics", error);
}

bool ff_store_sums_apart(const ff_store *store) {
    return store->sums && (char *)store->sums != store->gradients;
}

void ff_store_blocks(const ff_store *store, ff_store_block blocks[FF_STORE_BLOCKS]) {
    const size_t trained = store->trained_count, buffers = store->buffer_count;
    const size_t element = store->compute->element_bytes;
    const bool narrow = store->compute->dtype != FF_F32; /* else the values serve as copies */
    const ff_store_block all[FF_STORE_BLOCKS] = {
        {store->values, trained * sizeof(float)},
        {store->average, trained * sizeof(float)},
        {store->buffers, buffers * sizeof(float)},
        {store->average_buffers, buffers * sizeof(float)},
        {narrow ? store->working : NULL, trained * element},
        {narrow ? store->average_working : NULL, trained * element},
        {narrow ? store->working_buffers : NULL, buffers * element},
        {narrow ? store->average_working_buffers : NULL, buffers * element},
        {store->control, sizeof *store->control},
    };
    memcpy(blocks, all, sizeof all);
    for (int i = 0; i < FF_STATES; i++)
        blocks[FF_STORE_BLOCKS - 1 - i] =
            (ff_store_block){store->state[i], trained * sizeof(float)};
}

static ff_status allocate(ff_store *store, ff_error *error) {
    ff_compute *compute = store->compute;
    const size_t element = compute->element_bytes;
    const size_t channels = store->trained_count - store->weight_count;
    const struct {
        void *block;
        size_t bytes;
        const char *what;
    } blocks[] = {
        {&store->values, store->trained_count * sizeof(float), "the parameters"},
        {&store->gradients, store->weight_count * element + channels * sizeof(float),
         "the parameters' gradients"},
        {&store->buffers, store->buffer_count * sizeof(float), "the running statistics"},
        {&store->control, sizeof *store->control, "the control of a run"},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        FF_TRY(
            ff_compute_allocate(compute, blocks[i].block, blocks[i].bytes, blocks[i].what, error));
    FF_TRY(ff_store_reserve_states(store, 1, error));
    store->working = store->values;
    store->working_buffers = store->buffers;
    if (compute->dtype == FF_F32) return FF_OK;
    store->working = store->working_buffers = NULL;
    FF_TRY(ff_compute_allocate(compute, &store->working, store->trained_count * element,
                               "the working weights", error));
    return ff_compute_allocate(compute, &store->working_buffers, store->buffer_count * element,
                               "the working weights", error);
}

ff_status ff_store_create(ff_store *store, const ff_graph *graph, ff_compute *compute,
                          ff_conv *const *convs, const ff_tensor *tensors, ff_error *error) {
    ff_status status;
    const size_t parameters = (size_t)graph->parameter_count;
    *store = (ff_store){.graph = graph, .compute = compute, .convs = convs, .tensors = tensors};
    FF_TRY_DONE(ff_alloc(&store->offsets, parameters, sizeof(size_t), "parameters", error));
    FF_TRY_DONE(ff_alloc(&store->tracked, parameters, sizeof(int64_t), "parameters", error));
    place(store, true);
    store->weight_count = store->trained_count;
    place(store, false);
    FF_TRY_DONE(allocate(store, error));
    const ff_control control = {.loss_scale = 1};
    ff_compute_write(compute, store->control, &control, sizeof control);
    FF_TRY_DONE(ff_compute_check(compute, error));
    return FF_OK;
done:
    ff_store_destroy(store);
    return status;
}

void ff_store_destroy(ff_store *store) {
    ff_compute *compute = store->compute;
    if (!compute) return;
    ff_store_block blocks[FF_STORE_BLOCKS];
    ff_store_blocks(store, blocks);
    for (int i = 0; i < FF_STORE_BLOCKS; i++) ff_compute_release(compute, blocks[i].memory);
    if (ff_store_sums_apart(store)) ff_compute_release(compute, store->sums);
    ff_compute_release(compute, store->gradients);
    ff_compute_release(compute, store->held);
    ff_compute_release(compute, store->total);
    free(store->tracked);
    free(store->offsets);
    *store = (ff_store){0};
}

float *ff_store_value(const ff_store *store, int parameter) {
    const bool trained = store->graph->parameters[parameter].trained;
    return (trained ? store->values : store->buffers) + store->offsets[parameter];
}

const void *ff_store_working(const ff_store *store, int parameter) {
    const bool trained = store->graph->parameters[parameter].trained;
    const char *block = trained ? store->working : store->working_buffers;
    return block + store->offsets[parameter] * store->compute->element_bytes;
}

void *ff_store_gradient(const ff_store *store, int parameter) {
    const size_t offset = store->offsets[parameter], element = store->compute->element_bytes;
    if (offset < store->weight_count) return store->gradients + offset * element;
    return store->gradients + store->weight_count * element +
           (offset - store->weight_count) * sizeof(float);
}

void ff_store_clear_gradient(ff_store *store, int parameter) {
    ff_compute *compute = store->compute;
    const bool weight = store->offsets[parameter] < store->weight_count;
    const size_t element = weight ? compute->element_bytes : sizeof(float);
    compute->device->table->fill(compute->device, compute->stream,
                                 ff_store_gradient(store, parameter), 0,
                                 held_count(store, parameter) * element, ff_compute_error(compute));
    if (ff_store_sums_apart(store))
        compute->device->table->fill(
            compute->device, compute->stream, store->sums + store->offsets[parameter], 0,
            held_count(store, parameter) * sizeof(float), ff_compute_error(compute));
}

/* Moves linear weights between torch's inputs [c][h][w] and the order of the activations; rows that
 * pad the outputs are unchanged. */
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

/* Moves one parameter between its held order and torch's, both in host memory. */
static void convert(const ff_store *store, int parameter, float *held, float *torch_order,
                    bool import) {
    const ff_graph_parameter *p = &store->graph->parameters[parameter];
    const ff_layer *layer = &store->graph->layers[p->layer];
    const ff_compute_ops *ops = store->compute->ops;
    if (p->rank == 4 && import)
        ops->conv_import(store->convs[p->layer], torch_order, held);
    else if (p->rank == 4)
        ops->conv_export(store->convs[p->layer], held, torch_order);
    else if (p->rank == 2)
        permute(&store->tensors[layer->from], (size_t)layer->c, held, torch_order, import);
    else if (import)
        memcpy(held, torch_order, ff_graph_elements(p) * sizeof *held);
    else
        memcpy(torch_order, held, ff_graph_elements(p) * sizeof *held);
}

/* The address and dtype of a part of a parameter. */
static void *locate(const ff_store *store, int parameter, ff_parameter_part part, ff_dtype *dtype) {
    *dtype = FF_F32;
    if (part == FF_PART_VALUE) return ff_store_value(store, parameter);
    if (part == FF_PART_AVERAGE)
        return (store->graph->parameters[parameter].trained ? store->average
                                                            : store->average_buffers) +
               store->offsets[parameter];
    if (part >= FF_PART_MOMENTUM)
        return store->state[part - FF_PART_MOMENTUM] + store->offsets[parameter];
    if (is_weight(&store->graph->parameters[parameter])) *dtype = store->compute->dtype;
    return ff_store_gradient(store, parameter);
}

/* Whether a parameter can be converted in place, in host memory; otherwise through a buffer. */
static bool at_hand(const ff_store *store, ff_dtype dtype) {
    return store->compute->device->table->unified && dtype == FF_F32;
}

void ff_store_export(const ff_store *store, int parameter, ff_parameter_part part, float *to) {
    ff_compute *compute = store->compute;
    const size_t count = held_count(store, parameter);
    ff_error *error = ff_compute_error(compute);
    ff_dtype dtype;
    void *block = locate(store, parameter, part, &dtype), *raw = NULL;
    float *held = NULL;
    if (at_hand(store, dtype)) {
        convert(store, parameter, block, to, false);
        return;
    }
    if (ff_alloc(&raw, count, ff_dtype_bytes(dtype), "a parameter", error) == FF_OK &&
        ff_alloc(&held, count, sizeof *held, "a parameter", error) == FF_OK) {
        ff_compute_read(compute, raw, block, count * ff_dtype_bytes(dtype));
        ff_convert(held, FF_F32, raw, dtype, count);
        convert(store, parameter, held, to, false);
    }
    free(held);
    free(raw);
}

void ff_store_import(ff_store *store, int parameter, ff_parameter_part part, const float *from) {
    ff_compute *compute = store->compute;
    const size_t count = held_count(store, parameter);
    ff_dtype dtype;
    float *block = locate(store, parameter, part, &dtype), *held;
    assert(dtype == FF_F32); /* 16-bit gradients are written only by steps */
    if (at_hand(store, dtype)) {
        convert(store, parameter, block, (float *)from, true);
    } else if (ff_alloc(&held, count, sizeof *held, "a parameter", ff_compute_error(compute)) ==
               FF_OK) {
        convert(store, parameter, held, (float *)from, true);
        ff_compute_write(compute, block, held, count * sizeof *held);
        free(held);
    }
    if (part == FF_PART_VALUE && compute->dtype != FF_F32)
        compute->ops->cast(compute, count, 1, block, FF_F32,
                           (void *)ff_store_working(store, parameter), compute->dtype);
}

/* Elements of the layer's trained weights (or per-channel parameters) in their block. */
static size_t layer_count(const ff_store *store, ff_node layer, bool weights) {
    size_t count = 0;
    for (int i = 0; i < store->graph->parameter_count; i++) {
        const ff_graph_parameter *p = &store->graph->parameters[i];
        if (p->layer == layer && p->trained && is_weight(p) == weights)
            count += ff_align_u64(held_count(store, i), 16);
    }
    return count;
}

ff_status ff_store_buckets(const ff_store *store, uint64_t bytes, ff_bucket **out, int *count,
                           ff_error *error) {
    const size_t element = store->compute->element_bytes;
    const int layers = store->graph->layer_count;
    ff_bucket now = {.channels = store->weight_count, .channels_end = store->weight_count};
    *count = 0;
    FF_TRY(ff_alloc(out, (uint64_t)layers, sizeof **out, "gradient buckets", error));
    for (ff_node layer = layers; layer-- > 0;) {
        const size_t weights = layer_count(store, layer, true);
        const size_t channels = layer_count(store, layer, false);
        now.weights_end += weights;
        now.channels_end += channels;
        if (weights || channels) now.layer = layer;
        size_t held = (now.weights_end - now.weights) * element +
                      (now.channels_end - now.channels) * sizeof(float);
        if (!held || (layer > 0 && (bytes == 0 || held < bytes))) continue;
        (*out)[(*count)++] = now;
        now.weights = now.weights_end;
        now.channels = now.channels_end;
    }
    return FF_OK;
}
