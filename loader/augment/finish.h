/* The stage between moving (or resampling) a sample and its place in the batch, where samples are
 * jittered or mixed: rows lie in f32, normalised, so that whatever is done is rounded once, at the
 * end. Order for each row: move or resample; colour jitter (loader/augment/jitter.h) on values
 * undone to [0, 1] as value * std + mean, cut off there, and normalised again as (value - mean) /
 * std, each operation in f32; cutout; mixing with the neighbouring row (loader/augment/mix.h);
 * rounding to the batch's dtype and order of axes. u8 with jitter is v / 255 before it, without a
 * detour (resampled: v * (1 / 255)). Float samples without statistics count as being in [0, 1]
 * already. cutmix alone moves elements of the batch's dtype as they are. Thread rule: an ff_finish
 * is read-only after ff_finish_init; its functions may run in any number of threads, on different
 * rows.
 */
#ifndef FF_LOADER_AUGMENT_FINISH_H
#define FF_LOADER_AUGMENT_FINISH_H

#include "loader/augment/host.h"

typedef struct ff_finish {
    bool used;            /* something is jittered or mixed; else nothing below is set */
    bool apart;           /* rows lie in memory of their own until they are stored */
    bool jitters, mixes;  /* at least one */
    ff_augment_host host; /* what moves samples into rows */
    ff_metadata metadata; /* what resamples them goes by: borrows from the set's, owns nothing */
    double jitter[4];     /* ff_jitter_at's amounts */
    float *mean, *std;    /* [channels] of the values before jitter; 0 and 1 without statistics */
    size_t values;        /* of a row */
    size_t row_bytes;     /* of a row */
    ff_dtype to;          /* the batch's */
    ff_layout to_layout;
} ff_finish;

/* For a batch that `host` makes, of samples of `metadata`, which outlive it. FF_USAGE where these
 * samples cannot be jittered or mixed so. Released with ff_finish_free. */
FF_MUST_USE ff_status ff_finish_init(ff_finish *finish, const ff_metadata *metadata,
                                     const ff_augment_spec *spec, const ff_augment_host *host,
                                     ff_error *error);
void ff_finish_free(ff_finish *finish);

/* The parameters with which finish->host or a resampler makes a row that is jittered: the cutout
 * waits for that. */
ff_augment_params ff_finish_params(const ff_augment_params *params);

/* A row that was made so, of the sample that `params` names: jitter, then cutout. */
void ff_finish_jitter(const ff_finish *finish, const ff_augment_params *params, uint64_t seed,
                      uint32_t epoch, void *row);

/* Two neighbouring rows, both done but for this, with the parameters of either. */
void ff_finish_mix(const ff_finish *finish, const ff_augment_params *params, void *even, void *odd);

/* A row that lies apart into its place in the batch. */
void ff_finish_store(const ff_finish *finish, const void *row, void *out);

#endif
