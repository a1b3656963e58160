#include "format/storage/xml.h"

#include <stdlib.h>
#include <string.h>

/* The first tag `begin` NAME of `in`: "<" for a begin, "</" for an end. NULL: there is none. A
 * begin may have attributes. *after = what follows the tag. */
static const char *find_tag(ff_xml in, const char *begin, const char *name, const char **after,
                            bool *empty) {
    const size_t mark = strlen(begin), length = strlen(name);
    const char *const end = in.at + in.length;
    for (const char *at = in.at; (at = memmem(at, (size_t)(end - at), begin, mark)); at++) {
        const char *word = at + mark;
        if ((size_t)(end - word) <= length || memcmp(word, name, length)) continue;
        if (!memchr("> /\t\r\n", word[length], 6)) continue;
        const char *close = memchr(word + length, '>', (size_t)(end - word) - length);
        if (!close) return NULL;
        *after = close + 1;
        *empty = close[-1] == '/';
        return at;
    }
    return NULL;
}

bool ff_xml_next(ff_xml *rest, const char *name, ff_xml *content) {
    const char *begin, *after;
    const char *const end = rest->at + rest->length;
    bool empty;
    if (!find_tag(*rest, "<", name, &begin, &empty)) return false;
    *content = (ff_xml){begin, 0};
    after = begin;
    if (!empty) {
        const char *close =
            find_tag((ff_xml){begin, (size_t)(end - begin)}, "</", name, &after, &empty);
        if (!close) return false;
        content->length = (size_t)(close - begin);
    }
    *rest = (ff_xml){after, (size_t)(end - after)};
    return true;
}

/* The character that a reference &...; at the begin of `in` stands for, and its length; -1: the
 * text does not begin with a reference. S3's names are UTF-8: references are to characters of
 * ASCII. */
static int referred(ff_xml in, size_t *length) {
    static const struct {
        const char *text;
        char c;
    } names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    char digits[8] = "", *end;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *length = strlen(names[i].text);
        if (in.length >= *length && !memcmp(in.at, names[i].text, *length)) return names[i].c;
    }
    const char *close = memchr(in.at, ';', in.length < sizeof digits ? in.length : sizeof digits);
    if (!close || close - in.at < 3 || in.at[1] != '#') return -1;
    *length = (size_t)(close - in.at) + 1;
    memcpy(digits, in.at + 2, *length - 3);
    const bool hex = *digits == 'x';
    const long value = strtol(digits + hex, &end, hex ? 16 : 10);
    return end == digits + hex || *end || value < 0 || value >= 0x80 ? -1 : (int)value;
}

ff_status ff_xml_text(char **text, ff_xml within, const char *name, ff_error *error) {
    ff_xml content;
    *text = NULL;
    if (!ff_xml_next(&within, name, &content)) return FF_OK;
    FF_TRY(ff_copy_bytes(text, content.at, content.length, error));
    size_t to = 0, taken;
    for (size_t from = 0; from < content.length; from += taken, to++) {
        const ff_xml left = {content.at + from, content.length - from};
        const int c = *left.at == '&' ? referred(left, &taken) : -1;
        if (c < 0) taken = 1;
        (*text)[to] = c < 0 ? *left.at : (char)c;
    }
    (*text)[to] = 0;
    if (!memchr(*text, 0, to)) return FF_OK;
    free(*text), *text = NULL;
    return ff_fail(error, FF_BAD_DATA, "the server's answer has a zero byte in <%s>", name);
}
