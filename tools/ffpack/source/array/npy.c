/* NumPy's arrays: an .npy file, with its labels next to it; a folder of them; an .npz archive of
 * them (npz.c). Their roles follow from their names (npy_names.c), their types from their headers
 * (npy_header.c). Labels of X.npy: the file named as the same split's labels (y_train.npy for
 * x_train.npy), or named after it (X_labels.npy); otherwise there are no labels. */
#include "tools/ffpack/source/array/npy.h"
#include "format/base/path.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/array/npy_header.h"
#include "tools/ffpack/source/input.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_array_name(const char *name, unsigned char type) {
    return type != DT_DIR && *name != '.' && ff_npy_stem(name) > 0;
}

static bool is_images_name(const char *name, unsigned char type) {
    return is_array_name(name, type) && ff_npy_is_images(name);
}

static bool is_npy(const unsigned char *head, size_t head_bytes) {
    return head_bytes >= 8 && !memcmp(head, "\x93NUMPY", 6);
}

/* A zip archive whose first member is an array. */
static bool is_npz(const unsigned char *head, size_t head_bytes) {
    enum { NAME_LENGTH_AT = 26, NAME_AT = 30 };
    if (head_bytes < NAME_AT || memcmp(head, "PK\x03\x04", 4) != 0) return false;
    size_t length = head[NAME_LENGTH_AT] | (size_t)head[NAME_LENGTH_AT + 1] << 8;
    return length > 4 && NAME_AT + length <= head_bytes &&
           !memcmp(head + NAME_AT + length - 4, ".npy", 4);
}

static bool npy_detect(const char *path, const unsigned char *head, size_t head_bytes,
                       ff_error *error) {
    if (head) return is_npy(head, head_bytes) || is_npz(head, head_bytes);
    ff_names names;
    if (ff_names_read(&names, path, is_images_name, error) != FF_OK) return false;
    bool found = names.count > 0;
    ff_names_free(&names);
    return found;
}

/* ---- files --------------------------------------------------------------------------------- */

static ff_status open_array(ff_source *source, const char *folder, const char *name, char **path,
                            ff_array *array, ff_error *error) {
    int fd;
    uint64_t bytes;
    uint32_t part;
    free(*path);
    FF_TRY(ff_path_join(path, folder, name, error));
    FF_TRY(ff_input_unpack(*path, source->temporary, &fd, &bytes, NULL, error));
    FF_TRY(ff_source_add_part(source, *path, fd, &part, error));
    FF_TRY(ff_npy_read(fd, *path, 0, bytes, array, error));
    array->part = part;
    return FF_OK;
}

/* Notes in the summary the file of the labels, which was found by its name. */
static ff_status note_labels(ff_source *source, const ff_array_set *set, ff_error *error) {
    char *text;
    if (!set->labeled) return FF_OK;
    FF_TRY(ff_format(&text, error, "%s has the labels of %s", set->labels_path, set->images_path));
    return ff_source_note(source, text, error);
}

/* Lists the arrays in `folder`. */
static ff_status list_names(ff_source *source, const char *folder, const ff_names *names,
                            ff_error *error) {
    ff_npy_choice choice;
    ff_status status;
    FF_TRY_DONE(ff_npy_choose(&choice, names, source->path, error));
    FF_TRY_DONE(ff_npy_report(&choice, names, source, error));
    for (size_t i = 0; i < choice.count; i++) {
        ff_array_set *set = &choice.set[i];
        FF_TRY_DONE(open_array(source, folder, ff_names_at(names, choice.images[i]),
                               &set->images_path, &set->images, error));
        if (set->labeled)
            FF_TRY_DONE(open_array(source, folder, ff_names_at(names, choice.labels[i]),
                                   &set->labels_path, &set->labels, error));
    }
    FF_TRY_DONE(ff_array_list(source, choice.set, choice.count, error));
    for (size_t i = 0; i < choice.count; i++)
        FF_TRY_DONE(note_labels(source, &choice.set[i], error));
done:
    ff_npy_choice_free(&choice);
    return status;
}

/* An array without a known name. */
static ff_status list_unknown(ff_source *source, const char *folder, const char *name,
                              const char *labels, ff_error *error) {
    ff_array_set set = {.labeled = labels != NULL};
    size_t length = ff_npy_stem(name);
    if (!length) length = strlen(name);
    ff_status status;
    FF_TRY_DONE(ff_copy_bytes(&set.key, name, length, error));
    FF_TRY_DONE(open_array(source, folder, name, &set.images_path, &set.images, error));
    if (labels)
        FF_TRY_DONE(open_array(source, folder, labels, &set.labels_path, &set.labels, error));
    FF_TRY_DONE(ff_array_list(source, &set, 1, error));
    FF_TRY_DONE(note_labels(source, &set, error));
done:
    ff_array_set_free(&set);
    return status;
}

