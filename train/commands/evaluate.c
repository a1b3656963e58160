/* A trained model on a set: its accuracy, or its predictions. */
#include "format/base/bytes.h"
#include "format/base/interrupt.h"
#include "format/base/json.h"
#include "format/base/say.h"
#include "format/set.h"
#include "train/commands/command.h"
#include "train/commands/images.h"
#include "train/commands/run_given.h"
#include "train/inference.h"
#include "train/plan.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The options of both commands. */
typedef struct given {
    ff_inference_options inference;
    const char **arguments;
    const char **images; /* of these: files and folders, which are no packed set */
    int image_count;
    const char *run;        /* or checkpoint, or file of weights */
    char *checkpoint, *val; /* of a run; NULL = not given, not needed */
    char content[33];       /* content id of the set that the run evaluated on */
    int stem, views, verify;
    int64_t top;
    bool json;
    ff_options_result result;
} given;

static const char exit_codes[] =
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 65 bad data, 74 input or output error, 128 + n\n"
    "stopped by signal n.";

/* A packed set, or what is left of one. */
static bool is_set(const char *path) {
    ff_set set;
    const bool is = ff_set_find(&set, path, NULL) == FF_OK && set.count;
    ff_set_free(&set);
    return is;
}

static ff_status parse(given *out, int argc, char **argv, ff_error *error) {
    ff_inference_options *own = &out->inference;
    const bool predicts = own->predicts;
    const ff_option table[] = {
        {"checkpoint", 'c', FF_OPTION_STRING, "PATH", &own->weights, NULL, 0, 0,
         "A run, of which the best checkpoint is taken where there is one, else the last; a "
         "checkpoint's folder; or a file of weights, safetensors or torch.save's. It may also be "
         "given first, without -c."},
        {"data", 'd', FF_OPTION_STRING, "DIR", &own->data, NULL, 0, 0,
         predicts ? "Packed set, or a folder of splits with val, valid or test, or of a single "
                    "one; it may also be given without --data."
                  : "Packed set, or a folder of splits with val, valid or test, or of a single "
                    "one; it may also be given without --data. Default: the set on which the run "
                    "evaluated."},
        {"model", 'm', FF_OPTION_STRING, "NAME", &own->model, NULL, 0, 0,
         "Model of weights that do not say it, as PyTorch's files."},
        {"stem", 0, FF_OPTION_CHOICE, NULL, &out->stem, "auto|cifar|imagenet", 0, 0,
         "Form of the model; default: the checkpoint's."},
        {"label", 0, FF_OPTION_STRING, "FIELD", &own->label, NULL, 0, 0,
         "Label field; default: the checkpoint's."},
        {"resize", 0, FF_OPTION_INTEGER, "N", &own->resize, NULL, 0, 65536,
         "Resize the short side to N before the central crop, 0 not at all; default: the "
         "checkpoint's."},
        {"crop", 0, FF_OPTION_INTEGER, "N", &own->crop, NULL, 1, 65536,
         "Central crop to N x N; default: the checkpoint's."},
        {"views", 0, FF_OPTION_CHOICE, NULL, &out->views, "auto|1|2|6", 0, 0,
         "Views of each sample whose logits are averaged; default auto: the checkpoint's."},
        {"ema", 0, FF_OPTION_FLAG, NULL, &own->average, NULL, 0, 0,
         "Take the average of the parameters (of a checkpoint of a run with --ema)."},
        {"any-normalization", 0, FF_OPTION_FLAG, NULL, &own->any_normalization, NULL, 0, 0,
         "Take weights even where their images were normalized with other numbers."},
        {"verify-data", 0, FF_OPTION_CHOICE, NULL, &out->verify, "off|first|always", 0, 0,
         "When samples are checked against their checksums; default first."},
        {"batch", 'b', FF_OPTION_INTEGER, "N", &own->batch, NULL, 1, 1048576,
         "Samples at a time; default 128."},
        {"device", 0, FF_OPTION_STRING, "auto|cpu|cuda[:I]", &own->device, NULL, 0, 0,
         "Where to compute; default auto."},
        {"precision", 0, FF_OPTION_STRING, FF_PRECISION_NAMES, &own->precision, NULL, 0, 0,
         "Of activations and weights on a GPU; default: that of the training, f32 where the file "
         "does not say it; the CPU has f32 only."},
        {"threads", 'j', FF_OPTION_INTEGER, "N", &own->threads, NULL, 0, 1024,
         "Compute threads; default 0: as many as there are CPUs."},
        {predicts ? "top" : "json", 0, predicts ? FF_OPTION_INTEGER : FF_OPTION_FLAG,
         predicts ? "N" : NULL, predicts ? (void *)&out->top : (void *)&out->json, NULL, 1, 1e6,
         predicts ? "Classes of each line, the likeliest first; default 5."
                  : "Print one JSON object."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = predicts ? "fftrain predict" : "fftrain evaluate",
        .usage = predicts ? "fftrain predict RUN DIR|IMAGES... [options]"
                          : "fftrain evaluate RUN [DIR] [options]",
        .summary =
            predicts
                ? "Prints a JSON line for each sample of a packed set, or for each image "
                  "of files and folders: {key, class, name, probability, top: [{class, "
                  "name, probability}]}. Images are packed into a temporary folder (in "
                  "TMPDIR) by the ffpack beside fftrain, as the training set was; one "
                  "that cannot be read has a line {key, error}, and the exit code is 65. In a key, "
                  "'%' and bytes that are not UTF-8 are %XX."
                : "Loss and accuracy of a trained model on a packed set.",
        .options = table,
        .epilogue = exit_codes,
    };
    static const int views[] = {-1, 1, 2, 6};
    const char **positional;
    int count;
    FF_TRY(ff_alloc(&positional, (uint64_t)argc + 1, sizeof *positional, "arguments", error));
    out->arguments = positional;
    ff_status status =
        ff_options_parse(&command, argc, argv, positional, &count, &out->result, error);
    if (status == FF_OK && out->result == FF_OPTIONS_RUN) {
        int used = 0;
        if (count && !own->weights && ff_run_given_is(positional[0]))
            own->weights = positional[used++];
        const int left = count - used;
        if (left && !own->data && (!predicts || (left == 1 && is_set(positional[used]))))
            own->data = positional[used++];
        if (predicts && !own->data) {
            out->images = positional + used;
            out->image_count = left;
        } else if (used < count) {
            status = ff_fail(error, FF_USAGE, "unexpected argument '%s'; one set is wanted",
                             positional[used]);
        }
        if (status == FF_OK && predicts && !own->data && !left)
            status = ff_fail(error, FF_USAGE,
                             "nothing to predict is named: a packed set, image files or folders");
    }
    own->stem = (ff_stem)out->stem;
    own->views = views[out->views];
    own->verify = (ff_verify)out->verify;
    if (!own->device) own->device = "auto";
    return status == FF_OK ? ff_machine_check(own->device, error) : status;
}

static given default_given(void) {
    return (given){
        .inference = ff_inference_default_options(), .verify = FF_VERIFY_FIRST, .top = 5};
}

/* A run's checkpoint, and what it evaluated on where no set is named. */
static ff_status take_run(given *out, ff_error *error) {
    ff_inference_options *own = &out->inference;
    if (!own->weights) return ff_fail(error, FF_USAGE, "--checkpoint is missing, or a run first");
    FF_TRY(ff_run_given_checkpoint(own->weights, &out->checkpoint, error));
    out->run = own->weights;
    if (out->checkpoint) own->weights = out->checkpoint;
    if (own->data || own->predicts) return FF_OK;
    FF_TRY(ff_run_given_val(out->checkpoint, &out->val, out->content, error));
    own->data = out->val;
    return FF_OK;
}

/* ---- evaluate ---- */

/* The run's own set may have been packed again since, or appended to. */
static void compare_set(const given *out, const ff_inference *own) {
    char is[33];
    ff_hex(is, ff_dataset_id(own->set)->content, 16);
    if (out->val && strcmp(is, out->content) != 0)
        fprintf(stderr,
                "fftrain: %s: holds other samples than when the run evaluated on it (content id "
                "%s, it was %s)\n",
                ff_dataset_path(own->set), is, out->content);
}

static ff_status print_json(const ff_inference *own, const ff_evaluation *found, ff_error *error) {
    const double top5 = ff_tally_top(own->tally);
    json_t *object = json_pack(
        "{s:o, s:s, s:I, s:o, s:o, s:o, s:o}", "data", ff_json_text(ff_dataset_path(own->set)),
        "model", own->net.model, "samples", (json_int_t)found->count, "loss",
        ff_json_number(found->loss), "accuracy", ff_json_number(found->accuracy), "top5_accuracy",
        top5 < 0 ? json_null() : ff_json_number(top5), "seconds",
        ff_json_number((double)found->ns * 1e-9));
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for the result");
    puts(text);
    free(text);
    return FF_OK;
}

static void print_text(const ff_inference *own, const ff_evaluation *found) {
    const double top5 = ff_tally_top(own->tally), seconds = (double)found->ns * 1e-9;
    printf("%s\nAccuracy on %s: %.2f %%", own->text, ff_dataset_path(own->set),
           100 * found->accuracy);
    if (top5 >= 0) printf(", top-5 %.2f %%", 100 * top5);
    printf(", loss %.4f, of %s; %.1f s, %s.\n", found->loss,
           ff_say_count((uint64_t)found->count, "sample", "samples").text, seconds,
           ff_say_rate((double)found->count / seconds, "samples").text);
}

static ff_status evaluate(given *out, ff_error *error) {
    ff_inference *own = NULL;
    ff_evaluation found;
    ff_status status;
    FF_TRY_DONE(ff_inference_open(&own, &out->inference, error));
    ff_run_given_tell(out->run, out->checkpoint);
    compare_set(out, own);
    FF_TRY_DONE(ff_evaluate(own->plan, own->feed, own->tally, NULL, &found, error));
    if (out->json)
        status = print_json(own, &found, error);
    else
        print_text(own, &found);
    if (!isfinite(found.loss))
        status = ff_fail(error, FF_FAILED,
                         "the loss is not finite: where outputs of the net are NaN or infinite the "
                         "sample counts as wrong");
done:
    ff_inference_close(&own);
    return status;
}

/* ---- predict ---- */

typedef struct predicting {
    ff_inference *own;
    const ff_images *images; /* of the set; none: a packed set was given */
    size_t at;               /* the next image */
    uint64_t lost;           /* samples for which the net's outputs are not finite */
    int64_t top;
    int *order;       /* [classes] */
    const float *row; /* the sample's logits */
    float largest;    /* of them */
    double sum;       /* of the powers of their distances from it */
} predicting;

static void use_row(predicting *p, const float *row) {
    const size_t classes = p->own->net.classes;
    p->row = row;
    p->largest = row[0];
    p->sum = 0;
    for (size_t c = 0; c < classes; c++) p->largest = fmaxf(p->largest, row[c]);
    for (size_t c = 0; c < classes; c++) p->sum += (double)expf(row[c] - p->largest);
}

static json_t *class_object(const predicting *p, int class) {
    const float probability = (float)((double)expf(p->row[class] - p->largest) / p->sum);
    const ff_field *names = p->own->names;
    const char *name = (uint32_t) class < names->class_count ? names->class_name[class] : NULL;
    return json_pack("{s:i, s:o, s:o}", "class", class, "name", ff_json_text(name), "probability",
                     ff_json_number((double)probability));
}

/* The likeliest `top` classes to the front, by their logits, which differ also where probabilities
 * are too small to; of equal ones the first. */
static void rank(predicting *p, int64_t top) {
    const int classes = (int)p->own->net.classes;
    for (int c = 0; c < classes; c++) p->order[c] = c;
    for (int i = 0; i < top; i++) {
        int best = i;
        for (int c = i + 1; c < classes; c++) {
            const float one = p->row[p->order[c]], other = p->row[p->order[best]];
            if (one > other || (one == other && p->order[c] < p->order[best])) best = c;
        }
        const int kept = p->order[i];
        p->order[i] = p->order[best];
        p->order[best] = kept;
    }
}

/* Prints the object as a line, and releases it. */
static ff_status print_line(json_t *object, ff_error *error) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for a prediction");
    puts(text);
    free(text);
    return ferror(stdout) ? ff_fail_errno(error, "cannot write to the standard output") : FF_OK;
}

