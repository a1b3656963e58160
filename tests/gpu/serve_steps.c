/* fftrain's training steps as a server, for tests/bench/gpu/steps.py: random u8 samples are packed
 * into a temporary folder and trained on with crop=4,flip,cutout=8; a step = augmentation + forward
 * + backward + update. Once it is warm it prints a line of JSON with "ready"; then for each line
 * "N" of its input it makes N steps and prints {"ms": ...}, from an idle device to an idle device;
 * for each line "check N" it makes N steps and prints {"losses": [of each step], "weights":
 * checksum of all parameters and statistics}. An empty line or the end of input ends it. */
#include "format/base/memory.h"
#include "format/base/thread.h"
#include "format/cli/options.h"
#include "format/disk/checksum.h"
#include "tests/unit/packed_set.h"
#include "tests/unit/trainer_options.h"
#include "train/compute/compute.h"

/* The most steps of a server: learning rates are a table. */
enum { STEPS_MOST = 1 << 20 };

typedef struct settings {
    ff_trainer_options trainer;
    const char *placement;
    int64_t side, classes, samples, warm_up;
} settings;

static ff_status parse(int argc, char **argv, settings *out, bool *done, ff_error *error) {
    ff_trainer_options *trainer = &out->trainer;
    const ff_option options[] = {
        {"recipe", 0, FF_OPTION_STRING, "NAME", &trainer->recipe, NULL, 0, 0,
         "In place of --net: as fftrain's, except for whitening."},
        {"net", 0, FF_OPTION_STRING, "NAME", &trainer->model, NULL, 0, 0, "Model; resnet18."},
        {"batch", 0, FF_OPTION_INTEGER, "N", &trainer->batch, NULL, 1, 1 << 20, "Samples a step."},
        {"side", 0, FF_OPTION_INTEGER, "N", &out->side, NULL, 8, 4096, "Of a sample; 32."},
        {"classes", 0, FF_OPTION_INTEGER, "N", &out->classes, NULL, 1, 65536, "Classes; 10."},
        {"samples", 0, FF_OPTION_INTEGER, "N", &out->samples, NULL, 1, 1 << 24, "In all; 8192."},
        {"precision", 0, FF_OPTION_STRING, "P", &trainer->precision, NULL, 0, 0, "As fftrain's."},
        {"device", 0, FF_OPTION_STRING, "D", &trainer->device, NULL, 0, 0, "As fftrain's."},
        {"placement", 0, FF_OPTION_STRING, "P", &out->placement, NULL, 0, 0, "As fftrain's."},
        {"no-graph", 0, FF_OPTION_FLAG, NULL, &trainer->no_graph, NULL, 0, 0, "As fftrain's."},
        {"deterministic", 0, FF_OPTION_FLAG, NULL, &trainer->deterministic, NULL, 0, 0,
         "As fftrain's."},
        {"threads", 0, FF_OPTION_INTEGER, "N", &trainer->threads, NULL, 0, 4096, "As fftrain's."},
        {"warm-up", 0, FF_OPTION_INTEGER, "N", &out->warm_up, NULL, 0, 65536, "Steps; 30."},
        {NULL, 0, FF_OPTION_FLAG, NULL, NULL, NULL, 0, 0, NULL},
    };
    const ff_command command = {"serve_steps",
                                "serve_steps --net NAME --batch N [options]",
                                "Makes training steps on request, to be timed.",
                                options,
                                NULL,
                                NULL};
    ff_positionals words;
    const ff_status status = ff_options_parse(&command, argc, argv, &words, error);
    *done = words.done;
    ff_positionals_free(&words);
    FF_TRY(status);
    if (!ff_placement_parse(out->placement, &trainer->placement))
        return ff_fail(error, FF_USAGE, "no placement '%s'", out->placement);
    return FF_OK;
}

/* Takes the outcomes that have arrived, or if `wait` all of them; losses are appended. */
static ff_status take_outcomes(ff_trainer *trainer, bool wait, double *losses, int64_t *told,
                               ff_error *error) {
    uint32_t found = 1;
    while (found) {
        const ff_outcome *outcomes;
        FF_TRY(ff_step_outcomes(trainer->step, wait, &outcomes, &found, error));
        for (uint32_t k = 0; losses && k < found; k++)
            losses[(*told)++] = outcomes[k].loss_sum / (double)outcomes[k].count;
    }
    return FF_OK;
}

