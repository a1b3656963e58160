#include "loader/library/views.h"

#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define SYNTAX                                                                                      \
    "wanted a number, as in 2, or groups of a name, a number, an augmentation and perhaps a size, " \
    "as in 'global 2 rrc=224,flip; local 6 rrc=96:0.05-0.4,flip'"

bool ff_library_parse_numbers(const char *text, char mark, unsigned long most,
                              unsigned long *number, int count) {
    for (int i = 0; i < count; i++) {
        char *end;
        if (*text < '0' || *text > '9') return false;
        number[i] = strtoul(text, &end, 10);
        if (number[i] > most || *end != (i + 1 < count ? mark : 0)) return false;
        text = end + 1;
    }
    return true;
}

ff_status ff_library_parse_size(const char *option, const char *text, uint32_t *height,
                                uint32_t *width, ff_error *error) {
    unsigned long side[2] = {0};
    *height = *width = 0;
    if (!text) return FF_OK;
    if (!ff_library_parse_numbers(text, 'x', FF_SIDE_LIMIT, side, 2) || !side[0] || !side[1])
        return ff_fail(error, FF_USAGE, "%s: '%s' is not HEIGHTxWIDTH, as in 224x224", option,
                       text);
    *height = (uint32_t)side[0];
    *width = (uint32_t)side[1];
    return FF_OK;
}

static ff_status parse_count(const char *text, uint32_t *count, ff_error *error) {
    unsigned long number = 0;
    if (!ff_library_parse_numbers(text, 0, FF_VIEWS_MOST, &number, 1) || number < 1)
        return ff_fail(error, FF_USAGE, "views: '%s' is not a number from 1 to %u; " SYNTAX, text,
                       FF_VIEWS_MOST);
    *count = (uint32_t)number;
    return FF_OK;
}

static bool is_name(const char *name) {
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t length = strspn(name, known);
    return length <= FF_LIBRARY_NAME_MOST && !name[length];
}

/* The words of a group. */
static ff_status parse_group(ff_library_views *views, char *text, ff_error *error) {
    enum { NAME, COUNT, AUGMENT, SIZE, WORDS };
    char *word[WORDS + 1] = {NULL}, *rest = NULL;
    int words = 0;
    for (char *at = strtok_r(text, " ", &rest); at && words <= WORDS;
         at = strtok_r(NULL, " ", &rest))
        word[words++] = at;
    if (words < SIZE || words > WORDS || !is_name(word[NAME]))
        return ff_fail(error, FF_USAGE, "views: '%s' is not a group; " SYNTAX, text);
    for (size_t i = 0; i < views->count; i++)
        if (strcmp(views->name[i], word[NAME]) == 0)
            return ff_fail(error, FF_USAGE, "views: there are two groups '%s'", word[NAME]);
    if (views->count == FF_VIEWS_MOST)
        return ff_fail(error, FF_USAGE, "views: more than %u groups", FF_VIEWS_MOST);
    ff_loader_group *group = &views->group[views->count];
    FF_TRY(parse_count(word[COUNT], &group->views, error));
    FF_TRY(ff_library_parse_size("views", word[SIZE], &group->height, &group->width, error));
    const ff_status status = ff_augment_parse(&group->augment, word[AUGMENT], error);
    if (status != FF_OK) return ff_fail_within(error, status, "views: %s", word[NAME]);
    views->name[views->count] = word[NAME];
    views->augment[views->count++] = word[AUGMENT];
    return FF_OK;
}

ff_status ff_library_views_parse(ff_library_views *views, const char *text, ff_error *error) {
    *views = (ff_library_views){0};
    if (!text) return FF_OK;
    if (!strpbrk(text, " ;")) {
        views->count = 1;
        return parse_count(text, &views->group[0].views, error);
    }
    ff_status status;
    FF_TRY(ff_copy_string(&views->words, text, error));
    for (char *rest = views->words, *group; (group = strsep(&rest, ";"));)
        FF_TRY_DONE(parse_group(views, group, error));
done:
    if (status != FF_OK) ff_library_views_free(views);
    return status;
}

void ff_library_views_free(ff_library_views *views) {
    free(views->words);
    *views = (ff_library_views){0};
}
