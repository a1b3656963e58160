#include "format/select/where.h"
#include "format/base/real.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Reads the expression from left to right. */
typedef struct parser {
    ff_where *where;
    const char *at;
    int depth;
    ff_error *error;
} parser;

static size_t place(const parser *p, const char *at) {
    return (size_t)(at - p->where->expression);
}

/* Fails with what was wanted, and what is at the current place instead, up to a space. */
static ff_status wanted(const parser *p, const char *what) {
    const size_t length = strcspn(p->at, " \t\n");
    if (!*p->at)
        return ff_fail(p->error, FF_USAGE, "at %zu: wanted %s, found the end", place(p, p->at) + 1,
                       what);
    return ff_fail(p->error, FF_USAGE, "at %zu: wanted %s, found '%.*s'", place(p, p->at) + 1, what,
                   (int)(length < 40 ? length : 40), p->at);
}

static void skip_spaces(parser *p) {
    p->at += strspn(p->at, " \t\r\n");
}

static size_t name_length(const char *text) {
    size_t length = 0;
    while ((text[length] >= '0' && text[length] <= '9') || text[length] == '_' ||
           ((text[length] | 32) >= 'a' && (text[length] | 32) <= 'z') || text[length] & 0x80)
        length++;
    return *text >= '0' && *text <= '9' ? 0 : length;
}

/* Whether the next name is this word; if so, the word is consumed. */
static bool take_word(parser *p, const char *word) {
    skip_spaces(p);
    const size_t length = name_length(p->at);
    if (length != strlen(word) || strncasecmp(p->at, word, length) != 0) return false;
    p->at += length;
    return true;
}

static bool take_sign(parser *p, const char *sign) {
    skip_spaces(p);
    if (strncmp(p->at, sign, strlen(sign)) != 0) return false;
    p->at += strlen(sign);
    return true;
}

static ff_status add_step(parser *p, ff_where_step step) {
    if (p->where->step_count == FF_WHERE_STEPS)
        return ff_fail(p->error, FF_USAGE,
                       "at %zu: more than %d comparisons and words between them",
                       place(p, p->at) + 1, FF_WHERE_STEPS);
    p->where->step[p->where->step_count++] = step;
    return FF_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

/* The text between quotes. */
static ff_status take_text(parser *p, ff_where_value *value) {
    ff_where *where = p->where;
    const char *begin = p->at, quote = *p->at++;
    value->quoted = true;
    value->text = where->text_bytes;
    while (*p->at && *p->at != quote) {
        p->at += *p->at == '\\' && (p->at[1] == quote || p->at[1] == '\\');
        where->text[where->text_bytes++] = *p->at++;
    }
    value->bytes = where->text_bytes - value->text;
    if (!*p->at)
        return ff_fail(p->error, FF_USAGE, "at %zu: the text does not end; wanted a %c after it",
                       place(p, begin) + 1, quote);
    p->at++;
    return FF_OK;
}

static ff_status take_number(parser *p, ff_where_value *value) {
    char digits[64], *end;
    const size_t length = strspn(p->at, "+-.0123456789eE");
    if (!length || length >= sizeof digits)
        return wanted(p, "a number, or text in quotes like 'cat'");
    memcpy(digits, p->at, length);
    digits[length] = 0;
    value->number = ff_real_read(digits, &end);
    if (*end || name_length(p->at + length) || end == digits)
        return wanted(p, "a number, or text in quotes like 'cat'");
    p->at += length;
    return FF_OK;
}

static ff_status take_value(parser *p, ff_where_step *step, bool pattern) {
    ff_where *where = p->where;
    skip_spaces(p);
    if (where->value_count == FF_WHERE_VALUES)
        return ff_fail(p->error, FF_USAGE, "at %zu: more than %d values", place(p, p->at) + 1,
                       FF_WHERE_VALUES);
    ff_where_value *value = &where->value[where->value_count];
    *value = (ff_where_value){.at = place(p, p->at)};
    if (*p->at == '\'' || *p->at == '"')
        FF_TRY(take_text(p, value));
    else if (pattern)
        return wanted(p, "a pattern in quotes like 'cat/*'");
    else
        FF_TRY(take_number(p, value));
    where->value_count++;
    step->value_count++;
    return FF_OK;
}

static ff_status take_list(parser *p, ff_where_step *step) {
    if (!take_sign(p, "(")) return wanted(p, "( and values with commas between");
    do FF_TRY(take_value(p, step, false));
    while (take_sign(p, ","));
    return take_sign(p, ")") ? FF_OK : wanted(p, ", or )");
}

/* ---- comparisons ---------------------------------------------------------------------------- */

static ff_status take_name(parser *p, ff_where_step *step) {
    skip_spaces(p);
    step->quoted_name = *p->at == '`';
    p->at += step->quoted_name;
    step->at = place(p, p->at);
    step->name_bytes = step->quoted_name ? strcspn(p->at, "`") : name_length(p->at);
    if (!step->name_bytes) return wanted(p, "a label field, key, split, height or width");
    p->at += step->name_bytes;
    if (!step->quoted_name) return FF_OK;
    return take_sign(p, "`") ? FF_OK : wanted(p, "a ` after the name");
}

static ff_status take_comparison(parser *p) {
    /* Longer signs come first. */
    static const struct {
        const char *sign;
        ff_where_operator is;
    } signs[] = {{"==", FF_WHERE_EQUAL},   {"!=", FF_WHERE_UNEQUAL},  {"<>", FF_WHERE_UNEQUAL},
                 {"<=", FF_WHERE_AT_MOST}, {">=", FF_WHERE_AT_LEAST}, {"=", FF_WHERE_EQUAL},
                 {"<", FF_WHERE_BELOW},    {">", FF_WHERE_ABOVE}};
    ff_where_step step = {.value = p->where->value_count};
    FF_TRY(take_name(p, &step));
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!take_sign(p, signs[i].sign)) continue;
        step.is = signs[i].is;
        FF_TRY(take_value(p, &step, false));
        return add_step(p, step);
    }
    const bool negated = take_word(p, "not");
    if (take_word(p, "in")) {
        step.is = FF_WHERE_IN;
        FF_TRY(take_list(p, &step));
    } else if (take_word(p, "like")) {
        step.is = FF_WHERE_LIKE;
        FF_TRY(take_value(p, &step, true));
    } else {
        return wanted(p, negated ? "in or like" : "one of = != < <= > >= in like");
    }
    FF_TRY(add_step(p, step));
    return negated ? add_step(p, (ff_where_step){.is = FF_WHERE_NOT}) : FF_OK;
}

