#include "train/checkpoint/torch/torch.h"

#include "format/base/bytes.h"
#include "format/base/read.h"
#include "train/checkpoint/torch/pickle.h"
#include "train/checkpoint/torch/state_dict.h"
#include "train/checkpoint/torch/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK_BYTES = 1 << 20, PICKLES = 4, PREFIX_BYTES = 512 };
#define PICKLE "/data.pkl"

/* The pickle of torch.save's magic number: its opcode and bytes. */
static const uint8_t magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* The place of a storage's bytes. */
typedef struct place {
    char *key; /* before 1.6 */
    uint64_t offset, bytes;
} place;

struct ff_torch {
    char *path;
    int fd;
    uint64_t size;
    ff_zip *zip;               /* NULL = the form before 1.6 */
    char prefix[PREFIX_BYTES]; /* of the members' names */
    bool *checked;             /* [members]: the member's checksum was compared */
    place *place;              /* [place_count], by key: without a zip */
    size_t place_count;
    ff_state_dict state;
    ff_safetensor *tensors; /* [state.count] */
};

bool ff_torch_begins(const uint8_t *head, size_t bytes) {
    if (bytes >= 4 && (!memcmp(head, "PK\3\4", 4) || !memcmp(head, "PK\5\6", 4))) return true;
    if (bytes >= 262 && !memcmp(head + 257, "ustar", 5)) return true;
    return bytes >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

static ff_status wrong(const ff_torch *file, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: %s", file->path, what);
}

static const char *temporary(void) {
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/* ---- the zip ---- */

static ff_status check_bytes(const ff_torch *file, uint64_t offset, uint64_t bytes, uint32_t wanted,
                             const char *name, ff_error *error) {
    uint8_t *chunk;
    uLong crc = crc32(0, NULL, 0);
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&chunk, CHUNK_BYTES, 1, "a checksum", error));
    for (uint64_t at = 0; at < bytes && status == FF_OK; at += CHUNK_BYTES) {
        const size_t now = bytes - at < CHUNK_BYTES ? (size_t)(bytes - at) : CHUNK_BYTES;
        status = ff_read_at(file->fd, file->path, chunk, now, offset + at, error);
        if (status == FF_OK) crc = crc32(crc, chunk, (uInt)now);
    }
    free(chunk);
    if (status != FF_OK || crc == wanted) return status;
    return ff_fail(
        error, FF_BAD_DATA,
        "%s: is damaged: the bytes of '%s' differ from their CRC-32 (or torch.save wrote no "
        "CRC-32, by torch.serialization.set_crc32_options)",
        file->path, name);
}

/* Finds "archive" in the name "archive/data.pkl". */
static ff_status find_prefix(ff_torch *file, ff_error *error) {
    const size_t tail = strlen(PICKLE);
    const char *found = NULL;
    bool script = false;
    for (size_t i = 0; ff_zip_at(file->zip, i); i++) {
        const char *name = ff_zip_at(file->zip, i)->name;
        const size_t length = strlen(name);
        if (length <= tail || strchr(name, '/') != name + length - tail ||
            strcmp(name + length - tail, PICKLE) != 0)
            continue;
        if (found) return wrong(file, "is a zip with two data.pkl; torch.save's has one", error);
        found = name;
        snprintf(file->prefix, sizeof file->prefix, "%.*s", (int)(length - tail), name);
    }
    if (!found)
        return wrong(file, "is a zip without a data.pkl, and no file that torch.save writes",
                     error);
    char name[PREFIX_BYTES + 32];
    snprintf(name, sizeof name, "%s/constants.pkl", file->prefix);
    script = ff_zip_find(file->zip, name) != NULL;
    if (!script) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: is a program of TorchScript; its weights are wanted: python3 -c "
                   "'import torch; torch.save(torch.jit.load(\"%s\").state_dict(), "
                   "\"weights.pth\")'",
                   file->path, file->path);
}

