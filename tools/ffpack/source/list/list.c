/* A list of image files with their labels: text, one line per image, cells separated by tabs or as
 * CSV (table.h). The first cell is the path, relative to the list's folder (.. and absolute ones
 * too); the others are label fields, whose kinds follow from their cells (column.h).
 *
 * The first line may be a header (header.h), which marks the column of paths. Its other cells name
 * the fields; NAME:class, NAME:names, NAME:numbers, NAME:multi-hot and NAME:value also set their
 * kind; a field named split is not a label but the split of each line: train, val and test also by
 * the words that folders may have. Without a header the field is named label (then label2, ...),
 * and adjacent vectors (columns of numbers that are not all whole) become one field named target
 * (then target2, ...). Items are numbered in the order of the lines, in each split; keys are the
 * paths as written, without ./ in front. A path with two labels is refused. The list is read twice,
 * or three times if labels are names, so memory does not grow with it. */
#include "format/base/path.h"
#include "format/base/text.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/list/fields.h"
#include "tools/ffpack/source/list/repeats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { SPLITS_LIMIT = 64, SPLIT_NAME_LIMIT = 64, PATH_CELL_BYTES = 512 };

/* ---- detection ----------------------------------------------------------------------------- */

/* The list's folder, without its last '/'. */
static ff_status folder_of(char **folder, const char *path, ff_error *error) {
    size_t length = (size_t)(ff_path_base(path) - path);
    if (!length) return ff_copy_string(folder, ".", error);
    return ff_copy_bytes(folder, path, length - 1, error);
}

/* The file that a cell names; allocated. */
static ff_status file_of(char **file, const char *folder, const char *cell, ff_error *error) {
    return *cell == '/' ? ff_copy_string(file, cell, error)
                        : ff_format(file, error, "%s/%s", folder, cell);
}

static bool is_file(const char *list, const char *cell) {
    char *folder = NULL, *file = NULL;
    struct stat info;
    bool is = folder_of(&folder, list, NULL) == FF_OK &&
              file_of(&file, folder, cell, NULL) == FF_OK && stat(file, &info) == 0 &&
              S_ISREG(info.st_mode);
    free(folder);
    free(file);
    return is;
}

static bool begins_with_header(const char *head, size_t bytes, bool whole) {
    char *text = NULL;
    ff_table *table = NULL;
    ff_table_row row;
    bool header = ff_copy_bytes(&text, head, bytes, NULL) == FF_OK &&
                  ff_table_open_text(&table, "", text, bytes, whole, NULL) == FF_OK &&
                  ff_table_next(table, &row, NULL) == FF_OK && row.count &&
                  ff_list_header_find(&row, false).present;
    ff_table_close(&table);
    return header;
}

static bool list_detect(const char *path, const unsigned char *head, size_t head_bytes,
                        ff_error *error) {
    (void)error;
    char cell[PATH_CELL_BYTES];
    if (!head || ff_archive_looks_like(head, head_bytes)) return false;
    bool whole = head_bytes < PATH_CELL_BYTES; /* a longer file's head has this many */
    if (begins_with_header((const char *)head, head_bytes, whole)) return true;
    if (!ff_table_first_cell((const char *)head, head_bytes, whole, cell, sizeof cell))
        return false;
    return is_file(path, cell);
}

typedef struct list {
    ff_source *source;
    char *folder;
    ff_list_fields fields;
    ff_names splits; /* in the order of appearance */
    ff_names words;  /* [splits.count] the first word for each */
    ff_list_repeats *repeats;
    size_t *split; /* [splits.count] its number in source->split */
    char *labels;  /* an item's */
} list;

/* ---- passes -------------------------------------------------------------------------------- */

typedef ff_status row_taker(list *state, const ff_table_row *row, ff_error *error);

/* Every row but the header. */
static ff_status for_rows(list *state, row_taker *take, ff_error *error) {
    ff_table *table;
    ff_table_row row;
    bool first = true;
    FF_TRY(ff_table_open(&table, state->source->path, error));
    ff_status status;
    while ((status = ff_table_next(table, &row, error)) == FF_OK && row.count) {
        if (first && !state->fields.column)
            status = ff_list_fields_begin(&state->fields, state->source, &row, error);
        /* The list may have changed since the first pass. */
        if (status == FF_OK && row.count != state->fields.column_count)
            status =
                ff_fail(error, FF_BAD_DATA, "%s: changed while it was read", state->source->path);
        if (status == FF_OK && !(first && state->fields.header.present))
            status = take(state, &row, error);
        if (status != FF_OK) break;
        first = false;
    }
    ff_table_close(&table);
    return status;
}

