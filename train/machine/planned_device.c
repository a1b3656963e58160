#include "train/machine/planned_device.h"

#include "format/base/memory.h"
#include "format/cli/say.h"
#include "loader/cuda/module.h"
#include "loader/device/absent.h"
#include "train/compute/cuda/compute.h"
#include "train/compute/cuda/exports.h"

#include <jansson.h>

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A spec, and how often it was planned. */
typedef struct entry {
    ff_library_conv_spec spec;
    bool found;
    ff_library_engine engine;
    size_t workspace_bytes;
    int count;
} entry;

struct ff_planned_device {
    ff_cuda_module *module; /* NULL if the caller passed the table */
    ff_device *device;
    char *json;
    char name[128];
    ff_cuda_options cuda;
    ff_model_device model;
    entry *list;
    size_t count, capacity;
};

enum { MOST_BYTES = 1 << 20 };

static ff_status read_file(const char *path, char **text, ff_error *error) {
    FILE *file = fopen(path, "rbe");
    *text = NULL;
    if (!file) return ff_fail_errno(error, "%s", path);
    ff_status status;
    FF_TRY_DONE(ff_alloc(text, MOST_BYTES + 1, 1, "a device's description", error));
    const size_t length = fread(*text, 1, MOST_BYTES + 1, file);
    if (ferror(file))
        status = ff_fail(error, FF_IO, "%s: cannot be read", path);
    else if (length > MOST_BYTES || memchr(*text, '\0', length))
        status = ff_fail(error, FF_BAD_DATA, "%s: is not a device description", path);
done:
    fclose(file);
    if (status == FF_OK) return FF_OK;
    free(*text);
    *text = NULL;
    return status;
}

/* Reads the fields needed before cuDNN reads the description. */
static ff_status read_description(ff_planned_device *planned, uint64_t *memory_bytes,
                                  ff_error *error) {
    json_error_t where;
    json_t *root = json_loads(planned->json, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return ff_fail(error, FF_BAD_DATA, "is not JSON: line %d: %s", where.line, where.text);
    json_int_t memory = json_integer_value(json_object_get(root, "totalGlobalMem"));
    json_int_t multiprocessors = json_integer_value(json_object_get(root, "multiProcessorCount"));
    const char *name = json_string_value(json_object_get(root, "deviceName"));
    ff_status status = FF_OK;
    if (!name || memory < 1 || multiprocessors < 1 || multiprocessors > 100000) {
        status = ff_fail(error, FF_BAD_DATA,
                         "is not a device description: it needs deviceName, totalGlobalMem and "
                         "multiProcessorCount");
    } else {
        snprintf(planned->name, sizeof planned->name, "%s", name);
        planned->cuda.multiprocessors = (int)multiprocessors;
        *memory_bytes = (uint64_t)memory;
    }
    json_decref(root);
    return status;
}

/* The library calls this for each convolution. */
static void take(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv) {
    ff_planned_device *planned = context;
    for (size_t i = 0; i < planned->count; i++)
        if (ff_library_conv_same(&planned->list[i].spec, spec)) {
            planned->list[i].count++;
            return;
        }
    if (ff_reserve(&planned->list, &planned->capacity, planned->count + 1, sizeof *planned->list,
                   "plans", NULL) != FF_OK)
        return; /* the report is incomplete, the plan is unchanged */
    entry *e = &planned->list[planned->count++];
    *e = (entry){.spec = *spec, .found = conv, .count = 1};
    if (!conv) return;
    e->engine = conv->engine;
    e->workspace_bytes = conv->workspace_bytes;
}

/* memory_bytes: 0 = as in the description. */
static ff_status create(ff_planned_device **out, const char *json, uint64_t memory_bytes,
                        const struct ff_compute_ops *ops, const ff_library_table *library,
                        ff_error *error) {
    ff_planned_device *planned;
    uint64_t described;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&planned, 1, sizeof *planned, "a planned device", error));
    FF_TRY_DONE(ff_copy_string(&planned->json, json, error));
    FF_TRY_DONE(read_description(planned, &described, error));
    FF_TRY_DONE(ff_device_absent_create(&planned->device, memory_bytes ? memory_bytes : described,
                                        false, error));
    planned->cuda.library = library;
    planned->cuda.device_json = planned->json;
    planned->cuda.planned = take;
    planned->cuda.planned_context = planned;
    planned->model = (ff_model_device){
        .name = planned->name, .ops = ops, .device = planned->device, .cuda = &planned->cuda};
    *out = planned;
    return FF_OK;
done:
    ff_planned_device_close(&planned);
    return status;
}

ff_status ff_planned_device_open_with(ff_planned_device **out, const char *json,
                                      const struct ff_compute_ops *ops,
                                      const ff_library_table *library, ff_error *error) {
    return create(out, json, 0, ops, library, error);
}

ff_status ff_planned_device_of(ff_planned_device **out, const ff_machine *machine,
                               ff_error *error) {
    const ff_model_device *there = ff_machine_device(machine);
    uint64_t free_bytes;
    char *json;
    *out = NULL;
    FF_TRY(ff_machine_describe(machine, &json, &free_bytes, error));
    const ff_status status =
        create(out, json, free_bytes ? free_bytes : 1, there->ops, there->cuda->library, error);
    free(json);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", there->name);
    (*out)->cuda.compile_nothing = true;
    return FF_OK;
}

