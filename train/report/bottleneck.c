#include "train/report/bottleneck.h"

#include "format/base/thread.h"
#include "format/cli/say.h"

#include <string.h>

/* Below this share of waiting, a faster loader would not make a run noticeably faster. */
#define WORTH_CHANGING 0.1
/* If workers wait for the storage, or for processors, for at least this share of their time, that
 * is the bottleneck. */
#define MOSTLY 0.5

static void workers_text(const ff_trainer *trainer, const char *otherwise, char *text,
                         size_t size) {
    int cpus = ff_cpu_count(), workers = trainer->workers;
    if (workers < cpus)
        snprintf(text, size, "raise --workers (it was %d, of %d CPUs)", workers, cpus);
    else
        snprintf(text, size, "%s", otherwise);
}

static const char *less_work(const ff_trainer *trainer) {
    char text[FF_AUGMENT_TEXT_BYTES];
    ff_augment_text(&trainer->augment, text);
    return strcmp(text, "none") != 0 ? "use a shorter --augment or smaller samples"
                                     : "use smaller samples";
}

static bool compressed(const ff_trainer *trainer) {
    return ff_dataset_metadata(trainer->splits.train)->compression != FF_COMPRESSION_NONE;
}

static void unpacked_text(const ff_trainer *trainer, char *text, size_t size) {
    char workers[96];
    workers_text(trainer, "", workers, sizeof workers);
    snprintf(text, size, "pack without --compress%s%s", *workers ? ", or " : "", workers);
}

/* Advice from the measurement before the run or, if the set has left memory since then, from the
 * order. */
static ff_promise_advice advise(const ff_trainer *trainer) {
    const ff_promise unknown = {.order = trainer->order};
    const bool evicted = ff_feed_describe(trainer->train_feed).loader.read_again > 0;
    return ff_promise_advise(evicted ? &unknown : &trainer->promise);
}

/* Compares the expected rate with the run's, unless later epochs read the set from memory. */
static void storage_text(const ff_trainer *trainer, const ff_run_result *result, char *text,
                         size_t size) {
    const ff_disk_rate *promised = ff_promise_own(&trainer->promise);
    char rate[128] = "";
    if (promised->samples > 0 && !(promised->once && result->last.epoch > 1))
        snprintf(rate, sizeof rate, ", which had %s of %.0f expected",
                 ff_say_rate((double)result->totals.samples * 1e9 / (double)result->totals.train_ns,
                             "samples")
                     .text,
                 promised->samples);
    snprintf(text, size, "the workers spent %.0f %% of their time waiting for the storage%s: %s",
             100 * result->storage_share, rate, advise(trainer).text);
}

static void data_text(const ff_trainer *trainer, const ff_run_result *result, double wait,
                      char *text, size_t size) {
    char advice[512];
    if (result->storage_share >= MOSTLY)
        storage_text(trainer, result, advice, sizeof advice);
    else if (result->queued_share >= MOSTLY)
        snprintf(advice, sizeof advice,
                 "the workers spent %.0f %% of their time waiting for a processor: end other work "
                 "on this machine, or give the run processors of its own",
                 100 * result->queued_share);
    else if (trainer->verify == FF_VERIFY_ALWAYS)
        snprintf(advice, sizeof advice, "use --verify-data first, which checks each sample once");
    else if (compressed(trainer))
        unpacked_text(trainer, advice, sizeof advice);
    else
        workers_text(trainer, less_work(trainer), advice, sizeof advice);
    snprintf(text, size,
             "Bottleneck: data; %.1f %% of the training time was spent waiting for it; "
             "%s.",
             100 * wait, advice);
}

static void compute_text(const ff_trainer *trainer, char *text, size_t size) {
    int cpus = ff_cpu_count(), threads = ff_model_threads(trainer->model);
    if (threads < cpus)
        snprintf(text, size, "raise --threads (it was %d, of %d CPUs)", threads, cpus);
    else
        snprintf(text, size,
                 "all %d CPUs were used, so only a smaller model, smaller images (--crop) or a "
                 "faster machine would help",
                 cpus);
}

void ff_bottleneck_text(const ff_trainer *trainer, const ff_run_result *result, char *text,
                        size_t size) {
    double wait = result->totals.train_ns
                      ? (double)result->totals.wait_ns / (double)result->totals.train_ns
                      : 0;
    if (wait >= WORTH_CHANGING) {
        data_text(trainer, result, wait, text, size);
        return;
    }
    double rate = result->totals.train_ns
                      ? (double)result->totals.samples * 1e9 / (double)result->totals.train_ns
                      : 0;
    char feed[96] = "", advice[160];
    if (result->loader_rate > rate && rate > 0)
        snprintf(feed, sizeof feed, " (the loader could feed %.1f times as many samples)",
                 result->loader_rate / rate);
    compute_text(trainer, advice, sizeof advice);
    snprintf(text, size,
             "Bottleneck: compute; only %.1f %% of the training time was spent waiting "
             "for data%s; %s.",
             100 * wait, feed, advice);
}

static void stage_text(const ff_trainer *trainer, const ff_rates *rates, int stage, char *text,
                       size_t size) {
    switch (stage) {
    case FF_STAGE_STORAGE:
        snprintf(text, size, "%s", ff_promise_advise(&trainer->promise).text);
        if (compressed(trainer)) unpacked_text(trainer, text, size);
        return;
    case FF_STAGE_COPY:
        snprintf(text, size, "pack as u8 or f16, or keep the set on the device");
        return;
    case FF_STAGE_GATHER: workers_text(trainer, "use smaller samples", text, size); return;
    case FF_STAGE_AUGMENT:
        if (rates->host_augments)
            workers_text(trainer, less_work(trainer), text, size);
        else
            snprintf(text, size, "%s", less_work(trainer));
        return;
    default: compute_text(trainer, text, size);
    }
}

void ff_bottleneck_of_rates(const ff_trainer *trainer, const ff_rates *rates, double compute_rate,
                            char *text, size_t size) {
    int slowest = FF_STAGE_COUNT;
    double least = compute_rate, next = 0;
    for (int stage = 0; stage < FF_STAGE_COUNT; stage++)
        if (rates->rate[stage] > 0 && rates->rate[stage] < least)
            least = rates->rate[stage], slowest = stage;
    for (int stage = 0; stage <= FF_STAGE_COUNT; stage++) {
        double rate = stage < FF_STAGE_COUNT ? rates->rate[stage] : compute_rate;
        if (stage != slowest && rate > 0 && (next == 0 || rate < next)) next = rate;
    }
    char advice[256];
    stage_text(trainer, rates, slowest, advice, sizeof advice);
    snprintf(text, size, "Bottleneck: %s; the next slowest stage could do %.1f times as much; %s.",
             slowest < FF_STAGE_COUNT ? ff_stage_name((ff_stage)slowest) : "compute",
             least > 0 ? next / least : 0, advice);
}
