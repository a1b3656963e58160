#include "train/checkpoint/checkpoint.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/checksum.h"
#include "train/checkpoint/weights.h"
#include "train/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOMENTUM "momentum_buffer."

enum { FILES = 2, FACTS = 16, READ_BYTES = 1 << 20 };
static const char *const files[FILES] = {FF_WEIGHTS_FILE, FF_CHECKPOINT_STATE_FILE};

/* ---- a copy of the values ---- */

struct ff_capture {
    ff_model *model;
    char *block; /* of all values */
    /* Model and state; names of the state are owned. */
    ff_safetensors_entry *entries[FILES];
    size_t counts[FILES];
    int *parameters;                         /* of the entries of the state */
    ff_safetensors_fact facts[FILES][FACTS]; /* owned */
    size_t fact_counts[FILES];
    ff_run_state state;
};

/* Of one parameter in the copy: its values, or its state. */
static uint64_t room_of(const ff_parameter *p) {
    return ff_align_u64(p->count * ff_dtype_bytes(p->dtype), 64);
}

uint64_t ff_capture_bytes(const ff_model *model) {
    uint64_t bytes = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        bytes += room_of(p) * (p->trained ? 2 : 1);
    }
    return bytes;
}

static ff_status copy_facts(ff_capture *capture, int file, const ff_safetensors_fact *facts,
                            size_t count, ff_error *error) {
    for (size_t i = 0; i < count; i++) {
        char *key, *text;
        if (!facts[i].text) continue;
        FF_TRY(ff_copy_string(&key, facts[i].key, error));
        ff_safetensors_fact *to = &capture->facts[file][capture->fact_counts[file]++];
        to->key = key;
        FF_TRY(ff_copy_string(&text, facts[i].text, error));
        to->text = text;
    }
    return FF_OK;
}

static void add_entry(ff_capture *capture, int file, const char *name, const ff_parameter *p,
                      uint64_t *offset) {
    ff_safetensors_entry *entry = &capture->entries[file][capture->counts[file]++];
    *entry = (ff_safetensors_entry){.name = name, .dtype = p->dtype, .rank = p->rank};
    memcpy(entry->shape, p->shape, sizeof entry->shape);
    entry->values = (const void *)(uintptr_t)*offset; /* until the block is allocated */
    *offset += room_of(p);
}

static ff_status list_entries(ff_capture *capture, ff_error *error) {
    const int count = ff_model_parameter_count(capture->model);
    uint64_t bytes = 0;
    for (int file = 0; file < FILES; file++)
        FF_TRY(ff_alloc(&capture->entries[file], (uint64_t)count, sizeof *capture->entries[file],
                        "a checkpoint", error));
    FF_TRY(ff_alloc(&capture->parameters, (uint64_t)count, sizeof(int), "a checkpoint", error));
    for (int i = 0; i < count; i++) {
        const ff_parameter *p = ff_model_parameter(capture->model, i);
        add_entry(capture, 0, p->name, p, &bytes);
    }
    for (int i = 0; i < count; i++) {
        const ff_parameter *p = ff_model_parameter(capture->model, i);
        char *name;
        if (!p->trained) continue;
        FF_TRY(ff_format(&name, error, MOMENTUM "%s", p->name));
        capture->parameters[capture->counts[1]] = i;
        add_entry(capture, 1, name, p, &bytes);
    }
    FF_TRY(ff_alloc_aligned(&capture->block, bytes, 1, 0, "a copy of the model", error));
    for (int file = 0; file < FILES; file++)
        for (size_t i = 0; i < capture->counts[file]; i++)
            capture->entries[file][i].values =
                capture->block + (uintptr_t)capture->entries[file][i].values;
    return FF_OK;
}

ff_status ff_capture_create(ff_capture **out, ff_model *model, const ff_safetensors_fact *weights,
                            size_t weight_count, const ff_safetensors_fact *facts,
                            size_t fact_count, ff_error *error) {
    ff_capture *capture;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&capture, 1, sizeof *capture, "a checkpoint", error));
    capture->model = model;
    FF_TRY_DONE(copy_facts(capture, 0, weights, weight_count, error));
    FF_TRY_DONE(copy_facts(capture, 1, facts, fact_count, error));
    FF_TRY_DONE(list_entries(capture, error));
    *out = capture;
    return FF_OK;
