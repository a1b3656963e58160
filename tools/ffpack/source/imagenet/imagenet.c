/* ImageNet (ILSVRC2012) as distributed: the train archive, a tar with one tar per class
 * (nXXXXXXXX.tar), the validation archive, a tar of images, and the validation labels (labels.h).
 * SOURCE is the folder that holds both, or one of the archives.
 *
 * Classes are the wnids in the order of their bytes. Items, keys ("n01440764/NAME.JPEG") and
 * numbers are those of torchvision's ImageNet, which unpacks train and sorts val into class
 * folders. Labels of val: --val-labels PATH, or next to the archive: ILSVRC2012_devkit_t12.tar.gz,
 * the folder ILSVRC2012_devkit_t12, imagenet_2012_validation_synset_labels.txt, or
 * LOC_val_solution.csv. */
#include "format/base/path.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/imagenet/labels.h"
#include "tools/ffpack/source/sorter.h"
#include "tools/ffpack/source/tree/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char train_name[] = "ILSVRC2012_img_train.tar", val_name[] = "ILSVRC2012_img_val.tar";

static bool is_class_tar(const char *base) {
    return ff_is_wnid(base) && !strcmp(base + FF_WNID_BYTES, ".tar");
}

static bool is_val_image(const char *base) {
    return !strncmp(base, "ILSVRC2012_val_", 15) && ff_is_image_name(base);
}

static bool is_imagenet_member(const char *base) {
    return is_class_tar(base) || is_val_image(base);
}

/* *path = the file in the folder, or NULL. */
static ff_status find_file(const char *folder, const char *name, char **path, ff_error *error) {
    struct stat info;
    FF_TRY(ff_path_join(path, folder, name, error));
    if (stat(*path, &info) == 0) return FF_OK;
    ff_status status = errno == ENOENT ? FF_OK : ff_fail_errno(error, "%s: cannot stat", *path);
    free(*path);
    *path = NULL;
    return status;
}

static bool holds_file(const char *folder, const char *name, ff_error *error) {
    char *path;
    bool found = find_file(folder, name, &path, error) == FF_OK && path;
    if (found) free(path);
    return found;
}

static bool imagenet_detect(const char *path, const unsigned char *head, size_t head_bytes,
                            ff_error *error) {
    if (!head) return holds_file(path, train_name, error) || holds_file(path, val_name, error);
    return ff_archive_looks_like(head, head_bytes) &&
           ff_archive_holds(path, is_imagenet_member, error);
}

/* ---- the validation archive ---------------------------------------------------------------- */

typedef struct place {
    uint64_t at, bytes; /* at: offset or ordinal */
    int32_t label;
} place;

typedef struct val_archive {
    ff_source *source;
    const char *path;
    ff_imagenet_labels labels;
    ff_sorter *by_name, *by_class;
    ff_names classes;
    uint32_t part;
    uint64_t count; /* images */
} val_archive;

static ff_status find_labels(const val_archive *found, char **path, ff_error *error) {
    static const char *const known[] = {"ILSVRC2012_devkit_t12.tar.gz", "ILSVRC2012_devkit_t12",
                                        "imagenet_2012_validation_synset_labels.txt",
                                        "LOC_val_solution.csv"};
    if (found->source->val_labels) return ff_copy_string(path, found->source->val_labels, error);
    const char *base = ff_path_base(found->path);
    char *folder;
    *path = NULL;
    FF_TRY(ff_format(&folder, error, "%.*s", (int)(base - found->path), found->path));
    ff_status status = FF_OK;
    for (size_t i = 0; i < sizeof known / sizeof known[0] && status == FF_OK && !*path; i++)
        status = find_file(*folder ? folder : ".", known[i], path, error);
    free(folder);
    if (status == FF_OK && !*path)
        status = ff_fail(error, FF_USAGE,
                         "%s: the images' classes are not in it; wanted --val-labels PATH (the "
                         "devkit, or a text with one wnid per line), or %s next to it",
                         found->path, known[0]);
    return status;
}

