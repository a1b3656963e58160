/* Batches from a packed dataset: the trainer's input.
 *
 *     ff_loader_options options = ff_loader_defaults();
 *     options.batch = 256, options.seed = 1, options.dtype = FF_F32, options.layout = FF_HWC;
 *     ff_loader_create(&loader, dataset, &options, &error);
 *     while (ff_loader_acquire(loader, &slot, &error) == FF_OK && slot) {
 *         ... wait for slot->ready, read slot->data, slot->label[0].values ...
 *         ff_loader_release(loader, slot, NULL);
 *     }
 *     ff_loader_destroy(&loader);
 *
 * What a sample looks like depends on (seed, epoch, sample) and where it comes depends on (seed,
 * epoch, position), so batches are bit-identical for any number of threads and slots, for any world
 * size (ranks take slices of the same global batch), and after a resume. Threads fill slots ahead
 * of their use, across the end of an epoch. A slot is host memory on a host device; on another
 * device it is device memory, filled from a pinned copy in the loader's own stream.
 *
 * Thread rule: one thread at a time calls acquire, release and destroy of a loader; several loaders
 * may share a dataset. Ownership: the dataset and the device must outlive the loader; a slot
 * belongs to the consumer from acquire to release. */
#ifndef FF_LOADER_LOADER_H
#define FF_LOADER_LOADER_H

#include "format/base/host_memory.h"
#include "format/reader.h"
#include "loader/augment/augment.h"
#include "loader/device/device.h"
#include "loader/host/blocks.h"
#include "loader/sequence/order.h"

typedef struct ff_loader ff_loader;
struct ff_sequence; /* loader/sequence/sequence.h */

typedef enum ff_last_batch {
    /* An incomplete last batch is left out, unless the dataset is smaller than one batch. */
    FF_LAST_BATCH_DROP,
    /* It comes with count < rows; the rows after are zero, with weight 0 and class -1. */
    FF_LAST_BATCH_KEEP,
} ff_last_batch;

/* The position of a run, to be stored to continue with the same batches. `position` and `batch`
 * refer to the global order, so another world size continues the same order. */
typedef struct ff_loader_position {
    uint64_t seed;
    uint64_t batch;    /* samples a global batch */
    uint64_t position; /* of the next batch's first sample in its epoch */
    uint32_t epoch;
} ff_loader_position;

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
    FF_ACCESS_AUTO, /* FF_ACCESS_READ where memory cannot keep them, or does not (read_again), else
                       mapped; with order sequential and no threads mapped */
    FF_ACCESS_MAPPED, /* in place, through the page cache */
    FF_ACCESS_READ,   /* bypassing the page cache where possible: with threads ahead of their use
                         (ahead_bytes), many at a time and neighbours together, each compressed frame
                         once; else one at a time */
} ff_loader_access;

/* The output from an epoch on. */
typedef struct ff_loader_size {
    uint32_t epoch, height, width;
    ff_augment_spec augment;
} ff_loader_size;

typedef struct ff_loader_options {
    uint64_t batch; /* samples a global batch, > 0 */
    ff_last_batch last_batch;

    /* Order. block and group 0 with FF_ORDER_BLOCK: ff_order_default_block and _group; of a set
     * beyond memory the group depends on the memory that there is, so a run records it. Other
     * orders have neither. */
    ff_order_kind order;
    uint64_t block, group;
    uint64_t seed;

    /* The first batch: `position` samples into `epoch`; one after the last batch of an epoch means
     * the next epoch. After `epochs` epochs (including the started one) acquire returns NULL; 0 =
     * no end. */
    uint32_t epoch, epochs;
    uint64_t position;

    ff_augment_spec augment;

    /* The output. dtype: f32, f16 or bf16 (FF_DTYPE_COUNT = f32); u8 and u16 only from the same
     * dtype: values as stored, for normalizing elsewhere. layout: FF_CHW = N C H W, FF_HWC = N H W
     * C. height and width 0: the augmentation's (rrc, resize), else the dataset's, which must then
     * have one size. */
    ff_dtype dtype;
    ff_layout layout;
    uint32_t height, width;
    /* Other outputs, in the order of their epochs: each replaces height, width and augment (but for
     * mixup and cutmix, which stay) from its epoch on, which is at least 1. Copied. Slots have room
     * for the largest. */
    const ff_loader_size *sizes;
    size_t size_count;

    /* Label fields by name; label_count 0 = the dataset's first field (none where it has none). */
    const char *const *label;
    size_t label_count;
    bool classes_i64; /* class fields come as i64, not i32 */
    /* The number that each of the `class_count` classes of a class field has in batches, -1 = no
     * label; NULL = its own. Must outlive the loader. */
    const int32_t *class_numbers;
    uint32_t class_count;

    /* This loader's share of each global batch: the parts [share_begin, share_end) of share_total.
     * Rank r of w: r, r + 1, w; a replica with 2 of 2 + 3 + 3 parts: 0, 2, 8. With mixup and
     * cutmix cuts are at even positions, so that partners stay together. A share may be empty: its
     * slots have rows 0 but still come. share_total 0 = everything. */
    uint32_t share_begin, share_end, share_total;
    /* The share comes in so many batches of equal size, one after another: micro-batches of a step.
     * Of a last, smaller global batch those without samples do not come, but for the first. 0 = 1.
     */
    uint32_t cuts;

    /* Threads that fill slots; 0 = acquire fills them itself. -1 = as many as there are CPUs, at
     * most 8. Slots: how many batches may be ready, being filled or acquired at once; 0 = 4,
     * or 2 without threads. */
    int threads;
    uint32_t slots;

    ff_loader_access access;
    /* The memory for files, as of ff_host_memory_for_files, beside the slots; 0 = no limit of the
     * caller's own. Ranks of one job on this machine: they share the page cache, and each reads
     * ahead in its part of the memory; 0 = 1. */
    uint64_t memory_bytes;
    uint32_t memory_ranks;
    /* Memory for what is read before it is needed, where threads read samples and do not map them;
     * 0 = half of this rank's part of the memory for files, and with other orders than block
     * at most 128 MiB. */
    uint64_t ahead_bytes;
    ff_device *device; /* NULL = the loader creates a host device */
    ff_loader_feed feed;

    /* stop(stop_context) is asked while a resident set is uploaded (loader/gpu/batches.h); true
     * ends that with FF_INTERRUPTED. NULL = nothing is asked. */
    bool (*stop)(void *context);
    void *stop_context;

    /* Each slot's memory is a block of its own, which the consumer may keep (ff_loader_keep), with
     * `kept_bytes` after the slot's for its own use; 0 = no. Needs a unified device. */
    uint64_t kept_bytes;
} ff_loader_options;

