#include "train/sets/agreement.h"

#include "format/cli/say.h"

#include <inttypes.h>
#include <string.h>

typedef struct pair {
    const char *train_path, *val_path;
    const ff_metadata *train, *val;
} pair;

static ff_status check_shape(const pair *both, ff_agreement_fit fit, ff_error *error) {
    const ff_metadata *train = both->train, *val = both->val;
    if (train->channels != val->channels)
        return ff_fail(error, FF_BAD_DATA,
                       "%s has %s and %s has %" PRIu32
                       "; training and validation samples must have the same (ffpack --mode)",
                       both->train_path, ff_say_count(train->channels, "channel", "channels").text,
                       both->val_path, val->channels);
    if (fit == FF_FIT_WHOLE && (train->height != val->height || train->width != val->width))
        return ff_fail(
            error, FF_BAD_DATA,
            "%s has samples of %" PRIu32 "x%" PRIu32 " and %s of %" PRIu32 "x%" PRIu32
            "; use --crop N to crop both to N x N, or --val-resize N, or pack both to one "
            "size",
            both->train_path, train->height, train->width, both->val_path, val->height, val->width);
    return FF_OK;
}

static ff_status check_statistics(const pair *both, ff_error *error) {
    const ff_metadata *train = both->train, *val = both->val;
    if ((train->statistics_count != 0) != (val->statistics_count != 0))
        return ff_fail(error, FF_BAD_DATA,
                       "%s is normalized and %s is not; pack the second with --stats-from %s",
                       train->statistics_count ? both->train_path : both->val_path,
                       train->statistics_count ? both->val_path : both->train_path,
                       train->statistics_count ? both->train_path : both->val_path);
    for (uint32_t i = 0; i < train->statistics_count && i < val->statistics_count; i++) {
        bool mean = memcmp(&train->mean[i], &val->mean[i], sizeof(float)) != 0;
        if (!mean && memcmp(&train->std[i], &val->std[i], sizeof(float)) == 0) continue;
        return ff_fail(error, FF_BAD_DATA,
                       "%s was normalized with a %s of %.9g in channel %" PRIu32
                       " and %s with %.9g; pack both with the same (ffpack --stats-from %s)",
                       both->train_path, mean ? "mean" : "std",
                       (double)(mean ? train->mean[i] : train->std[i]), i, both->val_path,
                       (double)(mean ? val->mean[i] : val->std[i]), both->train_path);
    }
    return FF_OK;
}

/* Whether a transform only sets a sample's size, which resampling changes anyway. */
static bool is_geometry(const char *line) {
    static const char *const words[] = {"resize", "center_crop", "max_side", "pad"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(line, words[i], strlen(words[i])) == 0) return true;
    return false;
}

/* Returns the next relevant transform from *at on, or NULL, and moves *at to it. */
static const char *next_transform(const ff_metadata *metadata, ff_agreement_fit fit, size_t *at) {
    while (*at < metadata->transform_count && fit == FF_FIT_RESAMPLED &&
           is_geometry(metadata->transform[*at]))
        ++*at;
    return *at < metadata->transform_count ? metadata->transform[*at] : NULL;
}

static ff_status check_transforms(const pair *both, ff_agreement_fit fit, ff_error *error) {
    for (size_t i = 0, k = 0;; i++, k++) {
        const char *a = next_transform(both->train, fit, &i);
        const char *b = next_transform(both->val, fit, &k);
        if (!a && !b) return FF_OK;
        if (a && b && strcmp(a, b) == 0) continue;
        return ff_fail(error, FF_BAD_DATA,
                       "%s and %s were transformed differently: transform %zu is %s%s%s in the "
                       "first and %s%s%s in the second; pack both with the same options",
                       both->train_path, both->val_path, i + 1, a ? "'" : "", a ? a : "missing",
                       a ? "'" : "", b ? "'" : "", b ? b : "missing", b ? "'" : "");
    }
}

/* Class names are bytes of the source; an error message escapes them. */
static ff_status name_classes(const pair *both, uint32_t number, const char *a, const char *b,
                              ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_escape(&text, a, strlen(a), error));
    FF_TRY_DONE(ff_buffer_add(&text, "", 1, error));
    const size_t second = text.length;
    FF_TRY_DONE(ff_escape(&text, b, strlen(b), error));
    FF_TRY_DONE(ff_buffer_add(&text, "", 1, error));
    status = ff_fail(
        error, FF_BAD_DATA,
        "class %" PRIu32
        " is '%.200s' in %s and '%.200s' in %s; both need the same classes in the same order "
        "(ffpack --classes)",
        number, text.bytes, both->train_path, text.bytes + second, both->val_path);
done:
    ff_buffer_free(&text);
    return status;
}

static ff_status check_classes(const pair *both, const ff_field *train, const ff_field *val,
                               ff_error *error) {
    uint32_t shared = train->class_count < val->class_count ? train->class_count : val->class_count;
    for (uint32_t i = 0; i < shared; i++)
        if (strcmp(train->class_name[i], val->class_name[i]) != 0)
            return name_classes(both, i, train->class_name[i], val->class_name[i], error);
    if (train->class_count != val->class_count)
        return ff_fail(error, FF_BAD_DATA,
                       "label field '%s' names %s in %s and %" PRIu32
                       " in %s; both need the same classes in the same order (ffpack --classes)",
                       train->name, ff_say_count(train->class_count, "class", "classes").text,
                       both->train_path, val->class_count, both->val_path);
    return FF_OK;
}

ff_status ff_agreement_check(const ff_agreement_side *train, const ff_agreement_side *val,
                             ff_agreement_fit fit, ff_error *error) {
    const pair both = {train->path, val->path, train->metadata, val->metadata};
    uint8_t train_id[16], val_id[16];
    FF_TRY(check_shape(&both, fit, error));
    FF_TRY(check_statistics(&both, error));
    FF_TRY(check_transforms(&both, fit, error));
    if (val->field == FF_AGREEMENT_ANY_CLASSES) return FF_OK;
    FF_TRY(check_classes(&both, &both.train->field[train->field], &both.val->field[val->field],
                         error));
    if (fit == FF_FIT_RESAMPLED) return FF_OK;
    /* The remaining differences are in the class lists of other fields. */
    FF_TRY(ff_metadata_transform_id(both.train, train_id, error));
    FF_TRY(ff_metadata_transform_id(both.val, val_id, error));
    if (memcmp(train_id, val_id, sizeof val_id) == 0) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s and %s have different transform_ids, in the class lists of other label "
                   "fields than '%s'; ffinspect shows both; pack them with the same options",
                   both.train_path, both.val_path, both.train->field[train->field].name);
}
