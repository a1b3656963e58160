/* The sentence that says why a run is as fast as it is: for each cause, what it tells to change. */
#include "tests/unit/format_set.h"

#include "format/base/thread.h"
#include "train/bottleneck.h"

static ff_trainer *trainer_of(const char *folder, bool compressed, const char *augment) {
    set_spec spec = plain_set(60);
    spec.zstd = compressed;
    static ff_trainer_options options; /* which the trainer keeps */
    options = ff_trainer_default_options();
    ff_trainer *trainer;
    assert_ok(set_write(&spec, folder, NULL, error));
    options.data = options.val = folder;
    options.model = "smallnet";
    options.batch = 20;
    options.threads = 1;
    options.counts = true;
    options.augment = augment;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    return trainer;
}

/* A run's steps waited for data during `wait` of their time, and its workers for the storage during
 * `storage` of theirs; the sentence has `wanted`. */
static void says(ff_trainer *trainer, double wait, double storage, const char *wanted) {
    const ff_run_result result = {
        .totals = {.train_ns = 1000000, .wait_ns = (uint64_t)(wait * 1e6), .samples = 1000},
        .storage_share = storage};
    char text[512];
    ff_bottleneck_text(trainer, &result, text, sizeof text);
    if (!strstr(text, wanted)) fail_msg("not '%s': %s", wanted, text);
}

static void rates_say(ff_trainer *trainer, const double *rates, double compute,
                      const char *wanted) {
    ff_rates all = {.host_augments = true, .threads = 1};
    char text[512];
    memcpy(all.rate, rates, sizeof all.rate);
    ff_bottleneck_of_rates(trainer, &all, compute, text, sizeof text);
    if (!strstr(text, wanted)) fail_msg("not '%s': %s", wanted, text);
}

static void each_cause_has_its_advice(void **state) {
    (void)state;
    char *folder = new_folder();
    ff_trainer *trainer = trainer_of(folder, false, "flip");
    const int cpus = ff_cpu_count();
    says(trainer, 0.05, 0, "Bottleneck: compute; only 5.0 %");
    for (trainer->workers = 1; trainer->workers <= cpus; trainer->workers += cpus) {
        says(trainer, 0.5, 0.9,
             "90 % of their time waiting for the storage: keep the data in memory");
        rates_say(trainer, (double[]){10, 100, 0, 100}, 50, "Bottleneck: storage; ");
        rates_say(trainer, (double[]){10, 100, 0, 100}, 50, "5.0 times as much; keep the data");
    }
    trainer->workers = cpus;
    says(trainer, 0.5, 0.4, "use a shorter --augment or smaller samples.");
    rates_say(trainer, (double[]){100, 100, 0, 10}, 50,
              "augment; the next slowest stage could do 5.0");
    trainer->workers = cpus - 1;
    if (trainer->workers) says(trainer, 0.5, 0.4, "raise --workers");
    trainer->verify = FF_VERIFY_ALWAYS;
    says(trainer, 0.5, 0, "use --verify-data first");
    ff_trainer_destroy(&trainer);
    remove_folder(folder);
}

/* Without augmentation the samples themselves are what can change. */
static void samples_have_advice(bool compressed, double storage, const char *wanted) {
    char *folder = new_folder();
    ff_trainer *trainer = trainer_of(folder, compressed, "none");
    trainer->workers = ff_cpu_count();
    says(trainer, 0.5, storage, wanted);
    if (compressed) rates_say(trainer, (double[]){10, 100, 0, 100}, 50, "pack without --compress.");
    ff_trainer_destroy(&trainer);
    remove_folder(folder);
}

static void nothing_is_shortened_that_is_not_there(void **state) {
    (void)state;
    samples_have_advice(false, 0, "for it; use smaller samples.");
}

static void compressed_sets_say_so(void **state) {
    (void)state;
    samples_have_advice(true, 0.1, "for it; pack without --compress.");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_has_its_advice),
        cmocka_unit_test(nothing_is_shortened_that_is_not_there),
        cmocka_unit_test(compressed_sets_say_so),
    };
    return cmocka_run_group_tests_name("bottleneck", tests, NULL, NULL);
}
