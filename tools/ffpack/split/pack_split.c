#include "tools/ffpack/split/pack_split.h"

#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "tools/ffpack/split/item_notes.h"
#include "tools/ffpack/split/part_sums.h"
#include "tools/ffpack/split/pipeline.h"
#include "tools/ffpack/split/shuffle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Blocks made ahead, so that workers continue while one is written: one per worker, or the
     * number that fits SPARE_BYTES; at most SPARE_SLOTS. */
    SPARE_SLOTS = 16,
    SPARE_BYTES = 4 << 20 /* stays in the CPU caches */
};

typedef struct slot {
    ff_block *block;
    ff_stats *sums;                       /* the block's samples, if they are counted */
    uint64_t clipped, turned, not_finite; /* samples of the block */
    ff_item_notes notes;                  /* printed when the block is appended */
} slot;

typedef struct pack_state {
    const ff_pack_split *job;
    const ff_metadata *metadata;
    /* The source's items are numbered from this one in the set; positions here are relative to
     * it. */
    uint64_t first_item, count;
    ff_permutation order;
    int jobs;
    ff_stream *stream;
    ff_sampler **sampler; /* [jobs] */
    const void ***label;  /* [jobs][field_count] */
    int64_t *mapped;      /* [jobs][field_count]: classes by the set's numbers */
    slot *slot;           /* [slot_count] */
    size_t slot_count;
    ff_writer *writer;
    ff_buffer counted;    /* job->sums of all blocks appended, encoded */
    uint64_t begun, done; /* positions: the first and the current one of this run */
    uint64_t skipped;     /* items left out, by earlier runs, too */
    uint32_t announced;   /* shards: job->committed was called */
    ff_progress progress;
} pack_state;

/* ---- on workers ---------------------------------------------------------------------------- */

static ff_status add_note(const pack_state *packing, slot *to, ff_item_note note,
                          const ff_item *item, const char *message, ff_error *error) {
    const ff_pack_split *job = packing->job;
    return ff_item_notes_add(&to->notes, job->plan->source, job->split, item, note, message, error);
}

/* Refuses an item that the set has already. */
static ff_status check_new(const pack_state *packing, const ff_item *item, uint64_t checksum,
                           ff_error *error) {
    const ff_pack_split *job = packing->job;
    if (!job->known || !ff_known_has(job->known, item->key, item->key_bytes, checksum))
        return FF_OK;
    char name[1024];
    ff_source_item_name(job->plan->source, job->split, item, name, sizeof name);
    return ff_fail(error, FF_USAGE,
                   "%s: is in the set already, under this name and with the same bytes; "
                   "--allow-duplicates appends it again",
                   name);
}

static ff_status add_sample(pack_state *packing, int worker, slot *to, uint64_t number,
                            const ff_sample *sample, ff_error *error) {
    const ff_metadata *metadata = packing->metadata;
    const void **label = packing->label[worker];
    const char *labels = sample->item.labels;
    const uint64_t checksum = ff_checksum(sample->file.bytes, sample->file.length);
    FF_TRY(check_new(packing, &sample->item, checksum, error));
    for (size_t i = 0; i < metadata->field_count; i++) {
        label[i] = labels;
        if (packing->job->classes)
            FF_TRY(ff_class_map_apply(packing->job->classes, &metadata->field[i], i,
                                      &packing->mapped[(size_t)worker * metadata->field_count + i],
                                      &label[i], error));
        labels += ff_field_bytes(&metadata->field[i]);
    }
    ff_block_sample entry = {.item = packing->first_item + number,
                             .height = sample->height,
                             .width = sample->width,
                             .key = sample->item.key,
                             .key_bytes = sample->item.key_bytes,
                             .source_checksum = checksum,
                             .label = label};
    void *tensor;
    FF_TRY(ff_block_add(to->block, &entry, &tensor, error));
    const ff_transform *transform = packing->job->transform;
    ff_layout layout = sample->planar ? FF_CHW : FF_HWC;
    if (packing->job->plan->values == FF_VALUES_U16)
        ff_transform_words(transform, sample->values, layout, sample->width, sample->height,
                           tensor);
    else if (packing->job->plan->values == FF_VALUES_FLOAT)
        ff_transform_floats(transform, sample->values, layout, sample->width, sample->height,
                            tensor);
    else if (sample->planar)
        ff_transform_planar(transform, sample->values, sample->width, sample->height, tensor);
    else
        ff_transform_interleaved(transform, sample->values, sample->width, sample->height, tensor);
    to->clipped += sample->clipped;
    to->turned += sample->turned;
    to->not_finite += ff_transform_not_finite(transform, sample->width, sample->height, tensor);
    return FF_OK;
}

