#include "loader/library/options.h"

#include "loader/library/options_table.h"
#include "loader/library/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---------------------------------------------------------------------------------- */

static ff_status parse_device(const char *text, int *ordinal, ff_error *error) {
    unsigned long number = 0;
    *ordinal = FF_LIBRARY_CPU;
    if (!text || strcmp(text, "cpu") == 0) return FF_OK;
    /* torch.device("cpu", 0), which accelerate makes */
    if (strncmp(text, "cpu:", 4) == 0 && ff_library_parse_numbers(text + 4, 0, 1023, &number, 1))
        return FF_OK;
    if (strcmp(text, "cuda") != 0 && (strncmp(text, "cuda:", 5) != 0 ||
                                      !ff_library_parse_numbers(text + 5, 0, 1023, &number, 1)))
        return ff_fail(error, FF_USAGE, "device: '%s' is not one of cpu|cuda|cuda:NUMBER", text);
    *ordinal = (int)number;
    return FF_OK;
}

/* Cuts a list at its commas. */
static ff_status parse_labels(ff_library_settings *settings, const char *text, ff_error *error) {
    if (!text) return FF_OK;
    FF_TRY(ff_copy_string(&settings->names, text, error));
    size_t count = 0;
    for (char *rest = settings->names; rest; count++) {
        if (count == FF_LIBRARY_LABELS_MOST)
            return ff_fail(error, FF_USAGE, "label: more than %d fields", FF_LIBRARY_LABELS_MOST);
        settings->label[count] = rest;
        rest = strchr(rest, ',');
        if (rest) *rest++ = 0;
    }
    settings->loader.label = settings->label;
    settings->loader.label_count = count;
    return FF_OK;
}

static ff_status check_text(const ffload_options *options, const void *target, ff_error *error) {
    ff_augment_spec spec;
    ff_library_views views;
    uint32_t side[2];
    int ordinal;
    if (target == &options->views) {
        FF_TRY(ff_library_views_parse(&views, options->views, error));
        ff_library_views_free(&views);
    }
    if (target == &options->augment) return ff_augment_parse(&spec, options->augment, error);
    if (target == &options->size)
        return ff_library_parse_size("size", options->size, &side[0], &side[1], error);
    if (target == &options->device) return parse_device(options->device, &ordinal, error);
    return FF_OK;
}

static ff_status set_text(ffload_options *options, const ff_option *option, const char *value,
                          ff_error *error) {
    const char **target = option->target, *before = *target;
    char *copy;
    FF_TRY(ff_copy_string(&copy, value, error));
    *target = copy;
    const ff_status status = check_text(options, target, error);
    if (status != FF_OK) *target = before;
    free(status == FF_OK ? (char *)(uintptr_t)before : copy);
    return status;
}

/* ---- the public functions ------------------------------------------------------------------- */

int ffload_options_create(ffload_options **options, ffload_error *error) {
    ff_error inner;
    if (options) *options = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, options);
    if (status == FF_OK &&
        (status = ff_alloc(options, 1, sizeof **options, "options", &inner)) == FF_OK)
        **options = ff_library_default_options;
    return ff_library_end(status, &inner, error);
}

void ffload_options_destroy(ffload_options **out) {
    ffload_options *options = out ? *out : NULL;
    if (!options) return;
    ff_option table[FF_LIBRARY_OPTIONS_MOST];
    ff_library_list_options(options, table);
    for (const ff_option *option = table; option->name; option++)
        if (option->kind == FF_OPTION_STRING) free(*(char **)option->target);
    free(options->index);
    free(options->weight);
    free(options->json);
    free(options);
    *out = NULL;
}

static ff_status set(ffload_options *options, const char *name, const char *value,
                     ff_error *error) {
    ff_option table[FF_LIBRARY_OPTIONS_MOST];
    const ff_option *option;
    ff_library_list_options(options, table);
    const ff_command command = {.options = table};
    FF_TRY(ff_options_find(&command, name, strlen(name), &option, error));
    if (option->kind == FF_OPTION_STRING) return set_text(options, option, value, error);
    return ff_option_set(option, value, error);
}

int ffload_options_set(ffload_options *options, const char *name, const char *value,
                       ffload_error *error) {
    ff_error inner;
    ff_status status = FF_LIBRARY_GIVEN(&inner, options, name, value);
    if (status == FF_OK) status = set(options, name, value, &inner);
    return ff_library_end(status, &inner, error);
}

int ffload_options_set_check(ffload_options *options, ffload_check *check, void *context,
                             ffload_error *error) {
    ff_error inner;
    const ff_status status = FF_LIBRARY_GIVEN(&inner, options);
    if (status == FF_OK) {
        options->check = check;
        options->context = context;
    }
    return ff_library_end(status, &inner, error);
}

