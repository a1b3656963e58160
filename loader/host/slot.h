/* A loader's results: batches in slots, and its description of itself. options.h has its options.
 *
 * Thread rule: plain data and pure functions. */
#ifndef FF_LOADER_SLOT_H
#define FF_LOADER_SLOT_H

#include "format/cli/host_memory.h"
#include "format/disk/metadata.h"
#include "loader/augment/augment.h"
#include "loader/device/device.h"

/* The position of a run, to be stored to continue with the same batches. `position` and `batch`
 * refer to the global order, so another world size continues the same order. */
typedef struct ff_loader_position {
    uint64_t seed;
    uint64_t batch;    /* samples a global batch */
    uint64_t position; /* the next batch's first sample in its epoch */
    uint32_t epoch;
    uint32_t cut; /* the next one of that batch's cuts: not 0 only for the same shares and cuts */
} ff_loader_position;

/* Where a row of a batch comes from. */
typedef struct ff_slot_source {
    uint64_t sample[2]; /* the second differs only if two samples are mixed */
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

/* The images of a view of the batch's samples, in the memory at `data`. */
typedef struct ff_slot_view {
    uint64_t offset; /* after `data`: 0 for the first view */
    uint64_t row_bytes;
    uint32_t height, width;
} ff_slot_view;

/* Bytes of a row's values. */
static inline uint64_t ff_slot_label_bytes(const ff_slot_label *label) {
    return (uint64_t)ff_dtype_bytes(label->dtype) * label->width;
}

typedef struct ff_slot {
    void *data;    /* [rows, C, H, W] or [rows, H, W, C] of dtype, device memory, 64 B aligned */
    float *weight; /* [rows] device: 1, or 0 for padding */
    /* [rows] device, with mixup or cutmix, else NULL: the weight of a row's own sample and label;
     * row ^ 1 has the rest. 1 if a row is not mixed. */
    float *mix;
    ff_slot_label *label; /* [label_count] */
    size_t label_count;
    /* [rows], and [views][rows], host: source and augmentation of each row; raw slots have no
     * params (NULL). */
    const ff_slot_source *source;
    const ff_augment_params *params;
    uint64_t row_bytes; /* stride of data's rows */
    /* [views]. data, row_bytes, height and width are the first view's, and are those of its epoch;
     * `view` has the sizes of the first epoch. Raw slots have one view. */
    const ff_slot_view *view;
    uint32_t views;

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
    ff_loader_position next; /* what to store after this batch was used */

    /* Data, labels and weights are valid for a stream that waits for it, or for the host after
     * event_synchronize; on a unified device they are valid when acquire returns. */
    ff_event *ready;

    uint32_t index; /* the slot's, 0..slots-1 */
} ff_slot;

/* The dtype of a label field's values in a batch. */
ff_dtype ff_loader_label_dtype(const ff_field *field, bool classes_i64);

typedef struct ff_loader_info {
    uint64_t samples;                       /* of an epoch: of the dataset, or selected */
    uint64_t batches_per_epoch;             /* of an epoch from its start */
    uint64_t slot_bytes;                    /* stride of the slots, in the order of their indexes */
    uint64_t row_bytes;                     /* of the first size, as the next ones */
    uint32_t rows, channels, height, width; /* of a batch; raw slots: as stored */
    uint32_t slots;
    int threads;
    uint64_t block, group; /* of orders with blocks */
    uint32_t machines;     /* of order node-block */
    uint64_t order_bytes;  /* memory for the order, if samples are not stored in the order of their
                              numbers */
    bool direct;           /* samples are read, not mapped */
    uint64_t shard_bytes;  /* of all files */
    uint64_t beyond_memory_bytes; /* the same if memory cannot keep them; else 0 */
    ff_host_memory memory;        /* the memory available for them */
    bool unmappable;              /* the process may not map all of them, so they are read */
    /* If the set was mapped at first and memory did not keep it: the bytes read for each byte used
     * when that was noticed. 0 = the way of reading has not changed. */
    double read_again;
    uint64_t ahead_bytes; /* of memory, for reading ahead; 0 = nothing is read ahead */
    /* The number of a group's blocks that can be read whole, if the memory is too small for all:
     * each block is then read in parts. 0 = groups fit. */
    uint64_t ahead_blocks;
    /* If the cache of a set behind a URL is smaller than the pieces that the order mixes: the bytes
     * of the cache and of the pieces. Else 0. */
    uint64_t cache_bytes, cache_wanted;
} ff_loader_info;

/* "read directly: the set has 12.3 GiB, memory for files is 0.9 GiB, left of its cgroup's limit".
 */
typedef struct ff_loader_reading {
    char text[480];
} ff_loader_reading;
ff_loader_reading ff_loader_say_reading(const ff_loader_info *info);

/* What is said at the start of a cache that is too small for the order; "" = it is not. */
ff_loader_reading ff_loader_say_cache(const ff_loader_info *info);

/* Counted since the loader's creation. */
typedef struct ff_loader_stats {
    uint64_t wait_ns;       /* spent in acquire: the consumer's wait for data */
    uint64_t fill_ns;       /* spent filling, summed over threads */
    uint64_t busy_ns;       /* processor time, nearly all in fill_ns; in the rest threads waited */
    uint64_t queued_ns;     /* estimated: the part of this wait that was for a processor, with the
                               threads that read ahead */
    uint64_t pages_awaited; /* while filling: the storage's, read into memory */
    uint64_t samples;       /* acquired */
    uint64_t batches;
    uint64_t blocks; /* allocated, with kept_bytes */
} ff_loader_stats;

#endif
