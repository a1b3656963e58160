#include "tools/ffinspect/sheet.h"

#include "format/base/readable.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "format/disk/set.h"
#include "loader/sequence/order.h"
#include "tools/ffinspect/facts/label.h"
#include "tools/ffinspect/facts/spread.h"
#include "tools/ffinspect/facts/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void ff_sheet_free(ff_sheet *drawn) {
    for (ff_sheet_section *split = drawn->split; split < drawn->split + drawn->splits; split++) {
        free(split->title);
        free(split->number);
        free(split->tensor);
        free(split->rgb);
        ff_reader_close(&split->reader);
        ff_dataset_close(&split->dataset);
    }
    free(drawn->split);
}

/* ---- choosing samples ---------------------------------------------------------------------------
 */

/* Chooses the named label field, else the first one with classes, else any. */
static ff_status choose_field(ff_sheet_section *split, const char *name, ff_error *error) {
    const ff_metadata *metadata = split->metadata;
    split->captioned = metadata->field_count > 0;
    if (name) return ff_dataset_field(split->dataset, name, &split->field, error);
    static const ff_field_kind wanted[] = {FF_FIELD_CLASS, FF_FIELD_MULTI_HOT, FF_FIELD_SOFT};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < metadata->field_count; i++)
            if (metadata->field[i].kind == wanted[k]) {
                split->field = i;
                return FF_OK;
            }
    return FF_OK;
}

static ff_status choose_samples(ff_sheet_section *split, int64_t seed, ff_error *error) {
    uint64_t all = ff_dataset_count(split->dataset);
    FF_TRY(ff_alloc(&split->number, split->count, sizeof *split->number, "a contact sheet", error));
    if (seed == FF_INSPECT_NO_SEED) {
        bool by_class =
            split->captioned && split->metadata->field[split->field].kind == FF_FIELD_CLASS;
        return ff_inspect_spread(split->dataset, by_class ? split->field : FF_SPREAD_NO_FIELD,
                                 split->number, split->count, error);
    }
    ff_permutation permutation;
    ff_permutation_init(&permutation, all, (uint64_t)seed, 0, 0);
    for (uint64_t i = 0; i < split->count; i++)
        split->number[i] = ff_permutation_at(&permutation, i, 0);
    return FF_OK;
}

/* Divides the rows among the splits, at least one each. */
static ff_status choose(ff_sheet *drawn, const ff_set *list, const ff_inspect_options *options,
                        ff_error *error) {
    unsigned rows, columns;
    FF_TRY(ff_inspect_grid_size(options->grid ? options->grid : "4x8", &rows, &columns, error));
    FF_TRY(ff_alloc(&drawn->split, list->count, sizeof *drawn->split, "a contact sheet", error));
    drawn->splits = list->count;
    for (size_t i = 0; i < list->count; i++) {
        ff_sheet_section *split = &drawn->split[i];
        FF_TRY(ff_dataset_open(&split->dataset, list->split[i].path, FF_VERIFY_FIRST, error));
        FF_TRY(ff_reader_open(&split->reader, split->dataset, error));
        split->metadata = ff_dataset_metadata(split->dataset);
        uint64_t share = rows / list->count + (i < rows % list->count), all;
        all = ff_dataset_count(split->dataset);
        split->count = (share ? share : 1) * columns;
        if (split->count > all) split->count = all;
        if (split->count > drawn->columns)
            drawn->columns = split->count < columns ? (unsigned)split->count : columns;
        drawn->count += split->count;
        FF_TRY(choose_field(split, options->label, error));
        FF_TRY(choose_samples(split, options->seed, error));
    }
    for (ff_sheet_section *split = drawn->split; split < drawn->split + drawn->splits; split++) {
        drawn->rows += (unsigned)((split->count + drawn->columns - 1) / drawn->columns);
    }
    return FF_OK;
}

ff_status ff_sheet_read(ff_sheet_section *split, uint64_t i, ff_view *view, ff_error *error) {
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(ff_reader_sample(split->reader, split->number[i], view, error));
    return ff_view_copy(split->dataset, view, split->tensor, error);
}

/* The first pass finds the largest picture, and the range of values if the scale depends on it. */
static ff_status measure(ff_sheet *drawn, ff_sheet_section *split, ff_error *error) {
    const ff_metadata *metadata = split->metadata;
    uint32_t height = 0, width = 0;
    double minimum = 1e300, maximum = -1e300;
    bool needs_range = metadata->dtype != FF_U8 &&
                       !(ff_dtype_is_float(metadata->dtype) && metadata->statistics_count);
    for (uint64_t i = 0; i < split->count; i++) {
        ff_entry entry;
        FF_TRY(ff_dataset_entry(split->dataset, split->number[i], &entry, error));
        if (entry.height > height) height = entry.height;
        if (entry.width > width) width = entry.width;
    }
    if (height > drawn->largest_height) drawn->largest_height = height;
    if (width > drawn->largest_width) drawn->largest_width = width;
    FF_TRY(ff_alloc_aligned(&split->tensor, ff_metadata_tensor_bytes(metadata, height, width), 1, 0,
                            "a sample", error));
    FF_TRY(ff_alloc(&split->rgb, (uint64_t)height * width, 3, "a picture", error));
    for (uint64_t i = 0; needs_range && i < split->count; i++) {
        ff_view view;
        FF_TRY(ff_sheet_read(split, i, &view, error));
        ff_picture_range(metadata, split->tensor, view.height, view.width, &minimum, &maximum);
    }
    split->scale = ff_picture_choose_scale(metadata, minimum, maximum);
    return FF_OK;
}

static ff_status write_title(ff_sheet_section *split, const char *name, ff_error *error) {
    const ff_metadata *metadata = split->metadata;
    ff_buffer text = {0};
    if (*metadata->split) name = metadata->split;
    ff_status status;
    FF_TRY_DONE(ff_readable(&text, name, strlen(name), strlen(name), error));
    FF_TRY_DONE(
        ff_buffer_printf(&text, error, "   %" PRIu64 " of %s, %s%u x %u, %s, %s", split->count,
                         ff_say_count(ff_dataset_count(split->dataset), "sample", "samples").text,
                         metadata->variable_size ? "up to " : "", metadata->height, metadata->width,
                         ff_say_count(metadata->channels, "channel", "channels").text,
                         ff_dtype_name(metadata->dtype)));
done:
    split->title = text.bytes; /* ownership moves */
    return status;
}

ff_status ff_sheet_open(ff_sheet *drawn, const ff_set *list, const ff_inspect_options *options,
                        ff_error *error) {
    *drawn = (ff_sheet){0};
    FF_TRY(choose(drawn, list, options, error));
    for (size_t i = 0; i < drawn->splits; i++) {
        const ff_split *folder = &list->split[i];
        FF_TRY(write_title(&drawn->split[i], *folder->name ? folder->name : folder->path, error));
        FF_TRY(measure(drawn, &drawn->split[i], error));
    }
    return FF_OK;
}
