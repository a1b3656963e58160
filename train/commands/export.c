/* A checkpoint's weights as one plain file. */
#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/base/say.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/weights.h"
#include "train/commands/command.h"

#include <stdlib.h>
#include <string.h>

static const char epilogue[] =
    "The file is read by PyTorch, with torchvision's names:\n"
    "  from safetensors.torch import load_file\n"
    "  model.load_state_dict(load_file(\"weights.safetensors\"), strict=True)\n"
    "\n"
    "And a .pth file becomes one that --weights reads:\n"
    "  from safetensors.torch import save_file\n"
    "  save_file(torch.load(\"weights.pth\"), \"weights.safetensors\")\n"
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

static ff_status export(const char *given, const char *output, ff_error *error) {
    ff_checkpoint *checkpoint = NULL;
    char *folder = NULL, *weights = NULL;
    uint64_t bytes;
    ff_status status;
    FF_TRY_DONE(ff_checkpoint_find(given, &folder, error));
    FF_TRY_DONE(ff_checkpoint_open(&checkpoint, folder, error)); /* checks every byte */
    FF_TRY_DONE(ff_path_join(&weights, folder, FF_WEIGHTS_FILE, error));
    FF_TRY_DONE(copy_file(weights, output, &bytes, error));
    if (strcmp(output, "-") != 0) printf("%s: %s\n", output, ff_say_bytes(bytes).text);
done:
    ff_checkpoint_close(&checkpoint);
    free(weights);
    free(folder);
    return status;
}

ff_status ff_command_export(int argc, char **argv, ff_error *error) {
    const char *output = NULL, **positional;
    const ff_option table[] = {
        {"output", 'o', FF_OPTION_STRING, "FILE", &output, NULL, 0, 0,
         "The file; - is the standard output."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = "fftrain export",
        .usage = "fftrain export CHECKPOINT -o FILE",
        .summary = "Writes the weights of a checkpoint, or of the last one of a run, as one "
                   "safetensors file, after every byte of the checkpoint is checked. The file also "
                   "records the net's form and how its images were normalized.",
        .options = table,
        .epilogue = epilogue,
    };
    ff_options_result result = FF_OPTIONS_RUN;
    int count;
    FF_TRY(ff_alloc(&positional, (uint64_t)argc + 1, sizeof *positional, "arguments", error));
    ff_status status = ff_options_parse(&command, argc, argv, positional, &count, &result, error);
    if (status == FF_OK && result == FF_OPTIONS_RUN)
        status = count == 1 && output
                     ? export(positional[0], output, error)
                     : ff_fail(error, FF_USAGE, "wanted fftrain export CHECKPOINT -o FILE");
    free(positional);
    return status;
}