/* The split that a cell names: train, val and test also by other words, in any case, as folders
 * (ff_split_rank). */
static const char *split_of(const list *state, const ff_table_row *row, size_t *bytes) {
    const char *word = ff_table_cell(row, state->fields.header.split);
    *bytes = strlen(word);
    word = ff_text_trim(word, bytes);
    int rank = ff_split_rank(word, *bytes);
    if (rank < 0) return word;
    *bytes = strlen(ff_split_names[rank]);
    return ff_split_names[rank];
}

static bool find_split(const list *state, const char *name, size_t bytes, size_t *number) {
    for (*number = 0; *number < state->splits.count; ++*number) {
        const char *here = ff_names_at(&state->splits, *number);
        if (!strncmp(here, name, bytes) && !here[bytes]) return true;
    }
    return false;
}

/* Two words for one split, val and dev, may be meant as two. */
static ff_status check_word(const list *state, const ff_table_row *row, const char *word,
                            const char *first, ff_error *error) {
    size_t bytes = strlen(word), first_bytes = strlen(first);
    word = ff_text_trim(word, &bytes);
    first = ff_text_trim(first, &first_bytes);
    if (bytes == first_bytes && !strncasecmp(word, first, bytes)) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: line %" PRIu64
                   " names the split '%.*s', earlier lines '%.*s', which are the "
                   "same; wanted one word for it",
                   state->source->path, row->line, (int)bytes, word, (int)first_bytes, first);
}

/* A split is a folder of OUT. */
static ff_status survey_split(list *state, const ff_table_row *row, ff_error *error) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t number, bytes;
    const char *name = split_of(state, row, &bytes);
    const char *word = ff_table_cell(row, state->fields.header.split);
    if (find_split(state, name, bytes, &number))
        return check_word(state, row, word, ff_names_at(&state->words, number), error);
    if (!bytes || strspn(name, plain) < bytes || bytes > SPLIT_NAME_LIMIT)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " names the split '%.100s', wanted a word of letters, "
                       "digits, _ and -",
                       state->source->path, row->line, word);
    if (state->splits.count == SPLITS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: line %" PRIu64 " names a split beyond %d",
                       state->source->path, row->line, SPLITS_LIMIT);
    FF_TRY(ff_names_add(&state->words, word, strlen(word), error));
    return ff_names_add(&state->splits, name, bytes, error);
}

static ff_status survey_row(list *state, const ff_table_row *row, ff_error *error) {
    FF_TRY(ff_list_fields_survey(&state->fields, row, error));
    return state->fields.header.split == SIZE_MAX ? FF_OK : survey_split(state, row, error);
}

static ff_status collect_row(list *state, const ff_table_row *row, ff_error *error) {
    return ff_list_fields_collect(&state->fields, row, error);
}

static ff_status make_fields(list *state, ff_error *error) {
    bool collect;
    FF_TRY(ff_list_fields_make(&state->fields, &collect, error));
    if (collect) FF_TRY(for_rows(state, collect_row, error));
    FF_TRY(ff_list_fields_finish(&state->fields, error));
    return ff_alloc(&state->labels, state->fields.label_bytes, 1, "labels", error);
}

/* ---- items --------------------------------------------------------------------------------- */

static ff_status add_split(list *state, size_t number, const char *name, ff_error *error) {
    ff_source_split *split;
    state->split[number] = state->source->split_count;
    FF_TRY(ff_source_add_split(state->source, name, &split, error));
    return ff_copy_string(&split->root, state->folder, error);
}

/* Train first, then as they appear. */
static ff_status add_splits(list *state, ff_error *error) {
    size_t count = state->splits.count, train = count;
    FF_TRY(ff_alloc(&state->split, count + 1, sizeof *state->split, "splits", error));
    if (count <= 1) return add_split(state, 0, "", error);
    if (find_split(state, "train", 5, &train)) FF_TRY(add_split(state, train, "train", error));
    for (size_t i = 0; i < count; i++)
        if (i != train) FF_TRY(add_split(state, i, ff_names_at(&state->splits, i), error));
    return FF_OK;
}

/* *bytes of the image file; what is missing is only listed with --on-error skip, then reading it
 * fails. A first line of titles is refused all the same: its labels would be classes. */
