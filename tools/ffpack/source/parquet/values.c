/* The values of a leaf of a parquet file, from its pages. */
#include "format/base/bytes.h"
#include "format/base/read.h"
#include "tools/ffpack/source/parquet/chunks.h"
#include "tools/ffpack/source/parquet/codec.h"
#include "tools/ffpack/source/parquet/reader.h"
#include "tools/ffpack/source/parquet/runs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Fields of parquet.thrift. */
enum {
    PAGE_TYPE = 1,
    PAGE_UNPACKED = 2,
    PAGE_PACKED = 3,
    PAGE_CRC = 4,
    PAGE_V1 = 5,
    PAGE_DICTIONARY = 7,
    PAGE_V2 = 8
};
enum { TYPE_DATA = 0, TYPE_DICTIONARY = 2, TYPE_V2 = 3 };
enum { ENCODING_PLAIN = 0, ENCODING_OLD_DICTIONARY = 2, ENCODING_DICTIONARY = 8 };
enum { HEADER_MOST = 1 << 20, HEADER_FIRST = 4096, PAGE_MOST = INT32_MAX };
enum { BOMB_BYTES = 64 << 20, BOMB_RATIO = 400 }; /* a larger page may not unpack to more */

struct ff_parquet_values {
    ff_parquet *parquet;
    const ff_parquet_leaf *leaf;
    ff_parquet_chunk *chunk; /* [chunk_count] */
    size_t chunk_count, next_chunk;
    uint64_t row;
    uint64_t at, end;    /* the next page's header, and the chunk's end, in the file */
    uint64_t chunk_left; /* values of the chunk, nulls too, that no page had yet */
    ff_buffer packed, page, dictionary;
    uint64_t *place; /* [dictionary_count] the dictionary's values in it: their lengths */
    size_t place_capacity, dictionary_count;
    uint64_t left; /* values of the page, nulls too */
    ff_parquet_runs levels, indices;
    bool by_dictionary;
    const unsigned char *plain, *plain_end;
};

ff_status ff_parquet_values_open(ff_parquet_values **out, ff_parquet *parquet, size_t leaf,
                                 ff_error *error) {
    *out = NULL;
    ff_parquet_values *values;
    const ff_parquet_leaf *of = &parquet->leaf[leaf];
    if (of->repeats)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: column %s may have several values a row, wanted one", parquet->path,
                       of->path);
    if (of->type != FF_PARQUET_INT32 && of->type != FF_PARQUET_INT64 &&
        of->type != FF_PARQUET_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: column %s is of type %" PRId64 ", wanted whole numbers or bytes",
                       parquet->path, of->path, of->type);
    FF_TRY(ff_alloc(&values, 1, sizeof *values, "the values of a column", error));
    values->parquet = parquet;
    values->leaf = of;
    ff_status status =
        ff_parquet_chunks_read(parquet, of, &values->chunk, &values->chunk_count, error);
    if (status == FF_OK)
        *out = values;
    else
        ff_parquet_values_close(&values);
    return status;
}

void ff_parquet_values_close(ff_parquet_values **out) {
    ff_parquet_values *values = *out;
    if (!values) return;
    free(values->chunk);
    free(values->place);
    ff_buffer_free(&values->packed);
    ff_buffer_free(&values->page);
    ff_buffer_free(&values->dictionary);
    free(values);
    *out = NULL;
}

/* ---- pages ---------------------------------------------------------------------------------- */

typedef struct page {
    int64_t type, packed, unpacked; /* bytes after the header */
    int64_t values, encoding;
    int64_t level_bytes, repetition_bytes; /* of version 2, which are not compressed */
    bool compressed;
    bool checked; /* has a CRC-32 (as gzip's) of the bytes after the header */
    uint32_t crc;
} page;

static ff_status page_wrong(const ff_parquet_values *values, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: column %s: the page before byte %" PRIu64 " (row %" PRIu64
                   ") is broken: %s",
                   values->parquet->path, values->leaf->path, values->at, values->row, what);
}

/* The three headers of pages have their numbers of values in 1; the encoding is 2, in version 2 it
 * is 4, and then come the bytes of the levels and whether the values are compressed. */
static void read_kind(ff_thrift *from, const ff_thrift_field *kind, page *to) {
    const bool second = kind->number == PAGE_V2;
    ff_thrift_field field = {0};
    if (!ff_thrift_struct(from, kind)) return;
    while (ff_thrift_next(from, &field)) {
        if (field.number == 1)
            to->values = ff_thrift_integer(from, &field);
        else if (field.number == (second ? 4 : 2))
            to->encoding = ff_thrift_integer(from, &field);
        else if (second && field.number == 5)
            to->level_bytes = ff_thrift_integer(from, &field);
        else if (second && field.number == 6)
            to->repetition_bytes = ff_thrift_integer(from, &field);
        else if (second && field.number == 7)
            to->compressed = ff_thrift_bool(from, &field);
        else
            ff_thrift_skip(from, &field);
    }
}

/* Reads a header; values->at is then the page's first byte. The header's size is only known when it
 * was read. */
