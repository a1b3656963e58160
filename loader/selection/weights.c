#include "loader/selection/weights.h"

#include "format/base/real.h"
#include "format/base/text.h"
#include "format/disk/checksum.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t count_of(ff_dataset *dataset, const ff_selection *selection) {
    return selection ? selection->count : ff_dataset_count(dataset);
}

static uint64_t number_at(const ff_selection *selection, uint64_t place) {
    return selection ? ff_storage_order_at(&selection->numbers, place) : place;
}

/* ---- classes -------------------------------------------------------------------------------- */

typedef struct member {
    int64_t class;
    uint64_t place;
} member;

static int compare(const void *a, const void *b) {
    const member *left = a, *right = b;
    if (left->class != right->class) return left->class < right->class ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

/* The places that have a class, by class. *all is the caller's to free. */
static ff_status list_members(member **all, uint64_t *count, ff_dataset *dataset,
                              const ff_selection *selection, const char *label, ff_error *error) {
    const uint64_t places = count_of(dataset, selection);
    size_t field;
    *count = 0;
    FF_TRY(ff_selection_field(dataset, label, &field, error));
    FF_TRY(ff_alloc(all, places, sizeof **all, "samples by class", error));
    for (uint64_t place = 0; place < places; place++) {
        member *one = &(*all)[*count];
        one->place = place;
        ff_dataset_scan(dataset, place, FF_SCAN_LABELS);
        FF_TRY(ff_dataset_class(dataset, number_at(selection, place), field, &one->class, error));
        *count += one->class >= 0;
    }
    if (*count) qsort(*all, *count, sizeof **all, compare);
    if (*count) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s: no sample has a class", ff_dataset_path(dataset));
}

/* The index after the last member of the class of `all[begin]`. */
static uint64_t class_end(const member *all, uint64_t begin, uint64_t count) {
    uint64_t end = begin + 1;
    while (end < count && all[end].class == all[begin].class) end++;
    return end;
}

static ff_status balance(double *weight, ff_dataset *dataset, const ff_selection *selection,
                         const char *label, ff_error *error) {
    member *all = NULL;
    uint64_t count;
    ff_status status;
    FF_TRY_DONE(list_members(&all, &count, dataset, selection, label, error));
    for (uint64_t begin = 0, end; begin < count; begin = end) {
        end = class_end(all, begin, count);
        for (uint64_t i = begin; i < end; i++) weight[all[i].place] = 1 / (double)(end - begin);
    }
done:
    free(all);
    return status;
}

static ff_status fill_classes(ff_weights *classes, const member *all, uint64_t count,
                              int64_t *number, const ff_selection *selection, ff_dataset *dataset,
                              ff_error *error) {
    const ff_selection_rule rule = {.index = number, .index_count = count};
    for (uint64_t i = 0; i < count; i++) number[i] = (int64_t)number_at(selection, all[i].place);
    FF_TRY(ff_alloc(&classes->table, count + 1, sizeof *classes->table, "classes", error));
    for (uint64_t begin = 0; begin < count; begin = classes->table[classes->count])
        classes->table[++classes->count] = class_end(all, begin, count);
    FF_TRY(ff_selection_make(&classes->order, dataset, &rule, error));
    classes->id = ff_checksum_seeded(classes->table, (classes->count + 1) * sizeof *classes->table,
                                     classes->order.id);
    return FF_OK;
}

ff_status ff_weights_classes(ff_weights *classes, ff_dataset *dataset,
                             const ff_selection *selection, const char *label, ff_error *error) {
    member *all = NULL;
    int64_t *number = NULL;
    uint64_t count;
    ff_status status;
    *classes = (ff_weights){0};
    FF_TRY_DONE(list_members(&all, &count, dataset, selection, label, error));
    FF_TRY_DONE(ff_alloc(&number, count, sizeof *number, "samples by class", error));
    FF_TRY_DONE(fill_classes(classes, all, count, number, selection, dataset, error));
done:
    free(number);
    free(all);
    if (status != FF_OK) ff_weights_free(classes);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "per_class");
}

/* ---- weights -------------------------------------------------------------------------------- */

/* Whether `count` weights are those of the set, not of the selection. */
static ff_status whose(bool *sets, uint64_t count, ff_dataset *dataset,
                       const ff_selection *selection, ff_error *error) {
    const uint64_t selected = count_of(dataset, selection), all = ff_dataset_count(dataset);
    *sets = count != selected;
    if (count == selected || count == all) return FF_OK;
    return ff_fail(error, FF_USAGE, "there are %" PRIu64 ", but %s has %" PRIu64 " samples%s",
                   count, ff_dataset_path(dataset), selected, selected == all ? "" : " selected");
}

