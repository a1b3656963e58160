#include "train/needs.h"

#include "format/base/say.h"
#include "loader/device/absent.h"
#include "train/checkpoint/capture.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>

static ff_status add_mapped(uint64_t *bytes, ff_dataset *dataset, ff_error *error) {
    if (!dataset) return FF_OK;
    *bytes += ff_dataset_index_bytes(dataset);
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard(dataset, i, &shard, error));
        *bytes += shard.file_bytes;
    }
    return FF_OK;
}

/* The learning rates of every step and group: the trainer's, and the copy for updates. */
static uint64_t rate_bytes(const ff_trainer *trainer) {
    return 2 * (uint64_t)trainer->group_count * ff_trainer_total_steps(trainer) * sizeof(double);
}

ff_status ff_needs_of(ff_needs *needs, const ff_trainer *trainer, ff_error *error) {
    *needs = (ff_needs){.host = ff_host_memory_left(""), .host_bytes = rate_bytes(trainer)};
    FF_TRY(add_mapped(&needs->mapped_bytes, trainer->splits.train, error));
    FF_TRY(add_mapped(&needs->mapped_bytes, trainer->splits.val, error));
    ff_device *device = trainer->device ? trainer->device->device : trainer->counted;
    const ff_absent_bytes most = ff_device_absent_most(device);
    needs->host_bytes += most.pinned;
    if (trainer->options->checkpoints) needs->host_bytes += ff_capture_bytes(trainer->model);
    if (trainer->counted) {
        needs->host_bytes += most.device;
        return FF_OK;
    }
    uint64_t free_bytes;
    needs->device_bytes = most.device;
    needs->device_limit = trainer->stand_in ? " free" : "";
    return device->table->memory(device, &free_bytes, &needs->device_has, error);
}

void ff_needs_print(FILE *out, const ff_needs *needs) {
    fprintf(out, "host memory    needs %s", ff_say_bytes(needs->host_bytes).text);
    if (needs->host.bytes != UINT64_MAX)
        fprintf(out, ", has %s %s", ff_say_bytes(needs->host.bytes).text, needs->host.limit);
    fprintf(out, "; %s of the sets are mapped in addition, as page cache\n",
            ff_say_bytes(needs->mapped_bytes).text);
    if (needs->device_has)
        fprintf(out, "device memory  needs about %s, has %s%s\n",
                ff_say_bytes(needs->device_bytes).text, ff_say_bytes(needs->device_has).text,
                needs->device_limit);
}

/* The run's needs as a share of what is available: up to 1 it fits. */
static double share_of(const ff_needs *needs) {
    const double host = (double)needs->host_bytes / fmax((double)needs->host.bytes, 1);
    const double device = (double)needs->device_bytes / fmax((double)needs->device_has, 1);
    return fmax(host, device);
}

/* The same for a trainer with another batch, or more micro-batches of it, and the same available
 * memory; false where it cannot be made. */
static bool share_with(const ff_trainer *trainer, int64_t batch, int64_t accumulate,
                       double *share) {
    ff_trainer_options options = *trainer->options;
    ff_model_device planned;
    ff_device *absent = NULL;
    ff_trainer *other;
    options.batch = batch;
    options.accumulate = accumulate;
    options.counts = true;
    if (trainer->device) {
        const uint64_t has = trainer->needs.device_has;
        if (ff_device_absent_create(&absent, has, false, NULL) != FF_OK) return false;
        planned = *trainer->device;
        planned.device = absent;
        if (!options.planned) options.planned_kernels = ff_machine_kernels(trainer->machine);
        options.planned = &planned;
    }
    const bool made = ff_trainer_create(&other, &options, NULL) == FF_OK;
    if (made) {
        other->needs.host = trainer->needs.host;
        *share = share_of(&other->needs);
        ff_trainer_destroy(&other);
    }
    ff_device_destroy(&absent);
    return made;
}

/* About the largest batch, of at most `most` samples, whose share is at most `limit`: needs grow
 * almost linearly with it, and the result was counted. 0 = not even the smallest fits. */
