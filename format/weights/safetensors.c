#include "format/weights/safetensors.h"

#include "format/base/file.h"
#include "format/base/json.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"

/* The element types of safetensors, and ours. */
static const struct {
    const char *name;
    uint64_t bytes;
    ff_dtype dtype;
} types[] = {
    {"F32", 4, FF_F32},
    {"F16", 2, FF_F16},
    {"BF16", 2, FF_BF16},
    {"F64", 8, FF_DTYPE_COUNT},
    {"I64", 8, FF_I64},
    {"I32", 4, FF_I32},
    {"U16", 2, FF_U16},
    {"U8", 1, FF_U8},
    {"I16", 2, FF_DTYPE_COUNT},
    {"I8", 1, FF_DTYPE_COUNT},
    {"U32", 4, FF_DTYPE_COUNT},
    {"U64", 8, FF_DTYPE_COUNT},
    {"BOOL", 1, FF_DTYPE_COUNT},
    {"F8_E4M3", 1, FF_DTYPE_COUNT},
    {"F8_E5M2", 1, FF_DTYPE_COUNT},
};
enum { TYPES = sizeof types / sizeof *types };

struct ff_safetensors {
    char *path;
    int fd;
    json_t *header;
    ff_safetensor *tensors; /* [count], in the order of their bytes */
    size_t count;
};

/* ---- reading ---- */

static int by_offset(const void *a, const void *b) {
    const ff_safetensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* A nonnegative integer. */
static bool whole(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool shape_of(const json_t *shape, ff_safetensor *tensor) {
    tensor->count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > FF_SAFETENSORS_RANK) return false;
    tensor->rank = (int)json_array_size(shape);
    for (int i = 0; i < tensor->rank; i++)
        if (!whole(json_array_get(shape, (size_t)i), &tensor->shape[i]) ||
            !ff_mul_u64(tensor->count, tensor->shape[i], &tensor->count))
            return false;
    return true;
}

/* NULL, or what a tensor's header entry should be if it is wrong. */
static const char *read_entry(const json_t *entry, uint64_t data, ff_safetensor *tensor) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    uint64_t begin, end, bytes;
    int t = 0;
    if (!json_is_object(entry)) return "is not an object";
    while (type && t < TYPES && strcmp(type, types[t].name) != 0) t++;
    if (!type || t == TYPES) return "has a dtype that the format does not have";
    memcpy(tensor->type, types[t].name, strlen(types[t].name) + 1);
    tensor->dtype = types[t].dtype;
    if (!shape_of(json_object_get(entry, "shape"), tensor))
        return "has no shape of up to 8 whole numbers, or one of more than 2^64 elements";
    if (json_array_size(offsets) != 2 || !whole(json_array_get(offsets, 0), &begin) ||
        !whole(json_array_get(offsets, 1), &end) || begin > end)
        return "has no data_offsets of two whole numbers in order";
    if (!ff_mul_u64(tensor->count, types[t].bytes, &bytes) || bytes != end - begin)
        return "has another number of bytes than its shape and dtype need";
    if (!ff_add_u64(begin, data, &tensor->offset)) return "has offsets beyond 2^64";
    tensor->bytes = bytes;
    return NULL;
}

static bool check_metadata(json_t *metadata) {
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata)) return false;
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return false;
    return true;
}

/* Names are printed in error messages. */
static bool is_printable(const char *name) {
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 0x7f) return false;
    return true;
}

/* Every byte after the header belongs to one tensor. */
static ff_status check_cover(const ff_safetensors *file, uint64_t data, uint64_t size,
                             ff_error *error) {
    uint64_t at = data;
    for (size_t i = 0; i < file->count; i++) {
        const ff_safetensor *tensor = &file->tensors[i];
        if (tensor->offset != at)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: '%s' begins at byte %" PRIu64 " of the data, not at %" PRIu64
                           ", where the tensor before it ends",
                           file->path, tensor->name, tensor->offset - data, at - data);
        if (!ff_add_u64(at, tensor->bytes, &at) || at > size)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: '%s' ends after the file's %" PRIu64 " bytes; is it cut off?",
                           file->path, tensor->name, size);
    }
    if (at != size)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes at the end belong to no tensor",
                       file->path, size - at);
    return FF_OK;
}

static ff_status list_tensors(ff_safetensors *file, uint64_t data, uint64_t size, ff_error *error) {
    const char *name;
    json_t *entry;
    if (!check_metadata(json_object_get(file->header, METADATA)))
        return ff_fail(error, FF_BAD_DATA, "%s: " METADATA " is not an object of texts",
                       file->path);
    FF_TRY(ff_alloc(&file->tensors, json_object_size(file->header) + 1, sizeof *file->tensors,
                    "the list of tensors", error));
    json_object_foreach(file->header, name, entry) {
        if (!strcmp(name, METADATA)) continue;
        if (!is_printable(name))
            return ff_fail(error, FF_BAD_DATA, "%s: a tensor's name has control characters",
                           file->path);
        ff_safetensor *tensor = &file->tensors[file->count++];
        tensor->name = name;
        const char *wrong = read_entry(entry, data, tensor);
        if (wrong) return ff_fail(error, FF_BAD_DATA, "%s: '%s' %s", file->path, name, wrong);
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
    return check_cover(file, data, size, error);
}

static ff_status read_header(ff_safetensors *file, uint64_t size, ff_error *error) {
    uint8_t prefix[8];
    json_error_t where;
    if (size < sizeof prefix)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %" PRIu64 " bytes are too few for a safetensors file", file->path,
                       size);
    FF_TRY(ff_read_at(file->fd, file->path, prefix, sizeof prefix, 0, error));
    const uint64_t length = ff_load_u64(prefix);
    if (length > FF_SAFETENSORS_HEADER_LIMIT || length > size - sizeof prefix)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: is not a safetensors file, or cut off: its header would have %" PRIu64
                       " bytes",
                       file->path, length);
    char *text;
    FF_TRY(ff_alloc(&text, length + 1, 1, "the header", error));
    ff_status status = ff_read_at(file->fd, file->path, text, length, sizeof prefix, error);
    if (status == FF_OK) {
        file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
        if (!file->header && json_error_code(&where) == json_error_out_of_memory)
            status = ff_fail(error, FF_NO_MEMORY, "%s: no memory for its header", file->path);
        else if (!json_is_object(file->header))
            status = ff_fail(
                error, FF_BAD_DATA,
                "%s: is not a safetensors file: byte %d of its header is not a JSON object's",
                file->path, file->header ? 0 : where.position);
    }
    free(text);
    return status == FF_OK ? list_tensors(file, sizeof prefix + length, size, error) : status;
}

