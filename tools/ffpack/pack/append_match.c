#include "tools/ffpack/pack/append_match.h"

#include "format/disk/generation.h"
#include "format/writer/recorded.h"
#include "tools/ffpack/run/describe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the source's splits, in its order ------------------------------------------------------ */

ff_status ff_append_rule(const ff_append *append, ff_split_rule *rule, ff_error *error) {
    const char *text = ff_recorded_split(&append->target[0].metadata);
    *rule = (ff_split_rule){0};
    if (append->count < 2 || !text) return FF_OK;
    const ff_status status = ff_split_rule_read(rule, text, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", append->path);
}

ff_status ff_append_match_splits(ff_append *append, const ff_source *source, ff_error *error) {
    if (append->count == 1 && source->split_count == 1) {
        append->target[0].split = &source->split[0];
        return FF_OK;
    }
    for (size_t i = 0; i < source->split_count; i++) {
        const char *name = source->split[i].name;
        size_t k = i;
        while (k < append->count && strcmp(append->target[k].metadata.split, name) != 0) k++;
        if (k >= append->count)
            return ff_fail(error, FF_USAGE, "%s: has the split %s, which %s lacks", source->path,
                           *name ? name : "(without a name)", append->path);
        ff_append_target moved = append->target[k];
        append->target[k] = append->target[i];
        append->target[i] = moved;
        append->target[i].split = &source->split[i];
    }
    if (source->rule)
        append->count = source->split_count;
    else if (append->count > source->split_count)
        return ff_fail(error, FF_USAGE, "%s: lacks the split %s that %s has", source->path,
                       append->target[source->split_count].metadata.split, append->path);
    return FF_OK;
}

/* ---- classes -------------------------------------------------------------------------------- */

static ff_status map_names(ff_append_target *at, size_t index, const ff_field *own, bool add,
                           ff_error *error) {
    const ff_field *set = &at->metadata.field[index];
    FF_TRY(ff_class_map_add(&at->map, index, own->class_count, error));
    for (uint32_t i = 0; i < own->class_count; i++) {
        /* Mostly the same classes in the same order. */
        uint32_t k = i;
        if (k >= set->class_count || strcmp(own->class_name[i], set->class_name[k]) != 0)
            for (k = 0; k < set->class_count; k++)
                if (!strcmp(own->class_name[i], set->class_name[k])) break;
        if (k == set->class_count && add)
            FF_TRY(ff_metadata_add_class(&at->metadata, index, own->class_name[i], error));
        else if (k == set->class_count)
            return ff_fail(error, FF_USAGE,
                           "%s: has no class '%s' in its field %s; --new-classes adds it",
                           at->folder, own->class_name[i], set->name);
        at->map.to[index][i] = k;
    }
    return FF_OK;
}

static bool same_names(const ff_field *a, const ff_field *b) {
    bool same = a->class_count == b->class_count;
    for (uint32_t i = 0; same && i < a->class_count; i++)
        same = !strcmp(a->class_name[i], b->class_name[i]);
    return same;
}

/* The source's fields must be the set's; classes may be in another order or missing. */
ff_status ff_append_map_classes(ff_append_target *at, const ff_metadata *labels, const char *source,
                                bool add, ff_error *error) {
    const ff_metadata *set = &at->metadata;
    if (labels->field_count != set->field_count)
        return ff_fail(error, FF_USAGE, "%s: has %zu label fields, but %s has %zu", source,
                       labels->field_count, at->folder, set->field_count);
    FF_TRY(ff_class_map_create(&at->map, set->field_count, error));
    for (size_t i = 0; i < set->field_count; i++) {
        const ff_field *own = &labels->field[i], *wanted = &set->field[i];
        if (strcmp(own->name, wanted->name) != 0 || own->kind != wanted->kind ||
            own->dtype != wanted->dtype || own->width != wanted->width)
            return ff_fail(error, FF_USAGE,
                           "%s: label field %zu is %s (%s, %u x %s), but in %s %s (%s, %u x %s)",
                           source, i, own->name, ff_field_kind_name(own->kind), own->width,
                           ff_dtype_name(own->dtype), at->folder, wanted->name,
                           ff_field_kind_name(wanted->kind), wanted->width,
                           ff_dtype_name(wanted->dtype));
        if (same_names(own, wanted)) continue;
        bool unnamed = !own->class_count || !wanted->class_count;
        if (own->kind != FF_FIELD_CLASS || unnamed)
            return ff_fail(
                error, FF_USAGE,
                "%s: field %s has %s class names, and %s has %s; wanted the same ones%s%s", source,
                own->name, own->class_count ? "other" : "no", at->folder,
                wanted->class_count ? "some" : "none",
                wanted->class_count ? ": --classes-from " : "",
                wanted->class_count ? at->folder : "");
        FF_TRY(map_names(at, i, own, add, error));
    }
    return FF_OK;
}

/* ---- the metadata to come ------------------------------------------------------------------- */

/* Checks that the metadata of packing the source alone equals the set's in everything that
 * describes samples. */
static ff_status compare(const ff_append_target *at, const ff_metadata *alone, ff_error *error) {
    const ff_metadata *set = &at->metadata;
    ff_metadata view = *set; /* owns nothing */
    view.dtype = alone->dtype;
    view.layout = alone->layout;
    view.channels = alone->channels;
    view.variable_size = alone->variable_size;
    view.alignment = alone->alignment;
    if (!set->variable_size || !alone->variable_size) {
        view.height = alone->height;
        view.width = alone->width;
    }
    view.compression = alone->compression;
    view.level = alone->level;
    view.filter = alone->filter;
    view.table = alone->table;
    view.statistics_count = alone->statistics_count;
    view.mean = alone->mean;
    view.std = alone->std;
    view.transform_count = alone->transform_count;
    view.transform = alone->transform;
    ff_buffer own = {0}, wanted = {0};
    ff_status status = ff_metadata_write(set, &own, error);
    if (status == FF_OK) status = ff_metadata_write(&view, &wanted, error);
    if (status == FF_OK) {
        status = ff_metadata_compare(at->folder, &own, &wanted, error);
        if (status != FF_OK)
            ff_fail_within(error, status, "appended samples must be like the set's");
    }
    ff_buffer_free(&own);
    ff_buffer_free(&wanted);
    return status;
}

/* No transform records how image files were decoded. */
static ff_status compare_pillow(const ff_append_target *at, const ff_metadata *alone,
                                ff_error *error) {
    const char *set = ff_recorded_pillow(&at->metadata), *own = ff_recorded_pillow(alone);
    if (!set || !own || !strcmp(set, own)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--pillow %s: %s has the values of Pillow %s; leave out --pillow", own,
                   at->folder, set);
}

const char *ff_append_recorded_listing(const ff_metadata *metadata) {
    const char *listing = "";
    for (size_t i = 0; i < metadata->provenance_count; i++)
        if (!strcmp(metadata->provenance[i].key, "listing"))
            listing = metadata->provenance[i].value;
    return listing;
}

/* The next generation's metadata: the set's, with more items and their provenance. */
ff_status ff_append_describe(const ff_run *job, ff_append_target *at, ff_metadata *next,
                             ff_error *error) {
    ff_metadata alone;
    FF_TRY(ff_describe_split(&alone, job->settings, &job->plan, at->split, job->mean, job->std,
                             NULL, error));
    ff_status status;
    FF_TRY_DONE(compare(at, &alone, error));
    FF_TRY_DONE(compare_pillow(at, &alone, error));
    snprintf(at->listing, sizeof at->listing, "%s", ff_append_recorded_listing(&alone));
    FF_TRY_DONE(ff_metadata_copy(next, &at->metadata, error));
    if (alone.height > next->height) next->height = alone.height;
    if (alone.width > next->width) next->width = alone.width;
    FF_TRY_DONE(ff_metadata_append(next, at->id, alone.items, error));
    for (size_t i = 0; i < alone.provenance_count; i++)
        FF_TRY_DONE(ff_metadata_add_provenance(next, alone.provenance[i].key,
                                               alone.provenance[i].value, error));
done:
    ff_metadata_free(&alone);
    return status;
}
