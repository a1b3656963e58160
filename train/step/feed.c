#include "train/step/feed.h"

#include "format/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

struct ff_feed {
    ff_compute *compute;
    ff_loader *loader;   /* on the CPU */
    ff_slot *slot;       /* acquired, or NULL */
    ff_batches *batches; /* on a device */
    ff_loader_options loader_options;
    ff_batches_options batches_options;
    ff_outcome *outcomes;
    ff_feed_info info;
    char note[sizeof(ff_loader_reading)];
};

ff_loader_options ff_feed_in_order(const ff_model *model, const char *const *label, uint64_t batch,
                                   uint32_t resize) {
    ff_loader_options options = ff_loader_defaults();
    ff_model_input_size(model, &options.height, &options.width);
    options.batch = batch;
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.order = FF_ORDER_SEQUENTIAL;
    options.label = label;
    options.label_count = label != NULL;
    options.augment.resize = resize;
    options.threads = 1;
    return options;
}

static ff_status create_loader(ff_feed *feed, ff_dataset *dataset, ff_loader_options options,
                               ff_error *error) {
    const int channels = (int)ff_dataset_metadata(dataset)->channels;
    options.layout =
        feed->compute->ops->input_block(feed->compute, channels) == 1 ? FF_CHW : FF_HWC;
    options.device = feed->compute->device;
    feed->loader_options = options;
    FF_TRY(ff_loader_create(&feed->loader, dataset, &options, error));
    feed->info.loader = ff_loader_describe(feed->loader);
    return FF_OK;
}

static ff_status create_batches(ff_feed *feed, ff_dataset *dataset, const ff_feed_options *options,
                                ff_error *error) {
    const int channels = (int)ff_dataset_metadata(dataset)->channels;
    ff_batches_options batches = {
        .loader = options->loader,
        .kernels = options->kernels,
        .placement = options->placement,
        .channels = (uint32_t)feed->compute->ops->input_block(feed->compute, channels),
        .quiet = options->quiet,
    };
    batches.loader.device = feed->compute->device;
    feed->batches_options = batches;
    FF_TRY(ff_batches_create(&feed->batches, dataset, &batches, error));
    const ff_batches_info info = ff_batches_describe(feed->batches);
    feed->info.loader = info.loader;
    feed->info.device_bytes = info.device_bytes;
    feed->info.pinned_bytes = info.pinned_bytes;
    feed->info.placement = info.reason;
    feed->info.resident = info.placement == FF_PLACEMENT_RESIDENT;
    return FF_OK;
}

static ff_status build(ff_feed *feed, ff_dataset *dataset, const ff_feed_options *options,
                       ff_error *error) {
    ff_feed_options own = *options;
    own.loader.dtype = feed->compute->dtype;
    if (feed->compute->device->table->unified || !own.kernels)
        FF_TRY(create_loader(feed, dataset, own.loader, error));
    else
        FF_TRY(create_batches(feed, dataset, &own, error));
    return ff_compute_allocate(feed->compute, &feed->outcomes,
                               feed->info.loader.batches_per_epoch * sizeof(ff_outcome),
                               "the outcomes of batches", error);
}

ff_status ff_feed_create(ff_feed **out, ff_dataset *dataset, const ff_feed_options *options,
                         ff_error *error) {
    ff_feed *feed;
    *out = NULL;
    FF_TRY(ff_alloc(&feed, 1, sizeof *feed, "the batches", error));
    feed->compute = options->compute;
    ff_status status = build(feed, dataset, options, error);
    if (status == FF_OK)
        *out = feed;
    else
        ff_feed_destroy(&feed);
    return status;
}

void ff_feed_destroy(ff_feed **pointer) {
    ff_feed *feed = *pointer;
    if (!feed) return;
    if (ff_compute_wait(feed->compute, NULL) != FF_OK) {
        /* the failure was reported before */
    }
    ff_loader_destroy(&feed->loader);
    ff_batches_destroy(&feed->batches);
    if (feed->outcomes) ff_compute_release(feed->compute, feed->outcomes);
    free(feed);
    *pointer = NULL;
}

