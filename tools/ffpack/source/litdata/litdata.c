/* LitData's optimized datasets (github.com/Lightning-AI/litdata, src/litdata/streaming): a folder
 * with an index.json of chunks (chunks.h), written by optimize(). All chunks have the columns of
 * the index's config: data_format has the serializer of each leaf of a sample, and data_spec the
 * tree that the leaves belong to, as PyTorch's treespec_dumps writes it. A leaf of dicts is called
 * by its keys ("image", "meta/label"), one of lists and tuples by its place ("0"). Serializers that
 * are read: jpeg, tifffile, pil, bytes, file:ENDING; int, bool; str. Each value has its size in the
 * sample's head. Compression: zstd. */
#include "tools/ffpack/source/chunks/chunks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 16 };

static bool is_litdata(const json_t *index) {
    return json_is_array(json_object_get(index, "chunks")) &&
           json_is_array(json_object_get(json_object_get(index, "config"), "data_format"));
}

static bool litdata_detect(const char *path, const unsigned char *head, size_t head_bytes,
                           ff_error *error) {
    (void)head_bytes;
    return ff_chunks_detect(path, head, is_litdata, error);
}

static ff_chunk_form form_of(const char *format) {
    static const struct {
        const char *name;
        ff_chunk_form form;
    } forms[] = {
        {"jpeg", FF_CHUNK_FILE},   {"tifffile", FF_CHUNK_FILE}, {"pil", FF_CHUNK_PIL},
        {"bytes", FF_CHUNK_BYTES}, {"int", FF_CHUNK_SIGNED},    {"bool", FF_CHUNK_UNSIGNED},
        {"str", FF_CHUNK_TEXT},
    };
    if (!strncmp(format, "file:", 5)) return FF_CHUNK_BYTES;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (!strcmp(format, forms[i].name)) return forms[i].form;
    return FF_CHUNK_OTHER;
}

/* ---- names of leaves ------------------------------------------------------------------------ */

typedef struct leaves {
    ff_chunks *chunks;
    const char *path;
    const json_t *formats;
    size_t count;
} leaves;

static ff_status add_leaf(leaves *to, const char *name, ff_error *error) {
    const char *format = json_string_value(json_array_get(to->formats, to->count));
    to->count++;
    if (format)
        return ff_chunks_add_column(to->chunks, *name ? name : "sample", form_of(format), 0, format,
                                    error);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: data_spec has more leaves than data_format, which has %zu", to->path,
                   json_array_size(to->formats));
}

/* The keys of a dict are its context: a list, or a text of one in JSON; NULL for other nodes. */
static json_t *read_keys(const json_t *node) {
    json_t *context = json_object_get(node, "context");
    const char *text = json_string_value(context);
    json_t *keys = text ? json_loads(text, 0, NULL) : json_incref(context);
    if (json_is_array(keys)) return keys;
    json_decref(keys);
    return NULL;
}

static ff_status add_leaves(leaves *to, const json_t *node, const char *name, int depth,
                            ff_error *error) {
    const json_t *children = json_object_get(node, "children_spec");
    if (json_is_null(json_object_get(node, "type"))) return add_leaf(to, name, error);
    if (!json_is_array(children) || depth == DEPTH_MOST)
        return ff_fail(error, FF_BAD_DATA, "%s: data_spec is not a tree of at most %d levels",
                       to->path, DEPTH_MOST);
    json_t *keys = read_keys(node);
    ff_status status = FF_OK;
    for (size_t i = 0; i < json_array_size(children) && status == FF_OK; i++) {
        const char *key = json_string_value(json_array_get(keys, i)), *slash = *name ? "/" : "";
        char *below;
        status = key ? ff_format(&below, error, "%s%s%s", name, slash, key)
                     : ff_format(&below, error, "%s%s%zu", name, slash, i);
        if (status != FF_OK) break;
        status = add_leaves(to, json_array_get(children, i), below, depth + 1, error);
        free(below);
    }
    json_decref(keys);
    return status;
}

/* data_spec is "[1, NODE]" as a text; without one, leaves are called by their places. */
static ff_status take_columns(ff_chunks *chunks, const char *path, const json_t *config,
                              ff_error *error) {
    leaves to = {.chunks = chunks, .path = path};
    char place[32];
    const char *text = json_string_value(json_object_get(config, "data_spec"));
    json_t *spec = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *root = json_array_get(spec, 1);
    ff_chunks_clear_columns(chunks);
    ff_status status;
    FF_TRY_DONE(ff_chunks_array(config, path, "data_format", &to.formats, error));
    if (root) FF_TRY_DONE(add_leaves(&to, root, "", 0, error));
    while (to.count < json_array_size(to.formats) && !root) {
        snprintf(place, sizeof place, "%zu", to.count);
        FF_TRY_DONE(add_leaf(&to, place, error));
    }
    if (to.count != json_array_size(to.formats))
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: data_spec has %zu leaves, data_format %zu",
                            path, to.count, json_array_size(to.formats)));
    FF_TRY_DONE(ff_chunks_choose(chunks, path, error));
done:
    json_decref(spec);
    return status;
}

/* ---- listing -------------------------------------------------------------------------------- */

/* *packed = whether the chunks are compressed. */
static ff_status check_config(const char *path, const json_t *config, bool *packed,
                              ff_error *error) {
    const json_t *compression = json_object_get(config, "compression");
    const json_t *encryption = json_object_get(config, "encryption");
    const char *word = json_string_value(compression);
    *packed = word != NULL;
    if (json_is_object(encryption) || json_is_string(encryption))
        return ff_fail(error, FF_BAD_DATA, "%s: its chunks are encrypted; wanted them without",
                       path);
    if (!word || !strcmp(word, "zstd")) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: its chunks are compressed with %.40s, wanted zstd",
                   path, word);
}

static ff_status list_index(void *context, ff_source_split *split, const char *path,
                            ff_error *error) {
    ff_chunks *chunks = context;
    json_t *index;
    const json_t *list;
    bool packed;
    FF_TRY(ff_chunks_read_index(path, &index, error));
    const json_t *config = json_object_get(index, "config");
    ff_status status;
    FF_TRY_DONE(ff_chunks_array(index, path, "chunks", &list, error));
    FF_TRY_DONE(check_config(path, config, &packed, error));
    FF_TRY_DONE(take_columns(chunks, path, config, error));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        ff_chunk chunk = {.index = path, .packed = packed};
        FF_TRY_DONE(ff_chunks_file(entry, path, "filename", &chunk.name, error));
        FF_TRY_DONE(ff_chunks_number(entry, path, "chunk_size", &chunk.samples, error));
        FF_TRY_DONE(ff_chunks_list(chunks, split, &chunk, error));
    }
done:
    json_decref(index);
    return status;
}

static ff_status litdata_list(ff_source *source, ff_error *error) {
    return ff_chunks_list_source(source, "litdata", list_index, error);
}

extern const ff_source_format ff_source_litdata;
const ff_source_format ff_source_litdata = {
    .name = "litdata",
    .wanted = "a dataset of LitData: a folder with an index.json of chunks, or a folder of such "
              "folders called train, val or test",
    .endings = "/",
    .detect = litdata_detect,
    .list = litdata_list,
    .labels = "in the chunks, as a column",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND,
};
