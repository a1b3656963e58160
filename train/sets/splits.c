#include "train/sets/splits.h"

#include "format/disk/checksum.h"
#include "format/disk/set.h"
#include "format/reader/older.h"
#include "train/sets/agreement.h"
#include "train/sets/folders.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Handles a `folder` that holds sets, but none with the wanted names: FF_USAGE or, with `any`, its
 * only set. */
static ff_status choose_other(char **path, const char *folder, const char *wanted, bool any,
                              ff_error *error) {
    ff_set set;
    ff_buffer found = {0};
    ff_status status = FF_OK;
    if (ff_set_find(&set, folder, NULL) != FF_OK || !set.count || !*set.split[0].name) goto done;
    if (any && set.count == 1) {
        status = ff_copy_string(path, set.split[0].path, error);
        goto done;
    }
    FF_TRY_DONE(ff_set_list(&set, &found, error));
    status = ff_fail(error, FF_USAGE, "%s: has no split '%s'; name one of its sets: %s", folder,
                     wanted, found.bytes);
done:
    ff_buffer_free(&found);
    ff_set_free(&set);
    return status;
}

/* Opens `folder` or, if it holds splits, the first split with one of these ranks; then *beside =
 * true. `any`: if there is none, the folder's only set. */
static ff_status open_split(ff_dataset **dataset, const char *folder, ff_set_rank from,
                            ff_set_rank to, ff_verify verify, bool any, bool *beside,
                            ff_error *error) {
    char *path;
    FF_TRY(ff_set_choose(&path, folder, from, to, error));
    *beside = path && strcmp(path, folder);
    ff_status status;
    if (!path)
        FF_TRY_DONE(
            choose_other(&path, folder, from == FF_SPLIT_TRAIN ? "train" : "val", any, error));
    status = ff_dataset_open(dataset, path ? path : folder, verify, error);
done:
    free(path);
    return status;
}

/* The folders of --data as one set. *beside: the first one holds splits. */
static ff_status open_train(ff_dataset **dataset, const ff_folders *folders, ff_verify verify,
                            bool *beside, ff_error *error) {
    char *chosen[FF_SETS_LIMIT] = {NULL};
    const char *path[FF_SETS_LIMIT];
    ff_status status = FF_OK;
    if (folders->count == 1)
        return open_split(dataset, folders->path[0], FF_SPLIT_TRAIN, FF_SPLIT_TRAIN, verify, false,
                          beside, error);
    for (size_t i = 0; i < folders->count && status == FF_OK; i++) {
        status = ff_set_choose(&chosen[i], folders->path[i], FF_SPLIT_TRAIN, FF_SPLIT_TRAIN, error);
        path[i] = chosen[i] ? chosen[i] : folders->path[i];
    }
    *beside = chosen[0] && strcmp(chosen[0], folders->path[0]);
    if (status == FF_OK)
        status = ff_dataset_open_several(dataset, path, folders->count, verify, NULL, error);
    for (size_t i = 0; i < folders->count; i++) free(chosen[i]);
    return status;
}

static ff_status open_folders(ff_splits *splits, const ff_splits_options *options,
                              const ff_folders *folders, ff_error *error) {
    bool beside, unused;
    FF_TRY(open_train(&splits->train, folders, options->verify, &beside, error));
    if (options->fold && !options->val)
        return open_train(&splits->val, folders, options->verify, &unused, error);
    /* If a part of the training set was held out, that part is used, not the test set. */
    if (ff_splits_val_is_none(options->val)) return FF_OK;
    if (options->val)
        return open_split(&splits->val, options->val, FF_SPLIT_VAL, FF_SPLIT_TEST, options->verify,
                          false, &unused, error);
    if (!beside) return FF_OK;
    char *path;
    FF_TRY(ff_set_choose(&path, folders->path[0], FF_SPLIT_VAL, FF_SPLIT_TEST, error));
    if (!path) return FF_OK;
    ff_status status = ff_dataset_open(&splits->val, path, options->verify, error);
    free(path);
    splits->val_found = true;
    return status;
}

static ff_status open_both(ff_splits *splits, const ff_splits_options *options, ff_error *error) {
    ff_folders folders;
    FF_TRY(ff_folders_read(&folders, options->data, error));
    const ff_status status = open_folders(splits, options, &folders, error);
    ff_folders_free(&folders);
    return status;
}

