/* Random cases of batches made on a device, compared with the host loader's. Used by tests with
 * different kernels. */
#ifndef FF_TESTS_PLACEMENT_CASES_H
#define FF_TESTS_PLACEMENT_CASES_H

#include "loader/cuda/kernels.h"
#include "loader/cuda/table.h"
#include "loader/gpu/batches.h"
#include "tests/cuda/sim/device.h"
#include "tests/unit/dice.h"
#include "tests/unit/format_set.h"

#include <stdatomic.h>

enum { PLACEMENT_SIZES = 2 };

typedef struct placement_case {
    set_spec set;
    ff_loader_options options;
    ff_loader_size sizes[PLACEMENT_SIZES]; /* options.size_count of them */
    ff_placement placement;
    uint32_t channels;
    uint64_t batches; /* the most to compare */
    bool selects;     /* some of the samples, some of them twice */
    bool weighs;      /* with order random: by weights, or repeated */
    bool recorded;
    ff_host_streams streams;
    uint64_t seed;
} placement_case;

static inline placement_case placement_defaults(uint64_t count) {
    placement_case c = {.set = plain_set(count), .batches = 40};
    c.options = ff_loader_defaults();
    c.options.batch = 16, c.options.threads = 2, c.options.dtype = FF_F16;
    c.set.height = c.set.width = 12;
    c.options.layout = FF_HWC;
    return c;
}

/* Copies of what a step left in the buffers, taken in its stream. */
typedef struct placement_copy {
    uint8_t *data;
    float *weight, *mix;
    ff_augment_params *params;
    uint32_t *label[3];
} placement_copy;

/* If a test has set this, the GPU's device; else the host's, with the case's streams. */
static const ff_cuda_table *placement_card;
/* The device's table while a test runs, which refuses allocations between two steps. */
static const ff_device_table *placement_device_table;
static ff_device_table placement_table;
static atomic_bool placement_refuses;

static inline ff_status placement_refused(void **memory, const char *what, ff_error *error) {
    *memory = NULL;
    return ff_fail(error, FF_FAILED, "%s is allocated between two steps", what);
}
static inline ff_status placement_allocate(ff_device *device, void **memory, uint64_t bytes,
                                           const char *what, ff_error *error) {
    if (atomic_load(&placement_refuses)) return placement_refused(memory, what, error);
    return placement_device_table->allocate(device, memory, bytes, what, error);
}
static inline ff_status placement_allocate_pinned(ff_device *device, void **memory, uint64_t bytes,
                                                  const char *what, ff_error *error) {
    if (atomic_load(&placement_refuses)) return placement_refused(memory, what, error);
    return placement_device_table->allocate_pinned(device, memory, bytes, what, error);
}

static inline int placement_cards(void) {
    int count;
    assert_ok(placement_card->device_count(&count, error));
    return count;
}

/* With two GPUs the batches are on the second one, and the first one is current before the calls
 * that launch kernels. */
static inline void placement_leave(ff_device *device) {
    if (placement_card) device->table->restore(device, 0);
}

static inline void placement_open(const placement_case *c, ff_device **device) {
    if (placement_card)
        assert_ok(placement_card->device_create(device, placement_cards() - 1, error));
    else
        assert_ok(ff_device_sim_create(device, c->streams, 200000, c->seed, error));
    placement_device_table = (*device)->table;
    placement_table = *placement_device_table;
    placement_table.allocate = placement_allocate;
    placement_table.allocate_pinned = placement_allocate_pinned;
    (*device)->table = &placement_table;
}

/* Copies to pinned memory, until the stream is done. */
enum { PLACEMENT_TAKEN = 4096 };
static struct {
    void **to;
    uint64_t bytes;
} placement_taken[PLACEMENT_TAKEN];
static int placement_taken_count;

static inline void placement_take(ff_device *device, ff_stream *stream, void **to, const void *from,
                                  uint64_t bytes) {
    *to = NULL;
    if (!from) return;
    assert_true(placement_taken_count < PLACEMENT_TAKEN);
    assert_ok(device->table->allocate_pinned(device, to, bytes, "a test", error));
    assert_ok(device->table->copy(device, stream, *to, from, bytes, error));
    placement_taken[placement_taken_count].to = to;
    placement_taken[placement_taken_count++].bytes = bytes;
}