/* Lists the images by name, and adds their part. */
static ff_status read_images(val_archive *found, ff_error *error) {
    ff_archive *archive;
    FF_TRY(ff_archive_open(&archive, found->path, false, error));
    ff_status status = FF_OK;
    bool plain = true;
    for (;;) {
        ff_archive_member member;
        status = ff_archive_next(archive, &member, error);
        if (status != FF_OK || !member.name) break;
        const char *base = ff_path_base(member.name);
        if (member.kind != FF_ARCHIVE_FILE || !ff_is_image_name(base)) continue;
        plain = ff_archive_is_plain(archive);
        place at = {.at = plain ? member.offset : member.ordinal, .bytes = member.bytes};
        if (member.bytes > FF_ENCODED_LIMIT_BYTES)
            status = ff_fail(error, FF_BAD_DATA, "%s: member %s has %" PRIu64 " bytes", found->path,
                             member.name, member.bytes);
        ff_sorter_record record = {.key = base,
                                   .key_bytes = (uint32_t)strlen(base) + 1,
                                   .payload = &at,
                                   .payload_bytes = sizeof at};
        if (status == FF_OK) status = ff_sorter_add(found->by_name, &record, error);
        if (status != FF_OK) break;
        found->count++;
    }
    ff_archive_close(&archive);
    FF_TRY(status);
    if (!found->count)
        return ff_fail(error, FF_BAD_DATA, "%s: holds no images, wanted ILSVRC2012_val_*.JPEG",
                       found->path);
    return ff_source_add_archive(found->source, found->path, plain, false, &found->part, error);
}

/* The wnids that occur, sorted; they are the classes, or must be train's. */
static ff_status find_classes(val_archive *found, int32_t **label, ff_error *error) {
    ff_names all = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < found->labels.wnid.count && status == FF_OK; i++)
        status = ff_names_add(&all, ff_names_at(&found->labels.wnid, i), FF_WNID_BYTES, error);
    ff_names_sort(&all);
    for (size_t i = 0; i < all.count && status == FF_OK; i++)
        if (!i || strcmp(ff_names_at(&all, i), ff_names_at(&all, i - 1)) != 0)
            status = ff_names_add(&found->classes, ff_names_at(&all, i), FF_WNID_BYTES, error);
    ff_names_free(&all);
    FF_TRY(status);
    return ff_source_label_folders(found->source, found->labels.path, &found->classes, label,
                                   error);
}

static int compare_to_name(const void *wnid, const void *offset, void *names) {
    return strcmp(wnid, ((const ff_names *)names)->bytes + *(const size_t *)offset);
}

static ff_status sort_by_class(val_archive *found, const int32_t *label, ff_error *error) {
    for (uint64_t rank = 0;; rank++) {
        ff_sorter_record record;
        bool more;
        FF_TRY(ff_sorter_next(found->by_name, &record, &more, error));
        if (!more) return FF_OK;
        place at;
        const char *wnid, *name = record.key;
        memcpy(&at, record.payload, sizeof at);
        FF_TRY(ff_imagenet_labels_find(&found->labels, name, rank, found->count, &wnid, error));
        size_t low = 0, high = found->classes.count;
        while (low + 1 < high) {
            size_t middle = low + (high - low) / 2;
            if (compare_to_name(wnid, &found->classes.offset[middle], &found->classes) < 0)
                high = middle;
            else
                low = middle;
        }
        at.label = label[low];
        char key[FF_WNID_BYTES + 1 + 4096 + 1];
        snprintf(key, sizeof key, "%s/%s", wnid, name);
        ff_sorter_record sorted = {.key = key,
                                   .key_bytes = (uint32_t)strlen(key),
                                   .payload = &at,
                                   .payload_bytes = sizeof at};
        FF_TRY(ff_sorter_add(found->by_class, &sorted, error));
    }
}

