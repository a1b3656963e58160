/* Names: a role and a split in any order, in any case, with _ - or . between, or as trainX:
 * x_train, y_train, train_images, train_labels, X, y, images, labels, ...; arr_0 and arr_1,
 * numpy.savez's default names, are images and labels. A single array is images, whatever its name.
 *
 * Images without such labels have those that are called after them (X_labels for X, y_224 for
 * x_224), else the only array of their split with a word of labels in its name (fine_labels). */
#include "tools/ffpack/source/array/npy.h"

#include <ctype.h>
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

/* Words for labels that may also mean something else: they count only if there are images without
 * labels. */
static bool may_be_labels(const char *word, size_t length) {
    static const char *const words[] = {"class", "classes", "cls"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && !strncasecmp(word, words[i], length)) return true;
    return role_of_word(word, length) == ROLE_LABELS;
}

/* Bytes of the word at the beginning of `name`: up to _ - or . or before an upper-case letter after
 * a lower-case one. */
static size_t word_of(const char *name, size_t length) {
    size_t word = 0;
    while (word < length && !strchr("_-.", name[word]) &&
           !(word && islower((unsigned char)name[word - 1]) && isupper((unsigned char)name[word])))
        word++;
    return word;
}

static size_t after_word(const char *name, size_t at, size_t word) {
    return at + word + (name[at + word] && strchr("_-.", name[at + word]) != NULL);
}

/* The meaning of a name's words. */
typedef struct npy_says {
    npy_role role;    /* for a name without other words */
    int split;        /* its rank (ff_split_rank), or ALONE */
    bool like_labels; /* a word for labels, and no word for names */
} npy_says;

static npy_says says(const char *name) {
    size_t length = ff_npy_stem(name);
    npy_says found = {.role = ROLE_NONE, .split = ALONE};
    bool clear = true;
    if (length == 5 && !memcmp(name, "arr_0", 5)) return (npy_says){ROLE_IMAGES, ALONE, false};
    if (length == 5 && !memcmp(name, "arr_1", 5)) return (npy_says){ROLE_LABELS, ALONE, true};
    for (size_t at = 0, word; at < length; at = after_word(name, at, word)) {
        word = word_of(name + at, length - at);
        npy_role role = role_of_word(name + at, word);
        int split = ff_split_rank(name + at, word);
        bool names = (word == 5 && !strncasecmp(name + at, "names", 5)) ||
                     (word == 4 && !strncasecmp(name + at, "name", 4));
        clear = clear && (role == ROLE_NONE ? split != ALONE && found.split == ALONE
                                            : found.role == ROLE_NONE);
        if (role != ROLE_NONE) found.role = role;
        if (split != ALONE) found.split = split;
        found.like_labels = (found.like_labels || may_be_labels(name + at, word)) && !names;
    }
    if (!clear) found.role = ROLE_NONE;
    return found;
}

bool ff_npy_is_images(const char *name) {
    return says(name).role == ROLE_IMAGES;
}

bool ff_npy_is_like_labels(const char *name) {
    return says(name).like_labels;
}

/* Whether the name `labels` is `images` with a word for images replaced by one for labels, or
 * followed by one. */
static bool is_called_after(const char *images, const char *labels) {
    size_t first = ff_npy_stem(images), second = ff_npy_stem(labels);
    size_t at = 0, to = 0;
    bool changed = false;
    if (!first) first = strlen(images);
    while (at < first && to < second) {
        size_t one = word_of(images + at, first - at), two = word_of(labels + to, second - to);
        bool same = one == two && !strncasecmp(images + at, labels + to, one);
        bool other = !changed && role_of_word(images + at, one) == ROLE_IMAGES &&
                     role_of_word(labels + to, two) == ROLE_LABELS;
        if (!same && !other) return false;
        changed = changed || !same;
        at = after_word(images, at, one);
        to = after_word(labels, to, two);
    }
    if (at < first) return false;
    if (to >= second) return changed;
    return !changed && may_be_labels(labels + to, second - to);
}

bool ff_npy_labels_of(const char *images, const char *labels) {
    npy_says first = says(images), second = says(labels);
    return is_called_after(images, labels) ||
           (first.role == ROLE_IMAGES && second.role == ROLE_LABELS && first.split == second.split);
}

/* The only name of a split and role; *index = SIZE_MAX if there is none. */
static ff_status find(const ff_names *names, const char *place, npy_role role, int split,
                      size_t *index, ff_error *error) {
    *index = SIZE_MAX;
    for (size_t i = 0; i < names->count; i++) {
        npy_says found = says(ff_names_at(names, i));
        if (found.role != role || found.split != split) continue;
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

/* Finds labels for images that have no labels by their names' roles. */
static ff_status find_like_labels(const ff_names *names, const char *place, size_t images,
                                  size_t *index, ff_error *error) {
    const char *name = ff_names_at(names, images), *other = NULL;
    int split = says(name).split;
    for (size_t i = 0; i < names->count && *index == SIZE_MAX; i++)
        if (i != images && is_called_after(name, ff_names_at(names, i))) *index = i;
    if (*index != SIZE_MAX) return FF_OK;
    for (size_t i = 0; i < names->count; i++) {
        const char *found = ff_names_at(names, i);
        npy_says words = says(found);
        if (i == images || !words.like_labels || words.role == ROLE_LABELS) continue;
        if (words.split != split) {
            other = found;
            continue;
        }
        if (*index != SIZE_MAX)
            return ff_fail(error, FF_USAGE,
                           "%s: %s and %s may both be the labels of %s; wanted only one, or one "
                           "called labels",
                           place, ff_names_at(names, *index), found, name);
        *index = i;
    }
    if (*index != SIZE_MAX || !other) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: %s has no labels, and %s is called like labels; wanted a name like x_train "
                   "and y_train for both",
                   place, name, other);
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
                "%s: %s has no split in its name, but %s is in split %s; wanted a split in all "
                "names or in none",
                place, ff_names_at(names, choice->images[0]), ff_names_at(names, images),
                ff_split_names[split]);
        if (labels == SIZE_MAX) FF_TRY(find_like_labels(names, place, images, &labels, error));
        FF_TRY(add_set(choice, names, place, split, images, labels, error));
    }
    if (!choice->count && names->count == 1)
        return add_set(choice, names, place, ALONE, 0, SIZE_MAX, error);
    if (!choice->count) return nothing_found(names, place, error);
    if (choice->count == 1) *choice->set[0].split = 0;
    return FF_OK;
}

ff_status ff_npy_report(const ff_npy_choice *choice, const ff_names *names, ff_source *source,
                        ff_error *error) {
    for (size_t i = 0; i < names->count; i++) {
        bool taken = false;
        for (size_t k = 0; k < choice->count; k++)
            taken |= choice->images[k] == i || (choice->set[k].labeled && choice->labels[k] == i);
        const char *name = ff_names_at(names, i);
        if (!taken)
            FF_TRY(ff_left_out_add(&source->left_out, "array", "arrays", "", name, strlen(name),
                                   error));
    }
    for (size_t k = 0; k < choice->count; k++) {
        char *note;
        if (choice->set[k].labeled) continue;
        FF_TRY(ff_format(&note, error, "no array is called like the labels of %s",
                         ff_names_at(names, choice->images[k])));
        FF_TRY(ff_source_note(source, note, error));
    }
    return FF_OK;
}

void ff_npy_choice_free(ff_npy_choice *choice) {
    for (size_t i = 0; i < choice->count; i++) ff_array_set_free(&choice->set[i]);
    choice->count = 0;
}
