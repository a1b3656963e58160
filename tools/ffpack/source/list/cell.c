#include "tools/ffpack/source/list/cell.h"

#include "format/base/real.h"
#include "format/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int ff_cell_whole(const char *text, size_t bytes, int64_t *value, bool *point) {
    const char *dot = memchr(text, '.', bytes);
    size_t zeros = 0;
    while (dot && zeros + 1 < bytes && text[bytes - zeros - 1] == '0') zeros++;
    *point = zeros && text + bytes - zeros - 1 == dot;
    return ff_text_whole(text, *point ? (size_t)(dot - text) : bytes, value);
}

bool ff_cell_missing(const char *text, size_t bytes) {
    static const char *const words[] = {"nan", "inf", "-inf"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == bytes && !strncasecmp(text, words[i], bytes)) return true;
    return false;
}

bool ff_cell_unlabeled(const char *text, size_t bytes) {
    int64_t value;
    bool point;
    return ff_cell_whole(text, bytes, &value, &point) > 0 && value == -1;
}

static size_t digits(const char *text, size_t *at) {
    size_t begin = *at;
    while (text[*at] >= '0' && text[*at] <= '9') ++*at;
    return *at - begin;
}

/* A decimal number at `text`, which ends with a zero; *bytes = its length. No hexadecimal, no
 * infinity, no nan, and nothing that is infinite in f32. */
static bool parse_number(const char *text, size_t *bytes, float *value) {
    size_t at = *text == '-' || *text == '+';
    size_t whole = digits(text, &at), fraction = 0;
    if (text[at] == '.') {
        at++;
        fraction = digits(text, &at);
    }
    if (!whole && !fraction) return false;
    if (text[at] == 'e' || text[at] == 'E') {
        at++;
        at += text[at] == '-' || text[at] == '+';
        if (!digits(text, &at)) return false;
    }
    *bytes = at;
    *value = (float)ff_real_read(text, NULL);
    return isfinite(*value);
}

uint32_t ff_cell_numbers(const char *cell, char *values, uint32_t room) {
    uint32_t count = 0;
    for (const char *at = cell;;) {
        size_t bytes;
        float value;
        at += strspn(at, FF_BLANKS);
        if (!*at) return count;
        if (!parse_number(at, &bytes, &value) || count == FF_LIST_WIDTH_LIMIT) return 0;
        if (count < room) memcpy(values + count * sizeof value, &value, sizeof value);
        count++;
        at += bytes;
        if (*at && !strchr(";" FF_BLANKS, *at)) return 0;
        at += strspn(at, FF_BLANKS);
        if (*at == ';') {
            at++;
            at += strspn(at, FF_BLANKS);
            if (!*at) return 0;
        }
    }
}

const char *ff_cell_name(const char **cursor, size_t *bytes) {
    while (**cursor) {
        const char *name = *cursor;
        *bytes = strcspn(name, ";|");
        *cursor = name + *bytes + (name[*bytes] != 0);
        name = ff_text_trim(name, bytes);
        if (*bytes) return name;
    }
    return NULL;
}
