/* The images of a tree in torchvision's order, as the items of its splits. */
#include "tools/ffpack/source/tree/tree_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- sorting ------------------------------------------------------------------------------- */

/* Counts an image outside the split and class folders. */
static ff_status leave(ff_tree *tree, const ff_item *item, const char *folder, ff_error *error) {
    return ff_left_out_add(tree->chosen.left, "image in no", "images in no", folder, item->key,
                           item->key_bytes, error);
}

/* Splits in their order; in them classes, in these folders, in these files, each by its name: with
 * a zero byte after every part, names sort as they do one by one. */
static ff_status sort_image(ff_tree *tree, const ff_tree_splits *splits, ff_sorter *sorter,
                            const ff_item *item, ff_buffer *key, ff_error *error) {
    size_t within = 0;
    const ff_tree_split *split = ff_tree_splits_of(splits, tree, item, &within);
    if (!split) return leave(tree, item, "split's folder", error);
    const char *name = (const char *)item->key + within;
    const char *end = (const char *)item->key + item->key_bytes;
    const char *base = memrchr(name, '/', (size_t)(end - name)), *folder = name;
    char rank = (char)(split - splits->layout.split);
    key->length = 0;
    FF_TRY(ff_buffer_add(key, &rank, 1, error));
    if (split->kind == FF_SPLIT_CLASSES) {
        folder = memchr(name, '/', (size_t)(end - name));
        if (!folder) return leave(tree, item, "class folder", error);
        FF_TRY(ff_buffer_add(key, name, (size_t)(folder - name), error));
        folder++;
    }
    FF_TRY(ff_buffer_add(key, "", 1, error));
    if (base && base >= folder) FF_TRY(ff_buffer_add(key, folder, (size_t)(base - folder), error));
    FF_TRY(ff_buffer_add(key, "", 1, error));
    if (base) name = base + 1;
    FF_TRY(ff_buffer_add(key, name, (size_t)(end - name), error));
    return ff_sorter_add(sorter,
                         &(ff_sorter_record){.key = key->bytes,
                                             .key_bytes = (uint32_t)key->length,
                                             .payload = item->labels,
                                             .payload_bytes = sizeof(ff_tree_place)},
                         error);
}

static ff_status sort_images(ff_tree *tree, const ff_tree_splits *splits, ff_sorter *sorter,
                             ff_error *error) {
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_cursor_create(&cursor, tree->images, error));
    ff_buffer key = {0};
    ff_status status = FF_OK;
    uint64_t count = ff_listing_count(tree->images);
    for (uint64_t i = 0; i < count && status == FF_OK; i++) {
        ff_item item;
        status = ff_listing_item(cursor, i, &item, error);
        if (status == FF_OK) status = sort_image(tree, splits, sorter, &item, &key, error);
    }
    ff_buffer_free(&key);
    ff_listing_cursor_destroy(&cursor);
    return status;
}

/* ---- filling ------------------------------------------------------------------------------- */

/* The splits as they are filled one after the other. */
typedef struct filling {
    ff_tree *tree;
    const ff_tree_splits *splits;
    uint32_t part;
    bool plain;
    size_t begun;                /* splits */
    const ff_tree_split *layout; /* of the split being filled */
    ff_source_split *split;
    ff_names classes;
    int32_t *label;
    size_t class_at, class_items; /* the class that is filled, and how many images it has */
    char *where;
    ff_buffer name, last;
} filling;

/* All classes up to index `end` must have had images. */
static ff_status pass_classes(filling *fill, size_t end, ff_error *error) {
    while (fill->class_at < end) {
        if (!fill->class_items && !fill->tree->source->allow_empty_classes)
            return ff_fail(error, FF_BAD_DATA,
                           "%s/%s: a class without an image, wanted files of " FF_IMAGE_NAMES
                           ", --exclude to leave out the folder, or --allow-empty-classes",
                           fill->where, ff_names_at(&fill->classes, fill->class_at));
        fill->class_at++;
        fill->class_items = 0;
    }
    return FF_OK;
}

