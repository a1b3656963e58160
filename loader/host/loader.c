#include "loader/host/loader.h"

#include "loader/device/absent.h"
#include "loader/device/host.h"
#include "loader/host/ring.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- creating and destroying ---------------------------------------------------------------- */

static void set_size(const ff_loader_settings *all, uint32_t epoch, ff_slot *slot) {
    const ff_loader_settings *settings =
        ff_loader_settings_of(all, ff_loader_settings_in(all, epoch));
    slot->row_bytes = settings->row_bytes;
    slot->height = settings->raw ? settings->metadata->height : settings->height;
    slot->width = settings->raw ? settings->metadata->width : settings->width;
}

/* Sets the addresses of the slot's data, labels and weights. */
static void place_slot(const ff_loader_settings *settings, ff_ring_slot *slot) {
    uint8_t *memory = slot->memory;
    slot->slot.data = memory;
    slot->slot.weight = (float *)(void *)(memory + settings->weight_offset);
    slot->slot.mix =
        settings->finish.mixes ? (float *)(void *)(memory + settings->mix_offset) : NULL;
    for (size_t i = 0; i < settings->label_count; i++)
        slot->label[i] = ff_loader_settings_label(settings, i, memory + settings->label_offset[i]);
}

static ff_status take_memory(ff_loader *loader, ff_ring_slot *slot, uint32_t index,
                             ff_error *error) {
    const uint64_t offset = index * loader->settings.slot_bytes;
    if (!loader->blocks) {
        slot->memory = loader->memory + offset;
        slot->pinned = loader->pinned + offset;
        return FF_OK;
    }
    void *block;
    FF_TRY(ff_blocks_take(loader->blocks, &block, error));
    slot->memory = slot->pinned = block;
    return FF_OK;
}

static ff_status create_slot(ff_loader *loader, uint32_t index, ff_error *error) {
    const ff_loader_settings *settings = &loader->settings;
    const ff_device_table *table = loader->device->table;
    ff_ring_slot *slot = &loader->ring[index];
    FF_TRY(take_memory(loader, slot, index, error));
    FF_TRY(ff_alloc(&slot->source, settings->rows, sizeof *slot->source, "a batch's rows", error));
    if (!settings->raw)
        FF_TRY(ff_alloc(&slot->params, (uint64_t)settings->rows * settings->views,
                        sizeof *slot->params, "a batch's rows", error));
    FF_TRY(ff_alloc(&slot->label, settings->label_count, sizeof *slot->label, "labels", error));
    slot->slot = (ff_slot){
        .label = slot->label,
        .label_count = settings->label_count,
        .source = slot->source,
        .params = slot->params,
        .view = settings->view,
        .views = settings->views,
        .rows = settings->rows,
        .channels = settings->metadata->channels,
        .dtype = settings->raw ? settings->host.from : settings->host.to,
        .layout = settings->raw ? settings->host.from_layout : settings->host.to_layout,
        .index = index,
    };
    place_slot(settings, slot);
    set_size(settings, 0, &slot->slot);
    return table->event_create(loader->device, &slot->slot.ready, false, error);
}

/* A slot's memory is a block that the consumer may keep. */
static ff_status create_blocks(ff_loader *loader, ff_error *error) {
    const ff_loader_settings *settings = &loader->settings;
    uint64_t bytes;
    if (!loader->device->table->unified)
        return ff_fail(error, FF_USAGE, "only batches in host memory can be kept");
    if (!ff_add_u64(settings->slot_bytes, settings->kept_bytes, &bytes))
        return ff_fail(error, FF_USAGE,
                       "batches of %" PRIu64 " and %" PRIu64 " bytes are too large",
                       settings->slot_bytes, settings->kept_bytes);
    return ff_blocks_create(&loader->blocks, bytes, settings->slots, error);
}

/* One block for all slots, so that a kernel can address a slot by its number. */
static ff_status create_memory(ff_loader *loader, ff_error *error) {
    const ff_device_table *table = loader->device->table;
    uint64_t bytes;
    void *memory;
    if (loader->settings.kept_bytes) return create_blocks(loader, error);
    if (!ff_mul_u64(loader->settings.slots, loader->settings.slot_bytes, &bytes))
        return ff_fail(error, FF_USAGE, "%u slots of %" PRIu64 " bytes are too large",
                       loader->settings.slots, loader->settings.slot_bytes);
    FF_TRY(table->allocate(loader->device, &memory, bytes, "batches", error));
    loader->memory = loader->pinned = memory;
    if (table->unified) return FF_OK;
    loader->pinned = NULL;
    FF_TRY(table->allocate_pinned(loader->device, &memory, bytes, "batches", error));
    loader->pinned = memory;
    return FF_OK;
}

