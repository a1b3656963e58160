/* Room tools/ffpack/settings, floor 13: what the user asked for.
 *
 * options.c is the table of options, habits.c knows other tools' names for them. settings.c checks
 * and types the options; like.c takes those of a run or of a set, normalize.c those of a named
 * dataset, part_auto.c the part from a launcher's variables.
 *
 * May include format, tools/ffpack/image, tools/ffpack/source.
 *
 * The settings of a run: the options as parsed, and the settings resolved from them, checked and
 * typed. After ff_settings_resolve only the settings are read. Thread rule: read-only once
 * resolved. */
#ifndef FF_FFPACK_SETTINGS_H
#define FF_FFPACK_SETTINGS_H

#include "format/disk/part.h"
#include "format/reader/history.h"
#include "format/storage/storage.h"
#include "tools/ffpack/image/geometry.h"
#include "tools/ffpack/source/source.h"

/* The options as they were parsed: strings point into argv. */
typedef struct ff_arguments {
    const char *source, *output;
    const char *format; /* a word of the source table, or "auto" */
    const char *part;   /* "I/N", or NULL */
    const char *resize, *center_crop, *mean, *std, *stats, *stats_from, *classes, *val_labels,
        *compress, *range, *max_skip;
    const char *split, *group_by; /* NULL = not given */
    int64_t split_seed;           /* -1 = not given */
    bool stratify;
    const char *like;  /* NULL = not given */
    const char *label; /* the label field to keep; NULL = all */
    const char *classes_from, *label_list, *columns, *splits, *exclude; /* NULL = not given */
    bool allow_empty_classes, allow_duplicates, new_classes;
    int dtype, layout, interpolation, on_error, alignment, progress;
    int mode;             /* -1 = not given */
    int array_layout;     /* of the source's arrays; -1 = unset */
    int label_kind;       /* -1 = not given */
    int64_t jobs;         /* 0 = one per CPU */
    int64_t shuffle;      /* seed; -1 = not shuffled */
    int64_t max_side;     /* 0 = not given */
    int64_t stats_sample; /* items; 0 = all */
    bool pad_square;
    bool exif, allow_truncated, fast_decode;
    int pillow;    /* FF_PILLOW_CHOICES */
    int normalize; /* a word of FF_NORMALIZE_CHOICES (normalize.h); -1 = unset */
    bool resume, force, if_changed, dry_run, json, no_history;
    bool decode; /* with dry_run: all items */
    bool check;  /* ffpack check: only dry_run and decode */
    uint64_t shard_bytes;
    ff_storage_options remote; /* of URLs */
} ff_arguments;

/* The words of the options with choices, in the order of the numbers above. */
#define FF_LAYOUT_CHOICES        "chw|hwc"
#define FF_INTERPOLATION_CHOICES "bilinear|bicubic"
#define FF_MODE_CHOICES          "rgb|gray"
#define FF_PILLOW_CHOICES        "13|12"
#define FF_ON_ERROR_CHOICES      "fail|skip"
#define FF_ALIGNMENT_CHOICES     "64|4096"

typedef enum ff_statistics_kind {
    FF_STATISTICS_DEFAULT, /* unset: COMPUTE if the source has u8 values */
    FF_STATISTICS_COMPUTE, /* measured on the train split */
    FF_STATISTICS_GIVEN,   /* --mean and --std, or --normalize */
    FF_STATISTICS_FROM,    /* of a packed set or a run */
} ff_statistics_kind;

/* The number of a split's items that --on-error skip may leave out. */
typedef struct ff_max_skip {
    const char *text; /* the option, or the default */
    bool given;
    double percent; /* of the items, rounded up; < 0: */
    uint64_t count;
} ff_max_skip;

/* Strings that are not owned are the arguments'. */
typedef struct ff_settings {
    const char *path;         /* SOURCE */
    ff_source_options source; /* except `temporary` */
    const char *output;       /* NULL in a dry run without OUT */
    const char *url;          /* OUT if it is a URL, NULL else; `output` is then set by packing */
    bool resume, force, dry_run;
    bool if_changed;                    /* then also `force` */
    bool decode, check;                 /* as in the arguments */
    ff_split_rule rule;                 /* --split; owned */
    bool allow_duplicates, new_classes; /* of append */
    ff_dtype dtype;
    ff_layout layout;
    ff_geometry geometry;
    ff_image_mode mode; /* FF_MODE_NATIVE if unset: the source decides */
    bool exif, allow_truncated, fast_decode;
    bool pillow_12; /* values of Pillow 12.1 and older, not of 13.0 */
    bool ranged;    /* --range */
    double low, high;
    ff_statistics_kind statistics;
    uint64_t stats_sample;     /* items that are measured; 0 = all */
    const char *stats_from;    /* the set or run */
    uint32_t statistics_count; /* channels of mean and std, if set or from a set; 0 = as the
                                  source's, at most FF_CHANNELS_LIMIT */
    float *mean, *std;         /* owned */
    char *statistics_origin;   /* where they come from, recorded; owned */
    const char
        *like; /* --like, or NULL; with the channels and size that no option makes, 0 = any */
    uint32_t like_channels, like_height, like_width;
    bool shuffled;
    uint64_t seed; /* of --shuffle */
    uint32_t alignment;
    uint64_t shard_bytes;
    ff_compression compression;
    int level;
    ff_part part; /* count 0 = the whole set */
    /* With --part auto, owned: what it was taken from, and `output`, OUT.part-I-of-N. */
    char *part_origin, *part_output;
    char *real_output; /* with --force: where the symlink `output` leads; owned */
    bool skip;         /* --on-error skip */
    ff_max_skip max_skip;
    int jobs;
    ff_history_command history; /* filled by the command */
} ff_settings;

/* Checks values and combinations; reads the statistics of --stats-from. FF_USAGE naming the option.
 * Strings that `arguments` points to must outlive the settings. */
FF_MUST_USE ff_status ff_settings_resolve(ff_settings *settings, const ff_arguments *arguments,
                                          ff_error *error);
/* Fails if more of a split's items were left out than `max` allows. */
FF_MUST_USE ff_status ff_max_skip_parse(ff_max_skip *max, const char *text, ff_error *error);
FF_MUST_USE ff_status ff_max_skip_check(const ff_max_skip *max, const char *split, uint64_t skipped,
                                        uint64_t items, ff_error *error);
void ff_settings_free(ff_settings *settings);

#endif