/* Another list, which was decided before, or NULL. */
static const ff_label_list *earlier_list(const filling *fill) {
    for (size_t i = 0; i + 1 < fill->begun; i++) {
        const ff_tree_split *split = &fill->splits->layout.split[i];
        if (split->kind == FF_SPLIT_LISTED && split->list != fill->layout->list) return split->list;
    }
    return NULL;
}

/* If an earlier list has numbers, its classes have no names. */
static ff_status no_names(const filling *fill, const ff_label_list *earlier, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: its classes are names, but %s has numbers; wanted names or numbers in both",
                   fill->layout->kind == FF_SPLIT_LISTED ? fill->layout->list->path : fill->where,
                   earlier->path);
}

static ff_status begin_classes(filling *fill, const char *inside, ff_error *error) {
    ff_source *source = fill->tree->source;
    FF_TRY(ff_tree_folders(fill->tree, inside, &fill->classes, NULL, error));
    if (!fill->classes.count && ff_listing_count(fill->tree->images))
        return ff_fail(error, FF_BAD_DATA, "%s: its images are not in class folders", fill->where);
    const ff_label_list *earlier = source->classes ? NULL : earlier_list(fill);
    if (earlier && !source->labels.field[0].class_count) return no_names(fill, earlier, error);
    return ff_source_label_folders(source, fill->where, &fill->classes, &fill->label, error);
}

static ff_status begin_list(filling *fill, ff_error *error) {
    ff_source *source = fill->tree->source;
    const ff_label_list *earlier = source->classes ? NULL : earlier_list(fill);
    const char *folder = fill->splits->layout.split->folder;
    bool named = source->labels.field[0].class_count != 0, listed = named && earlier;
    char *said;
    if (source->classes && !named)
        FF_TRY(ff_source_read_classes(source, 0, source->classes, error));
    FF_TRY(ff_label_list_decide(fill->layout->list, source->label_kind, &source->labels, 0,
                                source->classes ? source->classes
                                : listed        ? earlier->path
                                : *folder       ? folder
                                                : fill->tree->path,
                                listed, &said, error));
    if (said) FF_TRY(ff_source_note(source, said, error));
    if (fill->layout->list->chosen) {
        free(source->labels.field[0].name);
        FF_TRY(ff_copy_string(&source->labels.field[0].name, source->label, error));
    }
    if (earlier && !earlier->column.named && !earlier->column.fixed &&
        fill->layout->list->column.named)
        return no_names(fill, earlier, error);
    return FF_OK;
}

static ff_status begin_split(filling *fill, ff_error *error) {
    ff_tree *tree = fill->tree;
    fill->layout = &fill->splits->layout.split[fill->begun++];
    FF_TRY(ff_source_add_split(tree->source, fill->layout->name, &fill->split, error));
    ff_names_free(&fill->classes);
    free(fill->label);
    free(fill->where);
    fill->label = NULL;
    fill->where = NULL;
    fill->class_at = fill->class_items = 0;
    FF_TRY(ff_tree_where(tree, fill->layout->folder, &fill->where, error));
    if (tree->options->files) FF_TRY(ff_copy_string(&fill->split->root, fill->where, error));
    if (fill->layout->kind == FF_SPLIT_LISTED) return begin_list(fill, error);
    if (fill->layout->kind == FF_SPLIT_UNLABELED) return FF_OK;
    char *inside;
    FF_TRY(ff_format(&inside, error, "%s%s", tree->root, fill->layout->folder));
    ff_status status = begin_classes(fill, inside, error);
    free(inside);
    return status;
}

/* Begins the splits before `end`; all that were begun, except the last, are complete. */
static ff_status begin_splits(filling *fill, size_t end, ff_error *error) {
    while (fill->begun < end) {
        if (fill->begun) FF_TRY(pass_classes(fill, fill->classes.count, error));
        FF_TRY(begin_split(fill, error));
    }
    return FF_OK;
}

