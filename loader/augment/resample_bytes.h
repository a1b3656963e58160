/* Resampling of u8 to u8 in fixed point (loader/augment/resample_fixed.h has the formulas), for
 * batches of values as stored. Used through loader/augment/resample.h, whose rules are these
 * functions', too. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_BYTES_H
#define FF_LOADER_AUGMENT_RESAMPLE_BYTES_H

#include "loader/augment/resample_job.h"
#include "loader/augment/resample_rows.h"

typedef struct ff_resample_bytes ff_resample_bytes;

FF_MUST_USE ff_status ff_resample_bytes_create(ff_resample_bytes **bytes,
                                               const ff_augment_host *host, ff_error *error);
/* NULL is accepted. */
void ff_resample_bytes_destroy(ff_resample_bytes **bytes);
FF_MUST_USE ff_status ff_resample_bytes_reserve(ff_resample_bytes *bytes,
                                                const ff_resample_job *job, ff_error *error);
void ff_resample_bytes_run(ff_resample_bytes *bytes, const ff_resample_kernels *kernels,
                           const ff_resample_job *job, const ff_augment_params *params,
                           const uint8_t *source, uint32_t height, uint32_t width, uint8_t *out);
void ff_resample_bytes_plain(ff_resample_bytes *bytes, const ff_resample_job *job,
                             const ff_augment_params *params, const uint8_t *source,
                             uint32_t height, uint32_t width, uint8_t *out);

/* Row `y` of the box of a sample of u8 in planes, *stride apart, after which FF_RESAMPLE_BEYOND
 * bytes may be read: the sample's, or `planes`, of [channels][box width + FF_RESAMPLE_BEYOND]. */
const uint8_t *ff_resample_planes_u8(const ff_augment_host *host, const ff_resample_job *job,
                                     const uint8_t *source, uint32_t height, uint32_t width,
                                     uint32_t y, uint8_t *planes, size_t *stride);

#endif
