/* Room loader/host, floor 7: batches made by threads of the host.
 *
 * options.h has a loader's options; settings.c checks and resolves it once, views.c several views
 * of a sample, and reading.c decides how the files are read. ring.c hands out slots: threads take
 * runs of rows and fill them with gather.c, which finds each sample, augments it and writes its
 * row. If memory cannot keep the set, ahead/ reads the rows that come next in large requests. A
 * consumer may keep a slot's memory (blocks.h); slot.h has the loader's results; this header is the
 * door: create, acquire, release, destroy.
 *
 * May include format, loader/augment, loader/device, loader/selection, loader/sequence.
 *
 * Batches from a packed dataset: the trainer's input.
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
 * A sample's augmentation depends on (seed, epoch, sample, view) and its place on (seed, epoch,
 * position), so batches are bit-identical for any number of threads and slots, for any world size
 * (ranks take slices of the same global batch), and after a resume. Threads fill slots ahead of
 * their use, across the end of an epoch. A slot is host memory on a host device; on another device
 * it is device memory, filled from a pinned copy in the loader's own stream.
 *
 * Thread rule: one thread at a time calls acquire, release and destroy of a loader; several loaders
 * may share a dataset. Ownership: the dataset and the device must outlive the loader; a slot
 * belongs to the consumer from acquire to release. */
#ifndef FF_LOADER_LOADER_H
#define FF_LOADER_LOADER_H

#include "loader/host/blocks.h"
#include "loader/host/options.h"
#include "loader/host/slot.h"
#include "loader/sequence/sequence.h"

typedef struct ff_loader ff_loader;

/* Checks every option before anything is allocated or started. FF_USAGE names what is wrong (an
 * output larger than the padded samples, samples of different sizes without a resize, an impossible
 * dtype, an unknown field, a position after the end); also FF_NO_MEMORY and the device's errors. On
 * failure *loader = NULL. */
FF_MUST_USE ff_status ff_loader_create(ff_loader **loader, ff_dataset *dataset,
                                       const ff_loader_options *options, ff_error *error);

/* May be called at any time, also with acquired slots (they become invalid) and running threads:
 * stops and joins the threads and frees everything. NULL is accepted. */
void ff_loader_destroy(ff_loader **loader);

/* The next batch, in order; *slot = NULL after the last one. Waits until it is filled. If filling
 * it failed, returns the error of its lowest row, now and in every later call; batches before it
 * are still returned. Slots may be held while others are acquired, except that one slot must stay
 * free (else FF_USAGE: the loader could never fill the next one). */
FF_MUST_USE ff_status ff_loader_acquire(ff_loader *loader, ff_slot **slot, ff_error *error);

/* Waits at most `ns` nanoseconds for what ff_loader_acquire would wait for: true if it would no
 * longer wait. Without threads the consumer fills the batch here, part by part; a call lasts longer
 * by at most one part of 32 rows. */
FF_MUST_USE bool ff_loader_await(ff_loader *loader, uint64_t ns);

/* Takes the memory of an acquired slot, data, labels and weights, whose addresses stay; the slot
 * gets other memory; with kept_bytes, once after each acquire. The slot then points to the
 * other memory, and is released as usual. The caller owns the block, also after the loader was
 * destroyed: ff_blocks_give(*blocks, *block) returns it. FF_NO_MEMORY: nothing has changed. */
FF_MUST_USE ff_status ff_loader_keep(ff_loader *loader, ff_slot *slot, ff_blocks **blocks,
                                     void **block, ff_error *error);

/* Returns a slot, to be filled again once `consumed` is done (NULL = the consumer has finished).
 * The consumer keeps the event, but must neither destroy nor re-record it before this slot is
 * acquired again or the loader destroyed. Slots may be released in any order. */
void ff_loader_release(ff_loader *loader, ff_slot *slot, ff_event *consumed);

/* Continues with the first batch of `sequence`, which may differ from the sequence at creation only
 * in its position (ff_sequence_init); an error in filling is forgotten. No slot may be held.
 * Threads and memory stay; the call waits for the rows that are being filled. */
void ff_loader_seek(ff_loader *loader, const ff_sequence *sequence);

/* The description of the loader. Only the way of reading samples may change later. */
ff_loader_info ff_loader_describe(ff_loader *loader);

/* Slot 0 as in `epoch`, for its addresses: slot i's are i * slot_bytes after them. Its content is
 * undefined. */
ff_slot ff_loader_first_slot(const ff_loader *loader, uint32_t epoch);

/* Since creation. */
ff_loader_stats ff_loader_measure(ff_loader *loader);

#endif
