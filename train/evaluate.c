#include "train/evaluate.h"

#include "format/base/interrupt.h"
#include "format/base/thread.h"

ff_status ff_evaluate(ff_plan *plan, ff_loader *loader, ff_evaluation *result, ff_error *error) {
    uint64_t began = ff_now_ns();
    ff_step_result sum = {0};
    for (bool last = false; !last;) {
        FF_TRY(ff_interrupt_check(error));
        ff_slot *slot;
        FF_TRY(ff_loader_acquire(loader, &slot, error));
        ff_batch batch = {.images = slot->data,
                          .labels = slot->label[0].values,
                          .label_dtype = slot->label[0].dtype,
                          .weights = slot->weight};
        ff_step_result step;
        ff_status status = ff_plan_evaluate(plan, &batch, &step, error);
        last = slot->last;
        ff_loader_release(loader, slot, NULL);
        if (status != FF_OK) return status;
        sum.loss_sum += step.loss_sum;
        sum.count += step.count;
        sum.correct += step.correct;
    }
    if (sum.count == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "the validation set has no sample with a label (all are -1, unlabeled)");
    *result = (ff_evaluation){.loss = sum.loss_sum / (double)sum.count,
                              .accuracy = (double)sum.correct / (double)sum.count,
                              .count = sum.count,
                              .ns = ff_now_ns() - began};
    return FF_OK;
}
