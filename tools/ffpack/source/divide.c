#include "tools/ffpack/source/divide.h"

#include "format/base/bytes.h"
#include "tools/ffpack/source/sorter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The label that holds an item's class: the first field of classes; field NULL = none. */
typedef struct class_label {
    const ff_field *field;
    size_t offset;
} class_label;

static class_label find_class(const ff_source *source) {
    class_label label = {0};
    for (size_t i = 0; i < source->labels.field_count; i++) {
        const ff_field *field = &source->labels.field[i];
        if (field->kind == FF_FIELD_CLASS) return (class_label){field, label.offset};
        label.offset += ff_field_bytes(field);
    }
    return label;
}

static int64_t class_of(const class_label *label, const ff_item *item) {
    return ff_field_class(label->field, (const char *)item->labels + label->offset);
}

/* ---- --stratify ---------------------------------------------------------------------------- */

/* Orders as bytes do: by class, then by hash. */
enum { RANK_BYTES = 16 };
static void store_rank(unsigned char rank[RANK_BYTES], int64_t class, uint64_t hash) {
    ff_store_be32(rank, (uint32_t)((uint64_t) class >> 32));
    ff_store_be32(rank + 4, (uint32_t) class);
    ff_store_be32(rank + 8, (uint32_t)(hash >> 32));
    ff_store_be32(rank + 12, (uint32_t)hash);
}

static uint64_t hash_of(const void *rank) {
    const unsigned char *hash = (const unsigned char *)rank + RANK_BYTES / 2;
    return (uint64_t)ff_load_be32(hash) << 32 | ff_load_be32(hash + 4);
}

static ff_status rank_items(const ff_source *source, ff_listing *listing, ff_sorter *sorter,
                            ff_error *error) {
    const class_label label = find_class(source);
    ff_listing_cursor *cursor;
    if (!label.field)
        return ff_fail(error, FF_USAGE, "--stratify: %s has no label that is a class",
                       source->path);
    FF_TRY(ff_listing_cursor_create(&cursor, listing, error));
    ff_status status = FF_OK;
    for (uint64_t number = 0; number < ff_listing_count(listing); number++) {
        ff_item item;
        uint64_t hash;
        unsigned char rank[RANK_BYTES];
        FF_TRY_DONE(ff_listing_item(cursor, number, &item, error));
        FF_TRY_DONE(ff_split_rule_hash(source->rule, item.key, item.key_bytes, &hash, error));
        store_rank(rank, class_of(&label, &item), hash);
        const ff_sorter_record record = {.key = rank,
                                         .key_bytes = sizeof rank,
                                         .payload = &number,
                                         .payload_bytes = sizeof number};
        FF_TRY_DONE(ff_sorter_add(sorter, &record, error));
    }
done:
    ff_listing_cursor_destroy(&cursor);
    return status;
}

/* The items of one class, by their hashes. */
typedef struct stratum {
    ff_split_member *item;
    size_t count, capacity;
    unsigned char rank[RANK_BYTES]; /* one split's */
} stratum;

static ff_status cut_all(const ff_split_rule *rule, ff_sorter *sorter, unsigned char *split_of,
                         ff_error *error) {
    stratum items = {0};
    ff_status status;
    for (;;) {
        ff_sorter_record record;
        bool more;
        FF_TRY_DONE(ff_sorter_next(sorter, &record, &more, error));
        if (!more) break;
        if (memcmp(items.rank, record.key, RANK_BYTES / 2) != 0) {
            ff_split_rule_cut(rule, items.item, items.count, split_of);
            items.count = 0;
        }
        memcpy(items.rank, record.key, sizeof items.rank);
        FF_TRY_DONE(ff_reserve(&items.item, &items.capacity, items.count + 1, sizeof *items.item,
                               "a class's items", error));
        memcpy(&items.item[items.count].number, record.payload, sizeof items.item->number);
        items.item[items.count++].hash = hash_of(record.key);
    }
    ff_split_rule_cut(rule, items.item, items.count, split_of);
done:
    free(items.item);
    return status;
}

