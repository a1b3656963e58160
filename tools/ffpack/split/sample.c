#include "tools/ffpack/split/sample.h"

#include "tools/ffpack/split/array_sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 1024 };

/* ---- the plan ------------------------------------------------------------------------------ */

static ff_decode_options decode_options(const ff_sample_plan *plan) {
    return (ff_decode_options){.mode = plan->mode,
                               .pixel_limit = FF_PIXEL_LIMIT,
                               .exif = plan->exif,
                               .allow_truncated = plan->allow_truncated,
                               .pillow_12 = plan->pillow_12,
                               .deep = plan->values == FF_VALUES_U16};
}

/* Reads the size and name of one item. */
static ff_status look_at(ff_sample_plan *plan, const ff_source_split *split, const ff_item *item,
                         ff_source_reader *reader, ff_error *error) {
    const ff_decode_options options = decode_options(plan);
    ff_image_file file;
    char name[NAME_BYTES];
    ff_image_info info;
    ff_source_item_name(plan->source, split, item, name, sizeof name);
    FF_TRY(ff_source_read(reader, split, item, &file, error));
    const ff_status status = ff_decode_probe(file.bytes, file.length, &options, &info, error);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", name);
    plan->first_height = info.height;
    plan->first_width = info.width;
    return ff_copy_string(&plan->first_name, name, error);
}

static bool is_broken(ff_status status) {
    return status == FF_BAD_DATA || status == FF_IO;
}

static ff_status find_first(ff_sample_plan *plan, const ff_source_split *split, bool skip,
                            ff_error *error) {
    ff_listing_cursor *cursor = NULL;
    ff_source_reader *reader = NULL;
    ff_stream *stream = NULL;
    const uint64_t count = ff_listing_count(split->listing);
    ff_status status;
    FF_TRY_DONE(ff_listing_cursor_create(&cursor, split->listing, error));
    FF_TRY_DONE(
        ff_stream_create(&stream, plan->source, split, &(ff_stream_range){.end = 1}, error));
    FF_TRY_DONE(ff_source_reader_create(&reader, plan->source, stream, error));
    for (uint64_t position = 0; position < count; position++) {
        ff_item item;
        FF_TRY_DONE(ff_listing_item(cursor, ff_source_item_at(split, position), &item, error));
        FF_TRY_DONE(ff_source_begin(reader, position, position + 1, error));
        status = look_at(plan, split, &item, reader, error);
        if (!is_broken(status) || !skip) break;
    }
done:
    ff_listing_cursor_destroy(&cursor);
    ff_source_reader_destroy(&reader);
    ff_stream_destroy(&stream);
    return status;
}

/* Image files: with --range or --dtype u16 greys of 16 bits, else u8. */
static ff_status plan_image_values(ff_sample_plan *plan, const ff_settings *settings,
                                   ff_error *error) {
    const char *path = plan->source->path;
    const ff_geometry *geometry = &plan->geometry;
    plan->values = FF_VALUES_U8;
    if (!settings->ranged && settings->dtype != FF_U16) return FF_OK;
    if (!settings->ranged)
        return ff_fail(error, FF_USAGE,
                       "--dtype u16: of image files it stores greys of 16 bits: wanted --range "
                       "LO,HI, the greys that become 0 and 1, like 0,65535");
    if (settings->dtype == FF_U8)
        return ff_fail(error, FF_USAGE,
                       "--dtype u8: cannot store the greys of 16 bits that --range takes from %s; "
                       "wanted u16, f16, bf16 or f32",
                       path);
    const char *changes = geometry->resize != FF_RESIZE_NONE ? "--resize"
                          : geometry->max_side               ? "--max-side"
                          : geometry->pad_square             ? "--pad-square"
                          : plan->fast_decode                ? "--fast-decode"
                          : settings->mode == FF_MODE_RGB    ? "--mode rgb"
                                                             : NULL;
    if (changes)
        return ff_fail(error, FF_USAGE,
                       "%s: is for images of 8 bits, and --range takes greys of 16 bits as they "
                       "are; --center-crop is for both",
                       changes);
    plan->values = FF_VALUES_U16;
    plan->ranged = true;
    plan->low = settings->low;
    plan->high = settings->high;
    plan->mode = FF_MODE_NATIVE;
    return FF_OK;
}

