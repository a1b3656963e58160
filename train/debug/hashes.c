#include "train/debug/hashes.h"

#include "format/base/memory.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/options.h"
#include "format/disk/checksum.h"
#include "train/debug/hash_log.h"

#include "train/net/ops/ops.h"
#include "train/trainer/origin.h"
#include "train/trainer/run_step.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With FF_HASHES_CHOSEN, the share of the time between two lines that a line may take. */
#define SHARE 1e-4

struct ff_hashes {
    const ff_trainer *trainer;
    char *path;
    int fd;
    int64_t every;
    bool whole;
    ff_origin origin;
    char *note;                /* why no more hashes are kept */
    uint64_t cost_ns, last_ns; /* time that a line takes; when the last one was written */
    /* Hashes of the current step: [parameters], [operations], 0 = not seen. */
    uint64_t images, labels, *gradients, *outputs;
    bool began;            /* a micro-batch was hashed */
    ff_probe_visit shared; /* NULL = no visitor */
    void *shared_context;
    void *values;
    uint64_t value_bytes; /* size of `values`: a parameter, or a batch */
};

static ff_plan *plan_of(const ff_hashes *hashes) {
    return hashes->trainer->train_plan;
}

/* ---- hashing ---- */

static uint64_t hash_after(uint64_t before, const void *bytes, uint64_t length) {
    return ff_checksum_seeded(bytes, length, before);
}

static ff_status make_room(ff_hashes *hashes, uint64_t bytes, ff_error *error) {
    if (bytes <= hashes->value_bytes) return FF_OK;
    free(hashes->values);
    hashes->value_bytes = 0;
    FF_TRY(ff_alloc(&hashes->values, bytes, 1, "hashes", error));
    hashes->value_bytes = bytes;
    return FF_OK;
}

/* Hashes memory of the device. */
static ff_status hash_memory(ff_hashes *hashes, const void *memory, uint64_t bytes, uint64_t *hash,
                             ff_error *error) {
    ff_compute *compute = plan_of(hashes)->compute;
    FF_TRY(make_room(hashes, bytes, error));
    ff_compute_read(compute, hashes->values, memory, bytes);
    *hash = hash_after(*hash, hashes->values, bytes);
    return ff_compute_check(compute, error);
}

/* Hashes the images' values in f32, in the order n, c, h, w: equal images have equal hashes,
 * however the compute lays them out. */
static ff_status hash_images(ff_hashes *hashes, const ff_tensor *t, const void *images,
                             ff_error *error) {
    ff_compute *compute = plan_of(hashes)->compute;
    const size_t stored = ff_tensor_sample(t), plane = (size_t)t->h * (size_t)t->w;
    const size_t values = (size_t)t->c * plane, bytes = stored * compute->element_bytes;
    if (t->block == 1 && compute->dtype == FF_F32)
        return hash_memory(hashes, images, (uint64_t)t->n * bytes, &hashes->images, error);
    FF_TRY(make_room(
        hashes, (uint64_t)t->n * (bytes + values * sizeof(float)) + stored * sizeof(float), error));
    float *all = hashes->values, *sample = all + (size_t)t->n * values;
    char *raw = (char *)(sample + stored);
    ff_compute_read(compute, raw, images, (uint64_t)t->n * bytes);
    FF_TRY(ff_compute_check(compute, error));
    for (int n = 0; n < t->n; n++) {
        ff_convert(sample, FF_F32, raw + (size_t)n * bytes, compute->dtype, stored);
        for (int c = 0; c < t->c; c++)
            for (size_t i = 0; i < plane; i++)
                all[(size_t)n * values + (size_t)c * plane + i] =
                    sample[((size_t)(c / t->block) * plane + i) * (size_t)t->block +
                           (size_t)(c % t->block)];
    }
    hashes->images = hash_after(hashes->images, all, (uint64_t)t->n * values * sizeof *all);
    return FF_OK;
}

