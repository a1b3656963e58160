#include "tools/ffpack/source/list/repeats.h"

#include "format/cli/say.h"
#include "format/disk/checksum.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The kept part of a line. */
typedef struct line {
    uint64_t number, split;
    XXH128_hash_t labels;
} line;

struct ff_list_repeats {
    ff_sorter *sorter;
    ff_buffer path;            /* the line before's */
    line last;                 /* the line before */
    uint64_t repeated, in_two; /* lines with the same labels as an earlier one; images in two
                                  splits */
    char *repeated_path, *in_two_path; /* the first ones */
};

ff_status ff_list_repeats_create(ff_list_repeats **repeats, const char *directory,
                                 ff_error *error) {
    FF_TRY(ff_alloc(repeats, 1, sizeof **repeats, "the lines of a list", error));
    ff_status status = ff_sorter_create(&(*repeats)->sorter, directory, error);
    if (status != FF_OK) ff_list_repeats_destroy(repeats);
    return status;
}

ff_status ff_list_repeats_add(ff_list_repeats *repeats, const char *path, uint64_t number,
                              size_t split, const void *labels, size_t label_bytes,
                              ff_error *error) {
    line now = {.number = number, .split = split, .labels = ff_hash_of(labels, label_bytes)};
    ff_sorter_record record = {.key = path,
                               .key_bytes = (uint32_t)strlen(path),
                               .payload = &now,
                               .payload_bytes = sizeof now};
    return ff_sorter_add(repeats->sorter, &record, error);
}

static ff_status count(uint64_t *number, char **first, const ff_buffer *path, ff_error *error) {
    return (*number)++ ? FF_OK : ff_copy_bytes(first, path->bytes, path->length, error);
}

/* A line with the same path as the line before. */
static ff_status take_same(ff_list_repeats *repeats, const line *now, ff_error *error) {
    if (!XXH128_isEqual(now->labels, repeats->last.labels))
        return ff_fail(error, FF_BAD_DATA,
                       "lines %" PRIu64 " and %" PRIu64
                       " have different labels for %.*s; wanted one line for each image",
                       repeats->last.number, now->number, (int)repeats->path.length,
                       repeats->path.bytes);
    if (now->split != repeats->last.split)
        return count(&repeats->in_two, &repeats->in_two_path, &repeats->path, error);
    return count(&repeats->repeated, &repeats->repeated_path, &repeats->path, error);
}

static ff_status say(const ff_list_repeats *repeats, char **said, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = FF_OK;
    if (repeats->repeated)
        status =
            ff_buffer_printf(&text, error, "%s an image once more, which is packed as often (%s%s)",
                             ff_say_count(repeats->repeated, "line names", "lines name").text,
                             repeats->repeated_path, repeats->repeated == 1 ? "" : ", ...");
    if (status == FF_OK && repeats->in_two)
        status =
            ff_buffer_printf(&text, error, "%s%s in two splits (%s%s)", text.length ? "; " : "",
                             ff_say_count(repeats->in_two, "image is", "images are").text,
                             repeats->in_two_path, repeats->in_two == 1 ? "" : ", ...");
    if (status == FF_OK)
        *said = text.bytes;
    else
        ff_buffer_free(&text);
    return status;
}

ff_status ff_list_repeats_check(ff_list_repeats *repeats, char **said, ff_error *error) {
    *said = NULL;
    for (bool first = true;; first = false) {
        ff_sorter_record record;
        bool more;
        line now;
        FF_TRY(ff_sorter_next(repeats->sorter, &record, &more, error));
        if (!more) return say(repeats, said, error);
        memcpy(&now, record.payload, sizeof now);
        if (!first && record.key_bytes == repeats->path.length &&
            !memcmp(record.key, repeats->path.bytes, record.key_bytes))
            FF_TRY(take_same(repeats, &now, error));
        repeats->last = now;
        repeats->path.length = 0;
        FF_TRY(ff_buffer_add(&repeats->path, record.key, record.key_bytes, error));
    }
}

void ff_list_repeats_destroy(ff_list_repeats **repeats) {
    if (!*repeats) return;
    ff_sorter_destroy(&(*repeats)->sorter);
    ff_buffer_free(&(*repeats)->path);
    free((*repeats)->repeated_path);
    free((*repeats)->in_two_path);
    free(*repeats);
    *repeats = NULL;
}
