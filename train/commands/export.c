/* fftrain export: a checkpoint's weights as one plain file, or as an ONNX file. */
#include "format/base/file.h"
#include "format/base/json.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/say.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/onnx.h"
#include "train/checkpoint/torch/write.h"
#include "train/checkpoint/weights.h"
#include "train/commands/command.h"
#include "train/commands/run_given.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char epilogue[] =
    "The file is read by PyTorch, with torchvision's names:\n"
    "  from safetensors.torch import load_file\n"
    "  model.load_state_dict(load_file(\"weights.safetensors\"), strict=True)\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 65 bad data, 74 input or output error.";

/* Copies a file to another path. */
static ff_status copy_file(const char *from, const char *to, uint64_t *bytes, ff_error *error) {
    ff_file *file = NULL;
    int fd = -1;
    ff_status status;
    FF_TRY_DONE(ff_open_file(from, &fd, bytes, error));
    FF_TRY_DONE(ff_file_replace(&file, to, error));
    FF_TRY_DONE(ff_file_copy(file, fd, from, *bytes, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    ff_close_file(&fd);
    return status;
}

/* The files to export to; NULL = none. */
typedef struct outputs {
    const char *weights, *onnx;
    bool torch; /* the weights as torch.save writes them, else safetensors */
    bool average;
} outputs;

static bool ends_in(const char *path, const char *ending) {
    const size_t length = strlen(path), end = strlen(ending);
    return length > end && !strcmp(path + length - end, ending);
}

/* ---- the values of a model ---- */

static ff_status open_model(ff_model **model, ff_weights_net *net, const char *folder, bool average,
                            ff_error *error) {
    const ff_weights_options how = {.path = folder, .average = average};
    ff_weights *weights = NULL;
    char *text = NULL;
    ff_status status;
    FF_TRY_DONE(ff_weights_read_fact(folder, FF_WEIGHTS_NET, &text, error));
    if (!text || !ff_weights_net_parse(net, text))
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: its " FF_WEIGHTS_NET " is not a form of a net",
                            folder));
    ff_model_options options = ff_weights_net_model(net);
    options.loaded = true;
    FF_TRY_DONE(ff_model_create(model, &options, error));
    FF_TRY_DONE(ff_weights_open(&weights, &how, *model, error));
    FF_TRY_DONE(ff_weights_load(weights, error));
done:
    ff_weights_close(&weights);
    free(text);
    return status;
}

/* The texts of model.safetensors; the caller frees each. */
static const char *const fact_keys[] = {"format",        FF_WEIGHTS_MODEL, FF_WEIGHTS_NET,
                                        FF_WEIGHTS_MEAN, FF_WEIGHTS_STD,   FF_WEIGHTS_METADATA};
enum { FACTS = sizeof fact_keys / sizeof *fact_keys };

static ff_status write_weights(ff_file *file, ff_model *model, const char *folder, bool torch,
                               ff_error *error) {
    const int count = ff_model_parameter_count(model);
    ff_safetensors_fact facts[FACTS] = {{NULL, NULL}};
    ff_safetensors_entry *entries = NULL;
    ff_status status;
    FF_TRY_DONE(ff_alloc(&entries, (uint64_t)count, sizeof *entries, "tensors", error));
    for (int i = 0; i < count; i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        void *values;
        FF_TRY_DONE(ff_alloc(&values, p->count, ff_dtype_bytes(p->dtype), "a tensor", error));
        ff_model_get(model, i, FF_PART_VALUE, values);
        entries[i] = (ff_safetensors_entry){
            .name = p->name, .dtype = p->dtype, .rank = p->rank, .values = values};
        memcpy(entries[i].shape, p->shape, sizeof p->shape);
    }
    for (int i = 0; i < FACTS; i++) {
        char *text;
        FF_TRY_DONE(ff_weights_read_fact(folder, fact_keys[i], &text, error));
        facts[i] = (ff_safetensors_fact){fact_keys[i], text};
    }
    FF_TRY_DONE(ff_model_check(model, error));
    FF_TRY_DONE(
        torch ? ff_torch_write(file, entries, (size_t)count, error)
              : ff_safetensors_write(file, entries, (size_t)count, facts, FACTS, NULL, error));
done:
    for (int i = 0; entries && i < count; i++) free((void *)(uintptr_t)entries[i].values);
    for (int i = 0; i < FACTS; i++) free((void *)(uintptr_t)facts[i].text);
    free(entries);
    return status;
}