static ff_status see(void *context, ff_probe *probe, const ff_seen *seen, ff_error *error) {
    ff_hashes *hashes = context;
    if (seen->kind == FF_SEEN_OUTPUT && seen->op < plan_of(hashes)->op_count) {
        size_t bytes;
        const void *memory = ff_probe_bytes(probe, &bytes, error);
        if (!memory) return error->status;
        hashes->outputs[seen->op] = hash_after(hashes->outputs[seen->op], memory, bytes);
    } else if (seen->kind == FF_SEEN_PARAMETER_GRADIENT) {
        uint64_t *hash = &hashes->gradients[seen->parameter];
        const float *values = ff_probe_values(probe, error);
        if (!values) return error->status;
        *hash = hash_after(*hash, values, seen->count * sizeof *values);
    }
    return hashes->shared ? hashes->shared(hashes->shared_context, probe, seen, error) : FF_OK;
}

void ff_hashes_share(ff_hashes *hashes, ff_probe_visit visit, void *context) {
    hashes->shared = visit;
    hashes->shared_context = context;
}

static void forget(ff_hashes *hashes) {
    const ff_plan *plan = plan_of(hashes);
    hashes->images = hashes->labels = 0;
    memset(hashes->gradients, 0, (size_t)plan->graph->parameter_count * sizeof(uint64_t));
    memset(hashes->outputs, 0, (size_t)plan->op_count * sizeof(uint64_t));
    hashes->began = false;
}

ff_status ff_hashes_part(void *context, ff_plan *plan, const ff_batch *batch, bool last,
                         ff_error *error) {
    ff_hashes *hashes = context;
    ff_probe probe;
    const uint64_t labels = (uint64_t)plan->batch * ff_dtype_bytes(batch->label_dtype);
    if (!hashes->began) forget(hashes);
    hashes->began = true;
    if (hashes->whole) ff_probe_begin(&probe, plan, batch->images, see, hashes);
    const ff_status status = ff_micro_batch_train(hashes->trainer->step, plan, batch, last, error);
    const ff_status seen =
        hashes->whole ? ff_probe_end(&probe, status == FF_OK ? error : NULL) : FF_OK;
    FF_TRY(status);
    FF_TRY(seen);
    FF_TRY(hash_images(hashes, &plan->tensors[0], batch->images, error));
    return hash_memory(hashes, batch->labels, labels, &hashes->labels, error);
}

/* ---- lines ---- */

static ff_status add_list(ff_buffer *line, const char *name, const uint64_t *hashes, int count,
                          ff_error *error) {
    FF_TRY(ff_buffer_printf(line, error, ",\"%s\":[", name));
    for (int i = 0; i < count; i++)
        FF_TRY(hashes[i]
                   ? ff_buffer_printf(line, error, "%s\"%016" PRIx64 "\"", i ? "," : "", hashes[i])
                   : ff_buffer_printf(line, error, "%s\"\"", i ? "," : ""));
    return ff_buffer_printf(line, error, "]");
}

static ff_status add_parameters(const ff_hashes *hashes, ff_buffer *line, ff_error *error) {
    const ff_model *model = hashes->trainer->model;
    const int count = ff_model_parameter_count(model);
    uint64_t *found;
    ff_status status;
    FF_TRY(ff_alloc(&found, (uint64_t)count, sizeof *found, "hashes", error));
    for (int i = 0; i < count; i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        ff_model_get(model, i, FF_PART_VALUE, hashes->values);
        found[i] = hash_after(0, hashes->values, p->count * ff_dtype_bytes(p->dtype));
    }
    FF_TRY_DONE(ff_model_check(model, error));
    FF_TRY_DONE(add_list(line, "parameters", found, count, error));
done:
    free(found);
    return status;
}