static ff_status read_zip(ff_torch *file, ff_pickle **pickle, ff_torch_names *names,
                          ff_error *error) {
    char name[PREFIX_BYTES + 32], order[8] = "";
    FF_TRY(ff_zip_open(&file->zip, file->fd, file->path, file->size, error));
    FF_TRY(find_prefix(file, error));
    size_t count = 0;
    while (ff_zip_at(file->zip, count)) count++;
    FF_TRY(ff_alloc(&file->checked, count, sizeof *file->checked, "a zip file", error));
    snprintf(name, sizeof name, "%s/byteorder", file->prefix);
    const ff_zip_member *member = ff_zip_find(file->zip, name);
    if (member && member->bytes < sizeof order)
        FF_TRY(ff_read_at(file->fd, file->path, order, member->bytes, member->offset, error));
    if (member && strcmp(order, "little") != 0)
        return wrong(file, "has big-endian numbers; files of little-endian machines are read",
                     error);
    snprintf(name, sizeof name, "%s" PICKLE, file->prefix);
    member = ff_zip_find(file->zip, name);
    FF_TRY(check_bytes(file, member->offset, member->bytes, member->crc, name, error));
    const ff_pickle_file at = {file->fd, file->path, member->offset, member->bytes, temporary()};
    return ff_torch_pickle_read(pickle, names, &at, error);
}

/* ---- the form before 1.6 ---- */

static int by_key(const void *a, const void *b) {
    return strcmp(((const place *)a)->key, ((const place *)b)->key);
}

/* Lists all storages that the pickle names, by key; the caller frees *storages. */
static ff_status list_storages(const ff_pickle *pickle, place **storages, size_t *count,
                               ff_error *error) {
    *count = 0;
    while (ff_torch_storage_at(pickle, *count)) ++*count;
    FF_TRY(ff_alloc(storages, *count, sizeof **storages, "the list of storages", error));
    for (size_t i = 0; i < *count; i++) {
        const ff_torch_storage *storage = ff_torch_storage_at(pickle, i);
        (*storages)[i] = (place){(char *)(uintptr_t)storage->key, 0, storage->type->bytes};
    }
    if (*count) qsort(*storages, *count, sizeof **storages, by_key);
    return FF_OK;
}

/* Adds the next storage, which begins at *at; each: bytes per element. */
static ff_status add_place(ff_torch *file, const char *key, uint64_t each, uint64_t *at,
                           ff_error *error) {
    uint8_t count[8];
    uint64_t bytes = 0;
    bool fits = *at <= file->size && file->size - *at >= sizeof count;
    if (fits) {
        FF_TRY(ff_read_at(file->fd, file->path, count, sizeof count, *at, error));
        *at += sizeof count;
        fits = ff_mul_u64(ff_load_u64(count), each, &bytes) && bytes <= file->size - *at;
    }
    if (!fits)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its storage '%.64s' ends after the file's %" PRIu64
                       " bytes; is it cut off?",
                       file->path, key, file->size);
    place *one = &file->place[file->place_count];
    FF_TRY(ff_copy_string(&one->key, key, error));
    one->offset = *at;
    one->bytes = bytes;
    file->place_count++;
    *at += bytes;
    return FF_OK;
}

/* Reads the list of keys that follows the object, and the storages that follow the list. */
static ff_status read_places(ff_torch *file, const ff_pickle *pickle, ff_error *error) {
    ff_torch_names names = {0};
    ff_pickle *keys = NULL;
    place *storages = NULL;
    size_t count = 0;
    uint64_t at = ff_pickle_end(pickle);
    const ff_pickle_file rest = {file->fd, file->path, at, file->size - at, temporary()};
    ff_status status;
    FF_TRY_DONE(ff_torch_pickle_read(&keys, &names, &rest, error));
    FF_TRY_DONE(list_storages(pickle, &storages, &count, error));
    const ff_pickle_value list = ff_pickle_root(keys);
    if (ff_pickle_kind_of(keys, list) != FF_PICKLE_LIST)
        FF_TRY_DONE(wrong(file, "has no list of storages after its pickle", error));
    FF_TRY_DONE(ff_alloc(&file->place, ff_pickle_count(keys, list), sizeof *file->place,
                         "the list of storages", error));
    at = ff_pickle_end(keys);
    for (uint32_t i = 0; i < ff_pickle_count(keys, list); i++) {
        char key[256];
        FF_TRY_DONE(ff_torch_key(keys, ff_pickle_item(keys, list, i), key, error));
        const place wanted = {.key = key};
        const place *storage =
            count ? bsearch(&wanted, storages, count, sizeof wanted, by_key) : NULL;
        if (!storage)
            FF_TRY_DONE(ff_fail(error, FF_BAD_DATA,
                                "%s: the type of its storage '%.64s' is not recorded", file->path,
                                key));
        FF_TRY_DONE(add_place(file, key, storage->bytes, &at, error));
    }
    if (file->place_count) qsort(file->place, file->place_count, sizeof *file->place, by_key);
done:
    free(storages);
    ff_pickle_destroy(&keys);
    ff_torch_names_free(&names);
    return status;
}

