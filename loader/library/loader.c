#include "loader/library/loader.h"

#include "format/base/memory.h"
#include "loader/library/status.h"

#include <stdlib.h>

enum { LOOK_NS = 20000000 }; /* the longest wait without a check */

/* ---- whose turn it is ----------------------------------------------------------------------- */

ff_status ff_library_enter(ffload_loader *loader, ff_status given, ff_error *error) {
    FF_TRY(given);
    FF_TRY(ff_library_check_process(loader->process, "the loader", error));
    if (atomic_exchange(&loader->busy, true))
        return ff_fail(error, FF_USAGE, "the loader is used from two threads at once");
    ff_library_gpu_enter(&loader->gpu);
    return FF_OK;
}

ff_status ff_library_leave(ffload_loader *loader, ff_status status) {
    ff_library_gpu_leave(&loader->gpu);
    atomic_store(&loader->busy, false);
    return status;
}

ff_status ff_library_look(ffload_loader *loader, ff_status given, ff_error *error) {
    FF_TRY(given);
    FF_TRY(ff_library_check_process(loader->process, "the loader", error));
    pthread_mutex_lock(&loader->place);
    return FF_OK;
}

ff_status ff_library_look_away(ffload_loader *loader, ff_status status) {
    pthread_mutex_unlock(&loader->place);
    return status;
}

/* The batch after the last returned one begins at `next`; with `fresh` no batch was returned yet.
 */
static void set_place(ffload_loader *loader, ff_loader_position next, bool fresh) {
    pthread_mutex_lock(&loader->place);
    loader->next = next;
    loader->fresh = fresh;
    pthread_mutex_unlock(&loader->place);
}

/* ---- creating and destroying ---------------------------------------------------------------- */

ff_loader_info ff_library_info(const ffload_loader *loader) {
    return loader->inner ? ff_loader_describe(loader->inner)
                         : ff_batches_describe(loader->gpu.batches).loader;
}

static bool is_on_gpu(const ffload_loader *loader) {
    return loader->settings.ordinal != FF_LIBRARY_CPU;
}

static ff_status start_host(ffload_loader *loader, ff_error *error) {
    ff_dataset *dataset = loader->dataset->inner;
    ff_loader_options options = loader->settings.loader;
    FF_TRY(ff_library_plan_added_bytes(&options.kept_bytes, dataset, &loader->settings, error));
    return ff_loader_create(&loader->inner, dataset, &options, error);
}

/* The loader starts at `epoch` and `position`; no batch was returned since. */
static void stand_at(ffload_loader *loader, uint32_t epoch, uint64_t position, uint32_t cut) {
    const ff_loader_position next = {.seed = loader->settings.loader.seed,
                                     .batch = loader->settings.loader.batch,
                                     .position = position,
                                     .epoch = epoch,
                                     .cut = cut};
    set_place(loader, next, true);
}

ff_status ff_library_seek(ffload_loader *loader, uint32_t epoch, uint64_t position, uint32_t cut,
                          ff_error *error) {
    ff_loader_options options = loader->settings.loader;
    ff_sequence sequence;
    options.epoch = epoch;
    options.position = position;
    options.first_cut = cut;
    FF_TRY(ff_sequence_init(&sequence, loader->dataset->inner, &options, error));
    if (is_on_gpu(loader)) {
        FF_TRY(ff_library_gpu_seek(&loader->gpu, &sequence, error));
    } else {
        if (loader->slot) ff_loader_release(loader->inner, loader->slot, NULL);
        loader->slot = NULL;
        ff_loader_seek(loader->inner, &sequence);
    }
    stand_at(loader, epoch, position, cut);
    return FF_OK;
}

static ff_status check_place(const ff_library_settings *settings, ff_error *error) {
    const bool on_cpu = settings->ordinal == FF_LIBRARY_CPU;
    if (on_cpu && settings->placement != FF_PLACEMENT_AUTO &&
        settings->placement != FF_PLACEMENT_HOST)
        return ff_fail(error, FF_USAGE, "placement: %s needs a GPU, and device is cpu",
                       ff_placement_name(settings->placement));
    return FF_OK;
}

