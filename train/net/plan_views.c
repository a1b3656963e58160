/* Test-time views: their list, and the memory for their images and the sum of logits. */
#include "train/net/plan.h"

ff_planned_view ff_plan_view(int views, int index) {
    static const ff_planned_view one[] = {{0, 0, false, 1}};
    static const ff_planned_view two[] = {{0, 0, false, 0.5f}, {0, 0, true, 0.5f}};
    static const ff_planned_view six[] = {{0, 0, false, 0.25f},    {0, 0, true, 0.25f},
                                          {-1, -1, false, 0.125f}, {-1, -1, true, 0.125f},
                                          {1, 1, false, 0.125f},   {1, 1, true, 0.125f}};
    const ff_planned_view *list = views == 6 ? six : views == 2 ? two : one;
    return list[index];
}

const void *ff_plan_make_view(ff_plan *plan, const ff_planned_view *view, const void *images) {
    if (!view->down && !view->right && !view->mirror) return images;
    const ff_image_view arguments = {plan->tensors[0], view->down, view->right, view->mirror};
    plan->compute->ops->view(plan->compute, &arguments, images, plan->view_images);
    return plan->view_images;
}

void ff_plan_release_views(ff_plan *plan) {
    if (plan->view_images) ff_compute_release(plan->compute, plan->view_images);
    if (plan->view_logits) ff_compute_release(plan->compute, plan->view_logits);
    plan->view_images = NULL;
    plan->view_logits = NULL;
    plan->view_bytes = 0;
    plan->views = 1;
}

ff_status ff_plan_set_views(ff_plan *plan, int views, ff_error *error) {
    const ff_tensor *images = &plan->tensors[0];
    if (views != 1 && views != 2 && views != 6)
        return ff_fail(error, FF_USAGE, "%d views of a sample; 1, 2 or 6 are possible", views);
    if (views == 6 && (images->h < 2 || images->w < 2))
        return ff_fail(error, FF_USAGE,
                       "6 views shift images of %dx%d by a pixel; they are too small", images->h,
                       images->w);
    ff_plan_release_views(plan);
    if (views == 1) return FF_OK;
    const size_t image_bytes = ff_tensor_count(images) * plan->compute->element_bytes;
    const size_t logits_bytes =
        ff_tensor_count(&plan->tensors[plan->graph->output]) * sizeof(float);
    ff_status status = ff_compute_allocate(plan->compute, &plan->view_images, image_bytes,
                                           "views of the images", error);
    if (status == FF_OK)
        status = ff_compute_allocate(plan->compute, &plan->view_logits, logits_bytes,
                                     "views of the images", error);
    if (status != FF_OK) {
        ff_plan_release_views(plan);
        return status;
    }
    plan->view_bytes = image_bytes + logits_bytes;
    plan->views = views;
    return FF_OK;
}
