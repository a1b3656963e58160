/* Antialiased bilinear resampling on the host: from the stored sample into the batch, as
 * torchvision's resized_crop(antialias=True) and resize(antialias=True) of float tensors.
 *
 * Source: ATen, _upsample_bilinear2d_aa (torch 1.13, native/cpu/UpSampleKernel.cpp). Per axis, with
 * `in` pixels that become `out`, in f32 except for the sums with 0.5, which are f64 rounded to f32:
 *   scale = in / out; support = max(scale, 1); output o has center = scale * (o + 0.5) and reads
 *   the inputs from max(0, (int)(center - support + 0.5)) to before
 *   min(in, (int)(center + support + 0.5)); input i has weight
 *   max(0, 1 - |(i - center + 0.5) / support|), divided by their sequential sum.
 * Rows first, then columns, f32 between; a sum adds products in increasing order of inputs,
 * starting with the first, each product and sum rounded to f32. (ATen's may be fused, so its last
 * bits differ from machine to machine; these do not.) Weights of 0 at the end are left out: an axis
 * that keeps its length is copied.
 *
 * Values: stored floats, u16 and u8 as f32; u8 with statistics then (v / 255 - mean) / std as one
 * product and one sum, v * (1 / (255 std)) - mean / std, without statistics v * (1 / 255), and u16
 * in the same way by its range (host.h): nothing is rounded to integers in between. Then one
 * rounding to the output's dtype, and the cutout. Around a source pixel that is not finite, the
 * output may be infinite or NaN.
 *
 * u8 that stays u8 is computed in fixed point instead, as newer versions do for tensors of u8
 * (loader/augment/resample_fixed.h). u8 from which values of u8 are changed (host.rounds), in
 * planes, is the f32 sum, rounded to the nearest integer, halves to even.
 *
 * The plain version, one output pixel at a time, is the reference; the faster ones, a row at a
 * time, produce the same bits. Thread rule: an ff_resampler belongs to one thread. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_H
#define FF_LOADER_AUGMENT_RESAMPLE_H

#include "loader/augment/host.h"
#include "loader/augment/resample_rows.h"

/* Per-thread state: weights, and the few rows between the passes. */
typedef struct ff_resampler ff_resampler;

/* For `host`, which must outlive it, and samples of `metadata`, which need not. It uses the fastest
 * kernels for this CPU. */
FF_MUST_USE ff_status ff_resampler_create(ff_resampler **resampler, const ff_augment_host *host,
                                          const ff_metadata *metadata, ff_error *error);
/* NULL is accepted. */
void ff_resampler_destroy(ff_resampler **resampler);

/* Allocates scratch memory for a sample of height x width with these parameters; FF_NO_MEMORY. It
 * is a small multiple of the sample's rows, and is reused for later samples. */
FF_MUST_USE ff_status ff_resampler_reserve(ff_resampler *resampler, const ff_augment_params *params,
                                           uint32_t height, uint32_t width, ff_error *error);

/* Applies parameters with FF_AUGMENT_BOX or FF_AUGMENT_RESIZE, after ff_resampler_reserve: source
 * and out as for ff_augment_apply. Reads nothing but the source and allocates nothing, so it may
 * run under ff_guard_run. */
void ff_resample(ff_resampler *resampler, const ff_augment_params *params, const void *source,
                 uint32_t height, uint32_t width, void *out);

/* A resampled raw value v, u8 or u16, of a channel becomes v * *multiply + *add. */
void ff_resample_scale(const ff_metadata *metadata, uint32_t channel, float *multiply, float *add);

/* For tests: the plain version, and the kernels that ff_resample uses. */
void ff_resample_plain(ff_resampler *resampler, const ff_augment_params *params, const void *source,
                       uint32_t height, uint32_t width, void *out);
void ff_resampler_use(ff_resampler *resampler, const ff_resample_kernels *kernels);

#endif
