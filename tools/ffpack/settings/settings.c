#include "tools/ffpack/settings/settings.h"

#include "format/base/real.h"
#include "format/base/thread.h"
#include "format/storage/storage.h"
#include "format/writer/output.h"
#include "tools/ffpack/settings/like.h"
#include "tools/ffpack/settings/normalize.h"
#include "tools/ffpack/settings/part_auto.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum {
    /* After the filters mostly entropy coding is left: on photographs level 1 makes smaller shards
     * than 3 and reads a fifth faster (tests/bench/compression.py). */
    DEFAULT_LEVEL = 1,
    JOBS_LIMIT = 1024
};

/* "a,b,c" -> float32, each rounded from double, as torch.as_tensor does with Python's numbers. */
static ff_status parse_list(float **values, uint32_t *count, const char *option, const char *text,
                            ff_error *error) {
    size_t capacity = 0;
    *count = 0;
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        double value = ff_real_read(at, &end);
        if (end == at || (*end && *end != ',') || !isfinite((float)value))
            return ff_fail(error, FF_USAGE,
                           "--%s: '%s' is not a list of numbers, wanted one a channel, like "
                           "0.485,0.456,0.406",
                           option, text);
        if (*count == FF_CHANNELS_LIMIT)
            return ff_fail(error, FF_USAGE, "--%s: more than %u numbers", option,
                           FF_CHANNELS_LIMIT);
        FF_TRY(ff_reserve(values, &capacity, *count + 1, sizeof **values, "statistics", error));
        (*values)[(*count)++] = (float)value;
        if (!*end) return FF_OK;
        at = end + 1;
    }
}

static ff_status take_given(ff_settings *settings, const ff_arguments *arguments, ff_error *error) {
    if (!arguments->mean || !arguments->std)
        return ff_fail(error, FF_USAGE, "--%s is set without --%s; wanted both or neither",
                       arguments->mean ? "mean" : "std", arguments->mean ? "std" : "mean");
    uint32_t std_count;
    FF_TRY(
        parse_list(&settings->mean, &settings->statistics_count, "mean", arguments->mean, error));
    FF_TRY(parse_list(&settings->std, &std_count, "std", arguments->std, error));
    if (settings->statistics_count != std_count)
        return ff_fail(error, FF_USAGE,
                       "--mean has %u numbers and --std %u; wanted the same "
                       "number",
                       settings->statistics_count, std_count);
    for (uint32_t i = 0; i < std_count; i++)
        if (!(settings->std[i] > 0))
            return ff_fail(error, FF_USAGE, "--std: %g is not above 0", (double)settings->std[i]);
    settings->statistics = FF_STATISTICS_GIVEN;
    return ff_copy_string(&settings->statistics_origin, "given", error);
}

static ff_status take_from(ff_settings *settings, const char *path, ff_error *error) {
    ff_metadata metadata;
    const char *kind;
    ff_status status;
    FF_TRY_DONE(ff_like_read(&metadata, &kind, path, error));
    const uint32_t count = metadata.statistics_count;
    if (!count) FF_TRY_DONE(ff_fail(error, FF_USAGE, "%s has no mean and std recorded", path));
    settings->statistics = FF_STATISTICS_FROM;
    settings->statistics_count = count;
    FF_TRY_DONE(ff_alloc(&settings->mean, count, sizeof *settings->mean, "statistics", error));
    FF_TRY_DONE(ff_alloc(&settings->std, count, sizeof *settings->std, "statistics", error));
    memcpy(settings->mean, metadata.mean, count * sizeof *settings->mean);
    memcpy(settings->std, metadata.std, count * sizeof *settings->std);
    FF_TRY_DONE(ff_format(&settings->statistics_origin, error, "taken from %s", kind));
done:
    ff_metadata_free(&metadata);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--stats-from");
}

