#include "train/checkpoint/checkpoint.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"
#include "train/checkpoint/run_folder.h"
#include "train/checkpoint/weights.h"
#include "train/net/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = FF_CHECKPOINT_FILES, READ_BYTES = 1 << 20 };
const char *const ff_checkpoint_files[FILES] = {FF_WEIGHTS_FILE, FF_CHECKPOINT_STATE_FILE};

/* ---- what belongs to a parameter ---- */

bool ff_state_part_at(const ff_model *model, int parameter, int k, ff_state_part *out) {
    const ff_optimizer *optimizer = ff_model_optimizer(model, parameter);
    const int states = optimizer ? optimizer->states : 0;
    const bool averaged =
        ff_model_averages(model) && ff_model_parameter(model, parameter)->dtype == FF_F32;
    if (k < states)
        *out = (ff_state_part){parameter, (ff_parameter_part)(FF_PART_MOMENTUM + k),
                               optimizer->state_name[k]};
    else
        *out = (ff_state_part){parameter, FF_PART_AVERAGE, FF_CHECKPOINT_AVERAGE};
    return k < states + averaged;
}

/* ---- the folder ---- */

/* XXH3-128 of a file's bytes. */
static ff_status sum_of(const char *directory, const char *name, uint8_t id[16], ff_error *error) {
    char *path, *bytes = NULL;
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
        const size_t bytes_now = size - at < READ_BYTES ? (size_t)(size - at) : READ_BYTES;
        FF_TRY_DONE(ff_read_at(fd, path, bytes, bytes_now, at, error));
        ff_hash_update(hash, bytes, bytes_now);
    }
    ff_id_store(id, ff_hash_digest(hash));
done:
    ff_close_file(&fd);
    XXH3_freeState(hash);
    free(bytes);
    free(path);
    return status;
}

ff_status ff_checkpoint_add_sum(ff_buffer *text, int file, const uint8_t id[16], ff_error *error) {
    char sum[33];
    ff_hex(sum, id, 16);
    return ff_buffer_printf(text, error, "%s  %s\n", sum, ff_checkpoint_files[file]);
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

/* Puts the written folder into place; an older folder of that name is removed first. */
ff_status ff_checkpoint_place(const char *partial, const char *path, const char *directory,
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

void ff_checkpoint_remove(const char *path) {
    char *gone;
    if (ff_format(&gone, NULL, "%s" FF_CHECKPOINT_REMOVED, path) != FF_OK) return;
    /* The rename comes first: a half-removed folder must not look like a checkpoint. */
    if (rename(path, gone) == 0) ff_checkpoint_discard(gone);
    free(gone);
}

/* ---- reading ---- */

struct ff_checkpoint {
    char *path;
    ff_safetensors *files[FILES];
    ff_run_state state;
};

ff_status ff_checkpoint_check(const char *path, int file, ff_error *error) {
    ff_buffer line = {0}, lines = {0};
    char *sums = NULL;
    uint8_t id[16];
    ff_status status;
    FF_TRY_DONE(ff_path_join(&sums, path, FF_CHECKPOINT_SUMS_FILE, error));
    FF_TRY_DONE(ff_read_whole(&lines, sums, 4096, error));
    FF_TRY_DONE(sum_of(path, ff_checkpoint_files[file], id, error));
    FF_TRY_DONE(ff_checkpoint_add_sum(&line, file, id, error));
    if (!lines.length || !memmem(lines.bytes, lines.length, line.bytes, line.length))
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: is damaged: its files differ from what " FF_CHECKPOINT_SUMS_FILE
                         " records (xxh128sum -c names the file)",
                         path);
done:
    ff_buffer_free(&line);
    ff_buffer_free(&lines);
    free(sums);
    return status;
}

static ff_status open_files(ff_checkpoint *checkpoint, ff_error *error) {
    for (int i = 0; i < FILES; i++) FF_TRY(ff_checkpoint_check(checkpoint->path, i, error));
    for (int i = 0; i < FILES; i++) {
        char *file;
        FF_TRY(ff_path_join(&file, checkpoint->path, ff_checkpoint_files[i], error));
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
    ff_state_part one;
    for (int k = 0; ff_state_part_at(model, index, k, &one); k++) {
        FF_TRY(ff_format(&name, error, "%s.%s", one.name, p->name));
        const ff_status status = load_one(checkpoint->files[1], name, p, values, error);
        free(name);
        FF_TRY(status);
        ff_model_set(model, index, one.part, values);
    }
    return FF_OK;
}

ff_status ff_checkpoint_load(const ff_checkpoint *checkpoint, ff_model *model, ff_error *error) {
    ff_store *store = ff_model_store(model);
    uint64_t most = 1;
    void *values;
    ff_status status = FF_OK;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        if (ff_model_parameter(model, i)->count > most) most = ff_model_parameter(model, i)->count;
    FF_TRY(ff_alloc(&values, most, sizeof(int64_t), "a checkpoint's values", error));
    /* The count of forward passes first: num_batches_tracked is stored relative to it. */
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
