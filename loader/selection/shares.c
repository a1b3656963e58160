#include "loader/selection/shares.h"

#include "format/base/real.h"
#include "format/disk/checksum.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 1000000, SHARE_MOST = 1000000 };

/* ---- reading -------------------------------------------------------------------------------- */

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* Sums of the shares in their smallest whole numbers. */
static void sum_up(ff_shares_stage *stage, const uint64_t *share, uint32_t count) {
    uint64_t divisor = 0;
    for (uint32_t i = 0; i < count; i++) divisor = common_divisor(divisor, share[i]);
    for (uint32_t i = 0; i < count; i++)
        stage->upto[i + 1] = stage->upto[i] + (divisor ? share[i] / divisor : 0);
}

/* Reads "EPOCH:" of all stages but the first, and a number for each set; *at moves behind them. */
static ff_status read_stage(ff_shares *shares, const char **at, ff_error *error) {
    ff_shares_stage *stage = &shares->stage[shares->stages];
    uint64_t share[FF_SETS_LIMIT];
    uint32_t count = 0;
    char *end;
    if (shares->stages) {
        const unsigned long epoch = strtoul(*at, &end, 10);
        if (end == *at || **at == '-' || *end != ':' || epoch > UINT32_MAX ||
            epoch <= stage[-1].epoch)
            return ff_fail(error, FF_USAGE,
                           "'%s' does not begin with EPOCH: and a later epoch than the shares "
                           "before it",
                           *at);
        stage->epoch = (uint32_t)epoch;
        *at = end + 1;
    }
    for (bool more = true; more; *at = end + more) {
        const double value = ff_real_read(*at, &end);
        if (end == *at || !(value >= 0 && value <= SHARE_MOST))
            return ff_fail(error, FF_USAGE, "'%s' does not begin with a number from 0 to %d", *at,
                           SHARE_MOST);
        more = *end == ',';
        const uint64_t parts = (uint64_t)(value * PARTS + 0.5);
        if (value > 0 && !parts)
            return ff_fail(error, FF_USAGE,
                           "'%s' begins with a share that rounds to 0 millionths; wanted 0, or "
                           "larger shares",
                           *at);
        if (count < shares->count) share[count] = parts;
        count++;
    }
    if (count != shares->count)
        return ff_fail(error, FF_USAGE, "there are %" PRIu32 ", but %" PRIu32 " set%s", count,
                       shares->count, shares->count == 1 ? "" : "s");
    sum_up(stage, share, count);
    if (stage->upto[count]) return FF_OK;
    return ff_fail(error, FF_USAGE, "their sum is 0; wanted a positive number");
}

static ff_status read_stages(ff_shares *shares, const char *given, ff_error *error) {
    size_t capacity = 0;
    for (bool more = true; more; given++) {
        FF_TRY(ff_reserve(&shares->stage, &capacity, shares->stages + 1, sizeof *shares->stage,
                          "shares", error));
        FF_TRY(read_stage(shares, &given, error));
        shares->stages++;
        more = *given == ';';
        if (*given && !more)
            return ff_fail(error, FF_USAGE,
                           "'%s' is neither another number after a comma nor "
                           "another epoch after a semicolon",
                           given);
    }
    return FF_OK;
}

/* ---- the sets' places ----------------------------------------------------------------------- */

/* The selection's numbers by set, each set's in their order. */
static ff_status sort_by_set(ff_shares *shares, ff_dataset *dataset, const ff_selection *selection,
                             ff_error *error) {
    int64_t *number;
    uint64_t next[FF_SETS_LIMIT];
    const ff_selection_rule sorted = {.index_count = selection->count};
    ff_selection_rule rule = sorted;
    for (uint64_t i = 0; i < selection->count; i++)
        shares
            ->begin[ff_dataset_set_of(dataset, ff_storage_order_at(&selection->numbers, i)) + 1]++;
    for (uint32_t i = 0; i < shares->count; i++) shares->begin[i + 1] += shares->begin[i];
    memcpy(next, shares->begin, sizeof next);
    FF_TRY(ff_alloc(&number, selection->count, sizeof *number, "samples by set", error));
    for (uint64_t i = 0; i < selection->count; i++) {
        const uint64_t one = ff_storage_order_at(&selection->numbers, i);
        number[next[ff_dataset_set_of(dataset, one)]++] = (int64_t)one;
    }
    rule.index = number;
    const ff_status status = ff_selection_make(&shares->order, dataset, &rule, error);
    free(number);
    return status;
}

