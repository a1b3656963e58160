/* ffpack: turns a dataset of images into shards of tensors. This file is its command line. */
#include "format/base/interrupt.h"
#include "format/base/options.h"
#include "tools/ffpack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
    "Packs an image dataset into shards of normalized tensors, once, as torchvision would make\n"
    "them at every step: decode, Resize, CenterCrop, ToTensor, Normalize, bit for bit.\n"
    "SOURCE is an IDX file or folder (MNIST family, .gz too), CIFAR-10/100 in the binary version\n"
    "(file, folder, .tar.gz), or a folder with a folder of images for each class (JPEG, PNG); a\n"
    "folder that holds only folders among train, val, valid and test is packed into OUT/train, ...";

static const char epilogue[] =
    "Everything is built in OUT.partial and renamed to OUT when it is whole. After an interruption\n"
    "the same command continues it, to the same bytes as an uninterrupted run. With --on-error skip\n"
    "the items left out are listed in OUT.skipped.tsv.\n"
    "\n"
    "Examples:\n"
    "  ffpack /usr/share/datasets/fashion-mnist -o fashion-mnist\n"
    "  ffpack cifar-10-binary.tar.gz -o cifar10 --dtype u8\n"
    "  ffpack photos -o photos224 --resize 256 --center-crop 224 --mean 0.485,0.456,0.406 \\\n"
    "         --std 0.229,0.224,0.225\n"
    "\n"
    "Exit codes: 0 done; 1 failure; 2 wrong usage, or OUT exists; 65 bad data in the source; 74 the\n"
    "system refused to read or write; 128 + n stopped by signal n.";

static void print_notice(void *context, const char *message) {
    (void)context;
    fprintf(stderr, "ffpack: %s\n", message);
}

/* One argument as a shell would need it. */
static void print_quoted(FILE *out, const char *text) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
    if (*text && !text[strspn(text, plain)]) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

/* The sentence, and where whole shards were kept, how to go on. */
static int fail(const ff_error *error, const ff_arguments *arguments, int argc, char **argv) {
    fprintf(stderr, "ffpack: %s", error->message);
    char partial[4096];
    bool kept = false;
    if (arguments->output && !arguments->dry_run && error->status != FF_USAGE) {
        int length = (int)strlen(arguments->output);
        while (length > 1 && arguments->output[length - 1] == '/') length--;
        snprintf(partial, sizeof partial, "%.*s.partial", length, arguments->output);
        kept = access(partial, F_OK) == 0;
    }
    if (kept) {
        fprintf(stderr, "; the whole shards are kept in %s, and this continues:", partial);
        for (int i = 0; i < argc; i++) {
            fputc(' ', stderr);
            print_quoted(stderr, argv[i]);
        }
    } else if (error->status == FF_INTERRUPTED) {
        fputs("; nothing is kept", stderr);
    }
    fputc('\n', stderr);
    return ff_exit_code(error);
}

