#include "tools/ffpack/source/sorter.h"

#include "format/base/file.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"

#include <stdlib.h>
#include <string.h>

/* A record in memory and in a run: both sizes, key, payload. */
enum { SIZES_BYTES = 8, WINDOW_BYTES = 128 * 1024 };

/* A sorted run: in the file, or (the only one) in memory. */
typedef struct run {
    uint64_t offset, end; /* of the part not yet in the window */
    unsigned char *window;
    size_t at, filled;
    uint32_t number; /* equal keys are in the order of their runs */
} run;

struct ff_sorter {
    char *directory;
    int fd;
    uint64_t written;
    unsigned char *arena;
    size_t used;
    uint32_t *place; /* [count] of records in the arena */
    size_t count, place_capacity;
    bool merging;
    size_t next_place; /* if everything stayed in memory */
    run *run;
    size_t run_count, run_capacity;
    uint32_t *heap; /* [heap_count] of runs with records left, the smallest first */
    size_t heap_count;
};

static ff_sorter_record record_at(const unsigned char *bytes) {
    ff_sorter_record record;
    memcpy(&record.key_bytes, bytes, 4);
    memcpy(&record.payload_bytes, bytes + 4, 4);
    record.key = bytes + SIZES_BYTES;
    record.payload = bytes + SIZES_BYTES + record.key_bytes;
    return record;
}

static int compare_records(const unsigned char *a, const unsigned char *b) {
    ff_sorter_record first = record_at(a), second = record_at(b);
    size_t common = first.key_bytes < second.key_bytes ? first.key_bytes : second.key_bytes;
    int order = memcmp(first.key, second.key, common);
    if (order) return order;
    return (first.key_bytes > second.key_bytes) - (first.key_bytes < second.key_bytes);
}

static int compare_places(const void *a, const void *b, void *arena) {
    uint32_t first, second;
    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    int order = compare_records((unsigned char *)arena + first, (unsigned char *)arena + second);
    return order ? order : (first > second) - (first < second);
}

static void sort_arena(ff_sorter *sorter) {
    if (sorter->count)
        qsort_r(sorter->place, sorter->count, sizeof *sorter->place, compare_places, sorter->arena);
}

ff_status ff_sorter_create(ff_sorter **out, const char *directory, ff_error *error) {
    *out = NULL;
    ff_sorter *sorter;
    FF_TRY(ff_alloc(&sorter, 1, sizeof *sorter, "a sorter", error));
    sorter->fd = -1;
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&sorter->directory, directory, error));
    FF_TRY_DONE(ff_alloc(&sorter->arena, FF_SORTER_BYTES, 1, "sorting names", error));
done:
    if (status == FF_OK)
        *out = sorter;
    else
        ff_sorter_destroy(&sorter);
    return status;
}

/* Writes what is in memory as one sorted run. */
static ff_status spill(ff_sorter *sorter, ff_error *error) {
    if (!sorter->count) return FF_OK;
    FF_TRY(ff_interrupt_check(error));
    sort_arena(sorter);
    if (sorter->fd < 0) FF_TRY(ff_open_temporary(sorter->directory, &sorter->fd, error));
    FF_TRY(ff_reserve(&sorter->run, &sorter->run_capacity, sorter->run_count + 1,
                      sizeof *sorter->run, "sorted runs", error));
    run *added = &sorter->run[sorter->run_count];
    *added = (run){.offset = sorter->written, .number = (uint32_t)sorter->run_count};
    sorter->run_count++;
    ff_buffer pending = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < sorter->count && status == FF_OK; i++) {
        const unsigned char *bytes = sorter->arena + sorter->place[i];
        ff_sorter_record record = record_at(bytes);
        status = ff_buffer_add(
            &pending, bytes, (size_t)SIZES_BYTES + record.key_bytes + record.payload_bytes, error);
        if (status == FF_OK && (pending.length >= WINDOW_BYTES || i + 1 == sorter->count)) {
            status = ff_write_temporary(sorter->fd, sorter->directory, pending.bytes,
                                        pending.length, sorter->written, error);
            sorter->written += pending.length;
            pending.length = 0;
        }
    }
    ff_buffer_free(&pending);
    added->end = sorter->written;
    sorter->used = sorter->count = 0;
    return status;
}

ff_status ff_sorter_add(ff_sorter *sorter, const ff_sorter_record *record, ff_error *error) {
    size_t bytes = (size_t)SIZES_BYTES + record->key_bytes + record->payload_bytes;
    if (bytes > FF_SORTER_RECORD_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "a name of %u bytes is too long to be sorted",
                       record->key_bytes);
    if (sorter->used + bytes > FF_SORTER_BYTES) FF_TRY(spill(sorter, error));
    FF_TRY(ff_reserve(&sorter->place, &sorter->place_capacity, sorter->count + 1,
                      sizeof *sorter->place, "sorting names", error));
    unsigned char *to = sorter->arena + sorter->used;
    memcpy(to, &record->key_bytes, 4);
    memcpy(to + 4, &record->payload_bytes, 4);
    if (record->key_bytes) memcpy(to + SIZES_BYTES, record->key, record->key_bytes);
    if (record->payload_bytes)
        memcpy(to + SIZES_BYTES + record->key_bytes, record->payload, record->payload_bytes);
    sorter->place[sorter->count++] = (uint32_t)sorter->used;
    sorter->used += bytes;
    return FF_OK;
}

