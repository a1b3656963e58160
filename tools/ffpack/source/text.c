#include "tools/ffpack/source/text.h"

#include "format/base/read.h"

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
    size_t length = strcspn(line, "\n");
    *cursor = line + length + (line[length] != 0);
    line[length] = 0;
    if (length && line[length - 1] == '\r') line[length - 1] = 0;
    return line;
}
