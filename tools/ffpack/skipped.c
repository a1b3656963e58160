#include "tools/ffpack/skipped.h"

#include "format/base/path.h"
#include "format/metadata.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Whether a line is about `split` at or after `position`. */
static bool is_after(const char *line, const char *split, uint64_t position) {
    size_t length = strlen(split);
    return !strncmp(line, split, length) && line[length] == '\t' &&
           strtoull(line + length + 1, NULL, 10) >= position;
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
    FILE *old = fopen(skipped->path, "re");
    if (!old && errno == ENOENT) return FF_OK;
    FILE *kept = old ? fopen(skipped->temporary, "we") : NULL;
    if (!kept) {
        ff_status status = ff_fail_errno(error, "%s: cannot open", skipped->path);
        if (old) fclose(old);
        return status;
    }
    char *line = NULL;
    size_t capacity = 0;
    uint64_t count = 0;
    bool whole = true;
    while (getline(&line, &capacity, old) > 0) {
        /* A line truncated by a kill belongs to a shard that was not committed. */
        if (!strchr(line, '\n') || is_after(line, split, position)) continue;
        whole = whole && fputs(line, kept) >= 0;
        count++;
        *own += is_after(line, split, first);
    }
    free(line);
    whole = !ferror(old) && whole;
    fclose(old);
    whole = fclose(kept) == 0 && whole;
    if (whole && !count) {
        unlink(skipped->temporary);
        whole = unlink(skipped->path) == 0;
    } else if (whole) {
        whole = rename(skipped->temporary, skipped->path) == 0;
    }
    return whole ? FF_OK : ff_fail_errno(error, "%s: cannot rewrite", skipped->path);
}

static ff_status add_escaped(ff_buffer *line, const char *text, ff_error *error) {
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, " ");
        FF_TRY(ff_escape(line, at, length, error));
        at += length;
        for (; *at == ' '; at++) FF_TRY(ff_buffer_add(line, " ", 1, error));
    }
    return FF_OK;
}

ff_status ff_skipped_add(ff_skipped *skipped, const char *split, uint64_t position, uint64_t item,
                         const void *key, size_t key_bytes, const char *reason, ff_error *error) {
    if (!skipped->file && !(skipped->file = fopen(skipped->path, "ae")))
        return ff_fail_errno(error, "%s: cannot open", skipped->path);
    ff_buffer line = {0};
    ff_status status;
    FF_TRY_DONE(
        ff_buffer_printf(&line, error, "%s\t%" PRIu64 "\t%" PRIu64 "\t", split, position, item));
    FF_TRY_DONE(ff_escape(&line, key, key_bytes, error));
    FF_TRY_DONE(ff_buffer_add(&line, "\t", 1, error));
    FF_TRY_DONE(add_escaped(&line, reason, error));
    FF_TRY_DONE(ff_buffer_add(&line, "\n", 1, error));
    if (fwrite(line.bytes, 1, line.length, skipped->file) != line.length ||
        fflush(skipped->file) != 0)
        status = ff_fail_errno(error, "%s: cannot write", skipped->path);
done:
    ff_buffer_free(&line);
    return status;
}

ff_status ff_skipped_take(ff_skipped *skipped, const char *path, const char *split, uint64_t *lines,
                          ff_error *error) {
    *lines = 0;
    FILE *from = fopen(path, "re");
    if (!from && errno == ENOENT) return FF_OK;
    if (!from) return ff_fail_errno(error, "%s: cannot open", path);
    char *line = NULL;
    size_t capacity = 0;
    ff_status status = FF_OK;
    while (status == FF_OK && getline(&line, &capacity, from) > 0) {
        if (!is_after(line, split, 0)) continue;
        if ((!skipped->file && !(skipped->file = fopen(skipped->path, "ae"))) ||
            fputs(line, skipped->file) < 0)
            status = ff_fail_errno(error, "%s: cannot write", skipped->path);
        ++*lines;
    }
    if (status == FF_OK && ferror(from)) status = ff_fail_errno(error, "%s: cannot read", path);
    if (status == FF_OK && skipped->file && fflush(skipped->file))
        status = ff_fail_errno(error, "%s: cannot write", skipped->path);
    free(line);
    fclose(from);
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