static ff_status copy_weights(double *weight, const double *given, uint64_t count,
                              ff_dataset *dataset, const ff_selection *selection, ff_error *error) {
    bool sets;
    FF_TRY(whose(&sets, count, dataset, selection, error));
    for (uint64_t i = 0; i < count_of(dataset, selection); i++)
        weight[i] = given[sets ? number_at(selection, i) : i];
    return FF_OK;
}

/* *has: a field has this name. */
static ff_status read_field(double *weight, bool *has, ff_dataset *dataset,
                            const ff_selection *selection, const char *name, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_reader *reader;
    uint8_t value[8];
    size_t at;
    *has = ff_dataset_field(dataset, name, &at, NULL) == FF_OK;
    if (!*has) return FF_OK;
    const ff_field *field = &metadata->field[at];
    if (field->kind == FF_FIELD_CLASS || field->kind == FF_FIELD_NONE || field->width != 1)
        return ff_fail(error, FF_USAGE, "field %s of %s does not hold one number per sample", name,
                       ff_dataset_path(dataset));
    FF_TRY(ff_reader_open(&reader, dataset, error));
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < count_of(dataset, selection) && status == FF_OK; i++) {
        float number = 0;
        ff_dataset_scan(dataset, i, FF_SCAN_LABELS);
        status = ff_reader_label(reader, number_at(selection, i), at, value, error);
        if (status == FF_OK) ff_convert(&number, FF_F32, value, field->dtype, 1);
        weight[i] = (double)number;
    }
    ff_reader_close(&reader);
    return status;
}

static ff_status read_lines(double **given, uint64_t *count, char *text, ff_error *error) {
    size_t capacity = 0;
    char *line;
    for (uint64_t at = 1; (line = ff_text_line(&text)); at++) {
        char *end;
        size_t bytes = strlen(line);
        const char *word = ff_text_trim(line, &bytes);
        if (!bytes) continue;
        FF_TRY(ff_reserve(given, &capacity, *count + 1, sizeof **given, "weights", error));
        (*given)[(*count)++] = ff_real_read(word, &end);
        if (end != word + bytes)
            return ff_fail(error, FF_USAGE, "line %" PRIu64 ": '%s' is not a number", at, word);
    }
    return FF_OK;
}

static ff_status read_file(double *weight, ff_dataset *dataset, const ff_selection *selection,
                           const char *path, ff_error *error) {
    char *text = NULL;
    double *given = NULL;
    uint64_t count = 0;
    ff_status status;
    FF_TRY(ff_text_read(path, &text, error));
    status = read_lines(&given, &count, text, error);
    if (status == FF_OK) status = copy_weights(weight, given, count, dataset, selection, error);
    free(given);
    free(text);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", path);
}

static ff_status read_weights(double *weight, ff_dataset *dataset, const ff_selection *selection,
                              const ff_weights_rule *rule, ff_error *error) {
    bool has;
    if (rule->weight)
        return copy_weights(weight, rule->weight, rule->weight_count, dataset, selection, error);
    if (!strcmp(rule->given, "balanced"))
        return balance(weight, dataset, selection, rule->label, error);
    FF_TRY(read_field(weight, &has, dataset, selection, rule->given, error));
    return has ? FF_OK : read_file(weight, dataset, selection, rule->given, error);
}

static ff_status check_weights(const ff_weights *weights, const double *weight, double *sum,
                               ff_error *error) {
    *sum = 0;
    for (uint64_t i = 0; i < weights->count; i++) {
        if (!(weight[i] >= 0 && weight[i] <= DBL_MAX))
            return ff_fail(error, FF_USAGE,
                           "weight %" PRIu64 " is %g; wanted a number of at least 0", i, weight[i]);
        *sum += weight[i];
    }
    if (*sum > 0 && *sum <= DBL_MAX) return FF_OK;
    return ff_fail(error, FF_USAGE, "their sum is %g; wanted a positive number", *sum);
}

/* Whole numbers, of which a positive weight has at least 1. */
static void sum_up(ff_weights *weights, const double *weight, double sum) {
    for (uint64_t i = 0, upto = 0; i < weights->count; i++) {
        const uint64_t share = (uint64_t)(weight[i] / sum * 0x1p62);
        upto += share || !(weight[i] > 0) ? share : 1;
        weights->table[i] = upto;
    }
}