/* Uses a set to which samples were appended as it was when the run began. */
static ff_status return_to(ff_dataset *set, const char *began, uint64_t *left_out,
                           ff_error *error) {
    char is[33];
    *left_out = 0;
    if (!set || !began || !*began) return FF_OK;
    ff_hex(is, ff_dataset_id(set)->content, 16);
    return strcmp(is, began) ? ff_dataset_return_to(set, began, left_out, error) : FF_OK;
}

/* ---- some of the samples -------------------------------------------------------------------- */

static ff_status choose_samples(ff_selection *selected, ff_dataset *set,
                                const ff_splits_options *options, const char *fold,
                                ff_error *error) {
    struct stat info;
    const char *subset = options->subset;
    const bool is_file =
        subset && (stat(subset, &info) == 0 || ff_selection_list_path(subset) != subset);
    const ff_selection_rule rule = {.list = is_file ? subset : NULL,
                                    .where = is_file ? NULL : subset,
                                    .fold = fold,
                                    .label = options->label};
    if (!set || !ff_selection_asked(&rule)) return FF_OK;
    const ff_status status = ff_selection_make(selected, set, &rule, error);
    if (status == FF_OK) return FF_OK;
    return ff_fail_within(error, status, "%s%s%s", subset ? "--subset" : "",
                          subset && fold ? ", " : "", fold ? "--fold" : "");
}

static ff_status weigh_samples(ff_splits *splits, const ff_splits_options *options,
                               ff_error *error) {
    const ff_weights_rule rule = {.given = options->sample_weights,
                                  .label = options->label,
                                  .distinct = options->no_replacement,
                                  .samples = options->samples_per_epoch};
    if (rule.distinct && !ff_weights_asked(&rule))
        return ff_fail(error, FF_USAGE,
                       "--no-replacement: needs --sample-weights; without weights "
                       "each sample comes once an epoch");
    if (!ff_weights_asked(&rule)) return FF_OK;
    const ff_status status =
        ff_weights_make(&splits->weights, splits->train,
                        ff_splits_selection(&splits->train_selected), &rule, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--sample-weights");
}

static ff_status share_samples(ff_splits *splits, const ff_splits_options *options,
                               ff_error *error) {
    if (!options->shares && options->shares_of_batch)
        return ff_fail(error, FF_USAGE, "--shares-of: needs --shares");
    if (!options->shares) return FF_OK;
    const ff_status status =
        ff_shares_make(&splits->shares, splits->train, ff_splits_selection(&splits->train_selected),
                       options->shares, options->shares_of_batch, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--shares %s", options->shares);
}

/* A fold is evaluated, and the others are trained on. */
static ff_status choose_both(ff_splits *splits, const ff_splits_options *options, ff_error *error) {
    char *others = NULL;
    if (!options->fold)
        return choose_samples(&splits->train_selected, splits->train, options, NULL, error);
    if (options->val && !ff_splits_val_is_none(options->val))
        return ff_fail(error, FF_USAGE,
                       "--fold %s evaluates on a part of --data; it excludes --val %s",
                       options->fold, options->val);
    if (!strncmp(options->fold, "not ", strlen("not ")))
        return ff_fail(error, FF_USAGE,
                       "--fold '%s': the fold that is evaluated is wanted, K/N like 2/5",
                       options->fold);
    FF_TRY(ff_format(&others, error, "not %s", options->fold));
    ff_status status =
        choose_samples(&splits->train_selected, splits->train, options, others, error);
    free(others);
    if (status == FF_OK)
        status = choose_samples(&splits->val_selected, splits->val, options, options->fold, error);
    return status;
}

static ff_status check_label(const ff_dataset *dataset, const char *name, size_t *field,
                             ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const char *path = ff_dataset_path(dataset);
    if (metadata->field_count == 0)
        return ff_fail(error, FF_BAD_DATA, "%s: has no label field, and training needs classes",
                       path);
    ff_status status = ff_dataset_field(dataset, name, field, error);
    if (status != FF_OK) return ff_fail_within(error, status, "--label");
    const ff_field *found = &metadata->field[*field];
    if (found->kind != FF_FIELD_CLASS)
        return ff_fail(error, FF_USAGE,
                       "%s: label field '%s' is of kind %s, and training needs one of kind class; "
                       "name it with --label",
                       path, found->name, ff_field_kind_name(found->kind));
    return FF_OK;
}

/* Checks what training and evaluation require of every set. */
static ff_status check_alone(const ff_dataset *dataset, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const char *path = ff_dataset_path(dataset);
    if (ff_dataset_count(dataset) == 0)
        return ff_fail(error, FF_BAD_DATA, "%s: holds no samples", path);
    if (!ff_dtype_is_float(metadata->dtype) && metadata->statistics_count == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: holds raw %s values without the statistics to normalize them; pack it "
                       "with --mean and --std, --stats compute, or --stats-from",
                       path, ff_dtype_name(metadata->dtype));
    if (metadata->dtype == FF_U16)
        return ff_fail(
            error, FF_BAD_DATA,
            "%s: holds u16 values, which this version does not normalize during training; pack it "
            "as f16, bf16 or f32",
            path);
    return FF_OK;
}

/* At least one selected sample must have a label. *largest: of all labels of the set, so that all
 * folds have the same classes; *without: number of selected samples without a label. */
static ff_status check_labeled(ff_dataset *dataset, const ff_selection *selected, size_t field,
                               int64_t *largest, uint64_t *without, ff_error *error) {
    const uint64_t count = ff_splits_count(dataset, selected);
    int64_t value;
    *largest = -1;
    *without = 0;
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        ff_dataset_scan(dataset, i, FF_SCAN_LABELS);
        FF_TRY(ff_dataset_class(dataset, i, field, &value, error));
        if (value > *largest) *largest = value;
    }
    for (uint64_t i = 0; i < count; i++) {
        FF_TRY(ff_dataset_class(dataset, ff_storage_order_at(&selected->numbers, i), field, &value,
                                error));
        *without += value < 0;
    }
    if (*without < count) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: every %ssample's '%s' is -1, unlabeled",
                   ff_dataset_path(dataset), selected->count ? "selected " : "",
                   ff_dataset_metadata(dataset)->field[field].name);
}

