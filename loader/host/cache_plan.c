#include "loader/host/cache_plan.h"

#include "format/storage/cache.h"
#include "loader/host/ahead/uses.h"

#include <stdlib.h>

struct ff_cache_plan {
    ff_order_spec order;
    uint32_t pieces, epochs;
    uint32_t *use;       /* [uses]: pieces, in the order of their use, without repetitions */
    uint64_t uses, room; /* used and allocated */
    uint64_t *end;       /* [epochs] */
    uint32_t *bytes;     /* [pieces] */
    uint64_t epoch_bytes, epoch_pieces;
    bool failed;
};

/* ---- the uses ------------------------------------------------------------------------------- */

static void take(void *context, uint32_t piece, uint32_t position) {
    ff_cache_plan *plan = context;
    (void)position;
    if (plan->uses && plan->use[plan->uses - 1] == piece) return;
    if (plan->uses == plan->room) {
        const uint64_t room = plan->room ? 2 * plan->room : 1 << 16;
        uint32_t *more = realloc(plan->use, room * sizeof *more);
        plan->failed |= !more;
        if (!more) return;
        plan->use = more;
        plan->room = room;
    }
    plan->use[plan->uses++] = piece;
}

static ff_status number_pieces(ff_cache_plan *plan, ff_dataset *dataset, const uint32_t *first,
                               ff_error *error) {
    plan->pieces = first[ff_dataset_shard_count(dataset)];
    FF_TRY(ff_alloc(&plan->bytes, plan->pieces, sizeof *plan->bytes, "a plan", error));
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard(dataset, i, &shard, error));
        for (uint32_t p = first[i]; p < first[i + 1]; p++) {
            const uint64_t left = shard.file_bytes - (p - first[i]) * FF_PIECE_BYTES;
            plan->bytes[p] = (uint32_t)(left < FF_PIECE_BYTES ? left : FF_PIECE_BYTES);
        }
    }
    return FF_OK;
}

static ff_status sum_epoch(ff_cache_plan *plan, ff_error *error) {
    bool *used;
    FF_TRY(ff_alloc(&used, plan->pieces, sizeof *used, "a plan", error));
    for (uint64_t i = 0; i < plan->end[0]; i++) {
        if (used[plan->use[i]]) continue;
        used[plan->use[i]] = true;
        plan->epoch_bytes += plan->bytes[plan->use[i]];
        plan->epoch_pieces++;
    }
    free(used);
    return FF_OK;
}

static ff_status walk_epochs(ff_cache_plan *plan, const ff_loader_settings *settings,
                             ff_error *error) {
    uint32_t *first = NULL;
    ff_status status;
    FF_TRY_DONE(ff_uses_number(&first, settings->dataset, error));
    FF_TRY_DONE(number_pieces(plan, settings->dataset, first, error));
    FF_TRY_DONE(ff_alloc(&plan->end, plan->epochs, sizeof *plan->end, "a plan", error));
    for (uint32_t epoch = 0; epoch < plan->epochs && !plan->failed; epoch++) {
        FF_TRY_DONE(ff_uses_walk(settings, first, settings->given.epoch + epoch,
                                 ff_uses_groups(settings), take, plan, error));
        plan->end[epoch] = plan->uses;
    }
    status = plan->failed
                 ? ff_fail(error, FF_NO_MEMORY, "no memory for the uses of %u epochs", plan->epochs)
                 : sum_epoch(plan, error);
done:
    free(first);
    return status;
}

ff_status ff_cache_plan_create(ff_cache_plan **out, ff_dataset *dataset,
                               const ff_loader_options *options, uint32_t epochs, ff_error *error) {
    ff_loader_settings settings;
    ff_cache_plan *plan;
    *out = NULL;
    FF_TRY(ff_loader_settings_init(&settings, dataset, options, error));
    ff_status status = ff_storage_order_settle(&settings.storage, error);
    if (status == FF_OK) status = ff_alloc(&plan, 1, sizeof *plan, "a plan", error);
    if (status == FF_OK) {
        plan->order = settings.order;
        plan->epochs = epochs;
        status = walk_epochs(plan, &settings, error);
        if (status != FF_OK) ff_cache_plan_destroy(&plan);
        *out = plan;
    }
    ff_loader_settings_free(&settings);
    return status;
}

void ff_cache_plan_destroy(ff_cache_plan **plan) {
    if (!*plan) return;
    free((*plan)->use);
    free((*plan)->end);
    free((*plan)->bytes);
    free(*plan);
    *plan = NULL;
}

