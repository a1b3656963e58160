#include "loader/host/ahead/stage.h"

#include "format/storage/cache.h"

#include <stdlib.h>

/* Neighbours at most this far apart are read together: a disk reads these bytes in less time than
 * another request takes. */
#define GAP_BYTES (16u << 10)
/* The largest request, unless a single sample, frame or block is larger. From about 1 MiB on,
 * larger sequential reads are no faster. */
#define REQUEST_BYTES (UINT64_C(2) << 20)

/* ---- the samples of the rows ---------------------------------------------------------------- */

/* A batch is a small part of a set if the set has at least this many times its samples. */
enum { SMALL_PART = 200 };
/* Extents are fetched alone if their pieces have more than this many times their bytes. */
enum { ALONE_TIMES = 2 };

/* What a row must have in common with the stage's first row. */
typedef struct group {
    uint64_t number;
    uint32_t epoch;
} group;

static group group_of(const ff_ahead_plan *plan, const ff_sequence_batch *batch, uint32_t row) {
    const ff_rows *rows = &plan->rows;
    if (!ff_order_has_blocks(rows->settings->order.kind)) return (group){0};
    return (group){ff_order_group(&rows->order, batch->position + row), batch->epoch};
}

static bool is_same(const ff_extent *left, const ff_extent *right) {
    return left->shard == right->shard && left->offset == right->offset;
}