/* Converts the record's key back to "class/folder/file". */
static ff_status make_name(filling *fill, const ff_sorter_record *record, const char **class_name,
                           ff_error *error) {
    const char *name = (const char *)record->key + 1;
    const char *folder = name + strlen(name) + 1, *file = folder + strlen(folder) + 1;
    size_t file_bytes = record->key_bytes - (size_t)(file - (const char *)record->key);
    *class_name = name;
    fill->name.length = 0;
    FF_TRY(ff_buffer_printf(&fill->name, error, "%s%s%s%s", name, *name ? "/" : "", folder,
                            *folder ? "/" : ""));
    return ff_buffer_add(&fill->name, file, file_bytes, error);
}

/* *label of the image that fill->name names; *taken = whether it has one. */
static ff_status find_label(filling *fill, const char *class_name, int32_t *label, bool *taken,
                            ff_error *error) {
    *taken = true;
    *label = -1;
    if (fill->layout->kind == FF_SPLIT_UNLABELED) return FF_OK;
    if (fill->layout->kind == FF_SPLIT_LISTED) {
        FF_TRY(ff_label_list_label(fill->layout->list, fill->name.bytes, fill->name.length, label,
                                   taken, error));
        return *taken ? FF_OK
                      : ff_left_out_add(fill->tree->chosen.left, "image without a line in",
                                        "images without a line in", fill->layout->list->path,
                                        fill->name.bytes, fill->name.length, error);
    }
    size_t at = fill->class_at;
    while (at < fill->classes.count && strcmp(ff_names_at(&fill->classes, at), class_name) != 0)
        at++;
    FF_TRY(pass_classes(fill, at, error));
    *label = fill->label[at];
    fill->class_items++;
    return FF_OK;
}

static ff_status add_image(filling *fill, const ff_sorter_record *record, ff_error *error) {
    const char *class_name;
    int32_t label;
    bool taken;
    FF_TRY(make_name(fill, record, &class_name, error));
    if (fill->last.length == fill->name.length && ff_listing_count(fill->split->listing) &&
        !memcmp(fill->last.bytes, fill->name.bytes, fill->name.length))
        return ff_fail(error, FF_BAD_DATA, "%s/%.*s: is in the archive twice", fill->where,
                       (int)fill->name.length, fill->name.bytes);
    FF_TRY(find_label(fill, class_name, &label, &taken, error));
    if (!taken) return FF_OK;
    ff_tree_place where;
    memcpy(&where, record->payload, sizeof where);
    ff_item item = {.part = fill->part,
                    .offset = fill->plain ? where.offset : where.ordinal,
                    .bytes = where.bytes,
                    .key = fill->name.bytes,
                    .key_bytes = fill->name.length,
                    .labels = &label};
    FF_TRY(ff_listing_add(fill->split->listing, &item, error));
    fill->last.length = 0;
    return ff_buffer_add(&fill->last, fill->name.bytes, fill->name.length, error);
}

static ff_status fill_splits(filling *fill, ff_sorter *sorter, ff_error *error) {
    for (;;) {
        ff_sorter_record record;
        bool more;
        FF_TRY(ff_sorter_next(sorter, &record, &more, error));
        if (!more) break;
        FF_TRY(begin_splits(fill, (size_t) * (const char *)record.key + 1, error));
        FF_TRY(add_image(fill, &record, error));
    }
    FF_TRY(begin_splits(fill, fill->splits->layout.count, error));
    return pass_classes(fill, fill->classes.count, error);
}

ff_status ff_tree_fill_splits(ff_tree *tree, ff_tree_splits *splits, uint32_t part, bool plain,
                              ff_error *error) {
    filling fill = {.tree = tree, .splits = splits, .part = part, .plain = plain};
    ff_sorter *sorter;
    FF_TRY(ff_sorter_create(&sorter, tree->source->temporary, error));
    ff_status status;
    FF_TRY_DONE(sort_images(tree, splits, sorter, error));
    FF_TRY_DONE(fill_splits(&fill, sorter, error));
done:
    ff_sorter_destroy(&sorter);
    ff_names_free(&fill.classes);
    ff_buffer_free(&fill.name);
    ff_buffer_free(&fill.last);
    free(fill.label);
    free(fill.where);
    return status;
}