static size_t gatherer_count(const ff_loader_settings *settings) {
    return (settings->threads ? (size_t)settings->threads : 1) * (settings->later_count + 1);
}

/* Starts the threads, and reading ahead from the next batch to open on. */
static ff_status create_gatherers(ff_loader *loader, ff_error *error) {
    const ff_loader_settings *settings = &loader->settings;
    const size_t sizes = settings->later_count + 1, gatherers = gatherer_count(settings);
    if (settings->ahead.bytes && !ff_device_is_absent(loader->device))
        FF_TRY(ff_ahead_create(&loader->ahead, settings, loader->next_open, error));
    FF_TRY(ff_alloc(&loader->gatherer, gatherers, sizeof *loader->gatherer, "threads", error));
    for (size_t i = 0; i < gatherers; i++)
        FF_TRY(ff_gatherer_create(&loader->gatherer[i], ff_loader_settings_of(settings, i % sizes),
                                  loader->ahead, error));
    return FF_OK;
}

static void destroy_gatherers(const ff_loader_settings *settings, ff_gatherer **gatherer,
                              ff_ahead *ahead) {
    for (size_t i = 0; gatherer && i < gatherer_count(settings); i++)
        ff_gatherer_destroy(&gatherer[i]);
    free(gatherer);
    ff_ahead_destroy(&ahead);
}

void ff_loader_turn(ff_loader *loader) {
    ff_loader_settings *settings = &loader->settings;
    ff_gatherer **gatherer = loader->gatherer;
    ff_ahead *ahead = loader->ahead;
    if (!settings->direct) ff_warm_destroy(&loader->warm); /* what it reads is not kept */
    ff_reading_turn(settings, loader->evicted ? &loader->watch : NULL);
    loader->gatherer = NULL;
    loader->ahead = NULL;
    if (create_gatherers(loader, NULL) == FF_OK) {
        destroy_gatherers(settings, gatherer, ahead);
    } else {
        destroy_gatherers(settings, loader->gatherer, loader->ahead);
        loader->gatherer = gatherer;
        loader->ahead = ahead;
        ff_reading_turn_back(settings);
    }
    if (loader->came) ff_warm_create(&loader->warm, settings);
    loader->evicted = loader->removed = loader->came = false;
    loader->watch = (ff_reading_watch){0};
}

static ff_status create_all(ff_loader *loader, ff_dataset *dataset,
                            const ff_loader_options *options, ff_error *error) {
    ff_loader_settings *settings = &loader->settings;
    loader->looked = UINT32_MAX;
    FF_TRY(ff_loader_settings_init(settings, dataset, options, error));
    loader->device = options->device;
    if (!loader->device) {
        FF_TRY(ff_device_host_create(&loader->own_device, FF_HOST_STREAMS_CALLER, error));
        loader->device = loader->own_device;
    }
    FF_TRY(loader->device->table->stream_create(loader->device, &loader->stream, error));
    FF_TRY(create_memory(loader, error));
    FF_TRY(ff_alloc(&loader->ring, settings->slots, sizeof *loader->ring, "slots", error));
    for (uint32_t i = 0; i < settings->slots; i++) FF_TRY(create_slot(loader, i, error));
    /* Two tickets per thread and batch: a slower thread delays the batch by half its share. */
    uint32_t tickets = settings->threads > 1 ? 2 * (uint32_t)settings->threads : 1;
    if (!settings->threads)
        tickets = settings->rows / 32 + 1; /* ff_loader_await looks at the time */
    loader->run_rows = settings->rows / tickets + (settings->rows % tickets != 0);
    loader->run_rows += loader->run_rows % 2; /* partners of a mixup stay together */
    if (loader->run_rows < 8) loader->run_rows = 8;
    loader->runs = settings->rows / loader->run_rows + (settings->rows % loader->run_rows != 0);
    if (loader->runs == 0) loader->runs = 1; /* an empty share still has one empty ticket */
    FF_TRY(ff_alloc(&loader->usage, settings->threads ? (size_t)settings->threads : 1,
                    sizeof *loader->usage, "threads", error));
    FF_TRY(ff_alloc(&loader->taken, loader->runs, sizeof *loader->taken, "tickets", error));
    FF_TRY(create_gatherers(loader, error));
    if (ff_device_is_absent(loader->device)) return FF_OK;
    ff_warm_create(&loader->warm, settings);
    if (settings->threads)
        FF_TRY(ff_threads_start(&loader->threads, settings->threads, "loader", ff_ring_thread,
                                loader, error));
    return FF_OK;
}

