#include "loader/selection/selection.h"

#include "format/disk/checksum.h"
#include "format/select/meant.h"
#include "loader/selection/list.h"
#include "loader/selection/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- lists of numbers ----------------------------------------------------------------------- */

static ff_status create_numbers(ff_storage_order *numbers, uint64_t count, uint64_t of,
                                ff_error *error) {
    const bool wide = of > UINT32_MAX;
    *numbers = (ff_storage_order){0};
    numbers->bytes = count * (wide ? sizeof *numbers->wide : sizeof *numbers->narrow);
    return wide ? ff_alloc(&numbers->wide, count, sizeof *numbers->wide, "samples", error)
                : ff_alloc(&numbers->narrow, count, sizeof *numbers->narrow, "samples", error);
}

static void put(ff_storage_order *numbers, uint64_t place, uint64_t number) {
    if (numbers->wide)
        numbers->wide[place] = number;
    else
        numbers->narrow[place] = (uint32_t)number;
}

/* ---- making --------------------------------------------------------------------------------- */

/* All that is asked of a sample. */
typedef struct filter {
    ff_dataset *dataset;
    ff_where *where; /* NULL: nothing */
    ff_meant meant;
    ff_part split, fold;
    bool uses_keys;
} filter;

static ff_status open_filter(filter *own, ff_dataset *dataset, const ff_selection_rule *rule,
                             ff_error *error) {
    *own = (filter){.dataset = dataset, .uses_keys = rule->where || rule->split || rule->fold};
    FF_TRY(ff_part_make(&own->split, rule->split, NULL, rule->label, dataset, error));
    FF_TRY(ff_part_make(&own->fold, NULL, rule->fold, rule->label, dataset, error));
    if (!rule->where) return FF_OK;
    FF_TRY(ff_alloc(&own->where, 1, sizeof *own->where, "an expression", error));
    ff_status status = ff_where_read(own->where, rule->where, error);
    if (status == FF_OK) status = ff_meant_open(&own->meant, dataset, own->where, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "where");
}

static void close_filter(filter *own) {
    ff_part_free(&own->split);
    ff_part_free(&own->fold);
    ff_meant_close(&own->meant);
    free(own->where);
}

static ff_status look_at(filter *own, uint64_t number, bool *keep, ff_error *error) {
    char key[FF_KEY_LIMIT_BYTES];
    size_t bytes;
    bool of_split, of_fold;
    *keep = true;
    if (!own->uses_keys) return FF_OK;
    FF_TRY(ff_dataset_key(own->dataset, number, key, &bytes, error));
    FF_TRY(ff_part_look(&own->split, number, key, bytes, &of_split, error));
    FF_TRY(ff_part_look(&own->fold, number, key, bytes, &of_fold, error));
    *keep = of_split && of_fold;
    if (!*keep || !own->where) return FF_OK;
    return ff_meant_look(&own->meant, number, ff_list_split(own->dataset, number), key, bytes, keep,
                         error);
}

/* index: NULL = all of the set. */
static ff_status choose(ff_selection *selection, filter *own, const int64_t *index, uint64_t count,
                        ff_error *error) {
    FF_TRY(create_numbers(&selection->numbers, count, selection->of, error));
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = index ? (uint64_t)index[i] : i;
        bool keep;
        if (!index) ff_dataset_scan(own->dataset, i, FF_SCAN_ENTRIES | FF_SCAN_LABELS);
        if (number >= selection->of)
            return ff_fail(error, FF_USAGE,
                           "indices: sample %" PRId64 " (index %" PRIu64
                           " of them) does not exist; %s has samples 0 to %" PRIu64,
                           (int64_t)number, i, ff_dataset_path(own->dataset), selection->of - 1);
        FF_TRY(look_at(own, number, &keep, error));
        if (!keep) continue;
        put(&selection->numbers, selection->count++, number);
        selection->id = ff_checksum_seeded(&number, sizeof number, selection->id);
    }
    if (selection->count) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s: none of its %" PRIu64 " samples is selected",
                   ff_dataset_path(own->dataset), selection->of);
}

