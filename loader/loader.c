/* The ring of slots: threads take tickets for runs of rows in rising order, fill them, and the
 * consumer takes whole batches in order.
 *
 * Life of a slot: FREE -> OPENING (its last consumer may still be reading: wait for that outside of
 * the lock) -> FILLING (tickets are handed out) -> READY -> HELD (by the consumer) -> FREE.
 * A batch takes any free slot, and batches open in order; so while the consumer holds fewer slots
 * than there are, the next batch can always be filled: no order of releases can deadlock. */
#include "loader/loader.h"

#include "format/base/thread.h"
#include "loader/device/absent.h"
#include "loader/device/host.h"
#include "loader/gather.h"

#include <inttypes.h>
#include <stdlib.h>

typedef enum slot_state { FREE, OPENING, FILLING, READY, HELD } slot_state;

typedef struct ring_slot {
    ff_slot slot; /* first: the consumer's pointer is this one */
    slot_state state;
    uint64_t sequence; /* of the batch in it */
    ff_loader_place place;
    uint32_t runs_left; /* tickets not yet done */
    ff_event *consumed; /* the consumer's; NULL = nothing to wait for */
    uint8_t *memory;    /* device: its part of the loader's */
    uint8_t *pinned;    /* what threads write to: memory itself on a unified device */
    ff_slot_source *source;
    ff_augment_params *params;
    ff_slot_label *label;
    ff_status status; /* of the lowest row that failed */
    uint32_t failed_row;
    ff_error error;
} ring_slot;

struct ff_loader {
    ff_loader_plan plan;
    ff_device *device, *own_device;
    ff_stream *stream; /* of copies */
    pthread_mutex_t stream_mutex;

    pthread_mutex_t mutex;
    pthread_cond_t work, ready; /* for threads; for the consumer */
    ring_slot *ring;            /* [plan.slots] */
    uint8_t *memory, *pinned;   /* of all slots; the same on a unified device */
    uint32_t run_rows, runs;    /* of a ticket; tickets a batch */

    uint64_t next_open; /* the batch to open next */
    ring_slot *open;    /* whose tickets are being handed out; NULL = none */
    uint32_t next_run;  /* of it */
    uint64_t next_acquire;
    uint32_t held;
    bool stop;   /* the loader is being destroyed */
    bool failed; /* a batch failed: open no other */
    ff_loader_stats stats;

    ff_status status; /* what acquire gave as an error, to give again */
    ff_error error;

    ff_gatherer **gatherer; /* a thread's own; [0] is the consumer's where there are none */
    ff_threads *threads;
};

/* ---- filling -------------------------------------------------------------------------------- */

/* Keeps the error of the lowest row, so that the sentence does not depend on who was first. */
static void note_failure(ff_loader *loader, ring_slot *slot, uint32_t row, ff_status status,
                         const ff_error *error) {
    loader->failed = true;
    if (slot->status != FF_OK && slot->failed_row <= row) return;
    slot->status = status;
    slot->failed_row = row;
    slot->error = *error;
}

/* Waits until nobody reads what the slot held. On a unified device the consumer's work reads the
 * memory itself; else the copy reads the pinned half, and the copy's own stream waits for the
 * consumer. Without the lock. */
static ff_status await_slot(ff_loader *loader, ring_slot *slot, ff_error *error) {
    const ff_device_table *table = loader->device->table;
    ff_event *event = table->unified ? slot->consumed : slot->slot.ready;
    return event ? table->event_synchronize(loader->device, event, error) : FF_OK;
}

/* The whole batch lies in the pinned half: send it off. Without the lock. */
static ff_status send_slot(ff_loader *loader, ring_slot *slot, ff_error *error) {
    const ff_device_table *table = loader->device->table;
    ff_device *device = loader->device;
    ff_status status = FF_OK;
    pthread_mutex_lock(&loader->stream_mutex); /* a stream is one thread's at a time */
    if (!table->unified) {
        if (slot->consumed)
            status = table->stream_wait(device, loader->stream, slot->consumed, error);
        if (status == FF_OK && loader->plan.slot_bytes)
            status = table->copy(device, loader->stream, slot->memory, slot->pinned,
                                 loader->plan.slot_bytes, error);
    }
    if (status == FF_OK)
        status = table->event_record(device, slot->slot.ready, loader->stream, error);
    pthread_mutex_unlock(&loader->stream_mutex);
    return status;
}