static ff_status check_rows(const ff_loader_options *options, ff_error *error) {
    const bool pairs = ff_augment_mixes(&options->augment);
    if (options->batch / (pairs ? 2 : 1) >= options->share_total) return FF_OK;
    return ff_fail(error, FF_USAGE, "batch_size: with %llu samples some of the %u ranks get none%s",
                   (unsigned long long)options->batch, options->share_total,
                   pairs ? "; mixup and cutmix need two for each" : "");
}

static ff_status create_all(ffload_loader *loader, ffload_dataset *dataset,
                            const ffload_options *options, ff_error *error) {
    ff_library_settings *settings = &loader->settings;
    FF_TRY(ff_library_settings_init(settings, options, dataset->inner, error));
    FF_TRY(check_place(settings, error));
    FF_TRY(check_rows(&settings->loader, error));
    loader->dataset = dataset;
    ff_library_dataset_retain(dataset);
    if (is_on_gpu(loader)) FF_TRY(ff_library_gpu_open(&loader->gpu, settings->ordinal, error));
    stand_at(loader, settings->loader.epoch, settings->loader.position, 0);
    if (is_on_gpu(loader)) {
        FF_TRY(ff_library_gpu_start(&loader->gpu, dataset->inner, settings, error));
        return ff_library_gpu_plan(&loader->plan, &loader->gpu, dataset->inner, settings, error);
    }
    FF_TRY(start_host(loader, error));
    return ff_library_plan_create(&loader->plan, loader->inner, dataset->inner, settings, error);
}

static ff_status create(ffload_loader **out, ffload_dataset *dataset, const ffload_options *options,
                        ff_error *error) {
    ffload_loader *loader;
    FF_TRY(ff_library_check_process(dataset->process, ff_dataset_path(dataset->inner), error));
    FF_TRY(ff_alloc(&loader, 1, sizeof *loader, "a loader", error));
    loader->process = ff_library_process();
    pthread_mutex_init(&loader->place, NULL);
    const ff_status status = create_all(loader, dataset, options, error);
    ff_library_gpu_leave(&loader->gpu);
    if (status == FF_OK) loader->length = ff_library_info(loader).batches_per_epoch;
    if (status != FF_OK) ffload_loader_destroy(&loader);
    *out = loader;
    return status;
}

int ffload_loader_create(ffload_loader **loader, ffload_dataset *dataset,
                         const ffload_options *options, ffload_error *error) {
    ff_error inner;
    if (loader) *loader = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, loader, dataset);
    if (status == FF_OK) status = create(loader, dataset, options, &inner);
    return ff_library_end(status, &inner, error);
}

/* Keeps the loaders of the process from which this one was forked findable. Their threads do not
 * exist here and their locks may be held, so nothing in them is freed. */
static _Atomic(ffload_loader *) abandoned;

static void abandon(ffload_loader *loader) {
    loader->abandoned = atomic_load(&abandoned);
    while (!atomic_compare_exchange_weak(&abandoned, &loader->abandoned, loader)) {
    }
    ff_library_dataset_release(loader->dataset);
}

void ffload_loader_destroy(ffload_loader **out) {
    ffload_loader *loader = out ? *out : NULL;
    if (out) *out = NULL;
    if (!loader) return;
    if (loader->process != ff_library_process()) {
        abandon(loader);
        return;
    }
    ff_loader_destroy(&loader->inner);
    ff_library_gpu_close(&loader->gpu);
    ff_library_plan_release(loader->plan);
    if (loader->dataset) ff_library_dataset_release(loader->dataset);
    ff_library_settings_free(&loader->settings);
    free(loader->json);
    free(loader->state);
    pthread_mutex_destroy(&loader->place);
    free(loader);
}

/* ---- batches -------------------------------------------------------------------------------- */

