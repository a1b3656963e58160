/* Image folders as torchvision's ImageFolder sees them (torchvision/datasets/folder.py, 0.14).
 *
 * Every folder in the root is a class, numbered in the order of the names' bytes (Python sorts by
 * code point, which is the same for UTF-8). A class's images: all folders below it, links
 * followed, sorted by their whole path; in each the files, sorted by name, with one of the
 * extensions below in any case. A class without an image is an error.
 * A root that holds only folders among train, val, valid, test has these as splits.
 * Beyond ImageFolder: a folder that cannot be read, and a link that leads back above itself, are
 * errors; there they are silently skipped, or walked 40 times. */
#include "tools/ffpack/source/disk.h"
#include "tools/ffpack/source/source.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEPTH_LIMIT = 128 };

static bool may_be_image(const char *name, unsigned char type) {
    return type != DT_DIR && ff_is_image_name(name);
}

/* A link may lead to a folder; stat tells. */
static bool may_be_folder(const char *name, unsigned char type) {
    (void)name;
    return type == DT_DIR || type == DT_LNK || type == DT_UNKNOWN;
}

/* A link to nowhere is none; what cannot be looked at might be one, and is not left out. */
static ff_status is_folder(const char *parent, const char *name, bool *folder, ff_error *error) {
    char *path;
    struct stat info = {0};
    FF_TRY(ff_path_join(&path, parent, name, error));
    ff_status status = FF_OK;
    if (stat(path, &info) < 0 && errno != ENOENT && errno != ELOOP)
        status = ff_fail_errno(error, "%s: cannot look at it", path);
    *folder = S_ISDIR(info.st_mode);
    free(path);
    return status;
}

/* The folders in `path`, sorted. */
static ff_status read_folders(ff_names *folders, const char *path, ff_error *error) {
    FF_TRY(ff_names_read(folders, path, may_be_folder, error));
    size_t kept = 0;
    ff_status status = FF_OK;
    for (size_t i = 0; i < folders->count && status == FF_OK; i++) {
        bool folder = false;
        status = is_folder(path, ff_names_at(folders, i), &folder, error);
        if (folder) folders->offset[kept++] = folders->offset[i];
    }
    folders->count = kept;
    if (status != FF_OK) ff_names_free(folders);
    return status;
}

/* Any folder is one: what is wrong with it, listing says. */
static bool folder_detect(const char *path, const unsigned char *head, size_t head_bytes,
                          ff_error *error) {
    (void)path;
    (void)error;
    (void)head_bytes;
    return head == NULL;
}

/* ---- a class ------------------------------------------------------------------------------- */

typedef struct folder_identity {
    dev_t device;
    ino_t inode;
} folder_identity;

/* Paths of a class's folders relative to the split's root, "class/sub". */
typedef struct folder_walk {
    const char *root;
    ff_names folders;
    size_t depth;
    folder_identity above[DEPTH_LIMIT];
} folder_walk;

static ff_status walk_folder(folder_walk *walk, const char *relative, ff_error *error) {
    char *path;
    FF_TRY(ff_path_join(&path, walk->root, relative, error));
    ff_names inside = {0};
    struct stat info;
    ff_status status = FF_OK;
    if (stat(path, &info) < 0) status = ff_fail_errno(error, "%s: cannot list", path);
    for (size_t i = 0; i < walk->depth && status == FF_OK; i++)
        if (walk->above[i].device == info.st_dev && walk->above[i].inode == info.st_ino)
            status = ff_fail(error, FF_BAD_DATA, "%s: is a link to a folder that it lies in", path);
    if (status == FF_OK && walk->depth == DEPTH_LIMIT)
        status = ff_fail(error, FF_BAD_DATA, "%s: more than %d folders deep", path, DEPTH_LIMIT);
    if (status == FF_OK) status = ff_names_add(&walk->folders, relative, strlen(relative), error);
    if (status == FF_OK) status = read_folders(&inside, path, error);
    free(path);
    if (status == FF_OK) {
        walk->above[walk->depth++] = (folder_identity){info.st_dev, info.st_ino};
        for (size_t i = 0; i < inside.count && status == FF_OK; i++) {
            char *below;
            status = ff_path_join(&below, relative, ff_names_at(&inside, i), error);
            if (status == FF_OK) status = walk_folder(walk, below, error);
            free(below);
        }
        walk->depth--;
    }
    ff_names_free(&inside);
    return status;
}

