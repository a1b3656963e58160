/* The launchers of the loader's kernels: they make a batch on the device. Plain C; no CUDA header
 * is needed. Structs are passed to the kernels by value; pointers in them are to device memory.
 *
 * One batch is three launches in one stream, which may be captured and replayed, because the first
 * one advances a counter in device memory; or the last two alone, after a first one with the
 * batch's number as its argument:
 *     next    one thread: *batch = the next batch's number, position and slot
 *     params  one thread per row: the augmentation of each row (order, loader/augment/augment.h)
 *     move    one block per sample: gather, pad, crop, flip, cutout, normalize, convert,
 *             channels-last; labels and other columns
 *     augment instead of move, where samples are resampled, jittered, changed or mixed: several
 *             kernels, with rows of f32 between them (loader/augment/finish.h); and for batches of
 *             u8, with rows of u8 if nothing is changed
 * Two more launches copy the batch into a consumer's own memory:
 *     give    one block per row: labels, weights, samples' numbers
 *     planes  one thread per pixel: channels-last to planes
 *
 * Launchers return 0 or the number of a cudaError_t, FF_CUDA_INVALID_VALUE for what a kernel cannot
 * do. The results are bit-identical to the host's ff_augment_plain, ff_augment_at, ff_augment_mix,
 * ff_order_at, ff_resample_plain and loader/augment/finish.h, except for NaN. */
#ifndef FF_LOADER_CUDA_KERNELS_H
#define FF_LOADER_CUDA_KERNELS_H

#include "format/disk/dtype.h"
#include "loader/augment/augment.h"
#include "loader/cuda/types.h"
#include "loader/sequence/sampling.h"
#include "loader/sequence/sequence.h"

/* In device memory, zeroed before the first `next`, which writes all of it. */
typedef struct ff_cuda_batch {
    uint64_t number;      /* the next batch's */
    ff_sequence_batch at; /* this one */
    uint32_t slot;        /* its number mod slots */
    uint32_t reserved;
    ff_order order; /* its epoch's */
} ff_cuda_batch;

typedef struct ff_cuda_next {
    ff_sequence sequence;
    ff_order_spec order;
    uint32_t slots; /* > 0 */
    /* 0: the next batch; 1: batch `number`, whatever the last one was; 2: none, but the next batch
     * will be `number`. */
    uint32_t given;
    uint64_t number;
    ff_cuda_batch *batch;
} ff_cuda_next;

typedef struct ff_cuda_params {
    const ff_cuda_batch *batch;
    ff_augment_spec spec;
    uint64_t seed;
    uint32_t height, width, out_height, out_width;
    uint32_t rows, view;  /* view: of the samples (ff_sampling_index) */
    const uint32_t *size; /* [samples][2], heights and widths, instead of the two above; or NULL */
    ff_sampling sampling; /* its table is in device memory */
    const uint64_t *sample_of_place; /* [count] for block order if storage order differs, or NULL */
    /* Out, [rows]. Rows after batch->at.count: params all zero, weight 0. Weights are 1 else. */
    ff_augment_params *params;
    float *weight;
    float *mix; /* [rows] params' weight, 1 in padding; NULL if spec does not mix */
} ff_cuda_params;

/* Words of 4 bytes per sample: labels; a label of 8 bytes is two words. */
typedef struct ff_cuda_column {
    const uint32_t *from; /* sample or row i begins at from[i * width]; see ff_cuda_move.gather */
    uint32_t *to;         /* [rows][width] */
    uint32_t width;
    uint32_t padding; /* the value of rows after batch->at.count */
} ff_cuda_column;

#define FF_CUDA_COLUMNS 8
#define FF_CUDA_AFFINE  4

typedef struct ff_cuda_move {
    const ff_cuda_batch *batch;
    const ff_augment_params *params; /* [rows], from ff_cuda_params */

    /* Stored samples, aligned to 16 bytes, as is their stride. Row r of the batch is row i of
     * `samples`, which begin at batch->slot * slot_bytes, as do the columns' `from`:
     *   gather: i = row_of ? row_of[params[r].sample] : params[r].sample
     *   else:   i = r */
    const uint8_t *samples;
    uint64_t row_bytes, slot_bytes;
    uint32_t gather; /* 1 or 0 */
    const uint32_t *row_of;

    /* As stored: u8, f16, bf16 or f32; CHW or HWC. */
    ff_dtype from;
    ff_layout from_layout;
    uint32_t channels, height, width;

    /* The output: [rows, out_height, out_width, out_channels] of f32, f16 or bf16, 256 B aligned;
     * channels from `channels` on and rows after batch->at.count are zero. */
    void *data;
    ff_dtype to;
    uint32_t rows, out_height, out_width, out_channels;

    ff_pad_mode pad_mode;
    const uint32_t *black; /* [channels] elements of `to`, each in the low bytes of its word */
    const void *table;     /* u8 only: [channels][256] elements of `to` */
    /* If affine is 1 (loader/augment/affine.h decides): every element of the table, f16 or bf16, is
     * fma(value, scale, bias) rounded, and channels <= FF_CUDA_AFFINE. */
    uint32_t affine;
    float scale[FF_CUDA_AFFINE], bias[FF_CUDA_AFFINE];

    uint32_t columns;
    ff_cuda_column column[FF_CUDA_COLUMNS];
} ff_cuda_move;

