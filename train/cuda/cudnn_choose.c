#include "train/cuda/cudnn_choose.h"

#include "format/base/memory.h"
#include "train/cuda/cudnn/run.h"
#include "train/cuda/cudnn_cache.h"
#include "train/cuda/engine_timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 4 }; /* measurements of an engine worth it */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ff_library_engine ff_cudnn_engine_of(const ff_cudnn_candidate *candidate, int found) {
    ff_library_engine engine = {
        .found = found,
        .tensor_cores = candidate->tensor_cores,
        .runtime_compiled = candidate->runtime_compiled,
        .deterministic = candidate->deterministic,
    };
    snprintf(engine.name, sizeof engine.name, "%s", candidate->name);
    return engine;
}

/* Engines are offered that then do not support a shape: that is no news. What could not be loaded
 * or compiled is. */
static bool is_news(const ff_error *failure) {
    const char *text = failure->message;
    return !strstr(text, "CUDNN_STATUS_NOT_SUPPORTED") || strstr(text, "PREREQUISITE_MISSING") ||
           strstr(text, "SUBLIBRARY") || strstr(text, "INCOMPATIBLE");
}

/* The first is told with its reason, the others are counted. */
static void keep_failure(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                         const ff_cudnn_candidate *candidate, const ff_error *failure) {
    char text[FF_LIBRARY_CONV_TEXT];
    if (!is_news(failure)) return;
    p->tuning->failed++;
    if (p->told_failed) return;
    p->told_failed = true;
    ff_library_conv_text(spec, text);
    ff_cudnn_planner_note(p, "%s: cuDNN's engine %s cannot be made ready: %s", text,
                          candidate->name, failure->message);
}

/* The plan of a candidate; what is compiled at run time is kept for the next time. */
static ff_status candidate_plan(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                                const ff_cudnn_candidate *candidate, ff_cudnn_plan *plan,
                                ff_error *error) {
    const bool compiled = candidate->runtime_compiled;
    ff_library_tuning *tuning = p->tuning;
    ff_error failure = {0};
    if (compiled) {
        FF_TRY(ff_cudnn_cache_get(p, spec, p->driver, candidate->name, false, plan, NULL, error));
        tuning->reused += plan->plan != NULL;
        if (plan->plan) return FF_OK;
        if (p->options.progress) p->options.progress(p->options.note_context, tuning);
    }
    const double began = now();
    const ff_status status = ff_cudnn_plan_create(plan, &p->device, candidate, &failure);
    if (compiled) tuning->compile_seconds += now() - began;
    if (status != FF_OK) {
        keep_failure(p, spec, candidate, &failure);
        if (error) *error = failure;
        return status;
    }
    if (compiled) {
        const ff_library_engine engine = ff_cudnn_engine_of(candidate, 1);
        tuning->compiled++;
        ff_cudnn_cache_put(p, spec, candidate->name, plan, &engine);
    }
    return FF_OK;
}

/* ---- by order ---- */

int ff_cudnn_choose_by_order(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                             const ff_cudnn_candidates *candidates, bool compiles,
                             ff_cudnn_plan *plan, ff_error *error) {
    const bool sorts = ff_precision_dtype(spec->precision) != FF_F32;
    int chosen = -1;
    bool fits = false;
    *plan = (ff_cudnn_plan){0};
    for (int turn = 0; turn <= (sorts ? 1 : 0); turn++)
        for (int i = 0; i < candidates->count && !fits; i++) {
            ff_cudnn_plan one;
            if (sorts && candidates->list[i].tensor_cores != (turn == 0)) continue;
            if (!compiles && candidates->list[i].runtime_compiled) continue;
            if (candidate_plan(p, spec, &candidates->list[i], &one, error) != FF_OK) continue;
            fits = one.workspace_bytes <= p->options.workspace_limit;
            if (!fits && chosen >= 0 && one.workspace_bytes >= plan->workspace_bytes) {
                ff_cudnn_plan_destroy(&one);
                continue;
            }
            ff_cudnn_plan_destroy(plan);
            *plan = one;
            chosen = i;
        }
    return chosen;
}

/* ---- by time ---- */

/* What ff_choose asks. */
typedef struct timing {
    ff_cudnn_planner *planner;
    const ff_cudnn_planned *planned;  /* its spec and graph */
    const ff_cudnn_candidate **order; /* as ff_choose counts them */
    ff_cudnn_plan *plans;             /* of those that were made ready */
    int prepared;                     /* the candidate at hand; -1 = none */
    double compiled_late;             /* seconds, of what the cache had and could not be loaded */
    ff_cudnn_run run;
} timing;

static ff_status timed_run(void *context, void *stream, const ff_library_conv_arguments *arguments,
                           void *workspace, ff_error *error) {
    timing *t = context;
    return ff_cudnn_run_enqueue(&t->run, t->planner->device.handle, &t->planned->graph,
                                &t->plans[t->prepared], stream, arguments, workspace, error);
}

