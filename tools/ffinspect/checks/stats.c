#include "tools/ffinspect/checks/stats.h"

#include "format/base/guard.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "tools/ffinspect/checks/first_failure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    LANES = 8,            /* independent sums: the compiler may not reorder a single one */
    GATHER_VALUES = 4096, /* of one channel, as floats, on the stack */
    CHUNKS_LIMIT = 4096,
    ACCUMULATORS_LIMIT = 1 << 20 /* chunks x channels */
};

double ff_inspect_std(const ff_channel_stats *stats) {
    return stats->count ? sqrt(stats->squares / (double)stats->count) : (double)NAN;
}

void ff_inspect_merge_stats(ff_channel_stats *stats, const ff_channel_stats *other) {
    stats->nan_count += other->nan_count;
    stats->infinity_count += other->infinity_count;
    if (!other->count) return;
    if (!stats->count) {
        stats->count = other->count;
        stats->mean = other->mean;
        stats->squares = other->squares;
        stats->minimum = other->minimum;
        stats->maximum = other->maximum;
        return;
    }
    double before = (double)stats->count, added = (double)other->count, total = before + added;
    double apart = other->mean - stats->mean;
    stats->mean += apart * (added / total);
    stats->squares += other->squares + apart * apart * (before * added / total);
    stats->count += other->count;
    if (other->minimum < stats->minimum) stats->minimum = other->minimum;
    if (other->maximum > stats->maximum) stats->maximum = other->maximum;
}

/* Whether all values are finite: x - x is 0 for finite x, else NaN. */
static bool all_finite(const float *value, size_t count) {
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += value[i + (size_t)k] - value[i + (size_t)k];
    for (; i < count; i++) lane[0] += value[i] - value[i];
    float sum = 0;
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum == 0;
}

static double sum_of(const float *value, size_t count, double mean, bool squared) {
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double apart = (double)value[i + (size_t)k] - mean;
            lane[k] += squared ? apart * apart : apart;
        }
    for (; i < count; i++) {
        double apart = (double)value[i] - mean;
        lane[0] += squared ? apart * apart : apart;
    }
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

static void add_finite(ff_channel_stats *stats, const float *value, size_t count) {
    if (!count) return;
    float low = value[0], high = value[0];
    for (size_t i = 1; i < count; i++) {
        low = value[i] < low ? value[i] : low;
        high = value[i] > high ? value[i] : high;
    }
    ff_channel_stats part = {.count = count, .minimum = (double)low, .maximum = (double)high};
    part.mean = sum_of(value, count, 0, false) / (double)count;
    part.squares = sum_of(value, count, part.mean, true);
    ff_inspect_merge_stats(stats, &part);
}

void ff_inspect_add_stats(ff_channel_stats *stats, const float *value, size_t count) {
    float kept[256];
    size_t kept_count = 0;
    if (all_finite(value, count)) {
        add_finite(stats, value, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (isfinite(value[i]))
            kept[kept_count++] = value[i];
        else if (isnan(value[i]))
            stats->nan_count++;
        else
            stats->infinity_count++;
        if (kept_count == sizeof kept / sizeof kept[0] || i + 1 == count) {
            add_finite(stats, kept, kept_count);
            kept_count = 0;
        }
    }
}

/* ---- one sample ----------------------------------------------------------------------------- */

typedef struct sample_job {
    const ff_dataset *dataset;
    const ff_metadata *metadata;
    const ff_view *view;
    ff_channel_stats *stats; /* [channels] */
    bool whole;              /* the sample's file */
} sample_job;

/* [C,H,W]: planes in pieces. */
static void add_planes(const sample_job *job) {
    const ff_metadata *metadata = job->metadata;
    size_t area = (size_t)job->view->height * job->view->width;
    size_t bytes = ff_dtype_bytes(metadata->dtype);
    float value[GATHER_VALUES];
    for (size_t c = 0; c < metadata->channels; c++)
        for (size_t i = 0; i < area; i += GATHER_VALUES) {
            size_t count = area - i < GATHER_VALUES ? area - i : GATHER_VALUES;
            const char *from = (const char *)job->view->tensor + (c * area + i) * bytes;
            ff_convert(value, FF_F32, from, metadata->dtype, count);
            ff_inspect_add_stats(&job->stats[c], value, count);
        }
}

/* [H,W,C]: gathers channels from the interleaved values. */
static void add_pixels(const sample_job *job) {
    const ff_metadata *metadata = job->metadata;
    size_t area = (size_t)job->view->height * job->view->width, channels = metadata->channels;
    size_t bytes = ff_dtype_bytes(metadata->dtype);
    size_t step = GATHER_VALUES / channels ? GATHER_VALUES / channels : 1; /* pixels per piece */
    float all[GATHER_VALUES], value[GATHER_VALUES];
    for (size_t i = 0; i < area; i += step) {
        size_t pixels = area - i < step ? area - i : step;
        const char *from = (const char *)job->view->tensor + i * channels * bytes;
        ff_convert(all, FF_F32, from, metadata->dtype, pixels * channels);
        for (size_t c = 0; c < channels; c++) {
            for (size_t k = 0; k < pixels; k++) value[k] = all[k * channels + c];
            ff_inspect_add_stats(&job->stats[c], value, pixels);
        }
    }
}

_Static_assert(GATHER_VALUES >= FF_CHANNELS_LIMIT, "a pixel fits add_pixels' buffer");

static void sample_body(void *context) {
    sample_job *job = context;
    if (job->metadata->layout == FF_CHW)
        add_planes(job);
    else
        add_pixels(job);
    job->whole = !job->view->mapped || ff_dataset_is_whole(job->dataset, job->view->entry.shard);
}

/* ---- all samples ---------------------------------------------------------------------------- */

typedef struct measurement {
    ff_dataset *dataset;
    ff_storage_order order;
    uint64_t chunk_samples;
    ff_channel_stats *chunk_stats; /* [chunks][channels] */
    pthread_mutex_t mutex;
    ff_first_failure failure;
    uint64_t done;
    ff_progress progress;
} measurement;

static ff_status add_chunk(measurement *all, ff_reader *reader, uint64_t from, uint64_t to,
                           ff_channel_stats *stats, ff_error *error) {
    for (uint64_t i = from; i < to; i++) {
        ff_view view;
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_reader_sample(reader, ff_storage_order_at(&all->order, i), &view, error));
        sample_job job = {.dataset = all->dataset,
                          .metadata = ff_dataset_metadata(all->dataset),
                          .view = &view,
                          .stats = stats};
        const void *fault = ff_guard_run(sample_body, &job);
        if (!fault && !job.whole) fault = view.tensor;
        if (fault) return ff_dataset_fault(all->dataset, fault, error);
    }
    return FF_OK;
}