/* The values of an array source, and the options that they allow. */
static ff_status plan_values(ff_sample_plan *plan, const ff_settings *settings, ff_error *error) {
    const char *path = plan->source->path;
    bool range = settings->ranged;
    ff_element_type element = plan->source->raw.element;
    const char *name = ff_element_name(element);
    bool whole = element == FF_ELEMENT_U8 || ff_element_needs_range(element);
    if (range && !whole)
        return ff_fail(
            error, FF_USAGE,
            "--range: %s holds %s values, which are used as they are; it is for arrays of whole numbers",
            path, name);
    if (!range && ff_element_needs_range(element))
        return ff_fail(error, FF_USAGE,
                       "%s holds %s values: wanted --range LO,HI, the values that become 0 and 1",
                       path, name);
    plan->ranged = range;
    plan->low = settings->low;
    plan->high = settings->high;
    plan->values = element == FF_ELEMENT_U16            ? FF_VALUES_U16
                   : element == FF_ELEMENT_U8 && !range ? FF_VALUES_U8
                                                        : FF_VALUES_FLOAT;
    if (settings->dtype == FF_U8 && plan->values != FF_VALUES_U8)
        return ff_fail(error, FF_USAGE, "--dtype u8: stores raw u8 values, and %s holds %s%s", path,
                       name, range ? " with --range" : "");
    if (settings->dtype == FF_U16 && plan->values != FF_VALUES_U16)
        return ff_fail(error, FF_USAGE, "--dtype u16: stores raw u16 values, and %s holds %s", path,
                       name);
    const ff_geometry *geometry = &plan->geometry;
    const char *changes = geometry->resize != FF_RESIZE_NONE ? "--resize"
                          : geometry->max_side               ? "--max-side"
                          : geometry->pad_square             ? "--pad-square"
                                                             : NULL;
    if (changes && plan->values != FF_VALUES_U8)
        return ff_fail(error, FF_USAGE,
                       "%s: is for u8 values, and %s holds %s%s; --center-crop is for all", changes,
                       path, name, range ? " with --range" : "");
    return FF_OK;
}

/* The channels of an array source, which --mode may change from 1 to 3 and from 3 to 1. */
static ff_status plan_mode(ff_sample_plan *plan, ff_error *error) {
    uint32_t native = plan->source->raw.channels;
    plan->channels = ff_image_mode_channels(plan->mode, native);
    if (plan->channels == native) plan->mode = FF_MODE_NATIVE;
    if (plan->mode == FF_MODE_NATIVE) return FF_OK;
    if (native != 1 && native != 3)
        return ff_fail(error, FF_USAGE, "--mode %s: wanted 1 or 3 channels, and %s has %u",
                       ff_image_mode_name(plan->mode), plan->source->path, native);
    if (plan->values != FF_VALUES_U8)
        return ff_fail(error, FF_USAGE, "--mode %s: is for u8 values, and %s holds %s",
                       ff_image_mode_name(plan->mode), plan->source->path,
                       ff_element_name(plan->source->raw.element));
    return FF_OK;
}

/* Refuses options of decoding for arrays. */
static ff_status plan_images_only(const ff_source *source, const ff_settings *settings,
                                  ff_error *error) {
    const char *given = settings->exif              ? "exif"
                        : settings->fast_decode     ? "fast-decode"
                        : settings->allow_truncated ? "allow-truncated"
                                                    : NULL;
    if (source->encoded || !given) return FF_OK;
    return ff_fail(error, FF_USAGE, "--%s: %s holds arrays; it is for image files", given,
                   source->path);
}

