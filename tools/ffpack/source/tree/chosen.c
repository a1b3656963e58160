#include "tools/ffpack/source/tree/chosen.h"

#include "format/base/path.h"
#include "tools/ffpack/decode/decode.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

ff_status ff_chosen_open(ff_chosen *chosen, const char *exclude, ff_left_out *left,
                         ff_error *error) {
    *chosen = (ff_chosen){.left = left};
    for (const char *at = exclude; at;) {
        size_t bytes = strcspn(at, ",");
        const char *next = at[bytes] ? at + bytes + 1 : NULL;
        while (bytes > 1 && at[bytes - 1] == '/') bytes--;
        if (bytes > 2 && at[0] == '.' && at[1] == '/') at += 2, bytes -= 2;
        if (!bytes)
            return ff_fail(error, FF_USAGE,
                           "--exclude: '%s' has an empty pattern, wanted some like *.gif,train/bad",
                           exclude);
        FF_TRY(ff_names_add(&chosen->pattern, at, bytes, error));
        at = next;
    }
    return ff_alloc(&chosen->used, chosen->pattern.count, sizeof *chosen->used, "patterns", error);
}

/* The beginning of the last `count` names of a path; NULL if it has fewer. */
static const char *last_names(const char *path, size_t count) {
    const char *at = path + strlen(path);
    while (at > path && (at[-1] != '/' || --count)) at--;
    return at > path || count == 1 ? at : NULL;
}

/* The pattern that matches the end of the path, or SIZE_MAX. */
static size_t find_pattern(const ff_chosen *chosen, const char *path) {
    for (size_t i = 0; i < chosen->pattern.count; i++) {
        const char *pattern = ff_names_at(&chosen->pattern, i);
        size_t names = 1;
        for (const char *at = pattern; *at; at++) names += *at == '/';
        const char *end = last_names(path, names);
        if (end && !fnmatch(pattern, end, FNM_PATHNAME)) return i;
    }
    return SIZE_MAX;
}

/* Archives repeat a folder's name with every file below it. */
static bool is_new(ff_chosen *chosen, const char *folder) {
    uint32_t before = chosen->folders.count, number;
    return ff_class_set_add(&chosen->folders, folder, strlen(folder), &number, NULL) != FF_OK ||
           chosen->folders.count > before;
}

/* Examines a path up to one name. */
static ff_status look_at(ff_chosen *chosen, const char *path, bool folder, bool *taken,
                         ff_error *error) {
    const char *base = ff_path_base(path);
    size_t pattern = find_pattern(chosen, path);
    bool hidden = *base == '.' || (folder && !strcmp(base, "__MACOSX"));
    *taken = pattern == SIZE_MAX && !hidden;
    if (pattern != SIZE_MAX) chosen->used[pattern] = true;
    if (*taken || (folder && !is_new(chosen, path))) return FF_OK;
    if (hidden)
        return ff_left_out_add(chosen->left, folder ? "hidden folder" : "hidden file",
                               folder ? "hidden folders" : "hidden files", "", path, strlen(path),
                               error);
    char detail[80];
    snprintf(detail, sizeof detail, "that --exclude '%.40s' names",
             ff_names_at(&chosen->pattern, pattern));
    return ff_left_out_add(chosen->left, folder ? "folder" : "file", folder ? "folders" : "files",
                           detail, path, strlen(path), error);
}

ff_status ff_chosen_path(ff_chosen *chosen, const char *path, bool folder, bool *taken,
                         ff_error *error) {
    char *above;
    FF_TRY(ff_copy_string(&above, path, error));
    ff_status status = FF_OK;
    *taken = true;
    for (char *at = above; *taken && status == FF_OK; at++) {
        char here = *at;
        if (here && here != '/') continue;
        *at = 0;
        status = look_at(chosen, above, here || folder, taken, error);
        *at = here;
        if (!here) break;
    }
    free(above);
    return status;
}

ff_choice ff_chosen_name(const char *path) {
    static const char *const others[] = {
        ".txt", ".csv", ".tsv", ".json",  ".jsonl", ".xml", ".yaml", ".yml", ".md",  ".html",
        ".htm", ".py",  ".sh",  ".ipynb", ".log",   ".pdf", ".mat",  ".npy", ".npz", ".pkl",
        ".pt",  ".pth", ".h5",  ".db",    ".ini",   ".zip", ".tar",  ".gz",  ".mp4", ".avi"};
    if (ff_is_image_name(path)) return FF_CHOICE_TAKE;
    const char *ending = ff_path_ending(path);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!strcasecmp(ending, others[i])) return FF_CHOICE_LEAVE;
    return FF_CHOICE_LOOK;
}

ff_status ff_chosen_leave(ff_chosen *chosen, const char *path, ff_error *error) {
    return ff_left_out_file(chosen->left, path, error);
}

ff_status ff_chosen_content(ff_chosen *chosen, const char *path, const unsigned char *head,
                            size_t head_bytes, bool *taken, ff_error *error) {
    const char *kind = NULL;
    ff_decode_guess guess = ff_decode_guess_kind(head, head_bytes, &kind);
    *taken = guess == FF_DECODE_READ;
    if (*taken) return FF_OK;
    if (guess == FF_DECODE_OTHER) return ff_chosen_leave(chosen, path, error);
    if (!chosen->unread_count++) {
        chosen->unread_kind = kind;
        FF_TRY(ff_copy_string(&chosen->unread_name, path, error));
    }
    char one[48], many[48];
    snprintf(one, sizeof one, "%s image", kind);
    snprintf(many, sizeof many, "%s images", kind);
    return ff_left_out_add(chosen->left, one, many, "", path, strlen(path), error);
}

ff_status ff_chosen_finish(const ff_chosen *chosen, const char *source, bool skip, ff_names *notes,
                           ff_error *error) {
    for (size_t i = 0; i < chosen->pattern.count; i++) {
        if (chosen->used[i]) continue;
        FF_TRY(ff_names_add_text(notes, error, "--exclude '%s' names nothing in it",
                                 ff_names_at(&chosen->pattern, i)));
    }
    if (!chosen->unread_count || skip) return FF_OK;
    char more[64] = "";
    if (chosen->unread_count > 1)
        snprintf(more, sizeof more, " (and %" PRIu64 " more like it)", chosen->unread_count - 1);
    const char *ending = ff_path_ending(chosen->unread_name);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: %s is a %s image, which is not read%s; wanted " FF_DECODE_KINDS
                   ", or --exclude '%s%s' or --on-error skip to leave them out",
                   source, chosen->unread_name, chosen->unread_kind, more, *ending ? "*" : "",
                   *ending ? ending : ff_path_base(chosen->unread_name));
}

void ff_chosen_free(ff_chosen *chosen) {
    ff_names_free(&chosen->pattern);
    ff_class_set_free(&chosen->folders);
    free(chosen->used);
    free(chosen->unread_name);
    *chosen = (ff_chosen){0};
}