static ff_status append(ff_hashes *hashes, ff_buffer *line, ff_error *error) {
    FF_TRY(ff_buffer_printf(line, error, "\n"));
    const ssize_t written = write(hashes->fd, line->bytes, line->length);
    if (written == (ssize_t)line->length) return FF_OK;
    if (written >= 0) errno = ENOSPC;
    return ff_fail_errno(error, "%s: cannot write", hashes->path);
}

/* outcome: NULL: only the parameters. */
static ff_status write_step(ff_hashes *hashes, uint64_t steps, const ff_outcome *outcome,
                            ff_error *error) {
    const ff_plan *plan = plan_of(hashes);
    const uint64_t began = ff_now_ns();
    ff_buffer line = {0};
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&line, error, "{\"step\":%" PRIu64, steps));
    if (outcome) {
        const double count = outcome->count ? (double)outcome->count : 1;
        const int64_t parts = hashes->trainer->accumulate;
        FF_TRY_DONE(ff_buffer_printf(&line, error,
                                     ",\"loss\":%.17g,\"cut\":\"%s, %" PRId64
                                     " micro-batch%s\",\"images\":\"%016" PRIx64
                                     "\",\"labels\":\"%016" PRIx64 "\"",
                                     ff_outcome_loss(outcome) / count, hashes->origin.ranks, parts,
                                     parts == 1 ? "" : "es", hashes->images, hashes->labels));
    }
    FF_TRY_DONE(add_parameters(hashes, &line, error));
    if (outcome && hashes->whole) {
        FF_TRY_DONE(
            add_list(&line, "gradients", hashes->gradients, plan->graph->parameter_count, error));
        FF_TRY_DONE(add_list(&line, "outputs", hashes->outputs, plan->op_count, error));
    }
    FF_TRY_DONE(ff_buffer_printf(&line, error, "}"));
    FF_TRY_DONE(append(hashes, &line, error));
    hashes->last_ns = ff_now_ns();
    hashes->cost_ns = hashes->last_ns - began;
done:
    ff_buffer_free(&line);
    return status;
}

/* Stores the sentence of a failure as the note. */
static ff_status note_failure(ff_hashes *hashes, ff_status status, ff_error *error) {
    if (status == FF_OK || hashes->note) return status;
    const ff_status noted =
        ff_format(&hashes->note, error, "hashes are no longer kept: %s", error->message);
    return noted == FF_OK ? status : noted;
}

ff_status ff_hashes_write(ff_hashes *hashes, const ff_outcome *outcome, ff_error *error) {
    ff_error own = {0};
    hashes->began = false;
    if (!error) error = &own;
    return note_failure(hashes, write_step(hashes, outcome->step + 1, outcome, error), error);
}

const char *ff_hashes_note(const ff_hashes *hashes) {
    return hashes ? hashes->note : NULL;
}

bool ff_hashes_due(const ff_hashes *hashes, uint64_t steps) {
    if (!hashes || hashes->note) return false;
    const ff_trainer *trainer = hashes->trainer;
    if (steps == ff_trainer_total_steps(trainer)) return true;
    if (hashes->every > 0) return steps % (uint64_t)hashes->every == 0;
    return steps % trainer->batches == 0 &&
           (double)hashes->cost_ns <= SHARE * (double)(ff_now_ns() - hashes->last_ns);
}

/* ---- the file ---- */

static json_t *names_of(const ff_hashes *hashes) {
    const ff_trainer *trainer = hashes->trainer;
    const ff_plan *plan = plan_of(hashes);
    json_t *parameters = json_array(), *outputs = json_array();
    int failed = 0;
    for (int i = 0; i < ff_model_parameter_count(trainer->model); i++)
        failed |= json_array_append_new(parameters,
                                        json_string(ff_model_parameter(trainer->model, i)->name));
    for (int i = 0; i < plan->op_count; i++) {
        char name[FF_PROBE_NAME];
        ff_op_layers(plan, &plan->ops[i], true, name, sizeof name);
        failed |= json_array_append_new(outputs, json_string(name));
    }
    json_t *line = json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "event", "names", "version", ff_version, "data",
        json_string(hashes->origin.data), "val", json_string(hashes->origin.val), "compute",
        ff_model_compute_name(trainer->model), "parameters", parameters, "outputs", outputs);
    if (line && failed) json_decref(line);
    return failed ? NULL : line;
}