done:
    ff_capture_destroy(&capture);
    return status;
}

void ff_capture_destroy(ff_capture **pointer) {
    ff_capture *capture = *pointer;
    if (!capture) return;
    for (size_t i = 0; i < capture->counts[1]; i++) free((void *)capture->entries[1][i].name);
    for (int file = 0; file < FILES; file++) {
        for (size_t i = 0; i < capture->fact_counts[file]; i++) {
            free((void *)capture->facts[file][i].key);
            free((void *)capture->facts[file][i].text);
        }
        free(capture->entries[file]);
    }
    free(capture->parameters);
    free(capture->block);
    free(capture);
    *pointer = NULL;
}

ff_status ff_capture_take(ff_capture *capture, const ff_run_state *state, ff_error *error) {
    ff_store *store = ff_model_store(capture->model);
    for (size_t i = 0; i < capture->counts[0]; i++)
        ff_model_get(capture->model, (int)i, FF_PART_VALUE, (void *)capture->entries[0][i].values);
    for (size_t i = 0; i < capture->counts[1]; i++)
        ff_model_get(capture->model, capture->parameters[i], FF_PART_MOMENTUM,
                     (void *)capture->entries[1][i].values);
    capture->state = *state;
    capture->state.forwards = store->forwards;
    ff_compute_read(store->compute, &capture->state.control, store->control,
                    sizeof capture->state.control);
    return ff_model_check(capture->model, error);
}

/* ---- writing ---- */

