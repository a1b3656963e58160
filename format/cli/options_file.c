/* Options in files: one `name = value` per line. */
#include "format/base/memory.h"
#include "format/base/real.h"
#include "format/cli/options.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

ff_status ff_options_set(const ff_command *command, const char *name, const char *value,
                         ff_error *error) {
    const ff_option *option;
    FF_TRY(ff_options_find(command, name, strlen(name), &option, error));
    if (option->kind != FF_OPTION_FLAG) return ff_option_set(option, value, error);
    const bool yes = !strcmp(value, "yes"), no = !strcmp(value, "no");
    if (!yes && !no) return ff_fail(error, FF_USAGE, "%s: '%s' is neither yes nor no", name, value);
    *(bool *)option->target = yes;
    return FF_OK;
}

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1])) length--;
    text[length] = 0;
    return text;
}

ff_status ff_options_read(const ff_command *command, char *text, const char *where,
                          ff_error *error) {
    for (int number = 1; text; number++) {
        char *line = text, *end = strchr(text, '\n');
        if (end) *end = 0;
        text = end ? end + 1 : NULL;
        line = trimmed(line);
        if (!*line || *line == '#') continue;
        char *equal = strchr(line, '=');
        if (!equal)
            return ff_fail(error, FF_USAGE, "%s: line %d: '%s' is not `name = value`", where,
                           number, line);
        *equal = 0;
        const ff_status status = ff_options_set(command, trimmed(line), trimmed(equal + 1), error);
        if (status != FF_OK) return ff_fail_within(error, status, "%s: line %d", where, number);
    }
    return FF_OK;
}

/* ---- writing ---- */

static ff_status write_value(const ff_option *option, const void *at, ff_buffer *text,
                             ff_error *error) {
    char number[32];
    const char *word = option->choices;
    int index;
    switch (option->kind) {
    case FF_OPTION_FLAG:
        return ff_buffer_printf(text, error, "%s = %s\n", option->name,
                                *(const bool *)at ? "yes" : "no");
    case FF_OPTION_STRING:
        return ff_buffer_printf(text, error, "%s = %s\n", option->name, *(const char *const *)at);
    case FF_OPTION_INTEGER:
        if (word && *(const int64_t *)at < (int64_t)option->minimum)
            return ff_buffer_printf(text, error, "%s = %s\n", option->name, word);
        /* fall through */
    case FF_OPTION_BYTES:
        return ff_buffer_printf(text, error, "%s = %lld\n", option->name,
                                (long long)*(const int64_t *)at);
    case FF_OPTION_REAL:
        ff_real_write(*(const double *)at, 6, number);
        return ff_buffer_printf(text, error, "%s = %s\n", option->name, number);
    case FF_OPTION_CHOICE:
        for (index = *(const int *)at; index > 0; index--) word = strchr(word, '|') + 1;
        return ff_buffer_printf(text, error, "%s = %.*s\n", option->name, (int)strcspn(word, "|"),
                                word);
    case FF_OPTION_LIST:
    case FF_OPTION_HEADING: break;
    }
    return FF_OK;
}

bool ff_option_same(const ff_option *option, const void *b) {
    const void *a = option->target;
    const char *one, *other;
    switch (option->kind) {
    case FF_OPTION_FLAG: return *(const bool *)a == *(const bool *)b;
    case FF_OPTION_STRING:
        one = *(const char *const *)a;
        other = *(const char *const *)b;
        return one == other || !one || (other && !strcmp(one, other));
    case FF_OPTION_INTEGER:
    case FF_OPTION_BYTES: return *(const int64_t *)a == *(const int64_t *)b;
    case FF_OPTION_REAL: return *(const double *)a == *(const double *)b;
    case FF_OPTION_CHOICE: return *(const int *)a == *(const int *)b;
    case FF_OPTION_LIST:
    case FF_OPTION_HEADING: break;
    }
    return true;
}

void ff_option_copy(const ff_option *option, const void *from) {
    static const size_t bytes[] = {
        [FF_OPTION_FLAG] = sizeof(bool),       [FF_OPTION_STRING] = sizeof(const char *),
        [FF_OPTION_INTEGER] = sizeof(int64_t), [FF_OPTION_REAL] = sizeof(double),
        [FF_OPTION_BYTES] = sizeof(uint64_t),  [FF_OPTION_LIST] = sizeof(ff_option_list),
        [FF_OPTION_CHOICE] = sizeof(int),      [FF_OPTION_HEADING] = 0,
    };
    memcpy(option->target, from, bytes[option->kind]);
}

ff_status ff_options_write(const ff_option *options, const void *base, const void *defaults,
                           ff_buffer *text, ff_error *error) {
    for (const ff_option *option = options; option->name || option->kind == FF_OPTION_HEADING;
         option++) {
        if (!option->name) continue;
        const ptrdiff_t offset = (const char *)option->target - (const char *)base;
        if (ff_option_same(option, (const char *)defaults + offset)) continue;
        FF_TRY(write_value(option, option->target, text, error));
    }
    return FF_OK;
}
