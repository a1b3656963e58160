/* The expected and the measured time of every part of a training step on a GPU, one line of JSON
 * each:
 *   {"op", "layer", "pass", "nodes", "bytes", "flops", "expected_80_us", "expected_65_us",
 *    "measured_us"}
 * and last {"sum": {...}} with the same of the whole step. Expected: by count (train/cost/cost.h),
 * at 80 % and 65 % of the GPU's limits; null where those are not known. Measured: the median over
 * some launches of the recorded step, with an event before each part (train/cost/profile.h); of the
 * sum the median of the step without them, and "measured_parts_us". Random u8 samples of a
 * temporary folder, resident. With --device-json nothing is measured, and no GPU is needed. */
#include "format/cli/options.h"
#include "tests/unit/packed_set.h"
#include "tests/unit/trainer_options.h"
#include "train/machine/planned_device.h"
#include "train/predict/trainer_cost.h"

#include <jansson.h>

typedef struct settings {
    ff_trainer_options trainer;
    const char *device_json;
    int64_t side, classes, launches;
    bool settled;
} settings;

static ff_status parse(int argc, char **argv, settings *out, bool *done, ff_error *error) {
    ff_trainer_options *trainer = &out->trainer;
    const ff_option options[] = {
        {"recipe", 0, FF_OPTION_STRING, "NAME", &trainer->recipe, NULL, 0, 0, "As fftrain's."},
        {"net", 0, FF_OPTION_STRING, "NAME", &trainer->model, NULL, 0, 0,
         "Model; the recipe's, or resnet18."},
        {"batch", 0, FF_OPTION_INTEGER, "N", &trainer->batch, NULL, 1, 1 << 20,
         "Samples a step; the recipe's, or 128."},
        {"side", 0, FF_OPTION_INTEGER, "N", &out->side, NULL, 8, 4096, "Of a sample; 32."},
        {"classes", 0, FF_OPTION_INTEGER, "N", &out->classes, NULL, 1, 65536, "Classes; 10."},
        {"precision", 0, FF_OPTION_STRING, "P", &trainer->precision, NULL, 0, 0, "As fftrain's."},
        {"augment", 0, FF_OPTION_STRING, "LIST", &trainer->augment, NULL, 0, 0, "As fftrain's."},
        {"device", 0, FF_OPTION_STRING, "D", &trainer->device, NULL, 0, 0, "As fftrain's; cuda."},
        {"device-json", 0, FF_OPTION_STRING, "FILE", &out->device_json, NULL, 0, 0,
         "Count for this description of a card; measure nothing."},
        {"plan-cache", 0, FF_OPTION_STRING, "DIR", &trainer->plan_cache, NULL, 0, 0,
         "As fftrain's."},
        {"tune", 0, FF_OPTION_REAL, "SECONDS", &trainer->tune_seconds, NULL, 0, 3600,
         "As fftrain's."},
        {"no-fold", 0, FF_OPTION_FLAG, NULL, &trainer->no_fold, NULL, 0, 0, "As fftrain's."},
        {"settled", 0, FF_OPTION_FLAG, NULL, &out->settled, NULL, 0, 0,
         "A step after the learning rate of some parameters has come to 0."},
        {"launches", 0, FF_OPTION_INTEGER, "N", &out->launches, NULL, 1, 10000, "Of the step; 20."},
        {NULL, 0, FF_OPTION_FLAG, NULL, NULL, NULL, 0, 0, NULL},
    };
    const ff_command command = {"op_times",
                                "op_times [--recipe NAME | --net NAME] [options]",
                                "Expected and measured times of the parts of a training step.",
                                options,
                                NULL,
                                NULL};
    ff_positionals words;
    const ff_status status = ff_options_parse(&command, argc, argv, &words, error);
    *done = words.done;
    ff_positionals_free(&words);
    FF_TRY(status);
    if (trainer->recipe) return FF_OK;
    if (!trainer->model) trainer->model = "resnet18";
    if (trainer->batch < 1) trainer->batch = 128;
    return FF_OK;
}

/* ---- lines ---- */

static json_t *microseconds(bool known, double us) {
    return known ? json_real(us) : json_null();
}

static ff_status print_line(json_t *line, ff_error *error) {
    const int failed = json_dumpf(line, stdout, JSON_REAL_PRECISION(9));
    json_decref(line);
    putchar('\n');
    return failed || fflush(stdout) ? ff_fail_errno(error, "standard output") : FF_OK;
}

static json_t *counted(const ff_cost_piece *cost, double us_80, double us_65, const ff_card *card) {
    const bool known = ff_card_known(card);
    return json_pack("{s:i, s:f, s:f, s:o, s:o}", "nodes", cost->nodes, "bytes", cost->bytes,
                     "flops", cost->matrix_flops + cost->f32_flops, "expected_80_us",
                     microseconds(known, us_80), "expected_65_us", microseconds(known, us_65));
}

