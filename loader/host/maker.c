#include "loader/host/maker.h"

#include <stdlib.h>

ff_status ff_row_maker_create(ff_row_maker *makers, const ff_loader_settings *all, uint32_t view,
                              uint32_t rows, ff_error *error) {
    const ff_loader_settings *settings = ff_loader_settings_of_view(all, view);
    const ff_finish *finish = &settings->finish;
    ff_row_maker *maker = &makers[view];
    maker->settings = settings;
    maker->host = finish->used ? ff_finish_maker(finish) : &settings->host;
    maker->alters = ff_finish_alters(finish);
    maker->offset = all->view[view].offset;
    if (finish->apart)
        FF_TRY(ff_alloc_aligned(&maker->apart, rows, finish->row_bytes, 0, "rows", error));
    if (view > settings->first_view) {
        maker->resampler = maker[-1].resampler;
        maker->images = maker[-1].images;
        return FF_OK;
    }
    if (finish->changes)
        FF_TRY(ff_alloc_aligned(&maker->images, finish->image_bytes, 1, 0, "images", error));
    if (settings->raw || !ff_augment_resamples(&settings->augment)) return FF_OK;
    return ff_resampler_create(&maker->resampler, maker->host,
                               finish->used ? &finish->metadata : settings->metadata, error);
}

void ff_row_maker_destroy(ff_row_maker *makers, uint32_t view) {
    ff_row_maker *maker = &makers[view];
    free(maker->apart);
    if (!maker->settings || view > maker->settings->first_view) return;
    ff_resampler_destroy(&maker->resampler);
    free(maker->images);
}