ff_status ff_loader_create(ff_loader **out, ff_dataset *dataset, const ff_loader_options *options,
                           ff_error *error) {
    ff_loader *loader;
    *out = NULL;
    FF_TRY(ff_alloc(&loader, 1, sizeof *loader, "a loader", error));
    pthread_mutex_init(&loader->stream_mutex, NULL);
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* the clock of ff_now_ns */
    pthread_cond_init(&loader->ready, &clock);
    pthread_condattr_destroy(&clock);
    ff_status status = create_all(loader, dataset, options, error);
    if (status != FF_OK) ff_loader_destroy(&loader);
    *out = loader;
    return status;
}

static void destroy_slot(ff_loader *loader, ff_ring_slot *slot) {
    const ff_device_table *table = loader->device->table;
    /* The consumer's stream may still read the slot; nothing can be done about a failure here. */
    if (slot->consumed && table->event_synchronize(loader->device, slot->consumed, NULL) != FF_OK)
        slot->consumed = NULL;
    table->event_destroy(loader->device, slot->slot.ready);
    if (loader->blocks && slot->memory) ff_blocks_give(loader->blocks, slot->memory);
    free(slot->source);
    free(slot->params);
    free(slot->label);
}

void ff_loader_destroy(ff_loader **out) {
    ff_loader *loader = *out;
    if (!loader) return;
    pthread_mutex_lock(&loader->mutex);
    loader->stop = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    if (loader->ahead) ff_ahead_abandon(loader->ahead, 0);
    ff_threads_join(&loader->threads);
    ff_warm_destroy(&loader->warm);
    destroy_gatherers(&loader->settings, loader->gatherer, loader->ahead);
    /* Copies in flight end before their memory is freed. */
    if (loader->device) loader->device->table->stream_destroy(loader->device, loader->stream);
    for (uint32_t i = 0; loader->ring && i < loader->settings.slots; i++)
        destroy_slot(loader, &loader->ring[i]);
    free(loader->ring);
    free(loader->taken);
    free(loader->usage);
    ff_blocks_close(&loader->blocks);
    if (loader->device) {
        if (loader->pinned != loader->memory)
            loader->device->table->release_pinned(loader->device, loader->pinned);
        loader->device->table->release(loader->device, loader->memory);
    }
    ff_device_destroy(&loader->own_device);
    ff_loader_settings_free(&loader->settings);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->mutex);
    pthread_mutex_destroy(&loader->stream_mutex);
    free(loader);
    *out = NULL;
}

void ff_loader_seek(ff_loader *loader, const ff_sequence *sequence) {
    pthread_mutex_lock(&loader->mutex);
    loader->seeking = true;
    while (loader->busy) pthread_cond_wait(&loader->ready, &loader->mutex);
    loader->seeking = false;
    if (loader->ahead) ff_ahead_restart(loader->ahead, sequence);
    /* `consumed` stays: a consumer may still be reading. */
    for (uint32_t i = 0; i < loader->settings.slots; i++) loader->ring[i].state = FF_RING_FREE;
    loader->settings.sequence = *sequence;
    loader->looked = UINT32_MAX;
    loader->next_open = loader->next_acquire = 0;
    loader->open = NULL;
    loader->untaken = 0;
    loader->failed = false;
    loader->status = FF_OK;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- the consumer --------------------------------------------------------------------------- */

/* The slot in this state that holds this batch. */
static ff_ring_slot *find_slot(ff_loader *loader, ff_ring_state state, uint64_t sequence) {
    for (uint32_t i = 0; i < loader->settings.slots; i++) {
        ff_ring_slot *slot = &loader->ring[i];
        if (slot->state == state && slot->sequence == sequence) return slot;
    }
    return NULL;
}

static void describe_batch(const ff_loader *loader, ff_ring_slot *from) {
    ff_slot *slot = &from->slot;
    const ff_loader_settings *settings = &loader->settings;
    const ff_sequence_batch *batch = &from->batch;
    slot->count = batch->count;
    slot->epoch = batch->epoch;
    slot->batch = batch->global_position / settings->sequence.batch;
    slot->position = batch->position;
    slot->global_count = batch->global_count;
    slot->last = batch->last;
    slot->next = ff_loader_settings_next(settings, batch);
    set_size(settings, batch->epoch, slot);
}

/* Whether acquire can return at once: a batch, an error, or the end. With the lock held. */
static bool is_ready(ff_loader *loader) {
    return loader->status != FF_OK ||
           loader->next_acquire >= loader->settings.sequence.total_batches ||
           loader->held == loader->settings.slots ||
           find_slot(loader, FF_RING_READY, loader->next_acquire);
}

bool ff_loader_await(ff_loader *loader, uint64_t ns) {
    const uint64_t began = ff_now_ns(), end = began + ns;
    const struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
                                   .tv_nsec = (long)(end % 1000000000)};
    int ended = 0;
    pthread_mutex_lock(&loader->mutex);
    if (!loader->settings.threads && !is_ready(loader)) ff_ring_fill(loader, end);
    while (loader->settings.threads && !is_ready(loader) && !ended)
        ended = pthread_cond_timedwait(&loader->ready, &loader->mutex, &until);
    const bool ready = is_ready(loader);
    loader->stats.wait_ns += ff_now_ns() - began;
    pthread_mutex_unlock(&loader->mutex);
    return ready;
}

