/* A loader's options: samples, order, augmentation, output, threads, memory; and the sequence of
 * batches that follows from them. slot.h has the results.
 *
 * Thread rule: plain data and pure functions. */
#ifndef FF_LOADER_OPTIONS_H
#define FF_LOADER_OPTIONS_H

#include "format/reader/reader.h"
#include "loader/augment/augment.h"
#include "loader/device/device.h"
#include "loader/selection/shares.h"
#include "loader/selection/weights.h"
#include "loader/sequence/sampling.h"
#include "loader/sequence/sequence.h"

typedef enum ff_last_batch {
    /* An incomplete last batch is left out, unless the dataset is smaller than one batch. */
    FF_LAST_BATCH_DROP,
    /* It comes with count < rows; the rows after are zero, with weight 0 and class -1. */
    FF_LAST_BATCH_KEEP,
} ff_last_batch;

/* Requirements of placements on a device (loader/gpu/batches.h); all zero otherwise. */
typedef struct ff_loader_feed {
    /* Rows hold samples as stored, not augmented; kernels do the rest. Slots have the dataset's
     * dtype, layout and size, and no params; padding rows are undefined. */
    bool raw;
    /* With order sequential: positions count in storage order. */
    bool storage_order;
    /* Batch number b of this loader is in slot b mod slots; slots are released in their order. */
    bool cyclic;
    uint32_t row_align; /* rows begin at its multiples, a power of two up to 64; 0 = packed */
} ff_loader_feed;

/* How samples are read. */
typedef enum ff_loader_access {
    FF_ACCESS_AUTO,   /* FF_ACCESS_READ if memory cannot keep them or turns out not to (read_again),
                       * else mapped; mapped with order sequential and no threads */
    FF_ACCESS_MAPPED, /* in place, through the page cache */
    FF_ACCESS_READ,   /* bypassing the page cache if possible: with threads, ahead of their use
                       * (ahead_bytes), many at a time, neighbours together, each compressed frame
                       * once; else one at a time */
} ff_loader_access;

/* Further views of each sample, of one size and augmentation. */
typedef struct ff_loader_group {
    uint32_t views, height, width;
    ff_augment_spec augment;
} ff_loader_group;

/* The output from an epoch on. */
typedef struct ff_loader_size {
    uint32_t epoch, height, width;
    ff_augment_spec augment;
} ff_loader_size;

/* The options' names in errors. */
typedef struct ff_loader_words {
    const char *augment, *weights, *shares, *repeats, *samples_per_epoch;
} ff_loader_words;