ff_status ff_safetensors_open(ff_safetensors **out, const char *path, ff_error *error) {
    ff_safetensors *file;
    uint64_t size;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&file, 1, sizeof *file, "a safetensors file", error));
    file->fd = -1;
    FF_TRY_DONE(ff_copy_string(&file->path, path, error));
    FF_TRY_DONE(ff_open_file(path, &file->fd, &size, error));
    FF_TRY_DONE(read_header(file, size, error));
    *out = file;
    return FF_OK;
done:
    ff_safetensors_close(&file);
    return status;
}

void ff_safetensors_close(ff_safetensors **pointer) {
    ff_safetensors *file = *pointer;
    if (!file) return;
    ff_close_file(&file->fd);
    json_decref(file->header);
    free(file->tensors);
    free(file->path);
    free(file);
    *pointer = NULL;
}

const ff_safetensor *ff_safetensors_at(const ff_safetensors *file, size_t index) {
    return index < file->count ? &file->tensors[index] : NULL;
}

const ff_safetensor *ff_safetensors_find(const ff_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    return NULL;
}

const char *ff_safetensors_text(const ff_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

const char *ff_safetensors_path(const ff_safetensors *file) {
    return file->path;
}

ff_status ff_safetensors_read(const ff_safetensors *file, const ff_safetensor *tensor, void *to,
                              ff_error *error) {
    return ff_read_at(file->fd, file->path, to, tensor->bytes, tensor->offset, error);
}

/* ---- writing ---- */

static const char *type_name(ff_dtype dtype) {
    int t = 0;
    while (types[t].dtype != dtype) t++;
    return types[t].name;
}

static uint64_t entry_bytes(const ff_safetensors_entry *entry) {
    uint64_t bytes = ff_dtype_bytes(entry->dtype);
    for (int i = 0; i < entry->rank; i++) bytes *= (uint64_t)entry->shape[i];
    return bytes;
}

/* The header; NULL if out of memory. */
static json_t *describe(const ff_safetensors_entry *entries, size_t count,
                        const ff_safetensors_fact *facts, size_t fact_count) {
    json_t *header = json_object(), *metadata = json_object();
    uint64_t at = 0;
    int failed = !metadata;
    for (size_t i = 0; i < fact_count; i++)
        failed |= json_object_set_new(metadata, facts[i].key, json_string(facts[i].text));
    failed |= json_object_set_new(header, METADATA, metadata);
    for (size_t i = 0; i < count; i++) {
        const ff_safetensors_entry *entry = &entries[i];
        const uint64_t end = at + entry_bytes(entry);
        json_t *shape = json_array();
        for (int k = 0; k < entry->rank; k++)
            failed |= json_array_append_new(shape, json_integer(entry->shape[k]));
        failed |= json_object_set_new(header, entry->name,
                                      json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                                                type_name(entry->dtype), "shape", shape,
                                                "data_offsets", (json_int_t)at, (json_int_t)end));
        at = end;
    }
    if (!failed) return header;
    json_decref(header);
    return NULL;
}

static ff_status put(ff_file *file, XXH3_state_t *hash, const void *bytes, size_t length,
                     ff_error *error) {
    ff_hash_update(hash, bytes, length);
    return ff_file_write(file, bytes, length, error);
}

ff_status ff_safetensors_write(ff_file *file, const ff_safetensors_entry *entries, size_t count,
                               const ff_safetensors_fact *facts, size_t fact_count, uint8_t id[16],
                               ff_error *error) {
    XXH3_state_t *hash = XXH3_createState();
    json_t *header = describe(entries, count, facts, fact_count);
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    ff_status status;
    uint8_t prefix[8];
    if (!text || !hash) {
        status = ff_fail(error, FF_NO_MEMORY, "no memory for the list of tensors");
        goto done;
    }
    XXH3_128bits_reset(hash);
    /* Blanks pad the header, so that the tensors begin at a multiple of 8 bytes. */
    const uint64_t length = strlen(text), padded = ff_align_u64(length, 8);
    ff_store_u64(prefix, padded);
    FF_TRY_DONE(put(file, hash, prefix, sizeof prefix, error));
    FF_TRY_DONE(put(file, hash, text, length, error));
    FF_TRY_DONE(put(file, hash, "       ", padded - length, error));
    for (size_t i = 0; i < count; i++)
        FF_TRY_DONE(put(file, hash, entries[i].values, entry_bytes(&entries[i]), error));
    if (id) ff_id_store(id, ff_hash_digest(hash));
done:
    XXH3_freeState(hash);
    free(text);
    json_decref(header);
    return status;
}