static inline void placement_settle(ff_device *device, ff_stream *stream) {
    assert_ok(device->table->stream_synchronize(device, stream, error));
    for (int i = 0; i < placement_taken_count; i++) {
        void *pinned = *placement_taken[i].to, *kept = malloc(placement_taken[i].bytes + 1);
        memcpy(kept, pinned, placement_taken[i].bytes);
        device->table->release_pinned(device, pinned);
        *placement_taken[i].to = kept;
    }
    placement_taken_count = 0;
}

/* The index of an epoch's size. */
static inline size_t placement_size(const placement_case *c, uint32_t epoch) {
    size_t which = 0;
    for (size_t i = 0; i < c->options.size_count; i++) which += epoch >= c->sizes[i].epoch;
    return which;
}

/* Allocates nothing: other replicas' collectives may run. */
static inline void placement_rewind(ff_batches *batches, ff_stream *stream) {
    atomic_store(&placement_refuses, true);
    assert_ok(ff_batches_rewind(batches, stream, error));
    atomic_store(&placement_refuses, false);
}

/* As a warm-up does: makes a batch of another epoch's size, which is not compared. */
static inline void placement_warm(const placement_case *c, ff_device *device, ff_batches *batches,
                                  ff_stream *stream) {
    const ff_batch_info *batch;
    for (int size = 0; size <= (int)c->options.size_count; size++) {
        ff_batches_set_size(batches, size);
        assert_ok(ff_batches_prepare(batches, stream, &batch, error));
        placement_leave(device);
        assert_ok(ff_batches_enqueue(batches, stream, error));
        placement_rewind(batches, stream);
    }
    ff_batches_set_size(batches, -1);
}

/* Runs all steps ahead of the device, as a trainer does; the copies are read at the end. */
static inline uint64_t placement_run(const placement_case *c, ff_dataset *dataset,
                                     const ff_loader_kernels *kernels, placement_copy *copies) {
    ff_device *device;
    ff_stream *stream;
    ff_batches *batches;
    ff_recording *recordings[PLACEMENT_SIZES + 1] = {NULL};
    placement_open(c, &device);
    const ff_device_table *table = device->table;
    assert_ok(table->stream_create(device, &stream, error));
    ff_batches_options options = {.loader = c->options,
                                  .kernels = kernels,
                                  .placement = c->placement,
                                  .channels = c->channels,
                                  .quiet = true};
    options.loader.device = device;
    options.loader.sizes = c->sizes;
    assert_ok(ff_batches_create(&batches, dataset, &options, error));
    ff_batches_info info = ff_batches_describe(batches);
    assert_int_equal(info.placement, c->placement);
    assert_true(info.device_bytes > 0 && strstr(info.reason, ff_placement_name(c->placement)));
    const ff_batch_buffers *buffers = ff_batches_buffers(batches);
    uint64_t row = (uint64_t)info.loader.height * info.loader.width;
    for (size_t i = 0; i < options.loader.size_count; i++)
        if (UINT64_C(1) * c->sizes[i].height * c->sizes[i].width > row)
            row = UINT64_C(1) * c->sizes[i].height * c->sizes[i].width;
    row *= info.channels * ff_dtype_bytes(info.dtype);
    uint32_t rows = info.loader.rows;
    /* Makes bytes that a kernel does not write visible. */
    assert_ok(table->fill(device, stream, buffers->data, 0xee, rows * row, error));
    uint64_t step = 0;
    for (; step < c->batches; step++) {
        const ff_batch_info *batch;
        assert_ok(ff_batches_prepare(batches, stream, &batch, error));
        if (!batch) break;
        if (step == c->seed % 4) { /* as warming up and timing do */
            placement_warm(c, device, batches, stream);
            assert_ok(ff_batches_prepare(batches, stream, &batch, error));
            placement_leave(device);
            assert_ok(ff_batches_enqueue_again(batches, stream, error));
            placement_leave(device);
            placement_rewind(batches, stream);
            assert_ok(ff_batches_prepare(batches, stream, &batch, error));
        }
        ff_recording **recording = &recordings[placement_size(c, batch->epoch)];
        if (c->recorded && step >= 1 && !*recording) {
            assert_ok(table->capture_begin(device, stream, error));
            placement_leave(device);
            assert_ok(ff_batches_enqueue(batches, stream, error));
            assert_ok(table->capture_end(device, stream, recording, error));
        }
        if (*recording) {
            assert_ok(table->recording_launch(device, *recording, stream, error));
        } else {
            placement_leave(device);
            assert_ok(ff_batches_enqueue(batches, stream, error));
        }
        placement_copy *copy = &copies[step];
        placement_take(device, stream, (void **)&copy->data, buffers->data, rows * row);
        placement_take(device, stream, (void **)&copy->weight, buffers->weight, rows * 4ul);
        placement_take(device, stream, (void **)&copy->mix, buffers->mix, rows * 4ul);
        placement_take(device, stream, (void **)&copy->params, buffers->params,
                       rows * sizeof(ff_augment_params));
        for (size_t i = 0; i < buffers->label_count; i++)
            placement_take(device, stream, (void **)&copy->label[i], buffers->label[i].values,
                           4ul * rows * buffers->label[i].width);
        assert_ok(ff_batches_finish(batches, stream, error));
    }
    placement_settle(device, stream);
    assert_int_equal(ff_batches_measure(batches).batches, step);
    ff_batches_destroy(&batches);
    for (int i = 0; i <= PLACEMENT_SIZES; i++) table->recording_destroy(device, recordings[i]);
    table->stream_destroy(device, stream);
    ff_device_destroy(&device);
    return step;
}

