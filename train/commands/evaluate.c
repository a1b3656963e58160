/* A trained model on a set: its accuracy, or its predictions. */
#include "format/base/bytes.h"
#include "format/base/interrupt.h"
#include "format/base/json.h"
#include "format/base/say.h"
#include "format/set.h"
#include "train/commands/command.h"
#include "train/commands/images.h"
#include "train/commands/prediction_lines.h"
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
    const char *output; /* NULL = the standard output */
    int on_error;       /* 1 = skip */
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
        {predicts ? "output" : NULL, 'o', predicts ? FF_OPTION_STRING : FF_OPTION_FLAG, "FILE",
         &out->output, NULL, 0, 0,
         "Write the predictions into this file, as its name ends: .csv, or .jsonl; default: JSON "
         "lines on the standard output."},
        {"on-error", 0, FF_OPTION_CHOICE, NULL, &out->on_error, "fail|skip", 0, 0,
         "An image that cannot be read: fail: has a line with the error, and the exit code is 65 at "
         "the end; skip: has no line, and is listed on the standard error; default fail."},
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
                  "name, probability}]}, or CSV into a file. Images are packed into a temporary folder (in "
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
    if (status == FF_OK && out->result == FF_OPTIONS_RUN)
        status = ff_prediction_lines_check(out->output, error);
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
    ff_prediction_lines *lines;
    bool skips; /* --on-error skip */
    int64_t top;
    int *order;                  /* [classes] */
    ff_predicted_class *classes; /* [classes]; the first `top` of the sample */
} predicting;

/* The lines of the images that are next and were not packed. */
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

/* The lines of all samples and images. */
static ff_status predict_all(given *out, predicting *p, ff_error *error) {
    ff_inference *own = NULL;
    ff_status status = FF_OK;
    if (!p->images->count || p->images->broken < p->images->count) {
        FF_TRY_DONE(ff_inference_open(&own, &out->inference, error));
        ff_run_given_tell(out->run, out->checkpoint);
        p->own = own;
        if (p->top > own->net.classes) p->top = p->lines->top = own->net.classes;
    }
    FF_TRY_DONE(ff_prediction_lines_open(p->lines, out->output, p->top, error));
    if (own) FF_TRY_DONE(print_samples(p, error));
    status = print_broken(p, error);
done:
    ff_inference_close(&own);
    return status;
}

static ff_status predict(given *out, ff_error *error) {
    ff_images images = {0};
    ff_prediction_lines lines = {0};
    ff_error why = {0};
    ff_status status;
    if (out->image_count) FF_TRY_DONE(pack_images(&images, out, error));
    predicting p = {
        .images = &images, .lines = &lines, .skips = out->on_error == 1, .top = out->top};
    status = predict_all(out, &p, error);
    const ff_status closed = ff_prediction_lines_close(&lines, status == FF_OK, &why);
    if (status == FF_OK && closed != FF_OK) status = ff_fail(error, closed, "%s", why.message);
    FF_TRY_DONE(status);
    if (images.left_out)
        fprintf(stderr, "fftrain: %s in folders left out, which are not named as images are\n",
                ff_say_count(images.left_out, "file", "files").text);
    if (p.lost)
        status = ff_fail(error, FF_FAILED, "the net's outputs for %s are not finite",
                         ff_say_count(p.lost, "sample", "samples").text);
    if (images.broken && (!p.skips || images.broken == images.count))
        status = ff_fail(error, FF_BAD_DATA, "%zu of %s could not be read", images.broken,
                         ff_say_count(images.count, "image", "images").text);
    else if (images.broken)
        fprintf(stderr, "fftrain: skipped %zu of %s, which could not be read\n", images.broken,
                ff_say_count(images.count, "image", "images").text);
done:
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
