#include "train/commands/inference_given.h"

#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "format/disk/set.h"
#include "format/storage/options.h"
#include "train/commands/prediction_lines.h"
#include "train/commands/run_given.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char exit_codes[] =
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 65 bad data, 74 input or output error, 128 + n\n"
    "stopped by signal n.";

/* ---- the command line ---- */

/* Whether the folder is a packed set, or the remains of one. */
static bool is_set(const char *path) {
    ff_set set;
    if (ff_storage_is_url(path)) return true;
    const bool is = ff_set_find(&set, path, NULL) == FF_OK && set.count;
    ff_set_free(&set);
    return is;
}

/* The arguments that evaluate accepts instead of a set. */
static bool is_folder_of_images(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && !is_set(path);
}

/* Takes the arguments: first a run, unless an option names it, then a set, or images. */
static ff_status take_arguments(ff_inference_given *out, ff_error *error) {
    const int count = out->words.count;
    ff_inference_options *own = &out->inference;
    int used = 0;
    if (count && !own->weights && ff_run_given_is(out->words.operand[0]))
        own->weights = out->words.operand[used++];
    const char **rest = out->words.operand + used;
    const int left = count - used;
    const bool images =
        left && !own->data &&
        (own->predicts ? left > 1 || !is_set(rest[0]) : left == 1 && is_folder_of_images(rest[0]));
    if (images) {
        out->images = rest;
        out->image_count = left;
        return FF_OK;
    }
    if (left && !own->data) {
        own->data = rest[0];
        used++;
    }
    if (used < count)
        return ff_fail(error, FF_USAGE, "unexpected argument '%s'; one set%s is wanted",
                       out->words.operand[used], own->predicts ? "" : " or folder of images");
    return own->data || !own->predicts
               ? FF_OK
               : ff_fail(error, FF_USAGE,
                         "nothing to predict is named: a packed set, image files or folders");
}

static ff_status parse(ff_inference_given *out, int argc, char **argv, ff_error *error) {
    ff_inference_options *own = &out->inference;
    const bool predicts = own->predicts;
    const ff_option table[] = {
        {"checkpoint", 'c', FF_OPTION_STRING, "PATH", &own->weights, NULL, 0, 0,
         "A run, for its best checkpoint, else its last; a checkpoint's folder; or a file of "
         "weights, from safetensors or torch.save. -c may be left out if it comes first."},
        {"data", 'd', FF_OPTION_STRING, "DIR", &own->data, NULL, 0, 0,
         predicts ? "Packed set, or a folder of splits with val, valid or test, or of a single "
                    "split; --data may be left out."
                  : "Packed set, or a folder of splits with val, valid or test, or of a single "
                    "split; --data may be left out. Default: the set on which the run evaluated."},
        {"model", 'm', FF_OPTION_STRING, "NAME", &own->model, NULL, 0, 0,
         "Model of weights that do not record it, as PyTorch's files."},
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
         "Precision of activations and weights; default auto: as in training, f32 if the file does not "
         "record it or this CPU does not have it: CPUs have f32 and, with AMX or avx512_bf16, bf16."},
        {"tune", 0, FF_OPTION_REAL, "SECONDS", &own->tune_seconds, NULL, 0, 86400,
         "Limit for timing a GPU's engines, without compiling, which may take three times as long; "
         "default 0: take the plan cache's, else cuDNN's first that need not be compiled. Timing "
         "pays from some 100,000 images on."},
        {"threads", 'j', FF_OPTION_INTEGER, "N", &own->threads, NULL, 0, 1024,
         "Compute threads; default 0: one for each CPU."},
        {predicts ? "top" : "json", 0, predicts ? FF_OPTION_INTEGER : FF_OPTION_FLAG,
         predicts ? "N" : NULL, predicts ? (void *)&out->top : (void *)&out->json, NULL, 1, 1e6,
         predicts ? "Classes of each line, the likeliest first; default 5."
                  : "Print one JSON object."},
        {"on-error", 0, FF_OPTION_CHOICE, NULL, &out->on_error, "fail|skip", 0, 0,
         predicts
             ? "An image that cannot be read: fail: has a line with the error, and the exit code "
               "is 65 at the end; skip: has no line, and is listed on the standard error; default "
               "fail."
             : "An image that cannot be read is left out, and listed on the standard error; fail: "
               "the exit code is 65 at the end; skip: it is 0; default fail."},
        FF_STORAGE_ROWS(out->storage, FF_SAYS_SENTENCE),
        {predicts ? "output" : NULL, 'o', predicts ? FF_OPTION_STRING : FF_OPTION_FLAG, "FILE",
         &out->output, NULL, 0, 0,
         "Write the predictions into this file, as its name ends: .csv, or .jsonl; default: JSON "
         "lines on the standard output."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = predicts ? "fftrain predict" : "fftrain evaluate",
        .usage = predicts ? "fftrain predict RUN DIR|IMAGES... [options]"
                          : "fftrain evaluate RUN [DIR|FOLDER] [options]",
        .summary =
            predicts
                ? "Prints a JSON line for each sample of a packed set, or for each image of files "
                  "and folders: {key, class, name, probability, top: [{class, name, "
                  "probability}]}, or CSV into a file. Images are packed into a temporary folder "
                  "(in TMPDIR) by the ffpack next to fftrain, as the training set was; an image "
                  "that cannot be read has a line {key, error}, and the exit code is 65. In a key, "
                  "'%' and bytes that are not UTF-8 are %XX."
                : "Prints loss and accuracy of a trained model on a packed set, or on a FOLDER of "
                  "images with a folder for each class: they are packed into a temporary folder "
                  "(in TMPDIR) by the ffpack next to fftrain, as the training set was. Classes are "
                  "matched by their names. Samples of a set whose class the model does not have "
                  "are left out of both numbers, and counted; a folder with such a name is "
                  "refused.",
        .options = table,
        .epilogue = exit_codes,
    };
    static const int views[] = {-1, 1, 2, 6};
    ff_status status = ff_options_parse(&command, argc, argv, &out->words, error);
    ff_storage_set_defaults(&out->storage); /* arguments are looked at */
    if (status == FF_OK && !out->words.done) status = take_arguments(out, error);
    if (status == FF_OK && !out->words.done) status = ff_prediction_lines_check(out->output, error);
    own->stem = (ff_stem)out->stem;
    own->views = views[out->views];
    own->verify = (ff_verify)out->verify;
    if (!own->device) own->device = "auto";
    return status == FF_OK ? ff_machine_check(own->device, error) : status;
}