static ff_status read_header(ff_parquet_values *values, page *to, ff_error *error) {
    const ff_parquet *parquet = values->parquet;
    ff_buffer *bytes = &values->packed;
    for (size_t most = HEADER_FIRST; most <= HEADER_MOST; most *= 16) {
        const uint64_t left = values->end - values->at;
        const size_t size = left < most ? (size_t)left : most;
        ff_thrift_field field = {0};
        *to = (page){.type = -1, .packed = -1, .unpacked = -1, .values = -1, .compressed = true};
        FF_TRY(ff_reserve(&bytes->bytes, &bytes->capacity, size + 1, 1, "a page", error));
        FF_TRY(ff_read_at(parquet->fd, parquet->path, bytes->bytes, size, values->at, error));
        const unsigned char *first = (const unsigned char *)bytes->bytes;
        ff_thrift from = {.at = first, .end = first + size};
        while (ff_thrift_next(&from, &field)) switch (field.number) {
            case PAGE_TYPE: to->type = ff_thrift_integer(&from, &field); break;
            case PAGE_UNPACKED: to->unpacked = ff_thrift_integer(&from, &field); break;
            case PAGE_PACKED: to->packed = ff_thrift_integer(&from, &field); break;
            case PAGE_CRC:
                to->crc = (uint32_t)ff_thrift_integer(&from, &field);
                to->checked = true;
                break;
            case PAGE_V1:
            case PAGE_DICTIONARY:
            case PAGE_V2: read_kind(&from, &field, to); break;
            default: ff_thrift_skip(&from, &field);
            }
        if (!from.broken) {
            values->at += (uint64_t)(from.at - first);
            break;
        }
        if (size < most || most == HEADER_MOST) return page_wrong(values, "its header", error);
    }
    if (to->packed < 0 || to->packed > PAGE_MOST || to->unpacked < 0 || to->unpacked > PAGE_MOST ||
        (uint64_t)to->packed > values->end - values->at)
        return page_wrong(values, "its size", error);
    if (to->unpacked > BOMB_BYTES && to->unpacked / BOMB_RATIO > to->packed)
        return page_wrong(values, "it would unpack to more than 400 times its bytes", error);
    return FF_OK;
}

/* Reads the page and unpacks it into `into`, except the first `stored` bytes, which are as they
 * are. */
static ff_status read_page(ff_parquet_values *values, const page *of, size_t stored,
                           ff_buffer *into, ff_error *error) {
    const ff_parquet *parquet = values->parquet;
    const size_t packed = (size_t)of->packed, unpacked = (size_t)of->unpacked;
    const int64_t codec = of->compressed ? values->chunk[values->next_chunk - 1].codec : 0;
    ff_buffer *from = &values->packed;
    if (stored > packed || stored > unpacked) return page_wrong(values, "its levels", error);
    FF_TRY(ff_reserve(&from->bytes, &from->capacity, packed + 1, 1, "a page", error));
    FF_TRY(ff_read_at(parquet->fd, parquet->path, from->bytes, packed, values->at, error));
    if (of->checked && crc32(0, (unsigned char *)from->bytes, (uInt)packed) != of->crc)
        return page_wrong(values, "its checksum is wrong", error);
    FF_TRY(ff_reserve(&into->bytes, &into->capacity, unpacked + 1, 1, "a page", error));
    memcpy(into->bytes, from->bytes, stored);
    ff_status status =
        ff_parquet_unpack(codec, (unsigned char *)from->bytes + stored, packed - stored,
                          (unsigned char *)into->bytes + stored, unpacked - stored, error);
    if (status != FF_OK)
        return ff_fail_within(error, status, "%s: column %s: the page at byte %" PRIu64,
                              parquet->path, values->leaf->path, values->at);
    into->length = unpacked;
    values->at += packed;
    return FF_OK;
}

/* Takes a value in the plain encoding. */
static bool take_plain(const unsigned char **at, const unsigned char *end, int64_t type,
                       ff_parquet_value *value) {
    const size_t left = (size_t)(end - *at), head = type == FF_PARQUET_INT64 ? 8 : 4;
    if (left < head) return false;
    *value = (ff_parquet_value){0};
    if (type == FF_PARQUET_INT64) value->number = (int64_t)ff_load_u64(*at);
    if (type == FF_PARQUET_INT32) value->number = (int32_t)ff_load_u32(*at);
    if (type == FF_PARQUET_BYTES) {
        value->bytes = *at + 4;
        value->length = ff_load_u32(*at);
        if (value->length > left - 4) return false;
    }
    *at += head + value->length;
    return true;
}