static ff_status find_file(const list *state, const ff_table_row *row, uint64_t *bytes,
                           ff_error *error) {
    const char *cell = ff_table_cell(row, state->fields.header.path);
    char *file;
    struct stat info;
    *bytes = 0;
    if (!*cell)
        return ff_fail(error, FF_BAD_DATA, "%s: line %" PRIu64 " has no path", state->source->path,
                       row->line);
    if (strlen(cell) > FF_KEY_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " has a path of %zu bytes, at most %u are allowed",
                       state->source->path, row->line, strlen(cell), FF_KEY_LIMIT_BYTES);
    FF_TRY(file_of(&file, state->folder, cell, error));
    bool there = stat(file, &info) == 0;
    int reason = errno;
    free(file);
    if (there) *bytes = (uint64_t)info.st_size;
    if (there && !S_ISDIR(info.st_mode)) return FF_OK;
    if (!there && row->line == 1 && ff_list_header_may_be(row))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line 1: %.200s is missing, and the line may hold titles; wanted "
                       "--columns path=%.200s,label=NAME, by its titles, or an image of this name",
                       state->source->path, cell, cell);
    if (state->source->skip) return FF_OK;
    if (!there && reason != ENOENT && reason != ENOTDIR) {
        errno = reason;
        return ff_fail_errno(error, "%s: line %" PRIu64 ": cannot find %.200s", state->source->path,
                             row->line, cell);
    }
    const bool bare = !there && !strchr(cell, '/');
    return ff_fail(error, FF_BAD_DATA,
                   "%s: line %" PRIu64 ": %.200s is %s, wanted an image file%s%s%s",
                   state->source->path, row->line, cell, there ? "a folder" : "missing",
                   bare ? ", from the list's folder on; for names in a folder of images wanted "
                          "ffpack FOLDER --labels "
                        : "",
                   bare ? state->source->path : "", bare ? " -o OUT" : "");
}

static ff_status list_row(list *state, const ff_table_row *row, ff_error *error) {
    /* ./a.png is a.png: one key. */
    const char *path = ff_table_cell(row, state->fields.header.path);
    while (path[0] == '.' && path[1] == '/' && path[2]) path += 2;
    size_t split = 0, bytes = 0;
    const char *name = state->splits.count > 1 ? split_of(state, row, &bytes) : NULL;
    FF_TRY(ff_list_fields_values(&state->fields, row, state->labels, error));
    if (name && !find_split(state, name, bytes, &split))
        return ff_fail(error, FF_BAD_DATA, "%s: changed while it was read", state->source->path);
    ff_item item = {
        .part = FF_PART_FILE, .key = path, .key_bytes = strlen(path), .labels = state->labels};
    FF_TRY(find_file(state, row, &item.bytes, error));
    FF_TRY(ff_list_repeats_add(state->repeats, path, row->line, split, state->labels,
                               state->fields.label_bytes, error));
    return ff_listing_add(state->source->split[state->split[split]].listing, &item, error);
}

static ff_status note_repeats(list *state, ff_error *error) {
    char *said, *text;
    ff_status status = ff_list_repeats_check(state->repeats, &said, error);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", state->source->path);
    if (!said) return FF_OK;
    status = ff_format(&text, error, "%s: %s", state->source->path, said);
    free(said);
    FF_TRY(status);
    return ff_source_note(state->source, text, error);
}

static ff_status list_all(list *state, ff_error *error) {
    FF_TRY(folder_of(&state->folder, state->source->path, error));
    FF_TRY(for_rows(state, survey_row, error));
    if (!state->fields.column)
        return ff_fail(error, FF_BAD_DATA, "%s: has no lines", state->source->path);
    FF_TRY(make_fields(state, error));
    FF_TRY(add_splits(state, error));
    FF_TRY(ff_list_repeats_create(&state->repeats, state->source->temporary, error));
    FF_TRY(for_rows(state, list_row, error));
    return note_repeats(state, error);
}

static ff_status list_list(ff_source *source, ff_error *error) {
    source->kind = "list";
    source->encoded = true;
    list state = {.source = source};
    ff_status status = list_all(&state, error);
    ff_list_fields_free(&state.fields);
    free(state.labels);
    free(state.split);
    free(state.folder);
    ff_names_free(&state.splits);
    ff_names_free(&state.words);
    ff_list_repeats_destroy(&state.repeats);
    return status;
}

extern const ff_source_format ff_source_list_file;
const ff_source_format ff_source_list_file = {
    .name = "list",
    .wanted = "a list of image files: lines of a path and its labels, separated by tabs or as CSV",
    .endings = "csv tsv txt tab lst list",
    .detect = list_detect,
    .list = list_list,
    .labels = "in its own columns",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND | FF_USES_COLUMNS,
};
