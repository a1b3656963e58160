/* Several views of each sample in a batch. */
#include "format/base/memory.h"
#include "loader/host/settings.h"

#include <stdlib.h>

static ff_status check(const ff_loader_options *options, uint64_t views, ff_error *error) {
    bool mixes = ff_augment_mixes(&options->augment);
    for (size_t i = 0; i < options->group_count; i++)
        mixes |= ff_augment_mixes(&options->groups[i].augment);
    if (views > FF_VIEWS_MOST)
        return ff_fail(error, FF_USAGE, "views: a sample has at most %u, not %llu", FF_VIEWS_MOST,
                       (unsigned long long)views);
    if (views > 1 && mixes)
        return ff_fail(error, FF_USAGE,
                       "views: mixup and cutmix mix the only view of a sample, and there are %llu",
                       (unsigned long long)views);
    if (views > 1 && options->size_count)
        return ff_fail(error, FF_USAGE, "views: several views have the same sizes in all epochs");
    return FF_OK;
}

/* first: the settings from which a group's differ in their shape alone. */
static ff_status resolve_group(ff_loader_settings *one, const ff_loader_settings *first,
                               uint32_t view, const ff_loader_options *options,
                               const ff_loader_group *group, ff_error *error) {
    ff_loader_options own = *options;
    own.height = group->height;
    own.width = group->width;
    own.augment = group->augment;
    *one = *first;
    one->host = (ff_augment_host){0};
    one->finish = (ff_finish){0};
    one->view = NULL;
    one->group = NULL;
    one->group_count = 0;
    one->first_view = view;
    const ff_status status = ff_loader_settings_shape(one, &own, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "views: number %u", view);
}

ff_status ff_loader_settings_views(ff_loader_settings *settings, const ff_loader_options *options,
                                   ff_error *error) {
    const size_t groups = settings->raw ? 0 : options->group_count;
    uint64_t views = settings->raw || !options->views ? 1 : options->views;
    uint32_t next = (uint32_t)views;
    for (size_t i = 0; i < groups; i++) views += options->groups[i].views;
    FF_TRY(settings->raw ? FF_OK : check(options, views, error));
    FF_TRY(ff_alloc(&settings->view, views, sizeof *settings->view, "views", error));
    FF_TRY(ff_alloc(&settings->group, groups, sizeof *settings->group, "views", error));
    settings->views = (uint32_t)views;
    for (size_t i = 0; i < groups; next += options->groups[i++].views) {
        settings->group_count++; /* what a failure leaves is freed */
        FF_TRY(resolve_group(&settings->group[i], settings, next, options, &options->groups[i],
                             error));
    }
    for (uint32_t v = 0; v < settings->views; v++) {
        const ff_loader_settings *own = ff_loader_settings_of_view(settings, v);
        settings->view[v] =
            (ff_slot_view){.row_bytes = own->row_bytes, .height = own->height, .width = own->width};
    }
    return FF_OK;
}

const ff_loader_settings *ff_loader_settings_of_view(const ff_loader_settings *settings,
                                                     uint32_t view) {
    size_t groups = 0;
    while (groups < settings->group_count && view >= settings->group[groups].first_view) groups++;
    return groups ? &settings->group[groups - 1] : settings;
}

void ff_loader_settings_free_views(ff_loader_settings *settings) {
    for (size_t i = 0; i < settings->group_count; i++) {
        ff_finish_free(&settings->group[i].finish);
        ff_augment_host_free(&settings->group[i].host);
    }
    free(settings->group);
    free(settings->view);
}
