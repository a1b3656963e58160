/* From an item to the values of its sample: read, decode, resize, crop.
 *
 * The plan describes all samples; a sampler is the per-thread state for making them. */
#ifndef FF_FFPACK_SAMPLE_H
#define FF_FFPACK_SAMPLE_H

#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/image/stats.h"
#include "tools/ffpack/image/transform.h"
#include "tools/ffpack/settings/settings.h"
#include "tools/ffpack/source/stream.h"

typedef struct ff_sample_plan {
    const ff_source *source;
    ff_geometry geometry;
    ff_image_mode mode;         /* native: items keep their channels */
    bool exif, allow_truncated; /* of encoded images */
    bool fast_decode;           /* of JPEGs */
    bool pillow_12;             /* of BMPs */
    bool changed;               /* array sources: mode or geometry changes their values */
    bool variable;              /* samples have different sizes, up to height x width */
    ff_value_source values;     /* the samples' */
    bool ranged;                /* integers are scaled from low..high; f32 values already are */
    double low, high;
    /* For every sample. */
    uint32_t channels, height, width;
    /* The first image, with which the others are compared; empty if the geometry fixes or bounds
     * their size. */
    char *first_name;
    uint32_t first_height, first_width;
} ff_sample_plan;

/* Finds the shape of the samples of a listed source, from the options if they fix it, else from its
 * first image (with --on-error skip: the first one that has a readable header). */
FF_MUST_USE ff_status ff_sample_plan_make(ff_sample_plan *plan, const ff_source *source,
                                          const ff_settings *settings, ff_error *error);
void ff_sample_plan_free(ff_sample_plan *plan);

/* The values of one sample, [height, width, channels] or planar [channels, height, width]: u8,
 * native u16, or f32 (plan->values). */
typedef struct ff_sample {
    ff_item item;
    const void *values; /* valid until the sampler's next call */
    uint32_t height, width;
    bool planar;
    bool encoded;        /* the item is an image file, not a slice of an array */
    ff_image_file file;  /* the item's; valid as `values` */
    bool clipped;        /* greys above 255 became 255 */
    bool turned;         /* ff_decode_is_turned, of the image file */
    const char *warning; /* a warning, or NULL; valid as `values` */
} ff_sample;

typedef struct ff_sampler ff_sampler;

/* For the items of one split. Plan and stream (NULL if the split has none) must outlive it. One
 * thread at a time. */
FF_MUST_USE ff_status ff_sampler_create(ff_sampler **sampler, const ff_sample_plan *plan,
                                        const ff_source_split *split, ff_stream *stream,
                                        ff_error *error);
void ff_sampler_destroy(ff_sampler **sampler);

/* Announces the items at storage positions first .. end - 1 (ff_source_begin). */
FF_MUST_USE ff_status ff_sampler_begin(ff_sampler *sampler, uint64_t first, uint64_t end,
                                       ff_error *error);

/* Makes the sample of item `number`. sample->item is filled also on failure. Errors name the item.
 * FF_USAGE if its size differs from the others'. */
FF_MUST_USE ff_status ff_sampler_make(ff_sampler *sampler, uint64_t number, ff_sample *sample,
                                      ff_error *error);

/* Whether a failure concerns only this item, so that --on-error skip may leave it out. */
bool ff_sample_skippable(const ff_sample *sample, ff_status status);

/* Returns `status`, with what packing without --on-error skip can do about a broken image added to
 * the message. */
FF_MUST_USE ff_status ff_sample_refuse(const ff_sample *sample, ff_status status, ff_error *error);

/* Adds the values, u8 or u16, to the sums. */
void ff_sample_count(const ff_sample_plan *plan, const ff_sample *sample, ff_stats *stats);

#endif