static void chunk_body(void *context, size_t index) {
    measurement *all = context;
    uint64_t count = ff_dataset_count(all->dataset);
    uint64_t from = index * all->chunk_samples, to = from + all->chunk_samples;
    if (to > count) to = count;
    pthread_mutex_lock(&all->mutex);
    bool stop = all->failure.error.status != FF_OK && all->failure.place < index;
    pthread_mutex_unlock(&all->mutex);
    if (stop) return;
    ff_error error = {0};
    ff_reader *reader = NULL;
    ff_channel_stats *stats =
        all->chunk_stats + index * ff_dataset_metadata(all->dataset)->channels;
    ff_status status = ff_reader_open(&reader, all->dataset, &error);
    if (status == FF_OK) status = add_chunk(all, reader, from, to, stats, &error);
    ff_reader_close(&reader);
    pthread_mutex_lock(&all->mutex);
    if (status != FF_OK) ff_inspect_note_failure(&all->failure, index, &error);
    all->done += to - from;
    ff_progress_update(&all->progress, all->done, NULL);
    pthread_mutex_unlock(&all->mutex);
}

ff_status ff_inspect_stats(ff_channel_stats **out, ff_dataset *dataset, int jobs, ff_error *error) {
    uint32_t channels = ff_dataset_metadata(dataset)->channels;
    uint64_t count = ff_dataset_count(dataset);
    /* Chunks depend only on the dataset and are merged in order, so the result, too, depends only
     * on the dataset. */
    uint64_t limit = ACCUMULATORS_LIMIT / channels;
    if (limit > CHUNKS_LIMIT) limit = CHUNKS_LIMIT;
    measurement all = {.dataset = dataset, .chunk_samples = (count + limit - 1) / limit};
    if (all.chunk_samples < 16) all.chunk_samples = 16;
    uint64_t chunks = (count + all.chunk_samples - 1) / all.chunk_samples;
    *out = NULL;
    FF_TRY(ff_dataset_storage_order(dataset, &all.order, error));
    ff_status status;
    FF_TRY_DONE(ff_alloc(&all.chunk_stats, chunks * channels, sizeof *all.chunk_stats, "statistics",
                         error));
    FF_TRY_DONE(ff_alloc(out, channels, sizeof **out, "statistics", error));
    pthread_mutex_init(&all.mutex, NULL);
    ff_progress_begin(&all.progress, "statistics", "samples", count, false);
    status = ff_parallel_for(jobs, chunks, chunk_body, &all, error);
    ff_progress_end(&all.progress);
    pthread_mutex_destroy(&all.mutex);
    if (status == FF_OK && all.failure.error.status != FF_OK) {
        status = all.failure.error.status;
        if (error) *error = all.failure.error;
    }
    for (uint64_t i = 0; status == FF_OK && i < chunks * channels; i++)
        ff_inspect_merge_stats(&(*out)[i % channels], &all.chunk_stats[i]);
    for (uint32_t c = 0; status == FF_OK && c < channels; c++)
        if (!(*out)[c].count) (*out)[c].mean = (*out)[c].minimum = (*out)[c].maximum = (double)NAN;
done:
    free(all.chunk_stats);
    ff_storage_order_free(&all.order);
    if (status != FF_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}
