#include "train/run/diagnose.h"

#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "train/compute/compute.h"
#include "train/predict/trainer_cost.h"
#include "train/report/bottleneck.h"
#include "train/run/run.h"

#include <inttypes.h>

#define STAGE_NS   300000000u
#define COMPUTE_NS 1000000000u
enum { FURTHEST = 10 }; /* operations to print */

static void print_stage(FILE *out, const char *name, double rate, double bytes, const char *note) {
    fprintf(out, "%-14s %22s", name, ff_say_rate(rate, "samples").text);
    if (bytes > 0) fprintf(out, ", %s", ff_say_byte_rate(rate * bytes).text);
    fprintf(out, "%s\n", note);
}

/* Measures samples per second of steps alone, all on one batch, for about budget_ns, after one
 * uncounted step. The learning rate is 0, so values do not change. Consumes a batch. */
static ff_status compute_rate(ff_trainer *trainer, uint64_t budget_ns, double *rate,
                              ff_error *error) {
    ff_step *step;
    ff_feed_batch next = {0};
    FF_TRY(ff_trainer_make_step(trainer, trainer->options, false, &step, error));
    ff_compute *compute = ff_model_compute(trainer->model);
    uint64_t began = 0, took = 0, samples = 0;
    ff_status status;
    FF_TRY_DONE(ff_feed_next(trainer->train_feed, &next, error));
    FF_TRY_DONE(ff_feed_make(trainer->train_feed, compute->stream, error));
    ff_plan *plan = ff_trainer_plan(trainer, trainer->options->first_step, next.count);
    next.batch.weights = NULL;
    /* The first steps are not counted: graphs are captured in the second. */
    for (int i = 0; i < 4 || took < budget_ns; i++) {
        const ff_outcome *outcomes;
        uint32_t count = 1;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_step_run(step, plan, &next.batch, error));
        while (count) FF_TRY_DONE(ff_step_outcomes(step, i == 3, &outcomes, &count, error));
        if (i == 3) began = ff_now_ns();
        if (i < 4) continue;
        samples += next.count;
        took = ff_now_ns() - began;
    }
    FF_TRY_DONE(ff_compute_wait(compute, error));
    *rate = samples ? (double)samples * 1e9 / (double)(ff_now_ns() - began) : 0;
done:;
    ff_status given_back = ff_feed_done(trainer->train_feed, NULL);
    ff_step_destroy(&step);
    return status == FF_OK ? given_back : status;
}

ff_status ff_diagnose(ff_trainer *trainer, FILE *out, ff_error *error) {
    ff_dataset *dataset = trainer->splits.train;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_rates rates;
    double compute;
    char text[512], note[64];
    FF_TRY(ff_feed_rates(trainer->train_feed, dataset, STAGE_NS, &rates, error));
    /* The same measurement as in the run's promise, so that all reports agree. */
    if (rates.rate[FF_STAGE_STORAGE] > 0 && ff_promise_own(&trainer->promise)->samples > 0)
        rates.rate[FF_STAGE_STORAGE] = ff_promise_own(&trainer->promise)->samples;
    FF_TRY(compute_rate(trainer, COMPUTE_NS, &compute, error));
    double bytes = (double)ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    snprintf(note, sizeof note, ", %d thread%s", rates.threads, rates.threads == 1 ? "" : "s");
    for (int stage = 0; stage < FF_STAGE_COUNT; stage++) {
        bool device = stage == FF_STAGE_COPY || (stage == FF_STAGE_AUGMENT && !rates.host_augments);
        if (rates.rate[stage] > 0)
            print_stage(out, ff_stage_name((ff_stage)stage), rates.rate[stage],
                        metadata->variable_size ? 0 : bytes, device ? ", the device" : note);
    }
    snprintf(note, sizeof note, ", %d thread%s, batches of %" PRIu64,
             ff_model_threads(trainer->model), ff_model_threads(trainer->model) == 1 ? "" : "s",
             (uint64_t)trainer->micro);
    print_stage(out, "compute", compute, 0, note);
    if (ff_machine_device(trainer->machine))
        FF_TRY(ff_trainer_print_furthest(out, trainer, FURTHEST, error));
    ff_bottleneck_of_rates(trainer, &rates, compute, text, sizeof text);
    fprintf(out, "%s\n", text);
    return FF_OK;
}
