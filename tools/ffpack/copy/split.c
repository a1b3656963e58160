#include "tools/ffpack/copy/split.h"

#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "tools/ffpack/split/pack_split.h"
#include "tools/ffpack/split/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

/* A label field of the sample that a worker copies. */
typedef struct label {
    uint8_t *stored;    /* as the set has it; owned */
    uint8_t changed[8]; /* a class with the copy's number */
} label;

typedef struct worker {
    ff_reader *reader;
    label *label;       /* [field_count] */
    const void **value; /* [field_count] */
    uint8_t *pixels;    /* for samples that are transformed */
    uint64_t pixels_bytes;
} worker;

typedef struct slot {
    ff_block *block;
    uint64_t not_finite; /* samples of the block */
} slot;

typedef struct copying {
    const ff_copy_split *job;
    const ff_metadata *from, *to;
    worker *worker; /* [jobs] */
    int jobs;
    slot *slot; /* [slot_count] */
    size_t slot_count;
    ff_writer *writer;
    uint64_t begun, done; /* places: this run's first, and the current one */
    ff_progress progress;
} copying;

/* ---- on workers ----------------------------------------------------------------------------- */

static ff_status open_worker(const copying *work, worker *at, ff_error *error) {
    const ff_metadata *from = work->from;
    FF_TRY(ff_reader_open(&at->reader, work->job->dataset, error));
    FF_TRY(ff_alloc(&at->label, from->field_count, sizeof *at->label, "labels", error));
    FF_TRY(ff_alloc(&at->value, from->field_count, sizeof *at->value, "labels", error));
    for (size_t i = 0; i < from->field_count; i++)
        FF_TRY(ff_alloc(&at->label[i].stored, ff_field_bytes(&from->field[i]) + 8, 1, "labels",
                        error));
    if (!work->job->transform) return FF_OK;
    at->pixels_bytes = ff_metadata_tensor_bytes(from, from->height, from->width);
    return ff_alloc_aligned(&at->pixels, at->pixels_bytes, 1, 0, "a sample", error);
}

static void close_worker(const copying *work, worker *at) {
    for (size_t i = 0; at->label && i < work->from->field_count; i++) free(at->label[i].stored);
    free(at->label);
    free(at->value);
    free(at->pixels);
    ff_reader_close(&at->reader);
}

/* Reads the labels of a place's sample, with the copy's numbers. */
static ff_status take_labels(const copying *work, worker *at, uint64_t place, ff_error *error) {
    const ff_copy_split *job = work->job;
    for (size_t i = 0; i < work->from->field_count; i++) {
        const ff_field *field = &work->from->field[i];
        label *own = &at->label[i];
        FF_TRY(ff_reader_label(at->reader, job->choice->number[place], i, own->stored, error));
        at->value[i] = own->stored;
        FF_TRY(ff_class_map_apply(job->classes, field, i, own->changed, &at->value[i], error));
        if (!job->label || i != job->field || job->label[place] == FF_LABEL_STAYS) continue;
        ff_class_store(field, job->label[place], own->changed);
        at->value[i] = own->changed;
    }
    return FF_OK;
}

/* Writes the tensor of a sample that was read. */
static ff_status take_tensor(const copying *work, worker *at, slot *to, const ff_view *view,
                             void *tensor, ff_error *error) {
    const ff_transform *transform = work->job->transform;
    if (!transform) return ff_view_copy(work->job->dataset, view, tensor, error);
    FF_TRY(ff_view_copy(work->job->dataset, view, at->pixels, error));
    if (work->from->layout == FF_CHW)
        ff_transform_planar(transform, at->pixels, view->width, view->height, tensor);
    else
        ff_transform_interleaved(transform, at->pixels, view->width, view->height, tensor);
    to->not_finite += ff_transform_not_finite(transform, view->width, view->height, tensor);
    return FF_OK;
}

static ff_status copy_sample(const copying *work, worker *at, slot *to, uint64_t place,
                             ff_error *error) {
    const ff_choice *choice = work->job->choice;
    const uint64_t number = choice->number[place];
    uint8_t key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    ff_view view;
    void *tensor;
    FF_TRY(take_labels(work, at, place, error));
    FF_TRY(ff_dataset_key(work->job->dataset, number, key, &key_bytes, error));
    FF_TRY(ff_reader_sample(at->reader, number, &view, error));
    const ff_block_sample sample = {.item = choice->item ? choice->item[place] : place,
                                    .height = view.height,
                                    .width = view.width,
                                    .key = key,
                                    .key_bytes = key_bytes,
                                    .source_checksum = view.entry.source_checksum,
                                    .checksum = work->job->transform ? 0 : view.entry.checksum,
                                    .label = at->value};
    FF_TRY(ff_block_add(to->block, &sample, &tensor, error));
    return take_tensor(work, at, to, &view, tensor, error);
}

