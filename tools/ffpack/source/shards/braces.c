#include "tools/ffpack/source/shards/braces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Small enough that sums cannot overflow. */
#define NUMBER_LIMIT INT64_C(1000000000000000)

/* A group "{...}": [begin, end) of the text, the braces included. */
typedef struct group {
    const char *begin, *end;
    bool range, letters;
    int64_t first, last, step;
    int width; /* minimum width of a padded number, with sign */
} group;

static ff_status expand(ff_names *names, const char *text, ff_error *error);

/* Parses a number like "-007" up to the character `end`. */
static bool parse_number(const char *text, const char *end, int64_t *value, int *width) {
    const char *digits = text + (text < end && (*text == '-' || *text == '+'));
    if (digits == end || end - digits > 15) return false;
    int64_t number = 0;
    for (const char *at = digits; at < end; at++) {
        if (*at < '0' || *at > '9') return false;
        number = number * 10 + (*at - '0');
    }
    if (number > NUMBER_LIMIT) return false;
    if (digits[0] == '0' && end - digits > 1 && end - text > *width) *width = (int)(end - text);
    *value = *text == '-' ? -number : number;
    return true;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Parses the text between the braces of `found`. */
static bool parse_range(group *found) {
    const char *text = found->begin + 1, *end = found->end - 1;
    const char *dots = strstr(text, "..");
    if (!dots || dots >= end) return false;
    const char *second = dots + 2, *more = strstr(second, "..");
    const char *second_end = more && more < end ? more : end;
    int ignored = 0;
    int64_t step = 0;
    if (second_end < end && !parse_number(second_end + 2, end, &step, &ignored)) return false;
    found->step = step < 0 ? -step : step;
    if (!found->step) found->step = 1;
    found->letters =
        dots - text == 1 && second_end - second == 1 && is_letter(*text) && is_letter(*second);
    if (found->letters) {
        found->first = *text;
        found->last = *second;
        return true;
    }
    found->width = 0;
    return parse_number(text, dots, &found->first, &found->width) &&
           parse_number(second, second_end, &found->last, &found->width);
}

/* The brace that closes the one at `open`, or NULL; *comma = whether there is a comma between
 * them. */
static const char *closing(const char *open, bool *comma) {
    int depth = 0;
    *comma = false;
    for (const char *at = open; *at; at++) {
        if (*at == '{') depth++;
        if (*at == '}' && --depth == 0) return at;
        if (*at == ',' && depth == 1) *comma = true;
    }
    return NULL;
}

/* The first group that is a list or range. */
static bool find_group(const char *text, group *found) {
    for (const char *open = strchr(text, '{'); open; open = strchr(open + 1, '{')) {
        bool comma;
        const char *close = closing(open, &comma);
        if (!close) continue;
        *found = (group){.begin = open, .end = close + 1};
        found->range = !comma && parse_range(found);
        if (comma || found->range) return true;
    }
    return false;
}

/* The text with the group replaced. */
static ff_status expand_with(ff_names *names, const char *text, const group *at, const char *by,
                             size_t by_bytes, ff_error *error) {
    char *whole;
    FF_TRY(ff_format(&whole, error, "%.*s%.*s%s", (int)(at->begin - text), text, (int)by_bytes, by,
                     at->end));
    ff_status status = expand(names, whole, error);
    free(whole);
    return status;
}

static ff_status expand_range(ff_names *names, const char *text, const group *at, ff_error *error) {
    bool down = at->last < at->first;
    for (int64_t value = at->first; down ? value >= at->last : value <= at->last;
         value += down ? -at->step : at->step) {
        char word[40];
        int bytes = at->letters ? snprintf(word, sizeof word, "%c", (char)value)
                                : snprintf(word, sizeof word, "%0*" PRId64, at->width, value);
        FF_TRY(expand_with(names, text, at, word, (size_t)bytes, error));
    }
    return FF_OK;
}

static ff_status expand_list(ff_names *names, const char *text, const group *at, ff_error *error) {
    int depth = 0;
    const char *begin = at->begin + 1;
    for (const char *end = begin; end < at->end; end++) {
        if (*end == '{') depth++;
        bool last = end + 1 == at->end;
        if (last || (*end == ',' && depth == 0)) {
            FF_TRY(expand_with(names, text, at, begin, (size_t)(end - begin), error));
            begin = end + 1;
        } else if (*end == '}') {
            depth--;
        }
    }
    return FF_OK;
}

/* Replaces the group by each alternative and expands the result again, so nested and later groups
 * come in bash's order. The depth is at most the number of braces. */
static ff_status expand(ff_names *names, const char *text, ff_error *error) {
    group at;
    if (strlen(text) > FF_KEY_LIMIT_BYTES)
        return ff_fail(error, FF_USAGE, "%.100s...: has %zu bytes, at most %u are allowed", text,
                       strlen(text), FF_KEY_LIMIT_BYTES);
    if (find_group(text, &at))
        return at.range ? expand_range(names, text, &at, error)
                        : expand_list(names, text, &at, error);
    if (names->count == FF_BRACES_NAMES_LIMIT)
        return ff_fail(error, FF_USAGE, "the pattern of %.200s names more than %zu files", text,
                       FF_BRACES_NAMES_LIMIT);
    return ff_names_add(names, text, strlen(text), error);
}

ff_status ff_braces_expand(ff_names *names, const char *pattern, ff_error *error) {
    return expand(names, pattern, error);
}
