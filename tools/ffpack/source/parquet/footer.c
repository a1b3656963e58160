/* A parquet file's footer: its schema, metadata and number of rows. */
#include "tools/ffpack/source/parquet/reader.h"

#include "format/base/bytes.h"
#include "format/base/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 4, TAIL_BYTES = 8, FOOTER_MOST = 256 << 20 };

/* Fields of parquet.thrift. */
enum { META_SCHEMA = 2, META_ROWS = 3, META_KEY_VALUES = 5 };
enum { NODE_TYPE = 1, NODE_REPETITION = 3, NODE_NAME = 4, NODE_CHILDREN = 5, NODE_CONVERTED = 6 };
enum { REQUIRED = 0, OPTIONAL = 1, REPEATED = 2, CONVERTED_UTF8 = 0 };

bool ff_parquet_looks_like(const unsigned char *head, size_t head_bytes) {
    return head_bytes >= MAGIC_BYTES && !memcmp(head, "PAR1", MAGIC_BYTES);
}

static ff_thrift begin(const ff_parquet *parquet) {
    const unsigned char *bytes = (const unsigned char *)parquet->footer.bytes;
    return (ff_thrift){.at = bytes, .end = bytes + parquet->footer.length};
}

/* ---- schema --------------------------------------------------------------------------------- */

typedef struct node {
    int64_t type, repetition, children, converted;
    ff_thrift_text name;
} node;

static node read_node(ff_thrift *from, const ff_thrift_field *element) {
    node found = {.type = -1, .converted = -1, .name = {"", 0}};
    ff_thrift_field field = {0};
    if (!ff_thrift_struct(from, element)) return found;
    while (ff_thrift_next(from, &field)) switch (field.number) {
        case NODE_TYPE: found.type = ff_thrift_integer(from, &field); break;
        case NODE_REPETITION: found.repetition = ff_thrift_integer(from, &field); break;
        case NODE_NAME: found.name = ff_thrift_binary(from, &field); break;
        case NODE_CHILDREN: found.children = ff_thrift_integer(from, &field); break;
        case NODE_CONVERTED: found.converted = ff_thrift_integer(from, &field); break;
        default: ff_thrift_skip(from, &field);
        }
    return found;
}

static ff_status add_leaf(ff_parquet *parquet, const node *found, const ff_buffer *path,
                          unsigned definition, bool repeats, ff_error *error) {
    ff_parquet_leaf leaf = {.type = found->type,
                            .text = found->converted == CONVERTED_UTF8,
                            .repeats = repeats,
                            .definition = definition};
    if (parquet->leaf_count == FF_PARQUET_LEAVES_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: has more than %u columns", parquet->path,
                       FF_PARQUET_LEAVES_LIMIT);
    FF_TRY(ff_grow(&parquet->leaf, parquet->leaf_count, sizeof leaf, "columns", error));
    FF_TRY(ff_copy_bytes(&leaf.path, path->bytes, path->length, error));
    parquet->leaf[parquet->leaf_count++] = leaf;
    return FF_OK;
}

static ff_status broken(const ff_parquet *parquet, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: its footer is broken (%s)", parquet->path, what);
}

/* The schema is a list of nodes, each followed by its children. `left` counts the children to come
 * of each node on the path. */
static ff_status read_schema(ff_parquet *parquet, ff_thrift *from, const ff_thrift_field *field,
                             ff_error *error) {
    struct {
        int64_t left;
        size_t path_bytes;
        unsigned definition;
        bool repeats;
    } above[FF_PARQUET_DEPTH_LIMIT] = {{0}};
    ff_buffer path = {0};
    ff_thrift_field element;
    size_t depth = 0;
    const uint32_t count = ff_thrift_list(from, field, &element);
    ff_status status = FF_OK;
    for (uint32_t i = 0; i < count && status == FF_OK; i++) {
        const node found = read_node(from, &element);
        while (depth && !above[depth - 1].left) depth--;
        if (from->broken || found.children < 0 || (i && !depth) ||
            memchr(found.name.bytes, 0, found.name.length)) {
            status = broken(parquet, "its schema", error);
            break;
        }
        if (depth) above[depth - 1].left--;
        path.length = depth ? above[depth - 1].path_bytes : 0;
        if (i)
            status = ff_buffer_printf(&path, error, "%s%.*s", path.length ? "." : "",
                                      (int)found.name.length, found.name.bytes);
        const unsigned definition =
            (depth ? above[depth - 1].definition : 0) + (i && found.repetition != REQUIRED);
        const bool repeats =
            (depth && above[depth - 1].repeats) || (i && found.repetition == REPEATED);
        if (status == FF_OK && i && !found.children)
            status = add_leaf(parquet, &found, &path, definition, repeats, error);
        if (status != FF_OK || (i && !found.children)) continue;
        if (depth == FF_PARQUET_DEPTH_LIMIT)
            status = broken(parquet, "its schema is too deep", error);
        if (status != FF_OK) break;
        above[depth].left = found.children;
        above[depth].path_bytes = path.length;
        above[depth].definition = definition;
        above[depth++].repeats = repeats;
    }
    ff_buffer_free(&path);
    return status;
}