/* Fills run `run` of `slot`; called and left with the lock. */
static void fill_run(ff_loader *loader, ff_gatherer *gatherer, ring_slot *slot, uint32_t run) {
    ff_error error;
    uint32_t rows = loader->plan.rows, failed_row = 0;
    uint32_t begin = run * loader->run_rows;
    uint32_t end = rows - begin < loader->run_rows ? rows : begin + loader->run_rows;
    pthread_mutex_unlock(&loader->mutex);
    uint64_t began = ff_now_ns();
    ff_status status = ff_gather(gatherer, &slot->place, slot->pinned, slot->source, slot->params,
                                 begin, end, &failed_row, &error);
    uint64_t took = ff_now_ns() - began;
    pthread_mutex_lock(&loader->mutex);
    loader->stats.fill_ns += took;
    if (status != FF_OK) note_failure(loader, slot, failed_row, status, &error);
    if (--slot->runs_left) return;
    if (slot->status == FF_OK) {
        pthread_mutex_unlock(&loader->mutex);
        status = send_slot(loader, slot, &error);
        pthread_mutex_lock(&loader->mutex);
        if (status != FF_OK) note_failure(loader, slot, 0, status, &error);
    }
    slot->state = READY;
    pthread_cond_broadcast(&loader->ready);
}

static bool may_open(const ff_loader *loader) {
    return !loader->failed && loader->next_open < loader->plan.sequence.total_batches;
}

/* The slot in this state, of this sequence where it has one. */
static ring_slot *find_slot(ff_loader *loader, slot_state state, uint64_t sequence) {
    for (uint32_t i = 0; i < loader->plan.slots; i++) {
        ring_slot *slot = &loader->ring[i];
        if (slot->state == state && slot->sequence == sequence) return slot;
    }
    return NULL;
}

/* A slot for the next batch. */
static ring_slot *free_slot(ff_loader *loader) {
    uint32_t begin = 0, end = loader->plan.slots;
    if (loader->plan.cyclic) {
        begin = (uint32_t)(loader->next_open % end);
        end = begin + 1;
    }
    for (uint32_t i = begin; i < end; i++)
        if (loader->ring[i].state == FREE) return &loader->ring[i];
    return NULL;
}

/* Opens the next batch in a free slot; called and left with the lock, given up meanwhile. */
static void open_batch(ff_loader *loader, ring_slot *slot) {
    ff_error error;
    slot->state = OPENING;
    slot->sequence = loader->next_open++;
    loader->open = slot;
    loader->next_run = loader->runs; /* no tickets yet */
    pthread_mutex_unlock(&loader->mutex);
    ff_status status = await_slot(loader, slot, &error);
    slot->place = ff_sequence_at(&loader->plan.sequence, slot->sequence);
    pthread_mutex_lock(&loader->mutex);
    slot->status = FF_OK;
    slot->runs_left = loader->runs;
    slot->state = FILLING;
    loader->next_run = 0;
    if (status != FF_OK) note_failure(loader, slot, 0, status, &error);
    pthread_cond_broadcast(&loader->work);
}

/* The next ticket of the open batch, or NULL. */
static ring_slot *take_run(ff_loader *loader, uint32_t *run) {
    ring_slot *slot = loader->open;
    if (!slot || loader->next_run >= loader->runs) return NULL;
    *run = loader->next_run++;
    if (loader->next_run == loader->runs) loader->open = NULL;
    return slot;
}

static void thread_body(void *context, int index) {
    ff_loader *loader = context;
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop) {
        uint32_t run;
        ring_slot *slot = take_run(loader, &run);
        if (slot) {
            fill_run(loader, loader->gatherer[index], slot, run);
            continue;
        }
        slot = !loader->open && may_open(loader) ? free_slot(loader) : NULL;
        if (slot)
            open_batch(loader, slot);
        else
            pthread_cond_wait(&loader->work, &loader->mutex);
    }
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- creating and destroying ---------------------------------------------------------------- */