/* Batches of a set without labels have no labels. */
static ff_batch batch_of(const void *images, const ff_slot_label *label, size_t label_count,
                         const float *weights, const float *mix) {
    ff_batch batch = {.images = images, .weights = weights, .mix = mix};
    if (label_count) {
        batch.labels = label->values;
        batch.label_dtype = label->dtype;
    }
    return batch;
}

ff_status ff_feed_next(ff_feed *feed, ff_feed_batch *batch, ff_error *error) {
    if (feed->loader) {
        if (!feed->slot) FF_TRY(ff_loader_acquire(feed->loader, &feed->slot, error));
        const ff_slot *slot = feed->slot;
        *batch = (ff_feed_batch){
            .batch = batch_of(slot->data, slot->label, slot->label_count, slot->weight, slot->mix),
            .count = slot->count,
            .last = slot->last,
        };
        return FF_OK;
    }
    const ff_batch_info *info;
    FF_TRY(ff_batches_prepare(feed->batches, feed->compute->stream, &info, error));
    const ff_batch_buffers *own = ff_batches_buffers(feed->batches);
    *batch = (ff_feed_batch){
        .batch = batch_of(own->data, own->label, own->label_count, own->weight, own->mix),
        .count = info->count,
        .last = info->last,
    };
    return FF_OK;
}

ff_status ff_feed_make(void *context, ff_stream *stream, ff_error *error) {
    ff_feed *feed = context;
    return feed->batches ? ff_batches_enqueue(feed->batches, stream, error) : FF_OK;
}

ff_status ff_feed_done(ff_feed *feed, ff_error *error) {
    if (feed->batches) return ff_batches_finish(feed->batches, feed->compute->stream, error);
    if (feed->slot) ff_loader_release(feed->loader, feed->slot, NULL);
    feed->slot = NULL;
    return FF_OK;
}

ff_status ff_feed_skip(ff_feed *feed, ff_error *error) {
    if (feed->batches) FF_TRY(ff_batches_skip(feed->batches, feed->compute->stream, error));
    return ff_feed_done(feed, error);
}

ff_status ff_feed_again(ff_feed *feed, ff_error *error) {
    return feed->batches ? ff_batches_rewind(feed->batches, feed->compute->stream, error) : FF_OK;
}

void ff_feed_set_size(ff_feed *feed, int size) {
    if (feed->batches) ff_batches_set_size(feed->batches, size);
}

static ff_loader_info describe(const ff_feed *feed) {
    return feed->loader ? ff_loader_describe(feed->loader)
                        : ff_batches_describe(feed->batches).loader;
}

ff_feed_info ff_feed_describe(const ff_feed *feed) {
    return feed->info;
}

ff_status ff_feed_rates(ff_feed *feed, ff_dataset *dataset, uint64_t budget_ns, ff_rates *rates,
                        ff_error *error) {
    if (feed->loader)
        return ff_rates_of_loader(dataset, &feed->loader_options, budget_ns, rates, error);
    return ff_batches_rates(feed->batches, dataset, &feed->batches_options, budget_ns, rates,
                            error);
}

const char *ff_feed_take_note(ff_feed *feed) {
    const ff_loader_info now = describe(feed);
    if (now.direct == feed->info.loader.direct) return NULL;
    feed->info.loader = now;
    snprintf(feed->note, sizeof feed->note, "%s", ff_loader_say_reading(&now).text);
    return feed->note;
}

ff_loader_stats ff_feed_measure(ff_feed *feed) {
    return feed->loader ? ff_loader_measure(feed->loader) : ff_batches_measure(feed->batches);
}

ff_outcome *ff_feed_outcomes(const ff_feed *feed) {
    return feed->outcomes;
}

ff_compute *ff_feed_compute(const ff_feed *feed) {
    return feed->compute;
}