static ff_status read_pickles(ff_torch *file, ff_pickle **pickle, ff_torch_names *names,
                              ff_error *error) {
    uint8_t head[32] = {0};
    ff_pickle_file at = {file->fd, file->path, 0, file->size, temporary()};
    FF_TRY(ff_read_at(file->fd, file->path, head, file->size < 32 ? file->size : 32, 0, error));
    if (!memmem(head, sizeof head, magic, sizeof magic))
        return wrong(file,
                     "is a pickle, but not as torch.save writes it; this converts it: python3 "
                     "-c 'import pickle, torch; torch.save(pickle.load(open(\"FILE\", \"rb\")), "
                     "\"weights.pth\")'",
                     error);
    for (int i = 0; i < PICKLES; i++) {
        ff_pickle_destroy(pickle);
        FF_TRY(ff_torch_pickle_read(pickle, names, &at, error));
        at.offset = ff_pickle_end(*pickle);
        at.bytes = file->size - at.offset;
        if (i != 2) continue;
        bool found = false;
        ff_pickle_value little;
        FF_TRY(ff_pickle_find(*pickle, ff_pickle_root(*pickle), "little_endian", &found, &little,
                              error));
        if (!found || ff_pickle_kind_of(*pickle, little) != FF_PICKLE_BOOL ||
            !ff_pickle_integer(*pickle, little))
            return wrong(file, "has big-endian numbers; files of little-endian machines are read",
                         error);
    }
    return FF_OK;
}

/* ---- opening ---- */

/* Finds the bytes of a storage in the file; *member = its index in the zip. */
static bool find_storage(const ff_torch *file, const char *key, uint64_t *offset, uint64_t *bytes,
                         const ff_zip_member **member) {
    char name[PREFIX_BYTES + 80];
    const place wanted = {.key = (char *)(uintptr_t)key};
    *member = NULL;
    if (file->zip) {
        snprintf(name, sizeof name, "%s/data/%s", file->prefix, key);
        *member = ff_zip_find(file->zip, name);
        if (!*member) return false;
        *offset = (*member)->offset;
        *bytes = (*member)->bytes;
        return true;
    }
    const place *found =
        file->place_count ? bsearch(&wanted, file->place, file->place_count, sizeof wanted, by_key)
                          : NULL;
    if (!found) return false;
    *offset = found->offset;
    *bytes = found->bytes;
    return true;
}

static ff_status list_tensors(ff_torch *file, ff_error *error) {
    const ff_state_dict *state = &file->state;
    FF_TRY(ff_alloc(&file->tensors, state->count, sizeof *file->tensors, "the list of tensors",
                    error));
    for (size_t i = 0; i < state->count; i++) {
        const ff_torch_tensor *tensor = &state->tensor[i];
        const ff_zip_member *member;
        ff_safetensor *out = &file->tensors[i];
        uint64_t offset, bytes, needed;
        if (!find_storage(file, tensor->of.key, &offset, &bytes, &member))
            return ff_fail(error, FF_BAD_DATA, "%s: '%s' lies in storage '%s', which is missing",
                           file->path, state->name[i], tensor->of.key);
        if (!ff_mul_u64(tensor->of.count, tensor->of.type->bytes, &needed) || needed > bytes)
            return ff_fail(
                error, FF_BAD_DATA,
                "%s: storage '%s' has %" PRIu64 " bytes, too few for its %" PRIu64 " elements %s",
                file->path, tensor->of.key, bytes, tensor->of.count, tensor->of.type->name);
        *out = (ff_safetensor){.name = state->name[i],
                               .dtype = tensor->of.type->dtype,
                               .rank = tensor->rank,
                               .count = tensor->count};
        memcpy(out->type, tensor->of.type->name, strlen(tensor->of.type->name) + 1);
        memcpy(out->shape, tensor->shape, sizeof tensor->shape);
        if (!ff_mul_u64(out->count, tensor->of.type->bytes, &out->bytes))
            return ff_fail(error, FF_BAD_DATA, "%s: '%s' would have more than 2^64 bytes",
                           file->path, state->name[i]);
    }
    return FF_OK;
}