/* batch 256, order random, drop, f32, CHW, no augmentation, first field, all threads, no end. */
ff_loader_options ff_loader_defaults(void);

/* Where a row of a batch comes from. */
typedef struct ff_slot_source {
    uint64_t sample[2]; /* the second differs only where two samples are mixed */
    float weight[2];    /* 1 and 0 unless mixed; their sum is 1 */
    bool padding;       /* after the last sample: a row of zeros */
} ff_slot_source;

/* The values of a label field. class: i32 or i64 [rows], -1 = unlabeled or padding; other kinds:
 * f32 [rows][width], 0 in padding. */
typedef struct ff_slot_label {
    void *values;   /* where the data is */
    ff_dtype dtype; /* FF_I32, FF_I64 or FF_F32 */
    uint32_t width;
    size_t field; /* of the dataset's metadata */
} ff_slot_label;

/* Bytes of a row's values. */
static inline uint64_t ff_slot_label_bytes(const ff_slot_label *label) {
    return (uint64_t)ff_dtype_bytes(label->dtype) * label->width;
}

typedef struct ff_slot {
    void *data;    /* [rows, C, H, W] or [rows, H, W, C] of dtype, device memory, 64 B aligned */
    float *weight; /* [rows] device: 1, or 0 for padding */
    /* [rows] device, with mixup or cutmix, else NULL: the weight of a row's own sample and label;
     * the rest is that of row ^ 1. 1 where a row is not mixed. */
    float *mix;
    ff_slot_label *label; /* [label_count] */
    size_t label_count;
    /* [rows], host: source and augmentation of each row; raw slots have no params (NULL). */
    const ff_slot_source *source;
    const ff_augment_params *params;
    uint64_t row_bytes; /* stride of data's rows */

    uint32_t rows;                    /* of this share (or cut) of a full batch; always the same */
    uint32_t count;                   /* samples in it; rows after them are padding */
    uint32_t channels, height, width; /* of its epoch */
    ff_dtype dtype;
    ff_layout layout;

    uint32_t epoch;
    uint64_t batch;          /* number of this batch in its epoch as the loader started it */
    uint64_t position;       /* in the epoch of this slot's first row */
    uint32_t global_count;   /* samples of the global batch, over all shares */
    bool last;               /* of its epoch */
    ff_loader_position next; /* what to store once this batch has been used */

    /* Data, labels and weights are valid for a stream that waits for it, or for the host after
     * event_synchronize; on a unified device they are valid when acquire returns. */
    ff_event *ready;

    uint32_t index; /* of the slot, 0..slots-1 */
} ff_slot;

/* Checks every option before anything is allocated or started. FF_USAGE names what is wrong (an
 * output larger than the padded samples, samples of different sizes without a resize, an impossible
 * dtype, an unknown field, a position after the end); also FF_NO_MEMORY and the device's errors. On
 * failure *loader = NULL. */
FF_MUST_USE ff_status ff_loader_create(ff_loader **loader, ff_dataset *dataset,
                                       const ff_loader_options *options, ff_error *error);

/* May be called at any time, also with acquired slots (they become invalid) and running threads:
 * stops and joins the threads and frees everything. NULL is accepted. */