/* ---- ONNX ---- */

/* The names of the classes as a JSON list, and the transforms of the training set as lines. */
static ff_status describe_data(const ff_metadata *data, const char *label, char **classes,
                               ff_buffer *transforms, ff_error *error) {
    json_t *list = json_array();
    int failed = !list;
    for (size_t f = 0; f < data->field_count; f++)
        for (uint32_t c = 0; !strcmp(data->field[f].name, label) && c < data->field[f].class_count;
             c++)
            failed |= json_array_append_new(list, ff_json_text(data->field[f].class_name[c]));
    *classes = failed ? NULL : json_dumps(list, JSON_COMPACT);
    json_decref(list);
    if (!*classes) return ff_fail(error, FF_NO_MEMORY, "no memory for the names of the classes");
    for (size_t i = 0; i < data->transform_count; i++)
        FF_TRY(ff_buffer_printf(transforms, error, "%s%s", i ? "\n" : "", data->transform[i]));
    return FF_OK;
}

static ff_status write_onnx(ff_file *file, ff_model *model, const ff_weights_net *net,
                            const char *folder, ff_error *error) {
    char *text = NULL, *mean = NULL, *std = NULL, *classes = NULL;
    ff_buffer transforms = {0};
    ff_metadata data = {0};
    ff_status status;
    FF_TRY_DONE(ff_weights_read_fact(folder, FF_WEIGHTS_METADATA, &text, error));
    if (!text) FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: has no " FF_WEIGHTS_METADATA, folder));
    FF_TRY_DONE(ff_metadata_read(&data, text, strlen(text), error));
    FF_TRY_DONE(ff_weights_normalization(&data, &mean, &std, error));
    FF_TRY_DONE(describe_data(&data, net->label, &classes, &transforms, error));
    char resize[16] = "", crop[32] = "", views[16];
    if (net->resize) snprintf(resize, sizeof resize, "%" PRIu32, net->resize);
    if (net->crop || net->resize)
        snprintf(crop, sizeof crop, "%" PRIu32 "x%" PRIu32, net->height, net->width);
    snprintf(views, sizeof views, "%d", net->views);
    const ff_safetensors_fact facts[] = {
        {"model", net->model},
        {"input", "images [N, channels, height, width]: values in [0, 1], minus mean, divided by "
                  "std; in RGB order"},
        {"mean", mean},
        {"std", std},
        {"classes", classes},
        {"transforms", transforms.length ? transforms.bytes : ""},
        {"resize", resize},
        {"crop", crop},
        {"views", views}};
    FF_TRY_DONE(ff_onnx_write(file, model, facts, sizeof facts / sizeof *facts, error));
done:
    ff_metadata_free(&data);
    ff_buffer_free(&transforms);
    free(text);
    free(mean);
    free(std);
    free(classes);
    return status;
}

/* ---- all of it ---- */

/* Writes one file of the model's values. */
static ff_status write_model(ff_model *model, const ff_weights_net *net, const char *folder,
                             const outputs *to, bool onnx, uint64_t *bytes, ff_error *error) {
    ff_file *file = NULL;
    ff_status status;
    FF_TRY_DONE(ff_file_replace(&file, onnx ? to->onnx : to->weights, error));
    if (onnx)
        FF_TRY_DONE(write_onnx(file, model, net, folder, error));
    else
        FF_TRY_DONE(write_weights(file, model, folder, to->torch, error));
    *bytes = ff_file_offset(file);
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    return status;
}

