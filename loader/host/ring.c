#include "loader/host/ring.h"

#include <string.h>

/* Keeps the error of the lowest row, so that the message does not depend on timing. */
static void note_failure(ff_loader *loader, ff_ring_slot *slot, uint32_t row, ff_status status,
                         const ff_error *error) {
    loader->failed = true;
    if (slot->status != FF_OK && slot->failed_row <= row) return;
    slot->status = status;
    slot->failed_row = row;
    slot->error = *error;
}

/* Waits until nobody reads the slot any more. On a unified device the consumer reads the memory
 * itself; else the copy reads the pinned half, and the copy's stream waits for the consumer. Called
 * without the lock. */
static ff_status await_slot(ff_loader *loader, ff_ring_slot *slot, ff_error *error) {
    const ff_device_table *table = loader->device->table;
    ff_event *event = table->unified ? slot->consumed : slot->slot.ready;
    return event ? table->event_synchronize(loader->device, event, error) : FF_OK;
}

/* Enqueues the copy of the batch, which is complete in the pinned half. Called without the lock. */
static ff_status send_slot(ff_loader *loader, ff_ring_slot *slot, ff_error *error) {
    const ff_device_table *table = loader->device->table;
    ff_device *device = loader->device;
    ff_status status = FF_OK;
    pthread_mutex_lock(&loader->stream_mutex); /* one thread at a time may use a stream */
    if (!table->unified) {
        if (slot->consumed)
            status = table->stream_wait(device, loader->stream, slot->consumed, error);
        if (status == FF_OK && loader->settings.slot_bytes)
            status = table->copy(device, loader->stream, slot->memory, slot->pinned,
                                 loader->settings.slot_bytes, error);
    }
    if (status == FF_OK)
        status = table->event_record(device, slot->slot.ready, loader->stream, error);
    pthread_mutex_unlock(&loader->stream_mutex);
    return status;
}

/* A thread's gatherer for the batch's size. */
static ff_gatherer *gatherer_of(const ff_loader *loader, int thread, const ff_ring_slot *slot) {
    const ff_loader_settings *settings = &loader->settings;
    return loader->gatherer[(size_t)thread * (settings->later_count + 1) +
                            ff_loader_settings_in(settings, slot->batch.epoch)];
}

/* Fills run `run` of `slot`; called with the lock held, which is released meanwhile. */
static void fill_run(ff_loader *loader, int thread, ff_ring_slot *slot, uint32_t run) {
    ff_gatherer *gatherer = gatherer_of(loader, thread, slot);
    ff_error error;
    uint32_t rows = loader->settings.rows, failed_row = 0;
    uint32_t begin = run * loader->run_rows;
    uint32_t end = rows - begin < loader->run_rows ? rows : begin + loader->run_rows;
    const ff_queue_look look = ff_queue_begin(&loader->queue);
    pthread_mutex_unlock(&loader->mutex);
    ff_status status = ff_gather(gatherer, slot->sequence, &slot->batch, slot->pinned, slot->source,
                                 slot->params, begin, end, &failed_row, &error);
    const uint64_t took = ff_now_ns() - look.began_ns;
    const ff_usage before = loader->usage[thread], now = ff_usage_now();
    loader->usage[thread] = now;
    pthread_mutex_lock(&loader->mutex);
    ff_queue_end(&loader->queue, &look);
    loader->stats.fill_ns += took;
    loader->stats.busy_ns += now.busy_ns - before.busy_ns;
    loader->stats.pages_awaited += now.pages_awaited - before.pages_awaited;
    ff_warm_used(loader->warm, end - begin);
    loader->evicted |= ff_reading_is_evicted(&loader->watch, &loader->settings, end - begin,
                                             now.bytes_read - before.bytes_read);
    loader->removed |= !loader->settings.direct && !ff_gatherer_maps(gatherer);
    if (status != FF_OK) note_failure(loader, slot, failed_row, status, &error);
    if (--slot->runs_left) return;
    if (slot->status == FF_OK) {
        pthread_mutex_unlock(&loader->mutex);
        status = send_slot(loader, slot, &error);
        pthread_mutex_lock(&loader->mutex);
        if (status != FF_OK) note_failure(loader, slot, 0, status, &error);
    }
    slot->state = FF_RING_READY;
    pthread_cond_broadcast(&loader->ready);
}

static bool may_open(const ff_loader *loader) {
    return !loader->failed && loader->next_open < loader->settings.sequence.total_batches;
}

