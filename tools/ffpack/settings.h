/* The recipe: what the command line asked for, checked and in the terms of the rooms that do it.
 * Thread rule: read-only once made. */
#ifndef FF_FFPACK_RECIPE_H
#define FF_FFPACK_RECIPE_H

#include "format/part.h"
#include "tools/ffpack/image/geometry.h"

/* The options as they were parsed: strings point into argv. */
typedef struct ff_arguments {
    const char *source, *output;
    const char *format; /* a word of the source table, or "auto" */
    const char *part;   /* "I/N", or NULL */
    const char *resize, *center_crop, *mean, *std, *stats, *stats_from, *classes, *val_labels,
        *compress, *range;
    const char *label; /* the label field to keep; NULL = all */
    const char *classes_from, *label_list, *splits, *exclude; /* NULL = not given */
    bool allow_empty_classes;
    int dtype, layout, interpolation, on_error, alignment;
    int mode;             /* -1 = not given */
    int array_layout;     /* of the source's arrays; -1 = not given */
    int64_t jobs;         /* 0 = one a CPU */
    int64_t shuffle;      /* seed; -1 = not shuffled */
    int64_t max_side;     /* 0 = not given */
    int64_t stats_sample; /* items; 0 = all */
    bool pad_square;
    bool exif, allow_truncated, fast_decode;
    bool resume, force, dry_run, json;
    uint64_t shard_bytes;
} ff_arguments;

/* The words of the options with choices, in the order of the numbers above. */
#define FF_DTYPE_CHOICES         "f16|f32|bf16|u8|u16"
#define FF_LAYOUT_CHOICES        "chw|hwc"
#define FF_INTERPOLATION_CHOICES "bilinear|bicubic"
#define FF_MODE_CHOICES          "rgb|gray"
#define FF_ON_ERROR_CHOICES      "fail|skip"
#define FF_ALIGNMENT_CHOICES     "64|4096"

typedef enum ff_statistics_kind {
    FF_STATISTICS_COMPUTE, /* measured on the train split */
    FF_STATISTICS_GIVEN,   /* --mean and --std */
    FF_STATISTICS_FROM,    /* of a packed set */
} ff_statistics_kind;

typedef struct ff_recipe {
    const ff_arguments *arguments;
    ff_dtype dtype;
    ff_layout layout;
    ff_geometry geometry;
    ff_image_mode mode; /* FF_MODE_NATIVE where not given: the source decides */
    double low, high;   /* --range */
    ff_statistics_kind statistics;
    uint32_t statistics_count; /* channels of mean and std, where given or from a set */
    float *mean, *std;         /* owned */
    char *statistics_origin;   /* how they came about, recorded; owned */
    uint32_t alignment;
    ff_compression compression;
    int level;
    ff_part part; /* count 0 = the whole set */
    bool skip;    /* --on-error skip */
    int jobs;
} ff_recipe;

/* Checks values and combinations; reads the statistics of --stats-from. FF_USAGE with a sentence
 * that names the option. `arguments` outlives the recipe. */
FF_MUST_USE ff_status ff_recipe_make(ff_recipe *recipe, const ff_arguments *arguments,
                                     ff_error *error);
void ff_recipe_free(ff_recipe *recipe);

#endif
