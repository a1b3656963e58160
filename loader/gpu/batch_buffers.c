#include "loader/gpu/batch_buffers.h"

#include "format/base/memory.h"

#include <stdlib.h>

/* Appends `bytes` to a block at a multiple of 256; returns their offset. */
static uint64_t part(uint64_t *end, uint64_t bytes) {
    uint64_t offset = ff_align_u64(*end, 256);
    *end = offset + bytes;
    return offset;
}

/* Bytes of a channel of an image: of a view, and the first in the largest of all epochs' sizes. */
static uint64_t plane_bytes(const ff_loader_settings *settings, uint32_t view) {
    const ff_loader_settings *own = ff_loader_settings_of_view(settings, view);
    uint64_t most = (uint64_t)own->height * own->width;
    for (size_t i = 0; i < settings->later_count; i++) {
        const uint64_t here = (uint64_t)settings->later[i].height * settings->later[i].width;
        if (here > most) most = here;
    }
    return most * settings->host.to_bytes;
}

/* Places the views' images one after another. */
static ff_status place_views(ff_slot_view *view, const ff_loader_settings *settings,
                             uint32_t channels, uint64_t *end, ff_error *error) {
    *end = 0;
    for (uint32_t v = 0; v < settings->views; v++) {
        uint64_t bytes;
        view[v] = settings->view[v];
        if (!ff_mul_u64(plane_bytes(settings, v), channels, &view[v].row_bytes) ||
            !ff_mul_u64(view[v].row_bytes, settings->rows, &bytes) ||
            bytes > UINT64_MAX / 4 / FF_VIEWS_MOST)
            return ff_fail(error, FF_USAGE, "a batch of %u samples of %ux%ux%u is too large",
                           settings->rows, view[v].height, view[v].width, channels);
        view[v].offset = part(end, bytes);
    }
    return FF_OK;
}

/* One block: data, view after view | label 0 | ... | weight | mix | params. */
ff_status ff_batch_buffers_create(ff_batch_buffers *buffers, ff_device *device,
                                  const ff_loader_settings *settings, uint32_t channels,
                                  uint64_t *bytes, ff_error *error) {
    const bool mixes = settings->finish.mixes;
    ff_slot_label *label;
    ff_slot_view *view;
    uint64_t end, *offset;
    FF_TRY(ff_alloc(&label, settings->label_count, sizeof *label, "labels", error));
    buffers->label = label;
    buffers->label_count = settings->label_count;
    FF_TRY(ff_alloc(&view, settings->views, sizeof *view, "views", error));
    buffers->view = view;
    buffers->views = settings->views;
    FF_TRY(place_views(view, settings, channels, &end, error));
    FF_TRY(ff_alloc(&offset, settings->label_count, sizeof *offset, "labels", error));
    for (size_t i = 0; i < settings->label_count; i++) {
        label[i] = ff_loader_settings_label(settings, i, NULL);
        offset[i] = part(&end, settings->rows * ff_slot_label_bytes(&label[i]));
    }
    const uint64_t weight = part(&end, settings->rows * sizeof(float));
    const uint64_t mix = part(&end, mixes ? settings->rows * sizeof(float) : 0);
    const uint64_t params = part(&end, settings->rows * sizeof(ff_augment_params));
    ff_status status = device->table->allocate(device, &buffers->data, end, "a batch", error);
    if (status == FF_OK) {
        uint8_t *base = buffers->data;
        for (size_t i = 0; i < settings->label_count; i++) label[i].values = base + offset[i];
        buffers->weight = (float *)(void *)(base + weight);
        buffers->mix = mixes ? (float *)(void *)(base + mix) : NULL;
        buffers->params = (ff_augment_params *)(void *)(base + params);
        *bytes += end;
    }
    free(offset);
    return status;
}

void ff_batch_buffers_release(ff_batch_buffers *buffers, ff_device *device) {
    device->table->release(device, buffers->data);
    free((ff_slot_label *)(uintptr_t)buffers->label);
    free((ff_slot_view *)(uintptr_t)buffers->view);
    *buffers = (ff_batch_buffers){0};
}
