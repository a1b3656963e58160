/* What the resamplers of loader/augment/resample.c (sums in f32) and resample_bytes.c (u8 in fixed
 * point) share. Private to them. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_JOB_H
#define FF_LOADER_AUGMENT_RESAMPLE_JOB_H

#include <assert.h>
#include <stdlib.h>

#include "loader/augment/host.h"

/* The resolved parameters: `height` x `width` pixels of the source at (y, x) are resampled to
 * to_height x to_width, of which the output shows the window at (top, left). */
typedef struct ff_resample_job {
    uint32_t y, x, height, width;
    uint32_t to_height, to_width, top, left;
    bool flip;
} ff_resample_job;

static inline ff_resample_job ff_resample_job_of(const ff_augment_host *host,
                                                 const ff_augment_params *params, uint32_t height,
                                                 uint32_t width) {
    ff_resample_job j = {.flip = params->flags & FF_AUGMENT_FLIP};
    if (params->flags & FF_AUGMENT_BOX) {
        j.y = (uint32_t)params->y, j.x = (uint32_t)params->x;
        j.height = params->height, j.width = params->width;
        j.to_height = host->out_height, j.to_width = host->out_width;
        assert(j.y <= height && j.height <= height - j.y && j.x <= width && j.width <= width - j.x);
    } else {
        j.height = height, j.width = width;
        j.to_height = params->height, j.to_width = params->width;
        j.top = (uint32_t)params->y, j.left = (uint32_t)params->x;
        assert(j.top + host->out_height <= j.to_height && j.left + host->out_width <= j.to_width);
    }
    return j;
}

/* The output of the axis across that column `column` of the output shows. */
static inline uint32_t ff_resample_job_column(const ff_resample_job *j, const ff_augment_host *host,
                                              uint32_t column) {
    return j->left + (j->flip ? host->out_width - 1 - column : column);
}

/* A 64-byte aligned array that grows; its content is then lost. */
typedef struct ff_resample_array {
    void *memory;
    uint64_t bytes;
} ff_resample_array;

static inline ff_status ff_resample_grow(ff_resample_array *array, uint64_t count, uint64_t size,
                                         ff_error *error) {
    uint64_t bytes;
    if (ff_mul_u64(count, size, &bytes) && bytes <= array->bytes) return FF_OK;
    free(array->memory);
    *array = (ff_resample_array){0};
    FF_TRY(ff_alloc_aligned(&array->memory, count, size, 0, "resampling", error));
    array->bytes = bytes;
    return FF_OK;
}

#endif