void ffload_loader_interrupt(ffload_loader *loader) {
    if (loader) atomic_store(&loader->interrupted, true);
}

static ff_status await_batch(ffload_loader *loader, ff_error *error) {
    for (uint64_t ns = 0;; ns = LOOK_NS) {
        const bool ready = loader->inner ? ff_loader_await(loader->inner, ns)
                                         : ff_batches_await(loader->gpu.batches, ns);
        const bool asked = ns && !ready && loader->settings.check;
        if (atomic_exchange(&loader->interrupted, false) ||
            (asked && loader->settings.check(loader->settings.context)))
            return ff_fail(error, FF_INTERRUPTED, "interrupted while waiting for a batch");
        if (ready) return FF_OK;
    }
}

/* Returns a slot again if memory for its batch was missing. */
static ff_status next_batch(ffload_loader *loader, ffload_batch **batch, ff_error *error) {
    if (is_on_gpu(loader))
        return ff_fail(error, FF_USAGE,
                       "this loader makes its batches on a GPU: use ffload_loader_next_on or "
                       "ffload_loader_enqueue_into");
    FF_TRY(await_batch(loader, error));
    if (!loader->slot) FF_TRY(ff_loader_acquire(loader->inner, &loader->slot, error));
    if (!loader->slot) return FF_OK;
    FF_TRY(ff_library_batch_create(batch, loader->inner, loader->slot, loader->plan, error));
    set_place(loader, loader->slot->next, false);
    ff_loader_release(loader->inner, loader->slot, NULL);
    loader->slot = NULL;
    return FF_OK;
}

int ffload_loader_next(ffload_loader *loader, ffload_batch **batch, ffload_error *error) {
    ff_error inner;
    if (batch) *batch = NULL;
    ff_status status = ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader, batch), &inner);
    if (status == FF_OK) status = ff_library_leave(loader, next_batch(loader, batch, &inner));
    return ff_library_end(status, &inner, error);
}

/* ---- on a GPU ------------------------------------------------------------------------------- */

static ff_status check_gpu(const ffload_loader *loader, ff_error *error) {
    if (is_on_gpu(loader)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "this loader makes its batches on the CPU: use ffload_loader_next");
}

/* The numbers of a batch on a GPU. NULL after the last one. */
static const ffload_batch_info *tell(ffload_loader *loader, const ff_batch_info *info) {
    if (!info) return NULL;
    loader->told = ff_library_batch_info(loader->plan->rows, info->count, info->epoch, info->last,
                                         info->batch, info->position, info->global_count);
    return &loader->told;
}

static void pass(ffload_loader *loader, const ff_batch_info *info) {
    set_place(loader, info->next, false);
}

static ff_status begin(ffload_loader *loader, ff_stream *stream, const ffload_batch_info **info,
                       ff_error *error) {
    FF_TRY(check_gpu(loader, error));
    FF_TRY(await_batch(loader, error));
    FF_TRY(ff_library_gpu_begin(&loader->gpu, stream, error));
    *info = tell(loader, loader->gpu.begun);
    return FF_OK;
}

int ffload_loader_begin(ffload_loader *loader, void *stream, const ffload_batch_info **info,
                        ffload_error *error) {
    ff_error inner;
    if (info) *info = NULL;
    ff_status status = ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader, info), &inner);
    if (status == FF_OK) status = ff_library_leave(loader, begin(loader, stream, info, &inner));
    return ff_library_end(status, &inner, error);
}

static ff_status write_batch(ffload_loader *loader, const ff_library_tensors *tensors,
                             ff_stream *stream, ff_error *error) {
    FF_TRY(check_gpu(loader, error));
    return ff_library_gpu_write(&loader->gpu, loader->plan, tensors, stream, error);
}

