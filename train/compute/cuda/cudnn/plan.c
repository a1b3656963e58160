#include "train/compute/cuda/cudnn/plan.h"

#include "format/base/memory.h"
#include "format/disk/checksum.h"

#include <cudnn.h>
#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text attribute: the first call returns its length. */
static ff_status get_text(ff_cudnn_descriptor descriptor, cudnnBackendAttributeName_t attribute,
                          const char *what, char **text, ff_error *error) {
    int64_t length = 0;
    *text = NULL;
    cudnnStatus_t status =
        cudnnBackendGetAttribute(descriptor, attribute, CUDNN_TYPE_CHAR, 0, &length, NULL);
    if (status == CUDNN_STATUS_SUCCESS) {
        FF_TRY(ff_alloc(text, (uint64_t)length + 1, 1, what, error));
        status = cudnnBackendGetAttribute(descriptor, attribute, CUDNN_TYPE_CHAR, length, &length,
                                          *text);
    }
    if (status == CUDNN_STATUS_SUCCESS) return FF_OK;
    free(*text);
    *text = NULL;
    return ff_cudnn_fail(error, what, status);
}

/* ---- devices ---- */

/* Name and compute capability. cuDNN reports any other missing field itself. */
static ff_status read_description(ff_cudnn_device *device, const char *json, ff_error *error) {
    json_error_t where;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return ff_fail(error, FF_BAD_DATA, "a device's description is not JSON: line %d: %s",
                       where.line, where.text);
    json_t *name = json_object_get(root, "deviceName"),
           *version = json_object_get(root, "deviceVer");
    ff_status status = FF_OK;
    if (!json_is_string(name) || !json_is_integer(version) || json_integer_value(version) < 100 ||
        json_integer_value(version) > 9990) {
        status = ff_fail(error, FF_BAD_DATA,
                         "a device's description has no \"deviceName\", or its \"deviceVer\" is "
                         "not 100 times the compute capability (900 for 9.0)");
    } else {
        snprintf(device->name, sizeof device->name, "%s", json_string_value(name));
        device->major = (int)json_integer_value(version) / 100;
        device->minor = (int)json_integer_value(version) % 100 / 10;
    }
    json_decref(root);
    return status;
}