ff_status ff_sample_plan_make(ff_sample_plan *plan, const ff_source *source,
                              const ff_settings *settings, ff_error *error) {
    *plan = (ff_sample_plan){.source = source,
                             .geometry = settings->geometry,
                             .mode = settings->mode,
                             .exif = source->encoded && settings->exif,
                             .allow_truncated = source->encoded && settings->allow_truncated,
                             .fast_decode = source->encoded && settings->fast_decode,
                             .pillow_12 = source->encoded && settings->pillow_12,
                             .variable =
                                 source->encoded &&
                                 (ff_geometry_is_variable(&settings->geometry) ||
                                  (settings->check && !ff_geometry_is_fixed(&settings->geometry)))};
    const ff_geometry *geometry = &plan->geometry;
    uint32_t native_height = 1, native_width = 1;
    FF_TRY(source->encoded ? plan_image_values(plan, settings, error)
                           : plan_values(plan, settings, error));
    FF_TRY(plan_images_only(source, settings, error));
    if (source->encoded) {
        /* torchvision's loader makes every image RGB; greys of 16 bits stay grey. */
        const bool deep = plan->values == FF_VALUES_U16;
        if (plan->mode == FF_MODE_NATIVE && !deep) plan->mode = FF_MODE_RGB;
        plan->channels = deep ? 1 : ff_image_mode_channels(plan->mode, 3);
        if (!plan->variable && !ff_geometry_is_fixed(geometry)) {
            const ff_status found = find_first(plan, &source->split[0], settings->skip, error);
            /* If all images are broken, a check lists them all. */
            plan->variable = settings->decode && is_broken(found);
            if (!plan->variable) FF_TRY(found);
            native_height = plan->first_height;
            native_width = plan->first_width;
        }
        if (plan->variable)
            native_height = native_width = geometry->max_side ? geometry->max_side : 1;
    } else {
        const ff_source_raw *raw = &source->raw;
        native_height = raw->height;
        native_width = raw->width;
        FF_TRY(plan_mode(plan, error));
    }
    ff_status status = ff_geometry_output_size(geometry, native_width, native_height, &plan->width,
                                               &plan->height, error);
    if (status != FF_OK && plan->first_name) ff_fail_within(error, status, "%s", plan->first_name);
    FF_TRY(status);
    if (plan->variable) plan->width = plan->height = geometry->max_side;
    plan->changed = plan->mode != FF_MODE_NATIVE || plan->width != native_width ||
                    plan->height != native_height || geometry->resize != FF_RESIZE_NONE;
    return FF_OK;
}

void ff_sample_plan_free(ff_sample_plan *plan) {
    free(plan->first_name);
    *plan = (ff_sample_plan){0};
}

/* ---- a sampler ----------------------------------------------------------------------------- */

struct ff_sampler {
    const ff_sample_plan *plan;
    const ff_source_split *split;
    ff_listing_cursor *cursor;
    ff_source_reader *reader;
    ff_decoder *decoder;
    ff_image image;
    ff_geometry_scratch scratch;
    ff_array_scratch array;
};

ff_status ff_sampler_create(ff_sampler **out, const ff_sample_plan *plan,
                            const ff_source_split *split, ff_stream *stream, ff_error *error) {
    *out = NULL;
    ff_sampler *sampler;
    FF_TRY(ff_alloc(&sampler, 1, sizeof *sampler, "a sampler", error));
    sampler->plan = plan;
    sampler->split = split;
    ff_status status;
    FF_TRY_DONE(ff_listing_cursor_create(&sampler->cursor, split->listing, error));
    FF_TRY_DONE(ff_source_reader_create(&sampler->reader, plan->source, stream, error));
    if (plan->source->encoded) FF_TRY_DONE(ff_decoder_create(&sampler->decoder, error));
done:
    if (status == FF_OK)
        *out = sampler;
    else
        ff_sampler_destroy(&sampler);
    return status;
}

void ff_sampler_destroy(ff_sampler **sampler) {
    if (!*sampler) return;
    ff_listing_cursor_destroy(&(*sampler)->cursor);
    ff_source_reader_destroy(&(*sampler)->reader);
    ff_decoder_destroy(&(*sampler)->decoder);
    ff_image_free(&(*sampler)->image);
    ff_geometry_scratch_free(&(*sampler)->scratch);
    ff_array_scratch_free(&(*sampler)->array);
    free(*sampler);
    *sampler = NULL;
}

ff_status ff_sampler_begin(ff_sampler *sampler, uint64_t first, uint64_t end, ff_error *error) {
    return ff_source_begin(sampler->reader, first, end, error);
}

static ff_status wrong_size(const ff_sampler *sampler, const char *name, uint32_t width,
                            uint32_t height, ff_error *error) {
    const ff_sample_plan *plan = sampler->plan;
    return ff_fail(error, FF_USAGE,
                   "%s has %u x %u pixels and %s %u x %u%s: images of different sizes need "
                   "--resize HxW, --resize N with --center-crop M, or --max-side N",
                   plan->first_name, plan->first_width, plan->first_height, name, width, height,
                   plan->geometry.resize == FF_RESIZE_SHORT ? ", which --resize keeps in proportion"
                                                            : "");
}

/* An item's pixels as an image: decoded, as far as the geometry needs them, or interleaved from its
 * planes. *width and *height are the item's, even if the decoder reduced it. */