/* A run's checkpoint, and the set on which the run evaluated if no set is named. */
static ff_status take_run(ff_inference_given *out, ff_error *error) {
    ff_inference_options *own = &out->inference;
    if (!own->weights) return ff_fail(error, FF_USAGE, "--checkpoint is missing, or a run first");
    FF_TRY(ff_run_given_checkpoint(own->weights, &out->checkpoint, error));
    out->run = own->weights;
    if (out->checkpoint) own->weights = out->checkpoint;
    if (own->data || out->image_count || own->predicts) return FF_OK;
    FF_TRY(ff_run_given_val(out->checkpoint, &out->val, &out->endpoint, out->content, error));
    own->data = out->val;
    if (!out->storage.endpoint) out->storage.endpoint = out->endpoint;
    return FF_OK;
}

ff_status ff_inference_given_read(ff_inference_given *out, bool predicts, int argc, char **argv,
                                  ff_error *error) {
    *out = (ff_inference_given){
        .inference = ff_inference_default_options(), .verify = FF_VERIFY_FIRST, .top = 5};
    out->inference.predicts = predicts;
    FF_TRY(parse(out, argc, argv, error));
    if (out->words.done) return FF_OK;
    /* A terminal that is closed leaves no temporary folder. */
    ff_interrupt_install(SIGHUP);
    FF_TRY(take_run(out, error));
    return ff_storage_use(&out->storage, &out->inference.data, 1, error);
}

void ff_inference_given_free(ff_inference_given *out) {
    ff_positionals_free(&out->words);
    free(out->checkpoint);
    free(out->val);
    free(out->endpoint);
}

/* ---- images ---- */

ff_status ff_inference_given_pack(ff_inference_given *out, ff_images *images, int64_t *classes,
                                  ff_error *error) {
    ff_inference_options *options = &out->inference;
    ff_learned learned;
    ff_status status;
    FF_TRY_DONE(ff_learned_read(&learned, options->weights, error));
    if (!learned.trained.channels)
        FF_TRY_DONE(
            ff_fail(error, FF_USAGE,
                    "%s: does not record how its images were packed; pack yours in the same way "
                    "(ffpack --resize, --center-crop, --mean, --std), and use the packed set",
                    options->weights));
    *classes = learned.net.classes;
    if (!options->predicts) images->classes = learned.names;
    FF_TRY_DONE(ff_images_pack(images, out->images, out->image_count, &learned.trained,
                               options->weights, error));
    if (!options->predicts) options->label = FF_IMAGES_LABEL;
    options->data = images->set;
    options->made = true;
done:
    images->classes = NULL;
    ff_learned_free(&learned);
    return status;
}

ff_status ff_inference_given_end(const ff_inference_given *given, const ff_images *images,
                                 ff_error *error) {
    const bool skips = given->on_error == 1;
    const ff_said all = ff_say_count(images->count, "image", "images");
    if (images->left_out)
        fprintf(stderr, "fftrain: %s in folders left out, which are not named as images are\n",
                ff_say_count(images->left_out, "file", "files").text);
    if (images->broken && (!skips || images->broken == images->count))
        return ff_fail(error, FF_BAD_DATA, "%zu of %s could not be read", images->broken, all.text);
    if (images->broken)
        fprintf(stderr, "fftrain: skipped %zu of %s, which could not be read\n", images->broken,
                all.text);
    return FF_OK;
}