/* *out: a copy of `count` elements, the caller's to free; NULL for NULL. */
static ff_status copy_array(void *out, const void *given, size_t count, size_t bytes,
                            const char *what, ff_error *error) {
    void *copy = NULL;
    if (given) FF_TRY(ff_alloc(&copy, count ? count : 1, bytes, what, error));
    if (given && count) memcpy(copy, given, count * bytes);
    memcpy(out, &copy, sizeof copy);
    return FF_OK;
}

int ffload_options_set_indices(ffload_options *options, const int64_t *numbers, size_t count,
                               ffload_error *error) {
    ff_error inner;
    int64_t *copy = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, options);
    if (status == FF_OK)
        status = copy_array(&copy, numbers, count, sizeof *copy, "indices", &inner);
    if (status == FF_OK) {
        free(options->index);
        options->index = copy;
        options->index_count = count;
    }
    return ff_library_end(status, &inner, error);
}

int ffload_options_set_weights(ffload_options *options, const double *weights, size_t count,
                               ffload_error *error) {
    ff_error inner;
    double *copy = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, options);
    if (status == FF_OK)
        status = copy_array(&copy, weights, count, sizeof *copy, "weights", &inner);
    if (status == FF_OK) {
        free(options->weight);
        options->weight = copy;
        options->weight_count = count;
    }
    return ff_library_end(status, &inner, error);
}

/* ---- what they mean ------------------------------------------------------------------------- */

/* Reads an augmentation; a crop without a padding has the usual one for its output. */
static ff_status resolve_augment(const char *text, const ff_metadata *metadata, uint32_t height,
                                 uint32_t width, ff_augment_spec *spec, ff_error *error) {
    FF_TRY(ff_augment_parse(spec, text, error));
    if (ff_augment_chooses_pad(text) && !spec->resize)
        spec->pad = ff_augment_usual_pad(metadata->height, metadata->width, height, width);
    return FF_OK;
}

/* The first group's views are the loader's own. */
static ff_status resolve_views(ff_library_settings *settings, const ffload_options *given,
                               const ff_metadata *metadata, ff_error *error) {
    ff_library_views *views = &settings->views;
    ff_loader_options *options = &settings->loader;
    FF_TRY(ff_library_views_parse(views, given->views, error));
    options->views = views->group[0].views;
    if (!views->words) return FF_OK;
    if (given->augment || given->size)
        return ff_fail(error, FF_USAGE, "%s: is set in each group of views",
                       given->augment ? "augment" : "size");
    for (size_t i = 0; i < views->count; i++) {
        ff_loader_group *own = &views->group[i];
        FF_TRY(resolve_augment(views->augment[i], metadata, own->height, own->width, &own->augment,
                               error));
    }
    options->height = views->group[0].height;
    options->width = views->group[0].width;
    options->augment = views->group[0].augment;
    options->groups = &views->group[1];
    options->group_count = views->count - 1;
    return FF_OK;
}

ff_verify ff_library_options_verify(const ffload_options *options) {
    return (ff_verify)(options ? options : &ff_library_default_options)->verify;
}

ff_status ff_library_options_storage(const ffload_options *options, const char *const *paths,
                                     size_t count, ff_storage_options *storage, ff_error *error) {
    char name[32];
    *storage = (options ? options : &ff_library_default_options)->storage;
    const char *idle = ff_storage_idle_option(storage, paths, count);
    if (!idle) return FF_OK;
    snprintf(name, sizeof name, "%s", idle);
    for (char *dash = name; (dash = strchr(dash, '-'));) *dash = '_';
    return ff_fail(error, FF_USAGE, "%s: no set lies behind a URL%s", name,
                   strcmp(idle, "endpoint") ? "" : " of s3:// or gs://");
}