ff_status ff_loader_acquire(ff_loader *loader, ff_slot **out, ff_error *error) {
    *out = NULL;
    uint64_t began = ff_now_ns();
    pthread_mutex_lock(&loader->mutex);
    ff_status status = loader->status;
    ff_ring_slot *slot = NULL;
    if (status == FF_OK && loader->next_acquire < loader->settings.sequence.total_batches) {
        if (loader->held == loader->settings.slots) {
            pthread_mutex_unlock(&loader->mutex);
            return ff_fail(error, FF_USAGE, "all %u slots of the loader are held: release one",
                           loader->settings.slots);
        }
        if (!loader->settings.threads && !is_ready(loader)) ff_ring_fill(loader, UINT64_MAX);
        while (!(slot = find_slot(loader, FF_RING_READY, loader->next_acquire)))
            pthread_cond_wait(&loader->ready, &loader->mutex);
        if (slot->status != FF_OK) {
            loader->status = status = slot->status;
            loader->error = slot->error;
        } else {
            slot->state = FF_RING_HELD;
            slot->consumed = NULL; /* the consumer may record or destroy it again */
            loader->held++;
            loader->next_acquire++;
            loader->stats.batches++;
            loader->stats.samples += slot->batch.count;
        }
    }
    if (status != FF_OK && error) *error = loader->error;
    loader->stats.wait_ns += ff_now_ns() - began;
    pthread_mutex_unlock(&loader->mutex);
    if (status != FF_OK || !slot) return status;
    describe_batch(loader, slot);
    *out = &slot->slot;
    return FF_OK;
}

ff_status ff_loader_keep(ff_loader *loader, ff_slot *slot, ff_blocks **blocks, void **block,
                         ff_error *error) {
    ff_ring_slot *from = &loader->ring[slot->index];
    void *other;
    *block = NULL;
    FF_TRY(ff_blocks_take(loader->blocks, &other, error));
    *blocks = loader->blocks;
    *block = from->memory;
    from->memory = from->pinned = other;
    place_slot(&loader->settings, from);
    return FF_OK;
}

void ff_loader_release(ff_loader *loader, ff_slot *slot, ff_event *consumed) {
    ff_ring_slot *from = &loader->ring[slot->index];
    pthread_mutex_lock(&loader->mutex);
    from->consumed = consumed;
    from->state = FF_RING_FREE;
    loader->held--;
    pthread_cond_signal(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
}

ff_loader_info ff_loader_describe(ff_loader *loader) {
    pthread_mutex_lock(&loader->mutex); /* a thread may turn to another way of reading */
    const ff_loader_info info = ff_loader_settings_describe(&loader->settings);
    pthread_mutex_unlock(&loader->mutex);
    return info;
}

ff_slot ff_loader_first_slot(const ff_loader *loader, uint32_t epoch) {
    ff_slot slot = loader->ring[0].slot;
    set_size(&loader->settings, epoch, &slot);
    return slot;
}

ff_loader_stats ff_loader_measure(ff_loader *loader) {
    pthread_mutex_lock(&loader->mutex);
    ff_loader_stats stats = loader->stats;
    if (loader->blocks) stats.blocks = ff_blocks_allocated(loader->blocks);
    const double queued = ff_queue_share(&loader->queue) * (double)stats.fill_ns;
    const double waited = (double)stats.fill_ns - (double)stats.busy_ns - queued;
    const double behind = loader->ahead && waited > 0 ? ff_ahead_queued(loader->ahead) : 0;
    stats.queued_ns = (uint64_t)(queued + waited * behind);
    pthread_mutex_unlock(&loader->mutex);
    return stats;
}
