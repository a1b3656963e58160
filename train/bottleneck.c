#include "train/bottleneck.h"

#include "format/base/thread.h"

/* Below this share of waiting a faster loader could not make a run noticeably faster. */
#define WORTH_CHANGING 0.1

static void data_text(const ff_recipe *recipe, double wait, char *text, size_t size) {
    int cpus = ff_cpu_count(), workers = recipe->workers;
    char advice[256];
    if (recipe->verify == FF_VERIFY_ALWAYS)
        snprintf(advice, sizeof advice, "use --verify-data first, which checks each sample once");
    else if (ff_dataset_metadata(recipe->splits.train)->compression != FF_COMPRESSION_NONE)
        snprintf(advice, sizeof advice,
                 "pack without --compress, or raise --workers (it was %d, of %d CPUs)", workers,
                 cpus);
    else if (workers < cpus)
        snprintf(advice, sizeof advice, "raise --workers (it was %d, of %d CPUs)", workers, cpus);
    else
        snprintf(advice, sizeof advice,
                 "keep the data in memory or on a faster disk, or use --order block");
    snprintf(text, size,
             "Bottleneck: data; %.1f %% of the training time was spent waiting for it; "
             "%s.",
             100 * wait, advice);
}

void ff_bottleneck_text(const ff_recipe *recipe, const ff_run_result *result, char *text,
                        size_t size) {
    double wait = result->train_ns ? (double)result->wait_ns / (double)result->train_ns : 0;
    if (wait >= WORTH_CHANGING) {
        data_text(recipe, wait, text, size);
        return;
    }
    double rate = result->train_ns ? (double)result->samples * 1e9 / (double)result->train_ns : 0;
    char feed[96] = "", advice[160];
    if (result->loader_rate > rate && rate > 0)
        snprintf(feed, sizeof feed, " (the loader could feed %.1f times as many samples)",
                 result->loader_rate / rate);
    int cpus = ff_cpu_count(), threads = ff_model_threads(recipe->model);
    if (threads < cpus)
        snprintf(advice, sizeof advice, "raise --threads (it was %d, of %d CPUs)", threads, cpus);
    else
        snprintf(advice, sizeof advice,
                 "all %d CPUs were used, so only a smaller model, smaller images (--crop) or a "
                 "faster machine would help",
                 cpus);
    snprintf(text, size,
             "Bottleneck: compute; only %.1f %% of the training time was spent waiting "
             "for data%s; %s.",
             100 * wait, feed, advice);
}