static uint64_t item_at(const void *context, uint64_t position) {
    const pack_state *packing = context;
    return packing->job->settings->shuffled ? ff_permutation_at(&packing->order, position, 0)
                                            : ff_source_item_at(packing->job->split, position);
}

static ff_status fill_block(pack_state *packing, int worker, slot *to, uint64_t number,
                            ff_error *error) {
    const ff_pack_split *job = packing->job;
    const ff_metadata *metadata = packing->metadata;
    if (!packing->sampler[worker])
        FF_TRY(ff_sampler_create(&packing->sampler[worker], job->plan, job->split, packing->stream,
                                 error));
    if (!to->block) FF_TRY(ff_block_create(&to->block, metadata, error));
    ff_block_reset(to->block, number);
    to->clipped = to->turned = to->not_finite = 0;
    if (job->sums && !to->sums) FF_TRY(ff_stats_create(&to->sums, metadata->channels, error));
    if (to->sums) ff_stats_reset(to->sums);
    uint64_t position = number * metadata->items_per_block;
    uint64_t end = position + metadata->items_per_block;
    if (end > packing->count) end = packing->count;
    FF_TRY(ff_sampler_begin(packing->sampler[worker], position, end, error));
    for (; position < end; position++) {
        uint64_t item = item_at(packing, position);
        ff_item_note note = {.position = position, .item = item};
        ff_sample sample;
        ff_status status = ff_sampler_make(packing->sampler[worker], item, &sample, error);
        if (status != FF_OK && job->settings->skip && ff_sample_skippable(&sample, status)) {
            ff_error failure = *error;
            note.broken = true;
            FF_TRY(add_note(packing, to, note, &sample.item, failure.message, error));
            continue;
        }
        FF_TRY(ff_sample_refuse(&sample, status, error));
        FF_TRY(add_sample(packing, worker, to, item, &sample, error));
        if (to->sums) ff_sample_count(job->plan, &sample, to->sums);
        if (sample.warning)
            FF_TRY(add_note(packing, to, note, &sample.item, sample.warning, error));
    }
    return ff_block_seal(to->block, error);
}

static ff_status make_block(void *context, int worker, size_t place, uint64_t number,
                            ff_error *error) {
    pack_state *packing = context;
    ff_status status = fill_block(packing, worker, &packing->slot[place], number, error);
    if (status != FF_OK)
        ff_stream_stop(packing->stream, number * packing->metadata->items_per_block);
    return status;
}

/* ---- in order, on one thread at a time ----------------------------------------------------- */

static ff_status check_skipped(const pack_state *packing, ff_error *error) {
    const ff_pack_split *job = packing->job;
    /* A part may leave out what the whole split may; merging adds up. */
    ff_status status = ff_max_skip_check(&job->settings->max_skip, packing->metadata->split,
                                         packing->skipped, packing->count, error);
    job->report->lost_too_much |= status != FF_OK;
    return status;
}

static ff_status take_note(pack_state *packing, const ff_item_note *said, ff_error *error) {
    const ff_pack_split *job = packing->job;
    if (!said->broken) {
        job->report->warnings++;
        ff_notice(job->options, "%s: %s", said->name, said->message);
        return FF_OK;
    }
    FF_TRY(ff_skipped_add(job->skipped, packing->metadata->split,
                          packing->first_item + said->position, packing->first_item + said->item,
                          said->name, said->message, error));
    ff_notice(job->options, "left out: %s", said->message);
    packing->skipped++;
    return check_skipped(packing, error);
}

