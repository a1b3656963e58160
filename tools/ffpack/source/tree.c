#include "tools/ffpack/source/tree.h"

#include "tools/ffpack/source/archive.h"
#include "tools/ffpack/source/sorter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDERS_LIMIT_BYTES (UINT64_C(64) << 20)

/* Where an image member is. */
typedef struct place {
    uint64_t ordinal, offset, bytes;
} place;

typedef struct tree {
    ff_source *source;
    const char *path;
    bool plain;
    ff_listing *images; /* in the order of reading; a place as labels */
    ff_sorter *sorter;  /* of the folders, then of the images */
    ff_names folders;   /* all, sorted */
    bool *has_images;   /* [folders.count] in the folder itself */
    ff_buffer last;     /* the folder added last */
    char *root;         /* "" or "a/b/" */
} tree;

/* ---- reading the archive ------------------------------------------------------------------- */

static ff_status sort_folder(tree *found, const char *name, size_t bytes, bool images,
                             ff_error *error) {
    unsigned char flag = images;
    return ff_sorter_add(
        found->sorter,
        &(ff_sorter_record){
            .key = name, .key_bytes = (uint32_t)bytes, .payload = &flag, .payload_bytes = 1},
        error);
}

/* Adds a folder and those that it lies in. */
static ff_status add_folder(tree *found, const char *name, size_t bytes, bool images,
                            ff_error *error) {
    if (!bytes) return FF_OK;
    ff_buffer *last = &found->last;
    if (last->length == bytes + 1 && !memcmp(last->bytes, name, bytes) &&
        last->bytes[bytes] >= images)
        return FF_OK;
    last->length = 0;
    FF_TRY(ff_buffer_add(last, name, bytes, error));
    FF_TRY(ff_buffer_add(last, images ? "\1" : "\0", 1, error));
    for (size_t i = 0; i < bytes; i++)
        if (name[i] == '/') FF_TRY(sort_folder(found, name, i, false, error));
    return sort_folder(found, name, bytes, images, error);
}

static ff_status add_member(tree *found, const ff_archive_member *member, ff_error *error) {
    const char *name = member->name;
    const char *base = strrchr(name, '/');
    size_t folder_bytes = base ? (size_t)(base - name) : 0;
    bool image = ff_is_image_name(name);
    if (member->kind == FF_ARCHIVE_FOLDER)
        return add_folder(found, name, strlen(name), false, error);
    if (image && member->kind == FF_ARCHIVE_LINK)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: member %s is a link, wanted images that lie in the archive",
                       found->path, name);
    image = image && member->kind == FF_ARCHIVE_FILE;
    FF_TRY(add_folder(found, name, folder_bytes, image, error));
    if (!image) return FF_OK;
    if (member->bytes > FF_ENCODED_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: member %s has %" PRIu64 " bytes, more than %" PRIu64, found->path, name,
                       member->bytes, FF_ENCODED_LIMIT_BYTES);
    place at = {.ordinal = member->ordinal, .offset = member->offset, .bytes = member->bytes};
    ff_item item = {.key = name, .key_bytes = strlen(name), .labels = &at};
    return ff_listing_add(found->images, &item, error);
}

static ff_status take_folders(tree *found, ff_error *error) {
    size_t capacity = 0;
    for (;;) {
        ff_sorter_record record;
        bool more;
        FF_TRY(ff_sorter_next(found->sorter, &record, &more, error));
        if (!more) return FF_OK;
        ff_names *folders = &found->folders;
        const char *last = folders->count ? ff_names_at(folders, folders->count - 1) : NULL;
        bool again =
            last && strlen(last) == record.key_bytes && !memcmp(last, record.key, record.key_bytes);
        if (!again) {
            if (folders->used > FOLDERS_LIMIT_BYTES)
                return ff_fail(error, FF_BAD_DATA,
                               "%s: its folders' names have more than %" PRIu64 " bytes",
                               found->path, FOLDERS_LIMIT_BYTES);
            FF_TRY(ff_names_add(folders, record.key, record.key_bytes, error));
            FF_TRY(ff_reserve(&found->has_images, &capacity, folders->count, 1, "folders", error));
        }
        if (*(const unsigned char *)record.payload) found->has_images[folders->count - 1] = true;
    }
}

