#include "format/select/keys.h"

#include "format/base/text.h"
#include "format/cli/say.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------- */

static ff_status add_form(ff_keys *keys, const char *key, size_t bytes, bool decoded,
                          ff_error *error) {
    FF_TRY(ff_reserve(&keys->form, &keys->form_capacity, keys->form_count + 1, sizeof *keys->form,
                      "keys", error));
    keys->form[keys->form_count++] =
        (ff_key_form){.key = key, .bytes = bytes, .line = keys->line_count - 1, .decoded = decoded};
    return FF_OK;
}

static ff_status add_line(ff_keys *keys, const char *text, ff_error *error) {
    FF_TRY(ff_reserve(&keys->line, &keys->line_capacity, keys->line_count + 1, sizeof *keys->line,
                      "keys", error));
    keys->line[keys->line_count++].text = *text ? text : NULL;
    if (!*text) return FF_OK;
    FF_TRY(add_form(keys, text, strlen(text), false, error));
    char *to = keys->decoded + (text - keys->text);
    const size_t bytes = ff_unescape(to, text, strlen(text));
    return bytes < strlen(text) ? add_form(keys, to, bytes, true, error) : FF_OK;
}

/* Compares bytes; a key comes before longer keys that begin with it. */
static int compare_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    const size_t shared = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = shared ? memcmp(a, b, shared) : 0;
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_forms(const void *a, const void *b) {
    const ff_key_form *first = a, *second = b;
    return compare_bytes(first->key, first->bytes, second->key, second->bytes);
}

ff_status ff_keys_read(ff_keys *keys, const char *path, ff_error *error) {
    keys->path = path;
    FF_TRY(ff_text_read(path, &keys->text, error));
    FF_TRY(ff_copy_string(&keys->decoded, keys->text, error));
    char *cursor = keys->text, *line;
    if (!strncmp(cursor, "\xef\xbb\xbf", 3)) cursor += 3;
    while ((line = ff_text_line(&cursor))) FF_TRY(add_line(keys, line, error));
    if (!keys->form_count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: names no sample; wanted a key a line (samples without a key: --where "
                       "\"key = ''\")",
                       path);
    qsort(keys->form, keys->form_count, sizeof *keys->form, compare_forms);
    return FF_OK;
}

/* ---- looking -------------------------------------------------------------------------------- */

/* The first form that is not before the key. */
static size_t find(const ff_keys *keys, const char *key, size_t bytes) {
    size_t low = 0, high = keys->form_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const ff_key_form *form = &keys->form[middle];
        if (compare_bytes(form->key, form->bytes, key, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static ff_status look(ff_keys *keys, const char *split, const char *key, size_t bytes, bool *named,
                      ff_error *error) {
    for (size_t i = find(keys, key, bytes); i < keys->form_count; i++) {
        const ff_key_form *form = &keys->form[i];
        if (compare_bytes(form->key, form->bytes, key, bytes) != 0) break;
        struct ff_key_line *line = &keys->line[form->line];
        if (line->split && strcmp(line->split, split) != 0)
            return ff_fail(error, FF_USAGE,
                           "%s: line %zu: both %s and %s have a sample '%s'; wanted %s/%s or %s/%s",
                           keys->path, form->line + 1, line->split, split, line->text, line->split,
                           line->text, split, line->text);
        if (line->split && line->decoded != form->decoded)
            return ff_fail(
                error, FF_USAGE,
                "%s: line %zu: '%s' is a sample's key, and another one's with %%XX decoded; "
                "wanted every %% of a key as %%25",
                keys->path, form->line + 1, line->text);
        line->split = split;
        line->decoded = form->decoded;
        *named = true;
    }
    return FF_OK;
}

ff_status ff_keys_look(ff_keys *keys, const char *split, const char *key, size_t bytes, bool *named,
                       ff_error *error) {
    ff_buffer longer = {0};
    *named = false;
    FF_TRY(look(keys, split, key, bytes, named, error));
    if (!*split) return FF_OK;
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&longer, error, "%s/", split));
    FF_TRY_DONE(ff_buffer_add(&longer, key, bytes, error));
    FF_TRY_DONE(look(keys, split, longer.bytes, longer.length, named, error));
done:
    ff_buffer_free(&longer);
    return status;
}

ff_status ff_keys_check(const ff_keys *keys, const char *set, ff_error *error) {
    size_t first = SIZE_MAX, count = 0;
    for (size_t i = 0; i < keys->line_count; i++) {
        if (!keys->line[i].text || keys->line[i].split) continue;
        if (!count++) first = i;
    }
    if (!count) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s: %s not in %s; the first is '%s' (line %zu)", keys->path,
                   ff_say_count(count, "key is", "keys are").text, set, keys->line[first].text,
                   first + 1);
}

void ff_keys_free(ff_keys *keys) {
    free(keys->text);
    free(keys->decoded);
    free(keys->form);
    free(keys->line);
    *keys = (ff_keys){0};
}