/* Classes of labels without names: 0 to the largest label of the training set. */
static ff_status count_classes(ff_splits *splits, size_t train_field, size_t val_field,
                               ff_error *error) {
    const ff_field *field = &ff_dataset_metadata(splits->train)->field[train_field];
    const char *train = ff_dataset_path(splits->train);
    int64_t largest, seen = -1;
    FF_TRY(check_labeled(splits->train, &splits->train_selected, train_field, &largest,
                         &splits->train_without_label, error));
    if (splits->val) {
        const ff_status status = check_labeled(splits->val, &splits->val_selected, val_field, &seen,
                                               &splits->val_without_label, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "the validation set (--val none: without one)");
    }
    splits->classes = field->class_count;
    if (splits->classes) return FF_OK;
    if (largest >= (int64_t)FF_CLASSES_LIMIT)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: the largest label of '%s' is %" PRId64 "; at most %u are accepted",
                       train, field->name, largest, FF_CLASSES_LIMIT - 1);
    if (seen > largest)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has the label %" PRId64 ", but the labels of %s end at %" PRId64
                       "; ffpack --classes FILE packs both sets with the same classes",
                       ff_dataset_path(splits->val), seen, train, largest);
    splits->classes = (uint32_t)largest + 1;
    return FF_OK;
}

/* Chooses the size with which samples enter the net. */
static ff_status choose_size(ff_splits *splits, const ff_splits_options *options, ff_error *error) {
    const ff_metadata *train = ff_dataset_metadata(splits->train);
    const ff_augment_spec *augment = options->augment;
    splits->height = train->height;
    splits->width = train->width;
    uint32_t square = augment->rrc ? augment->rrc : options->crop;
    if (augment->rrc && options->crop && options->crop != augment->rrc)
        return ff_fail(
            error, FF_USAGE,
            "--crop %" PRIu32 " and rrc=%" PRIu32
            " in --augment differ; leave out --crop, the random resized crop has its size",
            options->crop, augment->rrc);
    if (square)
        splits->height = splits->width = square;
    else if (augment->resize && !train->variable_size)
        ff_augment_resized(augment->resize, &splits->height, &splits->width);
    if (train->variable_size && !augment->rrc && !(augment->resize && square))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its samples have different sizes (up to %" PRIu32 "x%" PRIu32
                       "); train on random resized crops of them, as with --augment rrc=224,flip, "
                       "or on --augment resize=256,crop,flip --crop 224, or pack it with --resize",
                       ff_dataset_path(splits->train), train->height, train->width);
    return FF_OK;
}