static ff_status find_places(ff_shares *shares, ff_dataset *dataset, const ff_selection *selection,
                             ff_error *error) {
    for (uint32_t i = 0; i <= shares->count && !selection; i++)
        shares->begin[i] = ff_dataset_set_begin(dataset, i);
    if (selection) FF_TRY(sort_by_set(shares, dataset, selection, error));
    for (uint32_t s = 0; s < shares->stages; s++)
        for (uint32_t i = 0; i < shares->count; i++)
            if (shares->begin[i] == shares->begin[i + 1] &&
                shares->stage[s].upto[i] < shares->stage[s].upto[i + 1])
                return ff_fail(error, FF_USAGE, "%s has a share, but %s",
                               ff_dataset_path(ff_dataset_set(dataset, i)),
                               selection ? "none of its samples is selected" : "no samples");
    return FF_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

static uint64_t id_of(const ff_shares *shares) {
    const uint64_t by_batch = shares->by_batch;
    const size_t bytes = (shares->count + 1) * sizeof(uint64_t);
    uint64_t id = ff_checksum_seeded(&by_batch, sizeof by_batch, shares->order.id);
    id = ff_checksum_seeded(shares->begin, bytes, id);
    for (uint32_t i = 0; i < shares->stages; i++) {
        const uint64_t epoch = shares->stage[i].epoch;
        id = ff_checksum_seeded(&epoch, sizeof epoch, id);
        id = ff_checksum_seeded(shares->stage[i].upto, bytes, id);
    }
    return id;
}

ff_status ff_shares_make(ff_shares *shares, ff_dataset *dataset, const ff_selection *selection,
                         const char *given, bool by_batch, ff_error *error) {
    ff_status status;
    *shares = (ff_shares){.count = (uint32_t)ff_dataset_set_count(dataset), .by_batch = by_batch};
    FF_TRY_DONE(read_stages(shares, given, error));
    FF_TRY_DONE(find_places(shares, dataset, selection, error));
    shares->id = id_of(shares);
done:
    if (status == FF_OK) return FF_OK;
    ff_shares_free(shares);
    return ff_fail_within(error, status, "shares");
}

void ff_shares_free(ff_shares *shares) {
    free(shares->stage);
    ff_selection_free(&shares->order);
    *shares = (ff_shares){0};
}

/* ---- the table ------------------------------------------------------------------------------ */

ff_status ff_shares_table(const ff_shares *shares, uint64_t units, uint64_t unit, uint64_t **table,
                          ff_error *error) {
    const size_t ends = shares->count + 1;
    FF_TRY(
        ff_alloc(table, ends + shares->stages * (1 + 2 * ends), sizeof **table, "shares", error));
    uint64_t *at = *table;
    memcpy(at, shares->begin, ends * sizeof *at);
    at += ends;
    for (uint32_t s = 0; s < shares->stages; s++, at += 1 + 2 * ends) {
        const uint64_t *upto = shares->stage[s].upto, all = upto[shares->count];
        *at = shares->stage[s].epoch;
        for (size_t k = 0; k < ends; k++) {
            const unsigned __int128 slots = (unsigned __int128)unit * upto[k];
            at[1 + k] = (uint64_t)(slots / all);
            at[1 + ends + k] = units - (uint64_t)((unsigned __int128)units * (slots % all) / all);
        }
    }
    return FF_OK;
}