/* ---- the footer ----------------------------------------------------------------------------- */

static ff_status read_footer(ff_parquet *parquet, ff_error *error) {
    ff_thrift from = begin(parquet);
    ff_thrift_field field = {0};
    while (ff_thrift_next(&from, &field)) {
        if (field.number == META_SCHEMA)
            FF_TRY(read_schema(parquet, &from, &field, error));
        else if (field.number == META_ROWS)
            parquet->rows = (uint64_t)ff_thrift_integer(&from, &field);
        else
            ff_thrift_skip(&from, &field);
    }
    if (from.broken) return broken(parquet, "it ends too early", error);
    if (parquet->leaf_count && parquet->rows <= INT64_MAX) return FF_OK;
    return broken(parquet, "it has no columns", error);
}

ff_status ff_parquet_open(ff_parquet *parquet, const char *path, ff_error *error) {
    unsigned char tail[TAIL_BYTES];
    *parquet = (ff_parquet){.fd = -1};
    FF_TRY(ff_copy_string(&parquet->path, path, error));
    FF_TRY(ff_open_file(path, &parquet->fd, &parquet->bytes, error));
    if (parquet->bytes < MAGIC_BYTES + TAIL_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, too few for parquet", path,
                       parquet->bytes);
    FF_TRY(ff_read_at(parquet->fd, path, tail, sizeof tail, parquet->bytes - TAIL_BYTES, error));
    const uint64_t length = ff_load_u32(tail), most = parquet->bytes - MAGIC_BYTES - TAIL_BYTES;
    if (!memcmp(tail + 4, "PARE", MAGIC_BYTES))
        return ff_fail(error, FF_BAD_DATA, "%s: is encrypted; wanted a file without", path);
    if (memcmp(tail + 4, "PAR1", MAGIC_BYTES) != 0)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: does not end with PAR1: the file was cut off, or is not parquet", path);
    if (length > most || length > FOOTER_MOST)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its footer has %" PRIu64 " bytes, wanted at most %" PRIu64, path,
                       length, most < FOOTER_MOST ? most : (uint64_t)FOOTER_MOST);
    ff_buffer *footer = &parquet->footer;
    FF_TRY(ff_reserve(&footer->bytes, &footer->capacity, length + 1, 1, "a footer", error));
    FF_TRY(ff_read_at(parquet->fd, path, footer->bytes, length,
                      parquet->bytes - TAIL_BYTES - length, error));
    footer->length = length;
    return read_footer(parquet, error);
}

ff_thrift_text ff_parquet_metadata(const ff_parquet *parquet, const char *key) {
    ff_thrift from = begin(parquet);
    ff_thrift_field field = {0}, element;
    ff_thrift_text found = {NULL, 0};
    while (ff_thrift_next(&from, &field)) {
        if (field.number != META_KEY_VALUES) {
            ff_thrift_skip(&from, &field);
            continue;
        }
        const uint32_t count = ff_thrift_list(&from, &field, &element);
        for (uint32_t i = 0; i < count && ff_thrift_struct(&from, &element); i++) {
            ff_thrift_text text[3] = {{"", 0}, {"", 0}, {NULL, 0}}; /* by the field's number */
            ff_thrift_field part = {0};
            while (ff_thrift_next(&from, &part)) {
                const ff_thrift_text value = ff_thrift_binary(&from, &part);
                if (part.number == 1 || part.number == 2) text[part.number] = value;
            }
            if (text[1].length == strlen(key) && !memcmp(text[1].bytes, key, text[1].length))
                found = text[2];
        }
    }
    return found;
}

void ff_parquet_close(ff_parquet *parquet) {
    if (!parquet->path) return;
    for (size_t i = 0; i < parquet->leaf_count; i++) free(parquet->leaf[i].path);
    free(parquet->leaf);
    ff_buffer_free(&parquet->footer);
    ff_close_file(&parquet->fd);
    free(parquet->path);
    *parquet = (ff_parquet){0};
}