static ff_status write_file(const ff_capture *capture, int which, const char *directory,
                            ff_error *error) {
    ff_safetensors_fact facts[FACTS + 1];
    size_t count = capture->fact_counts[which];
    ff_buffer state = {0};
    ff_file *file = NULL;
    ff_status status;
    memcpy(facts, capture->facts[which], count * sizeof *facts);
    FF_TRY_DONE(ff_file_create(&file, directory, files[which], error));
    if (which == 1) {
        FF_TRY_DONE(ff_run_state_write(&capture->state, &state, error));
        facts[count++] = (ff_safetensors_fact){FF_CHECKPOINT_STATE, state.bytes};
    }
    FF_TRY_DONE(ff_safetensors_write(file, capture->entries[which], capture->counts[which], facts,
                                     count, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    ff_buffer_free(&state);
    return status;
}

/* XXH3-128 of a file's bytes, as xxh128sum prints it. */
static ff_status sum_of(const char *directory, const char *name, char sum[33], ff_error *error) {
    char *path, *bytes = NULL;
    uint8_t id[16];
    uint64_t size;
    int fd = -1;
    ff_status status;
    XXH3_state_t *hash = XXH3_createState();
    FF_TRY_DONE(ff_path_join(&path, directory, name, error));
    FF_TRY_DONE(ff_alloc(&bytes, READ_BYTES, 1, "a checksum", error));
    if (!hash) {
        status = ff_fail(error, FF_NO_MEMORY, "no memory for a checksum");
        goto done;
    }
    XXH3_128bits_reset(hash);
    FF_TRY_DONE(ff_open_file(path, &fd, &size, error));
    for (uint64_t at = 0; at < size; at += READ_BYTES) {
        const size_t part = size - at < READ_BYTES ? (size_t)(size - at) : READ_BYTES;
        FF_TRY_DONE(ff_read_at(fd, path, bytes, part, at, error));
        XXH3_128bits_update(hash, bytes, part);
    }
    ff_id_store(id, XXH3_128bits_digest(hash));
    ff_hex(sum, id, sizeof id);
done:
    ff_close_file(&fd);
    XXH3_freeState(hash);
    free(bytes);
    free(path);
    return status;
}

static ff_status sums_text(const char *directory, ff_buffer *text, ff_error *error) {
    for (int i = 0; i < FILES; i++) {
        char sum[33];
        FF_TRY(sum_of(directory, files[i], sum, error));
        FF_TRY(ff_buffer_printf(text, error, "%s  %s\n", sum, files[i]));
    }
    return FF_OK;
}

void ff_checkpoint_discard(const char *path) {
    static const char *const names[] = {FF_WEIGHTS_FILE,
                                        FF_CHECKPOINT_STATE_FILE,
                                        FF_CHECKPOINT_SUMS_FILE,
                                        FF_WEIGHTS_FILE FF_TMP_SUFFIX,
                                        FF_CHECKPOINT_STATE_FILE FF_TMP_SUFFIX,
                                        FF_CHECKPOINT_SUMS_FILE FF_TMP_SUFFIX};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *file;
        if (ff_path_join(&file, path, names[i], NULL) != FF_OK) return;
        unlink(file);
        free(file);
    }
    rmdir(path);
}

/* Puts the written folder into place; an older one of that name goes first. */
static ff_status place(const char *partial, const char *path, const char *directory,
                       ff_error *error) {
    if (rename(partial, path) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return ff_fail_errno(error, "%s: cannot rename to %s", partial, path);
        ff_checkpoint_remove(path);
        if (rename(partial, path) != 0)
            return ff_fail_errno(error, "%s: cannot rename to %s", partial, path);
    }
    return ff_sync_directory(directory, error);
}

ff_status ff_capture_write(const ff_capture *capture, const char *directory, const char *name,
                           ff_error *error) {
    char *path = NULL, *partial = NULL;
    ff_buffer sums = {0};
    ff_status status;
    FF_TRY_DONE(ff_path_join(&path, directory, name, error));
    FF_TRY_DONE(ff_format(&partial, error, "%s" FF_CHECKPOINT_PARTIAL, path));
    if (mkdir(partial, 0777) != 0 && errno != EEXIST) {
        status = ff_fail_errno(error, "%s: cannot create the folder", partial);
        goto done;
    }
    for (int i = 0; i < FILES; i++) FF_TRY_DONE(write_file(capture, i, partial, error));
    FF_TRY_DONE(sums_text(partial, &sums, error));
    FF_TRY_DONE(ff_file_save(partial, FF_CHECKPOINT_SUMS_FILE, &sums, error));
    FF_TRY_DONE(place(partial, path, directory, error));
done:
    if (status != FF_OK && partial) ff_checkpoint_discard(partial);
    ff_buffer_free(&sums);
    free(partial);
    free(path);
    return status;
}

void ff_checkpoint_remove(const char *path) {
    char *gone;
    if (ff_format(&gone, NULL, "%s" FF_CHECKPOINT_REMOVED, path) != FF_OK) return;
    /* First its name, so that no half of a checkpoint looks like one. */
    if (rename(path, gone) == 0) ff_checkpoint_discard(gone);
    free(gone);
}

/* ---- reading ---- */

struct ff_checkpoint {
    char *path;
    ff_safetensors *files[FILES];
    ff_run_state state;
};

static ff_status check_sums(const char *path, ff_error *error) {
    ff_buffer found = {0}, wanted = {0};
    char *file = NULL;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&file, path, FF_CHECKPOINT_SUMS_FILE, error));
    FF_TRY_DONE(ff_read_whole(&wanted, file, 4096, error));
    FF_TRY_DONE(sums_text(path, &found, error));
    if (found.length != wanted.length || memcmp(found.bytes, wanted.bytes, found.length) != 0)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: is damaged: its files differ from what " FF_CHECKPOINT_SUMS_FILE
                         " says (xxh128sum -c names the file)",
                         path);
done:
    ff_buffer_free(&found);
    ff_buffer_free(&wanted);
    free(file);
    return status;
}

