/* Batches made on a device by its own kernels, in fixed device buffers: what a recorded training
 * step reads its input from.
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
 * Same batches, bit for bit, as ff_loader gives with the same options on the host, in layout HWC
 * with the channels of a pixel padded by zeros to `channels`.
 *
 * Placements. The kernels take where they are from a small struct in device memory, which they
 * advance themselves, so a recording of ff_batches_enqueue may be launched again and again:
 *   resident  the whole set lies in device memory as stored, and a step costs the host nothing:
 *             prepare and finish only count.
 *   stream    threads copy raw samples into a ring of pinned slots, a stream of its own copies them
 *             to the device, the kernels read slot (step mod slots). prepare makes `stream` wait
 *             for the copy, finish tells the ring that the slot is free after the kernels.
 *   host      as stream, but the threads also augment: for what the kernels cannot do.
 *   auto      resident where the set and `reserve_bytes` fit the free device memory, else stream;
 *             host where the kernels cannot. What was chosen and why: ff_batches_info.reason.
 *
 * Evaluation needs no new object for each pass: with epochs 0, order sequential and last_batch
 * keep, every info.batches_per_epoch batches are one pass.
 *
 * Ownership: dataset, device and kernels outlive the batches; buffers and their contents are the
 * batches'. Thread rule: one thread at a time. */
#ifndef FF_LOADER_BATCHES_H
#define FF_LOADER_BATCHES_H

#include "loader/loader.h"
#include "loader/rates.h"

typedef struct ff_batches ff_batches;
struct ff_loader_kernels; /* loader/cuda/kernels.h: the launchers, from the CUDA module */

typedef enum ff_placement {
    FF_PLACEMENT_AUTO,
    FF_PLACEMENT_RESIDENT,
    FF_PLACEMENT_STREAM,
    FF_PLACEMENT_HOST,
    FF_PLACEMENT_COUNT,
} ff_placement;

/* "auto" "resident" "stream" "host". */
const char *ff_placement_name(ff_placement placement);
/* false where the name is none of them. */
bool ff_placement_parse(const char *name, ff_placement *placement);

typedef struct ff_batches_options {
    /* As for ff_loader_create. device is required; dtype f32, f16 or bf16; layout is ignored (HWC).
     * Streaming, threads -1 and slots 0 are chosen from rates that are measured at the start. */
    ff_loader_options loader;
    const struct ff_loader_kernels *kernels;
    ff_placement placement;
    uint32_t channels;      /* of a pixel in a batch, at least the dataset's; 0 = the dataset's */
    uint64_t reserve_bytes; /* device memory to leave free: the network's */
    bool quiet;             /* no progress line while the set is uploaded */
} ff_batches_options;

/* Fixed for the life of the batches; device memory. */
typedef struct ff_batch_buffers {
    void *data;                 /* [rows, height, width, channels] of dtype, 256 B aligned */
    float *weight;              /* [rows]: 1, or 0 for padding */
    const ff_slot_label *label; /* [label_count] host array of device pointers, as ff_slot's */
    ff_augment_params *params;  /* [rows]: what became of each row; placement host: nothing */
    float *mix;                 /* [rows], as ff_slot's; NULL where nothing is mixed */
    size_t label_count;
} ff_batch_buffers;

/* What the host knows of a batch without looking at it; fields as in ff_slot. */
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
    ff_loader_info loader; /* slots and threads 0 where resident */
    ff_dtype dtype;
    uint32_t channels; /* of a pixel in a batch */
    ff_placement placement;
    const char *reason;    /* one sentence: what was chosen and why; the batches' */
    uint64_t device_bytes; /* taken on the device, all in all */
    uint64_t pinned_bytes;
} ff_batches_info;

/* Checks everything, chooses, and, where resident, uploads the set: from the mapped shards through
 * pinned chunks, several threads verifying checksums as the dataset was opened to do; with a
 * progress line, and FF_INTERRUPTED after a signal. FF_USAGE: what ff_loader_create refuses, or a
 * placement that cannot be had, with the reason; FF_NO_MEMORY; FF_BAD_DATA and FF_IO of samples;
 * the device's errors. On failure *batches = NULL. */
FF_MUST_USE ff_status ff_batches_create(ff_batches **batches, ff_dataset *dataset,
                                        const ff_batches_options *options, ff_error *error);
/* After the work given to streams is done. NULL is accepted. */
void ff_batches_destroy(ff_batches **batches);

const ff_batch_buffers *ff_batches_buffers(const ff_batches *batches);
ff_batches_info ff_batches_describe(const ff_batches *batches);

/* Begins a step: *batch = what the next batch is, valid until the next call, or NULL after the
 * last one. Called again before finish, it does the same for another stream. Streaming, it waits
 * until the batch has been gathered (an error of that comes here) and makes `stream` wait for its
 * copy. */
FF_MUST_USE ff_status ff_batches_prepare(ff_batches *batches, ff_stream *stream,
                                         const ff_batch_info **batch, ff_error *error);
/* Gives `stream` the kernels that write the next batch into the buffers. May be captured; has no
 * effect on the host's own count. FF_FAILED where a launcher fails. */
FF_MUST_USE ff_status ff_batches_enqueue(ff_batches *batches, ff_stream *stream, ff_error *error);
/* Ends the step: everything given to `stream` so far has read what it reads of the slot. The
 * buffers are overwritten by the next enqueue, in the same stream or one that waits for it. */
FF_MUST_USE ff_status ff_batches_finish(ff_batches *batches, ff_stream *stream, ff_error *error);

/* Between a step's prepare and its finish, to warm up and to time: gives `stream` the kernels that
 * write the batch of the last enqueue once more. */
FF_MUST_USE ff_status ff_batches_enqueue_again(ff_batches *batches, ff_stream *stream,
                                               ff_error *error);
/* Then, once that is done: the next enqueue makes the prepared batch, whatever was enqueued. */
FF_MUST_USE ff_status ff_batches_rewind(ff_batches *batches, ff_error *error);

/* Nanoseconds spent in prepare waiting for data, and batches and samples given, since creation. */
ff_loader_stats ff_batches_measure(ff_batches *batches);

/* The rates of the stages that make batches, before the first step (FF_USAGE later), in about
 * 4 * budget_ns. `options` are those they were created with. The buffers' contents are lost. */
FF_MUST_USE ff_status ff_batches_rates(ff_batches *batches, ff_dataset *dataset,
                                       const ff_batches_options *options, uint64_t budget_ns,
                                       ff_rates *rates, ff_error *error);

#endif
