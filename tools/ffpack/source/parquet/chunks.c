#include "tools/ffpack/source/parquet/chunks.h"

#include <inttypes.h>

/* Fields of parquet.thrift. */
enum { META_GROUPS = 4, GROUP_CHUNKS = 1, GROUP_ROWS = 3, CHUNK_FILE = 1, CHUNK_META = 3 };
enum {
    COLUMN_TYPE = 1,
    COLUMN_CODEC = 4,
    COLUMN_VALUES = 5,
    COLUMN_BYTES = 7,
    COLUMN_DATA = 9,
    COLUMN_DICTIONARY = 11
};

typedef struct groups {
    const ff_parquet *parquet;
    const ff_parquet_leaf *leaf;
    ff_parquet_chunk *chunk;
    size_t count;
} groups;

static void read_column(ff_thrift *from, const ff_thrift_field *meta, ff_parquet_chunk *to) {
    ff_thrift_field field = {0};
    if (!ff_thrift_struct(from, meta)) return;
    while (ff_thrift_next(from, &field)) switch (field.number) {
        case COLUMN_CODEC: to->codec = ff_thrift_integer(from, &field); break;
        case COLUMN_VALUES: to->values = ff_thrift_integer(from, &field); break;
        case COLUMN_BYTES: to->bytes = ff_thrift_integer(from, &field); break;
        case COLUMN_DATA: to->data = ff_thrift_integer(from, &field); break;
        case COLUMN_DICTIONARY: to->dictionary = ff_thrift_integer(from, &field); break;
        default: ff_thrift_skip(from, &field);
        }
}

/* *elsewhere = the chunk is in another file. */
static ff_parquet_chunk read_chunk(ff_thrift *from, const ff_thrift_field *element,
                                   bool *elsewhere) {
    ff_parquet_chunk found = {.data = -1, .dictionary = -1};
    ff_thrift_field field = {0};
    if (!ff_thrift_struct(from, element)) return found;
    while (ff_thrift_next(from, &field)) {
        if (field.number == CHUNK_META)
            read_column(from, &field, &found);
        else if (field.number == CHUNK_FILE)
            *elsewhere |= ff_thrift_binary(from, &field).length > 0;
        else
            ff_thrift_skip(from, &field);
    }
    return found;
}

static ff_status footer_wrong(const groups *of, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: its footer is wrong: %s of column %s",
                   of->parquet->path, what, of->leaf->path);
}

static ff_status add_chunk(groups *of, const ff_parquet_chunk *found, uint64_t rows,
                           ff_error *error) {
    const uint64_t file = of->parquet->bytes;
    ff_parquet_chunk added = *found;
    /* A dictionary comes before the data; some writers state 0 for none. */
    if (added.dictionary <= 0 || added.dictionary > added.data) added.dictionary = added.data;
    if (added.data < 0 || added.bytes < 0 || (uint64_t)added.dictionary > file ||
        (uint64_t)added.bytes > file - (uint64_t)added.dictionary)
        return footer_wrong(of, "the place of a group", error);
    if ((uint64_t)added.values != rows) return footer_wrong(of, "the number of values", error);
    FF_TRY(ff_grow(&of->chunk, of->count, sizeof added, "groups of rows", error));
    of->chunk[of->count++] = added;
    return FF_OK;
}

/* A group of rows: its chunk of the leaf; *rows are added up. */
static ff_status read_group(groups *of, ff_thrift *from, const ff_thrift_field *element,
                            uint64_t *rows, ff_error *error) {
    const size_t wanted = (size_t)(of->leaf - of->parquet->leaf);
    ff_thrift_field field = {0}, inner;
    ff_parquet_chunk found = {.data = -1};
    uint64_t group_rows = 0;
    bool elsewhere = false;
    if (!ff_thrift_struct(from, element)) return FF_OK;
    while (ff_thrift_next(from, &field)) {
        if (field.number == GROUP_ROWS) {
            group_rows = (uint64_t)ff_thrift_integer(from, &field);
        } else if (field.number == GROUP_CHUNKS) {
            const uint32_t count = ff_thrift_list(from, &field, &inner);
            for (uint32_t i = 0; i < count && !from->broken; i++) {
                bool other = false;
                const ff_parquet_chunk one = read_chunk(from, &inner, &other);
                if (i == wanted) found = one, elsewhere = other;
            }
        } else {
            ff_thrift_skip(from, &field);
        }
    }
    if (elsewhere) return footer_wrong(of, "another file has a group", error);
    if (from->broken || !ff_add_u64(*rows, group_rows, rows))
        return footer_wrong(of, "the groups", error);
    return group_rows ? add_chunk(of, &found, group_rows, error) : FF_OK;
}

static ff_status read_groups(groups *of, ff_error *error) {
    const ff_buffer *footer = &of->parquet->footer;
    const unsigned char *bytes = (const unsigned char *)footer->bytes;
    ff_thrift from = {.at = bytes, .end = bytes + footer->length};
    ff_thrift_field field = {0}, element;
    uint64_t rows = 0;
    while (ff_thrift_next(&from, &field)) {
        if (field.number != META_GROUPS) {
            ff_thrift_skip(&from, &field);
            continue;
        }
        const uint32_t count = ff_thrift_list(&from, &field, &element);
        for (uint32_t i = 0; i < count && !from.broken; i++)
            FF_TRY(read_group(of, &from, &element, &rows, error));
    }
    if (from.broken || rows != of->parquet->rows)
        return footer_wrong(of, "the number of rows of the groups", error);
    return FF_OK;
}

ff_status ff_parquet_chunks_read(const ff_parquet *parquet, const ff_parquet_leaf *leaf,
                                 ff_parquet_chunk **chunk, size_t *count, ff_error *error) {
    groups of = {.parquet = parquet, .leaf = leaf};
    const ff_status status = read_groups(&of, error);
    *chunk = of.chunk;
    *count = of.count;
    return status;
}