static ff_status open_files(ff_checkpoint *checkpoint, ff_error *error) {
    FF_TRY(check_sums(checkpoint->path, error));
    for (int i = 0; i < FILES; i++) {
        char *file;
        FF_TRY(ff_path_join(&file, checkpoint->path, files[i], error));
        const ff_status status = ff_safetensors_open(&checkpoint->files[i], file, error);
        free(file);
        if (status != FF_OK) return status;
    }
    const char *state = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_STATE);
    if (!state)
        return ff_fail(error, FF_BAD_DATA, "%s: " FF_CHECKPOINT_STATE_FILE " has no state of a run",
                       checkpoint->path);
    const ff_status status = ff_run_state_read(&checkpoint->state, state, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", checkpoint->path);
}

ff_status ff_checkpoint_open(ff_checkpoint **out, const char *path, ff_error *error) {
    ff_checkpoint *checkpoint;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&checkpoint, 1, sizeof *checkpoint, "a checkpoint", error));
    FF_TRY_DONE(ff_copy_string(&checkpoint->path, path, error));
    FF_TRY_DONE(open_files(checkpoint, error));
    *out = checkpoint;
    return FF_OK;
done:
    ff_checkpoint_close(&checkpoint);
    return status;
}

void ff_checkpoint_close(ff_checkpoint **pointer) {
    ff_checkpoint *checkpoint = *pointer;
    if (!checkpoint) return;
    for (int i = 0; i < FILES; i++) ff_safetensors_close(&checkpoint->files[i]);
    free(checkpoint->path);
    free(checkpoint);
    *pointer = NULL;
}

const char *ff_checkpoint_path(const ff_checkpoint *checkpoint) {
    return checkpoint->path;
}

const ff_run_state *ff_checkpoint_state(const ff_checkpoint *checkpoint) {
    return &checkpoint->state;
}

const char *ff_checkpoint_text(const ff_checkpoint *checkpoint, const char *key) {
    return ff_safetensors_text(checkpoint->files[1], key);
}

/* Reads one tensor of a parameter, with its own dtype. */
static ff_status load_one(const ff_safetensors *file, const char *name, const ff_parameter *p,
                          void *values, ff_error *error) {
    const ff_safetensor *tensor = ff_safetensors_find(file, name);
    bool fits = tensor && tensor->dtype == p->dtype && tensor->rank == p->rank;
    for (int i = 0; fits && i < p->rank; i++) fits = tensor->shape[i] == (uint64_t)p->shape[i];
    if (!fits)
        return ff_fail(error, FF_BAD_DATA, "%s: has no '%s' of this model's shape",
                       ff_safetensors_path(file), name);
    return ff_safetensors_read(file, tensor, values, error);
}

static ff_status load_parameter(const ff_checkpoint *checkpoint, ff_model *model, int index,
                                void *values, ff_error *error) {
    const ff_parameter *p = ff_model_parameter(model, index);
    char *name;
    FF_TRY(load_one(checkpoint->files[0], p->name, p, values, error));
    ff_model_set(model, index, FF_PART_VALUE, values);
    if (!p->trained) return FF_OK;
    FF_TRY(ff_format(&name, error, MOMENTUM "%s", p->name));
    const ff_status status = load_one(checkpoint->files[1], name, p, values, error);
    if (status == FF_OK) ff_model_set(model, index, FF_PART_MOMENTUM, values);
    free(name);
    return status;
}

ff_status ff_checkpoint_load(const ff_checkpoint *checkpoint, ff_model *model, ff_error *error) {
    ff_store *store = ff_model_store(model);
    uint64_t most = 1;
    void *values;
    ff_status status = FF_OK;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        if (ff_model_parameter(model, i)->count > most) most = ff_model_parameter(model, i)->count;
    FF_TRY(ff_alloc(&values, most, sizeof(int64_t), "a checkpoint's values", error));
    /* First the count of forward passes: those of num_batches_tracked are relative to it. */
    store->forwards = checkpoint->state.forwards;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        FF_TRY_DONE(load_parameter(checkpoint, model, i, values, error));
    ff_compute_write(store->compute, store->control, &checkpoint->state.control,
                     sizeof checkpoint->state.control);
    status = ff_model_check(model, error);
done:
    free(values);
    return status;
}