/* The line of a sample that has no prediction. */
static ff_status print_reason(const char *key, const char *reason, ff_error *error) {
    return print_line(json_pack("{s:o, s:o}", "key", ff_json_key(key, strlen(key)), "error",
                                ff_json_text(reason)),
                      error);
}

/* The lines of the images that are next and were not packed. */
static ff_status print_broken(predicting *p, ff_error *error) {
    for (; p->at < p->images->count && p->images->image[p->at].reason; p->at++)
        FF_TRY(print_reason(p->images->image[p->at].name, p->images->image[p->at].reason, error));
    return FF_OK;
}

static ff_status print_sample(predicting *p, uint64_t number, ff_error *error) {
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
    if (!isfinite(p->sum)) {
        p->lost++;
        return print_reason(key, "the net's outputs for it are not finite", error);
    }
    rank(p, top);
    json_t *list = json_array(), *best = class_object(p, p->order[0]);
    json_t *object = json_pack("{s:o}", "key", ff_json_key(key, strlen(key)));
    int failed = json_object_update(object, best);
    json_decref(best);
    for (int i = 0; i < top; i++)
        failed |= json_array_append_new(list, class_object(p, p->order[i]));
    failed |= json_object_set_new(object, "top", list);
    if (failed) {
        json_decref(object);
        object = NULL;
    }
    return print_line(object, error);
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
    FF_TRY_DONE(ff_alloc(&rows, batch * stride, sizeof *rows, "predictions", error));
    for (uint32_t count = 1; count;) {
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_inference_next(own, rows, &count, error));
        for (uint32_t n = 0; n < count; n++) {
            use_row(p, rows + n * classes);
            FF_TRY_DONE(print_sample(p, number++, error));
        }
    }