int ffload_loader_write(ffload_loader *loader, const char *const *names, const DLTensor *const *to,
                        size_t count, void *stream, ffload_error *error) {
    const ff_library_tensors tensors = {names, to, count};
    ff_error inner;
    ff_status status =
        ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader, names, to), &inner);
    if (status == FF_OK)
        status = ff_library_leave(loader, write_batch(loader, &tensors, stream, &inner));
    return ff_library_end(status, &inner, error);
}

static ff_status end_batch(ffload_loader *loader, ff_stream *stream, ff_error *error) {
    const ff_batch_info *info = loader->gpu.begun;
    FF_TRY(check_gpu(loader, error));
    FF_TRY(ff_library_gpu_end(&loader->gpu, stream, error));
    pass(loader, info);
    return FF_OK;
}

int ffload_loader_end(ffload_loader *loader, void *stream, ffload_error *error) {
    ff_error inner;
    ff_status status = ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader), &inner);
    if (status == FF_OK) status = ff_library_leave(loader, end_batch(loader, stream, &inner));
    return ff_library_end(status, &inner, error);
}

static ff_status enqueue_into(ffload_loader *loader, const ff_library_tensors *tensors,
                              ff_stream *stream, const ffload_batch_info **out, ff_error *error) {
    const ff_batch_info *info;
    FF_TRY(check_gpu(loader, error));
    FF_TRY(await_batch(loader, error));
    FF_TRY(ff_library_gpu_enqueue(&loader->gpu, loader->plan, tensors, stream, &info, error));
    if (info) pass(loader, info);
    *out = tell(loader, info);
    return FF_OK;
}

int ffload_loader_enqueue_into(ffload_loader *loader, const char *const *names,
                               const DLTensor *const *to, size_t count, void *stream,
                               const ffload_batch_info **info, ffload_error *error) {
    const ff_library_tensors tensors = {names, to, count};
    ff_error inner;
    if (info) *info = NULL;
    ff_status status =
        ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader, names, to, info), &inner);
    if (status == FF_OK)
        status = ff_library_leave(loader, enqueue_into(loader, &tensors, stream, info, &inner));
    return ff_library_end(status, &inner, error);
}

static ff_status next_on(ffload_loader *loader, ff_stream *stream, ffload_batch **batch,
                         ff_error *error) {
    ff_library_block *block;
    const ff_batch_info *info;
    FF_TRY(check_gpu(loader, error));
    FF_TRY(await_batch(loader, error));
    FF_TRY(ff_library_gpu_next(&loader->gpu, loader->plan, stream, &block, &info, error));
    if (!info) return FF_OK;
    pass(loader, info);
    *batch = ff_library_batch_on_gpu(block, loader->plan, tell(loader, info));
    return FF_OK;
}

int ffload_loader_next_on(ffload_loader *loader, void *stream, ffload_batch **batch,
                          ffload_error *error) {
    ff_error inner;
    if (batch) *batch = NULL;
    ff_status status = ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader, batch), &inner);
    if (status == FF_OK) status = ff_library_leave(loader, next_on(loader, stream, batch, &inner));
    return ff_library_end(status, &inner, error);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static ff_status fill_stats(const ffload_loader *loader, ffload_stats *stats) {
    const ff_loader_stats from =
        loader->inner ? ff_loader_measure(loader->inner) : ff_batches_measure(loader->gpu.batches);
    stats->wait_ns = from.wait_ns;
    stats->fill_ns = from.fill_ns;
    stats->samples = from.samples;
    stats->batches = from.batches;
    stats->blocks = is_on_gpu(loader) ? ff_library_pool_allocated(loader->gpu.pool) : from.blocks;
    return FF_OK;
}

int ffload_loader_stats(ffload_loader *loader, ffload_stats *stats, ffload_error *error) {
    ff_error inner;
    if (stats) *stats = (ffload_stats){0};
    ff_status status = ff_library_look(loader, FF_LIBRARY_GIVEN(&inner, loader, stats), &inner);
    if (status == FF_OK) status = ff_library_look_away(loader, fill_stats(loader, stats));
    return ff_library_end(status, &inner, error);
}