static ff_status list_files(ff_listing *listing, const char *root, const char *relative,
                            int32_t label, ff_error *error) {
    char *path;
    FF_TRY(ff_path_join(&path, root, relative, error));
    ff_names files;
    ff_status status = ff_names_read(&files, path, may_be_image, error);
    free(path);
    FF_TRY(status);
    ff_buffer name = {0};
    for (size_t i = 0; i < files.count && status == FF_OK; i++) {
        name.length = 0;
        status = ff_buffer_printf(&name, error, "%s/%s/", root, relative);
        size_t key = strlen(root) + 1;
        if (status == FF_OK) status = ff_buffer_printf(&name, error, "%s", ff_names_at(&files, i));
        if (status != FF_OK) break;
        struct stat info;
        /* What is missing (a dangling link) is listed, as ImageFolder does; reading it fails. */
        bool there = stat(name.bytes, &info) == 0;
        if (there && S_ISDIR(info.st_mode)) continue;
        ff_item item = {.part = FF_PART_FILE,
                        .bytes = there ? (uint64_t)info.st_size : 0,
                        .key = name.bytes + key,
                        .key_bytes = name.length - key,
                        .labels = &label};
        status = ff_listing_add(listing, &item, error);
    }
    ff_buffer_free(&name);
    ff_names_free(&files);
    return status;
}

static ff_status list_class(ff_listing *listing, const char *root, const char *name, int32_t label,
                            ff_error *error) {
    uint64_t before = ff_listing_count(listing);
    folder_walk walk = {.root = root};
    ff_status status = walk_folder(&walk, name, error);
    ff_names *folders = &walk.folders;
    ff_names_sort(folders);
    for (size_t i = 0; i < folders->count && status == FF_OK; i++)
        status = list_files(listing, root, ff_names_at(folders, i), label, error);
    ff_names_free(folders);
    if (status == FF_OK && ff_listing_count(listing) == before)
        status =
            ff_fail(error, FF_BAD_DATA,
                    "%s/%s: a class without an image, wanted files of " FF_IMAGE_NAMES, root, name);
    return status;
}

/* ---- a split ------------------------------------------------------------------------------- */

static ff_status list_split(ff_source *source, const char *name, ff_error *error) {
    ff_source_split *split;
    FF_TRY(ff_source_add_split(source, name, &split, error));
    FF_TRY(*name ? ff_path_join(&split->root, source->path, name, error)
                 : ff_copy_string(&split->root, source->path, error));
    ff_names classes;
    FF_TRY(read_folders(&classes, split->root, error));
    int32_t *label;
    ff_status status = ff_source_label_folders(source, split->root, &classes, &label, error);
    for (size_t i = 0; i < classes.count && status == FF_OK; i++)
        status = list_class(split->listing, split->root, ff_names_at(&classes, i), label[i], error);
    free(label);
    ff_names_free(&classes);
    return status;
}

static ff_status folder_list(ff_source *source, ff_error *error) {
    source->kind = "folder";
    source->encoded = true;
    FF_TRY(ff_metadata_add_field(&source->labels, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    ff_names folders;
    FF_TRY(read_folders(&folders, source->path, error));
    bool present[FF_SPLIT_NAMES] = {0}, splits = folders.count > 0;
    for (size_t i = 0; i < folders.count; i++) {
        int rank = ff_split_rank(ff_names_at(&folders, i));
        if (rank < 0)
            splits = false;
        else
            present[rank] = true;
    }
    ff_names_free(&folders);
    if (!splits) return list_split(source, "", error);
    for (int i = 0; i < FF_SPLIT_NAMES; i++)
        if (present[i]) FF_TRY(list_split(source, ff_split_names[i], error));
    return FF_OK;
}

extern const ff_source_format ff_source_folder;
const ff_source_format ff_source_folder = {
    .name = "folder",
    .wanted = "a folder with a folder of images for each class",
    .detect = folder_detect,
    .list = folder_list,
};
