#include "format/storage/profile.h"

#include "format/base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether a text of `length` bytes is `word`. */
static bool is_word(const char *text, size_t length, const char *word) {
    return length == strlen(word) && !strncasecmp(text, word, length);
}

/* Whether a heading's inside names the section: NAME, KIND NAME or KIND "NAME". */
static bool is_section(const char *inside, size_t length, const ff_profile *section) {
    const size_t kind = strlen(section->kind), name = strlen(section->name);
    inside = ff_text_trim(inside, &length);
    if (section->bare && length == name && !memcmp(inside, section->name, name)) return true;
    if (length <= kind || memcmp(inside, section->kind, kind) || !strchr(FF_BLANKS, inside[kind]))
        return false;
    length -= kind;
    inside = ff_text_trim(inside + kind, &length);
    if (length > 1 && strchr("\"'", *inside) && inside[length - 1] == *inside)
        inside++, length -= 2;
    return length == name && !memcmp(inside, section->name, name);
}

/* Splits "NAME = VALUE"; false: the line has neither = nor :. */
static bool split(const char *line, size_t length, size_t *name_bytes, const char **value,
                  size_t *value_bytes) {
    *name_bytes = strcspn(line, "=:");
    if (*name_bytes >= length) return false;
    *value_bytes = length - *name_bytes - 1;
    *value = ff_text_trim(line + *name_bytes + 1, value_bytes);
    (void)ff_text_trim(line, name_bytes);
    return true;
}

ff_status ff_profile_value(char **value, const char *text, const ff_profile *section,
                           const char *within, const char *name, bool *there, ff_error *error) {
    char *copy, *cursor;
    bool inside = false, setting = false, wanted = !within;
    size_t level = 0;
    ff_status status = FF_OK;
    *value = NULL;
    FF_TRY(ff_copy_string(&copy, text, error));
    cursor = copy;
    for (char *whole; status == FF_OK && !*value && (whole = ff_text_line(&cursor));) {
        const size_t indent = strspn(whole, FF_BLANKS);
        size_t length = strlen(whole + indent), name_bytes, value_bytes;
        const char *line = ff_text_trim(whole + indent, &length), *found;
        if (!length || *line == '#' || *line == ';') continue;
        const bool inner = setting && indent > level;
        const char *close = *line == '[' ? memrchr(line, ']', length) : NULL;
        if (!inner) level = indent;
        if (!inner && close) { /* what follows is no part of a heading */
            inside = is_section(line + 1, (size_t)(close - line) - 1, section);
            *there |= inside;
            setting = false;
            continue;
        }
        setting = true;
        if (!inside || !split(line, length, &name_bytes, &found, &value_bytes)) continue;
        if (within && !inner) wanted = is_word(line, name_bytes, within);
        if (wanted && inner == !!within && is_word(line, name_bytes, name))
            status = ff_copy_bytes(value, found, value_bytes, error);
    }
    free(copy);
    return status;
}