static ff_status print_row(const ff_costs *costs, size_t i, const ff_card *card,
                           const ff_profile *profile, ff_error *error) {
    const ff_cost_row *row = &costs->rows[i];
    const ff_cost_piece cost = ff_cost_of_row(costs, row);
    json_t *numbers = counted(&cost, ff_cost_row_us(costs, row, card, 0.8),
                              ff_cost_row_us(costs, row, card, 0.65), card);
    json_t *line = json_pack("{s:s, s:s, s:s}", "op", row->what, "layer", row->layer, "pass",
                             ff_cost_pass_name(row->pass));
    json_object_update(line, numbers);
    json_decref(numbers);
    const bool measured = profile->row_ns;
    json_object_set_new(line, "measured_us",
                        microseconds(measured, measured ? (double)profile->row_ns[i] * 1e-3 : 0));
    return print_line(line, error);
}

static ff_status print_sum(const ff_trainer *trainer, const ff_costs *costs, const ff_card *card,
                           const ff_profile *profile, ff_error *error) {
    const ff_cost_piece cost = ff_cost_of_pass(costs, FF_COST_PASSES);
    json_t *sum = counted(&cost, ff_cost_pass_us(costs, FF_COST_PASSES, card, 0.8),
                          ff_cost_pass_us(costs, FF_COST_PASSES, card, 0.65), card);
    const bool measured = profile->row_ns;
    double parts = 0;
    for (size_t i = 0; measured && i < costs->row_count; i++)
        parts += (double)profile->row_ns[i] * 1e-3;
    json_object_set_new(sum, "measured_us",
                        microseconds(measured, (double)profile->step_ns * 1e-3));
    json_object_set_new(sum, "measured_parts_us", microseconds(measured, parts));
    json_object_set_new(sum, "samples", json_integer(costs->samples));
    json_object_set_new(sum, "device", json_string(trainer->device->name));
    json_object_set_new(sum, "compute", json_string(ff_model_compute_name(trainer->model)));
    return print_line(json_pack("{s:o}", "sum", sum), error);
}

/* ---- the run ---- */

static ff_status measure(ff_trainer *trainer, const settings *given, const ff_card *card,
                         ff_error *error) {
    ff_costs costs;
    ff_profile profile = {0};
    ff_status status = FF_OK;
    ff_plan *plan = trainer->sizes[0].plans[given->settled][0];
    if (!plan) return ff_fail(error, FF_USAGE, "--settled: no learning rate ends before the run");
    FF_TRY(ff_trainer_costs(&costs, trainer, plan, error));
    if (!given->device_json)
        FF_TRY_DONE(
            ff_trainer_profile(&profile, trainer, plan, &costs, (int)given->launches, error));
    for (size_t i = 0; i < costs.row_count; i++)
        FF_TRY_DONE(print_row(&costs, i, card, &profile, error));
    status = print_sum(trainer, &costs, card, &profile, error);
done:
    ff_profile_free(&profile);
    ff_costs_free(&costs);
    return status;
}

static ff_status run(settings *given, ff_error *error) {
    const ff_recipe *named = given->trainer.recipe ? ff_recipe_named(given->trainer.recipe) : NULL;
    const int64_t batch = given->trainer.batch > 0 || !named ? given->trainer.batch : named->batch;
    set_spec set = plain_set((uint64_t)(batch > 0 ? batch : 1));
    ff_trainer *trainer = NULL;
    ff_planned_device *planned = NULL;
    ff_card card;
    ff_status status;
    set.dtype = FF_U8;
    set.layout = FF_HWC;
    set.height = set.width = (uint32_t)given->side;
    set.classes = (uint32_t)given->classes;
    FF_TRY_DONE(set_make(&set, error));
    given->trainer.data = set.folder;
    given->trainer.epochs = 2 * given->launches + 5; /* of one batch each */
    if (given->device_json) {
        const ff_machine_options machine = {.plan_cache = given->trainer.plan_cache};
        FF_TRY_DONE(ff_planned_device_open(&planned, given->device_json, &machine, error));
        given->trainer.planned = ff_planned_device_model(planned);
    }
    FF_TRY_DONE(ff_trainer_create(&trainer, &given->trainer, error));
    card = planned ? ff_planned_device_card(planned) : ff_machine_card(trainer->machine);
    status = measure(trainer, given, &card, error);
done:
    ff_trainer_destroy(&trainer);
    ff_planned_device_close(&planned);
    set_remove(&set);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    settings given = {.trainer = default_options(), .side = 32, .classes = 10, .launches = 20};
    given.trainer.device = "cuda";
    given.trainer.placement = FF_PLACEMENT_RESIDENT; /* not allowed with the CPU */
    given.trainer.warmup_epochs = 0;
    given.trainer.quiet = true;
    bool done = false;
    ff_status status = parse(argc, argv, &given, &done, &error);
    if (status == FF_OK && !done) status = run(&given, &error);
    if (status == FF_OK) return 0;
    fprintf(stderr, "op_times: %s\n", error.message);
    return ff_exit_code(&error);
}
