#include "train/trainer/needs.h"

#include "format/cli/say.h"
#include "loader/device/absent.h"
#include "train/checkpoint/capture.h"
#include "train/comm/job/shares.h"
#include "train/trainer/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* If a set is read directly, only its index is mapped. */
static void add_mapped(ff_needs *needs, ff_dataset *dataset, const ff_feed *feed) {
    if (!dataset) return;
    const ff_loader_info loader = ff_feed_describe(feed).loader;
    const uint64_t shards = loader.direct ? 0 : loader.shard_bytes;
    needs->mapped_bytes += ff_dataset_index_bytes(dataset) + shards;
    needs->shard_bytes += shards;
}

/* For a set larger than memory: the memory for reading ahead. */
static uint64_t ahead_bytes(const ff_feed *feed) {
    return feed ? ff_feed_describe(feed).loader.ahead_bytes : 0;
}

/* The learning rates of every step and group: the trainer's, and the copy for updates. */
static uint64_t rate_bytes(const ff_trainer *trainer) {
    return 2 * (uint64_t)trainer->group_count * ff_trainer_total_steps(trainer) * sizeof(double);
}

static uint64_t program_bytes(const ff_trainer *trainer) {
    const uint64_t measured = ff_model_compute(trainer->model)->program_bytes;
    return measured ? measured : FF_NEEDS_PROGRAM_BYTES;
}

ff_status ff_needs_of(ff_needs *needs, const ff_trainer *trainer, ff_error *error) {
    const ff_job *job = trainer->options->job;
    *needs = (ff_needs){.host = ff_host_memory_left(""),
                        .host_bytes = program_bytes(trainer) + rate_bytes(trainer),
                        .host_ranks = ff_job_sharing(job, job ? job->rank : 0, true),
                        .device_ranks = ff_job_sharing(job, job ? job->rank : 0, false)};
    add_mapped(needs, trainer->splits.train, trainer->train_feed);
    add_mapped(needs, trainer->splits.val, trainer->val_feed);
    ff_device *device = trainer->device ? trainer->device->device : trainer->counted;
    const ff_absent_bytes most = ff_device_absent_most(device);
    needs->host_bytes += most.pinned + ff_feed_describe(trainer->train_feed).loader.order_bytes +
                         ahead_bytes(trainer->train_feed) + ahead_bytes(trainer->val_feed);
    if (trainer->options->checkpoints) {
        needs->host_bytes += ff_capture_bytes(trainer->model);
        /* a GPU's parameters are converted through a buffer, a CPU's in place */
        if (trainer->device) needs->host_bytes += ff_model_largest_bytes(trainer->model);
    }
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
    if (needs->host_ranks > 1) fprintf(out, " for %d ranks", needs->host_ranks);
    fprintf(out, "; %s of the sets are mapped in addition, as page cache\n",
            ff_say_bytes(needs->mapped_bytes).text);
    if (!needs->device_has) return;
    fprintf(out, "device memory  needs about %s, has %s%s", ff_say_bytes(needs->device_bytes).text,
            ff_say_bytes(needs->device_has).text, needs->device_limit);
    if (needs->device_ranks > 1) fprintf(out, " for %d ranks", needs->device_ranks);
    fputc('\n', out);
}

/* The run's needs as a share of the available memory, which ranks on one host or device divide
 * equally: up to 1 the run fits. */
static double share_of(const ff_needs *needs) {
    const double host = (double)needs->host_bytes / fmax((double)needs->host.bytes, 1);
    const double device = (double)needs->device_bytes / fmax((double)needs->device_has, 1);
    return fmax(host * needs->host_ranks, device * needs->device_ranks);
}

/* The least rows of a rank. */
static int64_t row_unit(const ff_trainer *trainer) {
    return ff_augment_mixes(&trainer->augment) ? 2 : 1;
}

/* This rank has `rows` rows of a micro-batch, one other rank the remaining ones, and each further
 * rank the fewest. */
