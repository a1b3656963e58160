#include "loader/selection/list.h"

#include "format/base/text.h"
#include "format/select/keys.h"
#include "loader/selection/selection.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct list {
    int64_t *index;
    size_t count, capacity;
} list;

static ff_status add(list *to, int64_t number, ff_error *error) {
    FF_TRY(
        ff_reserve(&to->index, &to->capacity, to->count + 1, sizeof *to->index, "samples", error));
    to->index[to->count++] = number;
    return FF_OK;
}

/* *all: every line is a number. */
static ff_status read_numbers(list *to, const char *path, bool *all, ff_error *error) {
    char *text, *line;
    *all = true;
    FF_TRY(ff_text_read(path, &text, error));
    char *cursor = text;
    ff_status status = FF_OK;
    for (size_t at = 1; status == FF_OK && *all && (line = ff_text_line(&cursor)); at++) {
        size_t bytes = strlen(line);
        int64_t number;
        const char *word = ff_text_trim(line, &bytes);
        if (!bytes) continue;
        const int found = ff_text_whole(word, bytes, &number);
        if (found < 0)
            *all = false;
        else if (!found)
            status = ff_fail(error, FF_USAGE, "%s: line %zu: %s is not the number of a sample",
                             path, at, word);
        else
            status = add(to, number, error);
    }
    free(text);
    return status;
}

const char *ff_list_split(const ff_dataset *dataset, uint64_t number) {
    return ff_dataset_metadata(ff_dataset_set(dataset, ff_dataset_set_of(dataset, number)))->split;
}

/* Those whose keys the file has; *first = the first of them. */
static ff_status read_keys(list *to, ff_dataset *dataset, ff_keys *keys, ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        char key[FF_KEY_LIMIT_BYTES];
        size_t bytes;
        bool named;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_key(dataset, i, key, &bytes, error));
        FF_TRY(ff_keys_look(keys, ff_list_split(dataset, i), key, bytes, &named, error));
        if (named) FF_TRY(add(to, (int64_t)i, error));
    }
    return FF_OK;
}

/* Numbers that are keys, too, are refused. */
static ff_status read_either(list *to, ff_dataset *dataset, const char *path, bool numbers,
                             bool keys, ff_error *error) {
    bool all;
    ff_keys known = {0};
    list named = {0};
    ff_status status;
    FF_TRY(read_numbers(to, path, &all, error));
    if (numbers && !keys && !all)
        return ff_fail(error, FF_USAGE,
                       "%s: has lines that are not numbers; wanted a sample's number a line", path);
    if (numbers && !keys) return FF_OK;
    FF_TRY_DONE(ff_keys_read(&known, path, error));
    FF_TRY_DONE(read_keys(&named, dataset, &known, error));
    if (numbers && all && !named.count) goto done;
    if (numbers && all)
        FF_TRY_DONE(ff_fail(error, FF_USAGE,
                            "%s: its lines are numbers of samples, and sample %" PRId64
                            " has one of them as its key; numbers:%s and keys:%s decide",
                            path, named.index[0], path, path));
    FF_TRY_DONE(ff_keys_check(&known, ff_dataset_path(dataset), error));
    free(to->index);
    *to = named;
    named = (list){0};
done:
    free(named.index);
    ff_keys_free(&known);
    return status;
}

static bool begins(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

const char *ff_selection_list_path(const char *given) {
    return begins(given, "keys:") || begins(given, "numbers:") ? strchr(given, ':') + 1 : given;
}

ff_status ff_list_read(int64_t **index, size_t *count, ff_dataset *dataset, const char *given,
                       ff_error *error) {
    const bool numbers = begins(given, "numbers:"), keys = begins(given, "keys:");
    list found = {0};
    const ff_status status =
        read_either(&found, dataset, ff_selection_list_path(given), !keys, !numbers, error);
    *index = status == FF_OK ? found.index : NULL;
    *count = found.count;
    if (status != FF_OK) free(found.index);
    return status;
}