/* *split_of: [items], allocated. */
static ff_status stratify(const ff_source *source, ff_listing *listing, unsigned char **split_of,
                          ff_error *error) {
    ff_sorter *sorter;
    FF_TRY(ff_alloc(split_of, ff_listing_count(listing), 1, "splits of items", error));
    FF_TRY(ff_sorter_create(&sorter, source->temporary, error));
    ff_status status = rank_items(source, listing, sorter, error);
    if (status == FF_OK) status = cut_all(source->rule, sorter, *split_of, error);
    ff_sorter_destroy(&sorter);
    return status;
}

/* ---- classes that a split lacks ------------------------------------------------------------- */

/* The classes of which each split has items. */
typedef struct presence {
    class_label label;
    size_t count; /* classes; 0: not checked */
    bool *has;    /* [splits][count] */
} presence;

static ff_status begin_presence(presence *classes, const ff_source *source, ff_error *error) {
    *classes = (presence){.label = find_class(source)};
    if (source->rule->recorded || !classes->label.field) return FF_OK;
    classes->count = classes->label.field->class_count;
    return ff_alloc(&classes->has, source->split_count * classes->count, sizeof *classes->has,
                    "classes of splits", error);
}

static void mark_class(presence *classes, size_t split, const ff_item *item) {
    if (!classes->count) return;
    const int64_t class = class_of(&classes->label, item);
    if (class >= 0 && (uint64_t) class < classes->count)
        classes->has[split * classes->count + (size_t) class] = true;
}

/* The count of classes that other splits have and this one lacks; *first: the number of the
 * first. */
static size_t count_lacking(const presence *classes, size_t splits, size_t split, size_t *first) {
    size_t lacking = 0;
    for (size_t class = 0; class < classes->count; class ++) {
        bool any = false;
        for (size_t i = 0; i < splits; i++) any |= classes->has[i * classes->count + class];
        if (!any || classes->has[split * classes->count + class]) continue;
        if (!lacking++) *first = class;
    }
    return lacking;
}

/* Notes the classes that a split lacks; refuses a training split that lacks any. */
static ff_status check_split(const presence *classes, ff_source *source, size_t split,
                             ff_error *error) {
    size_t first = 0;
    const size_t lacking = count_lacking(classes, source->split_count, split, &first);
    const char *name = source->rule->share[split].name;
    char *text;
    if (!lacking) return FF_OK;
    FF_TRY(ff_format(&text, error, "%s has no item of %zu of the %zu classes, as %s", name, lacking,
                     classes->count, classes->label.field->class_name[first]));
    ff_status status = ff_names_add(&source->notes, text, strlen(text), error);
    if (status == FF_OK && strcmp(name, "train") == 0 && !source->allow_empty_classes)
        status =
            ff_fail(error, FF_BAD_DATA,
                    "--split: %s; wanted --stratify, which cuts every class, a larger share, or "
                    "another --split-seed",
                    text);
    free(text);
    return status;
}

/* ---- listings ------------------------------------------------------------------------------ */

/* Adds every item to its split; without `split_of` by its key alone. */
static ff_status distribute(ff_source *source, ff_listing *listing, const unsigned char *split_of,
                            ff_error *error) {
    ff_listing_cursor *cursor = NULL;
    presence classes;
    ff_status status;
    FF_TRY(begin_presence(&classes, source, error));
    FF_TRY_DONE(ff_listing_cursor_create(&cursor, listing, error));
    for (uint64_t i = 0; i < ff_listing_count(listing); i++) {
        ff_item item;
        uint64_t hash;
        FF_TRY_DONE(ff_listing_item(cursor, i, &item, error));
        if (!split_of)
            FF_TRY_DONE(ff_split_rule_hash(source->rule, item.key, item.key_bytes, &hash, error));
        const size_t split = split_of ? split_of[i] : ff_split_rule_at(source->rule, hash);
        FF_TRY_DONE(ff_listing_add(source->split[split].listing, &item, error));
        mark_class(&classes, split, &item);
    }
    for (size_t i = 0; i < source->split_count; i++)
        FF_TRY_DONE(check_split(&classes, source, i, error));
done:
    free(classes.has);
    ff_listing_cursor_destroy(&cursor);
    return status;
}