/* ---- what joins them ------------------------------------------------------------------------ */

static ff_status take_any(parser *p);

static ff_status take_one(parser *p) {
    if (++p->depth > FF_WHERE_DEPTH)
        return ff_fail(p->error, FF_USAGE, "at %zu: more than %d parentheses and nots in another",
                       place(p, p->at) + 1, FF_WHERE_DEPTH);
    if (take_word(p, "not")) {
        FF_TRY(take_one(p));
        FF_TRY(add_step(p, (ff_where_step){.is = FF_WHERE_NOT}));
    } else if (take_sign(p, "(")) {
        FF_TRY(take_any(p));
        if (!take_sign(p, ")")) return wanted(p, "and, or, or )");
    } else {
        FF_TRY(take_comparison(p));
    }
    p->depth--;
    return FF_OK;
}

static ff_status take_all(parser *p) {
    FF_TRY(take_one(p));
    while (take_word(p, "and")) {
        FF_TRY(take_one(p));
        FF_TRY(add_step(p, (ff_where_step){.is = FF_WHERE_AND}));
    }
    return FF_OK;
}

static ff_status take_any(parser *p) {
    FF_TRY(take_all(p));
    while (take_word(p, "or")) {
        FF_TRY(take_all(p));
        FF_TRY(add_step(p, (ff_where_step){.is = FF_WHERE_OR}));
    }
    return FF_OK;
}

ff_status ff_where_read(ff_where *where, const char *expression, ff_error *error) {
    parser p = {.where = where, .at = expression, .error = error};
    where->expression = expression;
    where->text_bytes = where->step_count = where->value_count = 0;
    where->metadata = NULL;
    if (strlen(expression) >= FF_WHERE_LIMIT_BYTES)
        return ff_fail(error, FF_USAGE, "%zu bytes; an expression has at most %d",
                       strlen(expression), FF_WHERE_LIMIT_BYTES - 1);
    FF_TRY(take_any(&p));
    skip_spaces(&p);
    return *p.at ? wanted(&p, "and, or, or the end") : FF_OK;
}
