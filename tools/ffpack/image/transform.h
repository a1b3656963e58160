/* ToTensor and Normalize, bit for bit as torchvision's v1 transforms, into the packed dtype and
 * layout.
 *
 * u8 sources: x = v / 255 in float32 (a division), then (x - mean) / std, each a separate float32
 * operation, no fused multiply-add; f16 and bf16 are rounded to nearest even from that float32
 * (torchvision/transforms/functional.py, to_tensor and normalize). Since a channel has 256 values,
 * that is a table lookup. The dtype u8 keeps the raw values: its statistics are applied by readers.
 * Other integers: x = (v - low) / (high - low) in double, rounded once to float32. Float sources
 * are taken as already scaled: Normalize only. The dtype u16 keeps the raw values of u16 sources.
 *
 * Thread rule: a transform is read-only after ff_transform_create and shared by all workers. */
#ifndef FF_FFPACK_TRANSFORM_H
#define FF_FFPACK_TRANSFORM_H

#include "format/disk/metadata.h"
#include "tools/ffpack/image/geometry.h"

typedef enum ff_value_source {
    FF_VALUES_U8,   /* 0..255, ToTensor divides by 255 */
    FF_VALUES_U16,  /* scaled from low..high to 0..1 */
    FF_VALUES_FLOAT /* already scaled, also by low..high */
} ff_value_source;

typedef struct ff_transform_spec {
    ff_value_source source;
    uint32_t channels; /* 1..FF_CHANNELS_LIMIT */
    const float *mean; /* [channels], or NULL with std: no Normalize; copied */
    const float *std;  /* [channels] */
    ff_dtype dtype;    /* u8 (from u8 only), u16 (from u16 only), f16, bf16, f32 */
    ff_layout layout;  /* the output's */
    bool ranged;       /* values come from integers low..high; always for u16 */
    double low, high;  /* low < high */
} ff_transform_spec;

typedef struct ff_transform ff_transform;

/* FF_USAGE if a std is 0, a statistic is not finite, mean or std comes without the other, or dtype
 * u8 or u16 is requested for other values. On failure *transform = NULL. */
FF_MUST_USE ff_status ff_transform_create(ff_transform **transform, const ff_transform_spec *spec,
                                          ff_error *error);
/* NULL and *transform = NULL are accepted; *transform becomes NULL. */
void ff_transform_destroy(ff_transform **transform);

/* The bytes that a sample of width x height takes. */
size_t ff_transform_bytes(const ff_transform *transform, uint32_t width, uint32_t height);

/* One sample of u8 values to `output` (ff_transform_bytes, aligned to the dtype, not overlapping
 * the input). Interleaved: pixels [height, width, channels], as decoded images are. Planar: planes
 * [channels, height, width], as CIFAR's records are. Both produce the same bytes. Only for
 * transforms of source FF_VALUES_U8. */
void ff_transform_interleaved(const ff_transform *transform, const uint8_t *pixels, uint32_t width,
                              uint32_t height, void *output);
void ff_transform_planar(const ff_transform *transform, const uint8_t *planes, uint32_t width,
                         uint32_t height, void *output);

/* The same for f32 values in layout `from`, and for u16 ones. Only for transforms of source
 * FF_VALUES_FLOAT, FF_VALUES_U16. */
void ff_transform_floats(const ff_transform *transform, const float *values, ff_layout from,
                         uint32_t width, uint32_t height, void *output);

void ff_transform_words(const ff_transform *transform, const uint16_t *values, ff_layout from,
                        uint32_t width, uint32_t height, void *output);

/* Whether any value of an output of width x height is inf or NaN. */
bool ff_transform_not_finite(const ff_transform *transform, uint32_t width, uint32_t height,
                             const void *output);

/* The output value of channel `channel` for u8 value `value`, as float32 before it is rounded to
 * the dtype: the definition that the tables are built from. */
float ff_transform_value(const ff_transform *transform, uint32_t channel, uint8_t value);

/* Records in `metadata` what is done to every image, as its ordered transform lines, and the
 * statistics, if any:
 *   grayscale
 *   pad_square
 *   resize size=256 interpolation=bilinear passes=cheaper_first
 *                                                 (or size=HxW for an exact resize; with a bound
 *                                                  size=256 max_size=512; without `passes`, the
 *                                                  horizontal pass is first)
 *   max_side size=512 interpolation=bilinear passes=cheaper_first
 *                                                 (a bound alone)
 *   center_crop size=224x224
 *   to_tensor scale=1/255                         (or range=LO,HI if ranged; floats: none)
 *   normalize mean=3ef5c28f,... std=3e6a7efa,...  (bits of each float32 in hexadecimal)
 * `grayscale` means FF_MODE_GRAY only. The lines are the same for every dtype and layout. geometry
 * may be NULL. metadata->channels needs not be set. */
FF_MUST_USE ff_status ff_transform_record(ff_metadata *metadata, ff_image_mode mode,
                                          const ff_geometry *geometry,
                                          const ff_transform_spec *spec, ff_error *error);
/* Replaces mean and std [statistics_count] of a metadata whose last transform is normalize. */
FF_MUST_USE ff_status ff_transform_record_again(ff_metadata *metadata, const float *mean,
                                                const float *std, ff_error *error);

#endif
