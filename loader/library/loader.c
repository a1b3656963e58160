#include "loader/library/loader.h"

#include "format/base/memory.h"
#include "loader/library/status.h"

#include <stdlib.h>

enum { LOOK_NS = 20000000 }; /* how long a wait goes on unasked */

/* ---- whose turn it is ----------------------------------------------------------------------- */

ff_status ff_library_enter(ffload_loader *loader, ff_error *error) {
    FF_TRY(ff_library_check_process(loader->process, "the loader", error));
    if (!atomic_exchange(&loader->busy, true)) return FF_OK;
    return ff_fail(error, FF_USAGE, "the loader is used from two threads at once");
}

void ff_library_leave(ffload_loader *loader) {
    atomic_store(&loader->busy, false);
}

/* ---- creating and destroying ---------------------------------------------------------------- */

ff_status ff_library_start(ffload_loader *loader, uint32_t epoch, uint64_t position,
                           ff_error *error) {
    ff_dataset *dataset = loader->dataset->inner;
    ff_loader_options options = loader->settings.loader;
    ff_loader *inner;
    options.epoch = epoch;
    options.position = position;
    FF_TRY(ff_plan_added_bytes(&options.kept_bytes, dataset, &loader->settings, error));
    FF_TRY(ff_loader_create(&inner, dataset, &options, error));
    if (loader->inner) {
        const ff_loader_stats stats = ff_loader_measure(loader->inner);
        loader->before.wait_ns += stats.wait_ns;
        loader->before.fill_ns += stats.fill_ns;
        loader->before.samples += stats.samples;
        loader->before.batches += stats.batches;
        loader->before.blocks += stats.blocks;
        ff_loader_destroy(&loader->inner);
    }
    loader->inner = inner;
    loader->slot = NULL;
    loader->fresh = true;
    loader->next = (ff_loader_position){
        .seed = options.seed, .batch = options.batch, .position = position, .epoch = epoch};
    return FF_OK;
}

static ff_status check_host(const ff_library_settings *settings, ff_error *error) {
    if (settings->ordinal == FF_LIBRARY_CPU) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "device: cuda:%d is not possible: this library makes batches on the CPU",
                   settings->ordinal);
}

static ff_status create_all(ffload_loader *loader, ffload_dataset *dataset,
                            const ffload_options *options, ff_error *error) {
    ff_library_settings *settings = &loader->settings;
    FF_TRY(ff_library_settings_init(settings, options, ff_dataset_metadata(dataset->inner), error));
    FF_TRY(check_host(settings, error));
    loader->dataset = dataset;
    ff_library_dataset_retain(dataset);
    FF_TRY(ff_library_start(loader, settings->loader.epoch, settings->loader.position, error));
    return ff_plan_create(&loader->plan, loader->inner, dataset->inner, settings, error);
}

static ff_status create(ffload_loader **out, ffload_dataset *dataset, const ffload_options *options,
                        ff_error *error) {
    ffload_loader *loader;
    *out = NULL;
    FF_TRY(ff_library_check_process(dataset->process, ff_dataset_path(dataset->inner), error));
    FF_TRY(ff_alloc(&loader, 1, sizeof *loader, "a loader", error));
    loader->process = ff_library_process();
    const ff_status status = create_all(loader, dataset, options, error);
    if (status != FF_OK) ffload_loader_destroy(&loader);
    *out = loader;
    return status;
}

int ffload_loader_create(ffload_loader **loader, ffload_dataset *dataset,
                         const ffload_options *options, ffload_error *error) {
    ff_error inner;
    return ff_library_end(create(loader, dataset, options, &inner), &inner, error);
}

/* Loaders of the process that this one was forked from. Their threads are not here, and a lock may
 * be one's that was held: they stay as they are, and findable. */
static _Atomic(ffload_loader *) abandoned;

static void abandon(ffload_loader *loader) {
    loader->abandoned = atomic_load(&abandoned);
    while (!atomic_compare_exchange_weak(&abandoned, &loader->abandoned, loader)) {
    }
    ff_library_dataset_release(loader->dataset);
}

void ffload_loader_destroy(ffload_loader **out) {
    ffload_loader *loader = *out;
    *out = NULL;
    if (!loader) return;
    if (loader->process != ff_library_process()) {
        abandon(loader);
        return;
    }
    ff_loader_destroy(&loader->inner);
    ff_plan_release(loader->plan);
    if (loader->dataset) ff_library_dataset_release(loader->dataset);
    ff_library_settings_free(&loader->settings);
    free(loader->json);
    free(loader->state);
    free(loader);
}

/* ---- batches -------------------------------------------------------------------------------- */

void ffload_loader_interrupt(ffload_loader *loader) {
    atomic_store(&loader->interrupted, true);
}

static ff_status await_batch(ffload_loader *loader, ff_error *error) {
    for (uint64_t ns = 0;; ns = LOOK_NS) {
        const bool ready = ff_loader_await(loader->inner, ns);
        const bool asked = ns && !ready && loader->check;
        if (atomic_exchange(&loader->interrupted, false) ||
            (asked && loader->check(loader->context)))
            return ff_fail(error, FF_INTERRUPTED, "interrupted while waiting for a batch");
        if (ready) return FF_OK;
    }
}

/* A slot whose batch was not given for want of memory comes again. */
static ff_status next_batch(ffload_loader *loader, ffload_batch **batch, ff_error *error) {
    FF_TRY(await_batch(loader, error));
    if (!loader->slot) FF_TRY(ff_loader_acquire(loader->inner, &loader->slot, error));
    if (!loader->slot) return FF_OK;
    FF_TRY(ff_library_batch_create(batch, loader->inner, loader->slot, loader->plan, error));
    loader->next = loader->slot->next;
    loader->fresh = false;
    ff_loader_release(loader->inner, loader->slot, NULL);
    loader->slot = NULL;
    return FF_OK;
}

int ffload_loader_next(ffload_loader *loader, ffload_batch **batch, ffload_error *error) {
    ff_error inner;
    *batch = NULL;
    ff_status status = ff_library_enter(loader, &inner);
    if (status == FF_OK) {
        status = next_batch(loader, batch, &inner);
        ff_library_leave(loader);
    }
    return ff_library_end(status, &inner, error);
}

int ffload_loader_set_check(ffload_loader *loader, ffload_check *check, void *context,
                            ffload_error *error) {
    ff_error inner;
    const ff_status status = ff_library_enter(loader, &inner);
    if (status == FF_OK) {
        loader->check = check;
        loader->context = context;
        ff_library_leave(loader);
    }
    return ff_library_end(status, &inner, error);
}

int ffload_loader_stats(ffload_loader *loader, ffload_stats *stats, ffload_error *error) {
    ff_error inner;
    *stats = (ffload_stats){0};
    const ff_status status = ff_library_enter(loader, &inner);
    if (status == FF_OK) {
        const ff_loader_stats now = ff_loader_measure(loader->inner), *before = &loader->before;
        stats->wait_ns = before->wait_ns + now.wait_ns;
        stats->fill_ns = before->fill_ns + now.fill_ns;
        stats->samples = before->samples + now.samples;
        stats->batches = before->batches + now.batches;
        stats->blocks = before->blocks + now.blocks;
        ff_library_leave(loader);
    }
    return ff_library_end(status, &inner, error);
}
