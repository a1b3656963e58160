#include "tools/ffpack/split/array_sample.h"

#include <stdlib.h>
#include <string.h>

/* CenterCrop of one plane of elements of `element` bytes; outside the plane is zero. */
static void crop_plane(const ff_sample_plan *plan, const unsigned char *from, size_t element,
                       unsigned char *to) {
    uint32_t width = plan->source->raw.width, height = plan->source->raw.height;
    ff_crop_span across = ff_geometry_crop_span(width, plan->width);
    ff_crop_span down = ff_geometry_crop_span(height, plan->height);
    if (across.length < plan->width || down.length < plan->height)
        memset(to, 0, (size_t)plan->width * plan->height * element);
    for (uint32_t y = 0; y < down.length; y++)
        memcpy(to + ((size_t)(down.padding + y) * plan->width + across.padding) * element,
               from + ((size_t)(down.start + y) * width + across.start) * element,
               across.length * element);
}

static void crop(const ff_sample_plan *plan, const unsigned char *from, unsigned char *to) {
    const ff_source_raw *raw = &plan->source->raw;
    size_t element = ff_element_bytes(raw->element);
    if (raw->layout == FF_HWC) {
        crop_plane(plan, from, element * raw->channels, to);
        return;
    }
    for (uint32_t c = 0; c < raw->channels; c++)
        crop_plane(plan, from + (size_t)c * raw->width * raw->height * element, element,
                   to + (size_t)c * plan->width * plan->height * element);
}

ff_status ff_array_sample_make(const ff_sample_plan *plan, const unsigned char *bytes,
                               ff_array_scratch *scratch, const void **values, ff_error *error) {
    const ff_source_raw *raw = &plan->source->raw;
    uint64_t count = (uint64_t)plan->channels * plan->width * plan->height;
    const unsigned char *from = bytes + raw->offset;
    if (!scratch->values)
        FF_TRY(ff_alloc_aligned(&scratch->values, count, sizeof(float), 0, "a sample", error));
    if (plan->changed) {
        if (!scratch->cropped)
            FF_TRY(ff_alloc_aligned(&scratch->cropped, count, ff_element_bytes(raw->element), 0,
                                    "a sample", error));
        crop(plan, from, scratch->cropped);
        from = scratch->cropped;
    }
    if (plan->values == FF_VALUES_U16)
        ff_elements_to_u16(scratch->values, from, raw->big_endian, count);
    else
        ff_elements_to_f32(scratch->values, from, raw->element, raw->big_endian, count, plan->low,
                           plan->high);
    *values = scratch->values;
    return FF_OK;
}

void ff_array_scratch_free(ff_array_scratch *scratch) {
    free(scratch->cropped);
    free(scratch->values);
    *scratch = (ff_array_scratch){0};
}