void ff_loader_destroy(ff_loader **loader);

/* The next batch, in order; *slot = NULL after the last one. Waits until it is filled. An error in
 * filling it is returned here, that of its lowest row, and again by every later call; batches
 * before it are still returned. Slots may be held while others are acquired, up to one less than
 * there are (else FF_USAGE: the loader could never fill the next one). */
FF_MUST_USE ff_status ff_loader_acquire(ff_loader *loader, ff_slot **slot, ff_error *error);

/* Waits at most `ns` nanoseconds for what ff_loader_acquire would wait for: true where it would not
 * wait any more. Without threads the consumer fills the batch here, part by part; a call lasts
 * longer by at most one part of 32 rows. */
FF_MUST_USE bool ff_loader_await(ff_loader *loader, uint64_t ns);

/* Takes the memory of an acquired slot, data, labels and weights, whose addresses stay, and gives
 * the slot other memory; with kept_bytes, once after each acquire. The slot, whose pointers to them
 * then show the other memory, is released as ever. The caller owns the block, also after the
 * loader was destroyed: ff_blocks_give(*blocks, *block) ends it. FF_NO_MEMORY: nothing has
 * changed. */
FF_MUST_USE ff_status ff_loader_keep(ff_loader *loader, ff_slot *slot, ff_blocks **blocks,
                                     void **block, ff_error *error);

/* Returns a slot, to be filled again once `consumed` is done (NULL = the consumer has finished).
 * The consumer keeps the event, but must neither destroy nor re-record it before this slot is
 * acquired again or the loader destroyed. Slots may be released in any order. */
void ff_loader_release(ff_loader *loader, ff_slot *slot, ff_event *consumed);

/* Continues with the first batch of `sequence`, which differs from that of the creation in its
 * position alone (ff_sequence_init); an error in filling is forgotten. No slot may be held. Threads
 * and memory stay; it waits for the rows that are being filled. */
void ff_loader_seek(ff_loader *loader, const struct ff_sequence *sequence);

typedef struct ff_loader_info {
    uint64_t samples;                       /* of the dataset */
    uint64_t batches_per_epoch;             /* of an epoch from its start */
    uint64_t slot_bytes;                    /* stride of the slots, in the order of their indexes */
    uint64_t row_bytes;                     /* of the first size, as the next ones */
    uint32_t rows, channels, height, width; /* of a batch; raw slots: as stored */
    uint32_t slots;
    int threads;
    uint64_t block, group;        /* of block order */
    uint64_t order_bytes;         /* of memory for it, where storage order is not that of numbers */
    bool direct;                  /* samples are read, not mapped */
    uint64_t shard_bytes;         /* of all files */
    uint64_t beyond_memory_bytes; /* the same where memory cannot keep them; else 0 */
    ff_host_memory memory;        /* that there was for them */
    bool unmappable;              /* the process may not map all of them, so they are read */
    /* The set was mapped at first, and memory did not keep it: the bytes read for each one used
     * when that was noticed. 0 = the set is read as at first. */
    double read_again;
    uint64_t ahead_bytes; /* of memory, for what is read ahead; 0 = nothing is */
    /* Blocks of a group that could be read whole, where the memory is too little for all of them:
     * each block is then read in parts. 0 = groups fit. */
    uint64_t ahead_blocks;
} ff_loader_info;

/* "read directly: the set has 12.3 GiB, memory for files is 0.9 GiB, left of its cgroup's limit".
 */
typedef struct ff_loader_reading {
    char text[480];
} ff_loader_reading;
ff_loader_reading ff_loader_say_reading(const ff_loader_info *info);

/* How samples are read may change in the course of a loader: the rest stays. */
ff_loader_info ff_loader_describe(ff_loader *loader);

/* The dtype of a label field's values in a batch. */
ff_dtype ff_loader_label_dtype(const ff_field *field, bool classes_i64);

/* Slot 0 as in the given epoch, for its addresses: those of slot i are i * slot_bytes after them.
 * Its content is undefined. */
ff_slot ff_loader_first_slot(const ff_loader *loader, uint32_t epoch);

/* Since creation. */
typedef struct ff_loader_stats {
    uint64_t wait_ns;       /* spent in acquire: the consumer's wait for data */
    uint64_t fill_ns;       /* spent filling, summed over threads */
    uint64_t busy_ns;       /* of fill_ns, the processors' time; the threads waited for the rest */
    uint64_t pages_awaited; /* while filling: the storage's, read into memory */
    uint64_t samples;       /* acquired */
    uint64_t batches;
    uint64_t blocks; /* allocated, with kept_bytes */
} ff_loader_stats;

ff_loader_stats ff_loader_measure(ff_loader *loader);

/* The first row of part `part` of `total` of a global batch of `batch` samples. pairs: with mixup
 * or cutmix; it is then even, except for the end. */
uint64_t ff_loader_share(uint64_t batch, uint32_t part, uint32_t total, bool pairs);

#endif
