#include "train/net/average.h"

ff_status ff_average_reserve(ff_store *store, ff_error *error) {
    ff_compute *compute = store->compute;
    const size_t element = compute->element_bytes;
    const char *what = "the average of the parameters";
    FF_TRY(ff_compute_allocate(compute, &store->average, store->trained_count * sizeof(float), what,
                               error));
    FF_TRY(ff_compute_allocate(compute, &store->average_buffers,
                               store->buffer_count * sizeof(float), what, error));
    store->average_working = store->average;
    store->average_working_buffers = store->average_buffers;
    if (compute->dtype == FF_F32) return FF_OK;
    store->average_working = store->average_working_buffers = NULL;
    FF_TRY(ff_compute_allocate(compute, &store->average_working, store->trained_count * element,
                               what, error));
    return ff_compute_allocate(compute, &store->average_working_buffers,
                               store->buffer_count * element, what, error);
}

void ff_average_begin(ff_store *store) {
    ff_compute *compute = store->compute;
    ff_compute_enter(compute);
    ff_compute_copy(compute, store->average, store->values, store->trained_count * sizeof(float));
    ff_compute_copy(compute, store->average_buffers, store->buffers,
                    store->buffer_count * sizeof(float));
}

static void swap_floats(float **a, float **b) {
    float *kept = *a;
    *a = *b;
    *b = kept;
}

static void swap_working(void **a, void **b) {
    void *kept = *a;
    *a = *b;
    *b = kept;
}

void ff_average_swap(ff_store *store) {
    ff_compute *compute = store->compute;
    swap_floats(&store->values, &store->average);
    swap_floats(&store->buffers, &store->average_buffers);
    swap_working(&store->working, &store->average_working);
    swap_working(&store->working_buffers, &store->average_working_buffers);
    if (compute->dtype == FF_F32) return;
    ff_compute_enter(compute);
    compute->ops->cast(compute, store->trained_count, 1, store->values, FF_F32, store->working,
                       compute->dtype);
    compute->ops->cast(compute, store->buffer_count, 1, store->buffers, FF_F32,
                       store->working_buffers, compute->dtype);
}