static inline void placement_check_rows(const placement_case *c, const ff_slot *slot,
                                        const placement_copy *copy) {
    size_t bytes = ff_dtype_bytes(slot->dtype), narrow = slot->channels * bytes;
    size_t wide = (c->channels ? c->channels : slot->channels) * bytes;
    size_t pixels = (size_t)slot->rows * slot->height * slot->width;
    const uint8_t *wanted = slot->data;
    for (size_t i = 0; i < pixels; i++) {
        assert_memory_equal(copy->data + i * wide, wanted + i * narrow, narrow);
        for (size_t k = narrow; k < wide; k++) assert_int_equal(copy->data[i * wide + k], 0);
    }
    assert_memory_equal(copy->weight, slot->weight, slot->rows * sizeof(float));
    assert_int_equal(!copy->mix, !slot->mix);
    if (slot->mix) assert_memory_equal(copy->mix, slot->mix, slot->rows * sizeof(float));
    if (c->placement != FF_PLACEMENT_HOST)
        assert_memory_equal(copy->params, slot->params, slot->rows * sizeof *slot->params);
    for (size_t i = 0; i < slot->label_count; i++)
        assert_memory_equal(copy->label[i], slot->label[i].values,
                            4ul * slot->rows * slot->label[i].width);
}

static inline void placement_select(placement_case *c, ff_dataset *dataset,
                                    ff_selection *selection) {
    dice d = {.seed = c->seed + 77};
    int64_t index[256];
    ff_selection_rule rule = {.index = index};
    rule.index_count = 1 + roll(&d, (uint32_t)c->set.items + 9);
    for (size_t i = 0; i < rule.index_count; i++) index[i] = roll(&d, (uint32_t)c->set.items);
    assert_ok(ff_selection_make(selection, dataset, &rule, error));
    c->options.selection = selection;
    c->options.position %= selection->count;
}

/* Weights, repeats, and epochs of another length. */
static inline void placement_weigh(placement_case *c, ff_dataset *dataset, ff_weights *weights) {
    dice d = {.seed = c->seed + 99};
    double weight[256];
    const ff_weights_rule rule = {.weight = weight, .weight_count = c->set.items};
    if (c->options.order != FF_ORDER_RANDOM || c->options.augment.flip == FF_FLIP_ALTERNATE) return;
    c->options.repeats = roll(&d, 4);
    if (!roll(&d, 3)) return;
    for (size_t i = 0; i < rule.weight_count; i++) weight[i] = 1 + roll(&d, 5);
    assert_ok(ff_weights_make(weights, dataset, c->options.selection, &rule, error));
    c->options.weights = weights;
    c->options.samples_per_epoch = c->options.position + 1 + roll(&d, 300);
}