ff_status ff_cudnn_device_describe(ff_cudnn_device *device, const char *json, ff_error *error) {
    *device = (ff_cudnn_device){0};
    FF_TRY(read_description(device, json, error));
    ff_cudnn_builder *parts = &device->parts;
    device->properties = ff_cudnn_make(parts, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    ff_cudnn_set(parts, device->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                 CUDNN_TYPE_CHAR, (int64_t)strlen(json), json);
    ff_cudnn_finish(parts, device->properties, "a device's description");
    ff_status status = ff_cudnn_result(parts, error);
    if (status != FF_OK) ff_cudnn_device_close(device);
    return status;
}

ff_status ff_cudnn_device_json(void *handle, char **json, ff_error *error) {
    ff_cudnn_builder parts = {0};
    *json = NULL;
    ff_cudnn_descriptor properties = ff_cudnn_make(&parts, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    ff_cudnn_set(&parts, properties, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    ff_cudnn_finish(&parts, properties, "a GPU's properties");
    ff_status status;
    FF_TRY_DONE(ff_cudnn_result(&parts, error));
    FF_TRY_DONE(get_text(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                         "a GPU's description", json, error));
done:
    ff_cudnn_release(&parts);
    return status;
}

ff_status ff_cudnn_device_open(ff_cudnn_device *device, void *handle, ff_error *error) {
    char *json;
    *device = (ff_cudnn_device){.handle = handle};
    FF_TRY(ff_cudnn_device_json(handle, &json, error));
    ff_status status = read_description(device, json, error);
    free(json);
    return status;
}

void ff_cudnn_device_close(ff_cudnn_device *device) {
    ff_cudnn_release(&device->parts);
    *device = (ff_cudnn_device){0};
}

size_t ff_cudnn_version(void) {
    return cudnnGetVersion();
}

/* ---- candidates ---- */

static bool has_note(const int *notes, int64_t count, int note) {
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == note) return true;
    return false;
}

/* The number of notes of an engine; 0 if it has no notes. */
static int64_t get_notes(ff_cudnn_descriptor engine, cudnnBackendAttributeName_t attribute,
                         cudnnBackendAttributeType_t type, int most, int *notes) {
    int64_t count = 0;
    if (cudnnBackendGetAttribute(engine, attribute, type, most, &count, notes) !=
        CUDNN_STATUS_SUCCESS)
        return 0;
    return count < most ? count : most;
}

/* Appends " knob=value" for each knob that the configuration sets. */
static void add_knobs(ff_cudnn_builder *parts, ff_cudnn_descriptor config, char *name,
                      size_t size) {
    enum { KNOBS = CUDNN_KNOB_TYPE_COUNTS };
    ff_cudnn_descriptor choices[KNOBS];
    size_t kept = parts->count;
    int64_t count = 0;
    for (int i = 0; i < KNOBS; i++)
        choices[i] = ff_cudnn_make(parts, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, KNOBS, &count,
                                 choices) != CUDNN_STATUS_SUCCESS)
        count = 0;
    char text[1024];
    size_t length = 0;
    for (int64_t i = 0; i < count && i < KNOBS && length + 48 < sizeof text; i++) {
        int64_t one, value = 0;
        cudnnBackendKnobType_t type;
        if (cudnnBackendGetAttribute(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                     CUDNN_TYPE_KNOB_TYPE, 1, &one, &type) ||
            cudnnBackendGetAttribute(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                     CUDNN_TYPE_INT64, 1, &one, &value))
            continue;
        length += (size_t)snprintf(text + length, sizeof text - length, " %d=%lld", (int)type,
                                   (long long)value);
    }
    while (parts->count > kept) cudnnBackendDestroyDescriptor(parts->held[--parts->count]);
    size_t used = strlen(name);
    if (used + length < size)
        memcpy(name + used, text, length), name[used + length] = '\0';
    else
        snprintf(name + used, size - used, " #%016llx",
                 (unsigned long long)ff_checksum(text, length));
}

/* Describes the heuristics' configuration; *usable = whether it may be used. */
static bool describe(ff_cudnn_candidate *c, ff_cudnn_builder *parts, ff_precision precision,
                     bool deterministic, bool *usable) {
    ff_cudnn_descriptor engine = ff_cudnn_make(parts, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    if (!engine ||
        cudnnBackendGetAttribute(c->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                 &count, &c->engine))
        return false;
    int numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT], behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = get_notes(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, numerical);
    int64_t b = get_notes(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                          CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, behavior);
    c->tensor_cores = has_note(numerical, n, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    c->deterministic = !has_note(numerical, n, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    c->runtime_compiled = has_note(behavior, b, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    bool f32 = ff_precision_dtype(precision) == FF_F32;
    *usable = !(has_note(numerical, n, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) ||
                has_note(numerical, n, CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
                (f32 && has_note(numerical, n, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) ||
                (precision == FF_PRECISION_F32 && c->tensor_cores) ||
                (deterministic && !c->deterministic));
    snprintf(c->name, sizeof c->name, "%lld", (long long)c->engine);
    add_knobs(parts, c->config, c->name, sizeof c->name);
    return true;
}

static bool offered_before(const ff_cudnn_candidates *candidates, const char *name) {
    for (int i = 0; i < candidates->count; i++)
        if (!strcmp(candidates->list[i].name, name)) return true;
    return false;
}
static bool engine_before(const ff_cudnn_candidates *candidates, int64_t engine) {
    for (int i = 0; i < candidates->count; i++)
        if (candidates->list[i].engine == engine) return true;
    return false;
}

/* Adds the engines that one mode of the heuristics offers. A mode may offer no engine; this is not
 * a failure. */
static ff_status add_mode(ff_cudnn_candidates *candidates, const ff_cudnn_device *device,
                          const ff_cudnn_graph *graph, cudnnBackendHeurMode_t mode,
                          ff_precision precision, bool deterministic, uint64_t *dropped,
                          ff_error *error) {
    enum { MOST = 128 };
    ff_cudnn_builder heuristics = {0};
    ff_cudnn_descriptor h = ff_cudnn_make(&heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    ff_cudnn_set_descriptor(&heuristics, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph->graph);
    ff_cudnn_set(&heuristics, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!device->handle)
        ff_cudnn_set_descriptor(&heuristics, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                device->properties);
    ff_cudnn_finish(&heuristics, h, "the heuristics");
    ff_error failure = {0};
    ff_status status = ff_cudnn_result(&heuristics, &failure);
    if (status != FF_OK) {
        snprintf(candidates->told, sizeof candidates->told, "%.255s", failure.message);
        ff_cudnn_release(&heuristics);
        return status == FF_NO_MEMORY ? ff_fail(error, status, "%s", failure.message) : FF_OK;
    }
    ff_cudnn_descriptor configs[MOST];
    size_t first = candidates->parts.count;
    int64_t count = 0;
    for (int i = 0; i < MOST; i++)
        configs[i] = ff_cudnn_make(&candidates->parts, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    status = ff_cudnn_result(&candidates->parts, error);
    if (status == FF_OK &&
        cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 MOST, &count, configs) != CUDNN_STATUS_SUCCESS)
        count = 0;
    /* The count is of all results that there are, also those that had no room (cuDNN's "Backend
     * API", cudnnBackendGetAttribute). */
    if (count > MOST) count = MOST;
    ff_cudnn_release(&heuristics);
    /* Destroys the unused descriptors. */
    while (candidates->parts.count > first + (size_t)count)
        cudnnBackendDestroyDescriptor(candidates->parts.held[--candidates->parts.count]);
    for (int64_t i = 0; i < count && status == FF_OK; i++) {
        ff_cudnn_candidate c = {.config = configs[i]};
        bool usable;
        if (!describe(&c, &candidates->parts, precision, deterministic, &usable)) continue;
        if (!usable) {
            if (c.engine >= 0 && c.engine < 64 * 8 &&
                !(dropped[c.engine / 64] >> (c.engine % 64) & 1)) {
                dropped[c.engine / 64] |= UINT64_C(1) << (c.engine % 64);
                candidates->dropped++;
            }
            continue;
        }
        if (offered_before(candidates, c.name)) continue;
        candidates->engines += !engine_before(candidates, c.engine);
        status = ff_reserve(&candidates->list, &candidates->capacity, (size_t)candidates->count + 1,
                            sizeof c, "cuDNN's engines", error);
        if (status == FF_OK) candidates->list[candidates->count++] = c;
    }
    return status;
}

ff_status ff_cudnn_candidates_find(ff_cudnn_candidates *candidates, const ff_cudnn_device *device,
                                   const ff_cudnn_graph *graph, ff_precision precision,
                                   bool deterministic, ff_error *error) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    uint64_t dropped[8] = {0}; /* one bit per engine */
    *candidates = (ff_cudnn_candidates){0};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        ff_status status =
            add_mode(candidates, device, graph, modes[i], precision, deterministic, dropped, error);
        if (status != FF_OK) {
            ff_cudnn_candidates_release(candidates);
            return status;
        }
    }
    return FF_OK;
}

void ff_cudnn_candidates_release(ff_cudnn_candidates *candidates) {
    ff_cudnn_release(&candidates->parts);
    free(candidates->list);
    *candidates = (ff_cudnn_candidates){0};
}

/* ---- plans ---- */

static ff_cudnn_descriptor begin_plan(ff_cudnn_plan *plan, const ff_cudnn_device *device) {
    *plan = (ff_cudnn_plan){0};
    plan->plan = ff_cudnn_make(&plan->parts, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (device->handle)
        ff_cudnn_set(&plan->parts, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                     1, &device->handle);
    else
        ff_cudnn_set_descriptor(&plan->parts, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                device->properties);
    return plan->plan;
}

static ff_status end_plan(ff_cudnn_plan *plan, ff_error *error) {
    ff_cudnn_finish(&plan->parts, plan->plan, "a plan");
    ff_status status = ff_cudnn_result(&plan->parts, error);
    int64_t count = 0, bytes = 0;
    if (status == FF_OK) {
        cudnnStatus_t got =
            cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &bytes);
        if (got != CUDNN_STATUS_SUCCESS || bytes < 0)
            status = ff_cudnn_fail(error, "the workspace of a plan", got);
    }
    plan->workspace_bytes = (size_t)bytes;
    if (status != FF_OK) ff_cudnn_plan_destroy(plan);
    return status;
}

ff_status ff_cudnn_plan_create(ff_cudnn_plan *plan, const ff_cudnn_device *device,
                               const ff_cudnn_candidate *candidate, ff_error *error) {
    ff_cudnn_descriptor p = begin_plan(plan, device);
    ff_cudnn_set_descriptor(&plan->parts, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                            candidate->config);
    return end_plan(plan, error);
}

ff_status ff_cudnn_plan_load(ff_cudnn_plan *plan, const ff_cudnn_device *device, const char *json,
                             ff_error *error) {
    ff_cudnn_descriptor p = begin_plan(plan, device);
    ff_cudnn_set(&plan->parts, p, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 (int64_t)strlen(json), json);
    return end_plan(plan, error);
}

ff_status ff_cudnn_plan_json(const ff_cudnn_plan *plan, char **json, ff_error *error) {
    return get_text(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, "a plan's text",
                    json, error);
}

void ff_cudnn_plan_destroy(ff_cudnn_plan *plan) {
    ff_cudnn_release(&plan->parts);
    *plan = (ff_cudnn_plan){0};
}