static bool make_ready(void *context, int candidate) {
    timing *t = context;
    return t->plans[candidate].plan ||
           candidate_plan(t->planner, &t->planned->spec, t->order[candidate], &t->plans[candidate],
                          NULL) == FF_OK;
}

static double time_candidate(void *context, int candidate) {
    timing *t = context;
    ff_cudnn_planner *p = t->planner;
    double seconds = -1;
    if (t->prepared != candidate) {
        ff_engine_timer_forget(p->timer);
        t->prepared = candidate;
        const double compiled = p->tuning->compile_seconds;
        const bool ready = make_ready(t, candidate);
        t->compiled_late += p->tuning->compile_seconds - compiled;
        if (!ready) return -1;
        const size_t workspace = t->plans[candidate].workspace_bytes;
        if (workspace > p->options.workspace_limit ||
            ff_engine_timer_prepare(p->timer, timed_run, t, workspace, NULL) != FF_OK)
            return -1;
        p->tuning->timed++;
    }
    return ff_engine_timer_measure(p->timer, &seconds, NULL) == FF_OK ? seconds : -1;
}

/* A clock that stands while something is compiled that was not to be. */
static double timing_now(void *context) {
    return now() - ((const timing *)context)->compiled_late;
}

static ff_status take_timer(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                            ff_error *error) {
    if (!p->timer) FF_TRY(ff_engine_timer_create(&p->timer, p->options.device, error));
    return ff_engine_timer_take(p->timer, spec, error);
}

ff_status ff_cudnn_choose_by_time(ff_cudnn_planner *p, ff_cudnn_planned *planned,
                                  const ff_cudnn_candidates *candidates, int *chosen, uint64_t *ns,
                                  ff_error *error) {
    timing t = {.planner = p, .planned = planned, .prepared = -1};
    int64_t *engines = NULL;
    bool *uncompiled = NULL;
    const double began = now(), compiled = p->tuning->compile_seconds;
    const uint64_t most = (uint64_t)candidates->count;
    ff_status status;
    *chosen = -1;
    FF_TRY_DONE(ff_alloc(&engines, most, sizeof *engines, "engines", error));
    FF_TRY_DONE(ff_alloc(&uncompiled, most, sizeof *uncompiled, "engines", error));
    FF_TRY_DONE(ff_alloc(&t.order, most, sizeof *t.order, "engines", error));
    FF_TRY_DONE(ff_alloc(&t.plans, most, sizeof *t.plans, "engines", error));
    /* Those that must be compiled first, which takes seconds, come last. */
    int count = 0;
    for (int last = 0; last <= 1; last++)
        for (int i = 0; i < candidates->count; i++) {
            const ff_cudnn_candidate *candidate = &candidates->list[i];
            const bool waits = candidate->runtime_compiled &&
                               !ff_cudnn_cache_has(p, &planned->spec, candidate->name);
            if (waits != last) continue;
            t.order[count] = candidate;
            uncompiled[count] = waits;
            engines[count++] = candidate->engine;
        }
    FF_TRY_DONE(take_timer(p, &planned->spec, error));
    const ff_choice choice = {
        .count = count,
        .engines = engines,
        .repeats = REPEATS,
        .budget_seconds = ff_choice_share(&p->budget, p->budget.timing),
        .uncompiled = uncompiled,
        .compile_seconds = ff_choice_share(&p->budget, p->budget.compiling),
        .context = &t,
        .now = timing_now,
        .compile = make_ready,
        .run = time_candidate,
    };
    int best;
    double seconds;
    FF_TRY_DONE(ff_choose(&choice, &best, &seconds, error));
    if (best < 0) goto done;
    planned->plan = t.plans[best];
    t.plans[best] = (ff_cudnn_plan){0};
    *chosen = (int)(t.order[best] - candidates->list);
    *ns = (uint64_t)(seconds * 1e9) + 1;
done:
    if (p->timer) ff_engine_timer_forget(p->timer);
    ff_cudnn_run_release(&t.run);
    for (uint64_t i = 0; t.plans && i < most; i++) ff_cudnn_plan_destroy(&t.plans[i]);
    free(t.plans);
    free(t.order);
    free(uncompiled);
    free(engines);
    const double compiling = p->tuning->compile_seconds - compiled;
    const double took = now() - began - compiling;
    p->budget.compiling -= compiling;
    p->budget.timing -= took;
    p->tuning->timing_seconds += took;
    return status;
}

/* ---- ahead ---- */

void ff_cudnn_compile_ahead(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                            const ff_cudnn_candidates *candidates) {
    for (int i = 0; i < candidates->count; i++) {
        const ff_cudnn_candidate *candidate = &candidates->list[i];
        bool first = candidate->runtime_compiled;
        for (int k = 0; k < i && first; k++)
            first = candidates->list[k].engine != candidate->engine;
        if (!first || ff_cudnn_cache_has(p, spec, candidate->name)) continue;
        ff_cudnn_plan plan;
        if (candidate_plan(p, spec, candidate, &plan, NULL) == FF_OK) ff_cudnn_plan_destroy(&plan);
    }
}
