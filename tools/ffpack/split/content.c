#include "tools/ffpack/split/content.h"

#include "format/cli/interrupt.h"
#include "tools/ffpack/split/pipeline.h"

#include <stdlib.h>

enum {
    CONTENT_BYTES = 1 << 30,
    CONTENT_FILES = 64,
    UNIT_BYTES = 1 << 18, /* stays in the caches of the thread that reads and hashes it */
    SLOTS_A_JOB = 2,
    READERS = 4
};

/* A unit's bytes, and what read them: a run of adjacent items where the reader has it, or a copy of
 * several runs. */
typedef struct slot {
    ff_listing_cursor *cursor;
    ff_source_reader *reader;
    ff_buffer runs;
    const void *bytes;
    size_t length;
} slot;

typedef struct content {
    const ff_source *source;
    const ff_source_split *split;
    bool skip;
    uint64_t step, per_unit; /* items between two that count; items that count in a unit */
    slot *slot;
} content;

/* The reader keeps one run: the one before is copied. */
static ff_status keep_run(slot *to, ff_error *error) {
    const ff_status status = ff_buffer_add(&to->runs, to->bytes, to->length, error);
    to->length = 0;
    return status;
}

static ff_status read_run(const content *job, slot *to, const ff_item *run, ff_error *error) {
    ff_image_file file;
    if (to->length) FF_TRY(keep_run(to, error));
    const ff_status status = ff_source_read(to->reader, job->split, run, &file, error);
    if (status != FF_OK) return job->skip ? FF_OK : status;
    to->bytes = file.bytes;
    to->length = file.length;
    return FF_OK;
}

static bool extends(const ff_item *run, const ff_item *item) {
    return item->part != FF_PART_FILE && item->part == run->part &&
           item->offset == run->offset + run->bytes;
}

static ff_status read_unit(void *context, int worker, size_t place, uint64_t number,
                           ff_error *error) {
    (void)worker;
    const content *job = context;
    const ff_source_split *split = job->split;
    const uint64_t count = ff_listing_count(split->listing);
    slot *to = &job->slot[place];
    ff_item run = {0};
    if (!to->cursor) FF_TRY(ff_listing_cursor_create(&to->cursor, split->listing, error));
    if (!to->reader) FF_TRY(ff_source_reader_create(&to->reader, job->source, NULL, error));
    to->runs.length = to->length = 0;
    for (uint64_t i = 0; i < job->per_unit; i++) {
        const uint64_t at = (number * job->per_unit + i) * job->step;
        ff_item item;
        if (at >= count) break;
        FF_TRY(ff_listing_item(to->cursor, at, &item, error));
        if (i && extends(&run, &item)) {
            run.bytes += item.bytes;
            continue;
        }
        if (i) FF_TRY(read_run(job, to, &run, error));
        run = item;
    }
    FF_TRY(read_run(job, to, &run, error));
    if (!to->runs.length) return FF_OK;
    FF_TRY(keep_run(to, error));
    to->bytes = to->runs.bytes;
    to->length = to->runs.length;
    return FF_OK;
}

static ff_status hash_unit(void *context, size_t place, uint64_t number, ff_error *error) {
    (void)number;
    (void)error;
    const content *job = context;
    const slot *from = &job->slot[place];
    if (from->length) ff_listing_add_content(job->split->listing, from->bytes, from->length);
    return FF_OK;
}

static ff_status watch(void *context, ff_error *error) {
    (void)context;
    return ff_interrupt_check(error);
}

/* The number of units, 0 if nothing counts. */
static ff_status plan(content *job, uint64_t *units, ff_error *error) {
    const uint64_t count = ff_listing_count(job->split->listing);
    const bool raw = !job->source->encoded;
    ff_listing_cursor *cursor;
    ff_item first;
    *units = 0;
    if (!count) return FF_OK;
    FF_TRY(ff_listing_cursor_create(&cursor, job->split->listing, error));
    const ff_status status = ff_listing_item(cursor, 0, &first, error);
    ff_listing_cursor_destroy(&cursor);
    FF_TRY(status);
    if (!raw && first.part != FF_PART_FILE) return FF_OK;
    const uint64_t room = raw && first.bytes ? CONTENT_BYTES / first.bytes : CONTENT_FILES;
    job->step = count <= room ? 1 : room ? (count + room - 1) / room : count;
    job->per_unit = raw && first.bytes && first.bytes < UNIT_BYTES ? UNIT_BYTES / first.bytes : 1;
    const uint64_t counted = (count - 1) / job->step + 1;
    *units = (counted - 1) / job->per_unit + 1;
    return FF_OK;
}

ff_status ff_content_add(const ff_source *source, const ff_source_split *split, int jobs, bool skip,
                         ff_error *error) {
    content job = {.source = source, .split = split, .skip = skip};
    uint64_t units;
    FF_TRY(plan(&job, &units, error));
    if (!units) return FF_OK;
    if (jobs > READERS) jobs = READERS; /* more read no faster than one thread hashes */
    if ((uint64_t)jobs > units) jobs = (int)units;
    const size_t slots = (size_t)jobs * SLOTS_A_JOB;
    FF_TRY(ff_alloc(&job.slot, slots, sizeof *job.slot, "the content of items", error));
    const ff_pipeline pipeline = {.end = units,
                                  .jobs = jobs,
                                  .slot_count = slots,
                                  .context = &job,
                                  .make = read_unit,
                                  .take = hash_unit,
                                  .watch = watch};
    const ff_status status = ff_pipeline_run(&pipeline, error);
    for (size_t i = 0; i < slots; i++) {
        ff_listing_cursor_destroy(&job.slot[i].cursor);
        ff_source_reader_destroy(&job.slot[i].reader);
        ff_buffer_free(&job.slot[i].runs);
    }
    free(job.slot);
    return status;
}
