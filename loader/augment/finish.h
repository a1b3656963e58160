/* The stage between moving (or resampling) a sample and storing it in the batch, used where samples
 * are jittered, changed or mixed. Rows that are jittered or mixed up are normalised f32, so values
 * are rounded only once, at the end. Order for each row: move or resample; colour jitter
 * (loader/augment/jitter.h) on values denormalised to [0, 1] as value * std + mean, clamped, and
 * normalised again as (value - mean) / std, each operation in f32; changes of u8
 * (loader/augment/change); cutout; mixing with the neighbouring row (loader/augment/mix.h);
 * rounding to the batch's dtype and order of axes. u8 with jitter is v / 255 before it, without
 * normalising first (resampled: v * (1 / 255)). Float samples without statistics are taken to be in
 * [0, 1]. cutmix alone copies elements of the batch's dtype unchanged.
 *
 * Changes apply to u8: stored u8 as it is, or resampled and rounded to the nearest integer, halves
 * to even; jittered values and values of f16, bf16 and f32, denormalised as for jitter, as value *
 * 255, rounded in the same way. Then u8 v becomes ((v / 255) - mean) / std, as
 * loader/augment/host.h has it, or in batches of u8 stays v; resampling to u8 is then in fixed
 * point (loader/augment/resample.h). Float samples must hold images of u8 exactly: all 256 values
 * of each channel are tried. Thread rule: an ff_finish is read-only after ff_finish_init; its
 * functions may run in any number of threads, on different rows. */
#ifndef FF_LOADER_AUGMENT_FINISH_H
#define FF_LOADER_AUGMENT_FINISH_H

#include "loader/augment/host.h"

typedef struct ff_finish {
    bool used;                    /* false: no jitter, changes or mixing; nothing below is set */
    bool apart;                   /* rows are in a separate buffer until they are stored */
    bool jitters, changes, mixes; /* at least one */
    bool direct;                  /* `pixels` makes images of u8, from which rows are made */
    ff_augment_host host;         /* moves samples into rows */
    ff_augment_host pixels;       /* with `direct` */
    ff_augment_host shows;        /* with changes: makes a row from an image of u8 in planes */
    ff_metadata metadata;         /* for the resampler: borrows from the set's, owns nothing */
    double jitter[4];             /* ff_jitter_at's amounts */
    ff_change_spec change;
    float *mean, *std;  /* [channels] of the values before jitter; 0 and 1 without statistics */
    float *shown;       /* with changes: [channels][256], the values of u8 in a row */
    size_t image_bytes; /* with changes: the scratch of ff_finish_alter */
    size_t values;      /* of a row */
    size_t row_bytes;   /* of a row */
    ff_dtype to;        /* the batch's */
    ff_layout to_layout;
} ff_finish;

/* For a batch made by `host` from samples of `metadata`, both of which must outlive it. FF_USAGE
 * where these samples cannot be jittered, changed or mixed, or not into such a batch. Released with
 * ff_finish_free. */
FF_MUST_USE ff_status ff_finish_init(ff_finish *finish, const ff_metadata *metadata,
                                     const ff_augment_spec *spec, const ff_augment_host *host,
                                     ff_error *error);
void ff_finish_free(ff_finish *finish);

/* Whether rows that changes make in the batch pass the caches by, unless they are read again. */
static inline void ff_finish_stream(ff_finish *finish, bool streams) {
    finish->shows.streams = streams && !finish->apart && !finish->mixes;
}

/* What makes a row, or with `direct` its image of u8, in planes. */
static inline const ff_augment_host *ff_finish_maker(const ff_finish *finish) {
    return finish->direct ? &finish->pixels : &finish->host;
}
/* Whether rows are altered by ff_finish_alter. */
static inline bool ff_finish_alters(const ff_finish *finish) {
    return finish->jitters || finish->changes;
}

/* The parameters with which a row that is altered is made: without the cutout, which comes after.
 */
ff_augment_params ff_finish_params(const ff_augment_params *params);

/* Applies jitter, changes, then cutout to a row made with these parameters. index: the sample's, by
 * which the parameters were drawn (ff_augment_at). images, with changes:
 * [image_bytes], which begin with the row's image of u8 with `direct`; scratch. */
void ff_finish_alter(const ff_finish *finish, const ff_augment_params *params, uint64_t seed,
                     uint32_t epoch, uint64_t index, void *row, uint8_t *images);

/* Mixes two neighbouring rows, both otherwise complete; `params` belongs to either row. */
void ff_finish_mix(const ff_finish *finish, const ff_augment_params *params, void *even, void *odd);

/* Stores a row from the separate buffer in the batch. */
void ff_finish_store(const ff_finish *finish, const void *row, void *out);

#endif