/* losses: [count], or NULL. */
static ff_status take_steps(ff_trainer *trainer, int64_t count, double *losses, ff_error *error) {
    int64_t told = 0;
    for (int64_t i = 0; i < count; i++) {
        ff_feed_batch next;
        FF_TRY(ff_feed_next(trainer->train_feed, &next, error));
        next.batch.weights = NULL;
        FF_TRY(ff_step_run(trainer->step, trainer->train_plan, &next.batch, error));
        FF_TRY(ff_feed_done(trainer->train_feed, error));
        FF_TRY(take_outcomes(trainer, false, losses, &told, error));
    }
    if (losses) FF_TRY(take_outcomes(trainer, true, losses, &told, error));
    return ff_compute_wait(ff_model_compute(trainer->model), error);
}

/* Of the bits of everything the model holds, in torch's order. */
static ff_status checksum_model(ff_model *model, uint64_t *sum, ff_error *error) {
    *sum = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *parameter = ff_model_parameter(model, i);
        const size_t bytes = parameter->count * ff_dtype_bytes(parameter->dtype);
        void *values;
        FF_TRY(ff_alloc(&values, bytes, 1, "a parameter", error));
        ff_model_get(model, i, FF_PART_VALUE, values);
        *sum = *sum * UINT64_C(0x9e3779b97f4a7c15) + ff_checksum(values, bytes);
        free(values);
    }
    return ff_model_check(model, error);
}

static ff_status check_steps(ff_trainer *trainer, int64_t count, ff_error *error) {
    double *losses;
    uint64_t sum = 0;
    FF_TRY(ff_alloc(&losses, (size_t)count, sizeof *losses, "losses", error));
    ff_status status = take_outcomes(trainer, true, NULL, NULL, error); /* of the steps before */
    if (status == FF_OK) status = take_steps(trainer, count, losses, error);
    if (status == FF_OK) status = checksum_model(trainer->model, &sum, error);
    if (status == FF_OK) {
        printf("{\"losses\": [");
        for (int64_t i = 0; i < count; i++) printf("%s%.17g", i ? ", " : "", losses[i]);
        printf("], \"weights\": \"%016llx\"}\n", (unsigned long long)sum);
    }
    free(losses);
    return status;
}

static ff_status serve(ff_trainer *trainer, const settings *given, ff_error *error) {
    static const char check[] = "check ";
    char line[64];
    FF_TRY(take_steps(trainer, given->warm_up, NULL, error));
    printf("{\"ready\": \"ffpack %s\", \"samples\": %lld}\n", ff_version,
           (long long)given->samples);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        const bool checks = strncmp(line, check, strlen(check)) == 0;
        int64_t count = atoll(checks ? line + strlen(check) : line);
        if (count < 1 || count > STEPS_MOST) break;
        uint64_t began = ff_now_ns();
        if (checks) {
            FF_TRY(check_steps(trainer, count, error));
        } else {
            FF_TRY(take_steps(trainer, count, NULL, error));
            printf("{\"ms\": %.6f}\n", (double)(ff_now_ns() - began) * 1e-6);
        }
        fflush(stdout);
    }
    return FF_OK;
}

static ff_status run(settings *given, ff_error *error) {
    set_spec set = plain_set((uint64_t)given->samples);
    ff_trainer *trainer = NULL;
    ff_status status;
    set.dtype = FF_U8;
    set.layout = FF_HWC;
    set.height = set.width = (uint32_t)given->side;
    set.classes = (uint32_t)given->classes;
    if (!given->trainer.recipe) { /* else its own */
        if (!given->trainer.model) given->trainer.model = "resnet18";
        given->trainer.augment = "crop=4,flip,cutout=8";
        given->trainer.hyper.learning_rate = 1e-3;
        given->trainer.warmup_epochs = 0;
    }
    FF_TRY_DONE(set_make(&set, error));
    given->trainer.data = set.folder;
    given->trainer.epochs = STEPS_MOST / (given->samples / given->trainer.batch + 1);
    FF_TRY_DONE(ff_trainer_create(&trainer, &given->trainer, error));
    status = serve(trainer, given, error);
done:
    ff_trainer_destroy(&trainer);
    set_remove(&set);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    settings given = {.trainer = default_options(),
                      .placement = "resident",
                      .side = 32,
                      .classes = 10,
                      .samples = 8192,
                      .warm_up = 30};
    given.trainer.batch = 128;
    given.trainer.device = "cuda";
    given.trainer.quiet = true;
    bool done = false;
    ff_status status = parse(argc, argv, &given, &done, &error);
    if (status == FF_OK && !done) status = run(&given, &error);
    if (status == FF_OK) return 0;
    fprintf(stderr, "serve_steps: %s\n", error.message);
    return ff_exit_code(&error);
}