static ff_status announce_shards(pack_state *packing, ff_error *error) {
    const ff_pack_split *job = packing->job;
    const ff_metadata *metadata = packing->metadata;
    const uint64_t per = metadata->items_per_shard / metadata->items_per_block;
    const uint64_t next = ff_writer_next_block(packing->writer);
    const bool last = next == ff_writer_end_block(packing->writer);
    while (job->committed && packing->announced < (last ? next + per - 1 : next) / per)
        FF_TRY(job->committed(job->context, job->directory, metadata->split, packing->announced++,
                              error));
    return FF_OK;
}

static ff_status take_block(void *context, size_t place, uint64_t number, ff_error *error) {
    pack_state *packing = context;
    slot *from = &packing->slot[place];
    for (size_t i = 0; i < from->notes.count; i++)
        FF_TRY(take_note(packing, &from->notes.note[i], error));
    ff_item_notes_clear(&from->notes);
    packing->job->report->clipped += from->clipped;
    packing->job->report->turned += from->turned;
    packing->job->report->not_finite += from->not_finite;
    if (from->sums) {
        ff_stats_merge(packing->job->sums, from->sums);
        FF_TRY(ff_stats_encode(packing->job->sums, &packing->counted, error));
        FF_TRY(ff_writer_set_note(packing->writer, &packing->counted, error));
    }
    FF_TRY(ff_writer_append(packing->writer, from->block, error));
    if (!packing->job->rest && number + 1 == ff_writer_end_block(packing->writer))
        FF_TRY(ff_writer_end(packing->writer, error));
    FF_TRY(announce_shards(packing, error));
    packing->done = (number + 1) * packing->metadata->items_per_block;
    if (packing->done > packing->count) packing->done = packing->count;
    return FF_OK;
}

static ff_status watch(void *context, ff_error *error) {
    pack_state *packing = context;
    ff_progress_update(&packing->progress, packing->done - packing->begun, NULL);
    return ff_interrupt_check(error);
}

static uint64_t position_of(const pack_state *packing, uint64_t block) {
    uint64_t position = block * packing->metadata->items_per_block;
    return position < packing->count ? position : packing->count;
}

static uint64_t spare_slots(const ff_metadata *metadata, uint64_t jobs) {
    uint64_t sample_bytes = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    uint64_t fit =
        sample_bytes ? SPARE_BYTES / sample_bytes / metadata->items_per_block : SPARE_SLOTS;
    uint64_t spare = jobs > fit ? jobs : fit;
    return spare < SPARE_SLOTS ? spare : SPARE_SLOTS;
}

size_t ff_pack_slot_count(const ff_metadata *metadata, uint64_t jobs) {
    return (size_t)(jobs + spare_slots(metadata, jobs) + 1);
}

void ff_pack_hint_start_over(ff_status opened, const char *partial, ff_error *error) {
    if (opened != FF_USAGE || !error) return;
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length, "; remove %s to start over",
             partial);
}

static ff_status open_writer(pack_state *packing, ff_error *error) {
    const ff_pack_split *job = packing->job;
    const ff_metadata *metadata = packing->metadata;
    ff_status opened =
        job->pending
            ? ff_writer_open_pending(&packing->writer, job->directory, metadata, job->part, error)
            : ff_writer_open(&packing->writer, job->directory, metadata, job->part, error);
    ff_pack_hint_start_over(opened, job->partial, error);
    FF_TRY(opened);
    if (!job->sums) return FF_OK;
    const ff_buffer *found = ff_writer_note_found(packing->writer);
    if (found->length && !ff_stats_decode(job->sums, found->bytes, found->length))
        return ff_fail(error, FF_BAD_DATA, "%s: its pending shards have no sums of %u channels",
                       job->directory, metadata->channels);
    return FF_OK;
}