static ff_status write_names(ff_hashes *hashes, ff_error *error) {
    json_t *names = names_of(hashes);
    char *text = names ? json_dumps(names, JSON_COMPACT) : NULL;
    ff_buffer line = {0};
    json_decref(names);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "not enough memory for hashes");
    ff_status status = ff_buffer_printf(&line, error, "%s", text);
    if (status == FF_OK) status = append(hashes, &line, error);
    ff_buffer_free(&line);
    free(text);
    return status;
}

/* Opens the file and cuts it off after the line of `steps`, or after its last good line. *used:
 * lines are left in it. */
static ff_status open_file(ff_hashes *hashes, uint64_t steps, bool *used, ff_error *error) {
    ff_hash_log log = {0};
    uint64_t end = 0;
    if (steps && ff_path_exists("%s", hashes->path)) {
        const ff_status status = ff_hash_log_read(&log, hashes->path, steps, error);
        end = log.end;
        ff_hash_log_free(&log);
        if (status != FF_OK && status != FF_BAD_DATA) return status;
    }
    *used = end > 0;
    hashes->fd = open(hashes->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (hashes->fd < 0 || ftruncate(hashes->fd, (off_t)end) != 0)
        return ff_fail_errno(error, "%s: cannot write", hashes->path);
    return FF_OK;
}

static ff_status begin(ff_hashes *hashes, uint64_t steps, ff_error *error) {
    bool used;
    FF_TRY(open_file(hashes, steps, &used, error));
    hashes->last_ns = ff_now_ns();
    if (used) return FF_OK;
    FF_TRY(write_names(hashes, error));
    return write_step(hashes, steps, NULL, error);
}

static ff_status allocate(ff_hashes *hashes, ff_error *error) {
    const ff_plan *plan = plan_of(hashes);
    FF_TRY(make_room(hashes, ff_model_largest_bytes(hashes->trainer->model), error));
    FF_TRY(ff_alloc(&hashes->gradients, (uint64_t)plan->graph->parameter_count, sizeof(uint64_t),
                    "hashes", error));
    return ff_alloc(&hashes->outputs, (uint64_t)plan->op_count, sizeof(uint64_t), "hashes", error);
}

ff_status ff_hashes_open(ff_hashes **out, const char *path, const ff_trainer *trainer,
                         int64_t every, uint64_t steps, bool whole, ff_error *error) {
    ff_hashes *hashes;
    ff_status status;
    *out = NULL;
    if (!path || !every) return FF_OK;
    FF_TRY(ff_alloc(&hashes, 1, sizeof *hashes, "hashes", error));
    hashes->trainer = trainer;
    ff_origin_of(&hashes->origin, trainer);
    hashes->fd = -1;
    hashes->every = every;
    hashes->whole =
        whole || (every > 0 && ff_model_compute(trainer->model)->device->table->unified);
    FF_TRY_DONE(ff_copy_string(&hashes->path, path, error));
    FF_TRY_DONE(allocate(hashes, error));
    status = note_failure(hashes, begin(hashes, steps, error), error);
    if (status == FF_IO) status = FF_OK; /* there is a note */
done:
    if (status == FF_OK)
        *out = hashes;
    else
        ff_hashes_close(&hashes);
    return status;
}

void ff_hashes_close(ff_hashes **pointer) {
    ff_hashes *hashes = *pointer;
    if (!hashes) return;
    if (hashes->fd >= 0) close(hashes->fd);
    free(hashes->path);
    free(hashes->note);
    free(hashes->values);
    free(hashes->gradients);
    free(hashes->outputs);
    free(hashes);
    *pointer = NULL;
}
