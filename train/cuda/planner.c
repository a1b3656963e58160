#include "train/cuda/planner.h"

#include "format/base/memory.h"
#include "train/cuda/engine_cache.h"
#include "train/cuda/engine_choice.h"
#include "train/cuda/engine_timer.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const size_t default_limit = (size_t)1 << 30;

void ff_cudnn_planner_note(const ff_cudnn_planner *p, const char *format, ...) {
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
    p->tuning = options->tuning ? options->tuning : &p->own;
    p->options.cache_folder = p->options.device_json = NULL;
    p->options.compile_ahead = options->compile_ahead && !handle && options->cache_folder;
    if (!p->options.workspace_limit) p->options.workspace_limit = default_limit;
    const bool times = handle && !options->deterministic;
    p->budget = (ff_choice_budget){.timing = times ? options->timing_seconds : 0,
                                   .compiling = times ? options->compile_seconds : 0,
                                   .expected = options->expected_convs};
    ff_status status;
    if (options->cache_folder)
        FF_TRY_DONE(
            ff_copy_string((char **)&p->options.cache_folder, options->cache_folder, error));
    if (handle) {
        snprintf(p->driver, sizeof p->driver, "%d", driver);
        FF_TRY_DONE(ff_cudnn_device_open(&p->device, handle, error));
    } else {
        snprintf(p->driver, sizeof p->driver, "none");
        /* cuDNN opens it by this name, and leaves it open as this does. */
        if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
            snprintf(p->no_driver, sizeof p->no_driver, "%s", dlerror());
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
    ff_engine_timer_destroy(&p->timer);
    for (size_t i = 0; i < p->count; i++) planned_destroy(p->list[i]);
    free(p->list);
    ff_cudnn_device_close(&p->device);
    free((char *)p->options.cache_folder);
    *p = (ff_cudnn_planner){0};
}

void ff_cudnn_planner_settle(ff_cudnn_planner *p) {
    if (p->timer) ff_engine_timer_rest(p->timer);
}

/* ---- finding ---- */

/* Without a driver cuDNN does not offer the engines that it would compile. */
static void tell_no_driver(ff_cudnn_planner *p) {
    if (!p->no_driver[0] || p->told_no_driver) return;
    p->told_no_driver = true;
    ff_cudnn_planner_note(p,
                          "without a driver here (%s) cuDNN offers no engines that are compiled at "
                          "run time: fused ones may be missing that a card has",
                          p->no_driver);
}

/* Why there is no engine. */
static void tell_none(ff_cudnn_planner *p, const ff_cudnn_candidates *candidates, const char *last,
                      ff_cudnn_planned *planned) {
    char text[FF_LIBRARY_CONV_TEXT];
    const ff_cudnn_device *d = &p->device;
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
        if (!last[0]) tell_no_driver(p);
    }
}

static void choose_among(ff_cudnn_planner *p, ff_cudnn_planned *planned,
                         const ff_cudnn_candidates *candidates, bool timed) {
    ff_error failure = {0};
    uint64_t ns = 0;
    int chosen = -1;
    if (timed && candidates->count &&
        ff_cudnn_choose_by_time(p, planned, candidates, &chosen, &ns, &failure) != FF_OK)
        ff_cudnn_planner_note(p, "engines are not timed: %s", failure.message);
    const bool by_time = chosen >= 0;
    failure.message[0] = '\0';
    if (!by_time)
        chosen = ff_cudnn_choose_by_order(p, &planned->spec, candidates,
                                          !p->options.compile_nothing, &planned->plan, &failure);
    if (chosen < 0 && p->options.compile_nothing && !ff_library_conv_fused(&planned->spec))
        chosen =
            ff_cudnn_choose_by_order(p, &planned->spec, candidates, true, &planned->plan, &failure);
    if (chosen < 0) {
        tell_none(p, candidates, candidates->count ? failure.message : candidates->told, planned);
        return;
    }
    planned->engine = ff_cudnn_engine_of(&candidates->list[chosen], candidates->engines);
    planned->engine.timed = by_time;
    planned->engine.ns = by_time ? ns : 0;
    ff_cudnn_cache_put(p, &planned->spec, NULL, &planned->plan, &planned->engine);
}

static ff_status find(ff_cudnn_planner *p, ff_cudnn_planned *planned, ff_error *error) {
    const ff_library_conv_spec *spec = &planned->spec;
    const bool timed = p->budget.timing > 0;
    ff_cudnn_plan *plan = &planned->plan;
    FF_TRY(ff_cudnn_cache_get(p, spec, p->driver, NULL, timed, plan, &planned->engine, error));
    /* A choice made without a card is what a card would choose without timing. */
    if (!plan->plan && !timed && p->device.handle)
        FF_TRY(ff_cudnn_cache_get(p, spec, "none", NULL, false, plan, &planned->engine, error));
    p->tuning->cached += plan->plan != NULL;
    ff_status status =
        ff_cudnn_graph_create(&planned->graph, p->device.handle, spec, &planned->why);
    if (status == FF_FAILED) { /* cuDNN knows no such graph */
        ff_cudnn_plan_destroy(plan);
        return FF_OK;
    }
    if (status != FF_OK && error) *error = planned->why;
    if (status != FF_OK || (plan->plan && !p->options.compile_ahead)) return status;
    ff_cudnn_candidates candidates;
    FF_TRY(ff_cudnn_candidates_find(&candidates, &p->device, &planned->graph, spec->precision,
                                    p->options.deterministic, error));
    if (!plan->plan) choose_among(p, planned, &candidates, timed);
    if (p->options.compile_ahead) {
        tell_no_driver(p);
        ff_cudnn_compile_ahead(p, spec, &candidates);
    }
    ff_cudnn_candidates_release(&candidates);
    return FF_OK;
}

ff_status ff_cudnn_planner_find(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                                const ff_cudnn_planned **out, ff_error *error) {
    ff_cudnn_planned *planned;
    for (size_t i = 0; i < p->count; i++)
        if (ff_library_conv_same(&p->list[i]->spec, spec)) {
            *out = p->list[i];
            return FF_OK;
        }
    FF_TRY(ff_reserve(&p->list, &p->capacity, p->count + 1, sizeof *p->list, "plans", error));
    FF_TRY(ff_alloc(&planned, 1, sizeof *planned, "a plan", error));
    planned->spec = *spec;
    p->budget.asked++;
    p->tuning->convolutions++;
    ff_status status = find(p, planned, error);
    if (status != FF_OK) {
        planned_destroy(planned);
        return status;
    }
    p->list[p->count++] = planned;
    *out = planned;
    if (p->options.progress) p->options.progress(p->options.note_context, p->tuning);
    return FF_OK;
}
