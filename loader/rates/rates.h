/* Room loader/rates, floor 5: how fast each stage of the data path is alone.
 *
 * This header times a loader's stages one by one: storage, gather, copy, augment. measure.c reads
 * the disk as a run would, for a second, to promise a rate before the run begins. Nothing here is
 * on the path of a batch.
 *
 * May include format, loader/host.
 *
 * The rate of each stage of the data path alone, for finding the bottleneck.
 *
 *   storage  samples located, read and checked in place, in the run's order (compressed ones are
 *            decompressed)
 *   gather   samples copied as stored into a slot, including reading them
 *   copy     slots from pinned to device memory; only with separate device memory
 *   augment  cached samples made into rows of a batch by the loader's threads, or batches made by
 *            the device's kernels
 *
 * Thread rule: one thread at a time. */
#ifndef FF_LOADER_RATES_H
#define FF_LOADER_RATES_H

#include "loader/host/loader.h"

typedef enum ff_stage {
    FF_STAGE_STORAGE,
    FF_STAGE_GATHER,
    FF_STAGE_COPY,
    FF_STAGE_AUGMENT,
    FF_STAGE_COUNT,
} ff_stage;

/* "storage" "gather" "copy" "augment". */
const char *ff_stage_name(ff_stage stage);

/* Samples a second; 0 = not a stage of every step. */
typedef struct ff_rates {
    double rate[FF_STAGE_COUNT];
    int threads; /* of storage, gather and the host's augmentation; 0 = none of these */
    bool host_augments;
    bool cold; /* the storage read pages of a mapped set: other stages are measured without */
} ff_rates;

/* What the disk does for a loader. */
typedef struct ff_disk_rate {
    double samples; /* a second; 0 = nothing was read: the set is in memory */
    double read;    /* bytes for each one that is used */
    bool once;      /* in the first epoch alone: memory keeps the set */
} ff_disk_rate;

/* For a loader of these options on the host, in about 3 * budget_ns, or 5 where samples are
 * compressed: the others are then without the decompression. FF_USAGE, FF_BAD_DATA and
 * FF_IO as the loader's. */
FF_MUST_USE ff_status ff_rates_of_loader(ff_dataset *dataset, const ff_loader_options *options,
                                         uint64_t budget_ns, ff_rates *rates, ff_error *error);

/* One of the host's stages, of a loader of these options. */
FF_MUST_USE ff_status ff_rates_of_stage(ff_dataset *dataset, const ff_loader_options *options,
                                        ff_stage stage, uint64_t budget_ns, ff_rates *rates,
                                        ff_error *error);

/* What the disk does for a loader of these options: of a set that is read ahead
 * (ff_loader_info.ahead_bytes) in each order, of a mapped one in the loader's own, where pages have
 * to be read (compressed sets are not measured: their decompression takes longer); elsewhere 0.
 * Takes about budget_ns for each order, and twice that for the loader's; of a slow disk some times
 * as long. No loader should read beside it. */
FF_MUST_USE ff_status ff_rates_of_disk(ff_dataset *dataset, const ff_loader_options *options,
                                       uint64_t budget_ns, ff_disk_rate rate[FF_ORDER_KIND_COUNT],
                                       ff_error *error);

/* Copies of `bytes` from pinned to device memory, a second. */
FF_MUST_USE ff_status ff_rates_of_copies(ff_device *device, uint64_t bytes, uint64_t budget_ns,
                                         double *rate, ff_error *error);

/* Runs of step(context, stream) a second; step enqueues the work in the stream. */
FF_MUST_USE ff_status ff_rates_of_steps(ff_device *device, ff_stream *stream, uint64_t budget_ns,
                                        ff_status (*step)(void *context, ff_stream *stream,
                                                          ff_error *error),
                                        void *context, double *rate, ff_error *error);

/* The ring's threads and slots. */
typedef struct ff_tuned {
    int threads;
    uint32_t slots;
} ff_tuned;

/* thread_rate: samples per second that one thread gathers (and augments, if the host augments);
 * copy_rate: samples per second copied to the device; rows: of a batch; all > 0. Threads: enough
 * for the copies plus a quarter, at most `cpus`. Slots: one read by the kernels, one copied, one
 * filled, and enough ready ones for 4 ms of copies, in case a thread loses its CPU; 4 to 16. */
ff_tuned ff_tune(double thread_rate, double copy_rate, uint32_t rows, int cpus);

#endif
