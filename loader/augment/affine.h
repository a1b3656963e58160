/* Finds whether a table from u8 equals one fused multiply-add. A table made with three operations,
 * ((v / 255) - mean) / std, each rounded to f32, and then rounded to f16 or bf16, nearly always
 * equals fma(v, scale, bias) rounded once and then to f16 or bf16: then kernels need no table and
 * produce the same bits. Every entry is compared. */
#ifndef FF_LOADER_AUGMENT_AFFINE_H
#define FF_LOADER_AUGMENT_AFFINE_H

#include "loader/augment/host.h"

/* Finds scale and bias, [channels] each, for the table of `host`, made with the statistics of
 * `metadata`; false if there is no table or no such pair. */
bool ff_affine_find(const ff_augment_host *host, const ff_metadata *metadata, float *scale,
                    float *bias);

#endif