static ff_status find_repeats(ff_selection *selection, ff_error *error) {
    uint8_t *seen; /* a bit for each sample of the set */
    FF_TRY(ff_alloc(&seen, selection->of / 8 + 1, 1, "samples", error));
    for (uint64_t i = 0; i < selection->count && !selection->repeats; i++) {
        const uint64_t number = ff_storage_order_at(&selection->numbers, i);
        selection->repeats = seen[number / 8] >> number % 8 & 1;
        seen[number / 8] |= (uint8_t)(1 << number % 8);
    }
    free(seen);
    return FF_OK;
}

ff_status ff_selection_make(ff_selection *selection, ff_dataset *dataset,
                            const ff_selection_rule *rule, ff_error *error) {
    int64_t *listed = NULL;
    const int64_t *index = rule->index;
    size_t count = index ? rule->index_count : ff_dataset_count(dataset);
    filter own = {0};
    ff_status status;
    *selection = (ff_selection){0};
    if (rule->index && rule->list)
        return ff_fail(error, FF_USAGE, "indices: numbers and a file; wanted one of them");
    if (rule->list) FF_TRY(ff_list_read(&listed, &count, dataset, rule->list, error));
    if (rule->list) index = listed;
    selection->of = ff_dataset_count(dataset);
    FF_TRY_DONE(open_filter(&own, dataset, rule, error));
    FF_TRY_DONE(choose(selection, &own, index, count, error));
    if (index) FF_TRY_DONE(find_repeats(selection, error));
done:
    close_filter(&own);
    free(listed);
    if (status != FF_OK) ff_selection_free(selection);
    return status;
}

void ff_selection_free(ff_selection *selection) {
    ff_storage_order_free(&selection->numbers);
    *selection = (ff_selection){0};
}

ff_status ff_selection_field(ff_dataset *dataset, const char *label, size_t *field,
                             ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    *field = 0;
    if (label) FF_TRY(ff_dataset_field(dataset, label, field, error));
    while (!label && *field < metadata->field_count &&
           metadata->field[*field].kind != FF_FIELD_CLASS)
        ++*field;
    if (*field < metadata->field_count && metadata->field[*field].kind == FF_FIELD_CLASS)
        return FF_OK;
    return ff_fail(error, FF_USAGE, "%s has no label that is a class%s%s", ff_dataset_path(dataset),
                   label ? " named " : "", label ? label : "");
}

ff_selection_text ff_selection_say(const ff_selection *selection) {
    ff_selection_text said = {.text = "all samples"};
    if (selection && selection->count)
        snprintf(said.text, sizeof said.text, "%" PRIu64 " of %" PRIu64 " samples (%016" PRIx64 ")",
                 selection->count, selection->of, selection->id);
    return said;
}

/* ---- the places of an order ----------------------------------------------------------------- */

/* Sorts the numbers into storage order: each is counted, then placed as often. */
static ff_status sort_places(const ff_selection *selection, const ff_storage_order *stored,
                             ff_storage_order *places, ff_error *error) {
    uint32_t *times;
    uint64_t place = 0;
    FF_TRY(ff_alloc(&times, selection->of, sizeof *times, "samples", error));
    for (uint64_t i = 0; i < selection->count; i++)
        times[ff_storage_order_at(&selection->numbers, i)]++;
    for (uint64_t i = 0; i < selection->of; i++) {
        const uint64_t number = ff_storage_order_at(stored, i);
        for (uint32_t time = 0; time < times[number]; time++) put(places, place++, number);
    }
    free(times);
    return FF_OK;
}

ff_status ff_selection_places(const ff_selection *selection, ff_dataset *dataset, bool stored,
                              ff_storage_order *places, ff_error *error) {
    ff_storage_order all = {0};
    ff_status status;
    *places = (ff_storage_order){0};
    if (!selection) return stored ? ff_dataset_storage_order_later(dataset, places, error) : FF_OK;
    FF_TRY_DONE(create_numbers(places, selection->count, selection->of, error));
    if (stored) {
        FF_TRY_DONE(ff_dataset_storage_order(dataset, &all, error));
        FF_TRY_DONE(sort_places(selection, &all, places, error));
    }
    for (uint64_t i = 0; !stored && i < selection->count; i++)
        put(places, i, ff_storage_order_at(&selection->numbers, i));
done:
    ff_storage_order_free(&all);
    if (status != FF_OK) ff_storage_order_free(places);
    return status;
}