uint64_t ff_cache_plan_bytes(const ff_cache_plan *plan) {
    return plan->epoch_bytes;
}

uint64_t ff_cache_plan_room(const ff_cache_plan *plan) {
    return plan->epoch_pieces * FF_PIECE_BYTES;
}

void ff_cache_plan_blocks(const ff_cache_plan *plan, uint64_t *block, uint64_t *group) {
    *block = plan->order.block;
    *group = plan->order.group;
}

/* ---- the cache ------------------------------------------------------------------------------ */

/* The pieces that are there: a heap, whose first is the one that gives way. */
typedef struct simulated {
    uint64_t *key;   /* [pieces]: the larger, the sooner a piece gives way */
    uint32_t *place; /* [pieces]: 1 + its place in the heap; 0 = it is not there */
    uint32_t *heap;  /* [capacity] */
    uint32_t count;
    uint64_t *next; /* [uses]: of the same piece; UINT64_MAX - 1 = none */
} simulated;

static void put(simulated *cache, uint32_t at, uint32_t piece) {
    cache->heap[at] = piece;
    cache->place[piece] = at + 1;
}

/* The piece at `at` has a new key. */
static void sift(simulated *cache, uint32_t at) {
    const uint32_t piece = cache->heap[at];
    const uint64_t key = cache->key[piece];
    while (at && cache->key[cache->heap[(at - 1) / 2]] < key) {
        put(cache, at, cache->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child; (child = 2 * at + 1) < cache->count; at = child) {
        if (child + 1 < cache->count &&
            cache->key[cache->heap[child + 1]] > cache->key[cache->heap[child]])
            child++;
        if (cache->key[cache->heap[child]] <= key) break;
        put(cache, at, cache->heap[child]);
    }
    put(cache, at, piece);
}

/* Uses a piece: true if it had to be fetched. */
static bool use(simulated *cache, uint32_t piece, uint64_t key, uint32_t capacity) {
    const bool there = cache->place[piece];
    cache->key[piece] = key;
    if (!there && cache->count == capacity) {
        cache->place[cache->heap[0]] = 0;
        put(cache, 0, piece);
    } else if (!there) {
        put(cache, cache->count++, piece);
    }
    sift(cache, cache->place[piece] - 1);
    return !there;
}

/* For each use the next one of the same piece. */
static ff_status find_next(simulated *cache, const ff_cache_plan *plan, ff_error *error) {
    FF_TRY(ff_alloc(&cache->next, plan->uses, sizeof *cache->next, "a plan", error));
    for (uint32_t p = 0; p < plan->pieces; p++) cache->key[p] = UINT64_MAX - 1;
    for (uint64_t i = plan->uses; i-- > 0;) {
        cache->next[i] = cache->key[plan->use[i]];
        cache->key[plan->use[i]] = i;
    }
    return FF_OK;
}

ff_status ff_cache_plan_count(const ff_cache_plan *plan, uint64_t cache_bytes,
                              ff_replacement replacement, ff_cache_fetches *fetches,
                              ff_error *error) {
    const uint64_t fits = cache_bytes / FF_PIECE_BYTES;
    const uint32_t capacity = fits < plan->pieces ? (uint32_t)fits : plan->pieces;
    simulated cache = {0};
    uint64_t further = 0;
    ff_status status;
    *fetches = (ff_cache_fetches){0};
    if (!capacity) return ff_fail(error, FF_USAGE, "a cache of less than a piece of 1 MiB");
    FF_TRY_DONE(ff_alloc(&cache.key, plan->pieces, sizeof *cache.key, "a plan", error));
    FF_TRY_DONE(ff_alloc(&cache.place, plan->pieces, sizeof *cache.place, "a plan", error));
    FF_TRY_DONE(ff_alloc(&cache.heap, capacity, sizeof *cache.heap, "a plan", error));
    if (replacement == FF_REPLACES_FURTHEST) FF_TRY_DONE(find_next(&cache, plan, error));
    status = FF_OK;
    for (uint64_t i = 0; i < plan->uses; i++) {
        const uint32_t piece = plan->use[i];
        if (use(&cache, piece, cache.next ? cache.next[i] : UINT64_MAX - i, capacity))
            *(i < plan->end[0] ? &fetches->first : &further) += plan->bytes[piece];
    }
    if (plan->epochs > 1) fetches->further = further / (plan->epochs - 1);
done:
    free(cache.key);
    free(cache.place);
    free(cache.heap);
    free(cache.next);
    return status;
}