typedef struct ff_loader_options {
    ff_loader_words words; /* by default the library's */
    uint64_t batch;        /* samples a global batch, > 0 */
    /* The samples of an epoch; NULL = all of the set. Must outlive the loader's creation. */
    const ff_selection *selection;
    /* How often they come (loader/sequence/sampling.h), with order random alone. weights: NULL =
     * all alike. per_class: samples of each class of a batch, by `classes`; 0 = classes play no
     * part. repeats: times that each drawn sample comes; 0 = 1. samples_per_epoch: 0 = the
     * number of samples. drawn_batch: the batch that has the repeats or shares, if `batch` is a
     * part of it; 0 = batch. shares: of the sets that the dataset unites; NULL = none. weights,
     * classes and shares are of the selection, and must outlive the loader. */
    const ff_weights *weights, *classes;
    const ff_shares *shares;
    uint32_t per_class, repeats;
    uint64_t samples_per_epoch;
    uint64_t drawn_batch;
    ff_last_batch last_batch;

    /* Order. block and group 0 with blocks: ff_order_default_block and _group, for a set behind a
     * URL whole pieces of its cache; for a set beyond memory the group depends on the available
     * memory, so a run records it. Other orders have neither. With FF_ORDER_NODE_BLOCK: machines 0
     * = share_total / memory_ranks, rounded up; node_batch: the batch that the order is made for, 0
     * = batch. */
    ff_order_kind order;
    uint64_t block, group;
    uint64_t node_batch;
    uint32_t machines;
    uint64_t seed;

    /* The first batch: `position` samples into `epoch`; one after the last batch of an epoch means
     * the next epoch. first_cut: the cut of that batch to begin with. After `epochs` epochs
     * (including the started one) acquire returns NULL; 0 = no end. */
    uint32_t epoch, epochs, first_cut;
    uint64_t position;

    ff_augment_spec augment;

    /* The output. dtype: f32, f16 or bf16 (FF_DTYPE_COUNT = f32); u8 and u16 only from the same
     * dtype: values as stored, for normalizing elsewhere; u8 may be resampled and changed. layout:
     * FF_CHW = N C H W, FF_HWC = N H W C. height and width 0: the augmentation's (rrc, resize),
     * else the dataset's, which must then have one size. */
    ff_dtype dtype;
    ff_layout layout;
    uint32_t height, width;
    /* Other outputs, in the order of their epochs: each replaces height, width and augment (except
     * mixup and cutmix, which stay) from its epoch on, which is at least 1. Copied. Slots have room
     * for the largest. */
    const ff_loader_size *sizes;
    size_t size_count;
    /* The views of each sample in a batch: `views` (0 = 1) as above, then those of the groups, at
     * most FF_VIEWS_MOST in all. Each is augmented by draws of its own (loader/sequence/sampling.h)
     * and has its own images; the sample is read once. Copied. Several views exclude mixup, cutmix
     * and sizes. */
    uint32_t views;
    const ff_loader_group *groups;
    size_t group_count;

    /* Label fields by name; label_count 0 = the dataset's first field, if there is one. */
    const char *const *label;
    size_t label_count;
    bool classes_i64; /* class fields come as i64, not i32 */
    /* The number that batches have for each of the `class_count` classes of a class field, -1 = no
     * label; NULL = the set's own numbers. Must outlive the loader. */
    const int32_t *class_numbers;
    uint32_t class_count;

    /* This loader's share of each global batch: the parts [share_begin, share_end) of share_total.
     * Rank r of w: r, r + 1, w; a replica with 2 of 2 + 3 + 3 parts: 0, 2, 8. With mixup and
     * cutmix cuts are at even positions, so that partners stay together. A share may be empty: its
     * slots have rows 0 but still come. share_total 0 = everything. */
    uint32_t share_begin, share_end, share_total;
    /* The share comes in this number of batches of equal size, one after another: micro-batches of
     * a step. Cuts of a last, smaller global batch without samples are left out, except the first.
     * 0 = 1. */
    uint32_t cuts;

    /* Threads that fill slots; 0 = acquire fills them itself. -1 = one for each CPU, at most 8.
     * Slots: the number of batches that are ready, being filled or acquired at the same time; 0 =
     * 4, or 2 without threads. */
    int threads;
    uint32_t slots;

    ff_loader_access access;
    /* For a plan: blocks are chosen as for a set behind a URL, also for a folder, and the share is
     * all that the machine reads. */
    bool remote;
    /* The memory for files, as in ff_host_memory_for_files, without the slots; 0 = no limit of the
     * caller's own. memory_ranks: the ranks of one job on this machine; they share the page cache,
     * and each reads ahead in its part of the memory; 0 = 1. */
    uint64_t memory_bytes;
    uint32_t memory_ranks;
    /* Memory for reading ahead, if threads read samples and do not map them; 0 = half of this
     * rank's part of the memory for files, and with other orders than block at most 128 MiB. */
    uint64_t ahead_bytes;
    ff_device *device; /* NULL = the loader creates a host device */
    ff_loader_feed feed;

    /* stop(stop_context) is asked while a resident set is uploaded (loader/gpu/batches.h); true
     * ends that with FF_INTERRUPTED. NULL = nothing is asked. */
    bool (*stop)(void *context);
    void *stop_context;

    /* Each slot's memory is a separate block, which the consumer may keep (ff_loader_keep), with
     * `kept_bytes` after the slot's for its own use; 0 = no. Needs a unified device. */
    uint64_t kept_bytes;
} ff_loader_options;

/* batch 256, order random, drop, f32, CHW, no augmentation, first field, all threads, no end. */
ff_loader_options ff_loader_defaults(void);

/* The first row of part `part` of `total` of a global batch of `batch` samples. pairs: with mixup
 * or cutmix; it is then even, except for the end. */
uint64_t ff_loader_share(uint64_t batch, uint32_t part, uint32_t total, bool pairs);

/* "each sample once", or "weights 00a1b2c3d4e5f607, repeats 3, 5000 samples an epoch": the same for
 * options with which the same samples come. */
typedef struct ff_sampling_text {
    char text[160];
} ff_sampling_text;
ff_sampling_text ff_loader_say_sampling(const ff_loader_options *options);

/* The sequence of the batches of a loader with these options. FF_USAGE: a batch of no or too many
 * samples, a position beyond the last sample, an invalid share or cut, samples that come in an
 * impossible way. */
FF_MUST_USE ff_status ff_sequence_init(ff_sequence *sequence, ff_dataset *dataset,
                                       const ff_loader_options *options, ff_error *error);

#endif
