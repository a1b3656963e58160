/* fftrain predict: a trained model's predictions for a set. */
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "train/commands/command.h"
#include "train/commands/inference_given.h"
#include "train/commands/prediction_lines.h"
#include "train/commands/run_given.h"
#include "train/net/plan.h"

#include <stdlib.h>

typedef struct predicting {
    ff_inference *own;
    const ff_images *images; /* the set's; empty if the argument is a packed set */
    size_t at;               /* the next image */
    uint64_t lost;           /* samples for which the net's outputs are not finite */
    ff_prediction_lines *lines;
    bool skips; /* --on-error skip */
    int64_t top;
    int *order;                  /* [classes] */
    ff_predicted_class *classes; /* [classes]; the first `top` of the sample */
} predicting;

/* Writes the lines of the next images that were not packed. */
static ff_status print_broken(predicting *p, ff_error *error) {
    for (; p->at < p->images->count && p->images->image[p->at].reason; p->at++) {
        const ff_image *image = &p->images->image[p->at];
        if (p->skips)
            fprintf(stderr, "fftrain: skipped %s: %s\n", image->name, image->reason);
        else
            FF_TRY(ff_prediction_lines_reason(p->lines, image->name, image->reason, error));
    }
    return FF_OK;
}

static ff_status print_sample(predicting *p, uint64_t number, const float *logits,
                              ff_error *error) {
    char stored[FF_KEY_LIMIT_BYTES + 1];
    const char *key = stored;
    const int64_t classes = p->own->net.classes, top = p->top < classes ? p->top : classes;
    FF_TRY(print_broken(p, error));
    if (p->at < p->images->count) {
        key = p->images->image[p->at++].name;
    } else {
        size_t length;
        FF_TRY(ff_dataset_key(p->own->set, number, stored, &length, error));
        stored[length] = 0;
    }
    if (!ff_predicted_top(logits, (int)p->own->net.classes, p->own->names, (int)top, p->order,
                          p->classes)) {
        p->lost++;
        return ff_prediction_lines_reason(p->lines, key, "the net's outputs for it are not finite",
                                          error);
    }
    return ff_prediction_lines_add(p->lines, key, p->classes, top, error);
}

static ff_status print_samples(predicting *p, ff_error *error) {
    ff_inference *own = p->own;
    const size_t classes = own->net.classes, batch = (size_t)ff_plan_batch(own->plan);
    const size_t stride =
        (size_t)ff_tensor_padded_channels(&own->plan->tensors[own->plan->graph->output]);
    float *rows = NULL;
    uint64_t number = 0;
    ff_status status;
    FF_TRY_DONE(ff_alloc(&p->order, classes, sizeof *p->order, "predictions", error));
    FF_TRY_DONE(ff_alloc(&p->classes, classes, sizeof *p->classes, "predictions", error));
    FF_TRY_DONE(ff_alloc(&rows, batch * stride, sizeof *rows, "predictions", error));
    for (uint32_t count = 1; count;) {
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_inference_next(own, rows, &count, error));
        for (uint32_t n = 0; n < count; n++)
            FF_TRY_DONE(print_sample(p, number++, rows + n * classes, error));
    }
done:
    free(rows);
    free(p->order);
    free(p->classes);
    return status;
}

/* Writes the lines of all samples and images. */
static ff_status predict_all(ff_inference_given *out, predicting *p, ff_error *error) {
    ff_inference *own = NULL;
    ff_status status = FF_OK;
    if (!p->images->count || p->images->broken < p->images->count) {
        FF_TRY_DONE(ff_inference_open(&own, &out->inference, error));
        ff_run_given_tell(out->run, out->checkpoint);
        p->own = own;
        if (p->top > own->net.classes) p->top = own->net.classes;
    }
    FF_TRY_DONE(ff_prediction_lines_open(p->lines, out->output, p->top, error));
    if (own) FF_TRY_DONE(print_samples(p, error));
    status = print_broken(p, error);
done:
    ff_inference_close(&own);
    return status;
}

static ff_status predict(ff_inference_given *out, ff_error *error) {
    ff_images images = {0};
    ff_prediction_lines lines = {0};
    ff_error why = {0};
    ff_status status;
    int64_t classes = out->top;
    if (out->image_count) FF_TRY_DONE(ff_inference_given_pack(out, &images, &classes, error));
    predicting p = {.images = &images,
                    .lines = &lines,
                    .skips = out->on_error == 1,
                    .top = classes < out->top ? classes : out->top};
    status = predict_all(out, &p, error);
    const ff_status closed = ff_prediction_lines_close(&lines, status == FF_OK, &why);
    if (status == FF_OK && closed != FF_OK) status = ff_fail(error, closed, "%s", why.message);
    FF_TRY_DONE(status);
    if (p.lost)
        status = ff_fail(error, FF_FAILED, "the net's outputs for %s are not finite",
                         ff_say_count(p.lost, "sample", "samples").text);
    const ff_status told = ff_inference_given_end(out, &images, error);
    if (told != FF_OK) status = told;
done:
    ff_images_free(&images);
    return status;
}

ff_status ff_command_predict(int argc, char **argv, ff_error *error) {
    ff_inference_given given;
    ff_status status = ff_inference_given_read(&given, true, argc, argv, error);
    if (status == FF_OK && !given.words.done) status = predict(&given, error);
    ff_inference_given_free(&given);
    return status;
}
