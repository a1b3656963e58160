#include "train/commands/dry_run.h"

#include "train/predict/trainer_cost.h"
#include "train/predict/world.h"
#include "train/report/summary.h"

#include <stdio.h>

static ff_status predict_world(ff_world *world, const ff_settings *settings,
                               const ff_trainer *trainer, const ff_planned_device *planned,
                               ff_error *error) {
    const ff_card card = planned ? ff_planned_device_card(planned) : (ff_card){0};
    return ff_world_predict(world, trainer, settings->world, settings->net, planned ? &card : NULL,
                            error);
}

static ff_status print_world(const ff_settings *settings, const ff_trainer *trainer,
                             const ff_planned_device *planned, ff_error *error) {
    ff_world world;
    FF_TRY(predict_world(&world, settings, trainer, planned, error));
    ff_world_print(stdout, &world);
    ff_world_free(&world);
    return FF_OK;
}

/* With --world the memory of one rank was checked, not the memory of the whole batch. */
ff_status ff_dry_run_json(const ff_settings *settings, const ff_trainer *trainer,
                          const ff_planned_device *planned, ff_error *error) {
    ff_world world;
    if (!settings->world) {
        FF_TRY(ff_summary_write_json(stdout, trainer, NULL, error));
        return ff_needs_check(trainer, error);
    }
    FF_TRY(predict_world(&world, settings, trainer, planned, error));
    const ff_status status = ff_summary_write_json(stdout, trainer, &world, error);
    ff_world_free(&world);
    return status;
}

ff_status ff_dry_run_plan(ff_planned_device **planned, const char *device_json,
                          ff_trainer_options *options, ff_error *error) {
    const ff_machine_options machine = {.plan_cache = options->plan_cache,
                                        .tune_seconds = options->tune_seconds,
                                        .no_fold = options->no_fold,
                                        .tuning = options->tuning};
    FF_TRY(ff_planned_device_open(planned, device_json, &machine, error));
    options->planned = ff_planned_device_model(*planned);
    options->planned_kernels = ff_planned_device_kernels(*planned);
    return FF_OK;
}

ff_status ff_dry_run_print(const ff_settings *settings, ff_trainer *trainer,
                           ff_planned_device *planned, const ff_tuning *tuning, ff_error *error) {
    const bool prints = settings->dry_run || !settings->quiet;
    if (prints) ff_summary_print(stdout, trainer);
    if (settings->dry_run) ff_summary_print_layers(stdout, trainer);
    if (planned) {
        const ff_card card = ff_planned_device_card(planned);
        ff_planned_device_print(stdout, planned);
        FF_TRY(ff_trainer_print_costs(stdout, trainer, &card, error));
    }
    if (prints) ff_tuning_print(stdout, tuning);
    if (settings->world) return print_world(settings, trainer, planned, error);
    return settings->dry_run ? ff_needs_check(trainer, error) : FF_OK;
}
