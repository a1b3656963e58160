#include "train/compute/cuda/engine_choice.h"

#include "format/base/memory.h"
#include "format/base/thread.h"
#include "train/compute/cuda/cudnn/run.h"
#include "train/compute/cuda/engine_timer.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 4 }; /* further measurements of a fast engine */

ff_status ff_engine_chooser_open(ff_engine_chooser *c, const ff_library_options *options,
                                 const ff_cudnn_device *device, int driver, ff_error *error) {
    const bool card = device->handle, times = card && !options->deterministic;
    *c = (ff_engine_chooser){
        .options = options,
        .device = device,
        .tuning = options->tuning ? options->tuning : &c->own,
        .cache = {.options = options, .device = device, .driver = "none"},
        .budget = {.timing = times ? options->timing_seconds : 0,
                   .compiling = times ? options->compile_seconds : 0,
                   .expected = options->expected_convs},
        .ahead = options->compile_ahead && !card && options->cache_folder,
    };
    if (card)
        snprintf(c->cache.driver, sizeof c->cache.driver, "%d", driver);
    else if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
        /* cuDNN opens the driver by the same name, and also leaves it open. */
        snprintf(c->no_driver, sizeof c->no_driver, "%s", dlerror());
    return options->cache_folder ? ff_copy_string(&c->cache.folder, options->cache_folder, error)
                                 : FF_OK;
}

void ff_engine_chooser_close(ff_engine_chooser *c) {
    ff_engine_timer_destroy(&c->timer);
    free(c->cache.folder);
    *c = (ff_engine_chooser){0};
}

/* ---- preparing candidates ---- */

static double now(void) {
    return 1e-9 * (double)ff_now_ns();
}

static ff_library_engine engine_of(const ff_cudnn_candidate *candidate, int found) {
    ff_library_engine engine = {
        .found = found,
        .tensor_cores = candidate->tensor_cores,
        .runtime_compiled = candidate->runtime_compiled,
        .deterministic = candidate->deterministic,
    };
    snprintf(engine.name, sizeof engine.name, "%s", candidate->name);
    return engine;
}

/* cuDNN offers engines that then do not support a shape: such failures are ignored. Failures to
 * load or to compile are reported. */
static bool is_news(const ff_error *failure) {
    const char *text = failure->message;
    return !strstr(text, "CUDNN_STATUS_NOT_SUPPORTED") || strstr(text, "PREREQUISITE_MISSING") ||
           strstr(text, "SUBLIBRARY") || strstr(text, "INCOMPATIBLE");
}

/* The first failure is reported with its reason, the others are counted. */
static void keep_failure(ff_engine_chooser *c, const ff_library_conv_spec *spec,
                         const ff_cudnn_candidate *candidate, const ff_error *failure) {
    char text[FF_LIBRARY_CONV_TEXT];
    if (!is_news(failure)) return;
    c->tuning->failed++;
    if (c->told_failed) return;
    c->told_failed = true;
    ff_library_conv_text(spec, text);
    ff_library_note(c->options, "%s: cuDNN's engine %s cannot be built: %s", text, candidate->name,
                    failure->message);
}

/* The plan of a candidate. A plan compiled at run time is cached. */
static ff_status make_ready(ff_engine_chooser *c, const ff_library_conv_spec *spec,
                            const ff_cudnn_candidate *candidate, ff_cudnn_plan *plan,
                            ff_error *error) {
    const bool compiled = candidate->runtime_compiled;
    ff_library_tuning *tuning = c->tuning;
    ff_error failure = {0};
    if (compiled) {
        FF_TRY(ff_engine_cache_get(&c->cache, spec, candidate->name, false, plan, NULL, error));
        tuning->reused += plan->plan != NULL;
        if (plan->plan) return FF_OK;
        if (c->options->progress) c->options->progress(c->options->note_context, tuning);
    }
    const double began = now();
    const ff_status status = ff_cudnn_plan_create(plan, c->device, candidate, &failure);
    if (compiled) tuning->compile_seconds += now() - began;
    if (status != FF_OK) {
        keep_failure(c, spec, candidate, &failure);
        if (error) *error = failure;
        return status;
    }
    if (compiled) {
        const ff_library_engine engine = engine_of(candidate, 1);
        tuning->compiled++;
        ff_engine_cache_put(&c->cache, spec, candidate->name, plan, &engine);
    }
    return FF_OK;
}