static void cut_rows(const ff_trainer *trainer, int64_t rows, uint32_t *cuts) {
    const ff_job *job = trainer->options->job;
    const int64_t unit = row_unit(trainer);
    for (int i = 0; i <= job->size; i++)
        cuts[i] = (uint32_t)(i < job->rank || !i ? i * unit
                                                 : trainer->micro_all - (job->size - i) * unit);
    cuts[job->rank ? job->rank : 1] =
        job->rank ? cuts[job->rank + 1] - (uint32_t)rows : (uint32_t)rows;
}

/* The same for a trainer with another batch or more micro-batches, and the same available memory;
 * false if no such trainer can be made. rows: this rank's in a job; 0 = as shared now. */
static bool share_with(const ff_trainer *trainer, int64_t batch, int64_t accumulate, int64_t rows,
                       double *share) {
    ff_trainer_options options = ff_trainer_options_counting(trainer->options);
    const ff_job *job = options.job;
    uint32_t *cuts = NULL;
    ff_job other_job;
    ff_model_device planned;
    ff_device *absent = NULL;
    ff_trainer *other;
    options.batch = batch;
    options.accumulate = accumulate;
    if (trainer->device &&
        ff_device_absent_create(&absent, trainer->needs.device_has, false, NULL) != FF_OK)
        return false;
    if (rows && ff_alloc(&cuts, (uint64_t)job->size + 1, sizeof *cuts, "shares", NULL) != FF_OK) {
        ff_device_destroy(&absent);
        return false;
    }
    if (rows) {
        cut_rows(trainer, rows, cuts);
        other_job = (ff_job){.rank = job->rank,
                             .size = job->size,
                             .local_size = job->local_size,
                             .cuts = cuts,
                             .ranks = job->ranks,
                             .places = job->places,
                             .lock = PTHREAD_MUTEX_INITIALIZER};
        options.job = &other_job;
    }
    if (trainer->device) {
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
    free(cuts);
    return made;
}

/* With another batch in the same number of micro-batches or, with by_rows, another share of the
 * batch. */
static bool share_of_size(const ff_trainer *trainer, bool by_rows, int64_t size, double *share) {
    return share_with(trainer, by_rows ? trainer->batch : size, trainer->accumulate,
                      by_rows ? size : 0, share);
}

/* About the largest batch, of at most `most` samples, whose share is at most `limit`: needs grow
 * almost linearly with it, and the result was counted. by_rows: this rank's rows instead, of the
 * same batch. 0 = not even the smallest fits. */
static int64_t most_that_fits(const ff_trainer *trainer, bool by_rows, double limit, int64_t most) {
    enum { TRIES = 6 };
    const int64_t parts = by_rows ? row_unit(trainer) : trainer->accumulate;
    int64_t at = by_rows ? trainer->micro : trainer->batch;
    double above = share_of(&trainer->needs), per_sample = above / (double)at, share;
    int64_t fits = above <= limit ? at : 0;
    for (int i = 0; i < TRIES && per_sample > 0; i++) {
        const double far = (double)at + floor((limit - above) / per_sample);
        int64_t micro = (int64_t)fmax(fmin(far, (double)most), 0) / parts;
        if (micro > 8 && !by_rows) micro -= micro % 8;
        if (micro * parts == at && above > limit) micro--;
        const int64_t next = micro > 1 ? micro * parts : parts;
        if (next == at || next <= fits || !share_of_size(trainer, by_rows, next, &share)) break;
        if (share <= limit) fits = next;
        per_sample = (above - share) / (double)(at - next);
        above = share;
        at = next;
    }
    if (!fits && at > parts && share_of_size(trainer, by_rows, parts, &share) && share <= limit)
        fits = parts;
    return fits;
}

int64_t ff_needs_most_rows(const ff_trainer *trainer) {
    const ff_job *job = trainer->options->job;
    return most_that_fits(trainer, true, 1,
                          trainer->micro_all - (job->size - 1) * row_unit(trainer));
}

/* The fewest micro-batches with which the whole batch fits by the count, given that a batch of
 * `fits` samples fits with the current number; 0 = none found. */
static int64_t accumulation_that_fits(const ff_trainer *trainer, int64_t fits) {
    int tries = 4;
    for (int64_t n = trainer->accumulate + 1; n <= trainer->batch && tries; n++) {
        double share;
        if (trainer->batch % n || trainer->batch / n > fits / trainer->accumulate) continue;
        tries--;
        if (share_with(trainer, trainer->batch, n, 0, &share) && share <= 1) return n;
    }
    return 0;
}

/* Limits of a chosen batch: the share of the memory that it may need, because libraries allocate
 * memory too; the fewest steps in an epoch; and the largest multiple of the recipe's batch: up to
 * 32 times 256 samples the linear rule for learning rates keeps the accuracy (P. Goyal et al. 2017,
 * arXiv 1706.02677). */
#define CHOSEN_SHARE 0.9
enum { CHOSEN_STEPS = 32, CHOSEN_TIMES = 32 };

void ff_needs_choose_batch(const ff_trainer *counted, int64_t usual, int64_t *batch,
                           const char **reason) {
    const int64_t parts = counted->accumulate;
    const int64_t by_steps = (int64_t)(counted->train_count / CHOSEN_STEPS);
    const int64_t by_rule = CHOSEN_TIMES * usual;
    int64_t most = (by_steps < by_rule ? by_steps : by_rule) / parts;
    while (most & (most - 1)) most &= most - 1; /* a power of two */
    most *= parts;
    *reason = by_steps < by_rule ? "the largest power of two with 32 steps an epoch"
                                 : "32 times the recipe's, the most that its rates are for";
    if (most < counted->batch) {
        most = counted->batch;
        *reason = "the recipe's; with a larger one an epoch has fewer than 32 steps";
    }
    *batch = most_that_fits(counted, false, CHOSEN_SHARE, most);
    if (*batch < most) *reason = "the largest whose run needs at most 90 % of the memory";
    if (!*batch) *batch = parts;
}

/* ---- of a job ---- */

typedef struct told {
    double has, needs; /* [host, device] */
} told;

/* "--dp-balance 5,3 would fit, or ...": what all ranks could do. */
static ff_status advise(const ff_trainer *trainer, char *advice, size_t size, ff_error *error) {
    ff_job *job = trainer->options->job;
    const int count = job->size;
    const bool pairs = ff_augment_mixes(&trainer->augment);
    double *found, least = (double)trainer->batch;
    int64_t *rows = NULL, *most = NULL;
    ff_status status;
    FF_TRY(ff_alloc(&found, 3 * (uint64_t)count, sizeof *found, "shares", error));
    FF_TRY_DONE(ff_alloc(&rows, (uint64_t)count, sizeof *rows, "shares", error));
    FF_TRY_DONE(ff_alloc(&most, (uint64_t)count, sizeof *most, "shares", error));
    double *speed = found, *room = found + count, *batch = room + count;
    speed[job->rank] = (double)trainer->micro; /* the requested proportions */
    room[job->rank] = (double)ff_needs_most_rows(trainer);
    batch[job->rank] = (double)most_that_fits(trainer, false, 1, trainer->batch);
    FF_TRY_DONE(ff_job_sum(job, found, 3 * (size_t)count, error));
    for (int i = 0; i < count; i++) most[i] = (int64_t)room[i];
    for (int i = 0; i < count; i++) least = fmin(least, batch[i]);
    int length = 0;
    if (ff_shares_choose(speed, most, count, trainer->micro_all, pairs, rows)) {
        length = snprintf(advice, size, "--dp-balance ");
        for (int i = 0; job->divides && i < count && length < (int)size; i++)
            length += snprintf(advice + length, size - (size_t)length, "%s%" PRId64, i ? "," : "",
                               rows[i]);
        if (length < (int)size)
            length += snprintf(advice + length, size - (size_t)length, "%s would fit",
                               job->divides ? "" : "auto");
    }
    int64_t parts = trainer->accumulate + 1;
    while (
        parts < trainer->batch &&
        (trainer->batch % parts || trainer->batch / parts > (int64_t)least / trainer->accumulate))
        parts++;
    if (least >= 1 && length < (int)size)
        length += snprintf(advice + length, size - (size_t)length,
                           length ? "; so would --batch %.0f" : "--batch %.0f would fit", least);
    if (least >= 1 && parts < trainer->batch && length < (int)size)
        snprintf(advice + length, size - (size_t)length, ", or --accumulate %" PRId64, parts);
done:
    free(found);
    free(rows);
    free(most);
    return status;
}

/* Whether rank r and the ranks on the same host or device need more than its memory. */
static bool is_over(const ff_job *job, const told *all, int r, bool host, told *sum) {
    *sum = (told){all[2 * r + !host].has, 0};
    for (int i = 0; i < job->size; i++)
        if (ff_job_together(job, r, i, host)) sum->needs += all[2 * i + !host].needs;
    return sum->needs > sum->has;
}

/* All ranks reach the same result. */
static ff_status check_ranks(const ff_trainer *trainer, ff_error *error) {
    ff_job *job = trainer->options->job;
    const ff_needs *needs = &trainer->needs;
    char advice[640] = "not even the smallest batch fits; use a smaller model or smaller samples";
    told *all, sum = {0};
    bool host = false;
    int over = 0;
    ff_status status;
    FF_TRY(ff_alloc(&all, 2 * (uint64_t)job->size, sizeof *all, "what ranks need", error));
    all[2 * job->rank] = (told){(double)needs->host.bytes, (double)needs->host_bytes};
    all[2 * job->rank + 1] = (told){(double)needs->device_has, (double)needs->device_bytes};
    FF_TRY_DONE(ff_job_sum(job, &all->has, 4 * (size_t)job->size, error));
    while (over < job->size && !is_over(job, all, over, host, &sum)) {
        over += host;
        host = !host;
    }
    if (over == job->size) goto done;
    FF_TRY_DONE(advise(trainer, advice, sizeof advice, error));
    const ff_job_place *place = &job->places[over];
    const bool shares = ff_job_sharing(job, over, host) > 1;
    status = ff_fail(error, FF_NO_MEMORY,
                     "rank %d%s about %s of %s memory with %" PRIu32 "/%" PRIu32
                     " of batches of %" PRId64 ", and %.*s%shost %s has %s free; %s",
                     over, shares ? " and the ranks next to it need" : " needs",
                     ff_say_bytes((uint64_t)sum.needs).text, host ? "the host's" : "the device's",
                     job->cuts[over + 1] - job->cuts[over], job->cuts[job->size], trainer->batch,
                     host ? 0 : (int)strcspn(place->device, ","), place->device, host ? "" : " on ",
                     place->host, ff_say_bytes((uint64_t)sum.has).text, advice);
done:
    free(all);
    return status;
}

/* Checks that the run fits without its sets, and with each set alone unless it is read directly. */
static ff_status check_maps(const ff_needs *needs, ff_error *error) {
    const uint64_t left = ff_host_maps_left("").bytes;
    if (needs->host_bytes > left || needs->shard_bytes <= left - needs->host_bytes) return FF_OK;
    return ff_fail(error, FF_NO_MEMORY,
                   "the run maps %s of its sets and needs %s of memory, and %s is left of its "
                   "address space (ulimit -v); a set larger than --memory BYTES is read directly",
                   ff_say_bytes(needs->shard_bytes).text, ff_say_bytes(needs->host_bytes).text,
                   ff_say_bytes(left).text);
}

ff_status ff_needs_check(const ff_trainer *trainer, ff_error *error) {
    const ff_needs *needs = &trainer->needs;
    char advice[96] = "not even the smallest batch fits; use a smaller model or smaller samples";
    FF_TRY(check_maps(needs, error));
    if (trainer->options->job && trainer->options->job->channel) return check_ranks(trainer, error);
    if (share_of(needs) <= 1) return FF_OK;
    const int64_t fits = most_that_fits(trainer, false, 1, trainer->batch);
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