/* Samples are moved or resampled into `values`, jittered and changed if asked for, and finished:
 * cutout, mixing with row ^ 1, conversion, channels-last, columns. */
typedef struct ff_cuda_augment {
    /* As for a move, with black and table of f32; samples need only be aligned to their elements,
     * and may be u16. */
    ff_cuda_move move;
    /* Scratch, 16 B aligned: [rows][channels][out_height][out_width] f32; u8 if the batch is u8 and
     * not changed. */
    void *values;

    /* Samples of several sizes: row i begins at offset[i] bytes; sample s is size[s][0] x
     * size[s][1]. NULL: rows are row_bytes apart, all height x width. */
    const uint64_t *offset;
    const uint32_t *size;

    /* params have FF_AUGMENT_BOX or FF_AUGMENT_RESIZE. multiply, add: [channels]; a resampled u8
     * value v becomes v * multiply + add. */
    uint32_t resampled;
    const float *multiply, *add;

    /* Colours are jittered by jitter[4] (ff_jitter_at) in rows of 1 or 3 channels; `normalised`
     * rows are denormalised before. mean, std: [channels]. */
    uint32_t jittered, normalised;
    double jitter[4];
    uint64_t seed;
    uint32_t again; /* samples may come several times: jitter and changes are drawn by positions */
    uint32_t view;  /* as in ff_cuda_params */
    const float *mean, *std;

    /* Rows of 1 or 3 channels become u8: value * level, rounded, after jitter; without jitter
     * `normalised` rows are denormalised first. They are changed (ff_changes_at) and become
     * shown[channel][u8]. In batches of u8 level is 1, and shown the value itself. images: scratch,
     * [rows][ff_change_images()][channels][out_height][out_width]. */
    uint32_t changed;
    float level;
    ff_change_spec change;
    const float *shown; /* [channels][256] */
    uint8_t *images;
} ff_cuda_augment;

/* Values of a batch that are copied, or made of its params. */
typedef struct ff_cuda_give_column {
    const uint32_t *from; /* [rows][words]; NULL: of words 2, the samples' numbers or, if `sources`
                           * is 1, their sets, -1 in padding */
    uint32_t *to;         /* [rows][words] */
    uint32_t words;
    uint32_t other; /* 1: row i has the values of row i ^ 1, if both hold samples; else 0 */
    uint32_t sources;
} ff_cuda_give_column;

#define FF_CUDA_GIVE_COLUMNS 16

/* The sets that a dataset unites: samples from begin[i] on are of set i. */
#define FF_CUDA_SETS 64
typedef struct ff_cuda_sets {
    uint64_t begin[FF_CUDA_SETS];
    uint32_t count;
} ff_cuda_sets;

typedef struct ff_cuda_give {
    const ff_cuda_batch *batch;
    const ff_augment_params *params; /* [rows] */
    uint32_t rows, columns;
    ff_cuda_sets sets;
    ff_cuda_give_column column[FF_CUDA_GIVE_COLUMNS];
} ff_cuda_give;

/* to[row][channel][pixel] = from[row][pixel][channel]. */
typedef struct ff_cuda_planes {
    const void *from; /* [rows][pixels][from_channels], of which the first `channels` are copied */
    void *to;         /* [rows][channels][pixels] */
    uint64_t pixels;
    uint32_t rows, channels, from_channels;
    uint32_t element_bytes; /* 1, 2 or 4 */
} ff_cuda_planes;

/* Every entry is required, except augment, and except give and planes without ff_batches_give;
 * without augment samples are resampled, jittered and mixed on the host. Thread rule: as the
 * stream's. */
typedef struct ff_loader_kernels {
    int (*next)(const ff_cuda_next *job, ff_cuda_stream stream);
    int (*params)(const ff_cuda_params *job, ff_cuda_stream stream);
    int (*move)(const ff_cuda_move *job, ff_cuda_stream stream);
    int (*augment)(const ff_cuda_augment *job, ff_cuda_stream stream);
    int (*give)(const ff_cuda_give *job, ff_cuda_stream stream);
    int (*planes)(const ff_cuda_planes *job, ff_cuda_stream stream);
} ff_loader_kernels;

#ifdef __cplusplus
extern "C" {
#endif

/* The module's, and in tests the simulator's. Only called through the table. */
int ff_cuda_next_launch(const ff_cuda_next *job, ff_cuda_stream stream);
int ff_cuda_params_launch(const ff_cuda_params *job, ff_cuda_stream stream);
int ff_cuda_move_launch(const ff_cuda_move *job, ff_cuda_stream stream);
int ff_cuda_augment_launch(const ff_cuda_augment *job, ff_cuda_stream stream);
int ff_cuda_give_launch(const ff_cuda_give *job, ff_cuda_stream stream);
int ff_cuda_planes_launch(const ff_cuda_planes *job, ff_cuda_stream stream);
extern const ff_loader_kernels ff_loader_cuda_kernels;

#ifdef __cplusplus
}
#endif

#endif