static ff_status resolve(ff_library_settings *settings, const ffload_options *given,
                         const ff_metadata *metadata, ff_error *error) {
    static const ff_dtype dtypes[] = {FF_F32, FF_F16, FF_BF16, FF_U8, FF_U16};
    ff_loader_options *options = &settings->loader;
    *options = ff_loader_defaults();
    options->batch = (uint64_t)given->batch_size;
    options->last_batch =
        given->last_batch == FF_LIBRARY_DROP ? FF_LAST_BATCH_DROP : FF_LAST_BATCH_KEEP;
    options->order = (ff_order_kind)given->order;
    options->block = (uint64_t)given->block;
    options->group = (uint64_t)given->group;
    options->seed = (uint64_t)given->seed;
    options->epoch = (uint32_t)given->epoch;
    options->epochs = (uint32_t)given->epochs;
    options->position = (uint64_t)given->position;
    options->dtype = dtypes[given->dtype];
    options->layout = given->layout ? FF_HWC : FF_CHW;
    options->classes_i64 = given->label_dtype != 0;
    options->share_begin = (uint32_t)given->rank;
    options->share_end = (uint32_t)given->rank + 1;
    options->share_total = (uint32_t)given->world;
    options->cuts = (uint32_t)given->cuts;
    options->threads = (int)given->workers;
    options->slots = (uint32_t)given->prefetch;
    settings->last = (ff_library_last)given->last_batch;
    settings->placement = (ff_placement)given->placement;
    settings->check = given->check;
    settings->context = given->context;
    settings->reserve_bytes = (uint64_t)given->reserve << 20;
    options->samples_per_epoch = (uint64_t)given->samples_per_epoch;
    options->repeats = (uint32_t)given->repeats;
    options->per_class = (uint32_t)given->per_class;
    options->memory_bytes = given->memory;
    options->memory_ranks = (uint32_t)given->local_world;
    if (options->order != FF_ORDER_BLOCK && (given->block || given->group))
        return ff_fail(error, FF_USAGE, "%s: is of order block, and the order is %s",
                       given->block ? "block" : "group", ff_order_name(options->order));
    if (given->rank >= given->world)
        return ff_fail(error, FF_USAGE, "rank: there is no rank %lld in a world of %lld",
                       (long long)given->rank, (long long)given->world);
    FF_TRY(ff_library_parse_size("size", given->size, &options->height, &options->width, error));
    FF_TRY(parse_device(given->device, &settings->ordinal, error));
    FF_TRY(parse_labels(settings, given->label, error));
    if (given->augment)
        FF_TRY(resolve_augment(given->augment, metadata, options->height, options->width,
                               &options->augment, error));
    return resolve_views(settings, given, metadata, error);
}

static ff_status select_samples(ff_library_settings *settings, const ffload_options *given,
                                ff_dataset *dataset, ff_error *error) {
    const ff_selection_rule rule = {.index = given->index,
                                    .index_count = given->index_count,
                                    .list = given->indices,
                                    .where = given->where,
                                    .split = given->split,
                                    .fold = given->fold,
                                    .label = settings->label[0]};
    if (!ff_selection_asked(&rule)) return FF_OK;
    settings->loader.selection = &settings->selection;
    return ff_selection_make(&settings->selection, dataset, &rule, error);
}

static ff_status share_samples(ff_library_settings *settings, const ffload_options *given,
                               ff_dataset *dataset, ff_error *error) {
    if (!given->shares && given->shares_of)
        return ff_fail(error, FF_USAGE, "shares_of: needs the option shares");
    if (!given->shares) return FF_OK;
    settings->loader.shares = &settings->shares;
    return ff_shares_make(&settings->shares, dataset, settings->loader.selection, given->shares,
                          given->shares_of != 0, error);
}

static ff_status weigh_samples(ff_library_settings *settings, const ffload_options *given,
                               ff_dataset *dataset, ff_error *error) {
    ff_loader_options *options = &settings->loader;
    const ff_weights_rule rule = {.weight = given->weight,
                                  .weight_count = given->weight_count,
                                  .given = given->weights,
                                  .label = settings->label[0],
                                  .distinct = given->replacement != 0,
                                  .samples = options->samples_per_epoch};
    if (rule.weight && rule.given)
        return ff_fail(error, FF_USAGE, "weights: numbers and a name; wanted one of them");
    if (rule.distinct && !ff_weights_asked(&rule))
        return ff_fail(error, FF_USAGE,
                       "replacement: needs weights; without them each sample "
                       "comes once an epoch");
    if (ff_weights_asked(&rule)) {
        options->weights = &settings->weights;
        const ff_status status =
            ff_weights_make(&settings->weights, dataset, options->selection, &rule, error);
        /* A file's sentence begins with its path, the filename of Python's exception. */
        if (status != FF_OK && status != FF_IO) return ff_fail_within(error, status, "weights");
        FF_TRY(status);
    }
    if (!options->per_class) return FF_OK;
    options->classes = &settings->classes;
    return ff_weights_classes(&settings->classes, dataset, options->selection, rule.label, error);
}

ff_status ff_library_settings_init(ff_library_settings *settings, const ffload_options *options,
                                   ff_dataset *dataset, ff_error *error) {
    const ffload_options *given = options ? options : &ff_library_default_options;
    *settings = (ff_library_settings){0};
    ff_status status;
    FF_TRY_DONE(resolve(settings, given, ff_dataset_metadata(dataset), error));
    FF_TRY_DONE(select_samples(settings, given, dataset, error));
    FF_TRY_DONE(weigh_samples(settings, given, dataset, error));
    FF_TRY_DONE(share_samples(settings, given, dataset, error));
done:
    if (status != FF_OK) ff_library_settings_free(settings);
    return status;
}

void ff_library_settings_free(ff_library_settings *settings) {
    free(settings->names);
    ff_library_views_free(&settings->views);
    ff_selection_free(&settings->selection);
    ff_weights_free(&settings->weights);
    ff_weights_free(&settings->classes);
    ff_shares_free(&settings->shares);
    *settings = (ff_library_settings){0};
}