/* ---- merging ------------------------------------------------------------------------------- */

/* Loads the run's next record completely into its window; *more = false at its end. */
static ff_status run_fill(ff_sorter *sorter, run *from, bool *more, ff_error *error) {
    size_t left = from->filled - from->at;
    size_t wanted = SIZES_BYTES;
    if (left >= SIZES_BYTES) {
        ff_sorter_record record = record_at(from->window + from->at);
        wanted += record.key_bytes + record.payload_bytes;
    }
    *more = left >= wanted && left >= SIZES_BYTES;
    if (*more) return FF_OK;
    uint64_t after = from->end - from->offset;
    if (!after) return FF_OK;
    memmove(from->window, from->window + from->at, left);
    size_t size = WINDOW_BYTES - left;
    if (size > after) size = (size_t)after;
    FF_TRY(
        ff_read_at(sorter->fd, "temporary names", from->window + left, size, from->offset, error));
    from->offset += size;
    from->at = 0;
    from->filled = left + size;
    *more = true;
    return FF_OK;
}

static bool is_before(const ff_sorter *sorter, uint32_t a, uint32_t b) {
    const run *first = &sorter->run[a], *second = &sorter->run[b];
    int order = compare_records(first->window + first->at, second->window + second->at);
    return order ? order < 0 : first->number < second->number;
}

static void sift_down(ff_sorter *sorter, size_t at) {
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < sorter->heap_count; child++)
            if (is_before(sorter, sorter->heap[child], sorter->heap[least])) least = child;
        if (least == at) return;
        uint32_t other = sorter->heap[at];
        sorter->heap[at] = sorter->heap[least];
        sorter->heap[least] = other;
        at = least;
    }
}

static ff_status begin_merge(ff_sorter *sorter, ff_error *error) {
    sorter->merging = true;
    if (!sorter->run_count) {
        sort_arena(sorter);
        return FF_OK;
    }
    FF_TRY(spill(sorter, error));
    free(sorter->arena);
    sorter->arena = NULL;
    FF_TRY(ff_alloc(&sorter->heap, sorter->run_count, sizeof *sorter->heap, "sorted runs", error));
    for (size_t i = 0; i < sorter->run_count; i++) {
        bool more;
        FF_TRY(ff_alloc(&sorter->run[i].window, WINDOW_BYTES, 1, "sorted runs", error));
        FF_TRY(run_fill(sorter, &sorter->run[i], &more, error));
        if (more) sorter->heap[sorter->heap_count++] = (uint32_t)i;
    }
    for (size_t i = sorter->heap_count; i-- > 0;) sift_down(sorter, i);
    return FF_OK;
}

/* Drops the record returned last, which was valid until now. */
static ff_status pass_last(ff_sorter *sorter, ff_error *error) {
    run *from = &sorter->run[sorter->heap[0]];
    ff_sorter_record record = record_at(from->window + from->at);
    from->at += (size_t)SIZES_BYTES + record.key_bytes + record.payload_bytes;
    bool more;
    FF_TRY(run_fill(sorter, from, &more, error));
    if (!more) sorter->heap[0] = sorter->heap[--sorter->heap_count];
    sift_down(sorter, 0);
    return FF_OK;
}

ff_status ff_sorter_next(ff_sorter *sorter, ff_sorter_record *record, bool *more, ff_error *error) {
    bool first = !sorter->merging;
    if (first) FF_TRY(begin_merge(sorter, error));
    if (!sorter->run_count) {
        *more = sorter->next_place < sorter->count;
        if (*more) *record = record_at(sorter->arena + sorter->place[sorter->next_place++]);
        return FF_OK;
    }
    if (!first && sorter->heap_count) FF_TRY(pass_last(sorter, error));
    *more = sorter->heap_count > 0;
    if (*more) {
        const run *from = &sorter->run[sorter->heap[0]];
        *record = record_at(from->window + from->at);
    }
    return FF_OK;
}

void ff_sorter_destroy(ff_sorter **sorter) {
    if (!*sorter) return;
    ff_close_file(&(*sorter)->fd);
    for (size_t i = 0; i < (*sorter)->run_count; i++) free((*sorter)->run[i].window);
    free((*sorter)->run);
    free((*sorter)->heap);
    free((*sorter)->place);
    free((*sorter)->arena);
    free((*sorter)->directory);
    free(*sorter);
    *sorter = NULL;
}
