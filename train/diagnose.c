#include "train/diagnose.h"

#include "format/base/say.h"
#include "train/bottleneck.h"
#include "train/run.h"
#include "train/trainer_cost.h"

#include <inttypes.h>

#define STAGE_NS   300000000u
#define COMPUTE_NS 1000000000u
enum { FURTHEST = 10 }; /* operations to print */

static void print_stage(FILE *out, const char *name, double rate, double bytes, const char *note) {
    fprintf(out, "%-14s %22s", name, ff_say_rate(rate, "samples").text);
    if (bytes > 0) fprintf(out, ", %s", ff_say_byte_rate(rate * bytes).text);
    fprintf(out, "%s\n", note);
}

ff_status ff_diagnose(ff_trainer *trainer, FILE *out, ff_error *error) {
    ff_dataset *dataset = trainer->splits.train;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_rates rates;
    double compute;
    char text[512], note[64];
    FF_TRY(ff_feed_rates(trainer->train_feed, dataset, STAGE_NS, &rates, error));
    FF_TRY(ff_run_compute_rate(trainer, COMPUTE_NS, &compute, error));
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