static ff_status make_block(void *context, int index, size_t place, uint64_t number,
                            ff_error *error) {
    copying *work = context;
    worker *at = &work->worker[index];
    slot *to = &work->slot[place];
    if (!at->reader) FF_TRY(open_worker(work, at, error));
    if (!to->block) FF_TRY(ff_block_create(&to->block, work->to, error));
    ff_block_reset(to->block, number);
    to->not_finite = 0;
    uint64_t first = number * work->to->items_per_block, end = first + work->to->items_per_block;
    if (end > work->job->choice->count) end = work->job->choice->count;
    for (uint64_t i = first; i < end; i++) FF_TRY(copy_sample(work, at, to, i, error));
    return ff_block_seal(to->block, error);
}

/* ---- in order, on one thread at a time ------------------------------------------------------ */

static uint64_t place_of(const copying *work, uint64_t block) {
    const uint64_t place = block * work->to->items_per_block;
    return place < work->job->choice->count ? place : work->job->choice->count;
}

static ff_status take_block(void *context, size_t place, uint64_t number, ff_error *error) {
    copying *work = context;
    work->job->report->not_finite += work->slot[place].not_finite;
    FF_TRY(ff_writer_append(work->writer, work->slot[place].block, error));
    work->done = place_of(work, number + 1);
    return FF_OK;
}

static ff_status watch(void *context, ff_error *error) {
    copying *work = context;
    ff_progress_update(&work->progress, work->done - work->begun, NULL);
    return ff_interrupt_check(error);
}

static ff_status copy_blocks(copying *work, uint64_t first, uint64_t end, ff_error *error) {
    const uint64_t blocks = end - first ? end - first : 1;
    const uint64_t jobs = (uint64_t)work->job->jobs < blocks ? (uint64_t)work->job->jobs : blocks;
    work->slot_count = ff_pack_slot_count(work->to, jobs);
    FF_TRY(ff_alloc(&work->slot, work->slot_count, sizeof *work->slot, "blocks", error));
    FF_TRY(ff_alloc(&work->worker, jobs, sizeof *work->worker, "workers", error));
    work->jobs = (int)jobs;
    const ff_pipeline pipeline = {.first = first,
                                  .end = end,
                                  .jobs = work->jobs,
                                  .slot_count = work->slot_count,
                                  .context = work,
                                  .make = make_block,
                                  .take = take_block,
                                  .watch = watch};
    FF_TRY(ff_pipeline_run(&pipeline, error));
    return watch(work, error);
}

static ff_status run(copying *work, const char *title, ff_error *error) {
    const ff_copy_split *job = work->job;
    const ff_status opened = ff_writer_open(&work->writer, job->directory, work->to, NULL, error);
    ff_pack_hint_start_over(opened, job->partial, error);
    FF_TRY(opened);
    const uint64_t first = ff_writer_next_block(work->writer);
    work->begun = work->done = place_of(work, first);
    job->report->items = job->choice->count;
    job->report->continued = work->begun;
    ff_progress_begin(&work->progress, title, "items", job->choice->count - work->begun, false);
    FF_TRY(copy_blocks(work, first, ff_writer_end_block(work->writer), error));
    return ff_writer_commit(work->writer, &job->report->result, error);
}

ff_status ff_copy_split_run(const ff_copy_split *job, ff_error *error) {
    copying work = {
        .job = job, .from = ff_dataset_metadata(job->dataset), .to = &job->report->metadata};
    char title[300];
    snprintf(title, sizeof title, "copying%s%s", *work.to->split ? " " : "", work.to->split);
    ff_status status = run(&work, title, error);
    ff_progress_end(&work.progress);
    ff_writer_close(&work.writer);
    for (int i = 0; i < work.jobs; i++) close_worker(&work, &work.worker[i]);
    for (size_t i = 0; work.slot && i < work.slot_count; i++) ff_block_destroy(&work.slot[i].block);
    free(work.worker);
    free(work.slot);
    return status;
}