static ff_status take_statistics(ff_settings *settings, const ff_arguments *arguments,
                                 ff_error *error) {
    bool given = arguments->mean || arguments->std;
    bool compute = arguments->stats || arguments->stats_sample;
    if (given + compute + (arguments->stats_from != NULL) + (arguments->normalize >= 0) > 1)
        return ff_fail(error, FF_USAGE,
                       "wanted one of --mean with --std, --normalize, --stats compute (or "
                       "--stats-sample), and --stats-from");
    if (arguments->stats && strcmp(arguments->stats, "compute") != 0)
        return ff_fail(error, FF_USAGE, "--stats: '%s' is unknown, wanted compute",
                       arguments->stats);
    settings->stats_sample = (uint64_t)arguments->stats_sample;
    settings->stats_from = arguments->stats_from;
    if (arguments->normalize >= 0) return ff_normalize_take(settings, arguments->normalize, error);
    if (given) return take_given(settings, arguments, error);
    if (arguments->stats_from) return take_from(settings, arguments->stats_from, error);
    settings->statistics = compute ? FF_STATISTICS_COMPUTE : FF_STATISTICS_DEFAULT;
    return FF_OK;
}

static ff_status parse_compress(ff_settings *settings, const char *text, ff_error *error) {
    if (!text) return FF_OK;
    settings->compression = FF_COMPRESSION_ZSTD;
    settings->level = DEFAULT_LEVEL;
    if (!strcmp(text, "zstd")) return FF_OK;
    char *end = NULL;
    long level = !strncmp(text, "zstd:", 5) ? strtol(text + 5, &end, 10) : 0;
    if (!end || end == text + 5 || *end || level < 1 || level > ZSTD_maxCLevel())
        return ff_fail(error, FF_USAGE,
                       "--compress: '%s' is unknown, wanted zstd or zstd:LEVEL with a level from 1 "
                       "to %d",
                       text, ZSTD_maxCLevel());
    settings->level = (int)level;
    return FF_OK;
}

static ff_status parse_range(ff_settings *settings, const char *text, ff_error *error) {
    settings->ranged = text != NULL;
    if (!text) return FF_OK;
    char *comma, *end = NULL;
    settings->low = ff_real_read(text, &comma);
    if (comma != text && *comma == ',') settings->high = ff_real_read(comma + 1, &end);
    double width = settings->high - settings->low;
    if (end && end != comma + 1 && !*end && isfinite(width) && width > 0) return FF_OK;
    return ff_fail(
        error, FF_USAGE,
        "--range: '%s' is not a range of values, wanted LO,HI with LO below HI, like 0,65535",
        text);
}

ff_status ff_max_skip_parse(ff_max_skip *max, const char *text, ff_error *error) {
    *max = (ff_max_skip){.text = text ? text : "1%", .given = text != NULL, .percent = 1};
    if (!text) return FF_OK;
    char *end;
    const double value = *text >= '0' && *text <= '9' ? ff_real_read(text, &end) : -1;
    const bool percent = value >= 0 && !strcmp(end, "%") && value <= 100;
    const bool count = value >= 0 && !*end && value == floor(value) && value < 9e15;
    if (!percent && !count)
        return ff_fail(
            error, FF_USAGE,
            "--max-skip: '%s' is neither a number of items nor a share, wanted N or P%%, like 20 "
            "or 1%%",
            text);
    max->percent = percent ? value : -1;
    max->count = (uint64_t)value;
    return FF_OK;
}

static ff_status take_max_skip(ff_settings *settings, const char *text, ff_error *error) {
    if (text && !settings->skip)
        return ff_fail(error, FF_USAGE, "--max-skip: is for --on-error skip");
    return ff_max_skip_parse(&settings->max_skip, text, error);
}

ff_status ff_max_skip_check(const ff_max_skip *max, const char *split, uint64_t skipped,
                            uint64_t items, ff_error *error) {
    const uint64_t allowed =
        max->percent < 0 ? max->count : (uint64_t)ceil((double)items * max->percent / 100);
    if (skipped <= allowed) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s%s%" PRIu64 " of %" PRIu64 " items had to be left out, and --max-skip %s "
                   "allows %" PRIu64,
                   split, *split ? ": " : "", skipped, items, max->text, allowed);
}

static ff_status take_rule(ff_settings *settings, const ff_arguments *arguments, ff_error *error) {
    const char *given = arguments->split_seed >= 0 ? "split-seed"
                        : arguments->stratify      ? "stratify"
                        : arguments->group_by      ? "group-by"
                                                   : NULL;
    if (!arguments->split && given)
        return ff_fail(error, FF_USAGE, "--%s: is for --split NAME=SHARE,...", given);
    if (!arguments->split) return FF_OK;
    settings->source.rule = &settings->rule;
    return ff_split_rule_parse(&settings->rule, arguments->split,
                               arguments->split_seed < 0 ? 0 : (uint64_t)arguments->split_seed,
                               arguments->stratify, arguments->group_by, error);
}