static ff_status run(pack_state *packing, const char *title, ff_error *error) {
    const ff_pack_split *job = packing->job;
    const ff_metadata *metadata = packing->metadata;
    FF_TRY(open_writer(packing, error));
    packing->announced = (uint32_t)(ff_writer_first_block(packing->writer) *
                                    metadata->items_per_block / metadata->items_per_shard);
    FF_TRY(announce_shards(packing, error));
    uint64_t first = ff_writer_next_block(packing->writer);
    uint64_t end = ff_writer_end_block(packing->writer);
    uint64_t position = position_of(packing, first), last = position_of(packing, end);
    packing->begun = packing->done = position;
    job->report->items = last - position_of(packing, ff_writer_first_block(packing->writer));
    job->report->continued =
        position - position_of(packing, ff_writer_first_block(packing->writer));
    if (job->settings->shuffled)
        ff_shuffle_init(&packing->order, packing->count, job->settings->seed);
    if (first < end)
        FF_TRY(ff_stream_create(&packing->stream, job->plan->source, job->split,
                                &(ff_stream_range){position, last, item_at, packing}, error));
    FF_TRY(ff_skipped_rewind(job->skipped, metadata->split, packing->first_item,
                             packing->first_item + position, &packing->skipped, error));
    FF_TRY(check_skipped(packing, error));
    uint64_t jobs = (uint64_t)job->settings->jobs, blocks = end - first ? end - first : 1;
    if (jobs > blocks) jobs = blocks;
    packing->slot_count = ff_pack_slot_count(metadata, jobs);
    FF_TRY(ff_alloc(&packing->slot, packing->slot_count, sizeof *packing->slot, "blocks", error));
    FF_TRY(ff_alloc(&packing->sampler, jobs, sizeof *packing->sampler, "workers", error));
    FF_TRY(ff_alloc(&packing->label, jobs, sizeof *packing->label, "workers", error));
    FF_TRY(ff_alloc(&packing->mapped, jobs * metadata->field_count, sizeof *packing->mapped,
                    "workers", error));
    packing->jobs = (int)jobs;
    for (uint64_t i = 0; i < jobs; i++)
        FF_TRY(ff_alloc(&packing->label[i], metadata->field_count, sizeof **packing->label,
                        "workers", error));
    ff_pipeline pipeline = {.first = first,
                            .end = end,
                            .jobs = packing->jobs,
                            .slot_count = packing->slot_count,
                            .context = packing,
                            .make = make_block,
                            .take = take_block,
                            .watch = watch};
    if (last > position)
        ff_progress_begin(&packing->progress, title, "items", last - position, false);
    FF_TRY(ff_pipeline_run(&pipeline, error));
    FF_TRY(watch(packing, error));
    if (job->rest) {
        *job->rest = packing->writer;
        packing->writer = NULL;
        return FF_OK;
    }
    if (job->shards_only || (job->pending && !job->part)) return FF_OK;
    if (job->pending)
        FF_TRY(ff_part_sums_write(job->plan, job->sums, metadata, job->directory, error));
    return ff_writer_commit(packing->writer, &job->report->result, error);
}

ff_status ff_pack_split_run(const ff_pack_split *job, ff_error *error) {
    const ff_metadata *metadata = &job->report->metadata;
    pack_state packing = {
        .job = job, .metadata = metadata, .first_item = ff_metadata_first_item(metadata)};
    packing.count = metadata->items - packing.first_item;
    const char *name = packing.metadata->split;
    char title[300];
    snprintf(title, sizeof title, "packing%s%s", *name ? " " : "", name);
    ff_status status = run(&packing, title, error);
    ff_progress_end(&packing.progress);
    ff_writer_close(&packing.writer);
    for (int i = 0; i < packing.jobs; i++) {
        ff_sampler_destroy(&packing.sampler[i]);
        free(packing.label[i]);
    }
    for (size_t i = 0; packing.slot && i < packing.slot_count; i++) {
        ff_block_destroy(&packing.slot[i].block);
        ff_stats_destroy(&packing.slot[i].sums);
        ff_item_notes_free(&packing.slot[i].notes);
    }
    ff_stream_destroy(&packing.stream);
    ff_buffer_free(&packing.counted);
    free(packing.sampler);
    free(packing.label);
    free(packing.mapped);
    free(packing.slot);
    return status;
}
