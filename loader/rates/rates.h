/* Room loader/rates, floor 8: how fast each stage of the data path is alone.
 *
 * This header times a loader's stages one by one: storage, gather, copy, augment. measure.c reads
 * the disk as a run would, for a second, so that a rate can be promised before the run begins.
 * Nothing here is on the path of a batch.
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

/* Samples per second; 0 = not a stage of every step. */
typedef struct ff_rates {
    double rate[FF_STAGE_COUNT];
    int threads; /* used for storage, gather and the host's augmentation; 0 = none of these ran */
    bool host_augments;
    bool cold; /* the storage read pages of a mapped set: other stages are measured without that */
} ff_rates;

/* How fast the disk is for a loader. */
typedef struct ff_disk_rate {
    double samples; /* per second; 0 = nothing was read: the set is in memory */
    double read;    /* bytes read for each byte that is used */
    bool once;      /* only in the first epoch: memory keeps the set */
} ff_disk_rate;

/* Measures the host's stages for a loader with these options in about 3 * budget_ns, or 5 *
 * budget_ns if samples are compressed: the other stages are then measured without decompression.
 * FF_USAGE, FF_BAD_DATA and FF_IO as in the loader. */
FF_MUST_USE ff_status ff_rates_of_loader(ff_dataset *dataset, const ff_loader_options *options,
                                         uint64_t budget_ns, ff_rates *rates, ff_error *error);

/* Measures one of the host's stages for a loader with these options. */
FF_MUST_USE ff_status ff_rates_of_stage(ff_dataset *dataset, const ff_loader_options *options,
                                        ff_stage stage, uint64_t budget_ns, ff_rates *rates,
                                        ff_error *error);

/* How fast the disk is for a loader with these options. A set that is read ahead
 * (ff_loader_info.ahead_bytes) is measured in each order, a mapped set only in the loader's order
 * and only if pages have to be read (compressed sets are not measured: their decompression takes
 * longer); otherwise 0. Takes about budget_ns for each order, and twice that for the loader's; on a
 * slow disk some times as long. No loader should read at the same time. */
FF_MUST_USE ff_status ff_rates_of_disk(ff_dataset *dataset, const ff_loader_options *options,
                                       uint64_t budget_ns, ff_disk_rate rate[FF_ORDER_KIND_COUNT],
                                       ff_error *error);

/* Copies of `bytes` from pinned to device memory per second. */
FF_MUST_USE ff_status ff_rates_of_copies(ff_device *device, uint64_t bytes, uint64_t budget_ns,
                                         double *rate, ff_error *error);

/* Runs of step(context, stream) per second; step enqueues the work in the stream. */
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
 * for the copies plus a quarter, at most `cpus`. Slots: one that the kernels read, one that is
 * copied, one that is filled, and enough ready slots for 4 ms of copies, in case a thread loses its
 * CPU; 4 to 16. */
ff_tuned ff_tune(double thread_rate, double copy_rate, uint32_t rows, int cpus);

#endif