/* Prints nothing if a file goes to the standard output. */
static void tell(const outputs *to, const char *path, uint64_t bytes) {
    if (to->weights && !strcmp(to->weights, "-")) return;
    if (to->onnx && !strcmp(to->onnx, "-")) return;
    printf("%s: %s\n", path, ff_say_bytes(bytes).text);
}

static ff_status export(const char *given, const outputs *to, ff_error *error) {
    ff_checkpoint *checkpoint = NULL;
    ff_model *model = NULL;
    ff_weights_net net;
    char *folder = NULL, *weights = NULL;
    uint64_t bytes;
    ff_status status;
    FF_TRY_DONE(ff_checkpoint_find(given, &folder, error));
    FF_TRY_DONE(ff_checkpoint_open(&checkpoint, folder, error)); /* checks every byte */
    ff_run_given_tell(given, folder);
    FF_TRY_DONE(ff_path_join(&weights, folder, FF_WEIGHTS_FILE, error));
    if (to->onnx || to->average || to->torch)
        FF_TRY_DONE(open_model(&model, &net, folder, to->average, error));
    if (to->weights && model)
        FF_TRY_DONE(write_model(model, &net, folder, to, false, &bytes, error));
    else if (to->weights)
        FF_TRY_DONE(copy_file(weights, to->weights, &bytes, error));
    if (to->weights) tell(to, to->weights, bytes);
    if (to->onnx) {
        FF_TRY_DONE(write_model(model, &net, folder, to, true, &bytes, error));
        tell(to, to->onnx, bytes);
    }
done:
    ff_model_destroy(&model);
    ff_checkpoint_close(&checkpoint);
    free(weights);
    free(folder);
    return status;
}

/* The file's extension selects the format. */
static ff_status complete(outputs *to, const char *const *positional, int count, ff_error *error) {
    if (count == 2 && !to->weights) to->weights = positional[--count];
    if (count != 1 || !(to->weights || to->onnx))
        return ff_fail(error, FF_USAGE, "wanted fftrain export RUN -o FILE, or --onnx FILE");
    if (!to->weights) return FF_OK;
    to->torch =
        ends_in(to->weights, ".pth") || ends_in(to->weights, ".pt") || ends_in(to->weights, ".bin");
    if (!ends_in(to->weights, ".onnx")) return FF_OK;
    if (to->onnx)
        return ff_fail(error, FF_USAGE, "-o %s and --onnx %s: one ONNX file is written",
                       to->weights, to->onnx);
    to->onnx = to->weights;
    to->weights = NULL;
    return FF_OK;
}

ff_status ff_command_export(int argc, char **argv, ff_error *error) {
    outputs to = {0};
    const ff_option table[] = {
        {"output", 'o', FF_OPTION_STRING, "FILE", &to.weights, NULL, 0, 0,
         "Its extension selects the format: .safetensors the weights; .pth, .pt or .bin the "
         "weights as torch.save writes them, which do not record the net's form and normalization; "
         ".onnx as --onnx. - is the standard output, with safetensors. -o may be left out."},
        {"onnx", 0, FF_OPTION_STRING, "FILE", &to.onnx, NULL, 0, 0,
         "The net with its weights as an ONNX file, for batches of any size: from normalized images "
         "to logits; its metadata_props say how images are normalized, resized and cropped, and "
         "the classes."},
        {"ema", 0, FF_OPTION_FLAG, NULL, &to.average, NULL, 0, 0,
         "Export the average of the parameters (of a run with --ema)."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = "fftrain export",
        .usage = "fftrain export RUN [-o FILE] [--onnx FILE] [--ema]",
        .summary =
            "Writes the weights of a checkpoint, or of a run's best checkpoint (else its last), as "
            "one file of safetensors or torch.save, as an ONNX file, or both, after every byte of "
            "the checkpoint is checked. The file also records the net's form and how its images "
            "were normalized.",
        .options = table,
        .epilogue = epilogue,
    };
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, error);
    if (status == FF_OK && !words.done) {
        status = complete(&to, words.operand, words.count, error);
        if (status == FF_OK) status = export(words.operand[0], &to, error);
    }
    ff_positionals_free(&words);
    return status;
}
