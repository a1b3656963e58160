/* Room loader/gpu, floor 9: batches made by a device's kernels.
 *
 * placement.c chooses where the set stays: whole in device memory (resident.c), or streamed from
 * the host's ring. batch_jobs.c prepares the memory and the arguments of the launches for one size
 * of batch; batch_augment.c does the same for samples that are resampled, jittered or mixed. This
 * header combines them into prepare, enqueue and finish, so that a recorded step reads its batch
 * from fixed buffers (batch_buffers.c). batch_give.c copies a batch into a consumer's memory;
 * batch_rates.c times the stages.
 *
 * May include format, loader/augment, loader/cuda, loader/device, loader/host, loader/rates.
 *
 * Batches made by the device's kernels in fixed device buffers, from which a recorded training step
 * reads its input.
 *
 *     ff_batches_options options = {.loader = ff_loader_defaults(), ...};
 *     ff_batches_create(&batches, dataset, &options, &error);
 *     for (;;) {
 *         ff_batches_prepare(batches, stream, &batch, &error);   // host; never in a capture
 *         if (!batch) break;                                     // after the last one
 *         ff_batches_enqueue(batches, stream, &error);           // or launch a recording of it
 *         ... network reads ff_batches_buffers(batches)->data in `stream` ...
 *         ff_batches_finish(batches, stream, &error);            // host; never in a capture
 *     }
 *
 * The batches equal, bit for bit, the batches of ff_loader on the host with the same options, in
 * layout HWC, with pixels zero-padded to `channels` channels. Several views of each sample are
 * written by one enqueue.
 *
 * Placements. The kernels read the current batch number from a small struct in device memory and
 * advance it themselves (or prepare sets it: option places), so a recording of ff_batches_enqueue
 * may be launched repeatedly:
 *   resident  the whole set is in device memory as stored; a step costs the host nothing: prepare
 *             and finish only count.
 *   stream    threads copy raw samples into a ring of pinned slots, a separate stream copies them
 *             to the device, the kernels read slot (step mod slots). prepare makes `stream` wait
 *             for the copy, finish releases the slot once the kernels are done.
 *   host      like stream, but the threads also augment: for what the kernels cannot do.
 *   auto      resident if the set and `reserve_bytes` fit the free device memory, else stream;
 *             host if the kernels cannot make the batches. ff_batches_info.reason states the
 *             choice and why.
 *
 * Evaluation needs only one object: with epochs 0, order sequential and last_batch keep, every
 * info.batches_per_epoch batches are one pass.
 *
 * Ownership: dataset, device and kernels must outlive the batches, which own the buffers. Thread
 * rule: one thread at a time. */
#ifndef FF_LOADER_BATCHES_H
#define FF_LOADER_BATCHES_H

#include "loader/host/loader.h"
#include "loader/rates/rates.h"

typedef struct ff_batches ff_batches;
struct ff_loader_kernels; /* loader/cuda/kernels.h: the launchers, from the CUDA module */
struct ff_sequence;       /* loader/sequence/sequence.h */

typedef enum ff_placement {
    FF_PLACEMENT_AUTO,
    FF_PLACEMENT_RESIDENT,
    FF_PLACEMENT_STREAM,
    FF_PLACEMENT_HOST,
    FF_PLACEMENT_COUNT,
} ff_placement;

/* "auto" "resident" "stream" "host". */
const char *ff_placement_name(ff_placement placement);
/* false for any other name. */
bool ff_placement_parse(const char *name, ff_placement *placement);

typedef struct ff_batches_options {
    /* The options of ff_loader_create. device is required; dtype f32, f16 or bf16; layout is
     * ignored (HWC). When streaming, threads -1 and slots 0 are chosen from rates measured at the
     * start. */
    ff_loader_options loader;
    const struct ff_loader_kernels *kernels;
    ff_placement placement;
    uint32_t channels;      /* per pixel of a batch, at least the dataset's; 0 = the dataset's */
    uint64_t reserve_bytes; /* device memory to leave free for the network */
    bool quiet;             /* no progress line while the set is uploaded */
    /* With places, prepare enqueues the lookup of the batch's place in its stream, and enqueue, or
     * a recording of it, then makes that batch, any number of times; otherwise enqueue itself
     * advances to the next batch. */
    bool places;
} ff_batches_options;

/* Fixed for the life of the batches; device memory. */
typedef struct ff_batch_buffers {
    void *data;               /* [rows, height, width, channels] of dtype, 256 B aligned */
    const ff_slot_view *view; /* [views], host array: each view's images, as in ff_slot */
    uint32_t views;
    float *weight;              /* [rows]: 1, or 0 for padding */
    const ff_slot_label *label; /* [label_count] host array of device pointers, as ff_slot's */
    ff_augment_params
        *params; /* [rows]: each row's augmentation; not written with placement host */
    float *mix;  /* [rows], as ff_slot's; NULL without mixup and cutmix */
    size_t label_count;
} ff_batch_buffers;

/* What the host knows of a batch without reading device memory; fields as in ff_slot. */
typedef struct ff_batch_info {
    uint32_t count;
    uint32_t epoch;
    uint64_t batch;
    uint64_t position;
    uint32_t global_count;
    bool last;
    ff_loader_position next;
} ff_batch_info;

typedef struct ff_batches_info {
    ff_loader_info loader; /* slots and threads are 0 if resident */
    ff_dtype dtype;
    uint32_t channels; /* per pixel of a batch */
    ff_placement placement;
    const char *reason;    /* one sentence: the choice and why; owned by the batches */
    uint64_t device_bytes; /* total allocated on the device */
    uint64_t pinned_bytes;
} ff_batches_info;

