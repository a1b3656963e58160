/* Shared by all implementations of the compute table: device and stream, memory, copies between
 * device and host, sticky failures. */
#include "train/compute/compute.h"

#include "format/disk/dtype.h"
#include "loader/device/absent.h"
#include "loader/device/host.h"

#include <omp.h>
#include <string.h>

enum { STAGING_BYTES = 1 << 20 };

ff_status ff_compute_begin(ff_compute *compute, const ff_compute_ops *ops,
                           const ff_compute_options *options, ff_error *error) {
    compute->ops = ops;
    compute->threads = options->threads;
    compute->precision = options->precision;
    compute->dtype = ff_precision_dtype(options->precision);
    compute->element_bytes = (size_t)ff_dtype_bytes(compute->dtype);
    compute->deterministic = options->deterministic;
    compute->device = options->device;
    if (!compute->device) {
        FF_TRY(ff_device_host_create(&compute->owned, FF_HOST_STREAMS_CALLER, error));
        compute->device = compute->owned;
    }
    const ff_device_table *table = compute->device->table;
    ff_status status = table->stream_create(compute->device, &compute->stream, error);
    if (status == FF_OK && !table->unified)
        status = table->allocate_pinned(compute->device, &compute->staging, STAGING_BYTES,
                                        "a staging buffer", error);
    if (status != FF_OK) ff_compute_end(compute);
    return status;
}

void ff_compute_end(ff_compute *compute) {
    const ff_device_table *table = compute->device->table;
    if (compute->stream) table->stream_destroy(compute->device, compute->stream);
    if (compute->staging) table->release_pinned(compute->device, compute->staging);
    compute->stream = NULL;
    compute->staging = NULL;
    ff_device_destroy(&compute->owned);
}

void ff_compute_enter(ff_compute *compute) {
    omp_set_num_threads(compute->threads);
    compute->device->table->make_current(compute->device, ff_compute_error(compute));
}

ff_status ff_compute_check(const ff_compute *compute, ff_error *error) {
    if (compute->failure.status != FF_OK && error) *error = compute->failure;
    return compute->failure.status;
}

void ff_compute_forgive(ff_compute *compute) {
    compute->failure = (ff_error){0};
}

ff_status ff_compute_wait(ff_compute *compute, ff_error *error) {
    compute->device->table->stream_synchronize(compute->device, compute->stream,
                                               ff_compute_error(compute));
    return ff_compute_check(compute, error);
}

ff_status ff_compute_allocate(ff_compute *compute, void *memory_pointer, uint64_t bytes,
                              const char *what, ff_error *error) {
    const ff_device_table *table = compute->device->table;
    void **memory = memory_pointer;
    ff_status status = table->allocate(compute->device, memory, bytes, what, error);
    if (status != FF_OK) {
        /* The caller releases what it allocated before, which may still be filled. */
        (void)!ff_compute_wait(compute, NULL);
        return status;
    }
    status = table->fill(compute->device, compute->stream, *memory, 0, bytes, error);
    if (status != FF_OK) ff_compute_release(compute, *memory);
    if (status != FF_OK) *memory = NULL;
    return status;
}

void ff_compute_release(ff_compute *compute, void *memory) {
    compute->device->table->release(compute->device, memory);
}

void ff_compute_copy(ff_compute *compute, void *to, const void *from, uint64_t bytes) {
    compute->device->table->copy(compute->device, compute->stream, to, from, bytes,
                                 ff_compute_error(compute));
}

/* Copies in pieces through the staging buffer, and waits for each piece: the buffer is free between
 * two calls, and the stream orders a copy after the work before it. */
static void stage(ff_compute *compute, char *device, char *host, uint64_t bytes, bool write) {
    for (uint64_t at = 0; at < bytes; at += STAGING_BYTES) {
        uint64_t piece = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        if (write) memcpy(compute->staging, host + at, piece);
        if (write)
            ff_compute_copy(compute, device + at, compute->staging, piece);
        else
            ff_compute_copy(compute, compute->staging, device + at, piece);
        if (ff_compute_wait(compute, NULL) != FF_OK) return;
        if (!write) memcpy(host + at, compute->staging, piece);
    }
}

void ff_compute_write(ff_compute *compute, void *to, const void *from, uint64_t bytes) {
    if (ff_compute_check(compute, NULL) != FF_OK || ff_device_is_absent(compute->device)) return;
    if (compute->staging)
        stage(compute, to, (char *)from, bytes, true);
    else
        memcpy(to, from, bytes);
}

void ff_compute_read(ff_compute *compute, void *to, const void *from, uint64_t bytes) {
    if (!compute->staging && !ff_device_is_absent(compute->device)) {
        memcpy(to, from, bytes);
        return;
    }
    memset(to, 0, bytes);
    if (compute->staging && ff_compute_check(compute, NULL) == FF_OK)
        stage(compute, (char *)from, to, bytes, false);
}
