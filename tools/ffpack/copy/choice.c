#include "tools/ffpack/copy/choice.h"

#include "format/base/interrupt.h"

#include <stdlib.h>

/* A bit a sample, and how many are set before each word. */
typedef struct bits {
    uint64_t *word, *before; /* [count / 64 + 1] */
} bits;

static bool is_set(const bits *kept, uint64_t number) {
    return kept->word[number / 64] >> number % 64 & 1;
}

/* How many numbers below this one are kept. */
static uint64_t rank_of(const bits *kept, uint64_t number) {
    const uint64_t below = (UINT64_C(1) << number % 64) - 1;
    return kept->before[number / 64] +
           (uint64_t)__builtin_popcountll(kept->word[number / 64] & below);
}

/* Whether the copy has sample `number`. */
static ff_status look_at(ff_choice *choice, ff_dataset *dataset, const char *split, ff_keys *keys,
                         bool others, uint64_t number, bool *keep, ff_error *error) {
    char key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    bool named = false;
    if (number % FF_SCAN_WINDOW == 0) FF_TRY(ff_interrupt_check(error));
    ff_dataset_scan(dataset, number, FF_SCAN_ENTRIES);
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    if (keys) FF_TRY(ff_keys_look(keys, split, key, key_bytes, &named, error));
    *keep = !keys || named != others;
    choice->key_bytes += *keep ? key_bytes : 0;
    return FF_OK;
}

static ff_status mark(ff_choice *choice, ff_dataset *dataset, const char *split, ff_keys *keys,
                      bool others, bits *kept, ff_error *error) {
    const uint64_t count = ff_dataset_count(dataset);
    FF_TRY(ff_alloc(&kept->word, count / 64 + 1, sizeof *kept->word, "samples", error));
    FF_TRY(ff_alloc(&kept->before, count / 64 + 1, sizeof *kept->before, "samples", error));
    for (uint64_t i = 0; i < count; i++) {
        bool keep;
        FF_TRY(look_at(choice, dataset, split, keys, others, i, &keep, error));
        if (i % 64 == 0) kept->before[i / 64] = choice->count;
        kept->word[i / 64] |= (uint64_t)keep << i % 64;
        choice->count += keep;
    }
    return FF_OK;
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

ff_status ff_choice_make(ff_choice *choice, ff_dataset *dataset, const char *split, ff_keys *keys,
                         bool others, ff_error *error) {
    bits kept = {0};
    *choice = (ff_choice){0};
    ff_status status = mark(choice, dataset, split, keys, others, &kept, error);
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