static ff_status take_geometry(ff_settings *settings, const ff_arguments *arguments,
                               ff_error *error) {
    ff_geometry *geometry = &settings->geometry;
    geometry->pad_square = arguments->pad_square;
    geometry->max_side = (uint32_t)arguments->max_side;
    geometry->interpolation = arguments->interpolation ? FF_BICUBIC : FF_BILINEAR;
    geometry->order = settings->pillow_12 ? FF_HORIZONTAL_FIRST : FF_CHEAPER_FIRST;
    if (arguments->resize)
        FF_TRY(ff_geometry_parse_resize(geometry, "--resize", arguments->resize, error));
    if (arguments->center_crop)
        FF_TRY(ff_geometry_parse_crop(geometry, "--center-crop", arguments->center_crop, error));
    if (!geometry->max_side) return FF_OK;
    if (arguments->center_crop || geometry->resize == FF_RESIZE_EXACT)
        return ff_fail(
            error, FF_USAGE,
            "--max-side keeps images at different sizes, and %s makes all the same size; wanted "
            "only one",
            arguments->center_crop ? "--center-crop" : "--resize HxW");
    if (geometry->resize == FF_RESIZE_SHORT && geometry->size >= geometry->max_side)
        return ff_fail(error, FF_USAGE,
                       "--max-side: %u is not above the short side of --resize %u; wanted more",
                       geometry->max_side, geometry->size);
    return FF_OK;
}

/* --part auto names the output, so that the tasks of a job have the same command line. */
static ff_status take_part(ff_settings *settings, const char *text, ff_error *error) {
    if (!text) return FF_OK;
    if (strcmp(text, "auto") != 0) return ff_part_parse(&settings->part, text, error);
    FF_TRY(ff_part_auto(&settings->part, &settings->part_origin, error));
    if (!settings->output) return FF_OK;
    FF_TRY(ff_part_path(&settings->part_output, settings->output, &settings->part, error));
    settings->output = settings->part_output;
    return FF_OK;
}

/* --decode lists every broken image, whatever packing would do about it. */
static ff_status check_decode(const ff_arguments *arguments, ff_error *error) {
    const char *with = arguments->part ? "part" : arguments->on_error == 1 ? "on-error skip" : NULL;
    if (!arguments->decode) return FF_OK;
    if (!arguments->dry_run)
        return ff_fail(error, FF_USAGE,
                       "--decode: is for --dry-run; ffpack check SOURCE decodes, too");
    if (with)
        return ff_fail(error, FF_USAGE,
                       "--decode decodes all of SOURCE and lists every broken image; --%s does not "
                       "go with it",
                       with);
    return FF_OK;
}

/* Copies the options that need no parsing. */
static ff_settings typed(const ff_arguments *arguments) {
    static const ff_image_mode modes[] = {FF_MODE_RGB, FF_MODE_GRAY};
    int jobs = arguments->jobs ? (int)arguments->jobs : ff_cpu_count();
    if (jobs > JOBS_LIMIT) jobs = JOBS_LIMIT;
    return (ff_settings){.path = arguments->source,
                         .source = {.format = arguments->format,
                                    .classes = arguments->classes,
                                    .val_labels = arguments->val_labels,
                                    .label = arguments->label,
                                    .classes_from = arguments->classes_from,
                                    .label_list = arguments->label_list,
                                    .columns = arguments->columns,
                                    .splits = arguments->splits,
                                    .exclude = arguments->exclude,
                                    .allow_empty_classes = arguments->allow_empty_classes,
                                    .label_kind = (ff_label_kind)(arguments->label_kind + 1),
                                    .array_layout = (ff_array_axes)(arguments->array_layout + 1),
                                    .skip = arguments->on_error == 1 || arguments->decode,
                                    .jobs = jobs},
                         .output = arguments->output,
                         .resume = arguments->resume,
                         .force = arguments->force || arguments->if_changed,
                         .if_changed = arguments->if_changed,
                         .dry_run = arguments->dry_run,
                         .decode = arguments->decode,
                         .check = arguments->check,
                         .allow_duplicates = arguments->allow_duplicates,
                         .new_classes = arguments->new_classes,
                         .dtype = ff_dtype_choice(arguments->dtype),
                         .layout = arguments->layout ? FF_HWC : FF_CHW,
                         .mode = arguments->mode < 0 ? FF_MODE_NATIVE : modes[arguments->mode],
                         .exif = arguments->exif,
                         .allow_truncated = arguments->allow_truncated,
                         .fast_decode = arguments->fast_decode,
                         .pillow_12 = arguments->pillow == 1,
                         .shuffled = arguments->shuffle >= 0,
                         .seed = (uint64_t)arguments->shuffle,
                         .alignment = arguments->alignment ? 4096 : 64,
                         .shard_bytes = arguments->shard_bytes,
                         .skip = arguments->on_error == 1 || arguments->decode,
                         .jobs = jobs};
}

