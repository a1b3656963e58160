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

/* The same for a trainer with another batch and the same available memory; false where it cannot be
 * made. */
static bool share_with(const ff_trainer *trainer, int64_t batch, double *share) {
    ff_trainer_options options = *trainer->options;
    ff_model_device planned;
    ff_device *absent = NULL;
    ff_trainer *other;
    options.batch = batch;
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

/* About the largest batch that fits: needs grow almost linearly with it, and the result was
 * counted. 0 = none found. */
static int64_t batch_that_fits(const ff_trainer *trainer) {
    enum { TRIES = 4 };
    double above = share_of(&trainer->needs), per_sample = above / (double)trainer->batch;
    int64_t at = trainer->batch, fits = 0;
    for (int i = 0; i < TRIES; i++) {
        double share;
        int64_t next = at + (int64_t)floor((1 - above) / per_sample);
        if (next > 64) next -= next % 8;
        if (next == at && above > 1) next--;
        next -= next % trainer->accumulate;
        if (next < trainer->accumulate) next = trainer->accumulate;
        if (next == at || next <= fits || !share_with(trainer, next, &share)) break;
        if (share <= 1) fits = next;
        per_sample = (above - share) / (double)(at - next);
        above = share;
        at = next;
        if (per_sample <= 0) break;
    }
    return fits;
}

ff_status ff_needs_check(const ff_trainer *trainer, ff_error *error) {
    const ff_needs *needs = &trainer->needs;
    char advice[64] = "use a smaller model or smaller samples";
    if (share_of(needs) <= 1) return FF_OK;
    const int64_t fits = batch_that_fits(trainer);
    if (fits) snprintf(advice, sizeof advice, "--batch %" PRId64 " would fit", fits);
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