/* Evaluation resizes if this is requested. Otherwise it resizes if samples do not already have the
 * net's size, and sizes vary or training resamples. Without a set to evaluate on, the training set
 * decides. */
static void choose_val_resize(ff_splits *splits, const ff_splits_options *options) {
    const ff_metadata *val = ff_dataset_metadata(splits->val ? splits->val : splits->train);
    const ff_augment_spec *augment = options->augment;
    bool fits = !val->variable_size && val->height == splits->height && val->width == splits->width;
    splits->val_resize = options->val_resize;
    if (splits->val_resize || fits || !(val->variable_size || ff_augment_resamples(augment)))
        return;
    uint32_t side = splits->height > splits->width ? splits->height : splits->width;
    /* timm's crop_pct of 0.875, rounded down. */
    splits->val_resize = augment->resize ? augment->resize : (uint32_t)((uint64_t)side * 8 / 7);
}

static ff_status check(ff_splits *splits, const ff_splits_options *options, ff_error *error) {
    size_t train_field, val_field = 0;
    const ff_metadata *train = ff_dataset_metadata(splits->train);
    FF_TRY(check_alone(splits->train, error));
    FF_TRY(choose_size(splits, options, error));
    FF_TRY(check_label(splits->train, options->label, &train_field, error));
    splits->label = train->field[train_field].name;
    choose_val_resize(splits, options);
    if (splits->val) {
        FF_TRY(check_alone(splits->val, error));
        FF_TRY(check_label(splits->val, splits->label, &val_field, error));
        ff_agreement_fit fit = splits->val_resize || ff_augment_resamples(options->augment)
                                   ? FF_FIT_RESAMPLED
                               : options->crop ? FF_FIT_CROPPED
                                               : FF_FIT_WHOLE;
        const ff_agreement_side learned = ff_agreement_of(splits->train, train_field);
        const ff_agreement_side seen = ff_agreement_of(splits->val, val_field);
        FF_TRY(ff_agreement_check(&learned, &seen, fit, error));
    }
    splits->channels = train->channels;
    return count_classes(splits, train_field, val_field, error);
}

ff_status ff_splits_open(ff_splits *splits, const ff_splits_options *options, ff_error *error) {
    memset(splits, 0, sizeof *splits);
    ff_status status;
    FF_TRY_DONE(open_both(splits, options, error));
    FF_TRY_DONE(return_to(splits->train, options->began_data, &splits->train_left_out, error));
    FF_TRY_DONE(return_to(splits->val, options->began_val, &splits->val_left_out, error));
    FF_TRY_DONE(choose_both(splits, options, error));
    FF_TRY_DONE(weigh_samples(splits, options, error));
    FF_TRY_DONE(share_samples(splits, options, error));
    FF_TRY_DONE(check(splits, options, error));
done:
    if (status != FF_OK) ff_splits_close(splits);
    return status;
}

bool ff_splits_val_is_none(const char *val) {
    return val && !strcmp(val, FF_SPLITS_NO_VAL);
}

ff_status ff_splits_open_one(ff_dataset **set, const char *folder, const char *label,
                             ff_verify verify, size_t *field, ff_error *error) {
    bool unused;
    ff_status status;
    *set = NULL;
    FF_TRY_DONE(open_split(set, folder, FF_SPLIT_VAL, FF_SPLIT_TEST, verify, true, &unused, error));
    FF_TRY_DONE(check_alone(*set, error));
    if (field) FF_TRY_DONE(check_label(*set, label, field, error));
done:
    if (status != FF_OK) ff_dataset_close(set);
    return status;
}

void ff_splits_close(ff_splits *splits) {
    ff_weights_free(&splits->weights);
    ff_shares_free(&splits->shares);
    ff_selection_free(&splits->train_selected);
    ff_selection_free(&splits->val_selected);
    ff_dataset_close(&splits->train);
    ff_dataset_close(&splits->val);
    memset(splits, 0, sizeof *splits);
}
