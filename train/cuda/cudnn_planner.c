#include "train/cuda/cudnn_planner.h"

#include "format/base/memory.h"
#include "train/cuda/cudnn_run.h"
#include "train/cuda/engine_timer.h"
#include "train/cuda/plan_cache.h"
#include "train/cuda/plan_choice.h"

#include <cudnn.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 4 }; /* measurements of an engine worth it */
static const size_t default_limit = (size_t)1 << 30;

static double now(void *context) {
    struct timespec t;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(const ff_cudnn_planner *p, const char *format, ...) FF_PRINTF(2, 3);
static void note(const ff_cudnn_planner *p, const char *format, ...) {
    char line[1024];
    if (!p->options.note) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    p->options.note(p->options.note_context, line);
}

/* ---- open and close ---- */

ff_status ff_cudnn_planner_open(ff_cudnn_planner *p, const ff_library_options *options,
                                void *handle, int driver, ff_error *error) {
    *p = (ff_cudnn_planner){.options = *options};
    p->options.cache_folder = p->options.device_json = NULL;
    if (!p->options.workspace_limit) p->options.workspace_limit = default_limit;
    p->timing_left = handle && !options->deterministic ? options->timing_seconds : 0;
    ff_status status;
    if (options->cache_folder)
        FF_TRY_DONE(
            ff_copy_string((char **)&p->options.cache_folder, options->cache_folder, error));
    if (handle) {
        snprintf(p->driver, sizeof p->driver, "%d", driver);
        FF_TRY_DONE(ff_cudnn_device_open(&p->device, handle, error));
    } else {
        snprintf(p->driver, sizeof p->driver, "none");
        FF_TRY_DONE(ff_cudnn_device_describe(&p->device, options->device_json, error));
    }
    return FF_OK;
done:
    ff_cudnn_planner_close(p);
    return status;
}

static void planned_destroy(ff_cudnn_planned *planned) {
    ff_cudnn_plan_destroy(&planned->plan);
    ff_cudnn_graph_destroy(&planned->graph);
    free(planned);
}

void ff_cudnn_planner_close(ff_cudnn_planner *p) {
    for (size_t i = 0; i < p->count; i++) planned_destroy(p->list[i]);
    free(p->list);
    ff_cudnn_device_close(&p->device);
    free((char *)p->options.cache_folder);
    *p = (ff_cudnn_planner){0};
}

/* ---- the cache ---- */

/* What a plan depends on. Of the choice among engines: the driver too; of an `engine`, which cuDNN
 * compiled itself: not. */
static ff_status key_of(const ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                        const char *driver, const char *engine, char **key, ff_error *error) {
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(spec, text);
    return ff_format(key, error, "%s; cuDNN %zu; driver %s; %s, %d.%d; workspace %zu%s; %s%s", text,
                     cudnnGetVersion(), engine ? "any" : driver, p->device.name, p->device.major,
                     p->device.minor, p->options.workspace_limit,
                     p->options.deterministic ? "; deterministic" : "",
                     engine ? "engine " : "choice", engine ? engine : "");
}

/* A plan of the cache; plan->plan stays NULL where there is none that can be used. */
static ff_status cached_plan(const ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                             const char *driver, const char *engine, bool timed,
                             ff_cudnn_plan *plan, ff_library_engine *found, ff_error *error) {
    *plan = (ff_cudnn_plan){0};
    if (!p->options.cache_folder) return FF_OK;
    ff_plan_entry entry;
    ff_error failure = {0};
    char *key;
    FF_TRY(key_of(p, spec, driver, engine, &key, error));
    ff_status status = ff_plan_cache_get(p->options.cache_folder, key, &entry, &failure);
    free(key);
    if (status == FF_OK && entry.json && (!timed || entry.engine.timed))
        status = ff_cudnn_plan_load(plan, &p->device, entry.json, &failure);
    if (plan->plan && found) *found = entry.engine;
    ff_plan_entry_release(&entry);
    if (status == FF_NO_MEMORY) return ff_fail(error, status, "%s", failure.message);
    if (status != FF_OK) note(p, "plan cache: %s; made anew", failure.message);
    return FF_OK;
}

/* That the cache cannot be written is worth a line, not a failure. */
static void remember(ff_cudnn_planner *p, const ff_library_conv_spec *spec, const char *engine,
                     const ff_cudnn_plan *plan, const ff_library_engine *chosen) {
    if (!p->options.cache_folder) return;
    ff_error failure = {0};
    char *key = NULL;
    ff_plan_entry entry = {.engine = *chosen};
    ff_status status = key_of(p, spec, p->driver, engine, &key, &failure);
    if (status == FF_OK) status = ff_cudnn_plan_json(plan, &entry.json, &failure);
    if (status == FF_OK) status = ff_plan_cache_put(p->options.cache_folder, key, &entry, &failure);
    if (status != FF_OK) {
        note(p, "plan cache: %s; nothing more is written to it", failure.message);
        free((char *)p->options.cache_folder);
        p->options.cache_folder = NULL;
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
static ff_status candidate_plan(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                                const ff_cudnn_candidate *candidate, ff_cudnn_plan *plan,
                                ff_error *error) {
    if (candidate->runtime_compiled) {
        FF_TRY(cached_plan(p, spec, p->driver, candidate->name, false, plan, NULL, error));
        if (plan->plan) return FF_OK;
    }
    FF_TRY(ff_cudnn_plan_create(plan, &p->device, candidate, error));
    if (candidate->runtime_compiled) {
        ff_library_engine engine = describe(candidate, 1);
        remember(p, spec, candidate->name, plan, &engine);
    }
    return FF_OK;
}

/* The first that can be finished within the workspace's limit, else the one that needs least.
 * -1 where none can be finished; error says why the last could not. */
static int choose_by_order(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                           const ff_cudnn_candidates *candidates, ff_cudnn_plan *plan,
                           ff_error *error) {
    int chosen = -1;
    *plan = (ff_cudnn_plan){0};
    for (int i = 0; i < candidates->count; i++) {
        ff_cudnn_plan one;
        if (candidate_plan(p, spec, &candidates->list[i], &one, error) != FF_OK) continue;
        bool fits = one.workspace_bytes <= p->options.workspace_limit;
        if (!fits && chosen >= 0 && one.workspace_bytes >= plan->workspace_bytes) {
            ff_cudnn_plan_destroy(&one);
            continue;
        }
        ff_cudnn_plan_destroy(plan);
        *plan = one;
        chosen = i;
        if (fits) break;
    }
    return chosen;
}

/* What ff_choose asks. */
typedef struct timing {
    ff_cudnn_planner *planner;
    const ff_cudnn_planned *planned; /* its spec and graph */
    const ff_cudnn_candidate *const *candidates;
    ff_engine_timer *timer;
    int prepared; /* the candidate at hand; -1 = none */
    ff_cudnn_plan plan;
    ff_cudnn_run run;
} timing;

static ff_status timed_run(void *context, void *stream, const ff_library_conv_arguments *arguments,
                           void *workspace, ff_error *error) {
    timing *t = context;
    return ff_cudnn_run_enqueue(&t->run, t->planner->device.handle, &t->planned->graph, &t->plan,
                                stream, arguments, workspace, error);
}

static double time_candidate(void *context, int candidate) {
    timing *t = context;
    ff_error failure = {0};
    double seconds = -1;
    if (t->prepared != candidate) {
        t->prepared = -1;
        ff_engine_timer_forget(t->timer);
        ff_cudnn_plan_destroy(&t->plan);
        if (candidate_plan(t->planner, &t->planned->spec, t->candidates[candidate], &t->plan,
                           &failure) != FF_OK)
            return -1;
        if (t->plan.workspace_bytes > t->planner->options.workspace_limit ||
            ff_engine_timer_prepare(t->timer, timed_run, t, t->plan.workspace_bytes, &failure) !=
                FF_OK)
            return -1;
        t->prepared = candidate;
    }
    return ff_engine_timer_measure(t->timer, &seconds, &failure) == FF_OK ? seconds : -1;
}

/* This convolution's share of the seconds that are left. */
static double share(const ff_cudnn_planner *p) {
    int left = p->options.expected_convs - p->asked;
    if (p->options.expected_convs <= 0) left = 8;
    return p->timing_left / (left > 1 ? left : 1);
}

/* *chosen = -1 where none could be timed; ns: its time. */
static ff_status choose_by_time(ff_cudnn_planner *p, ff_cudnn_planned *planned,
                                const ff_cudnn_candidates *candidates, int *chosen, uint64_t *ns,
                                ff_error *error) {
    timing t = {.planner = p, .planned = planned, .prepared = -1};
    const ff_cudnn_candidate **order = NULL;
    int64_t *engines = NULL;
    double seconds, began = now(NULL);
    uint64_t most = (uint64_t)candidates->count;
    ff_status status;
    *chosen = -1;
    FF_TRY_DONE(ff_alloc(&engines, most, sizeof *engines, "engines", error));
    FF_TRY_DONE(ff_alloc(&order, most, sizeof *order, "engines", error));
    /* Those that must be compiled first, which takes seconds, come last. */
    int count = 0;
    for (int compiled = 0; compiled <= 1; compiled++)
        for (int i = 0; i < candidates->count; i++) {
            const ff_cudnn_candidate *candidate = &candidates->list[i];
            if (candidate->runtime_compiled != compiled) continue;
            order[count] = candidate;
            engines[count++] = candidate->engine;
        }
    t.candidates = order;
    FF_TRY_DONE(ff_engine_timer_create(&t.timer, p->options.device, &planned->spec, error));
    ff_choice choice = {
        .count = count,
        .engines = engines,
        .repeats = REPEATS,
        .budget_seconds = share(p),
        .context = &t,
        .now = now,
        .run = time_candidate,
    };
    int best;
    FF_TRY_DONE(ff_choose(&choice, &best, &seconds, error));
    if (best < 0) goto done;
    FF_TRY_DONE(candidate_plan(p, &planned->spec, order[best], &planned->plan, error));
    *chosen = (int)(order[best] - candidates->list);
    *ns = (uint64_t)(seconds * 1e9) + 1;
done:
    ff_engine_timer_destroy(&t.timer);
    ff_cudnn_run_release(&t.run);
    ff_cudnn_plan_destroy(&t.plan);
    free(order);
    free(engines);
    p->timing_left -= now(NULL) - began;
    return status;
}

/* ---- finding ---- */

/* Why there is no engine. */
static void tell_none(const ff_cudnn_planner *p, const ff_cudnn_candidates *candidates,
                      const char *last, ff_cudnn_planned *planned) {
    char text[FF_LIBRARY_CONV_TEXT];
    const ff_cudnn_device *d = &p->device;
    ff_library_conv_text(&planned->spec, text);
    if (planned->spec.precision == FF_PRECISION_BF16 && d->major < 8)
        (void)ff_fail(&planned->why, FF_FAILED,
                      "%s: %s has compute capability %d.%d, and bf16 needs 8.0: use f16 or f32",
                      text, d->name, d->major, d->minor);
    else if (!candidates->count && candidates->dropped)
        (void)ff_fail(&planned->why, FF_FAILED,
                      "%s: cuDNN has no engine for %s but %d that round more, or vary more, than "
                      "was asked for",
                      text, d->name, candidates->dropped);
    else
        (void)ff_fail(&planned->why, FF_FAILED, "%s: cuDNN has no engine for %s%s%s", text, d->name,
                      last[0] ? ": " : "", last);
}

static ff_status choose(ff_cudnn_planner *p, ff_cudnn_planned *planned, bool timed,
                        ff_error *error) {
    ff_cudnn_candidates candidates;
    ff_error failure = {0};
    uint64_t ns = 0;
    int chosen = -1;
    FF_TRY(ff_cudnn_candidates_find(&candidates, &p->device, &planned->graph,
                                    planned->spec.precision, p->options.deterministic, error));
    ff_status status = FF_OK;
    if (timed && candidates.count) {
        status = choose_by_time(p, planned, &candidates, &chosen, &ns, &failure);
        if (status != FF_OK) note(p, "engines are not timed: %s", failure.message);
    }
    bool by_time = chosen >= 0;
    failure.message[0] = '\0';
    if (!by_time)
        chosen = choose_by_order(p, &planned->spec, &candidates, &planned->plan, &failure);
    if (chosen >= 0) {
        planned->engine = describe(&candidates.list[chosen], candidates.engines);
        planned->engine.timed = by_time;
        planned->engine.ns = by_time ? ns : 0;
        remember(p, &planned->spec, NULL, &planned->plan, &planned->engine);
    } else {
        tell_none(p, &candidates, candidates.count ? failure.message : candidates.told, planned);
    }
    ff_cudnn_candidates_release(&candidates);
    return FF_OK;
}

static ff_status find(ff_cudnn_planner *p, ff_cudnn_planned *planned, ff_error *error) {
    const ff_library_conv_spec *spec = &planned->spec;
    bool timed = p->timing_left > 0;
    FF_TRY(cached_plan(p, spec, p->driver, NULL, timed, &planned->plan, &planned->engine, error));
    /* A choice made without a card is what a card would choose without timing. */
    if (!planned->plan.plan && !timed && p->device.handle)
        FF_TRY(cached_plan(p, spec, "none", NULL, false, &planned->plan, &planned->engine, error));
    ff_status status =
        ff_cudnn_graph_create(&planned->graph, p->device.handle, spec, &planned->why);
    if (status == FF_FAILED) { /* cuDNN knows no such graph */
        ff_cudnn_plan_destroy(&planned->plan);
        return FF_OK;
    }
    if (status != FF_OK && error) *error = planned->why;
    if (status != FF_OK || planned->plan.plan) return status;
    return choose(p, planned, timed, error);
}

ff_status ff_cudnn_planner_find(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                                const ff_cudnn_planned **out, ff_error *error) {
    ff_cudnn_planned *planned;
    p->asked++;
    for (size_t i = 0; i < p->count; i++)
        if (ff_library_conv_same(&p->list[i]->spec, spec)) {
            *out = p->list[i];
            return FF_OK;
        }
    FF_TRY(ff_reserve(&p->list, &p->capacity, p->count + 1, sizeof *p->list, "plans", error));
    FF_TRY(ff_alloc(&planned, 1, sizeof *planned, "a plan", error));
    planned->spec = *spec;
    ff_status status = find(p, planned, error);
    if (status != FF_OK) {
        planned_destroy(planned);
        return status;
    }
    p->list[p->count++] = planned;
    *out = planned;
    return FF_OK;
}
