#include "tools/ffpack/run/describe.h"

#include "format/cli/options.h"

#include <inttypes.h>
#include <jconfig.h>
#include <spng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <webp/decode.h>
#include <zstd.h>

#define TEXT_OF(value)  #value
#define TEXT_OF_(value) TEXT_OF(value)

ff_transform_spec ff_describe_transform(const ff_settings *settings, const ff_sample_plan *plan,
                                        const float *mean, const float *std) {
    return (ff_transform_spec){.source = plan->values,
                               .ranged = plan->ranged,
                               .low = plan->low,
                               .high = plan->high,
                               .channels = plan->channels,
                               .mean = mean,
                               .std = std,
                               .dtype = settings->dtype,
                               .layout = settings->layout};
}

static ff_status copy_labels(ff_metadata *metadata, const ff_metadata *labels, ff_error *error) {
    for (size_t i = 0; i < labels->field_count; i++) {
        const ff_field *field = &labels->field[i];
        FF_TRY(ff_metadata_add_field(metadata, field->name, field->kind, field->dtype, field->width,
                                     error));
        for (uint32_t k = 0; k < field->class_count; k++)
            FF_TRY(ff_metadata_add_class(metadata, i, field->class_name[k], error));
    }
    return FF_OK;
}

/* Everything that the bytes depend on and that no other line records. */
static ff_status add_provenance(ff_metadata *metadata, const ff_settings *settings,
                                const ff_sample_plan *plan, const ff_source_split *split,
                                const char *origin, ff_error *error) {
    const ff_source *source = plan->source;
    FF_TRY(ff_metadata_add_provenance(metadata, "source", source->kind, error));
    uint8_t hash[16];
    char text[64];
    ff_listing_hash(split->listing, hash);
    ff_hex(text, hash, sizeof hash);
    FF_TRY(ff_metadata_add_provenance(metadata, "listing", text, error));
    if (source->rule)
        FF_TRY(ff_metadata_add_provenance(metadata, "split", source->rule->text, error));
    if (origin) FF_TRY(ff_metadata_add_provenance(metadata, "statistics", origin, error));
    if (plan->mode == FF_MODE_RGB && !source->encoded)
        FF_TRY(ff_metadata_add_provenance(metadata, "option", "--mode rgb", error));
    if (plan->allow_truncated)
        FF_TRY(ff_metadata_add_provenance(metadata, "option", "--allow-truncated", error));
    if (settings->shuffled) {
        snprintf(text, sizeof text, "--shuffle %" PRIu64, settings->seed);
        FF_TRY(ff_metadata_add_provenance(metadata, "option", text, error));
    }
    FF_TRY(ff_metadata_add_provenance(metadata, "ffpack", ff_version, error));
    if (metadata->compression == FF_COMPRESSION_ZSTD)
        FF_TRY(ff_metadata_add_provenance(metadata, "zstd", ZSTD_versionString(), error));
    if (!source->encoded) return FF_OK;
    FF_TRY(ff_metadata_add_provenance(metadata, "pillow", plan->pillow_12 ? "12" : "13", error));
    FF_TRY(ff_metadata_add_provenance(metadata, "libjpeg-turbo", TEXT_OF_(LIBJPEG_TURBO_VERSION),
                                      error));
    FF_TRY(ff_metadata_add_provenance(metadata, "libspng", spng_version_string(), error));
    int webp = WebPGetDecoderVersion();
    snprintf(text, sizeof text, "%d.%d.%d", webp >> 16, webp >> 8 & 255, webp & 255);
    FF_TRY(ff_metadata_add_provenance(metadata, "libwebp", text, error));
    /* "LIBTIFF, Version 4.5.0", followed by lines about its authors. */
    const char *tiff = strpbrk(TIFFGetVersion(), "0123456789");
    snprintf(text, sizeof text, "%.*s", tiff ? (int)strcspn(tiff, "\n") : 0, tiff ? tiff : "");
    return ff_metadata_add_provenance(metadata, "libtiff", text, error);
}

/* As planes of one row. */
ff_status ff_describe_table(ff_metadata *metadata, const ff_transform_spec *spec, ff_error *error) {
    ff_transform_spec planes = *spec;
    planes.layout = FF_CHW;
    ff_transform *transform;
    uint8_t *ramp;
    FF_TRY(ff_transform_create(&transform, &planes, error));
    ff_status status;
    FF_TRY_DONE(ff_alloc(&ramp, spec->channels, 256, "a table", error));
    for (uint32_t i = 0; i < spec->channels * 256; i++) ramp[i] = (uint8_t)i;
    FF_TRY_DONE(ff_alloc_aligned(&metadata->table, ff_transform_bytes(transform, 256, 1), 1, 0,
                                 "a table", error));
done:
    if (status == FF_OK) {
        ff_transform_planar(transform, ramp, 256, 1, metadata->table);
        metadata->filter = FF_FILTER_TABLE;
    }
    free(ramp);
    ff_transform_destroy(&transform);
    return status;
}

ff_status ff_describe_split(ff_metadata *metadata, const ff_settings *settings,
                            const ff_sample_plan *plan, const ff_source_split *split,
                            const float *mean, const float *std, const char *origin,
                            ff_error *error) {
    *metadata = (ff_metadata){.dtype = settings->dtype,
                              .layout = settings->layout,
                              .channels = plan->channels,
                              .height = plan->height,
                              .width = plan->width,
                              .variable_size = plan->variable,
                              .alignment = settings->alignment,
                              .items = ff_listing_count(split->listing),
                              .compression = settings->compression,
                              .level = settings->level};
    ff_transform_spec spec = ff_describe_transform(settings, plan, mean, std);
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&metadata->split, split->name, error));
    if (plan->exif) FF_TRY_DONE(ff_metadata_add_transform(metadata, "exif_transpose", error));
    if (plan->fast_decode) FF_TRY_DONE(ff_metadata_add_transform(metadata, "fast_decode", error));
    FF_TRY_DONE(ff_transform_record(metadata, plan->mode, &plan->geometry, &spec, error));
    if (settings->compression == FF_COMPRESSION_ZSTD) {
        if (settings->dtype == FF_U8)
            metadata->filter = FF_FILTER_DELTA;
        else if (plan->values != FF_VALUES_U8)
            metadata->filter = FF_FILTER_SHUFFLE;
        else
            FF_TRY_DONE(ff_describe_table(metadata, &spec, error));
    }
    FF_TRY_DONE(copy_labels(metadata, &plan->source->labels, error));
    FF_TRY_DONE(add_provenance(metadata, settings, plan, split, origin, error));
    FF_TRY_DONE(ff_metadata_plan(metadata, settings->shard_bytes, error));
done:
    if (status != FF_OK) ff_metadata_free(metadata);
    return status;
}
