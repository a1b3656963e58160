#include "tools/ffpack/source/tree/layout.h"

#include "format/select/split_rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLITS_LIMIT = 64, NAME_LIMIT_BYTES = 64 };

static ff_status add(ff_tree_layout *layout, const char *name, size_t name_bytes,
                     const char *folder, size_t folder_bytes, ff_error *error) {
    if (!layout->split)
        FF_TRY(ff_alloc(&layout->split, SPLITS_LIMIT, sizeof *layout->split, "splits", error));
    if (layout->count == SPLITS_LIMIT)
        return ff_fail(error, FF_USAGE, "--splits: more than %d splits", SPLITS_LIMIT);
    ff_tree_split *split = &layout->split[layout->count++];
    FF_TRY(ff_copy_bytes(&split->name, name, name_bytes, error));
    return ff_format(&split->folder, error, "%.*s%s", (int)folder_bytes, folder,
                     folder_bytes ? "/" : "");
}

ff_status ff_tree_layout_single(ff_tree_layout *layout, const char *name, ff_error *error) {
    return add(layout, name, strlen(name), "", 0, error);
}

/* ---- by names ------------------------------------------------------------------------------ */

static ff_status mixture(const char *where, const char *split, const ff_names *top,
                         ff_error *error) {
    char others[256] = "";
    bool all = true;
    for (size_t i = 0; i < top->count; i++) {
        const char *name = ff_names_at(top, i);
        size_t used = strlen(others);
        if (ff_split_rank(name, strlen(name)) >= 0) continue;
        if (used + strlen(name) + 2 > sizeof others - 4) {
            all = false;
            break;
        }
        snprintf(others + used, sizeof others - used, "%s%s", used ? "," : "", name);
    }
    if (!all) strcat(others, ",...");
    return ff_fail(
        error, FF_USAGE,
        "%s: holds the folder %s, a split by its name, next to %s; wanted --exclude %s to leave it "
        "out, --splits NAME=FOLDER,... to name the splits, --splits none to make all folders "
        "classes, or --format if it is not a folder of images",
        where, split, others, others);
}

static ff_status by_names(ff_tree_layout *layout, const char *where, const ff_names *top,
                          ff_error *error) {
    const char *of[FF_SPLIT_NAMES] = {0}, *split = NULL;
    bool others = false;
    const char *first = NULL, *second = NULL;
    for (size_t i = 0; i < top->count; i++) {
        const char *name = ff_names_at(top, i);
        int rank = ff_split_rank(name, strlen(name));
        if (rank < 0) {
            others = true;
            continue;
        }
        split = split ? split : name;
        if (of[rank] && !first) first = of[rank], second = name;
        of[rank] = name;
    }
    if (!split) return ff_tree_layout_single(layout, "", error);
    if (others) return mixture(where, split, top, error);
    if (first)
        return ff_fail(error, FF_USAGE,
                       "%s: the folders %s and %s would both be the split %s; wanted --exclude %s, "
                       "or --splits NAME=FOLDER,... to name the splits",
                       where, first, second, ff_split_names[ff_split_rank(first, strlen(first))],
                       second);
    for (int rank = 0; rank < FF_SPLIT_NAMES; rank++)
        if (of[rank])
            FF_TRY(add(layout, ff_split_names[rank], strlen(ff_split_names[rank]), of[rank],
                       strlen(of[rank]), error));
    return FF_OK;
}

/* ---- --splits ------------------------------------------------------------------------------ */

static ff_status wrong(const char *wanted, const char *what, size_t bytes, const char *why,
                       ff_error *error) {
    return ff_fail(error, FF_USAGE, "--splits: '%s': '%.*s' %s", wanted, (int)bytes, what, why);
}

/* "NAME=FOLDER", or a FOLDER with a split's name. */
static ff_status take_word(ff_tree_layout *layout, const char *wanted, const char *word,
                           size_t bytes, ff_error *error) {
    const char *equals = memchr(word, '=', bytes), *name = word, *folder = word;
    size_t name_bytes = bytes, folder_bytes = bytes;
    if (equals) {
        name_bytes = (size_t)(equals - word);
        folder = equals + 1;
        folder_bytes = bytes - name_bytes - 1;
    }
    if (folder_bytes > 2 && folder[0] == '.' && folder[1] == '/') folder += 2, folder_bytes -= 2;
    while (folder_bytes && folder[folder_bytes - 1] == '/') folder_bytes--;
    if (!equals) {
        const char *slash = memrchr(folder, '/', folder_bytes);
        const char *base = slash ? slash + 1 : folder;
        int rank = ff_split_rank(base, folder_bytes - (size_t)(base - folder));
        if (rank < 0)
            return wrong(wanted, word, bytes, "names no split, wanted NAME=FOLDER", error);
        name = ff_split_names[rank];
        name_bytes = strlen(name);
    }
    if (name_bytes > NAME_LIMIT_BYTES || !ff_is_split_name(name, name_bytes))
        return wrong(wanted, name, name_bytes,
                     "is not the name of a split, wanted letters, digits, _ and -", error);
    if (!folder_bytes)
        return wrong(wanted, word, bytes, "has no folder, wanted NAME=FOLDER", error);
    for (size_t i = 0; i < layout->count; i++) {
        const ff_tree_split *other = &layout->split[i];
        if (strlen(other->name) == name_bytes && !memcmp(other->name, name, name_bytes))
            return wrong(wanted, name, name_bytes, "is there twice", error);
    }
    FF_TRY(add(layout, name, name_bytes, folder, folder_bytes, error));
    const char *added = layout->split[layout->count - 1].folder;
    for (size_t i = 0; i + 1 < layout->count; i++) {
        const char *other = layout->split[i].folder;
        size_t shorter = strlen(other) < strlen(added) ? strlen(other) : strlen(added);
        if (!memcmp(other, added, shorter))
            return wrong(wanted, folder, folder_bytes,
                         "is the folder of two splits, or is inside one", error);
    }
    return FF_OK;
}

static ff_status by_option(ff_tree_layout *layout, const char *wanted, ff_error *error) {
    for (const char *at = wanted; at;) {
        size_t bytes = strcspn(at, ",");
        FF_TRY(take_word(layout, wanted, at, bytes, error));
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    for (size_t i = 1; i < layout->count; i++) {
        ff_tree_split train = layout->split[i];
        if (strcmp(train.name, "train") != 0) continue;
        memmove(layout->split + 1, layout->split, i * sizeof train);
        layout->split[0] = train;
    }
    return FF_OK;
}

ff_status ff_tree_layout_find(ff_tree_layout *layout, const char *where, const ff_names *top,
                              const char *wanted, ff_error *error) {
    *layout = (ff_tree_layout){0};
    if (wanted && !strcmp(wanted, "none")) return ff_tree_layout_single(layout, "", error);
    return wanted ? by_option(layout, wanted, error) : by_names(layout, where, top, error);
}

void ff_tree_layout_free(ff_tree_layout *layout) {
    for (size_t i = 0; i < layout->count; i++) {
        free(layout->split[i].name);
        free(layout->split[i].folder);
    }
    free(layout->split);
    *layout = (ff_tree_layout){0};
}