ff_status ff_planned_device_open(ff_planned_device **out, const char *path,
                                 const ff_machine_options *options, ff_error *error) {
    ff_cuda_module *module = NULL;
    ff_tuning *tuning = options->tuning;
    char *json = NULL;
    ff_status status;
    *out = NULL;
    FF_TRY_DONE(read_file(path, &json, error));
    FF_TRY_DONE(ff_cuda_module_open(&module, FF_CUDA_NO_DEVICE, error));
    const struct ff_train_cuda *train = ff_cuda_module_table(module)->train;
    status = ff_planned_device_open_with(out, json, train->compute, train->library, error);
    if (status == FF_BAD_DATA) status = ff_fail_within(error, status, "%s", path);
    if (status != FF_OK) goto done;
    (*out)->cuda.cache_folder = options->plan_cache;
    (*out)->cuda.timing_seconds = options->tune_seconds;
    (*out)->cuda.no_fold = options->no_fold;
    if (tuning) {
        (*out)->cuda.note = ff_tuning_note;
        (*out)->cuda.progress = ff_tuning_progress;
        (*out)->cuda.note_context = tuning;
        (*out)->cuda.tuning = &tuning->counts;
        ff_tuning_note(tuning, ff_cuda_module_notes(module));
    }
    (*out)->module = module;
    module = NULL;
done:
    ff_cuda_module_close(&module);
    free(json);
    return status;
}

void ff_planned_device_close(ff_planned_device **out) {
    ff_planned_device *planned = *out;
    *out = NULL;
    if (!planned) return;
    ff_device_destroy(&planned->device);
    ff_cuda_module_close(&planned->module);
    free(planned->list);
    free(planned->json);
    free(planned);
}

const struct ff_loader_kernels *ff_planned_device_kernels(const ff_planned_device *planned) {
    return planned->module ? ff_cuda_module_table(planned->module)->loader : NULL;
}

const ff_model_device *ff_planned_device_model(const ff_planned_device *planned) {
    return &planned->model;
}

ff_card ff_planned_device_card(const ff_planned_device *planned) {
    json_t *root =
        json_loads(planned->json, JSON_REJECT_DUPLICATES, NULL); /* it was parsed before */
    static const char *const names[] = {"deviceVer", "smClockRateKHz", "memClockRateKHz"};
    int found[3];
    for (int i = 0; i < 3; i++) {
        const json_int_t value = json_integer_value(json_object_get(root, names[i]));
        found[i] = value > 0 && value < INT_MAX ? (int)value : 0;
    }
    json_decref(root);
    const ff_card_facts facts = {.name = planned->name,
                                 .capability = found[0] / 10,
                                 .multiprocessors = planned->cuda.multiprocessors,
                                 .clock_khz = found[1],
                                 .memory_clock_khz = found[2]};
    return ff_card_limits(&facts);
}

static void print_entry(FILE *out, const entry *e) {
    static const char *const passes[] = {"forward", "backward data", "backward weights"};
    static const char *const fused[] = {"",           "bias",          "bias, ReLU",   "bias, GELU",
                                        "statistics", "ReLU backward", "norm backward"};
    const ff_library_conv_spec *s = &e->spec;
    char images[64], filters[64], also[64];
    snprintf(images, sizeof images, "%dx%dx%dx%d", s->n, s->h, s->w, s->c);
    snprintf(filters, sizeof filters, "%d of %dx%d /%d", s->k, s->kernel, s->kernel, s->stride);
    snprintf(also, sizeof also, "%s%s%s%s", s->prologue == FF_PROLOGUE_NONE ? "" : "norm, ReLU",
             s->prologue != FF_PROLOGUE_NONE && s->epilogue != FF_EPILOGUE_NONE ? "; " : "",
             fused[s->epilogue], s->f32_gradient ? "f32" : "");
    fprintf(out, "%4d  %-16s  %-17s  %-14s  %-22s  ", e->count, passes[s->pass], images, filters,
            also);
    if (!e->found) {
        fprintf(out, "none: not fused\n");
        return;
    }
    fprintf(out, "%6.*s  %2d  %c%c%c  %9.1f\n", (int)strcspn(e->engine.name, " "), e->engine.name,
            e->engine.found, e->engine.tensor_cores ? 'T' : '-',
            e->engine.runtime_compiled ? 'R' : '-', e->engine.deterministic ? '-' : 'N',
            (double)e->workspace_bytes / (1 << 20));
}

void ff_planned_device_print(FILE *out, const ff_planned_device *planned) {
    fprintf(
        out,
        "\nConvolutions on %s: T on tensor cores, R compiled at run time, N not deterministic\n"
        "   n  pass              images             filters         fused                   engine"
        "  of  TRN  MiB of workspace\n",
        planned->name);
    for (size_t i = 0; i < planned->count; i++) print_entry(out, &planned->list[i]);
}
