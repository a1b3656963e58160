#include "train/checkpoint/capture.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "train/checkpoint/weights.h"
#include "train/net/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES = FF_CHECKPOINT_FILES, FACTS = 16 };

struct ff_capture {
    ff_model *model;
    char *block; /* with all values */
    /* The entries of the model's and of the state's file; the capture owns the state's names. */
    ff_safetensors_entry *entries[FILES];
    size_t counts[FILES];
    ff_state_part *parts;                    /* one per entry of the state's file */
    ff_safetensors_fact facts[FILES][FACTS]; /* owned */
    size_t fact_counts[FILES];
    ff_run_state state;
};

static int count_state_parts(const ff_model *model) {
    int count = 0;
    ff_state_part one;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        for (int k = 0; ff_state_part_at(model, i, k, &one); k++) count++;
    return count;
}

/* The bytes in the copy of a parameter's values, or of one tensor of its state. */
static uint64_t room_of(const ff_parameter *p) {
    return ff_align_u64(p->count * ff_dtype_bytes(p->dtype), 64);
}

uint64_t ff_capture_bytes(const ff_model *model) {
    uint64_t bytes = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        ff_state_part one;
        bytes += room_of(p);
        for (int k = 0; ff_state_part_at(model, i, k, &one); k++) bytes += room_of(p);
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
    const int parts = count_state_parts(capture->model);
    uint64_t bytes = 0;
    for (int file = 0; file < FILES; file++)
        FF_TRY(ff_alloc(&capture->entries[file], (uint64_t)(file ? parts : count),
                        sizeof *capture->entries[file], "a checkpoint", error));
    FF_TRY(
        ff_alloc(&capture->parts, (uint64_t)parts, sizeof *capture->parts, "a checkpoint", error));
    for (int i = 0; i < count; i++) {
        const ff_parameter *p = ff_model_parameter(capture->model, i);
        add_entry(capture, 0, p->name, p, &bytes);
    }
    for (int i = 0; i < count; i++) {
        ff_state_part one;
        for (int k = 0; ff_state_part_at(capture->model, i, k, &one); k++) {
            const ff_parameter *p = ff_model_parameter(capture->model, i);
            char *name;
            FF_TRY(ff_format(&name, error, "%s.%s", one.name, p->name));
            capture->parts[capture->counts[1]] = one;
            add_entry(capture, 1, name, p, &bytes);
        }
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
    free(capture->parts);
    free(capture->block);
    free(capture);
    *pointer = NULL;
}

ff_status ff_capture_take(ff_capture *capture, const ff_run_state *state, ff_error *error) {
    ff_store *store = ff_model_store(capture->model);
    for (size_t i = 0; i < capture->counts[0]; i++)
        ff_model_get(capture->model, (int)i, FF_PART_VALUE, (void *)capture->entries[0][i].values);
    for (size_t i = 0; i < capture->counts[1]; i++)
        ff_model_get(capture->model, capture->parts[i].parameter, capture->parts[i].part,
                     (void *)capture->entries[1][i].values);
    capture->state = *state;
    capture->state.forwards = store->forwards;
    ff_compute_read(store->compute, &capture->state.control, store->control,
                    sizeof capture->state.control);
    return ff_model_check(capture->model, error);
}

/* ---- writing ---- */

static ff_status write_file(const ff_capture *capture, int which, const char *directory,
                            ff_buffer *sums, ff_error *error) {
    ff_safetensors_fact facts[FACTS + 1];
    size_t count = capture->fact_counts[which];
    ff_buffer state = {0};
    ff_file *file = NULL;
    uint8_t id[16];
    ff_status status;
    memcpy(facts, capture->facts[which], count * sizeof *facts);
    FF_TRY_DONE(ff_file_create(&file, directory, ff_checkpoint_files[which], error));
    if (which == 1) {
        FF_TRY_DONE(ff_run_state_write(&capture->state, &state, error));
        facts[count++] = (ff_safetensors_fact){FF_CHECKPOINT_STATE, state.bytes};
    }
    FF_TRY_DONE(ff_safetensors_write(file, capture->entries[which], capture->counts[which], facts,
                                     count, id, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
    FF_TRY_DONE(ff_checkpoint_add_sum(sums, which, id, error));
done:
    ff_file_discard(&file);
    ff_buffer_free(&state);
    return status;
}

/* A step's update may have overflowed; only the next step's loss would show the overflow. */
static ff_status check_finite(const ff_capture *capture, const char *name, ff_error *error) {
    for (size_t i = 0; i < capture->counts[0]; i++) {
        const ff_parameter *p = ff_model_parameter(capture->model, (int)i);
        const ff_arrays values = {.count = p->count, .gradient = capture->entries[0][i].values};
        if (p->dtype == FF_F32 && ff_zeros_of_gradients(NULL, &values) != 0)
            return ff_fail(error, FF_FAILED, "%s was not written: %s is not finite", name, p->name);
    }
    return FF_OK;
}

ff_status ff_capture_write(const ff_capture *capture, const char *directory, const char *name,
                           ff_error *error) {
    char *path = NULL, *partial = NULL;
    ff_buffer sums = {0};
    ff_status status;
    FF_TRY_DONE(check_finite(capture, name, error));
    FF_TRY_DONE(ff_path_join(&path, directory, name, error));
    FF_TRY_DONE(ff_format(&partial, error, "%s" FF_CHECKPOINT_PARTIAL, path));
    if (mkdir(partial, 0777) != 0 && errno != EEXIST) {
        status = ff_fail_errno(error, "%s: cannot create the folder", partial);
        goto done;
    }
    for (int i = 0; i < FILES; i++) FF_TRY_DONE(write_file(capture, i, partial, &sums, error));
    FF_TRY_DONE(ff_file_save(partial, FF_CHECKPOINT_SUMS_FILE, &sums, error));
    FF_TRY_DONE(ff_checkpoint_place(partial, path, directory, error));
done:
    if (status != FF_OK && partial) ff_checkpoint_discard(partial);
    ff_buffer_free(&sums);
    free(partial);
    free(path);
    return status;
}