/* A slot for the next batch. */
static ff_ring_slot *free_slot(ff_loader *loader) {
    uint32_t begin = 0, end = loader->settings.slots;
    if (loader->settings.cyclic) {
        begin = (uint32_t)(loader->next_open % end);
        end = begin + 1;
    }
    for (uint32_t i = begin; i < end; i++)
        if (loader->ring[i].state == FF_RING_FREE) return &loader->ring[i];
    return NULL;
}

/* Opens the next batch in a free slot; called with the lock held, which is released meanwhile. */
static void open_batch(ff_loader *loader, ff_ring_slot *slot) {
    ff_error error;
    slot->state = FF_RING_OPENING;
    slot->sequence = loader->next_open++;
    loader->open = slot; /* no tickets yet */
    pthread_mutex_unlock(&loader->mutex);
    ff_status status = await_slot(loader, slot, &error);
    slot->batch = ff_sequence_at(&loader->settings.sequence, slot->sequence);
    pthread_mutex_lock(&loader->mutex);
    slot->status = FF_OK;
    slot->runs_left = loader->runs;
    slot->state = FF_RING_FILLING;
    memset(loader->taken, 0, loader->runs * sizeof *loader->taken);
    loader->untaken = loader->runs;
    if (status != FF_OK) note_failure(loader, slot, 0, status, &error);
    pthread_cond_broadcast(&loader->work);
}

uint32_t ff_ring_ticket(const bool *taken, uint32_t runs, int thread, int threads) {
    const uint64_t one = (uint64_t)thread, all = (uint64_t)threads;
    uint32_t run = (uint32_t)(one * runs / all);
    const uint32_t end = (uint32_t)((one + 1) * runs / all);
    while (run < end && taken[run]) run++;
    if (run < end) return run;
    for (run = 0; taken[run];) run++;
    return run;
}

/* The next ticket of the open batch for a thread, or NULL. Rows that are read ahead are taken in
 * their order. */
static ff_ring_slot *take_run(ff_loader *loader, int thread, uint32_t *run) {
    ff_ring_slot *slot = loader->open;
    if (!slot || !loader->untaken) return NULL;
    const bool shares = loader->settings.threads > 1 && !loader->ahead;
    *run = ff_ring_ticket(loader->taken, loader->runs, shares ? thread : 0,
                          shares ? loader->settings.threads : 1);
    loader->taken[*run] = true;
    if (!--loader->untaken) loader->open = NULL;
    return slot;
}

/* Whether the next batch is read in another way. */
static bool turns(ff_loader *loader) {
    const uint32_t epoch = ff_sequence_at(&loader->settings.sequence, loader->next_open).epoch;
    if (epoch != loader->looked) loader->came = ff_reading_may_map(&loader->settings);
    loader->looked = epoch;
    return loader->evicted || loader->removed || loader->came;
}

/* Does the next work; false if there is nothing to do. */
static bool work_once(ff_loader *loader, int index) {
    uint32_t run = 0;
    ff_ring_slot *slot = take_run(loader, index, &run), *next = NULL;
    if (!slot && !loader->open && may_open(loader)) next = free_slot(loader);
    if (next && turns(loader)) {
        if (loader->busy) return false; /* the last busy thread turns */
        ff_loader_turn(loader);
    }
    if (!slot && !next) return false;
    loader->busy++;
    if (slot)
        fill_run(loader, index, slot, run);
    else
        open_batch(loader, next);
    loader->busy--;
    if (loader->seeking) pthread_cond_broadcast(&loader->ready);
    return true;
}

void ff_ring_thread(void *context, int index) {
    ff_loader *loader = context;
    loader->usage[index] = ff_usage_now();
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop)
        if (loader->seeking || !work_once(loader, index))
            pthread_cond_wait(&loader->work, &loader->mutex);
    pthread_mutex_unlock(&loader->mutex);
}

void ff_ring_fill(ff_loader *loader, uint64_t end_ns) {
    loader->usage[0] = ff_usage_now();
    if (!loader->open) {
        ff_ring_slot *slot = free_slot(loader);
        if (!slot || !may_open(loader)) return;
        if (turns(loader)) ff_loader_turn(loader);
        open_batch(loader, slot);
    }
    ff_ring_slot *slot;
    uint32_t run;
    while ((slot = take_run(loader, 0, &run)) != NULL) {
        fill_run(loader, 0, slot, run);
        if (ff_now_ns() > end_ns) return;
    }
}
