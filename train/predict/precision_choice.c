#include "train/predict/precision_choice.h"

#include "format/base/memory.h"
#include "train/predict/step_time.h"

#include <stdio.h>
#include <string.h>

/* Noise must not choose the precision that rounds. */
#define CLEARLY 0.95

static const ff_precision candidates[] = {FF_PRECISION_F32, FF_PRECISION_BF16};
enum { CANDIDATES = sizeof candidates / sizeof *candidates, MS_BYTES = 32 };

/* "0.118", "2630" */
static void write_ms(double ns, char text[MS_BYTES]) {
    const double ms = ns * 1e-6;
    snprintf(text, MS_BYTES, ms < 999.5 ? "%.3g" : "%.0f", ms);
}

/* On which kind of device the run is, and this rank's samples of a micro-batch. */
static ff_status look(const ff_trainer_options *options, bool *cpu, int64_t *samples,
                      ff_error *error) {
    ff_trainer_options counting = ff_trainer_options_counting(options);
    ff_trainer *trainer;
    FF_TRY(ff_trainer_create(&trainer, &counting, error));
    *cpu = !trainer->device;
    *samples = trainer->micro;
    ff_trainer_destroy(&trainer);
    return FF_OK;
}

static ff_status measure(const ff_trainer_options *options, int64_t samples, double ns[CANDIDATES],
                         ff_error *error) {
    ff_trainer_options own = *options;
    for (int i = 0; i < CANDIDATES; i++) {
        own.precision = ff_precision_name(candidates[i]);
        FF_TRY(ff_step_time(&own, samples, &ns[i], &samples, error));
    }
    return ff_job_sum(options->job, ns, CANDIDATES, error);
}

ff_status ff_precision_choose(const ff_trainer_options *options, ff_precision *precision,
                              char **text, ff_error *error) {
    const bool named = options->compute && strcmp(options->compute, "auto") != 0;
    const double ranks = options->job ? options->job->size : 1;
    double lacking, ns[CANDIDATES];
    ff_error why;
    bool cpu;
    int64_t samples;
    *text = NULL;
    FF_TRY(look(options, &cpu, &samples, error));
    *precision = cpu ? FF_PRECISION_F32 : FF_PRECISION_F16;
    if (!cpu) return ff_copy_string(text, "as usual on a GPU", error);
    lacking = ff_compute_allows(named ? options->compute : NULL, FF_PRECISION_BF16, &why) != FF_OK;
    FF_TRY(ff_job_sum(options->job, &lacking, 1, error));
    if (lacking > 0)
        return ff_format(text, error, "%s has neither AMX nor avx512_bf16",
                         ranks > 1 ? "a rank's CPU" : "this CPU");
    FF_TRY(measure(options, samples, ns, error));
    if (ns[1] < CLEARLY * ns[0]) *precision = FF_PRECISION_BF16;
    char ms[CANDIDATES][MS_BYTES];
    for (int i = 0; i < CANDIDATES; i++) write_ms(ns[i] / ranks, ms[i]);
    return ff_format(text, error, "a step takes %s ms in f32 and %s ms in bf16", ms[0], ms[1]);
}
