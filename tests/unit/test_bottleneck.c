/* The sentence that reports why a run is as fast as it is: for each cause, what it advises to
 * change. */
#include "tests/unit/format_set.h"
#include "tests/unit/trainer_options.h"

#include "format/base/thread.h"
#include "train/report/bottleneck.h"

#include <stdlib.h>

static ff_trainer *trainer_of(const char *folder, bool compressed, const char *augment) {
    set_spec spec = plain_set(60);
    spec.zstd = compressed;
    static ff_trainer_options options; /* which the trainer keeps */
    options = default_options();
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
 * `storage` of theirs, for processors during `queued`; the sentence has `wanted`. */
static void says_of(ff_trainer *trainer, double wait, double storage, double queued,
                    const char *wanted) {
    const ff_run_result result = {
        .totals = {.train_ns = 1000000, .wait_ns = (uint64_t)(wait * 1e6), .samples = 1000},
        .storage_share = storage,
        .queued_share = queued};
    char text[512];
    ff_bottleneck_text(trainer, &result, text, sizeof text);
    if (!strstr(text, wanted)) fail_msg("not '%s': %s", wanted, text);
}

static void says(ff_trainer *trainer, double wait, double storage, const char *wanted) {
    says_of(trainer, wait, storage, 0, wanted);
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
    says_of(trainer, 0.5, 0.3, 0.6, "60 % of their time waiting for a processor: end other work");
    says_of(trainer, 0.5, 0.6, 0.3, "60 % of their time waiting for the storage");
    says_of(trainer, 0.05, 0.3, 0.6, "Bottleneck: compute; only 5.0 %");
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

static void warns(ff_trainer *trainer, double steps, const char *wanted) {
    char text[512] = "";
    const bool found = ff_promise_warns(&trainer->promise, steps, text, sizeof text);
    if (found != (wanted != NULL) || (wanted && !strstr(text, wanted)))
        fail_msg("not '%s': %s", wanted ? wanted : "", text);
}

static void recommends(ff_trainer *trainer, const char *wanted) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    ff_promise_print(file, &trainer->promise);
    fclose(file);
    if (!strstr(text, wanted)) fail_msg("not '%s': %s", wanted, text);
    free(text);
}

/* What was measured before the run is what is said of the disk, and advised. */
static void a_promise_is_kept(void **state) {
    (void)state;
    char *folder = new_folder();
    ff_trainer *trainer = trainer_of(folder, false, "flip");
    ff_promise *promise = &trainer->promise;
    const double slow[] = {10, 100, 0, 100};
    warns(trainer, 1e9, NULL);
    *promise = (ff_promise){.order = FF_ORDER_RANDOM, .samples = 360000};
    promise->rate[FF_ORDER_RANDOM] = (ff_disk_rate){.samples = 10, .read = 1.5};
    promise->rate[FF_ORDER_BLOCK] = (ff_disk_rate){.samples = 50, .read = 1};
    says(trainer, 0.5, 0.9, "the storage, which had 1000000 samples/s of 10 expected: use --order");
    says(trainer, 0.5, 0.9, "use --order block, with 5.0 times the samples/s, or keep the data");
    rates_say(trainer, slow, 50, "use --order block, with 5.0 times the samples/s");
    recommends(trainer,
               "disk           order random: 10.0 samples/s, 1.50 bytes read for each used, "
               "an epoch in 10 hours\n               order block: 50.0 ");
    recommends(trainer, "recommended: --order block, with 5.0 times the samples/s\n");
    warns(trainer, 12, NULL);
    warns(trainer, 12.6,
          "the steps will spend 21 % of their time waiting for data: the disk reads "
          "10.0 samples/s, and the steps could use 12.6 samples/s; an epoch takes "
          "10 hours; use --order block, with 5.0");
    promise->rate[FF_ORDER_BLOCK].samples = 11;
    says(trainer, 0.5, 0.9, "expected: keep the data in memory or on a faster disk.");
    recommends(trainer, "recommended: --order random, as it is\n");
    promise->order = FF_ORDER_BLOCK;
    recommends(trainer, "recommended: --order random, with 0.91 times the samples/s, and better");
    promise->rate[FF_ORDER_BLOCK].samples = 50;
    recommends(trainer, "recommended: --order block, as it is\n");
    rates_say(trainer, slow, 50, "as much; keep the data in memory or on a faster disk.");
    promise->order = FF_ORDER_RANDOM;
    promise->rate[FF_ORDER_RANDOM].once = true;
    says(trainer, 0.5, 0.9, "expected: keep the data on a faster disk.");
    warns(trainer, 20, "50 % of the first epoch waiting for data");
    recommends(trainer, "10.0 samples/s in the first epoch, in 10 hours; memory keeps the set\n");
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
        cmocka_unit_test(a_promise_is_kept),
        cmocka_unit_test(nothing_is_shortened_that_is_not_there),
        cmocka_unit_test(compressed_sets_say_so),
    };
    return cmocka_run_group_tests_name("bottleneck", tests, NULL, NULL);
}
