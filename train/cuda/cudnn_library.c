#include "train/cuda/cudnn_library.h"

#include "format/base/memory.h"
#include "loader/device.h"
#include "train/cuda/cublas_gemm.h"
#include "train/cuda/cudnn_plan.h"
#include "train/cuda/engine_timer.h"
#include "train/cuda/plan_cache.h"
#include "train/cuda/plan_choice.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 4 };                                /* measurements of an engine worth it */
static const size_t default_limit = (size_t)1 << 30; /* of a workspace */

typedef struct library {
    ff_library base;
    ff_library_options options; /* strings: ours */
    ff_cudnn_device device;
    cudnnHandle_t handle; /* NULL: plans only */
    void *stream;         /* the handle's */
    ff_cublas *cublas;
    char driver[16];
    double timing_left; /* seconds */
    int created;        /* convolutions */
} library;

typedef struct conv {
    ff_library_conv base;
    ff_cudnn_graph graph;
    ff_cudnn_plan plan;
    /* The pointers of the last run, as cuDNN takes them; made anew where they change. */
    ff_cudnn_builder pack_parts;
    ff_cudnn_descriptor pack;
    ff_library_conv_arguments arguments;
    void *workspace;
} conv;

static double now(void *context) {
    struct timespec t;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(const library *l, const char *format, ...) FF_PRINTF(2, 3);
static void note(const library *l, const char *format, ...) {
    char line[1024];
    if (!l->options.note) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    l->options.note(l->options.note_context, line);
}

/* ---- open and close ---- */

static void library_close(ff_library *base) {
    library *l = (library *)base;
    if (!l) return;
    ff_cublas_destroy(&l->cublas);
    ff_cudnn_device_close(&l->device);
    if (l->handle) cudnnDestroy(l->handle);
    free((char *)l->options.cache_folder);
    free(l);
}

static ff_status open_card(library *l, ff_error *error) {
    int version = 0;
    FF_TRY(l->options.device->table->make_current(l->options.device, error));
    cudnnStatus_t status = cudnnCreate(&l->handle);
    if (status != CUDNN_STATUS_SUCCESS) return ff_cudnn_fail(error, "cudnnCreate", status);
    cudaError_t got = cudaDriverGetVersion(&version);
    if (got != cudaSuccess)
        return ff_fail(error, FF_FAILED, "cudaDriverGetVersion: %s", cudaGetErrorString(got));
    snprintf(l->driver, sizeof l->driver, "%d", version);
    FF_TRY(ff_cudnn_device_open(&l->device, l->handle, error));
    return ff_cublas_create(&l->cublas, error);
}

static ff_status library_open(ff_library **out, const ff_library_options *options,
                              ff_error *error) {
    *out = NULL;
    library *l;
    ff_status status;
    if (!options->device && !options->device_json)
        return ff_fail(error, FF_USAGE, "plans need a device or a device's description");
    FF_TRY(ff_alloc(&l, 1, sizeof *l, "cuDNN", error));
    l->base.table = &ff_library_cudnn;
    l->options = *options;
    l->options.cache_folder = NULL;
    l->options.device_json = NULL;
    if (!l->options.workspace_limit) l->options.workspace_limit = default_limit;
    snprintf(l->driver, sizeof l->driver, "none");
    l->timing_left = options->device && !options->deterministic ? options->timing_seconds : 0;
    if (options->cache_folder)
        FF_TRY_DONE(
            ff_copy_string((char **)&l->options.cache_folder, options->cache_folder, error));
    if (options->device)
        FF_TRY_DONE(open_card(l, error));
    else
        FF_TRY_DONE(ff_cudnn_device_describe(&l->device, options->device_json, error));
    *out = &l->base;
    return FF_OK;
done:
    library_close(&l->base);
    return status;
}

ff_status ff_library_cudnn_describe(struct ff_device *device, char **json, ff_error *error) {
    cudnnHandle_t handle;
    FF_TRY(device->table->make_current(device, error));
    cudnnStatus_t status = cudnnCreate(&handle);
    if (status != CUDNN_STATUS_SUCCESS) return ff_cudnn_fail(error, "cudnnCreate", status);
    ff_status described = ff_cudnn_device_json(handle, json, error);
    cudnnDestroy(handle);
    return described;
}

/* ---- the cache ---- */

/* What a plan depends on. `driver` "any" for what is compiled by the library's own compiler, and
 * with it `engine`; else the choice among engines. */
static ff_status key_of(const library *l, const ff_library_conv_spec *spec, const char *driver,
                        const char *engine, char **key, ff_error *error) {
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(spec, text);
    return ff_format(key, error, "%s; cuDNN %zu; driver %s; %s, %d.%d; workspace %zu%s; %s%s", text,
                     cudnnGetVersion(), driver, l->device.name, l->device.major, l->device.minor,
                     l->options.workspace_limit, l->options.deterministic ? "; deterministic" : "",
                     engine ? "engine " : "choice", engine ? engine : "");
}

/* A plan of the cache; plan->plan stays NULL where there is none that can be used. */
static ff_status cached_plan(library *l, const ff_library_conv_spec *spec, const char *driver,
                             const char *engine, bool timed, ff_cudnn_plan *plan,
                             ff_library_engine *found, ff_error *error) {
    *plan = (ff_cudnn_plan){0};
    if (!l->options.cache_folder) return FF_OK;
    ff_plan_entry entry;
    ff_error failure = {0};
    char *key;
    FF_TRY(key_of(l, spec, driver, engine, &key, error));
    ff_status status = ff_plan_cache_get(l->options.cache_folder, key, &entry, &failure);
    free(key);
    if (status == FF_OK && entry.json && (!timed || entry.engine.timed))
        status = ff_cudnn_plan_load(plan, &l->device, entry.json, &failure);
    if (status == FF_NO_MEMORY) return ff_fail(error, status, "%s", failure.message);
    if (status != FF_OK) note(l, "plan cache: %s; made anew", failure.message);
    if (plan->plan && found) *found = entry.engine;
    if (status == FF_OK || entry.json) ff_plan_entry_release(&entry);
    return FF_OK;
}

/* That the cache cannot be written is worth a line, not a failure. */
static void remember(library *l, const ff_library_conv_spec *spec, const char *driver,
                     const char *engine, const ff_cudnn_plan *plan,
                     const ff_library_engine *chosen) {
    if (!l->options.cache_folder) return;
    ff_error failure = {0};
    char *key = NULL;
    ff_plan_entry entry = {.engine = *chosen};
    ff_status status = key_of(l, spec, driver, engine, &key, &failure);
    if (status == FF_OK) status = ff_cudnn_plan_json(plan, &entry.json, &failure);
    if (status == FF_OK) status = ff_plan_cache_put(l->options.cache_folder, key, &entry, &failure);
    if (status != FF_OK) {
        note(l, "plan cache: %s; nothing more is written to it", failure.message);
        free((char *)l->options.cache_folder);
        l->options.cache_folder = NULL;
    }
    free(entry.json);
    free(key);
}

/* ---- choosing ---- */

static ff_library_engine describe(const ff_cudnn_candidate *candidate, int found) {
    ff_library_engine engine = {
        .found = found,
        .tensor_cores = candidate->tensor_cores,
        .runtime_compiled = candidate->runtime_compiled,
        .deterministic = candidate->deterministic,
    };
    snprintf(engine.name, sizeof engine.name, "%s", candidate->name);
    return engine;
}

/* The plan of a candidate; what is compiled at run time is kept for the next time. */
static ff_status candidate_plan(library *l, const ff_library_conv_spec *spec,
                                const ff_cudnn_candidate *candidate, ff_cudnn_plan *plan,
                                ff_error *error) {
    if (candidate->runtime_compiled) {
        FF_TRY(cached_plan(l, spec, "any", candidate->name, false, plan, NULL, error));
        if (plan->plan) return FF_OK;
    }
    FF_TRY(ff_cudnn_plan_create(plan, &l->device, candidate, error));
    if (candidate->runtime_compiled) {
        ff_library_engine engine = describe(candidate, 1);
        remember(l, spec, "any", candidate->name, plan, &engine);
    }
    return FF_OK;
}

/* The first that can be finished within the workspace's limit, else the one that needs least.
 * *chosen = -1 where none can be finished; error says why the last could not. */
static ff_status choose_by_order(library *l, const ff_library_conv_spec *spec,
                                 const ff_cudnn_candidates *candidates, ff_cudnn_plan *plan,
                                 int *chosen, ff_error *error) {
    ff_cudnn_plan least = {0};
    *chosen = -1;
    for (int i = 0; i < candidates->count; i++) {
        ff_cudnn_plan one;
        if (candidate_plan(l, spec, &candidates->list[i], &one, error) != FF_OK) continue;
        bool fits = one.workspace_bytes <= l->options.workspace_limit;
        if (fits || *chosen < 0 || one.workspace_bytes < least.workspace_bytes) {
            ff_cudnn_plan_destroy(&least);
            least = one;
            *chosen = i;
            if (fits) break;
        } else {
            ff_cudnn_plan_destroy(&one);
        }
    }
    *plan = least;
    return FF_OK;
}

/* What ff_choose asks. */
typedef struct timing {
    library *l;
    const ff_library_conv_spec *spec;
    const ff_cudnn_candidates *candidates;
    ff_engine_timer *timer;
    conv trial; /* of the candidate at hand */
    int prepared;
} timing;

static ff_status conv_execute(library *l, conv *c, void *stream,
                              const ff_library_conv_arguments *arguments, void *workspace,
                              ff_error *error);
static void conv_clear(conv *c);

static ff_status timed_run(void *context, void *stream, const ff_library_conv_arguments *arguments,
                           void *workspace, ff_error *error) {
    timing *t = context;
    return conv_execute(t->l, &t->trial, stream, arguments, workspace, error);
}

static double run_candidate(void *context, int candidate) {
    timing *t = context;
    ff_error failure = {0};
    double seconds = -1;
    if (t->prepared != candidate) {
        t->prepared = -1;
        ff_cudnn_plan_destroy(&t->trial.plan);
        if (candidate_plan(t->l, t->spec, &t->candidates->list[candidate], &t->trial.plan,
                           &failure) != FF_OK)
            return -1;
        size_t bytes = t->trial.plan.workspace_bytes;
        if (bytes > t->l->options.workspace_limit ||
            ff_engine_timer_prepare(t->timer, timed_run, t, bytes, &failure) != FF_OK)
            return -1;
        t->prepared = candidate;
    }
    return ff_engine_timer_measure(t->timer, &seconds, &failure) == FF_OK ? seconds : -1;
}

/* This convolution's share of what is left. */
static double share(const library *l) {
    int left = l->options.expected_convs - l->created;
    if (l->options.expected_convs <= 0) left = 8;
    return l->timing_left / (left > 1 ? left : 1);
}

/* *chosen = -1 where none could be timed. */
static ff_status choose_by_time(library *l, conv *c, const ff_cudnn_candidates *candidates,
                                int *chosen, ff_error *error) {
    timing t = {.l = l, .spec = &c->base.spec, .candidates = candidates, .prepared = -1};
    int64_t *engines = NULL;
    int *order = NULL;
    double seconds, began = now(NULL);
    ff_cudnn_candidates sorted = *candidates;
    ff_status status;
    sorted.list = NULL;
    *chosen = -1;
    FF_TRY_DONE(ff_alloc(&engines, (uint64_t)candidates->count, sizeof *engines, "engines", error));
    FF_TRY_DONE(ff_alloc(&order, (uint64_t)candidates->count, sizeof *order, "engines", error));
    FF_TRY_DONE(
        ff_alloc(&sorted.list, (uint64_t)candidates->count, sizeof *sorted.list, "engines", error));
    /* Those that must be compiled first, which takes seconds, come last. */
    int count = 0;
    for (int compiled = 0; compiled <= 1; compiled++)
        for (int i = 0; i < candidates->count; i++)
            if (candidates->list[i].runtime_compiled == compiled) order[count++] = i;
    for (int i = 0; i < count; i++) {
        sorted.list[i] = candidates->list[order[i]];
        engines[i] = sorted.list[i].engine;
    }
    t.candidates = &sorted;
    FF_TRY_DONE(ff_engine_timer_create(&t.timer, l->options.device, t.spec, error));
    t.trial.base = c->base;
    t.trial.graph = c->graph; /* lent */
    ff_choice choice = {
        .count = count,
        .engines = engines,
        .repeats = REPEATS,
        .budget_seconds = share(l),
        .context = &t,
        .now = now,
        .run = run_candidate,
    };
    int best;
    FF_TRY_DONE(ff_choose(&choice, &best, &seconds, error));
    if (best >= 0) {
        *chosen = order[best];
        status = candidate_plan(l, t.spec, &candidates->list[*chosen], &c->plan, error);
    }
done:
    t.trial.graph = (ff_cudnn_graph){0};
    ff_engine_timer_destroy(&t.timer);
    conv_clear(&t.trial);
    free(sorted.list);
    free(order);
    free(engines);
    l->timing_left -= now(NULL) - began;
    return status;
}

/* ---- convolutions ---- */

static bool fused(const ff_library_conv_spec *spec) {
    return spec->prologue != FF_PROLOGUE_NONE || spec->epilogue != FF_EPILOGUE_NONE ||
           spec->f32_gradient;
}

static void conv_clear(conv *c) {
    ff_cudnn_release(&c->pack_parts);
    ff_cudnn_plan_destroy(&c->plan);
    ff_cudnn_graph_destroy(&c->graph);
}

static void library_conv_destroy(ff_library *base, ff_library_conv *c) {
    (void)base;
    if (c) conv_clear((conv *)c);
    free(c);
}

/* FF_FAILED, with why there is no engine. */
static ff_status none(const library *l, const ff_library_conv_spec *spec,
                      const ff_cudnn_candidates *candidates, const char *told, ff_error *error) {
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(spec, text);
    if (spec->precision == FF_PRECISION_BF16 && l->device.major < 8)
        return ff_fail(error, FF_FAILED,
                       "%s: %s has compute capability %d.%d, and bf16 needs 8.0: use f16 or f32",
                       text, l->device.name, l->device.major, l->device.minor);
    if (candidates->dropped)
        return ff_fail(error, FF_FAILED,
                       "%s: cuDNN has no engine for %s but %d that round more, or vary more, than "
                       "was asked for",
                       text, l->device.name, candidates->dropped);
    return ff_fail(error, FF_FAILED, "%s: cuDNN has no engine for %s%s%s", text, l->device.name,
                   told[0] ? ": " : "", told);
}

/* Finds the plan of c: cache, timing, heuristics. */
static ff_status find_plan(library *l, conv *c, ff_error *error) {
    const ff_library_conv_spec *spec = &c->base.spec;
    ff_library_engine *engine = &c->base.engine;
    bool timed = l->timing_left > 0;
    FF_TRY(cached_plan(l, spec, l->driver, NULL, timed, &c->plan, engine, error));
    if (!c->plan.plan && !timed && strcmp(l->driver, "none") != 0)
        FF_TRY(cached_plan(l, spec, "none", NULL, false, &c->plan, engine, error));
    FF_TRY(ff_cudnn_graph_create(&c->graph, l->handle, spec, error));
    if (c->plan.plan) return FF_OK;

    ff_cudnn_candidates candidates;
    ff_error failure = {0};
    int chosen = -1;
    FF_TRY(ff_cudnn_candidates_find(&candidates, &l->device, &c->graph, spec->precision,
                                    l->options.deterministic, error));
    ff_status status = FF_OK;
    if (timed && candidates.count) status = choose_by_time(l, c, &candidates, &chosen, &failure);
    bool by_time = status == FF_OK && chosen >= 0;
    if (status != FF_OK) /* no memory for it, say */
        note(l, "engines are not timed: %s", failure.message);
    if (!by_time) status = choose_by_order(l, spec, &candidates, &c->plan, &chosen, &failure);
    if (status == FF_OK && chosen < 0)
        status =
            none(l, spec, &candidates, candidates.count ? failure.message : candidates.told, error);
    else if (status != FF_OK && error)
        *error = failure;
    if (status == FF_OK) {
        *engine = describe(&candidates.list[chosen], candidates.engines);
        engine->timed = by_time;
        remember(l, spec, l->driver, NULL, &c->plan, engine);
    }
    ff_cudnn_candidates_release(&candidates);
    return status;
}

static ff_status library_conv_create(ff_library *base, const ff_library_conv_spec *spec,
                                     ff_library_conv **out, ff_error *error) {
    library *l = (library *)base;
    conv *c;
    *out = NULL;
    FF_TRY(ff_alloc(&c, 1, sizeof *c, "a convolution", error));
    c->base.spec = *spec;
    ff_status status = find_plan(l, c, error);
    l->created++;
    if (status != FF_OK) {
        library_conv_destroy(base, &c->base);
        return status == FF_FAILED && fused(spec) ? FF_OK : status;
    }
    c->base.workspace_bytes = c->plan.workspace_bytes;
    *out = &c->base;
    return FF_OK;
}

/* The pointers as cuDNN takes them. */
static ff_status make_pack(conv *c, const ff_library_conv_arguments *arguments, void *workspace,
                           ff_error *error) {
    void *pointers[FF_CUDNN_TENSORS];
    ff_cudnn_graph_pointers(&c->graph, arguments, pointers);
    for (int i = 0; i < c->graph.id_count; i++)
        if (!pointers[i]) {
            char text[FF_LIBRARY_CONV_TEXT];
            ff_library_conv_text(&c->base.spec, text);
            return ff_fail(error, FF_FAILED, "%s: an argument is missing", text);
        }
    ff_cudnn_builder *parts = &c->pack_parts;
    ff_cudnn_release(parts);
    c->pack = ff_cudnn_make(parts, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    ff_cudnn_set(parts, c->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                 c->graph.id_count, c->graph.ids);
    ff_cudnn_set(parts, c->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                 c->graph.id_count, pointers);
    ff_cudnn_set(parts, c->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                 &workspace);
    ff_cudnn_finish(parts, c->pack, "a run's pointers");
    ff_status status = ff_cudnn_result(parts, error);
    if (status != FF_OK) ff_cudnn_release(parts);
    return status;
}

static ff_status conv_execute(library *l, conv *c, void *stream,
                              const ff_library_conv_arguments *arguments, void *workspace,
                              ff_error *error) {
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (!c->pack_parts.count || c->workspace != workspace ||
        memcmp(&c->arguments, arguments, sizeof *arguments) != 0) {
        FF_TRY(make_pack(c, arguments, workspace, error));
        c->arguments = *arguments;
        c->workspace = workspace;
    }
    if (l->stream != stream) status = cudnnSetStream(l->handle, stream);
    if (status != CUDNN_STATUS_SUCCESS) return ff_cudnn_fail(error, "cudnnSetStream", status);
    l->stream = stream;
    status = cudnnBackendExecute(l->handle, c->plan.plan, c->pack);
    if (status == CUDNN_STATUS_SUCCESS) return FF_OK;
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(&c->base.spec, text);
    (void)ff_cudnn_fail(error, "cudnnBackendExecute", status);
    return ff_fail_within(error, FF_FAILED, "%s", text);
}

static ff_status library_conv_run(ff_library *base, ff_library_conv *c, void *stream,
                                  const ff_library_conv_arguments *arguments, void *workspace,
                                  ff_error *error) {
    library *l = (library *)base;
    if (!l->handle)
        return ff_fail(error, FF_FAILED, "a plan made for %s without a card cannot be run",
                       l->device.name);
    return conv_execute(l, (conv *)c, stream, arguments, workspace, error);
}

/* ---- matrix products ---- */

static size_t library_gemm_workspace(const ff_library *base) {
    (void)base;
    return FF_CUBLAS_WORKSPACE;
}

static ff_status library_gemm(ff_library *base, void *stream, const ff_library_gemm *gemm,
                              void *workspace, ff_error *error) {
    library *l = (library *)base;
    if (!l->cublas)
        return ff_fail(error, FF_FAILED, "matrix products cannot be run for %s without a card",
                       l->device.name);
    return ff_cublas_run(l->cublas, stream, gemm, workspace, error);
}

const ff_library_table ff_library_cudnn = {
    .name = "cudnn",
    .open = library_open,
    .close = library_close,
    .conv_create = library_conv_create,
    .conv_destroy = library_conv_destroy,
    .conv_run = library_conv_run,
    .gemm_workspace = library_gemm_workspace,
    .gemm = library_gemm,
};
