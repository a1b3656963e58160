#include "train/compute/cuda/planner.h"

#include "format/base/memory.h"
#include "train/compute/cuda/engine_timer.h"

#include <stdlib.h>

static const size_t default_limit = (size_t)1 << 30;

ff_status ff_cudnn_planner_open(ff_cudnn_planner *p, const ff_library_options *options,
                                void *handle, int driver, ff_error *error) {
    ff_status status;
    *p = (ff_cudnn_planner){.options = *options};
    if (!p->options.workspace_limit) p->options.workspace_limit = default_limit;
    if (handle)
        FF_TRY_DONE(ff_cudnn_device_open(&p->device, handle, error));
    else
        FF_TRY_DONE(ff_cudnn_device_describe(&p->device, options->device_json, error));
    FF_TRY_DONE(ff_engine_chooser_open(&p->chooser, &p->options, &p->device, driver, error));
done:
    p->options.cache_folder = p->options.device_json = NULL;
    if (status != FF_OK) ff_cudnn_planner_close(p);
    return status;
}

static void planned_destroy(ff_cudnn_planned *planned) {
    ff_cudnn_plan_destroy(&planned->plan);
    ff_cudnn_graph_destroy(&planned->graph);
    free(planned);
}

void ff_cudnn_planner_close(ff_cudnn_planner *p) {
    ff_engine_chooser_close(&p->chooser);
    for (size_t i = 0; i < p->count; i++) planned_destroy(p->list[i]);
    free(p->list);
    ff_cudnn_device_close(&p->device);
    *p = (ff_cudnn_planner){0};
}

void ff_cudnn_planner_settle(ff_cudnn_planner *p) {
    if (p->chooser.timer) ff_engine_timer_rest(p->chooser.timer);
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
    ff_status status = ff_engine_choose(&p->chooser, planned, error);
    if (status != FF_OK) {
        planned_destroy(planned);
        return status;
    }
    p->list[p->count++] = planned;
    *out = planned;
    if (p->options.progress) p->options.progress(p->options.note_context, p->chooser.tuning);
    return FF_OK;
}
