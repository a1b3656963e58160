#include "format/base/text.h"

#include "format/base/read.h"

#include <stdbool.h>
#include <string.h>

#define TEXT_LIMIT_BYTES (UINT64_C(64) << 20)

ff_status ff_text_read(const char *path, char **text, ff_error *error) {
    ff_buffer all = {0};
    *text = NULL;
    ff_status status = ff_read_whole(&all, path, TEXT_LIMIT_BYTES, error);
    const char *zero = status == FF_OK ? memchr(all.bytes, 0, all.length) : NULL;
    if (zero)
        status = ff_fail(error, FF_BAD_DATA, "%s: has a zero byte at %td, wanted text", path,
                         zero - all.bytes);
    if (status == FF_OK)
        *text = all.bytes;
    else
        ff_buffer_free(&all);
    return status;
}

char *ff_text_line(char **cursor) {
    char *line = *cursor;
    if (!*line) return NULL;
    size_t length = strcspn(line, "\r\n");
    const bool both = line[length] == '\r' && line[length + 1] == '\n';
    *cursor = line + length + both + (line[length] != 0);
    line[length] = 0;
    return line;
}

static bool is_blank(char c) {
    return c && strchr(FF_BLANKS, c);
}

const char *ff_text_trim(const char *text, size_t *bytes) {
    while (*bytes && is_blank(*text)) text++, --*bytes;
    while (*bytes && is_blank(text[*bytes - 1])) --*bytes;
    return text;
}

int ff_text_whole(const char *text, size_t bytes, int64_t *value) {
    bool negative = bytes && *text == '-', fits = true;
    size_t at = bytes && (*text == '-' || *text == '+');
    if (at == bytes) return -1;
    int64_t number = 0; /* negative, which reaches further */
    for (; at < bytes; at++) {
        if (text[at] < '0' || text[at] > '9') return -1;
        fits = fits && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_sub_overflow(number, text[at] - '0', &number);
    }
    fits = fits && (negative || !__builtin_mul_overflow(number, -1, &number));
    *value = number;
    return fits;
}