static ff_status read_archive(tree *found, bool nested, ff_error *error) {
    ff_archive *archive;
    FF_TRY(ff_sorter_create(&found->sorter, found->source->temporary, error));
    FF_TRY(ff_listing_create(&found->images, found->source->temporary, sizeof(place), error));
    FF_TRY(ff_archive_open(&archive, found->path, nested, error));
    ff_status status = FF_OK;
    for (;;) {
        ff_archive_member member;
        status = ff_archive_next(archive, &member, error);
        if (status != FF_OK || !member.name) break;
        status = add_member(found, &member, error);
        if (status != FF_OK) break;
    }
    found->plain = ff_archive_is_plain(archive);
    ff_archive_close(&archive);
    FF_TRY(status);
    FF_TRY(ff_listing_finish(found->images, error));
    if (!ff_listing_count(found->images))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: an archive without images, wanted members of " FF_IMAGE_NAMES,
                       found->path);
    FF_TRY(take_folders(found, error));
    ff_sorter_destroy(&found->sorter);
    return FF_OK;
}

/* ---- root, splits, classes ----------------------------------------------------------------- */

/* The folders that lie in folder `inside` ("" or "a/b/") itself, by their own names, sorted; *only
 * (may be NULL) = the index of the last one in found->folders. */
static ff_status list_folders(const tree *found, const char *inside, ff_names *names, size_t *only,
                              ff_error *error) {
    *names = (ff_names){0};
    size_t length = strlen(inside);
    for (size_t i = 0; i < found->folders.count; i++) {
        const char *path = ff_names_at(&found->folders, i);
        if (strncmp(path, inside, length) != 0 || !path[length] || strchr(path + length, '/'))
            continue;
        ff_status status = ff_names_add(names, path + length, strlen(path + length), error);
        if (status != FF_OK) {
            ff_names_free(names);
            return status;
        }
        if (only) *only = i;
    }
    return FF_OK;
}

/* Archives mostly hold one folder that holds the rest: enters it, and those inside, as long as they
 * hold a single folder that is neither a split nor a class. */
static ff_status find_root(tree *found, ff_error *error) {
    FF_TRY(ff_copy_string(&found->root, "", error));
    for (;;) {
        ff_names names, below = {0};
        size_t only = 0;
        char *entered = NULL;
        FF_TRY(list_folders(found, found->root, &names, &only, error));
        bool enter = names.count == 1 && ff_split_rank(ff_names_at(&names, 0)) < 0 &&
                     !found->has_images[only];
        ff_status status = FF_OK;
        if (enter)
            status = ff_format(&entered, error, "%s%s/", found->root, ff_names_at(&names, 0));
        if (status == FF_OK && enter) status = list_folders(found, entered, &below, NULL, error);
        enter = enter && status == FF_OK && below.count > 0;
        ff_names_free(&names);
        ff_names_free(&below);
        if (!enter) {
            free(entered);
            return status;
        }
        free(found->root);
        found->root = entered;
    }
}

/* ---- images in torchvision's order --------------------------------------------------------- */

/* Splits by rank; in them classes, in these folders, in these files, each by its name: with a zero
 * byte behind every part, names sort as they do one by one. Images that lie in no class folder are
 * left out, as ImageFolder does. */