static ff_status read_dictionary(ff_parquet_values *values, const page *of, ff_error *error) {
    FF_TRY(read_page(values, of, 0, &values->dictionary, error));
    if (of->encoding != ENCODING_PLAIN && of->encoding != ENCODING_OLD_DICTIONARY)
        return page_wrong(values, "the encoding of its dictionary", error);
    const unsigned char *first = (const unsigned char *)values->dictionary.bytes, *at = first;
    const unsigned char *end = first + values->dictionary.length;
    values->dictionary_count = 0;
    while ((int64_t)values->dictionary_count < of->values) {
        ff_parquet_value value;
        FF_TRY(ff_reserve(&values->place, &values->place_capacity, values->dictionary_count + 1,
                          sizeof *values->place, "a dictionary", error));
        values->place[values->dictionary_count++] = (uint64_t)(at - first);
        if (!take_plain(&at, end, values->leaf->type, &value))
            return page_wrong(values, "its dictionary has fewer values than stated", error);
    }
    return FF_OK;
}

static unsigned bits_of(unsigned value) {
    unsigned bits = 0;
    for (; value; value >>= 1) bits++;
    return bits;
}

/* The definition levels at `at`: `bytes` of them in version 2, after a u32 in version 1. */
static ff_status begin_values(ff_parquet_values *values, const page *of, ff_error *error) {
    const unsigned char *at = (const unsigned char *)values->page.bytes;
    const unsigned char *end = at + values->page.length;
    uint64_t bytes = (uint64_t)of->level_bytes;
    if (of->type == TYPE_DATA && values->leaf->definition) {
        if (end - at < 4) return page_wrong(values, "its levels", error);
        bytes = ff_load_u32(at);
        at += 4;
    }
    if (bytes > (uint64_t)(end - at)) return page_wrong(values, "its levels", error);
    values->levels =
        (ff_parquet_runs){.at = at, .end = at + bytes, .width = bits_of(values->leaf->definition)};
    at += bytes;
    values->by_dictionary =
        of->encoding == ENCODING_OLD_DICTIONARY || of->encoding == ENCODING_DICTIONARY;
    if (!values->by_dictionary && of->encoding != ENCODING_PLAIN)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: column %s: the page before byte %" PRIu64 " has encoding %" PRId64
                       ", wanted plain (0) or a dictionary (2, 8)",
                       values->parquet->path, values->leaf->path, values->at, of->encoding);
    values->plain = at;
    values->plain_end = end;
    if (values->by_dictionary && at < end) {
        if (*at > 32) return page_wrong(values, "the width of its indices", error);
        values->indices = (ff_parquet_runs){.at = at + 1, .end = end, .width = *at};
    } else {
        values->indices = (ff_parquet_runs){0};
    }
    values->left = (uint64_t)of->values;
    return FF_OK;
}

static ff_status begin_chunk(ff_parquet_values *values, ff_error *error) {
    if (values->next_chunk == values->chunk_count)
        return ff_fail(error, FF_BAD_DATA, "%s: column %s ends after %" PRIu64 " rows",
                       values->parquet->path, values->leaf->path, values->row);
    const ff_parquet_chunk *next = &values->chunk[values->next_chunk++];
    values->at = (uint64_t)next->dictionary;
    values->end = values->at + (uint64_t)next->bytes;
    values->chunk_left = (uint64_t)next->values;
    values->dictionary_count = 0;
    return FF_OK;
}

/* Reads pages until one has values. */
static ff_status next_page(ff_parquet_values *values, ff_error *error) {
    page of;
    if (!values->chunk_left) FF_TRY(begin_chunk(values, error));
    FF_TRY(read_header(values, &of, error));
    if (of.type == TYPE_DICTIONARY) return read_dictionary(values, &of, error);
    if (of.type != TYPE_DATA && of.type != TYPE_V2) {
        values->at += (uint64_t)of.packed; /* an index */
        return FF_OK;
    }
    if (of.values < 0 || (uint64_t)of.values > values->chunk_left || of.level_bytes < 0 ||
        of.repetition_bytes != 0)
        return page_wrong(values, "its number of values", error);
    FF_TRY(read_page(values, &of, of.type == TYPE_V2 ? (size_t)of.level_bytes : 0, &values->page,
                     error));
    values->chunk_left -= (uint64_t)of.values;
    return begin_values(values, &of, error);
}

ff_status ff_parquet_values_next(ff_parquet_values *values, ff_parquet_value *value,
                                 ff_error *error) {
    uint32_t level = 0, index;
    while (!values->left) FF_TRY(next_page(values, error));
    values->left--;
    values->row++;
    *value = (ff_parquet_value){.null = true};
    if (values->leaf->definition) {
        if (!ff_parquet_runs_next(&values->levels, &level))
            return page_wrong(values, "its levels end too early", error);
        if (level < values->leaf->definition) return FF_OK;
    }
    const unsigned char *at = values->plain, *end = values->plain_end;
    if (values->by_dictionary) {
        if (!ff_parquet_runs_next(&values->indices, &index) || index >= values->dictionary_count)
            return page_wrong(values, "an index of its dictionary", error);
        at = (const unsigned char *)values->dictionary.bytes + values->place[index];
        end = (const unsigned char *)values->dictionary.bytes + values->dictionary.length;
    }
    if (!take_plain(&at, end, values->leaf->type, value))
        return page_wrong(values, "it ends too early", error);
    if (!values->by_dictionary) values->plain = at;
    return FF_OK;
}