/* By place, equal extents by row. */
static int compare(const void *a, const void *b) {
    const ff_ahead_need *left = a, *right = b;
    const ff_extent *own = &left->extent, *other = &right->extent;
    if (own->shard != other->shard) return own->shard < other->shard ? -1 : 1;
    if (own->offset != other->offset) return own->offset < other->offset ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

/* Adds the extent of a row's sample; true if it equals the extent before: both samples are in one
 * frame. */
static bool add_sample(ff_ahead_plan *plan, uint64_t number, uint64_t row) {
    if (ff_reserve(&plan->need, &plan->need_capacity, plan->need_count + 1, sizeof *plan->need,
                   "a plan", NULL) != FF_OK)
        return false;
    ff_ahead_need *need = &plan->need[plan->need_count];
    ff_extent *extent = &need->extent;
    need->row = row;
    if (ff_dataset_extent(plan->rows.settings->dataset, number, extent, NULL) != FF_OK ||
        extent->bytes >= plan->limits.bytes ||
        extent->bytes + extent->slots_bytes + 3 * FF_READ_BLOCK > plan->limits.bytes)
        return false;
    return plan->need_count++ && is_same(&need[-1].extent, extent);
}

/* Takes the rows from stage->first on, padding included. Consecutive samples of the last frame stay
 * in one stage. */
static void collect(ff_ahead_plan *plan, ff_ahead_stage *stage) {
    const ff_sequence *sequence = &plan->sequence;
    uint64_t limit = stage->first + plan->rows_now;
    if (plan->first_end && plan->first_end < limit) limit = plan->first_end;
    const uint64_t end = limit + plan->rows.settings->metadata->items_per_block; /* of a frame */
    group first = {0};
    plan->need_count = 0;
    stage->end = stage->first;
    while (!atomic_load(plan->stop)) {
        const uint64_t number = stage->end / sequence->rows;
        if (number >= sequence->total_batches) return;
        const ff_sequence_batch batch = ff_sequence_at(sequence, number);
        ff_rows_begin(&plan->rows, &batch);
        uint32_t row = (uint32_t)(stage->end % sequence->rows);
        for (; row < sequence->rows; row++, stage->end++) {
            const size_t count = plan->need_count;
            const bool sample = row < batch.count;
            const group here = sample ? group_of(plan, &batch, row) : first;
            if (!count) first = here;
            if (here.number != first.number || here.epoch != first.epoch) return;
            const bool same =
                sample && add_sample(plan, ff_rows_sample(&plan->rows, &batch, row), stage->end);
            if (stage->end < limit || (same && stage->end < end)) continue;
            plan->need_count = count;
            return;
        }
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Each extent once, in the order of the disk. */
static void sort(ff_ahead_plan *plan) {
    size_t count = 0;
    ff_ahead_need *need = plan->need;
    if (plan->need_count) qsort(need, plan->need_count, sizeof *need, compare);
    for (size_t i = 0; i < plan->need_count; i++)
        if (!count || !is_same(&need[count - 1].extent, &need[i].extent)) need[count++] = need[i];
    plan->need_count = count;
}

static uint64_t request_limit(const ff_loader_settings *settings) {
    const ff_metadata *metadata = settings->metadata;
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t block = settings->order.block * slot + FF_READ_BLOCK;
    const bool larger = ff_order_has_blocks(settings->order.kind) && block > REQUEST_BYTES;
    return larger ? block : REQUEST_BYTES;
}

static bool joins(const ff_request *request, const ff_request *part, uint64_t limit) {
    const uint64_t end = request->offset + request->bytes;
    return request->shard == part->shard && part->offset <= end + GAP_BYTES &&
           part->offset + part->bytes <= request->offset + limit;
}

/* Adds bytes that lie after all that were added before. */
static ff_status add_bytes(ff_ahead_stage *stage, const ff_request *part, bool may_join,
                           uint64_t limit, ff_error *error) {
    ff_request *last = stage->request_count ? &stage->request[stage->request_count - 1] : NULL;
    if (!last || !may_join || !joins(last, part, limit)) {
        FF_TRY(ff_reserve(&stage->request, &stage->request_capacity, stage->request_count + 1,
                          sizeof *stage->request, "requests", error));
        last = &stage->request[stage->request_count++];
        last->shard = part->shard;
        last->offset = part->offset & ~(FF_READ_BLOCK - 1);
        last->bytes = 0;
        last->row = part->row;
    }
    if (part->row < last->row) last->row = part->row;
    if (part->offset + part->bytes > last->offset + last->bytes)
        last->bytes = part->offset + part->bytes - last->offset;
    return FF_OK;
}

/* Behind a URL a request stays within a piece of the cache: so each piece is needed at one time,
 * and a row waits for the pieces of its sample only. */
static ff_status add_pieces(ff_ahead_stage *stage, const ff_request *whole, uint64_t limit,
                            ff_error *error) {
    const uint64_t end = whole->offset + whole->bytes;
    for (uint64_t at = whole->offset, next; at < end; at = next) {
        const ff_request *last =
            stage->request_count ? &stage->request[stage->request_count - 1] : NULL;
        const uint64_t piece = at / FF_PIECE_BYTES;
        next = (piece + 1) * FF_PIECE_BYTES < end ? (piece + 1) * FF_PIECE_BYTES : end;
        const ff_request part = {
            .shard = whole->shard, .row = whole->row, .offset = at, .bytes = next - at};
        FF_TRY(
            add_bytes(stage, &part, last && last->offset / FF_PIECE_BYTES == piece, limit, error));
    }
    return FF_OK;
}

/* Whether the extents are fetched alone, because their pieces have many more bytes. */
static bool is_alone(const ff_ahead_plan *plan) {
    uint64_t bytes = 0, pieces = 0, end = 0; /* of the last extent's pieces */
    for (size_t i = 0; i < plan->need_count; i++) {
        const ff_extent *extent = &plan->need[i].extent;
        const uint64_t first = extent->offset / FF_PIECE_BYTES;
        const uint64_t last = (extent->offset + extent->bytes - 1) / FF_PIECE_BYTES;
        const bool same = i && extent[0].shard == plan->need[i - 1].extent.shard && first < end;
        bytes += extent->bytes;
        end = last + 1;
        pieces += end - first - same;
    }
    return bytes <= plan->rows.settings->shard_bytes / SMALL_PART &&
           pieces * FF_PIECE_BYTES > ALONE_TIMES * bytes;
}

/* From the extents to requests and frames, and the memory they take. */
static ff_status arrange(const ff_ahead_plan *plan, ff_ahead_stage *stage, ff_error *error) {
    const bool packed = plan->rows.settings->metadata->compression == FF_COMPRESSION_ZSTD;
    const bool remote = ff_dataset_is_remote(plan->rows.settings->dataset);
    const uint64_t limit = request_limit(plan->rows.settings);
    stage->request_count = stage->frame_count = 0;
    stage->alone = plan->first_end && is_alone(plan);
    for (size_t i = 0; i < plan->need_count; i++) {
        const ff_extent *extent = &plan->need[i].extent;
        const ff_request part = {.shard = extent->shard,
                                 .row = plan->need[i].row,
                                 .offset = extent->offset,
                                 .bytes = extent->bytes};
        FF_TRY(remote && !stage->alone ? add_pieces(stage, &part, limit, error)
                                       : add_bytes(stage, &part, true, limit, error));
        if (!packed) continue;
        FF_TRY(ff_reserve(&stage->frame, &stage->frame_capacity, stage->frame_count + 1,
                          sizeof *stage->frame, "frames", error));
        stage->frame[stage->frame_count++].extent = *extent;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < stage->request_count; i++)
        at += ff_align_u64(stage->request[i].bytes, FF_READ_BLOCK);
    for (size_t i = 0; i < stage->frame_count; i++) {
        stage->frame[i].place = at;
        at += ff_align_u64(stage->frame[i].extent.slots_bytes, 64);
    }
    stage->bytes = at ? ff_align_u64(at, FF_READ_BLOCK) : FF_READ_BLOCK;
    return FF_OK;
}

static int compare_rows(const void *a, const void *b, void *requests) {
    const ff_request *request = requests;
    const uint64_t left = request[*(const uint32_t *)a].row,
                   right = request[*(const uint32_t *)b].row;
    if (left != right) return left < right ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* All requests within a piece are as urgent as the first. */
static void share_rows(ff_ahead_stage *stage) {
    for (size_t begin = 0, end; begin < stage->request_count; begin = end) {
        ff_request *request = &stage->request[begin];
        const uint64_t piece = request->offset / FF_PIECE_BYTES;
        uint64_t row = request->row;
        for (end = begin; end < stage->request_count; end++) {
            const ff_request *other = &stage->request[end];
            if (other->shard != request->shard || other->offset / FF_PIECE_BYTES != piece) break;
            if (other->row < row) row = other->row;
        }
        for (size_t i = begin; i < end; i++) stage->request[i].row = row;
    }
}

/* The order in which the rows need them. A disk reads in its own. */
static ff_status order_requests(const ff_ahead_plan *plan, ff_ahead_stage *stage, ff_error *error) {
    if (!ff_dataset_is_remote(plan->rows.settings->dataset)) return FF_OK;
    FF_TRY(ff_reserve(&stage->order, &stage->order_capacity, stage->request_count,
                      sizeof *stage->order, "requests", error));
    share_rows(stage);
    for (size_t i = 0; i < stage->request_count; i++) stage->order[i] = (uint32_t)i;
    qsort_r(stage->order, stage->request_count, sizeof *stage->order, compare_rows, stage->request);
    return FF_OK;
}

void ff_ahead_plan_first(ff_ahead_plan *plan, uint64_t first) {
    const ff_loader_settings *settings = plan->rows.settings;
    const bool small = plan->sequence.batch <= settings->stored / SMALL_PART;
    plan->first_end = small ? first + plan->sequence.rows : 0;
}

/* What locates the samples at these places: once more if others lie there than was taken. */
static void bring_places(const ff_loader_settings *settings, const uint64_t *place,
                         uint64_t *number, size_t count) {
    const ff_storage_order *storage = &settings->storage;
    bool moved;
    do {
        moved = false;
        for (size_t i = 0; i < count; i++) number[i] = ff_storage_order_at(storage, place[i]);
        ff_dataset_bring_samples(settings->dataset, number, count);
        for (size_t i = 0; i < count; i++) {
            (void)!ff_storage_order_prove(storage, place[i], NULL); /* rows report why not */
            moved |= ff_storage_order_at(storage, place[i]) != number[i];
        }
    } while (moved);
}

/* What locates the samples of rows. */
static void bring_rows(ff_ahead_plan *plan, uint64_t first, uint64_t end) {
    const ff_sequence *sequence = &plan->sequence;
    uint64_t *place; /* [2 * (end - first)]: the places, then the numbers of their samples */
    size_t count = 0;
    if (ff_alloc(&place, 2 * (end - first), sizeof *place, "a plan", NULL) != FF_OK) return;
    for (uint64_t at = first; at < end && at / sequence->rows < sequence->total_batches; at++) {
        const ff_sequence_batch batch = ff_sequence_at(sequence, at / sequence->rows);
        const uint32_t row = (uint32_t)(at % sequence->rows);
        ff_rows_begin(&plan->rows, &batch);
        if (row < batch.count) place[count++] = ff_rows_place(&plan->rows, &batch, row);
    }
    bring_places(plan->rows.settings, place, place + (end - first), count);
    free(place);
}

void ff_ahead_plan_bring(ff_ahead_plan *plan, uint64_t first) {
    if (plan->first_end > first) {
        bring_rows(plan, first, plan->first_end + 1); /* planning looks at the row after a stage */
    } else if (!plan->whole_index) {
        ff_dataset_bring_index(plan->rows.settings->dataset);
        plan->whole_index = true;
        /* Rows report why not. */
        (void)!ff_storage_order_settle(&plan->rows.settings->storage, NULL);
    }
}

void ff_ahead_plan_stage(ff_ahead_plan *plan, ff_ahead_stage *stage, uint64_t first) {
    stage->first = first;
    for (;;) {
        collect(plan, stage);
        sort(plan);
        if (arrange(plan, stage, NULL) != FF_OK || order_requests(plan, stage, NULL) != FF_OK) {
            stage->request_count = stage->frame_count = 0;
            stage->bytes = FF_READ_BLOCK;
        }
        if (stage->bytes <= plan->limits.bytes) break;
        /* Fewer rows, also for the next stages, whose rows are probably as large. */
        const uint64_t rows = stage->end - first;
        if (rows < plan->rows_now) plan->rows_now = rows;
        plan->rows_now = plan->rows_now * plan->limits.bytes / stage->bytes * 15 / 16;
        if (!plan->rows_now) plan->rows_now = 1; /* one sample, or one frame, has room */
    }
    if (stage->bytes < plan->limits.bytes / 2) plan->rows_now *= 2;
    if (plan->rows_now > plan->limits.rows) plan->rows_now = plan->limits.rows;
    stage->left = stage->end - first;
    atomic_store(&stage->pending, stage->request_count);
}

void ff_ahead_stage_place(ff_ahead_stage *stage, uint8_t *memory) {
    uint64_t at = 0;
    stage->memory = memory;
    stage->front = 0;
    atomic_store(&stage->awaited, false);
    for (size_t i = 0; i < stage->request_count; i++) {
        ff_request *request = &stage->request[i];
        request->to = memory ? memory + at : NULL;
        request->alone = stage->alone;
        request->owner = stage;
        atomic_store(&request->awaited, false);
        atomic_store(&request->state, FF_REQUEST_WAITS);
        at += ff_align_u64(request->bytes, FF_READ_BLOCK);
    }
    for (size_t i = 0; i < stage->frame_count; i++)
        atomic_store(&stage->frame[i].state, FF_FRAME_PACKED);
}

void ff_ahead_stage_free(ff_ahead_stage *stage) {
    free(stage->request);
    free(stage->order);
    free(stage->frame);
    *stage = (ff_ahead_stage){0};
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool is_after(uint32_t shard, uint64_t offset, uint32_t than_shard, uint64_t than) {
    return shard != than_shard ? shard > than_shard : offset > than;
}

ff_request *ff_ahead_stage_requests(const ff_ahead_stage *stage, uint32_t shard, uint64_t offset,
                                    uint64_t bytes, size_t *count) {
    size_t low = 0, high = stage->request_count;
    while (low < high) { /* the first one after it */
        const size_t middle = low + (high - low) / 2;
        const ff_request *request = &stage->request[middle];
        if (is_after(request->shard, request->offset, shard, offset))
            high = middle;
        else
            low = middle + 1;
    }
    if (!low) return NULL;
    ff_request *first = &stage->request[low - 1];
    uint64_t at = offset;
    for (*count = 0; at < offset + bytes; ++*count) {
        const ff_request *request = first + *count;
        const bool holds = low - 1 + *count < stage->request_count && request->shard == shard &&
                           (*count ? request->offset == at : at - request->offset < request->bytes);
        if (!holds) return NULL;
        at = request->offset + request->bytes;
    }
    return first;
}

ff_ahead_frame *ff_ahead_stage_frame(const ff_ahead_stage *stage, uint32_t shard, uint64_t offset,
                                     uint64_t bytes) {
    size_t low = 0, high = stage->frame_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const ff_extent *extent = &stage->frame[middle].extent;
        if (is_after(extent->shard, extent->slots, shard, offset))
            high = middle;
        else
            low = middle + 1;
    }
    if (!low) return NULL;
    ff_ahead_frame *frame = &stage->frame[low - 1];
    const ff_extent *extent = &frame->extent;
    const bool holds = extent->shard == shard && offset - extent->slots <= extent->slots_bytes &&
                       bytes <= extent->slots_bytes - (offset - extent->slots);
    return holds ? frame : NULL;
}
