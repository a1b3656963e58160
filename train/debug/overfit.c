#include "train/debug/overfit.h"

#include "format/base/memory.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "train/checkpoint/state.h"
#include "train/net/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Copies of the batches in the compute's memory, and the place from which steps read them: with
 * graphs, every step must use the same place. */
typedef struct copies {
    ff_compute *compute;
    size_t image_bytes, label_bytes;
    uint64_t count; /* micro-batches */
    char *images, *labels;
    ff_batch batch;
} copies;

static ff_status allocate(copies *c, ff_error *error) {
    char *images, *labels;
    FF_TRY(ff_compute_allocate(c->compute, &images, (c->count + 1) * c->image_bytes,
                               "copies of the batches", error));
    c->images = images;
    FF_TRY(ff_compute_allocate(c->compute, &labels, (c->count + 1) * c->label_bytes,
                               "copies of the batches", error));
    c->labels = labels;
    c->batch.images = images + c->count * c->image_bytes;
    c->batch.labels = labels + c->count * c->label_bytes;
    return FF_OK;
}

/* Copies the first batches of the run, each as it enters the net. */
static ff_status fill(copies *c, ff_trainer *trainer, ff_error *error) {
    for (uint64_t i = 0; i < c->count; i++) {
        ff_feed_batch next;
        FF_TRY(ff_feed_next(trainer->train_feed, &next, error));
        FF_TRY(ff_feed_make(trainer->train_feed, c->compute->stream, error));
        if (i == 0) {
            c->label_bytes = (size_t)trainer->micro * ff_dtype_bytes(next.batch.label_dtype);
            c->batch.label_dtype = next.batch.label_dtype;
            FF_TRY(allocate(c, error));
        }
        ff_compute_copy(c->compute, c->images + i * c->image_bytes, next.batch.images,
                        c->image_bytes);
        ff_compute_copy(c->compute, c->labels + i * c->label_bytes, next.batch.labels,
                        c->label_bytes);
        FF_TRY(ff_feed_done(trainer->train_feed, error));
    }
    return ff_compute_check(c->compute, error);
}

/* Trains once on every copy. */
static ff_status pass(copies *c, ff_trainer *trainer, ff_epoch_sums *sums, ff_error *error) {
    ff_plan *plan = ff_trainer_plan(trainer, 0, (uint32_t)trainer->micro);
    *sums = (ff_epoch_sums){0};
    for (uint64_t i = 0; i < c->count; i++) {
        FF_TRY(ff_interrupt_check(error));
        ff_compute_copy(c->compute, (void *)c->batch.images, c->images + i * c->image_bytes,
                        c->image_bytes);
        ff_compute_copy(c->compute, (void *)c->batch.labels, c->labels + i * c->label_bytes,
                        c->label_bytes);
        if ((i + 1) % (uint64_t)trainer->accumulate)
            FF_TRY(ff_step_add(trainer->step, plan, &c->batch, error));
        else
            FF_TRY(ff_step_run(trainer->step, plan, &c->batch, error));
        for (uint32_t count = 1; count;) {
            const ff_outcome *outcomes;
            FF_TRY(ff_step_outcomes(trainer->step, i + 1 == c->count, &outcomes, &count, error));
            for (uint32_t k = 0; k < count; k++) {
                sums->loss_sum += ff_outcome_loss(&outcomes[k]);
                sums->count += outcomes[k].count;
                sums->correct += outcomes[k].correct;
            }
        }
    }
    return FF_OK;
}

/* 1, 2, 5, 10, 20, ... */
static bool is_shown(uint64_t number) {
    while (number % 10 == 0) number /= 10;
    return number == 1 || number == 2 || number == 5;
}

static ff_status learn(copies *c, ff_trainer *trainer, FILE *out, ff_error *error) {
    const uint64_t batches = c->count / (uint64_t)trainer->accumulate;
    const int64_t asked = trainer->options->epochs;
    const uint64_t usual = batches < 10 ? (1000 + batches - 1) / batches : 100;
    const uint64_t passes = asked > 0 ? (uint64_t)asked : usual;
    /* A mean over many classes is small without any learning: their sum is looked at. */
    const double terms = trainer->loss.kind == FF_LOSS_BCE ? (double)trainer->splits.classes : 1;
    double loss = NAN, accuracy = 0;
    fprintf(out,
            "overfits %s of %s: no augmentation but sizes, no dropout, label smoothing, mixed "
            "labels and weight decay, a constant rate, no validation\n",
            ff_say_count(batches, "batch", "batches").text,
            ff_say_count((uint64_t)trainer->batch, "sample", "samples").text);
    for (uint64_t number = 1; number <= passes; number++) {
        ff_epoch_sums sums;
        FF_TRY(pass(c, trainer, &sums, error));
        loss = sums.count ? sums.loss_sum * terms / (double)sums.count : NAN;
        accuracy = 100 * (double)sums.correct / (double)sums.count;
        const bool ends = loss < FF_OVERFIT_LOSS || !isfinite(loss);
        if (ends || number == passes || is_shown(number))
            fprintf(out, "pass %6" PRIu64 "  loss %8.4g  accuracy %6.2f %%\n", number, loss,
                    accuracy);
        if (loss < FF_OVERFIT_LOSS) {
            fprintf(out, "The loss is below %g after %s: the net can learn.\n", FF_OVERFIT_LOSS,
                    ff_say_count(number * batches, "step", "steps").text);
            return FF_OK;
        }
        if (!isfinite(loss))
            return ff_fail(error, FF_FAILED,
                           "--overfit: the loss became no number in pass %" PRIu64 "; lower --lr",
                           number);
    }
    return ff_fail(error, FF_FAILED,
                   "--overfit: the loss is still %.4g (accuracy %.2f %%) after %s, above %g: try "
                   "another --lr (fftrain lr-find), look at labels and inputs (--show-batch), and "
                   "at the gradients (--check-gradients)",
                   loss, accuracy, ff_say_count(passes * batches, "step", "steps").text,
                   FF_OVERFIT_LOSS);
}

ff_status ff_overfit(ff_trainer *trainer, FILE *out, ff_error *error) {
    const int64_t batches = trainer->options->overfit;
    if ((uint64_t)batches > trainer->train_count / (uint64_t)trainer->batch)
        return ff_fail(
            error, FF_USAGE, "--overfit %" PRId64 ": the training set has only %s", batches,
            ff_say_count(trainer->train_count / (uint64_t)trainer->batch, "batch", "batches").text);
    const ff_plan *plan = ff_trainer_plan(trainer, 0, (uint32_t)trainer->micro);
    copies c = {.compute = ff_model_compute(trainer->model),
                .count = (uint64_t)(batches * trainer->accumulate)};
    c.image_bytes = ff_tensor_count(&plan->tensors[0]) * c.compute->element_bytes;
    ff_status status = fill(&c, trainer, error);
    if (status == FF_OK) status = learn(&c, trainer, out, error);
    const ff_status waited = ff_compute_wait(c.compute, status == FF_OK ? error : NULL);
    ff_compute_release(c.compute, c.images);
    ff_compute_release(c.compute, c.labels);
    return status == FF_OK ? waited : status;
}