static inline void placement_check(placement_case *c, const ff_loader_kernels *kernels) {
    ff_dataset *dataset = open_new_set(&c->set);
    ff_selection selection = {0};
    if (c->selects) placement_select(c, dataset, &selection);
    ff_weights weights = {0};
    if (c->weighs) placement_weigh(c, dataset, &weights);
    placement_copy *copies = calloc(c->batches, sizeof *copies);
    uint64_t batches = placement_run(c, dataset, kernels, copies);
    ff_loader *loader;
    ff_slot *slot;
    ff_loader_options host = c->options;
    host.access = FF_ACCESS_MAPPED;
    host.sizes = c->sizes;
    assert_ok(ff_loader_create(&loader, dataset, &host, error));
    for (uint64_t i = 0; i < batches; i++) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_non_null(slot);
        placement_check_rows(c, slot, &copies[i]);
        ff_loader_release(loader, slot, NULL);
        free(copies[i].data);
        free(copies[i].weight);
        free(copies[i].mix);
        free(copies[i].params);
        for (int k = 0; k < 3; k++) free(copies[i].label[k]);
    }
    if (batches < c->batches) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_null(slot);
    }
    ff_loader_destroy(&loader);
    free(copies);
    ff_selection_free(&selection);
    ff_weights_free(&weights);
    ff_dataset_close(&dataset);
    set_remove(&c->set);
}

/* wide: the kernels also resample, jitter, change and mix. */
static inline placement_case placement_random(uint64_t trial, bool wide) {
    static const char *const augments[] = {
        "none",          "crop=4,flip",          "crop=2:reflect,flip=alternate",
        "flip,cutout=3", "crop=3,flip,cutout=5", "crop=1,erase=0.7",
    };
    static const char *const host_augments[] = {"rrc=9,flip", "resize=15,flip", "crop=2,mixup=0.5",
                                                "flip,cutmix=1"};
    static const char *const wide_augments[] = {
        "rrc=9,flip",
        "resize=15,flip,cutout=4",
        "crop=2,mixup=0.5",
        "flip,cutmix",
        "crop=2:reflect,cutout=5,jitter=0.4:0.4:0.4:0.1,mixup,cutmix",
        "rrc=11,jitter=0:0.5,mixup=0.2",
        "crop=2,vflip,randaugment=5:25,mixup",
        "rrc=10,vflip,trivialaugment=bilinear,solarize=90,cutout=3",
        "jitter=0.4,grayscale=0.5,autoaugment",
        "crop=2,flip,augmix=9:2,equalize",
        "crop=2,vflip,trivialaugment,sharpness=2",
        "rrc=12,flip,augmix=5,solarize=90",
    };
    enum { WIDE = sizeof wide_augments / sizeof *wide_augments };
    static const ff_dtype from[] = {FF_U8, FF_F16, FF_BF16, FF_F32};
    static const ff_dtype to[] = {FF_F16, FF_BF16, FF_F32};
    static const char *const labels[] = {"label", "vector", "tags"};
    dice d = {.seed = trial};
    placement_case c = placement_defaults(40 + roll(&d, 90));
    set_spec *set = &c.set;
    set->dtype = from[roll(&d, 4)];
    set->layout = roll(&d, 2) ? FF_HWC : FF_CHW;
    set->channels = 1 + roll(&d, 4);
    set->no_statistics = !roll(&d, 2);
    set->height = 8 + roll(&d, 9), set->width = 8 + roll(&d, 9);
    set->backwards = roll(&d, 2);
    set->zstd = !roll(&d, 3);
    set->labels = roll(&d, 2) ? LABELS_ALL : LABELS_CLASS;
    c.options.access = (ff_loader_access)roll(&d, 3);
    c.placement = (ff_placement)(FF_PLACEMENT_RESIDENT + trial % 3);
    c.seed = trial;
    c.selects = trial % 5 < 2;
    c.weighs = trial % 7 < 4;
    c.streams = roll(&d, 3) ? FF_HOST_STREAMS_THREADS : FF_HOST_STREAMS_CALLER;
    c.recorded = roll(&d, 2);
    uint32_t pad = roll(&d, 3);
    c.channels = pad == 0 ? 0 : pad == 1 ? 4 : 8;
    ff_loader_options *options = &c.options;
    options->batch = 1 + roll(&d, 24);
    options->seed = trial;
    options->order = (ff_order_kind)roll(&d, 3);
    options->block = options->order == FF_ORDER_BLOCK ? 5 : 0;
    options->group = options->order == FF_ORDER_BLOCK ? 3 : 0;
    options->last_batch = roll(&d, 2) ? FF_LAST_BATCH_KEEP : FF_LAST_BATCH_DROP;
    options->threads = (int)roll(&d, 4);
    options->slots = 2 + roll(&d, 4);
    options->dtype = to[roll(&d, 3)];
    options->epoch = roll(&d, 3);
    options->epochs = roll(&d, 4);
    options->position = roll(&d, (uint32_t)set->items);
    if (roll(&d, 2)) {
        options->height = 4 + roll(&d, 5);
        options->width = 4 + roll(&d, 5);
    }
    if (roll(&d, 3) == 0)
        options->share_begin = roll(&d, 3), options->share_end = 3, options->share_total = 3;
    if (set->labels == LABELS_ALL) options->label = labels, options->label_count = 3;
    bool host = c.placement == FF_PLACEMENT_HOST && roll(&d, 2);
    const char *augment = host ? host_augments[roll(&d, 4)] : augments[roll(&d, 6)];
    if (!host && wide && roll(&d, 2)) augment = wide_augments[roll(&d, WIDE)];
    if (strstr(augment, "rrc")) options->height = options->width = 0;
    if (strstr(augment, "jitter")) set->channels = 3, set->no_statistics = trial % 4 == 0;
    assert_ok(ff_augment_parse(&options->augment, augment, error));
    const bool changes = ff_change_any(&options->augment.change);
    /* Values that move or are changed may stay u8. */
    const bool stays = !ff_augment_jitters(&options->augment) &&
                       !ff_augment_mixes(&options->augment) && !options->augment.cutout &&
                       !(options->augment.erase > 0);
    if (wide && set->dtype == FF_U8 && stays && trial / 3 % 2) options->dtype = FF_U8;
    if (changes) set->channels = 3, set->images = true;
    if (wide && !host && roll(&d, 3) == 0) { /* of sizes from half to whole */
        set->variable = true;
        if (!strstr(augment, "rrc")) options->height = options->width = 4;
        if (!strstr(augment, "jitter") && !changes && roll(&d, 4) == 0) set->dtype = FF_U16;
        if (set->dtype == FF_U16) set->no_statistics = true;
    }
    return c;
}