static ff_status make_image(ff_sampler *sampler, ff_sample *sample, uint32_t *width,
                            uint32_t *height, ff_error *error) {
    const unsigned char *bytes = sample->file.bytes;
    const uint64_t length = sample->file.length;
    const ff_sample_plan *plan = sampler->plan;
    ff_image *image = &sampler->image;
    if (plan->source->encoded) {
        ff_decode_options options = decode_options(plan);
        ff_image_info info;
        ff_region needed;
        FF_TRY(ff_decode_probe(bytes, length, &options, &info, error));
        *width = info.width;
        *height = info.height;
        FF_TRY(ff_geometry_needed(&plan->geometry, info.width, info.height, &sampler->scratch,
                                  &needed, error));
        if (plan->fast_decode)
            FF_TRY(ff_geometry_reduction(&plan->geometry, info.width, info.height,
                                         &options.reduction, error));
        FF_TRY(ff_decode(sampler->decoder, bytes, length, &options, &needed, image, error));
        sample->warning = ff_decoder_warning(sampler->decoder);
        sample->turned = ff_decode_is_turned(bytes, length);
        sample->clipped =
            image->clips &&
            memchr(image->pixels, 255, (size_t)image->width * image->height * image->channels);
        return FF_OK;
    }
    const ff_source_raw *raw = &plan->source->raw;
    *width = raw->width;
    *height = raw->height;
    if (raw->layout == FF_CHW) {
        FF_TRY(ff_image_from_planes(image, bytes + raw->offset, raw->width, raw->height,
                                    raw->channels, error));
    } else {
        FF_TRY(ff_image_reshape(image, raw->width, raw->height, raw->channels, error));
        memcpy(image->pixels, bytes + raw->offset,
               (size_t)raw->width * raw->height * raw->channels);
    }
    return ff_image_to_mode(image, plan->mode, error);
}

ff_status ff_sampler_make(ff_sampler *sampler, uint64_t number, ff_sample *sample,
                          ff_error *error) {
    const ff_sample_plan *plan = sampler->plan;
    *sample = (ff_sample){.encoded = plan->source->encoded};
    FF_TRY(ff_listing_item(sampler->cursor, number, &sample->item, error));
    FF_TRY(ff_source_read(sampler->reader, sampler->split, &sample->item, &sample->file, error));
    const unsigned char *bytes = sample->file.bytes;
    sample->width = plan->width;
    sample->height = plan->height;
    if (!plan->source->encoded && (!plan->changed || plan->values != FF_VALUES_U8)) {
        sample->planar = plan->source->raw.layout == FF_CHW;
        sample->values = bytes + plan->source->raw.offset;
        if (plan->values == FF_VALUES_U8) return FF_OK;
        return ff_array_sample_make(plan, bytes, &sampler->array, &sample->values, error);
    }
    char name[NAME_BYTES];
    uint32_t native_width = 0, native_height = 0;
    const ff_image *output;
    ff_status status;
    FF_TRY_DONE(make_image(sampler, sample, &native_width, &native_height, error));
    FF_TRY_DONE(ff_geometry_output_size(&plan->geometry, native_width, native_height,
                                        &sample->width, &sample->height, error));
    if (!plan->variable && (sample->width != plan->width || sample->height != plan->height)) {
        ff_source_item_name(plan->source, sampler->split, &sample->item, name, sizeof name);
        return wrong_size(sampler, name, native_width, native_height, error);
    }
    FF_TRY_DONE(ff_geometry_apply(&plan->geometry, &sampler->image, native_width, native_height,
                                  &sampler->scratch, &output, error));
    sample->values = output->pixels;
    return FF_OK;
done:
    ff_source_item_name(plan->source, sampler->split, &sample->item, name, sizeof name);
    return ff_fail_within(error, status, "%s", name);
}

bool ff_sample_skippable(const ff_sample *sample, ff_status status) {
    return sample->encoded && (status == FF_BAD_DATA || status == FF_IO);
}

ff_status ff_sample_refuse(const ff_sample *sample, ff_status status, ff_error *error) {
    if (status != FF_BAD_DATA || !sample->encoded || !error) return status;
    const size_t used = strlen(error->message);
    snprintf(
        error->message + used, sizeof error->message - used,
        "; --on-error skip leaves broken images out, and ffpack check SOURCE lists all of them");
    return status;
}

void ff_sample_count(const ff_sample_plan *plan, const ff_sample *sample, ff_stats *stats) {
    size_t pixels = (size_t)sample->height * sample->width;
    if (plan->values == FF_VALUES_U16)
        ff_stats_add_u16(stats, sample->values, sample->planar, pixels);
    else if (sample->planar)
        ff_stats_add_planar(stats, sample->values, pixels);
    else
        ff_stats_add_interleaved(stats, sample->values, pixels);
}