static ff_status create_slot(ff_loader *loader, uint32_t index, ff_error *error) {
    const ff_loader_plan *plan = &loader->plan;
    const ff_device_table *table = loader->device->table;
    ring_slot *slot = &loader->ring[index];
    slot->memory = loader->memory + index * plan->slot_bytes;
    slot->pinned = loader->pinned + index * plan->slot_bytes;
    FF_TRY(ff_alloc(&slot->source, plan->rows, sizeof *slot->source, "a batch's rows", error));
    if (!plan->raw)
        FF_TRY(ff_alloc(&slot->params, plan->rows, sizeof *slot->params, "a batch's rows", error));
    FF_TRY(ff_alloc(&slot->label, plan->label_count, sizeof *slot->label, "labels", error));
    for (size_t i = 0; i < plan->label_count; i++) {
        const ff_field *field = &plan->metadata->field[plan->field[i]];
        slot->label[i] = (ff_slot_label){
            .values = slot->memory + plan->label_offset[i],
            .dtype = field->kind == FF_FIELD_CLASS ? FF_I32 : FF_F32,
            .width = field->width,
            .field = plan->field[i],
        };
    }
    slot->slot = (ff_slot){
        .data = slot->memory,
        .weight = (float *)(void *)(slot->memory + plan->weight_offset),
        .mix = plan->wide.mixes ? (float *)(void *)(slot->memory + plan->mix_offset) : NULL,
        .label = slot->label,
        .label_count = plan->label_count,
        .source = slot->source,
        .params = slot->params,
        .row_bytes = plan->row_bytes,
        .rows = plan->rows,
        .channels = plan->metadata->channels,
        .height = plan->raw ? plan->metadata->height : plan->height,
        .width = plan->raw ? plan->metadata->width : plan->width,
        .dtype = plan->raw ? plan->host.from : plan->host.to,
        .layout = plan->raw ? plan->host.from_layout : plan->host.to_layout,
        .index = index,
    };
    return table->event_create(loader->device, &slot->slot.ready, false, error);
}

/* One block for all slots, so that a kernel finds its own by a number. */
static ff_status create_memory(ff_loader *loader, ff_error *error) {
    const ff_device_table *table = loader->device->table;
    uint64_t bytes;
    void *memory;
    if (!ff_mul_u64(loader->plan.slots, loader->plan.slot_bytes, &bytes))
        return ff_fail(error, FF_USAGE, "%u slots of %" PRIu64 " bytes are too large",
                       loader->plan.slots, loader->plan.slot_bytes);
    FF_TRY(table->allocate(loader->device, &memory, bytes, "batches", error));
    loader->memory = loader->pinned = memory;
    if (table->unified) return FF_OK;
    loader->pinned = NULL;
    FF_TRY(table->allocate_pinned(loader->device, &memory, bytes, "batches", error));
    loader->pinned = memory;
    return FF_OK;
}

static ff_status create_all(ff_loader *loader, ff_dataset *dataset,
                            const ff_loader_options *options, ff_error *error) {
    ff_loader_plan *plan = &loader->plan;
    FF_TRY(ff_loader_plan_init(plan, dataset, options, error));
    loader->device = options->device;
    if (!loader->device) {
        FF_TRY(ff_device_host_create(&loader->own_device, FF_HOST_STREAMS_CALLER, 0, 0, error));
        loader->device = loader->own_device;
    }
    FF_TRY(loader->device->table->stream_create(loader->device, &loader->stream, error));
    FF_TRY(create_memory(loader, error));
    FF_TRY(ff_alloc(&loader->ring, plan->slots, sizeof *loader->ring, "slots", error));
    for (uint32_t i = 0; i < plan->slots; i++) FF_TRY(create_slot(loader, i, error));
    /* Two tickets a thread and batch: a slower thread holds the batch up by half its share. */
    uint32_t tickets = plan->threads > 1 ? 2 * (uint32_t)plan->threads : 1;
    loader->run_rows = plan->rows / tickets + (plan->rows % tickets != 0);
    loader->run_rows += loader->run_rows % 2; /* partners of a mixup stay together */
    if (loader->run_rows < 8) loader->run_rows = 8;
    loader->runs = plan->rows / loader->run_rows + (plan->rows % loader->run_rows != 0);
    if (loader->runs == 0) loader->runs = 1; /* an empty share still has one, with nothing in it */
    int workers = plan->threads ? plan->threads : 1;
    FF_TRY(
        ff_alloc(&loader->gatherer, (uint64_t)workers, sizeof *loader->gatherer, "threads", error));
    for (int i = 0; i < workers; i++) FF_TRY(ff_gatherer_create(&loader->gatherer[i], plan, error));
    if (plan->threads && !ff_device_is_absent(loader->device))
        FF_TRY(ff_threads_start(&loader->threads, plan->threads, "loader", thread_body, loader,
                                error));
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
    pthread_cond_init(&loader->ready, NULL);
    ff_status status = create_all(loader, dataset, options, error);
    if (status != FF_OK) ff_loader_destroy(&loader);
    *out = loader;
    return status;
}