int main(int argc, char **argv) {
    ff_arguments arguments = {
        .format = "auto", .mode = -1, .shuffle = -1, .shard_bytes = UINT64_C(256) << 20};
    const ff_option options[] = {
        {.kind = FF_OPTION_HEADING, .help = "Input and output"},
        {"output", 'o', FF_OPTION_STRING, "OUT", &arguments.output, NULL, 0, 0,
         "folder to create; a source with several splits gives OUT/train, OUT/test, ..."},
        {"format", 0, FF_OPTION_STRING, "auto|idx|cifar|folder", &arguments.format, NULL, 0, 0,
         "what SOURCE is (default: auto, by its content)"},
        {"classes", 0, FF_OPTION_STRING, "FILE", &arguments.classes, NULL, 0, 0,
         "class names, one a line in the order of the labels, for a source without names"},
        {"force", 0, FF_OPTION_FLAG, NULL, &arguments.force, NULL, 0, 0,
         "replace OUT where it exists; the old set stays until the new one is whole"},
        {"resume", 0, FF_OPTION_FLAG, NULL, &arguments.resume, NULL, 0, 0,
         "insist that there is an interrupted packing to continue"},
        {.kind = FF_OPTION_HEADING, .help = "Samples"},
        {"dtype", 0, FF_OPTION_CHOICE, NULL, &arguments.dtype, FF_DTYPE_CHOICES, 0, 0,
         "type of the stored values (default: f16); u8 keeps the raw values and records mean and "
         "std for the reader"},
        {"layout", 0, FF_OPTION_CHOICE, NULL, &arguments.layout, FF_LAYOUT_CHOICES, 0, 0,
         "order of a sample's axes (default: chw)"},
        {"resize", 0, FF_OPTION_STRING, "N|HxW", &arguments.resize, NULL, 0, 0,
         "short side to N, or exactly to HxW, as torchvision's Resize"},
        {"center-crop", 0, FF_OPTION_STRING, "N|HxW", &arguments.center_crop, NULL, 0, 0,
         "cut out the middle, as torchvision's CenterCrop"},
        {"interpolation", 0, FF_OPTION_CHOICE, NULL, &arguments.interpolation,
         FF_INTERPOLATION_CHOICES, 0, 0, "of --resize (default: bilinear)"},
        {"mode", 0, FF_OPTION_CHOICE, NULL, &arguments.mode, FF_MODE_CHOICES, 0, 0,
         "channels (default: rgb for image files, as they are for arrays)"},
        {.kind = FF_OPTION_HEADING, .help = "Normalize (one of; default: --stats compute)"},
        {"stats", 0, FF_OPTION_STRING, "compute", &arguments.stats, NULL, 0, 0,
         "mean and std of the train split, applied to all splits"},
        {"mean", 0, FF_OPTION_STRING, "A,B,C", &arguments.mean, NULL, 0, 0,
         "mean of each channel, of values from 0 to 1; with --std"},
        {"std", 0, FF_OPTION_STRING, "A,B,C", &arguments.std, NULL, 0, 0,
         "standard deviation of each channel; with --mean"},
        {"stats-from", 0, FF_OPTION_STRING, "DIR", &arguments.stats_from, NULL, 0, 0,
         "the mean and std of a packed set"},
        {.kind = FF_OPTION_HEADING, .help = "Storage"},
        {"shuffle", 0, FF_OPTION_INTEGER, "SEED", &arguments.shuffle, NULL, 0, 9e18,
         "store the samples in a random order (default: in the order of their numbers)"},
        {"compress", 0, FF_OPTION_STRING, "zstd[:LEVEL]", &arguments.compress, NULL, 0, 0,
         "compress the shards (default: not; LEVEL 3)"},
        {"shard-size", 0, FF_OPTION_BYTES, "BYTES", &arguments.shard_bytes, NULL, 4096,
         1099511627776.0, "size of a shard at most, but for one block (default: 256M)"},
        {"align", 0, FF_OPTION_CHOICE, NULL, &arguments.alignment, FF_ALIGNMENT_CHOICES, 0, 0,
         "alignment of every sample in its shard, in bytes (default: 64)"},
        {.kind = FF_OPTION_HEADING, .help = "Running"},
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &arguments.jobs, NULL, 1, 1024,
         "worker threads (default: one a CPU); the output does not depend on it"},
        {"on-error", 0, FF_OPTION_CHOICE, NULL, &arguments.on_error, FF_ON_ERROR_CHOICES, 0, 0,
         "what to do about an image that cannot be read (default: fail)"},
        {"dry-run", 0, FF_OPTION_FLAG, NULL, &arguments.dry_run, NULL, 0, 0,
         "list the source and print what would be packed; writes nothing"},
        {"json", 0, FF_OPTION_FLAG, NULL, &arguments.json, NULL, 0, 0,
         "print the summary as a JSON object"},
        {0}};
    const ff_command command = {.program = "ffpack",
                                .usage = "ffpack SOURCE -o OUT [options]",
                                .summary = summary,
                                .options = options,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_options_result result;
    int positional_count = 0;
    const char **positional = calloc((size_t)argc + 1, sizeof *positional);
    ff_status status = positional ? ff_options_parse(&command, argc, argv, positional,
                                                     &positional_count, &result, &error)
                                  : ff_fail(&error, FF_NO_MEMORY, "not enough memory");
    if (status == FF_OK && result == FF_OPTIONS_DONE) {
        free(positional);
        return 0;
    }
    if (status == FF_OK && positional_count != 1)
        status = ff_fail(&error, FF_USAGE, "%s; wanted ffpack SOURCE -o OUT [options], see --help",
                         positional_count ? "more than one SOURCE" : "no SOURCE");
    if (status == FF_OK) arguments.source = positional[0];
    free(positional);
    ff_recipe recipe = {0};
    ff_report report = {0};
    if (status == FF_OK) status = ff_recipe_make(&recipe, &arguments, &error);
    if (status == FF_OK) {
        ff_interrupt_install();
        ff_pack_options pack = {.notice = print_notice};
        status = ff_pack_run(&recipe, &pack, &report, &error);
    }
    if (status == FF_OK && arguments.json)
        status = ff_report_json(&report, stdout, &error);
    else if (status == FF_OK)
        ff_report_print(&report, stdout);
    if (status == FF_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = ff_fail_errno(&error, "stdout: cannot write the summary");
    int code = status == FF_OK ? 0 : fail(&error, &arguments, argc, argv);
    ff_report_free(&report);
    ff_recipe_free(&recipe);
    return code;
}
