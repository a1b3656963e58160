/* MDS, the format of MosaicML Streaming (github.com/mosaicml/streaming, streaming/base/format/mds):
 * a folder with an index.json of shards (chunks.h), written by MDSWriter. A shard's columns are in
 * the index, in the order of their names, with encodings of these kinds: jpeg, png, pil, bytes,
 * ndarray; int, int8 to int64, uint8 to uint64, str_int; str. Others are not read, and are no
 * labels. Shards may be compressed with zstd or gz; the file that is not compressed is read if both
 * are there.
 *
 * Hashes of the index are not checked: Streaming writes none unless asked, and the places of all
 * samples and columns must fit. */
#include "tools/ffpack/source/chunks/ndarray.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static bool is_mds(const json_t *index) {
    const json_t *first = json_array_get(json_object_get(index, "shards"), 0);
    const char *format = json_string_value(json_object_get(first, "format"));
    return format && !strcmp(format, "mds");
}

static bool mds_detect(const char *path, const unsigned char *head, size_t head_bytes,
                       ff_error *error) {
    (void)head_bytes;
    return ff_chunks_detect(path, head, is_mds, error);
}

/* What comes after a colon are settings: "jpeg:90", "zstd:3". */
static bool is_word(const char *text, const char *word) {
    const size_t bytes = strcspn(text, ":");
    return strlen(word) == bytes && !memcmp(text, word, bytes);
}

static ff_chunk_form form_of(const char *encoding) {
    static const struct {
        const char *name;
        ff_chunk_form form;
    } forms[] = {
        {"jpeg", FF_CHUNK_FILE},       {"png", FF_CHUNK_FILE},        {"pil", FF_CHUNK_PIL},
        {"bytes", FF_CHUNK_BYTES},     {"int", FF_CHUNK_SIGNED},      {"int8", FF_CHUNK_SIGNED},
        {"int16", FF_CHUNK_SIGNED},    {"int32", FF_CHUNK_SIGNED},    {"int64", FF_CHUNK_SIGNED},
        {"uint8", FF_CHUNK_UNSIGNED},  {"uint16", FF_CHUNK_UNSIGNED}, {"uint32", FF_CHUNK_UNSIGNED},
        {"uint64", FF_CHUNK_UNSIGNED}, {"str_int", FF_CHUNK_DIGITS},  {"str", FF_CHUNK_TEXT},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (is_word(encoding, forms[i].name)) return forms[i].form;
    return ff_ndarray_form(encoding);
}

static ff_status take_columns(ff_chunks *chunks, const char *path, const json_t *shard,
                              ff_error *error) {
    const json_t *names, *encodings, *sizes;
    ff_chunks_clear_columns(chunks);
    FF_TRY(ff_chunks_array(shard, path, "column_names", &names, error));
    FF_TRY(ff_chunks_array(shard, path, "column_encodings", &encodings, error));
    FF_TRY(ff_chunks_array(shard, path, "column_sizes", &sizes, error));
    const size_t count = json_array_size(names);
    if (json_array_size(encodings) != count || json_array_size(sizes) != count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has %zu column_names, %zu column_encodings and %zu column_sizes", path,
                       count, json_array_size(encodings), json_array_size(sizes));
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const char *encoding = json_string_value(json_array_get(encodings, i));
        const json_t *size = json_array_get(sizes, i);
        const json_int_t bytes = json_is_null(size) ? 0 : json_integer_value(size);
        if (!name || !encoding || bytes < 0 || bytes > UINT32_MAX ||
            (!json_is_null(size) && !bytes))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: column %zu of a shard has no name, encoding or size", path, i);
        FF_TRY(ff_chunks_add_column(chunks, name, form_of(encoding), (uint32_t)bytes, encoding,
                                    error));
    }
    return ff_chunks_choose(chunks, path, error);
}

/* chunk->name = the file that is there: the plain one, else the compressed one. */
static ff_status choose_file(ff_chunk *chunk, const json_t *shard, ff_error *error) {
    const char *path = chunk->index, *compression;
    const json_t *zip = json_object_get(shard, "zip_data");
    struct stat info;
    char *plain;
    FF_TRY(
        ff_chunks_file(json_object_get(shard, "raw_data"), path, "basename", &chunk->name, error));
    if (!json_is_object(zip)) return FF_OK;
    FF_TRY(ff_chunks_path(&plain, path, chunk->name, error));
    const bool there = stat(plain, &info) == 0;
    free(plain);
    if (there) return FF_OK;
    FF_TRY(ff_chunks_file(zip, path, "basename", &chunk->name, error));
    FF_TRY(ff_chunks_text(shard, path, "compression", &compression, error));
    chunk->packed = true;
    if (is_word(compression, "zstd") || is_word(compression, "gz")) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: shard %s is compressed with %.40s, wanted zstd or gz, or the shard without "
                   "compression next to it, which Streaming writes when it reads it",
                   path, chunk->name, compression);
}

static ff_status list_index(void *context, ff_source_split *split, const char *path,
                            ff_error *error) {
    ff_chunks *chunks = context;
    json_t *index;
    const json_t *shards;
    FF_TRY(ff_chunks_read_index(path, &index, error));
    ff_status status;
    FF_TRY_DONE(ff_chunks_array(index, path, "shards", &shards, error));
    for (size_t i = 0; i < json_array_size(shards); i++) {
        const json_t *shard = json_array_get(shards, i);
        ff_chunk chunk = {.index = path};
        const char *format;
        FF_TRY_DONE(ff_chunks_text(shard, path, "format", &format, error));
        if (strcmp(format, "mds") != 0)
            FF_TRY_DONE(ff_fail(error, FF_BAD_DATA,
                                "%s: shard %zu is of format '%.40s', wanted mds", path, i, format));
        FF_TRY_DONE(take_columns(chunks, path, shard, error));
        FF_TRY_DONE(ff_chunks_number(shard, path, "samples", &chunk.samples, error));
        FF_TRY_DONE(choose_file(&chunk, shard, error));
        FF_TRY_DONE(ff_chunks_list(chunks, split, &chunk, error));
    }
done:
    json_decref(index);
    return status;
}

static ff_status mds_list(ff_source *source, ff_error *error) {
    return ff_chunks_list_source(source, "mds", list_index, error);
}

extern const ff_source_format ff_source_mds;
const ff_source_format ff_source_mds = {
    .name = "mds",
    .wanted = "a dataset of MosaicML Streaming: a folder with an index.json of .mds shards, or a "
              "folder of such folders called train, val or test",
    .endings = "mds /",
    .detect = mds_detect,
    .list = mds_list,
    .labels = "in the shards, as a column",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND,
};