/* Sizes from the first or second epoch on, some of them resized. */
static inline void placement_add_sizes(placement_case *c, uint64_t trial, bool wide) {
    dice d = {.seed = trial + 1000};
    ff_loader_options *options = &c->options;
    const bool resizes = options->augment.rrc || options->augment.resize;
    if (c->set.variable && !resizes) return;
    options->epoch %= 2;
    options->epochs = 3 + roll(&d, 2);
    options->size_count = 1 + roll(&d, PLACEMENT_SIZES);
    for (uint32_t i = 0; i < options->size_count; i++) {
        ff_loader_size *size = &c->sizes[i];
        *size = (ff_loader_size){1 + 2 * i, 3 + roll(&d, 5), 3 + roll(&d, 5), options->augment};
        if (!resizes && wide && roll(&d, 2) && c->placement != FF_PLACEMENT_HOST) {
            size->augment.resize = 11, size->augment.pad = 0;
            size->augment.pad_mode = FF_PAD_BLACK;
        }
        if (size->augment.resize || size->augment.rrc) size->height += 4, size->width += 4;
        if (size->augment.resize && size->height > 11) size->height = 11;
        if (size->augment.resize && size->width > 11) size->width = 11;
    }
}

/* Samples that are changed and stay u8. */
static inline placement_case placement_changed(ff_placement placement) {
    placement_case c = placement_defaults(60);
    c.set.dtype = c.options.dtype = FF_U8;
    c.set.channels = 3, c.set.images = true;
    c.placement = placement;
    assert_ok(ff_augment_parse(&c.options.augment, "crop=2,flip,randaugment=5:25", error));
    return c;
}

static inline void placement_cases(const ff_loader_kernels *kernels, uint64_t trials) {
    for (uint64_t trial = 0; trial < trials; trial++) {
        placement_case c = placement_random(trial, kernels->augment != NULL);
        placement_check(&c, kernels);
        c = placement_random(trial, kernels->augment != NULL);
        placement_add_sizes(&c, trial, kernels->augment != NULL);
        if (c.options.size_count) placement_check(&c, kernels);
    }
    for (int i = FF_PLACEMENT_RESIDENT; i < FF_PLACEMENT_COUNT && kernels->augment; i++) {
        placement_case c = placement_changed((ff_placement)i);
        placement_check(&c, kernels);
    }
}

#endif
