#include "tools/ffpack/copy/choice.h"

#include "format/cli/interrupt.h"

#include <stdlib.h>

/* One bit per sample, and the number of set bits before each word. */
typedef struct bits {
    uint64_t *word, *before; /* [count / 64 + 1] */
} bits;

static bool is_set(const bits *kept, uint64_t number) {
    return kept->word[number / 64] >> number % 64 & 1;
}

/* The count of kept numbers below this one. */
static uint64_t rank_of(const bits *kept, uint64_t number) {
    const uint64_t below = (UINT64_C(1) << number % 64) - 1;
    return kept->before[number / 64] +
           (uint64_t)__builtin_popcountll(kept->word[number / 64] & below);
}

static ff_status open_meant(ff_meant *own, ff_dataset *dataset, const ff_choice_rule *rule,
                            ff_error *error) {
    if (!rule->where) return FF_OK;
    const ff_status status = ff_meant_open(own, dataset, rule->where, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--where");
}

/* Whether the copy has sample `number`. */
static ff_status look_at(ff_choice *choice, ff_dataset *dataset, const ff_choice_rule *rule,
                         ff_meant *own, uint64_t number, bool *keep, ff_error *error) {
    char key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    bool named = false, meant = true;
    if (number % FF_SCAN_WINDOW == 0) FF_TRY(ff_interrupt_check(error));
    ff_dataset_scan(dataset, number, FF_SCAN_ENTRIES | (rule->where ? FF_SCAN_LABELS : 0));
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    if (rule->keys) FF_TRY(ff_keys_look(rule->keys, rule->split, key, key_bytes, &named, error));
    if (rule->where) FF_TRY(ff_meant_look(own, number, rule->split, key, key_bytes, &meant, error));
    *keep = meant && (!rule->keys || named != rule->others);
    choice->key_bytes += *keep ? key_bytes : 0;
    return FF_OK;
}

static ff_status mark(ff_choice *choice, ff_dataset *dataset, const ff_choice_rule *rule,
                      bits *kept, ff_error *error) {
    const uint64_t count = ff_dataset_count(dataset);
    ff_meant own = {0};
    ff_status status;
    FF_TRY_DONE(ff_alloc(&kept->word, count / 64 + 1, sizeof *kept->word, "samples", error));
    FF_TRY_DONE(ff_alloc(&kept->before, count / 64 + 1, sizeof *kept->before, "samples", error));
    FF_TRY_DONE(open_meant(&own, dataset, rule, error));
    for (uint64_t i = 0; i < count; i++) {
        bool keep;
        FF_TRY_DONE(look_at(choice, dataset, rule, &own, i, &keep, error));
        if (i % 64 == 0) kept->before[i / 64] = choice->count;
        kept->word[i / 64] |= (uint64_t)keep << i % 64;
        choice->count += keep;
    }
    status = FF_OK;
done:
    ff_meant_close(&own);
    return status;
}

static ff_status place_all(ff_choice *choice, ff_dataset *dataset, const bits *kept,
                           ff_error *error) {
    ff_storage_order order;
    uint64_t place = 0;
    FF_TRY(ff_alloc(&choice->number, choice->count, sizeof *choice->number, "samples", error));
    FF_TRY(ff_dataset_storage_order(dataset, &order, error));
    ff_status status = FF_OK;
    if (ff_storage_order_differs(&order))
        status = ff_alloc(&choice->item, choice->count, sizeof *choice->item, "samples", error);
    for (uint64_t i = 0; status == FF_OK && i < ff_dataset_count(dataset); i++) {
        const uint64_t number = ff_storage_order_at(&order, i);
        if (!is_set(kept, number)) continue;
        if (choice->item) choice->item[place] = rank_of(kept, number);
        choice->number[place++] = number;
    }
    ff_storage_order_free(&order);
    return status;
}

ff_status ff_choice_make(ff_choice *choice, ff_dataset *dataset, const ff_choice_rule *rule,
                         ff_error *error) {
    bits kept = {0};
    *choice = (ff_choice){0};
    ff_status status = mark(choice, dataset, rule, &kept, error);
    if (status == FF_OK) status = place_all(choice, dataset, &kept, error);
    free(kept.word);
    free(kept.before);
    return status;
}

void ff_choice_free(ff_choice *choice) {
    free(choice->number);
    free(choice->item);
    *choice = (ff_choice){0};
}