/* ---- by order ---- */

/* The first candidate within the workspace limit that can be built, else the one with the smallest
 * workspace. Candidates are in the heuristics' order, except that with 16 bits those on tensor
 * cores come first, because nothing was timed. `compiles`: also candidates that must be compiled
 * first. -1 if none can be built; error then has the reason of the last one. */
static int by_order(ff_engine_chooser *c, const ff_library_conv_spec *spec,
                    const ff_cudnn_candidates *candidates, bool compiles, ff_cudnn_plan *plan,
                    ff_error *error) {
    const bool sorts = ff_precision_dtype(spec->precision) != FF_F32;
    int chosen = -1;
    bool fits = false;
    *plan = (ff_cudnn_plan){0};
    for (int turn = 0; turn <= (sorts ? 1 : 0); turn++)
        for (int i = 0; i < candidates->count && !fits; i++) {
            ff_cudnn_plan one;
            if (sorts && candidates->list[i].tensor_cores != (turn == 0)) continue;
            if (!compiles && candidates->list[i].runtime_compiled) continue;
            if (make_ready(c, spec, &candidates->list[i], &one, error) != FF_OK) continue;
            fits = one.workspace_bytes <= c->options->workspace_limit;
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

/* The context of ff_choose's callbacks. */
typedef struct timing {
    ff_engine_chooser *chooser;
    const ff_cudnn_planned *planned;  /* its spec and graph */
    const ff_cudnn_candidate **order; /* in the order of ff_choose */
    ff_cudnn_plan *plans;             /* of the candidates that were built */
    int prepared;                     /* the current candidate; -1 = no candidate */
    double compiled_late; /* seconds, for engines in the cache that could not be loaded */
    ff_error lost;        /* the failure after which nothing runs */
    ff_cudnn_run run;
} timing;

static ff_status timed_run(void *context, void *stream, const ff_library_conv_arguments *arguments,
                           void *workspace, ff_error *error) {
    timing *t = context;
    return ff_cudnn_run_enqueue(&t->run, t->chooser->device->handle, &t->planned->graph,
                                &t->plans[t->prepared], stream, arguments, workspace, error);
}

static bool timed_ready(void *context, int candidate) {
    timing *t = context;
    return t->plans[candidate].plan ||
           make_ready(t->chooser, &t->planned->spec, t->order[candidate], &t->plans[candidate],
                      NULL) == FF_OK;
}

static double failed(timing *t, const ff_error *why) {
    if (!ff_engine_timer_lost(t->chooser->timer)) return -1;
    t->lost = *why;
    return NAN;
}

static double time_candidate(void *context, int candidate) {
    timing *t = context;
    ff_engine_chooser *c = t->chooser;
    ff_error why = {0};
    double seconds;
    if (t->prepared != candidate) {
        ff_engine_timer_forget(c->timer);
        t->prepared = candidate;
        const double compiled = c->tuning->compile_seconds;
        const bool ready = timed_ready(t, candidate);
        t->compiled_late += c->tuning->compile_seconds - compiled;
        if (!ready) return -1;
        const size_t workspace = t->plans[candidate].workspace_bytes;
        if (workspace > c->options->workspace_limit) return -1;
        if (ff_engine_timer_prepare(c->timer, timed_run, t, workspace, &why) != FF_OK)
            return failed(t, &why);
        c->tuning->timed++;
    }
    return ff_engine_timer_measure(c->timer, &seconds, &why) == FF_OK ? seconds : failed(t, &why);
}

/* A clock that stops during unexpected compiling. */
static double timing_now(void *context) {
    return now() - ((const timing *)context)->compiled_late;
}

static ff_status take_timer(ff_engine_chooser *c, const ff_library_conv_spec *spec,
                            ff_error *error) {
    if (!c->timer) FF_TRY(ff_engine_timer_create(&c->timer, c->options->device, error));
    return ff_engine_timer_take(c->timer, spec, error);
}

/* Times the candidates within the convolution's share of the budget, and subtracts the time used.
 * *chosen = -1 if none could be timed; else planned->plan is the plan of the chosen one, *ns its
 * time. */
static ff_status by_time(ff_engine_chooser *c, ff_cudnn_planned *planned,
                         const ff_cudnn_candidates *candidates, int *chosen, uint64_t *ns,
                         ff_error *error) {
    timing t = {.chooser = c, .planned = planned, .prepared = -1};
    int64_t *engines = NULL;
    bool *uncompiled = NULL;
    const double began = now(), compiled = c->tuning->compile_seconds;
    const uint64_t most = (uint64_t)candidates->count;
    ff_status status;
    *chosen = -1;
    FF_TRY_DONE(ff_alloc(&engines, most, sizeof *engines, "engines", error));
    FF_TRY_DONE(ff_alloc(&uncompiled, most, sizeof *uncompiled, "engines", error));
    FF_TRY_DONE(ff_alloc(&t.order, most, sizeof *t.order, "engines", error));
    FF_TRY_DONE(ff_alloc(&t.plans, most, sizeof *t.plans, "engines", error));
    /* Candidates that must be compiled first, which takes seconds, come last. */
    int count = 0;
    for (int last = 0; last <= 1; last++)
        for (int i = 0; i < candidates->count; i++) {
            const ff_cudnn_candidate *candidate = &candidates->list[i];
            const bool waits = candidate->runtime_compiled &&
                               !ff_engine_cache_has(&c->cache, &planned->spec, candidate->name);
            if (waits != last) continue;
            t.order[count] = candidate;
            uncompiled[count] = waits;
            engines[count++] = candidate->engine;
        }
    FF_TRY_DONE(take_timer(c, &planned->spec, error));
    const ff_choice choice = {
        .count = count,
        .engines = engines,
        .repeats = REPEATS,
        .budget_seconds = ff_choice_share(&c->budget, c->budget.timing),
        .uncompiled = uncompiled,
        .compile_seconds = ff_choice_share(&c->budget, c->budget.compiling),
        .context = &t,
        .now = timing_now,
        .compile = timed_ready,
        .run = time_candidate,
    };
    int best;
    double seconds;
    FF_TRY_DONE(ff_choose(&choice, &best, &seconds, error));
    if (t.lost.status != FF_OK)
        FF_TRY_DONE(ff_fail(error, FF_FAILED, "the GPU is unusable after cuDNN's engine %s: %s",
                            t.order[t.prepared]->name, t.lost.message));
    if (best < 0) goto done;
    planned->plan = t.plans[best];
    t.plans[best] = (ff_cudnn_plan){0};
    *chosen = (int)(t.order[best] - candidates->list);
    *ns = (uint64_t)(seconds * 1e9) + 1;
done:
    if (c->timer) ff_engine_timer_forget(c->timer);
    ff_cudnn_run_release(&t.run);
    for (uint64_t i = 0; t.plans && i < most; i++) ff_cudnn_plan_destroy(&t.plans[i]);
    free(t.plans);
    free(t.order);
    free(uncompiled);
    free(engines);
    const double compiling = c->tuning->compile_seconds - compiled;
    const double took = now() - began - compiling;
    c->budget.compiling -= compiling;
    c->budget.timing -= took;
    c->tuning->timing_seconds += took;
    return status;
}

/* ---- the choice ---- */

/* Without a driver cuDNN does not offer engines that are compiled at run time. */
static void tell_no_driver(ff_engine_chooser *c) {
    if (!c->no_driver[0] || c->told_no_driver) return;
    c->told_no_driver = true;
    ff_library_note(c->options,
                    "without a driver (%s) cuDNN offers no engines compiled at run time: fused "
                    "ones that a GPU has may be missing",
                    c->no_driver);
}

/* Sets the reason why there is no engine. */
static void tell_none(ff_engine_chooser *c, const ff_cudnn_candidates *candidates, const char *last,
                      ff_cudnn_planned *planned) {
    char text[FF_LIBRARY_CONV_TEXT];
    const ff_cudnn_device *d = c->device;
    ff_library_conv_text(&planned->spec, text);
    if (planned->spec.precision == FF_PRECISION_BF16 && d->major < 8) {
        (void)ff_fail(&planned->why, FF_FAILED,
                      "%s: %s has compute capability %d.%d, and bf16 needs 8.0: use f16 or f32",
                      text, d->name, d->major, d->minor);
    } else if (!candidates->count && candidates->dropped) {
        (void)ff_fail(&planned->why, FF_FAILED,
                      "%s: cuDNN has no engine for %s but %d that round more, or vary more, than "
                      "was asked for",
                      text, d->name, candidates->dropped);
    } else {
        (void)ff_fail(&planned->why, FF_FAILED, "%s: cuDNN has no engine for %s%s%s", text, d->name,
                      last[0] ? ": " : "", last);
        if (!last[0]) tell_no_driver(c);
    }
}

/* FF_FAILED: the GPU is unusable. Without an engine planned->why has the reason. */
static ff_status choose_among(ff_engine_chooser *c, ff_cudnn_planned *planned,
                              const ff_cudnn_candidates *candidates, bool timed, ff_error *error) {
    const ff_library_conv_spec *spec = &planned->spec;
    const bool compiles = !c->options->compile_nothing;
    ff_error failure = {0};
    uint64_t ns = 0;
    int chosen = -1;
    if (timed && candidates->count &&
        by_time(c, planned, candidates, &chosen, &ns, &failure) != FF_OK) {
        if (c->timer && ff_engine_timer_lost(c->timer))
            return ff_fail(error, FF_FAILED, "%s", failure.message);
        ff_library_note(c->options, "engines are not timed: %s", failure.message);
    }
    const bool by_clock = chosen >= 0;
    failure.message[0] = '\0';
    if (!by_clock) chosen = by_order(c, spec, candidates, compiles, &planned->plan, &failure);
    if (chosen < 0 && !compiles && !ff_library_conv_fused(spec))
        chosen = by_order(c, spec, candidates, true, &planned->plan, &failure);
    if (chosen < 0) {
        tell_none(c, candidates, candidates->count ? failure.message : candidates->told, planned);
        return FF_OK;
    }
    planned->engine = engine_of(&candidates->list[chosen], candidates->engines);
    planned->engine.timed = by_clock;
    planned->engine.ns = by_clock ? ns : 0;
    ff_engine_cache_put(&c->cache, spec, NULL, &planned->plan, &planned->engine);
    return FF_OK;
}

/* Compiles into the cache folder the first configuration of every engine that must be compiled,
 * unless it is there: timing tries these first. */
static void compile_ahead(ff_engine_chooser *c, const ff_library_conv_spec *spec,
                          const ff_cudnn_candidates *candidates) {
    for (int i = 0; i < candidates->count; i++) {
        const ff_cudnn_candidate *candidate = &candidates->list[i];
        bool first = candidate->runtime_compiled;
        for (int k = 0; k < i && first; k++)
            first = candidates->list[k].engine != candidate->engine;
        if (!first || ff_engine_cache_has(&c->cache, spec, candidate->name)) continue;
        ff_cudnn_plan plan;
        if (make_ready(c, spec, candidate, &plan, NULL) == FF_OK) ff_cudnn_plan_destroy(&plan);
    }
}

ff_status ff_engine_choose(ff_engine_chooser *c, ff_cudnn_planned *planned, ff_error *error) {
    const ff_library_conv_spec *spec = &planned->spec;
    const bool timed = c->budget.timing > 0;
    ff_cudnn_plan *plan = &planned->plan;
    c->budget.asked++;
    c->tuning->convolutions++;
    FF_TRY(ff_engine_cache_get(&c->cache, spec, NULL, timed, plan, &planned->engine, error));
    c->tuning->cached += plan->plan != NULL;
    ff_status status =
        ff_cudnn_graph_create(&planned->graph, c->device->handle, spec, &planned->why);
    if (status == FF_FAILED) { /* cuDNN does not support the graph */
        ff_cudnn_plan_destroy(plan);
        return FF_OK;
    }
    if (status != FF_OK && error) *error = planned->why;
    if (status != FF_OK || (plan->plan && !c->ahead)) return status;
    ff_cudnn_candidates candidates;
    FF_TRY(ff_cudnn_candidates_find(&candidates, c->device, &planned->graph, spec->precision,
                                    c->options->deterministic, error));
    if (!plan->plan) status = choose_among(c, planned, &candidates, timed, error);
    if (c->ahead && status == FF_OK) {
        tell_no_driver(c);
        compile_ahead(c, spec, &candidates);
    }
    ff_cudnn_candidates_release(&candidates);
    return status;
}
