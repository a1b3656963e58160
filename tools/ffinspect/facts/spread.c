#include "tools/ffinspect/facts/spread.h"

#include "format/base/memory.h"
#include "format/cli/interrupt.h"

#include <stdlib.h>

/* Larger values are ids, not classes to spread over. */
enum { CLASSES_LIMIT = 1 << 24 };

/* A class; the last one holds the unlabeled samples. */
typedef struct spread_class {
    uint64_t count, share; /* its number of samples, and the number to choose */
    uint64_t seen, chosen; /* in the second pass */
    uint64_t begin;        /* place of its first sample in `number` */
} spread_class;

typedef struct spread_classes {
    spread_class *item;
    size_t count, capacity;
} spread_classes;

/* The middle of part `i` of `parts` equal parts of `count`. */
static uint64_t middle(uint64_t i, uint64_t parts, uint64_t count) {
    return (uint64_t)(((unsigned __int128)(2 * i + 1) * count) / (2 * parts));
}

static ff_status count_classes(spread_classes *classes, ff_dataset *dataset, size_t field,
                               bool *sound, ff_error *error) {
    uint64_t unlabeled = 0;
    *sound = true;
    for (uint64_t i = 0; i < ff_dataset_count(dataset) && *sound; i++) {
        int64_t value;
        FF_TRY(ff_interrupt_check(error));
        ff_dataset_scan(dataset, i, FF_SCAN_LABELS);
        FF_TRY(ff_dataset_class(dataset, i, field, &value, error));
        *sound = value < CLASSES_LIMIT;
        if (value < 0) {
            unlabeled++;
        } else if (*sound) {
            if ((size_t)value >= classes->count) {
                FF_TRY(ff_reserve(&classes->item, &classes->capacity, (size_t)value + 2,
                                  sizeof *classes->item, "classes", error));
                classes->count = (size_t)value + 1;
            }
            classes->item[value].count++;
        }
    }
    FF_TRY(ff_reserve(&classes->item, &classes->capacity, classes->count + 1, sizeof *classes->item,
                      "classes", error));
    classes->item[classes->count++].count = unlabeled;
    return FF_OK;
}

/* Hands out equal shares; the other classes get what classes with few samples leave unused. */
static void fill_shares(const spread_classes *classes, uint64_t open, uint64_t count) {
    while (count) {
        uint64_t each = count > open ? count / open : 1;
        open = 0;
        for (size_t k = 0; k < classes->count && count; k++) {
            spread_class *class = &classes->item[k];
            uint64_t room = class->count - class->share, more = room < each ? room : each;
            class->share += more;
            count -= more;
            open += room > more;
        }
    }
}

static void share_out(const spread_classes *classes, uint64_t count) {
    uint64_t present = 0, passed = 0, place = 0;
    for (size_t k = 0; k < classes->count; k++) present += classes->item[k].count > 0;
    if (present > count) { /* one sample from each of `count` classes, spread evenly */
        for (size_t k = 0; k < classes->count && place < count; k++) {
            if (!classes->item[k].count) continue;
            if (passed++ == place * present / count) {
                classes->item[k].share = 1;
                place++;
            }
        }
    } else {
        fill_shares(classes, present, count);
    }
    place = 0;
    for (size_t k = 0; k < classes->count; k++) {
        classes->item[k].begin = place;
        place += classes->item[k].share;
    }
}

static ff_status pick(const spread_classes *classes, ff_dataset *dataset, size_t field,
                      uint64_t *number, ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        int64_t value;
        FF_TRY(ff_interrupt_check(error));
        ff_dataset_scan(dataset, i, FF_SCAN_LABELS);
        FF_TRY(ff_dataset_class(dataset, i, field, &value, error));
        spread_class *class = &classes->item[value < 0 ? (int64_t)classes->count - 1 : value];
        if (class->chosen < class->share &&
            class->seen == middle(class->chosen, class->share, class->count))
            number[class->begin + class->chosen++] = i;
        class->seen++;
    }
    return FF_OK;
}

ff_status ff_inspect_spread(ff_dataset *dataset, size_t field, uint64_t *number, uint64_t count,
                            ff_error *error) {
    spread_classes classes = {0};
    bool by_class = field != FF_SPREAD_NO_FIELD;
    ff_status status = FF_OK;
    if (by_class) status = count_classes(&classes, dataset, field, &by_class, error);
    if (status == FF_OK && by_class) {
        share_out(&classes, count);
        status = pick(&classes, dataset, field, number, error);
    }
    for (uint64_t i = 0; i < count && !by_class; i++)
        number[i] = middle(i, count, ff_dataset_count(dataset));
    free(classes.item);
    return status;
}
