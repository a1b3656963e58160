#include "train/report/events/closing.h"

#include "format/cli/say.h"
#include "train/report/bottleneck.h"

#include <inttypes.h>

/* Skipped updates are reported if they exceed this share of a run's updates. */
#define WORTH_TELLING 0.05
/* From FF_TRAINER_LOSS_SCALE down to 1. */
enum { HALVINGS = 16 };

double ff_closing_timed_seconds(const ff_run_result *result) {
    return (double)(result->whiten_ns + result->totals.train_ns + result->totals.last_val_ns) *
           1e-9;
}

/* Prints the result, in one line. */
static void print_reached(FILE *out, const ff_trainer *trainer, const ff_run_result *result) {
    const ff_epoch *last = &result->last;
    if (!last->epoch) return;
    if (result->totals.val.epoch)
        fprintf(out, "Accuracy on %s: %.2f %% after epoch %" PRIu32,
                ff_dataset_path(trainer->splits.val), 100 * result->totals.val.accuracy,
                result->totals.val.epoch);
    else
        fprintf(out, "Accuracy while training on %s: %.2f %% in epoch %" PRIu32,
                ff_dataset_path(trainer->splits.train), 100 * last->train_accuracy, last->epoch);
    if (result->totals.best.epoch && result->totals.best.epoch != result->totals.val.epoch)
        fprintf(out, " (best: %.2f %% after epoch %" PRIu32 ")", 100 * result->totals.best.accuracy,
                result->totals.best.epoch);
    if (*result->early) fprintf(out, ", stopped early of %" PRIu32 " epochs", trainer->epochs);
    if (last->averaged) fprintf(out, "; of the average %.2f %%", 100 * last->ema_accuracy);
    fprintf(out, "; %.1f s of training", (double)result->totals.train_ns * 1e-9);
    if (result->totals.val.epoch)
        fprintf(out, " and %.1f s of evaluation", (double)result->totals.val_ns * 1e-9);
    double rate = result->totals.train_ns
                      ? (double)result->totals.samples * 1e9 / (double)result->totals.train_ns
                      : 0;
    fprintf(out, ", %s.\n", ff_say_rate(rate, "samples").text);
}

static void print_warm_up(FILE *out, const ff_run_result *result) {
    if (result->last.epoch && result->warm_up_ns)
        fprintf(out, "Training and its last evaluation took %.3f s after a warm-up of %.3f s.\n",
                ff_closing_timed_seconds(result), (double)result->warm_up_ns * 1e-9);
}

/* Skipped updates are normal at first: a dynamic loss scale starts high and is halved until the
 * gradients fit. */
static void print_skipped(FILE *out, const ff_trainer *trainer, const ff_run_result *result) {
    const double share =
        result->totals.steps ? (double)result->totals.skipped / (double)result->totals.steps : 0;
    const bool moves = trainer->scale_moves;
    if (share <= WORTH_TELLING || (moves && result->totals.skipped <= HALVINGS)) return;
    fprintf(
        out,
        "%" PRIu64 " of %" PRIu64
        " updates (%.1f %%) were skipped because their gradients were infinite or NaN in %s; the "
        "loss scale is now %g; %s.\n",
        result->totals.skipped, result->totals.steps, 100 * share,
        ff_precision_name(trainer->precision), result->last.loss_scale,
        moves                     ? "--precision bf16 needs no scale"
        : trainer->loss_scale > 1 ? "lower --loss-scale, or leave it out"
                                  : "lower --lr");
}

static void print_gpu(FILE *out, const ff_epoch *last) {
    static const char *const before[] = {"GPU in the last epoch: ", ", "};
    const ff_nvml_reading *gpu = &last->gpu;
    int told = 0;
    if (!last->gpu_read) return;
    if (gpu->gpu_percent >= 0) fprintf(out, "%s%d %% busy", before[told++ > 0], gpu->gpu_percent);
    if (gpu->used_bytes)
        fprintf(out, "%s%s of memory in use", before[told++ > 0],
                ff_say_bytes(gpu->used_bytes).text);
    if (gpu->sm_mhz >= 0) fprintf(out, "%sSM clock %d MHz", before[told++ > 0], gpu->sm_mhz);
    if (gpu->memory_mhz >= 0)
        fprintf(out, "%smemory clock %d MHz", before[told++ > 0], gpu->memory_mhz);
    if (told) fprintf(out, ".\n");
}

void ff_closing_print(FILE *out, bool all, const ff_trainer *trainer, const ff_run_result *result,
                      ff_status status) {
    char text[640];
    if (all && *result->early)
        fprintf(out, "Stopped early after epoch %" PRIu32 " of %" PRIu32 ": %s.\n",
                result->last.epoch, trainer->epochs, result->early);
    print_reached(out, trainer, result);
    print_skipped(all ? out : stderr, trainer, result);
    if (all) {
        print_warm_up(out, result);
        print_gpu(out, &result->last);
        ff_bottleneck_text(trainer, result, text, sizeof text);
        if (status == FF_OK) fprintf(out, "%s\n", text);
    }
    fflush(out);
}