done:
    free(rows);
    free(p->order);
    return status;
}

static ff_status pack_images(ff_images *images, given *out, ff_error *error) {
    ff_inference_options *options = &out->inference;
    ff_metadata trained;
    FF_TRY(ff_inference_trained(&trained, options->weights, error));
    const ff_status status =
        ff_images_pack(images, out->images, out->image_count, &trained, options->weights, error);
    ff_metadata_free(&trained);
    options->data = images->set;
    options->made = true;
    return status;
}

static ff_status predict(given *out, ff_error *error) {
    ff_images images = {0};
    ff_inference *own = NULL;
    ff_status status;
    if (out->image_count) FF_TRY_DONE(pack_images(&images, out, error));
    predicting p = {.images = &images, .top = out->top};
    if (!images.count || images.broken < images.count) {
        FF_TRY_DONE(ff_inference_open(&own, &out->inference, error));
        ff_run_given_tell(out->run, out->checkpoint);
        p.own = own;
        FF_TRY_DONE(print_samples(&p, error));
    }
    FF_TRY_DONE(print_broken(&p, error));
    if (images.left_out)
        fprintf(stderr, "fftrain: %s in folders left out, which are not named as images are\n",
                ff_say_count(images.left_out, "file", "files").text);
    if (p.lost)
        status = ff_fail(error, FF_FAILED, "the net's outputs for %s are not finite",
                         ff_say_count(p.lost, "sample", "samples").text);
    if (images.broken)
        status = ff_fail(error, FF_BAD_DATA, "%zu of %s could not be read", images.broken,
                         ff_say_count(images.count, "image", "images").text);
done:
    ff_inference_close(&own);
    ff_images_free(&images);
    return status;
}

/* ---- both ---- */

/* Options, then the work. */
static ff_status run(bool predicts, int argc, char **argv, ff_error *error) {
    given out = default_given();
    out.inference.predicts = predicts;
    ff_status status = parse(&out, argc, argv, error);
    if (status == FF_OK && out.result == FF_OPTIONS_RUN) {
        /* A terminal that is closed leaves no temporary folder. */
        ff_interrupt_install(SIGHUP);
        status = take_run(&out, error);
        if (status == FF_OK) status = predicts ? predict(&out, error) : evaluate(&out, error);
    }
    free(out.arguments);
    free(out.checkpoint);
    free(out.val);
    return status;
}

ff_status ff_command_evaluate(int argc, char **argv, ff_error *error) {
    return run(false, argc, argv, error);
}

ff_status ff_command_predict(int argc, char **argv, ff_error *error) {
    return run(true, argc, argv, error);
}
