/* fftrain's training steps as a server, for tests/bench/gpu/steps.py: random u8 samples are packed
 * into a temporary folder and trained on with crop=4,flip,cutout=8; a step = augmentation + forward
 * + backward + update. Once it is warm it prints a line of JSON with "ready"; then for each line
 * "N" of its input it makes N steps and prints {"ms": ...}, from an idle device to an idle device.
 * An empty line or the end of input ends it. */
#include "format/base/options.h"
#include "format/base/thread.h"
#include "tests/unit/make_dataset.h"
#include "train/compute.h"
#include "train/recipe.h"

typedef struct settings {
    ff_recipe_options recipe;
    const char *placement;
    int64_t side, classes, samples, warm_up;
} settings;

static ff_status parse(int argc, char **argv, settings *out, bool *done, ff_error *error) {
    ff_recipe_options *recipe = &out->recipe;
    const ff_option options[] = {
        {"net", 0, FF_OPTION_STRING, "NAME", &recipe->model, NULL, 0, 0, "Model; resnet18."},
        {"batch", 0, FF_OPTION_INTEGER, "N", &recipe->batch, NULL, 1, 1 << 20, "Samples a step."},
        {"side", 0, FF_OPTION_INTEGER, "N", &out->side, NULL, 8, 4096, "Of a sample; 32."},
        {"classes", 0, FF_OPTION_INTEGER, "N", &out->classes, NULL, 1, 65536, "Classes; 10."},
        {"samples", 0, FF_OPTION_INTEGER, "N", &out->samples, NULL, 1, 1 << 24, "In all; 8192."},
        {"precision", 0, FF_OPTION_STRING, "P", &recipe->precision, NULL, 0, 0, "As fftrain's."},
        {"device", 0, FF_OPTION_STRING, "D", &recipe->device, NULL, 0, 0, "As fftrain's."},
        {"placement", 0, FF_OPTION_STRING, "P", &out->placement, NULL, 0, 0, "As fftrain's."},
        {"no-graph", 0, FF_OPTION_FLAG, NULL, &recipe->no_graph, NULL, 0, 0, "As fftrain's."},
        {"warm-up", 0, FF_OPTION_INTEGER, "N", &out->warm_up, NULL, 0, 65536, "Steps; 30."},
        {NULL, 0, FF_OPTION_FLAG, NULL, NULL, NULL, 0, 0, NULL},
    };
    const ff_command command = {"serve_steps", "serve_steps --net NAME --batch N [options]",
                                "Makes training steps on request, to be timed.", options, NULL};
    const char *positional[8];
    int count;
    ff_options_result result;
    if (argc > 64) return ff_fail(error, FF_USAGE, "too many arguments");
    FF_TRY(ff_options_parse(&command, argc, argv, positional, &count, &result, error));
    *done = result == FF_OPTIONS_DONE;
    if (!ff_placement_parse(out->placement, &recipe->placement))
        return ff_fail(error, FF_USAGE, "no placement '%s'", out->placement);
    return FF_OK;
}

static ff_status take_steps(ff_recipe *recipe, int64_t count, ff_error *error) {
    for (int64_t i = 0; i < count; i++) {
        const ff_outcome *outcomes;
        ff_feed_batch next;
        uint32_t found = 1;
        FF_TRY(ff_feed_next(recipe->train_feed, &next, error));
        next.batch.weights = NULL;
        FF_TRY(ff_step_run(recipe->step, recipe->train_plan, &next.batch, error));
        FF_TRY(ff_feed_done(recipe->train_feed, error));
        while (found) FF_TRY(ff_step_outcomes(recipe->step, false, &outcomes, &found, error));
    }
    return ff_compute_wait(ff_model_compute(recipe->model), error);
}

static ff_status serve(ff_recipe *recipe, const settings *given, ff_error *error) {
    char line[64];
    FF_TRY(take_steps(recipe, given->warm_up, error));
    printf("{\"ready\": \"ffpack %s\", \"samples\": %lld}\n", ff_version,
           (long long)given->samples);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int64_t count = atoll(line);
        if (count < 1) break;
        uint64_t began = ff_now_ns();
        FF_TRY(take_steps(recipe, count, error));
        printf("{\"ms\": %.6f}\n", (double)(ff_now_ns() - began) * 1e-6);
        fflush(stdout);
    }
    return FF_OK;
}

static ff_status run(settings *given, ff_error *error) {
    made_dataset made = made_defaults((uint64_t)given->samples);
    ff_recipe *recipe = NULL;
    ff_status status;
    made.dtype = FF_U8;
    made.layout = FF_HWC;
    made.height = made.width = (uint32_t)given->side;
    made.classes = (uint32_t)given->classes;
    FF_TRY_DONE(made_write(&made, error));
    given->recipe.data = made.folder;
    given->recipe.epochs = FF_RECIPE_STEPS / (given->samples / given->recipe.batch + 1);
    FF_TRY_DONE(ff_recipe_create(&recipe, &given->recipe, error));
    status = serve(recipe, given, error);
done:
    ff_recipe_destroy(&recipe);
    made_remove(&made);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    settings given = {.recipe = ff_recipe_default_options(),
                      .placement = "resident",
                      .side = 32,
                      .classes = 10,
                      .samples = 8192,
                      .warm_up = 30};
    given.recipe.model = "resnet18";
    given.recipe.batch = 128;
    given.recipe.device = "cuda";
    given.recipe.augment = "crop=4,flip,cutout=8";
    given.recipe.learning_rate = 1e-3;
    given.recipe.warmup_epochs = 0;
    given.recipe.quiet = true;
    bool done = false;
    ff_status status = parse(argc, argv, &given, &done, &error);
    if (status == FF_OK && !done) status = run(&given, &error);
    if (status == FF_OK) return 0;
    fprintf(stderr, "serve_steps: %s\n", error.message);
    return ff_exit_code(&error);
}