static ff_status sort_image(tree *found, const ff_item *item, bool splits, ff_buffer *key,
                            ff_error *error) {
    const char *name = item->key, *end = name + item->key_bytes;
    size_t root_bytes = strlen(found->root);
    if (item->key_bytes <= root_bytes || memcmp(name, found->root, root_bytes) != 0) return FF_OK;
    name += root_bytes;
    char rank = 0;
    if (splits) {
        const char *slash = memchr(name, '/', (size_t)(end - name));
        char split[16];
        if (!slash) return FF_OK;
        snprintf(split, sizeof split, "%.*s", (int)(slash - name), name);
        rank = (char)ff_split_rank(split);
        name = slash + 1;
    }
    const char *slash = memchr(name, '/', (size_t)(end - name));
    if (!slash) return FF_OK;
    const char *base = memrchr(name, '/', (size_t)(end - name));
    key->length = 0;
    FF_TRY(ff_buffer_add(key, &rank, 1, error));
    FF_TRY(ff_buffer_add(key, name, (size_t)(slash - name), error));
    FF_TRY(ff_buffer_add(key, "", 1, error));
    if (base > slash) FF_TRY(ff_buffer_add(key, slash + 1, (size_t)(base - slash - 1), error));
    FF_TRY(ff_buffer_add(key, "", 1, error));
    FF_TRY(ff_buffer_add(key, base + 1, (size_t)(end - base - 1), error));
    return ff_sorter_add(found->sorter,
                         &(ff_sorter_record){.key = key->bytes,
                                             .key_bytes = (uint32_t)key->length,
                                             .payload = item->labels,
                                             .payload_bytes = sizeof(place)},
                         error);
}

static ff_status sort_images(tree *found, bool splits, ff_error *error) {
    FF_TRY(ff_sorter_create(&found->sorter, found->source->temporary, error));
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_cursor_create(&cursor, found->images, error));
    ff_buffer key = {0};
    ff_status status = FF_OK;
    uint64_t count = ff_listing_count(found->images);
    for (uint64_t i = 0; i < count && status == FF_OK; i++) {
        ff_item item;
        status = ff_listing_item(cursor, i, &item, error);
        if (status == FF_OK) status = sort_image(found, &item, splits, &key, error);
    }
    ff_buffer_free(&key);
    ff_listing_cursor_destroy(&cursor);
    return status;
}

/* The splits as they are filled one after the other. */
typedef struct filling {
    int rank; /* of the split that is filled; -1 = none yet */
    ff_source_split *split;
    ff_names classes;
    int32_t *label;
    size_t class_at, class_items; /* the class that is filled, and how many images it has */
    char *where;
    ff_buffer name, last;
} filling;

static ff_status empty_class(const filling *fill, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s%s: a class without an image, wanted members of " FF_IMAGE_NAMES, fill->where,
                   ff_names_at(&fill->classes, fill->class_at));
}

/* All classes up to index `end` must have had images. */
static ff_status pass_classes(filling *fill, size_t end, ff_error *error) {
    while (fill->class_at < end) {
        if (!fill->class_items) return empty_class(fill, error);
        fill->class_at++;
        fill->class_items = 0;
    }
    return FF_OK;
}

/* `only`: the name of the archive's one split; NULL where its folders are splits. */
static ff_status begin_split(tree *found, filling *fill, int rank, const char *only,
                             ff_error *error) {
    const char *name = only ? only : ff_split_names[rank];
    fill->rank = rank;
    FF_TRY(ff_source_add_split(found->source, name, &fill->split, error));
    ff_names_free(&fill->classes);
    free(fill->label);
    free(fill->where);
    fill->label = NULL;
    fill->where = NULL;
    fill->class_at = fill->class_items = 0;
    char *inside;
    FF_TRY(ff_format(&inside, error, "%s%s%s", found->root, only ? "" : name, only ? "" : "/"));
    ff_status status = ff_format(&fill->where, error, "%s: %s", found->path, inside);
    if (status == FF_OK) status = list_folders(found, inside, &fill->classes, NULL, error);
    if (status == FF_OK)
        status = ff_source_label_folders(found->source, fill->where, &fill->classes, &fill->label,
                                         error);
    free(inside);
    return status;
}

/* The record's key back into "class/folder/file". */
static ff_status make_name(filling *fill, const ff_sorter_record *record, const char **class_name,
                           ff_error *error) {
    const char *name = (const char *)record->key + 1;
    const char *folder = name + strlen(name) + 1, *file = folder + strlen(folder) + 1;
    size_t file_bytes = record->key_bytes - (size_t)(file - (const char *)record->key);
    *class_name = name;
    fill->name.length = 0;
    FF_TRY(ff_buffer_printf(&fill->name, error, "%s/%s%s", name, folder, *folder ? "/" : ""));
    FF_TRY(ff_buffer_add(&fill->name, file, file_bytes, error));
    return FF_OK;
}

