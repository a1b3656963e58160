#include "tools/ffinspect/facts/keys.h"

#include "format/base/readable.h"
#include "format/reader/reader.h"

#include <stdio.h>

static ff_status print_key(ff_dataset *dataset, uint64_t number, const char *split, bool null,
                           ff_buffer *text, ff_error *error) {
    char key[FF_KEY_LIMIT_BYTES];
    size_t bytes;
    ff_dataset_scan(dataset, number, FF_SCAN_ENTRIES);
    FF_TRY(ff_dataset_key(dataset, number, key, &bytes, error));
    text->length = 0;
    if (*split) FF_TRY(ff_buffer_printf(text, error, "%s/", split));
    FF_TRY(null ? ff_buffer_add(text, key, bytes, error)
                : ff_key_text(text, key, bytes, true, error));
    FF_TRY(ff_buffer_add(text, null ? "" : "\n", 1, error));
    fwrite(text->bytes, 1, text->length, stdout);
    return FF_OK;
}

static ff_status print_split(const ff_split *split, const char *name, bool null, ff_error *error) {
    ff_dataset *dataset;
    ff_buffer text = {0};
    FF_TRY(ff_dataset_open(&dataset, split->path, FF_VERIFY_FIRST, error));
    ff_status status = FF_OK;
    const uint64_t count = ff_dataset_count(dataset);
    for (uint64_t i = 0; i < count && status == FF_OK && !ferror(stdout); i++)
        status = print_key(dataset, i, name, null, &text, error);
    ff_buffer_free(&text);
    ff_dataset_close(&dataset);
    return status;
}

ff_status ff_inspect_print_keys(const ff_set *list, bool null, ff_error *error) {
    for (size_t i = 0; i < list->count; i++)
        FF_TRY(
            print_split(&list->split[i], list->count > 1 ? list->split[i].name : "", null, error));
    return FF_OK;
}