/* ---- without replacement --------------------------------------------------------------------- */

static int descending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

/* The factor that makes a weight the number of its samples an epoch: weights that reach 1 count as
 * 1, and the sum is `samples`. sorted: [positive], from the largest; upto: [positive], what the
 * weights sum to from each one to the last. */
static double scale_of(const double *sorted, double *upto, uint64_t positive, uint64_t samples) {
    uint64_t whole = 0;
    for (uint64_t i = positive; i-- > 0;)
        upto[i] = sorted[i] + (i + 1 < positive ? upto[i + 1] : 0);
    while (whole < samples && sorted[whole] * (double)(samples - whole) >= upto[whole]) whole++;
    return whole < samples ? (double)(samples - whole) / upto[whole] : 1 / sorted[samples - 1];
}

/* Adds to positive shares, or takes from them, until their sum is `wanted`. */
static void settle(uint64_t *share, uint64_t count, uint64_t unit, uint64_t wanted) {
    uint64_t sum = 0, positive = 0;
    for (uint64_t i = 0; i < count; i++) sum += share[i], positive += share[i] != 0;
    while (sum != wanted) {
        const uint64_t step = (sum < wanted ? wanted - sum : sum - wanted) / positive + 1;
        for (uint64_t i = 0; i < count && sum != wanted; i++) {
            if (!share[i]) continue;
            const uint64_t room = sum < wanted ? unit - share[i] : share[i] - 1;
            const uint64_t left = sum < wanted ? wanted - sum : sum - wanted;
            const uint64_t change = step < room ? step : room;
            const uint64_t most = change < left ? change : left;
            share[i] = sum < wanted ? share[i] + most : share[i] - most;
            sum = sum < wanted ? sum + most : sum - most;
        }
    }
}

static ff_status choose_distinct(ff_weights *weights, const double *weight, uint64_t samples,
                                 ff_error *error) {
    double *sorted = NULL;
    uint64_t positive = 0;
    FF_TRY(ff_alloc(&sorted, 2 * weights->count, sizeof *sorted, "weights", error));
    for (uint64_t i = 0; i < weights->count; i++)
        if (weight[i] > 0) sorted[positive++] = weight[i];
    qsort(sorted, positive, sizeof *sorted, descending);
    if (positive >= samples) {
        const double scale = scale_of(sorted, sorted + positive, positive, samples);
        const uint64_t unit = UINT64_C(1) << (__builtin_clzll(samples) - 2);
        for (uint64_t i = 0; i < weights->count; i++) {
            const double part = weight[i] * scale;
            const uint64_t share = part < 1 ? (uint64_t)(part * (double)unit) : unit;
            weights->table[i] = share || !(weight[i] > 0) ? share : 1;
        }
        settle(weights->table, weights->count, unit, samples * unit);
        for (uint64_t i = 1; i < weights->count; i++) weights->table[i] += weights->table[i - 1];
        weights->distinct = samples;
    }
    free(sorted);
    if (positive >= samples) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "without replacement an epoch of %" PRIu64
                   " samples needs as many with a positive weight; there are %" PRIu64,
                   samples, positive);
}

ff_status ff_weights_make(ff_weights *weights, ff_dataset *dataset, const ff_selection *selection,
                          const ff_weights_rule *rule, ff_error *error) {
    double *weight = NULL, sum;
    ff_status status;
    *weights = (ff_weights){.count = count_of(dataset, selection)};
    FF_TRY_DONE(ff_alloc(&weight, weights->count, sizeof *weight, "weights", error));
    FF_TRY_DONE(
        ff_alloc(&weights->table, weights->count, sizeof *weights->table, "weights", error));
    FF_TRY_DONE(read_weights(weight, dataset, selection, rule, error));
    FF_TRY_DONE(check_weights(weights, weight, &sum, error));
    if (rule->distinct)
        FF_TRY_DONE(choose_distinct(weights, weight, rule->samples ? rule->samples : weights->count,
                                    error));
    else
        sum_up(weights, weight, sum);
    weights->id = ff_checksum(weights->table, weights->count * sizeof *weights->table);
done:
    free(weight);
    if (status != FF_OK) ff_weights_free(weights);
    return status;
}

void ff_weights_free(ff_weights *weights) {
    free(weights->table);
    ff_selection_free(&weights->order);
    *weights = (ff_weights){0};
}