static ff_status fill_split(val_archive *found, const char *name, ff_error *error) {
    ff_source_split *split;
    FF_TRY(ff_source_add_split(found->source, name, &split, error));
    for (;;) {
        ff_sorter_record record;
        bool more;
        FF_TRY(ff_sorter_next(found->by_class, &record, &more, error));
        if (!more) return FF_OK;
        place at;
        memcpy(&at, record.payload, sizeof at);
        ff_item item = {.part = found->part,
                        .offset = at.at,
                        .bytes = at.bytes,
                        .key = record.key,
                        .key_bytes = record.key_bytes,
                        .labels = &at.label};
        FF_TRY(ff_listing_add(split->listing, &item, error));
    }
}

static ff_status list_val(ff_source *source, const char *path, const char *split, ff_error *error) {
    val_archive found = {.source = source, .path = path};
    char *labels = NULL;
    int32_t *label = NULL;
    ff_status status;
    FF_TRY_DONE(find_labels(&found, &labels, error));
    FF_TRY_DONE(ff_imagenet_labels_read(&found.labels, labels, error));
    FF_TRY_DONE(ff_sorter_create(&found.by_name, source->temporary, error));
    FF_TRY_DONE(ff_sorter_create(&found.by_class, source->temporary, error));
    FF_TRY_DONE(read_images(&found, error));
    FF_TRY_DONE(find_classes(&found, &label, error));
    FF_TRY_DONE(sort_by_class(&found, label, error));
    FF_TRY_DONE(fill_split(&found, split, error));
done:
    ff_sorter_destroy(&found.by_name);
    ff_sorter_destroy(&found.by_class);
    ff_names_free(&found.classes);
    ff_imagenet_labels_free(&found.labels);
    free(labels);
    free(label);
    return status;
}

/* ---- the source ---------------------------------------------------------------------------- */

static ff_status list_train(ff_source *source, const char *path, const char *split,
                            ff_error *error) {
    if (source->val_labels && !*split)
        return ff_fail(error, FF_USAGE, "--val-labels: %s holds no validation images", path);
    return ff_tree_list_archive(source, path, true, split, error);
}

static ff_status imagenet_list(ff_source *source, ff_error *error) {
    source->kind = "imagenet";
    source->encoded = true;
    FF_TRY(ff_metadata_add_field(&source->labels, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    bool folder;
    FF_TRY(ff_source_is_folder(source->path, &folder, error));
    if (!folder) {
        ff_error hidden = {0};
        if (ff_archive_holds(source->path, is_class_tar, &hidden))
            return list_train(source, source->path, "", error);
        if (hidden.status == FF_OK) return list_val(source, source->path, "", error);
        if (error) *error = hidden;
        return hidden.status;
    }
    char *train, *val = NULL;
    FF_TRY(find_file(source->path, train_name, &train, error));
    ff_status status = find_file(source->path, val_name, &val, error);
    if (status == FF_OK && !train && !val)
        status = ff_fail(error, FF_BAD_DATA, "%s: holds neither %s nor %s", source->path,
                         train_name, val_name);
    if (status == FF_OK && train) status = list_train(source, train, val ? "train" : "", error);
    if (status == FF_OK && val) status = list_val(source, val, train ? "val" : "", error);
    free(train);
    free(val);
    return status;
}

extern const ff_source_format ff_source_imagenet;
const ff_source_format ff_source_imagenet = {
    .name = "imagenet",
    .elsewhere = true,
    .wanted = "ImageNet's ILSVRC2012_img_train.tar or ILSVRC2012_img_val.tar, or their folder",
    .endings = "tar /",
    .detect = imagenet_detect,
    .list = imagenet_list,
    .labels = "from --val-labels",
    .uses = FF_USES_CLASSES | FF_USES_VAL_LABELS | FF_USES_EMPTY,
};