static int64_t batch_that_fits(const ff_trainer *trainer, double limit, int64_t most) {
    enum { TRIES = 6 };
    const int64_t parts = trainer->accumulate;
    double above = share_of(&trainer->needs), per_sample = above / (double)trainer->batch, share;
    int64_t at = trainer->batch, fits = above <= limit ? at : 0;
    for (int i = 0; i < TRIES && per_sample > 0; i++) {
        const double far = (double)at + floor((limit - above) / per_sample);
        int64_t micro = (int64_t)fmax(fmin(far, (double)most), 0) / parts;
        if (micro > 8) micro -= micro % 8;
        if (micro * parts == at && above > limit) micro--;
        const int64_t next = micro > 1 ? micro * parts : parts;
        if (next == at || next <= fits || !share_with(trainer, next, parts, &share)) break;
        if (share <= limit) fits = next;
        per_sample = (above - share) / (double)(at - next);
        above = share;
        at = next;
    }
    if (!fits && at > parts && share_with(trainer, parts, parts, &share) && share <= limit)
        fits = parts;
    return fits;
}

/* The fewest micro-batches of the whole batch that fit, counted, where a batch of `fits` samples in
 * those of now does; 0 = none found. */
static int64_t accumulation_that_fits(const ff_trainer *trainer, int64_t fits) {
    int tries = 4;
    for (int64_t n = trainer->accumulate + 1; n <= trainer->batch && tries; n++) {
        double share;
        if (trainer->batch % n || trainer->batch / n > fits / trainer->accumulate) continue;
        tries--;
        if (share_with(trainer, trainer->batch, n, &share) && share <= 1) return n;
    }
    return 0;
}

/* Of a chosen batch: the share of the memory that it may need, because libraries allocate some of
 * their own; the fewest steps that it leaves an epoch; and the most recipe's batches that it has:
 * up to 32 times 256 samples the linear rule for learning rates keeps the accuracy (P. Goyal et al.
 * 2017, arXiv 1706.02677). */
#define CHOSEN_SHARE 0.9
enum { CHOSEN_STEPS = 32, CHOSEN_TIMES = 32 };

ff_status ff_needs_choose_batch(const ff_trainer_options *options, int64_t usual, uint64_t samples,
                                int64_t *batch, const char **reason, ff_error *error) {
    const int64_t parts = options->accumulate > 0 ? options->accumulate : 1;
    const int64_t by_steps = (int64_t)(samples / CHOSEN_STEPS), by_rule = CHOSEN_TIMES * usual;
    ff_trainer_options counted = *options;
    ff_trainer *trainer;
    if ((uint64_t)usual > samples) usual = (int64_t)samples;
    usual = usual > parts ? usual - usual % parts : parts;
    int64_t most = (by_steps < by_rule ? by_steps : by_rule) / parts;
    while (most & (most - 1)) most &= most - 1; /* a power of two */
    most *= parts;
    *reason = by_steps < by_rule ? "the largest power of two with 32 steps an epoch"
                                 : "32 times the recipe's, the most that its rates are for";
    if (most < usual) {
        most = usual;
        *reason = "the recipe's; with a larger one an epoch has fewer than 32 steps";
    }
    counted.batch = usual;
    counted.counts = true;
    counted.tuning = NULL;
    FF_TRY(ff_trainer_create(&trainer, &counted, error));
    *batch = batch_that_fits(trainer, CHOSEN_SHARE, most);
    ff_trainer_destroy(&trainer);
    if (*batch < most) *reason = "the largest whose run needs at most 90 % of the memory";
    if (!*batch) *batch = parts;
    return FF_OK;
}

ff_status ff_needs_check(const ff_trainer *trainer, ff_error *error) {
    const ff_needs *needs = &trainer->needs;
    char advice[96] = "not even the smallest batch fits; use a smaller model or smaller samples";
    if (share_of(needs) <= 1) return FF_OK;
    const int64_t fits = batch_that_fits(trainer, 1, trainer->batch);
    const int64_t parts = fits ? accumulation_that_fits(trainer, fits) : 0;
    if (fits) snprintf(advice, sizeof advice, "--batch %" PRId64 " would fit", fits);
    if (parts)
        snprintf(advice, sizeof advice,
                 "--batch %" PRId64 " would fit, or --accumulate %" PRId64 " with the same batch",
                 fits, parts);
    if (needs->device_bytes > needs->device_has)
        return ff_fail(error, FF_NO_MEMORY,
                       "the run needs about %s of the device's memory with batches of %" PRId64
                       ", and %s has %s%s; %s",
                       ff_say_bytes(needs->device_bytes).text, trainer->batch,
                       trainer->device->name, ff_say_bytes(needs->device_has).text,
                       needs->device_limit, advice);
    return ff_fail(error, FF_NO_MEMORY,
                   "the run needs %s of memory with batches of %" PRId64
                   ", and this machine has %s %s; %s",
                   ff_say_bytes(needs->host_bytes).text, trainer->batch,
                   ff_say_bytes(needs->host.bytes).text, needs->host.limit, advice);
}