/* Checks everything and chooses the placement. If the placement is resident, uploads the set from
 * the mapped shards through pinned chunks, with several threads that verify checksums by the
 * dataset's policy; shows a progress line, and returns FF_INTERRUPTED after a signal. FF_USAGE:
 * what ff_loader_create refuses, or a placement that is not possible, with the reason;
 * FF_NO_MEMORY; FF_BAD_DATA and FF_IO for samples; the device's errors. On failure *batches =
 * NULL. */
FF_MUST_USE ff_status ff_batches_create(ff_batches **batches, ff_dataset *dataset,
                                        const ff_batches_options *options, ff_error *error);
/* The work enqueued in streams must be done. NULL is accepted. */
void ff_batches_destroy(ff_batches **batches);

const ff_batch_buffers *ff_batches_buffers(const ff_batches *batches);
ff_batches_info ff_batches_describe(const ff_batches *batches);

/* Begins a step: *batch describes the next batch, valid until the next call; NULL after the last
 * one. Called again before finish, it does the same for another stream. When streaming, it waits
 * until the batch has been gathered (and returns an error of the gathering) and makes `stream` wait
 * for the batch's copy. */
FF_MUST_USE ff_status ff_batches_prepare(ff_batches *batches, ff_stream *stream,
                                         const ff_batch_info **batch, ff_error *error);
/* Waits at most `ns` nanoseconds for what ff_batches_prepare would wait for on the host. True if
 * ff_batches_prepare would no longer wait. */
FF_MUST_USE bool ff_batches_await(ff_batches *batches, uint64_t ns);
/* Enqueues in `stream` the kernels that write the next batch into the buffers. May be captured;
 * does not advance the host's count. FF_FAILED if a launcher fails. */
FF_MUST_USE ff_status ff_batches_enqueue(ff_batches *batches, ff_stream *stream, ff_error *error);
/* Call it instead of ff_batches_enqueue for a batch that is not used: the next enqueue continues
 * after it. */
FF_MUST_USE ff_status ff_batches_skip(ff_batches *batches, ff_stream *stream, ff_error *error);
/* Sets the size of all batches from now on, by its index: 0 is the options' own size, 1 and up are
 * those of ff_loader_options.sizes; -1: each epoch's own size. For warming up: the batches' content
 * is arbitrary. */
void ff_batches_set_size(ff_batches *batches, int size);
/* Ends the step: the slot is free once all work enqueued in `stream` so far is done. The next
 * enqueue overwrites the buffers, in the same stream or in one that waits for it. */
FF_MUST_USE ff_status ff_batches_finish(ff_batches *batches, ff_stream *stream, ff_error *error);

/* The part of a batch that is copied to a consumer's memory. */
typedef enum ff_batch_content {
    FF_BATCH_IMAGES,  /* data, without channels that only pad */
    FF_BATCH_OWN,     /* values of label fields, weights or mix */
    FF_BATCH_OTHER,   /* the same of row i ^ 1, if both rows hold samples (a mixed row's partner) */
    FF_BATCH_SAMPLES, /* [rows] i64: the samples' numbers in the set, -1 in padding */
    FF_BATCH_SOURCES  /* [rows] i64: among united sets the ones of the samples, -1 in padding */
} ff_batch_content;

typedef struct ff_batch_output {
    ff_batch_content content;
    ff_layout layout;   /* images: FF_HWC, [rows, height, width, channels], or FF_CHW */
    uint32_t view;      /* images: of which view */
    const void *from;   /* own and other: source in the buffers */
    uint64_t row_bytes; /* own and other: a multiple of 4 */
    void *to;           /* device memory, aligned to its elements */
} ff_batch_output;

/* Continues with the first batch of `sequence`, which may differ from the sequence at creation only
 * in its position (ff_sequence_init). Recordings stay valid. Needs the option places; no work of a
 * batch may be enqueued between prepare and finish. */
void ff_batches_seek(ff_batches *batches, const struct ff_sequence *sequence);

/* Enqueues copies of the batch in the buffers; call it after ff_batches_enqueue in the same stream.
 * May be captured with it. */
FF_MUST_USE ff_status ff_batches_give(ff_batches *batches, const ff_batch_output *output,
                                      size_t count, ff_stream *stream, ff_error *error);

/* For warming up and timing, between a step's prepare and finish: enqueues the batch of the last
 * enqueue again. */
FF_MUST_USE ff_status ff_batches_enqueue_again(ff_batches *batches, ff_stream *stream,
                                               ff_error *error);
/* Makes the next enqueue write the prepared batch, whatever was enqueued before; the stream is that
 * of these enqueues, or one that is ordered with it. Allocates nothing. */
FF_MUST_USE ff_status ff_batches_rewind(ff_batches *batches, ff_stream *stream, ff_error *error);

/* Nanoseconds that prepare spent waiting for data, and the numbers of batches and samples returned,
 * since creation. */
ff_loader_stats ff_batches_measure(ff_batches *batches);

/* Measures the rates of the stages that make batches, before the first step (FF_USAGE later), in
 * about 4 * budget_ns. `options` are those of ff_batches_create. The buffers' contents are lost. */
FF_MUST_USE ff_status ff_batches_rates(ff_batches *batches, ff_dataset *dataset,
                                       const ff_batches_options *options, uint64_t budget_ns,
                                       ff_rates *rates, ff_error *error);

#endif
