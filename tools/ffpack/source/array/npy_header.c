#include "tools/ffpack/source/array/npy_header.h"

#include "format/base/read.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 12, DESCR_BYTES = 64 };

/* A cursor on the dict's text, which ends with a zero. */
typedef struct text_cursor {
    const char *path, *begin, *at;
} text_cursor;

static ff_status wrong(const text_cursor *text, const char *wanted, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: its NPY header at character %td: wanted %s", text->path,
                   text->at - text->begin, wanted);
}

static void skip_blanks(text_cursor *text) {
    while (*text->at && strchr(" \t\r\n", *text->at)) text->at++;
}

/* Skips blanks and takes the next character if it is `wanted`. */
static bool take(text_cursor *text, char wanted) {
    skip_blanks(text);
    if (*text->at != wanted) return false;
    text->at++;
    return true;
}

static bool take_word(text_cursor *text, const char *word) {
    skip_blanks(text);
    size_t length = strlen(word);
    if (strncmp(text->at, word, length) != 0) return false;
    text->at += length;
    return true;
}

/* A string in quotes, without escapes. */
static ff_status take_string(text_cursor *text, char string[DESCR_BYTES], ff_error *error) {
    skip_blanks(text);
    char quote = *text->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(text->at + 1, quote) : NULL;
    if (!end || end - text->at > DESCR_BYTES) return wrong(text, "a string in quotes", error);
    memcpy(string, text->at + 1, (size_t)(end - text->at - 1));
    string[end - text->at - 1] = 0;
    text->at = end + 1;
    return FF_OK;
}

static ff_status take_type(text_cursor *text, ff_array *array, ff_error *error) {
    char descr[DESCR_BYTES];
    skip_blanks(text);
    if (*text->at == '[')
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its elements are records of several fields, wanted numbers",
                       text->path);
    FF_TRY(take_string(text, descr, error));
    if (ff_element_parse(descr, &array->element, &array->big_endian)) return FF_OK;
    for (char *at = descr; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
    if (strchr(descr, 'O'))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: holds Python's objects (type '%s'), which are never unpickled; wanted "
                       "numbers",
                       text->path, descr);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: its elements are of type '%s', wanted numbers: integers of 1 to 8 bytes, "
                   "f2, f4, f8 or bool",
                   text->path, descr);
}

static ff_status take_order(text_cursor *text, ff_array *array, ff_error *error) {
    array->fortran = take_word(text, "True");
    return array->fortran || take_word(text, "False") ? FF_OK : wrong(text, "True or False", error);
}

static ff_status take_shape(text_cursor *text, ff_array *array, ff_error *error) {
    if (!take(text, '(')) return wrong(text, "(", error);
    array->dimensions = 0;
    while (!take(text, ')')) {
        uint64_t size = 0;
        skip_blanks(text);
        if (!isdigit((unsigned char)*text->at)) return wrong(text, "a size", error);
        for (; isdigit((unsigned char)*text->at); text->at++)
            if (!ff_mul_u64(size, 10, &size) ||
                !ff_add_u64(size, (uint64_t)(*text->at - '0'), &size))
                return wrong(text, "a size below 2^64", error);
        if (*text->at == 'L') text->at++; /* as Python 2 wrote them */
        if (array->dimensions == FF_ARRAY_DIMENSIONS)
            return wrong(text, "at most 8 dimensions", error);
        array->size[array->dimensions++] = size;
        skip_blanks(text);
        if (!take(text, ',') && *text->at != ')') return wrong(text, ", or )", error);
    }
    return FF_OK;
}

static ff_status parse(text_cursor *text, ff_array *array, ff_error *error) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static ff_status (*const take_value[])(text_cursor *, ff_array *,
                                           ff_error *) = {take_type, take_order, take_shape};
    bool seen[3] = {0};
    if (!take(text, '{')) return wrong(text, "{", error);
    while (!take(text, '}')) {
        char key[DESCR_BYTES];
        FF_TRY(take_string(text, key, error));
        int which = 0;
        while (which < 3 && strcmp(key, keys[which]) != 0) which++;
        if (which == 3 || seen[which] || !take(text, ':'))
            return wrong(text, "each of 'descr', 'fortran_order' and 'shape' once", error);
        seen[which] = true;
        FF_TRY(take_value[which](text, array, error));
        skip_blanks(text);
        if (!take(text, ',') && *text->at != '}') return wrong(text, ", or }", error);
    }
    skip_blanks(text);
    if (*text->at) return wrong(text, "the end", error);
    if (!seen[0] || !seen[1] || !seen[2])
        return wrong(text, "each of 'descr', 'fortran_order' and 'shape' once", error);
    return FF_OK;
}

/* The text, allocated; *begin = the elements' offset. */
static ff_status read_text(int fd, const char *path, uint64_t offset, uint64_t bytes, char **text,
                           uint64_t *begin, ff_error *error) {
    unsigned char prefix[PREFIX_BYTES];
    if (bytes < PREFIX_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, too few for an NPY header",
                       path, bytes);
    FF_TRY(ff_read_at(fd, path, prefix, sizeof prefix, offset, error));
    if (memcmp(prefix, "\x93NUMPY", 6) != 0)
        return ff_fail(error, FF_BAD_DATA, "%s: does not begin with 93 'NUMPY' as NPY files do",
                       path);
    if (prefix[6] < 1 || prefix[6] > 3)
        return ff_fail(error, FF_BAD_DATA, "%s: is of NPY version %u, wanted 1 to 3", path,
                       prefix[6]);
    uint32_t length =
        prefix[6] == 1 ? prefix[8] | (uint32_t)prefix[9] << 8 : ff_load_u32(prefix + 8);
    *begin = (prefix[6] == 1 ? 10 : 12) + (uint64_t)length;
    if (length > FF_NPY_HEADER_LIMIT || *begin > bytes)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its NPY header has %" PRIu32 " bytes, wanted at most %" PRIu64, path,
                       length, bytes < FF_NPY_HEADER_LIMIT ? bytes : FF_NPY_HEADER_LIMIT);
    FF_TRY(ff_alloc(text, (uint64_t)length + 1, 1, "an NPY header", error));
    ff_status status = ff_read_at(fd, path, *text, length, offset + *begin - length, error);
    if (status == FF_OK && memchr(*text, 0, length))
        status = ff_fail(error, FF_BAD_DATA, "%s: a zero byte in its NPY header", path);
    if (status != FF_OK) free(*text);
    return status;
}

ff_status ff_npy_read(int fd, const char *path, uint64_t offset, uint64_t bytes, ff_array *array,
                      ff_error *error) {
    char *header, shape[256];
    uint64_t begin = 0, data;
    *array = (ff_array){0};
    FF_TRY(read_text(fd, path, offset, bytes, &header, &begin, error));
    ff_status status =
        parse(&(text_cursor){.path = path, .begin = header, .at = header}, array, error);
    free(header);
    FF_TRY(status);
    if (array->dimensions < 2) array->fortran = false;
    array->offset = offset + begin;
    bool fits = ff_array_bytes(array, &data);
    if (fits && data == bytes - begin) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes after its header, but is %s",
                   path, bytes - begin, ff_array_shape(array, shape, sizeof shape));
}