/* A set in a bucket. */
static ff_status take_url(ff_settings *settings, const ff_arguments *arguments, ff_error *error) {
    const char *url = arguments->output;
    if (!url || !ff_storage_is_url(url)) return FF_OK;
    if (arguments->if_changed)
        return ff_fail(error, FF_USAGE, "--if-changed: is for a folder, and %s is a URL", url);
    if (arguments->part && arguments->force)
        return ff_fail(error, FF_USAGE,
                       "--force: with --part is for folders, and %s is a URL; remove the set that "
                       "is there first",
                       url);
    settings->url = url;
    settings->output = NULL;
    return FF_OK;
}

/* Sets are read through the cache. A set for a bucket is built next to the cache, whose size does
 * not count there. Other sources do not use the cache. */
static ff_status use_storage(const ff_arguments *arguments, ff_error *error) {
    const char *const path[] = {arguments->source, arguments->output, arguments->stats_from,
                                arguments->like, arguments->classes_from};
    const size_t count = sizeof path / sizeof *path;
    const ff_storage_options size = {.cache_bytes = arguments->remote.cache_bytes},
                             place = {.cache = arguments->remote.cache};
    ff_storage_options rest = arguments->remote;
    rest.cache = NULL;
    rest.cache_bytes = 0;
    const char *idle = ff_storage_idle_option(&rest, path, count);
    if (!idle) idle = ff_storage_idle_option(&place, path + 1, count - 1);
    if (!idle) idle = ff_storage_idle_option(&size, path + 2, count - 2);
    ff_storage_set_defaults(&arguments->remote);
    return ff_storage_refuse_idle(idle, error);
}

ff_status ff_settings_resolve(ff_settings *settings, const ff_arguments *arguments,
                              ff_error *error) {
    *settings = typed(arguments);
    FF_TRY(use_storage(arguments, error));
    if (!arguments->output && !arguments->dry_run)
        return ff_fail(error, FF_USAGE, "no output folder; wanted -o OUT");
    if (arguments->if_changed && (arguments->part || arguments->force))
        return ff_fail(error, FF_USAGE, "--if-changed: %s",
                       arguments->part ? "is for a whole set, and --part packs a part of one"
                                       : "replaces OUT if the source has changed, and --force "
                                         "always; wanted only one");
    if (arguments->if_changed && ff_is_elsewhere(arguments->source))
        return ff_fail(error, FF_USAGE,
                       "--if-changed: compares when files of this machine changed; %s is not one",
                       strcmp(arguments->source, "-") ? "a URL" : "the standard input");
    FF_TRY(take_url(settings, arguments, error));
    FF_TRY(check_decode(arguments, error));
    FF_TRY(take_part(settings, arguments->part, error));
    if (settings->force && settings->output) {
        FF_TRY(ff_output_resolve(&settings->real_output, settings->output, error));
        if (settings->real_output) settings->output = settings->real_output;
    }
    if (arguments->resume && arguments->dry_run)
        return ff_fail(error, FF_USAGE, "--resume and --dry-run exclude each other");
    FF_TRY(take_rule(settings, arguments, error));
    FF_TRY(take_geometry(settings, arguments, error));
    FF_TRY(parse_compress(settings, arguments->compress, error));
    FF_TRY(parse_range(settings, arguments->range, error));
    FF_TRY(take_max_skip(settings, arguments->max_skip, error));
    return take_statistics(settings, arguments, error);
}

void ff_settings_free(ff_settings *settings) {
    ff_split_rule_free(&settings->rule);
    free(settings->mean);
    free(settings->std);
    free(settings->statistics_origin);
    free(settings->part_origin);
    free(settings->part_output);
    free(settings->real_output);
    *settings = (ff_settings){0};
}