static ff_status add_image(tree *found, filling *fill, uint32_t part,
                           const ff_sorter_record *record, ff_error *error) {
    const char *class_name;
    FF_TRY(make_name(fill, record, &class_name, error));
    if (fill->last.length == fill->name.length && fill->class_items &&
        !memcmp(fill->last.bytes, fill->name.bytes, fill->name.length))
        return ff_fail(error, FF_BAD_DATA, "%s%.*s: is in the archive twice", fill->where,
                       (int)fill->name.length, fill->name.bytes);
    size_t at = fill->class_at;
    while (at < fill->classes.count && strcmp(ff_names_at(&fill->classes, at), class_name) != 0)
        at++;
    FF_TRY(pass_classes(fill, at, error));
    place where;
    memcpy(&where, record->payload, sizeof where);
    ff_item item = {.part = part,
                    .offset = found->plain ? where.offset : where.ordinal,
                    .bytes = where.bytes,
                    .key = fill->name.bytes,
                    .key_bytes = fill->name.length,
                    .labels = &fill->label[at]};
    FF_TRY(ff_listing_add(fill->split->listing, &item, error));
    fill->class_items++;
    fill->last.length = 0;
    return ff_buffer_add(&fill->last, fill->name.bytes, fill->name.length, error);
}

static ff_status fill_splits(tree *found, filling *fill, const char *only, uint32_t part,
                             ff_error *error) {
    for (;;) {
        ff_sorter_record record;
        bool more;
        FF_TRY(ff_sorter_next(found->sorter, &record, &more, error));
        int rank = more ? *(const char *)record.key : -1;
        if (fill->split && rank != fill->rank)
            FF_TRY(pass_classes(fill, fill->classes.count, error));
        if (!more) return FF_OK;
        if (rank != fill->rank) FF_TRY(begin_split(found, fill, rank, only, error));
        FF_TRY(add_image(found, fill, part, &record, error));
    }
}

/* ---- the archive --------------------------------------------------------------------------- */

static ff_status list(tree *found, const ff_tree_options *options, ff_error *error) {
    uint32_t part;
    FF_TRY(read_archive(found, options->nested, error));
    FF_TRY(options->rooted ? ff_copy_string(&found->root, "", error) : find_root(found, error));
    FF_TRY(ff_source_add_archive(found->source, found->path, found->plain, options->nested, &part,
                                 error));
    const char *only = options->split;
    if (!only) {
        ff_names top;
        FF_TRY(list_folders(found, found->root, &top, NULL, error));
        bool splits = top.count > 0;
        for (size_t i = 0; i < top.count; i++)
            splits = splits && ff_split_rank(ff_names_at(&top, i)) >= 0;
        ff_names_free(&top);
        if (!splits) only = "";
    }
    FF_TRY(sort_images(found, !only, error));
    filling fill = {.rank = -1};
    ff_status status = fill_splits(found, &fill, only, part, error);
    if (status == FF_OK && !fill.split)
        status = ff_fail(error, FF_BAD_DATA, "%s: its images lie in no class folders", found->path);
    ff_names_free(&fill.classes);
    ff_buffer_free(&fill.name);
    ff_buffer_free(&fill.last);
    free(fill.label);
    free(fill.where);
    return status;
}

ff_status ff_tree_list(ff_source *source, const char *path, const ff_tree_options *options,
                       ff_error *error) {
    tree found = {.source = source, .path = path};
    ff_status status = list(&found, options, error);
    ff_listing_destroy(&found.images);
    ff_sorter_destroy(&found.sorter);
    ff_names_free(&found.folders);
    ff_buffer_free(&found.last);
    free(found.has_images);
    free(found.root);
    return status;
}
