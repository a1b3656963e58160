/* Names: a role and a split in any order, in any case, with _ - or . between: x_train, y_train,
 * train_images, train_labels, X, y, images, labels, ...; arr_0 and arr_1, numpy.savez's default
 * names, are images and labels. A single array is images, whatever its name. */
#include "tools/ffpack/source/array/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum npy_role { ROLE_NONE, ROLE_IMAGES, ROLE_LABELS } npy_role;

static const struct {
    const char *word;
    npy_role role;
} roles[] = {{"x", ROLE_IMAGES},      {"images", ROLE_IMAGES}, {"image", ROLE_IMAGES},
             {"imgs", ROLE_IMAGES},   {"data", ROLE_IMAGES},   {"y", ROLE_LABELS},
             {"labels", ROLE_LABELS}, {"label", ROLE_LABELS},  {"targets", ROLE_LABELS},
             {"target", ROLE_LABELS}};
enum { ALONE = -1, NAMES_SHOWN = 8 };

size_t ff_npy_stem(const char *name) {
    size_t length = strlen(name);
    if (length > 3 && !strcmp(name + length - 3, ".gz")) length -= 3;
    return length > 4 && !memcmp(name + length - 4, ".npy", 4) ? length - 4 : 0;
}

static npy_role role_of_word(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strlen(roles[i].word) == length && !strncasecmp(word, roles[i].word, length))
            return roles[i].role;
    return ROLE_NONE;
}

/* *split = its rank (ff_split_rank), or ALONE. */
static npy_role role_of(const char *name, int *split) {
    size_t length = ff_npy_stem(name);
    npy_role role = ROLE_NONE;
    *split = ALONE;
    if (length == 5 && !memcmp(name, "arr_0", 5)) return ROLE_IMAGES;
    if (length == 5 && !memcmp(name, "arr_1", 5)) return ROLE_LABELS;
    for (size_t at = 0; at < length;) {
        size_t word = strcspn(name + at, "_-.");
        if (at + word > length) word = length - at;
        npy_role found = role_of_word(name + at, word);
        int where = ff_split_rank(name + at, word);
        if (found == ROLE_NONE ? where == ALONE || *split != ALONE : role != ROLE_NONE)
            return ROLE_NONE;
        if (found != ROLE_NONE) role = found;
        if (where != ALONE) *split = where;
        at += word + 1;
    }
    return role;
}

bool ff_npy_is_images(const char *name) {
    int split;
    return role_of(name, &split) == ROLE_IMAGES;
}

bool ff_npy_labels_of(const char *images, const char *labels) {
    int first, second;
    return role_of(images, &first) == ROLE_IMAGES && role_of(labels, &second) == ROLE_LABELS &&
           first == second;
}

/* One name of a split and role; *index = SIZE_MAX where there is none. */
static ff_status find(const ff_names *names, const char *place, npy_role role, int split,
                      size_t *index, ff_error *error) {
    *index = SIZE_MAX;
    for (size_t i = 0; i < names->count; i++) {
        int where;
        if (role_of(ff_names_at(names, i), &where) != role || where != split) continue;
        if (*index != SIZE_MAX)
            return ff_fail(error, FF_BAD_DATA, "%s: %s and %s both hold %s%s%s, wanted one", place,
                           ff_names_at(names, *index), ff_names_at(names, i),
                           role == ROLE_IMAGES ? "images" : "labels",
                           split == ALONE ? "" : " of split ",
                           split == ALONE ? "" : ff_split_names[split]);
        *index = i;
    }
    return FF_OK;
}

static ff_status add_set(ff_npy_choice *choice, const ff_names *names, const char *place, int split,
                         size_t images, size_t labels, ff_error *error) {
    ff_array_set *set = &choice->set[choice->count];
    const char *name = ff_names_at(names, images);
    choice->images[choice->count] = images;
    choice->labels[choice->count++] = labels;
    if (split != ALONE) snprintf(set->split, sizeof set->split, "%s", ff_split_names[split]);
    set->labeled = labels != SIZE_MAX;
    FF_TRY(ff_copy_bytes(&set->key, name, ff_npy_stem(name), error));
    FF_TRY(ff_format(&set->images_path, error, "%s: %s", place, name));
    if (!set->labeled) return FF_OK;
    return ff_format(&set->labels_path, error, "%s: %s", place, ff_names_at(names, labels));
}

static ff_status nothing_found(const ff_names *names, const char *place, ff_error *error) {
    char shown[512] = "";
    size_t length = 0;
    for (size_t i = 0; i < names->count && i < NAMES_SHOWN && length < sizeof shown - 1; i++)
        length += (size_t)snprintf(shown + length, sizeof shown - length, "%s%.40s", i ? ", " : "",
                                   ff_names_at(names, i));
    if (names->count > NAMES_SHOWN && length < sizeof shown - 1)
        snprintf(shown + length, sizeof shown - length, ", ...");
    for (char *at = shown; *at; at++)
        if ((unsigned char)*at < ' ') *at = '?';
    return ff_fail(error, FF_BAD_DATA,
                   "%s: holds no arrays with names of images and labels, only %s; wanted names "
                   "like x_train and y_train, train_images and train_labels, images and labels",
                   place, names->count ? shown : "none");
}

ff_status ff_npy_choose(ff_npy_choice *choice, const ff_names *names, const char *place,
                        ff_error *error) {
    *choice = (ff_npy_choice){0};
    for (int split = ALONE; split < FF_SPLIT_NAMES; split++) {
        size_t images, labels;
        FF_TRY(find(names, place, ROLE_IMAGES, split, &images, error));
        FF_TRY(find(names, place, ROLE_LABELS, split, &labels, error));
        if (images == SIZE_MAX && labels != SIZE_MAX)
            return ff_fail(error, FF_BAD_DATA, "%s: %s holds labels, but their images are missing",
                           place, ff_names_at(names, labels));
        if (images == SIZE_MAX) continue;
        if (choice->count && !*choice->set[0].split)
            return ff_fail(
                error, FF_BAD_DATA,
                "%s: %s is of no split, but %s is of split %s; wanted names with a split "
                "for all or for none",
                place, ff_names_at(names, choice->images[0]), ff_names_at(names, images),
                ff_split_names[split]);
        FF_TRY(add_set(choice, names, place, split, images, labels, error));
    }
    if (!choice->count && names->count == 1)
        return add_set(choice, names, place, ALONE, 0, SIZE_MAX, error);
    if (!choice->count) return nothing_found(names, place, error);
    if (choice->count == 1) *choice->set[0].split = 0;
    return FF_OK;
}

void ff_npy_choice_free(ff_npy_choice *choice) {
    for (size_t i = 0; i < choice->count; i++) ff_array_set_free(&choice->set[i]);
    choice->count = 0;
}