static void destroy_slot(ff_loader *loader, ring_slot *slot) {
    const ff_device_table *table = loader->device->table;
    /* The consumer's stream may still read the slot; nothing can be done about a failure here. */
    if (slot->consumed && table->event_synchronize(loader->device, slot->consumed, NULL) != FF_OK)
        slot->consumed = NULL;
    table->event_destroy(loader->device, slot->slot.ready);
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
    ff_threads_join(&loader->threads);
    int workers = loader->plan.threads ? loader->plan.threads : 1;
    for (int i = 0; loader->gatherer && i < workers; i++) ff_gatherer_destroy(&loader->gatherer[i]);
    free(loader->gatherer);
    /* Copies under way end before their memory does. */
    if (loader->device) loader->device->table->stream_destroy(loader->device, loader->stream);
    for (uint32_t i = 0; loader->ring && i < loader->plan.slots; i++)
        destroy_slot(loader, &loader->ring[i]);
    free(loader->ring);
    if (loader->device) {
        if (loader->pinned != loader->memory)
            loader->device->table->release_pinned(loader->device, loader->pinned);
        loader->device->table->release(loader->device, loader->memory);
    }
    ff_device_destroy(&loader->own_device);
    ff_loader_plan_free(&loader->plan);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->mutex);
    pthread_mutex_destroy(&loader->stream_mutex);
    free(loader);
    *out = NULL;
}

/* ---- the consumer --------------------------------------------------------------------------- */

/* Without threads: the consumer fills the next batch itself. With the lock. */
static void fill_now(ff_loader *loader) {
    ring_slot *slot = free_slot(loader);
    uint32_t run;
    if (!slot || !may_open(loader)) return;
    open_batch(loader, slot);
    while ((slot = take_run(loader, &run)) != NULL)
        fill_run(loader, loader->gatherer[0], slot, run);
}

static void describe_batch(const ff_loader *loader, ring_slot *from) {
    ff_slot *slot = &from->slot;
    const ff_loader_plan *plan = &loader->plan;
    const ff_loader_place *place = &from->place;
    slot->count = place->count;
    slot->epoch = place->epoch;
    slot->batch = place->global_position / plan->sequence.batch;
    slot->position = place->position;
    slot->global_count = place->global_count;
    slot->last = place->last;
    slot->next = ff_loader_plan_next(plan, place);
}

ff_status ff_loader_acquire(ff_loader *loader, ff_slot **out, ff_error *error) {
    *out = NULL;
    uint64_t began = ff_now_ns();
    pthread_mutex_lock(&loader->mutex);
    ff_status status = loader->status;
    ring_slot *slot = NULL;
    if (status == FF_OK && loader->next_acquire < loader->plan.sequence.total_batches) {
        if (loader->held == loader->plan.slots) {
            pthread_mutex_unlock(&loader->mutex);
            return ff_fail(error, FF_USAGE, "all %u slots of the loader are held: release one",
                           loader->plan.slots);
        }
        if (!loader->plan.threads) fill_now(loader);
        while (!(slot = find_slot(loader, READY, loader->next_acquire)))
            pthread_cond_wait(&loader->ready, &loader->mutex);
        if (slot->status != FF_OK) {
            loader->status = status = slot->status;
            loader->error = slot->error;
        } else {
            slot->state = HELD;
            slot->consumed = NULL; /* the consumer's again, to record or destroy */
            loader->held++;
            loader->next_acquire++;
            loader->stats.batches++;
            loader->stats.samples += slot->place.count;
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

void ff_loader_release(ff_loader *loader, ff_slot *slot, ff_event *consumed) {
    ring_slot *from = &loader->ring[slot->index];
    pthread_mutex_lock(&loader->mutex);
    from->consumed = consumed;
    from->state = FREE;
    loader->held--;
    pthread_cond_signal(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
}

ff_loader_info ff_loader_describe(const ff_loader *loader) {
    return ff_loader_plan_describe(&loader->plan);
}

const ff_slot *ff_loader_first_slot(const ff_loader *loader) {
    return &loader->ring[0].slot;
}

ff_loader_stats ff_loader_measure(ff_loader *loader) {
    pthread_mutex_lock(&loader->mutex);
    ff_loader_stats stats = loader->stats;
    pthread_mutex_unlock(&loader->mutex);
    return stats;
}