/* Notes that the array `name` has no labels, and which one next to it might be. */
static ff_status note_unlabeled(ff_source *source, const char *name, const ff_names *all,
                                ff_error *error) {
    const char *like = NULL;
    char *note;
    for (size_t i = 0; i < all->count && !like; i++)
        if (ff_npy_is_like_labels(ff_names_at(all, i)) && strcmp(ff_names_at(all, i), name) != 0)
            like = ff_names_at(all, i);
    FF_TRY(ff_format(&note, error, "no file is called like the labels of %s%s%s%s", name,
                     like ? "; " : "", like ? like : "", like ? " was left out" : ""));
    return ff_source_note(source, note, error);
}

static ff_status list_file(ff_source *source, ff_error *error) {
    const char *base = ff_path_base(source->path);
    char *folder;
    FF_TRY(base == source->path
               ? ff_copy_string(&folder, ".", error)
               : ff_copy_bytes(&folder, source->path, (size_t)(base - source->path), error));
    ff_names all = {0}, chosen = {0};
    ff_status status;
    FF_TRY_DONE(ff_names_read(&all, folder, is_array_name, error));
    FF_TRY_DONE(ff_names_add(&chosen, base, strlen(base), error));
    for (size_t i = 0; i < all.count; i++)
        if (strcmp(ff_names_at(&all, i), base) != 0 && ff_npy_labels_of(base, ff_names_at(&all, i)))
            FF_TRY_DONE(
                ff_names_add(&chosen, ff_names_at(&all, i), strlen(ff_names_at(&all, i)), error));
    if (chosen.count == 1) FF_TRY_DONE(note_unlabeled(source, base, &all, error));
    if (ff_npy_is_images(base) && chosen.count > 1)
        FF_TRY_DONE(list_names(source, folder, &chosen, error));
    else
        FF_TRY_DONE(list_unknown(source, folder, base,
                                 chosen.count > 1 ? ff_names_at(&chosen, 1) : NULL, error));
done:
    ff_names_free(&all);
    ff_names_free(&chosen);
    free(folder);
    return status;
}

/* Counts the files that are not arrays. */
static ff_status leave_others(ff_source *source, ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, source->path, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        if (*name == '.')
            status = ff_left_out_add(&source->left_out, "hidden file or folder",
                                     "hidden files and folders", "", name, strlen(name), error);
        else if (!ff_npy_stem(name))
            status = ff_left_out_file(&source->left_out, name, error);
    }
    ff_names_free(&names);
    return status;
}

static ff_status npy_list(ff_source *source, ff_error *error) {
    bool folder;
    source->kind = "npy";
    FF_TRY(ff_source_is_folder(source->path, &folder, error));
    if (folder) {
        ff_names names;
        FF_TRY(leave_others(source, error));
        FF_TRY(ff_names_read(&names, source->path, is_array_name, error));
        ff_status status = list_names(source, source->path, &names, error);
        ff_names_free(&names);
        return status;
    }
    ff_input *input;
    unsigned char head[8];
    size_t got;
    FF_TRY(ff_input_open(&input, source->path, error));
    ff_status status = ff_input_read(input, head, sizeof head, &got, error);
    ff_input_close(&input);
    FF_TRY(status);
    if (!is_npy(head, got)) return ff_npz_list(source, error);
    if (source->elsewhere)
        return ff_fail(error, FF_USAGE,
                       "%s: an .npy has its labels next to it, on this machine; wanted an .npz of "
                       "images and labels",
                       source->path);
    return list_file(source, error);
}

extern const ff_source_format ff_source_npy;
const ff_source_format ff_source_npy = {
    .name = "npy",
    .elsewhere = true,
    .wanted = "arrays of NumPy: an .npz with images and labels, an .npy, or a folder of .npy",
    .endings = "npy npz /",
    .detect = npy_detect,
    .list = npy_list,
    .labels = "in y.npy next to x.npy, X_labels.npy next to X.npy, or labels of the .npz",
    .uses = FF_USES_CLASSES | FF_USES_ARRAY_LAYOUT | FF_USES_LABEL_KIND,
};