static ff_status add_splits(ff_source *source, const char *root, ff_error *error) {
    for (size_t i = 0; i < source->rule->count; i++) {
        ff_source_split *added;
        FF_TRY(ff_source_add_split(source, source->rule->share[i].name, &added, error));
        if (root) FF_TRY(ff_copy_string(&added->root, root, error));
    }
    return FF_OK;
}

static void put_train_first(ff_source *source) {
    for (size_t i = 1; i < source->split_count; i++) {
        const ff_source_split train = source->split[i];
        if (strcmp(train.name, "train") != 0) continue;
        memmove(source->split + 1, source->split, i * sizeof train);
        source->split[0] = train;
    }
}

/* Refuses splits without items, or leaves them out. */
static ff_status check_empty(ff_source *source, uint64_t items, ff_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < source->split_count; i++) {
        ff_source_split *split = &source->split[i];
        if (ff_listing_count(split->listing)) {
            const ff_source_split moved = *split;
            *split = source->split[kept];
            source->split[kept++] = moved;
        } else if (!source->rule->recorded) {
            return ff_fail(error, FF_USAGE,
                           "--split: %s would have 0 of the %" PRIu64 " items of %s; wanted a "
                           "larger share, or another --split-seed",
                           split->name, items, source->path);
        }
    }
    while (source->split_count > kept) ff_source_free_split(&source->split[--source->split_count]);
    return FF_OK;
}

static ff_status refuse(const ff_source *source, ff_error *error) {
    const ff_source_split *first = &source->split[0];
    const bool folders = first->root && source->format->uses & FF_USES_TREE;
    const bool tars =
        !(source->format->uses & FF_USES_TREE) && source->format->uses & FF_USES_SPLITS;
    return ff_fail(error, FF_USAGE,
                   "--split: %s has splits of its own (%s%s); wanted a source without splits%s%s%s",
                   source->path, first->name, source->split_count > 1 ? ", ..." : "",
                   folders ? ", like its folder " : "", folders ? first->root : "",
                   tars ? ", or --splits none, which makes one set of all tars" : "");
}

/* A rule that a set records is for sources without splits. */
static bool applies(const ff_source *source) {
    return source->rule->count &&
           !(source->rule->recorded && (source->split_count > 1 || *source->split[0].name));
}

ff_status ff_source_divide(ff_source *source, ff_error *error) {
    if (!applies(source)) {
        source->rule = NULL;
        return FF_OK;
    }
    if (source->split_count > 1 || *source->split[0].name) return refuse(source, error);
    if (source->rule->recorded && source->rule->stratify)
        return ff_fail(error, FF_USAGE,
                       "the set was split with --stratify, which cuts a class by all of its items; "
                       "append to one of its splits, or pack all items again");
    ff_source_split whole = source->split[0];
    unsigned char *split_of = NULL;
    ff_status status;
    source->split_count = 0;
    FF_TRY_DONE(ff_listing_finish(whole.listing, error));
    FF_TRY_DONE(add_splits(source, whole.root, error));
    if (source->rule->stratify) FF_TRY_DONE(stratify(source, whole.listing, &split_of, error));
    FF_TRY_DONE(distribute(source, whole.listing, split_of, error));
    put_train_first(source);
    FF_TRY_DONE(check_empty(source, ff_listing_count(whole.listing), error));
done:
    free(split_of);
    ff_source_free_split(&whole);
    return status;
}
