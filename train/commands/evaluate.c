/* fftrain evaluate: a trained model's accuracy on a set. */
#include "format/base/bytes.h"
#include "format/base/json.h"
#include "format/cli/say.h"
#include "train/commands/command.h"
#include "train/commands/inference_given.h"
#include "train/commands/run_given.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The run's own set may have been packed again since, or appended to. */
static void compare_set(const ff_inference_given *out, const ff_inference *own) {
    char is[33];
    ff_hex(is, ff_dataset_id(own->set)->content, 16);
    if (out->val && strcmp(is, out->content) != 0)
        fprintf(stderr,
                "fftrain: %s: holds other samples than when the run evaluated on it: the set was "
                "appended to or packed again since, so do not compare the accuracies\n",
                ff_dataset_path(own->set));
}

/* Reports what was evaluated: `data`, and the images that were left out. */
typedef struct evaluated {
    const char *data;
    const ff_inference *own;
    const ff_images *images; /* empty if the argument is a packed set */
    ff_evaluation found;
} evaluated;

/* The names of the set's classes that the model does not have, as JSON. */
static json_t *unknown_classes(const ff_inference *own) {
    json_t *names = json_array();
    const ff_field *set = &ff_dataset_metadata(own->set)->field[own->field];
    for (uint32_t k = 0; own->class_numbers && k < set->class_count; k++)
        if (own->class_numbers[k] < 0)
            json_array_append_new(names, ff_json_text(set->class_name[k]));
    return names;
}

static ff_status print_json(const evaluated *what, ff_error *error) {
    const ff_inference *own = what->own;
    const ff_evaluation *found = &what->found;
    const double top5 = ff_tally_top(own->tally);
    json_t *object = json_pack(
        "{s:o, s:s, s:I, s:I, s:o, s:I, s:o, s:o, s:o, s:o}", "data", ff_json_text(what->data),
        "model", own->net.model, "samples", (json_int_t)found->count, "unknown_samples",
        (json_int_t)own->unknown, "unknown_classes", unknown_classes(own), "unreadable_images",
        (json_int_t)what->images->broken, "loss", ff_json_number(found->loss), "accuracy",
        ff_json_number(found->accuracy), "top5_accuracy",
        top5 < 0 ? json_null() : ff_json_number(top5), "seconds",
        ff_json_number((double)found->ns * 1e-9));
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for the result");
    puts(text);
    free(text);
    return FF_OK;
}

/* Prints the first one, and the number of others. */
static void print_unknown(const ff_inference *own) {
    json_t *names = unknown_classes(own);
    const size_t count = json_array_size(names);
    printf("Left out: %s of %s that the model does not have: ",
           ff_say_count(own->unknown, "sample", "samples").text,
           ff_say_count(count, "class", "classes").text);
    for (size_t i = 0; i < count && i < 5; i++)
        printf("%s%s", i ? ", " : "", json_string_value(json_array_get(names, i)));
    puts(count > 5 ? ", ..." : "");
    json_decref(names);
}

static void print_text(const evaluated *what) {
    const ff_inference *own = what->own;
    const ff_evaluation *found = &what->found;
    const double top5 = ff_tally_top(own->tally), seconds = (double)found->ns * 1e-9;
    printf("%s\nAccuracy on %s: %.2f %%", own->text, what->data, 100 * found->accuracy);
    if (top5 >= 0) printf(", top-5 %.2f %%", 100 * top5);
    printf(", loss %.4f, of %s; %.1f s, %s.\n", found->loss,
           ff_say_count((uint64_t)found->count, "sample", "samples").text, seconds,
           ff_say_rate((double)found->count / seconds, "samples").text);
    if (own->unknown) print_unknown(own);
}

static ff_status evaluate_set(ff_inference_given *out, const ff_images *images, ff_error *error) {
    ff_inference *own = NULL;
    ff_status status;
    FF_TRY_DONE(ff_inference_open(&own, &out->inference, error));
    ff_run_given_tell(out->run, out->checkpoint);
    compare_set(out, own);
    evaluated what = {.data = out->image_count ? out->images[0] : ff_dataset_path(own->set),
                      .own = own,
                      .images = images};
    FF_TRY_DONE(ff_evaluate(own->plan, own->feed, own->tally, NULL, &what.found, error));
    if (!out->json)
        print_text(&what);
    else
        FF_TRY_DONE(print_json(&what, error));
    if (!isfinite(what.found.loss))
        status = ff_fail(error, FF_FAILED,
                         "the loss is not finite: where outputs of the net are NaN or infinite the "
                         "sample counts as wrong");
done:
    ff_inference_close(&own);
    return status;
}

static ff_status evaluate(ff_inference_given *out, ff_error *error) {
    ff_images images = {0};
    int64_t classes;
    ff_status status;
    if (out->image_count) FF_TRY_DONE(ff_inference_given_pack(out, &images, &classes, error));
    for (size_t i = 0; i < images.count; i++)
        if (images.image[i].reason)
            fprintf(stderr, "fftrain: left out %s: %s\n", images.image[i].name,
                    images.image[i].reason);
    if (!images.count || images.broken < images.count)
        FF_TRY_DONE(evaluate_set(out, &images, error));
    status = ff_inference_given_end(out, &images, error);
done:
    ff_images_free(&images);
    return status;
}

ff_status ff_command_evaluate(int argc, char **argv, ff_error *error) {
    ff_inference_given given;
    ff_status status = ff_inference_given_read(&given, false, argc, argv, error);
    if (status == FF_OK && !given.words.done) status = evaluate(&given, error);
    ff_inference_given_free(&given);
    return status;
}