static ff_status read_file(ff_torch *file, bool average, ff_error *error) {
    uint8_t head[FF_TORCH_HEAD_BYTES];
    ff_torch_names names = {0};
    ff_pickle *pickle = NULL;
    ff_status status;
    const size_t bytes = file->size < sizeof head ? (size_t)file->size : sizeof head;
    FF_TRY_DONE(ff_read_at(file->fd, file->path, head, bytes, 0, error));
    if (bytes >= 262 && !memcmp(head + 257, "ustar", 5))
        FF_TRY_DONE(wrong(file,
                          "is a tar, as PyTorch before 0.2 wrote; a newer PyTorch converts it: "
                          "torch.save(torch.load(FILE), \"weights.pth\")",
                          error));
    const bool zip = bytes && head[0] == 'P';
    FF_TRY_DONE(zip ? read_zip(file, &pickle, &names, error)
                    : read_pickles(file, &pickle, &names, error));
    FF_TRY_DONE(ff_state_dict_find(&file->state, pickle, file->path, average, error));
    if (!zip) FF_TRY_DONE(read_places(file, pickle, error));
    FF_TRY_DONE(list_tensors(file, error));
done:
    ff_pickle_destroy(&pickle);
    ff_torch_names_free(&names);
    return status;
}

ff_status ff_torch_open(ff_torch **out, const char *path, bool average, ff_error *error) {
    ff_torch *file;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&file, 1, sizeof *file, "a file of PyTorch's", error));
    file->fd = -1;
    FF_TRY_DONE(ff_copy_string(&file->path, path, error));
    FF_TRY_DONE(ff_open_file(path, &file->fd, &file->size, error));
    FF_TRY_DONE(read_file(file, average, error));
    *out = file;
    return FF_OK;
done:
    ff_torch_close(&file);
    return status;
}

void ff_torch_close(ff_torch **pointer) {
    ff_torch *file = *pointer;
    if (!file) return;
    ff_close_file(&file->fd);
    ff_zip_close(&file->zip);
    for (size_t i = 0; i < file->place_count; i++) free(file->place[i].key);
    free(file->place);
    free(file->checked);
    free(file->tensors);
    ff_state_dict_free(&file->state);
    free(file->path);
    free(file);
    *pointer = NULL;
}

const ff_safetensor *ff_torch_at(const ff_torch *file, size_t index) {
    return index < file->state.count ? &file->tensors[index] : NULL;
}

const char *ff_torch_part(const ff_torch *file) {
    return file->state.part ? file->state.part : "";
}

/* ---- reading ---- */

/* Copies the elements [tensor->count] out of the `span` that contains them. */
static void gather(const ff_torch_tensor *tensor, const uint8_t *span, uint8_t *to) {
    const size_t each = tensor->of.type->bytes;
    uint64_t index[FF_TORCH_RANK] = {0}, at = 0;
    for (uint64_t i = 0; i < tensor->count; i++) {
        memcpy(to + i * each, span + at * each, each);
        for (int k = tensor->rank - 1; k >= 0; k--) {
            at += tensor->stride[k];
            if (++index[k] < tensor->shape[k]) break;
            at -= tensor->shape[k] * tensor->stride[k];
            index[k] = 0;
        }
    }
}

/* Whether the elements lie one after another, in row-major order. */
static bool is_contiguous(const ff_torch_tensor *tensor) {
    uint64_t step = 1;
    for (int k = tensor->rank - 1; k >= 0; k--) {
        if (tensor->shape[k] > 1 && tensor->stride[k] != step) return false;
        step *= tensor->shape[k];
    }
    return true;
}

ff_status ff_torch_read(ff_torch *file, const ff_safetensor *about, void *to, ff_error *error) {
    const ff_torch_tensor *tensor = &file->state.tensor[about - file->tensors];
    const uint64_t each = tensor->of.type->bytes;
    const ff_zip_member *member;
    uint64_t offset, bytes;
    if (!tensor->count || !find_storage(file, tensor->of.key, &offset, &bytes, &member))
        return FF_OK;
    if (member) {
        bool *checked = &file->checked[member - ff_zip_at(file->zip, 0)];
        if (!*checked) FF_TRY(check_bytes(file, offset, bytes, member->crc, member->name, error));
        *checked = true;
    }
    offset += tensor->offset * each;
    if (is_contiguous(tensor))
        return ff_read_at(file->fd, file->path, to, about->bytes, offset, error);
    uint8_t *span;
    FF_TRY(ff_alloc(&span, tensor->span, each, "a tensor", error));
    const ff_status status =
        ff_read_at(file->fd, file->path, span, tensor->span * each, offset, error);
    if (status == FF_OK) gather(tensor, span, to);
    free(span);
    return status;
}
