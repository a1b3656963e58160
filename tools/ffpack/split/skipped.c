#include "tools/ffpack/split/skipped.h"

#include "format/base/csv.h"
#include "format/base/path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ff_skipped {
    char *path, *temporary;
    FILE *file; /* open for appending from the first item on */
};

ff_status ff_skipped_name(char **path, const char *output, ff_error *error) {
    return ff_format(path, error, "%.*s.skipped.tsv", (int)ff_path_length(output), output);
}

ff_status ff_skipped_open(ff_skipped **out, const char *output, bool continues, ff_error *error) {
    *out = NULL;
    ff_skipped *skipped;
    FF_TRY(ff_alloc(&skipped, 1, sizeof *skipped, "a list of skipped items", error));
    ff_status status;
    FF_TRY_DONE(ff_skipped_name(&skipped->path, output, error));
    FF_TRY_DONE(ff_format(&skipped->temporary, error, "%s.tmp", skipped->path));
    if (!continues && unlink(skipped->path) < 0 && errno != ENOENT)
        status = ff_fail_errno(error, "%s: cannot remove", skipped->path);
done:
    if (status == FF_OK)
        *out = skipped;
    else
        ff_skipped_close(&skipped);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const char titles[] = "split\tposition\titem\tname\treason\n";

/* A list that is read. */
typedef struct lines {
    FILE *file;
    bool begun, old; /* old: without titles */
    char *line;
    size_t capacity;
    ff_buffer renewed;
} lines;

/* Opens the list at `path`; *found = false if there is none. */
static ff_status open_lines(lines *from, const char *path, bool *found, ff_error *error) {
    *from = (lines){.file = fopen(path, "re")};
    *found = from->file != NULL;
    if (*found || errno == ENOENT) return FF_OK;
    return ff_fail_errno(error, "%s: cannot open", path);
}

static void close_lines(lines *from) {
    if (from->file) fclose(from->file);
    free(from->line);
    ff_buffer_free(&from->renewed);
}

/* Appends a cell of earlier versions as it is written now; up to a tab or the line's end. */
static ff_status renew_cell(ff_buffer *line, const char *cell, ff_error *error) {
    for (unsigned byte; *cell && *cell != '\t' && *cell != '\n'; cell++) {
        const bool escaped = *cell == '%' && sscanf(cell + 1, "%2x", &byte) == 1;
        const char c = escaped ? (char)byte : *cell;
        FF_TRY(ff_tsv_cell(line, &c, 1, error));
        cell += escaped ? 2 : 0;
    }
    return FF_OK;
}

/* *line = from->line, written as it is now; NULL if it has too few cells. */
static ff_status renew(lines *from, const char **line, ff_error *error) {
    const char *name = from->line;
    for (int i = 0; i < 3 && name; i++)
        if ((name = strchr(name, '\t'))) name++;
    const char *reason = name ? strchr(name, '\t') : NULL;
    from->renewed.length = 0;
    *line = NULL;
    if (!reason) return FF_OK;
    FF_TRY(ff_buffer_add(&from->renewed, from->line, (size_t)(name - from->line), error));
    FF_TRY(renew_cell(&from->renewed, name, error));
    FF_TRY(ff_buffer_add(&from->renewed, "\t", 1, error));
    FF_TRY(renew_cell(&from->renewed, reason + 1, error));
    FF_TRY(ff_buffer_add(&from->renewed, "\n", 2, error));
    *line = from->renewed.bytes;
    return FF_OK;
}

/* The next line about an item, valid until the next call; NULL at the end. A line truncated by a
 * kill is the end: it belongs to a shard that was not committed. */
static ff_status next_line(lines *from, const char **line, ff_error *error) {
    *line = NULL;
    ssize_t length = getline(&from->line, &from->capacity, from->file);
    if (length > 0 && !from->begun) {
        from->begun = true;
        from->old = strcmp(from->line, titles) != 0;
        if (!from->old) length = getline(&from->line, &from->capacity, from->file);
    }
    if (length <= 0 || from->line[length - 1] != '\n') return FF_OK;
    if (from->old) return renew(from, line, error);
    *line = from->line;
    return FF_OK;
}

/* Whether a line is about `split` at or after `position`. */
static bool is_after(const char *line, const char *split, uint64_t position) {
    size_t length = strlen(split);
    return !strncmp(line, split, length) && line[length] == '\t' &&
           strtoull(line + length + 1, NULL, 10) >= position;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Opens the list for appending, if it is not open. A new one gets its titles. */
static ff_status open_end(ff_skipped *skipped, ff_error *error) {
    struct stat info;
    if (skipped->file) return FF_OK;
    skipped->file = fopen(skipped->path, "ae");
    if (!skipped->file || fstat(fileno(skipped->file), &info) < 0)
        return ff_fail_errno(error, "%s: cannot open", skipped->path);
    if (info.st_size || fputs(titles, skipped->file) >= 0) return FF_OK;
    return ff_fail_errno(error, "%s: cannot write", skipped->path);
}

/* Copies the remaining lines: `*count` in all, `*own` of the split from `first` on. */
static ff_status copy_kept(lines *from, FILE *kept, const ff_skipped *skipped, const char *split,
                           uint64_t first, uint64_t position, uint64_t *count, uint64_t *own,
                           ff_error *error) {
    bool whole = true;
    for (const char *line;;) {
        FF_TRY(next_line(from, &line, error));
        if (!line) break;
        if (is_after(line, split, position)) continue;
        if (!(*count)++) whole = fputs(titles, kept) >= 0;
        whole = whole && fputs(line, kept) >= 0;
        *own += is_after(line, split, first);
    }
    return whole && !ferror(from->file) ? FF_OK
                                        : ff_fail_errno(error, "%s: cannot rewrite", skipped->path);
}

/* Replaces the list by the remaining lines; without such a line there is no list. */
static ff_status replace(ff_skipped *skipped, lines *from, const char *split, uint64_t first,
                         uint64_t position, uint64_t *own, ff_error *error) {
    uint64_t count = 0;
    FILE *kept = fopen(skipped->temporary, "we");
    if (!kept) return ff_fail_errno(error, "%s: cannot open", skipped->temporary);
    const ff_status status =
        copy_kept(from, kept, skipped, split, first, position, &count, own, error);
    bool whole = fclose(kept) == 0;
    FF_TRY(status);
    if (whole && !count) {
        unlink(skipped->temporary);
        whole = unlink(skipped->path) == 0;
    } else if (whole) {
        whole = rename(skipped->temporary, skipped->path) == 0;
    }
    return whole ? FF_OK : ff_fail_errno(error, "%s: cannot rewrite", skipped->path);
}

ff_status ff_skipped_rewind(ff_skipped *skipped, const char *split, uint64_t first,
                            uint64_t position, uint64_t *own, ff_error *error) {
    *own = 0;
    /* Later items are appended to the rewritten list. */
    if (skipped->file && fclose(skipped->file) != 0) {
        skipped->file = NULL;
        return ff_fail_errno(error, "%s: cannot write", skipped->path);
    }
    skipped->file = NULL;
    lines from;
    bool found;
    ff_status status = open_lines(&from, skipped->path, &found, error);
    if (found) status = replace(skipped, &from, split, first, position, own, error);
    close_lines(&from);
    return status;
}

ff_status ff_skipped_add(ff_skipped *skipped, const char *split, uint64_t position, uint64_t item,
                         const char *name, const char *reason, ff_error *error) {
    ff_buffer line = {0};
    ff_status status;
    FF_TRY_DONE(open_end(skipped, error));
    FF_TRY_DONE(
        ff_buffer_printf(&line, error, "%s\t%" PRIu64 "\t%" PRIu64 "\t", split, position, item));
    FF_TRY_DONE(ff_tsv_cell(&line, name, strlen(name), error));
    FF_TRY_DONE(ff_buffer_add(&line, "\t", 1, error));
    FF_TRY_DONE(ff_tsv_cell(&line, reason, strlen(reason), error));
    FF_TRY_DONE(ff_buffer_add(&line, "\n", 1, error));
    if (fwrite(line.bytes, 1, line.length, skipped->file) != line.length ||
        fflush(skipped->file) != 0)
        status = ff_fail_errno(error, "%s: cannot write", skipped->path);
done:
    ff_buffer_free(&line);
    return status;
}

static ff_status take(ff_skipped *skipped, lines *from, const char *path, const char *split,
                      uint64_t *taken, ff_error *error) {
    for (const char *line;;) {
        FF_TRY(next_line(from, &line, error));
        if (!line) break;
        if (!is_after(line, split, 0)) continue;
        FF_TRY(open_end(skipped, error));
        if (fputs(line, skipped->file) < 0)
            return ff_fail_errno(error, "%s: cannot write", skipped->path);
        ++*taken;
    }
    if (ferror(from->file)) return ff_fail_errno(error, "%s: cannot read", path);
    if (skipped->file && fflush(skipped->file))
        return ff_fail_errno(error, "%s: cannot write", skipped->path);
    return FF_OK;
}

ff_status ff_skipped_take(ff_skipped *skipped, const char *path, const char *split, uint64_t *taken,
                          ff_error *error) {
    lines from;
    bool found;
    *taken = 0;
    ff_status status = open_lines(&from, path, &found, error);
    if (found) status = take(skipped, &from, path, split, taken, error);
    close_lines(&from);
    return status;
}

const char *ff_skipped_path(const ff_skipped *skipped) {
    return skipped->path;
}

void ff_skipped_close(ff_skipped **skipped) {
    if (!*skipped) return;
    if ((*skipped)->file) fclose((*skipped)->file);
    free((*skipped)->path);
    free((*skipped)->temporary);
    free(*skipped);
    *skipped = NULL;
}
