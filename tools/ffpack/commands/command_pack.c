/* `ffpack SOURCE -o OUT`: the command line of packing. */
#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "tools/ffpack/commands/command.h"
#include "tools/ffpack/pack/pack.h"
#include "tools/ffpack/parts/part_counts.h"
#include "tools/ffpack/settings/habits.h"
#include "tools/ffpack/settings/like.h"
#include "tools/ffpack/settings/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
    "Packs an image dataset into shards of normalized tensors, once, as torchvision would make\n"
    "them at every step: decode, Resize, CenterCrop, ToTensor, Normalize, bit for bit.\n"
    "SOURCE is recognized by its content:\n"
    "  images in one folder per class; the same in a tar or zip archive\n"
    "  a list of images: lines of a path and its labels, separated by tabs or as CSV\n"
    "  a WebDataset: a tar, a folder of tars, or a pattern like\n"
    "    'train-{000..146}.tar'\n"
    "  ImageNet's archives; CIFAR-10/100 (binary or python version, also as .tar.gz)\n"
    "  arrays: IDX (MNIST family, .gz too), .npy, .npz\n"
    "  TFRecords; parquet files of Hugging Face; FFCV's .beton; sets of MosaicML\n"
    "    Streaming (MDS) and LitData\n"
    "An archive may lie behind a URL (https://, s3://, gs://) or come from the standard input (-);\n"
    "images in class folders may lie in a bucket (s3://bucket/photos/).\n"
    "Folders called train, val, test, training, valid, validation, dev or testing, in any case, are\n"
    "splits and become OUT/train, OUT/val, OUT/test; --splits names others. The summary counts what\n"
    "is left out (hidden files and folders, other files than images, what --exclude names).";

static const char epilogue[] =
    "Everything is built in OUT.partial and renamed to OUT when complete. After an interruption\n"
    "the same command continues it, to the same bytes as an uninterrupted run. With --on-error skip\n"
    "the items left out are listed in OUT.skipped.tsv.\n"
    "\n"
    "Other commands, each with its own --help:\n"
    "  ffpack merge OUT [PART...]  merge parts (--part) into one set\n"
    "  ffpack append OUT SOURCE    append the items of a source to a packed set\n"
    "  ffpack check SOURCE         decode all images, list every broken one\n"
    "  ffpack copy SET -o NEW      copy a set with fewer samples or other classes\n"
    "  ffpack repair DIR           rebuild a lost index, or report what is lost\n"
    "  ffpack ls URL               list the packed sets in a bucket\n"
    "  ffpack push DIR URL         copy a packed set into a bucket\n"
    "  ffpack pull URL DIR         copy a packed set from a URL, and verify it\n"
    "  ffpack verify SET|URL       check every byte of a packed set\n"
    "\n"
    "Examples:\n"
    "  ffpack /usr/share/datasets/fashion-mnist -o fashion-mnist\n"
    "  ffpack cifar-10-binary.tar.gz -o cifar10 --dtype u8\n"
    "  ffpack photos -o photos224 --resize 256 --center-crop 224 \\\n"
    "         --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225\n"
    "  ffpack 'train-{000..146}.tar' -o train --label class --resize 224x224\n"
    "  ffpack s3://bucket/photos/ -o photos224 --resize 224x224\n"
    "  curl https://example.org/train.tar | ffpack - -o train\n"
    "\n"
    "Exit codes: 0 done; 1 failure; 2 wrong usage, or OUT exists; 65 bad data in the source; 74 the\n"
    "system refused to read or write; 128 + n stopped by signal n.";

/* The folder in which a failed run kept whole shards or statistics, allocated; NULL if it kept
 * none. */
static char *kept_in(const ff_error *error, const ff_settings *settings, const ff_report *report,
                     const char *output) {
    char *folder = report->opened ? ff_command_kept(output) : NULL;
    if (folder) return folder;
    if (error->status == FF_INTERRUPTED && settings->part.count &&
        ff_part_base_length(output, &settings->part) &&
        ff_part_counts_path(&folder, output, &settings->part, NULL) == FF_OK &&
        ff_path_exists("%s", folder))
        return folder;
    free(folder);
    return NULL;
}

/* Prints how to continue, if the failed run kept something. A part's failure is
 * noted for the merge that waits for it; after a signal the part may be continued. */
static int fail(const ff_error *error, const ff_settings *settings, const ff_report *report,
                bool began, int argc, char **argv) {
    const char *output = settings->dry_run  ? NULL
                         : report->built_in ? report->built_in
                                            : settings->output;
    char *folder = NULL, *kept = NULL;
    int code;
    if (output && !settings->url && settings->part.count && error->status != FF_INTERRUPTED &&
        (began || settings->part_origin))
        ff_part_note_failure(output, error->message);
    if (output && error->status != FF_USAGE) folder = kept_in(error, settings, report, output);
    if (folder &&
        ff_format(&kept, NULL, "finished work is kept in %s, and %sthis continues:", folder,
                  ff_report_lost_too_much(report) ? "with another --max-skip " : "") == FF_OK)
        code = ff_command_fail(error, kept, argc, argv);
    else
        code = ff_command_fail(error, error->status == FF_INTERRUPTED ? "nothing is kept" : NULL, 0,
                               NULL);
    free(folder);
    free(kept);
    return code;
}

/* The settings with the options of --like before the command line's. The command line's are checked
 * alone first, so that a later failure is a contradiction. */
static ff_status resolve_like(ff_settings *settings, ff_arguments *arguments,
                              const ff_command *command, int argc, char **argv,
                              ff_recorded *recorded, ff_error *error) {
    const ff_arguments given = *arguments;
    ff_metadata like = {0};
    ff_positionals operands = {0};
    ff_buffer text = {0};
    const char *kind;
    ff_status status;
    FF_TRY_DONE(ff_settings_resolve(settings, &given, error));
    ff_settings_free(settings);
    status = ff_like_read(&like, &kind, given.like, error);
    if (status != FF_OK) ff_fail_within(error, status, "--like");
    FF_TRY_DONE(status);
    FF_TRY_DONE(ff_like_options(recorded, &like, error));
    FF_TRY_DONE(ff_command_parse_after(command, recorded, argc, argv, &operands, error));
    arguments->source = given.source;
    if (!given.mean && !given.std && !given.stats && !given.stats_sample && !given.stats_from &&
        given.normalize < 0 && like.statistics_count)
        arguments->stats_from = given.like;
    FF_TRY_DONE(ff_like_text(recorded, &text, error));
    status = ff_settings_resolve(settings, arguments, error);
    if (status != FF_OK) ff_fail_within(error, status, "--like %s (%s)", given.like, text.bytes);
    ff_like_expect(settings, &given, &like);
done:
    ff_buffer_free(&text);
    ff_positionals_free(&operands);
    ff_metadata_free(&like);
    return status;
}

/* The options that --like set, for the summary. */
static ff_status note_like(const char *like, const ff_recorded *recorded, ff_report *report,
                           ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_like_text(recorded, &text, error));
    status = ff_names_add_text(&report->notes, error, "as %s was packed: %s", like,
                               text.length ? text.bytes : "");
done:
    ff_buffer_free(&text);
    return status;
}

static ff_status run(const ff_settings *settings, bool json, const ff_recorded *recorded,
                     ff_report *report, ff_error *error) {
    int failed = 0;
    ff_notices pack = {.tell = ff_command_notice,
                       .context = &failed,
                       .broken = json ? ff_command_broken_json : ff_command_broken};
    if (settings->part_origin)
        ff_notice(&pack, "part %u/%u, by %s%s%s", settings->part.number, settings->part.count,
                  settings->part_origin, settings->output ? ": " : "",
                  settings->output ? settings->output : "");
    ff_interrupt_install(0);
    const ff_status status = ff_pack_run(settings, &pack, report, error);
    FF_TRY(ff_command_listed(status, failed, error));
    if (settings->like) FF_TRY(note_like(settings->like, recorded, report, error));
    if (json)
        FF_TRY(ff_report_json(report, stdout, error));
    else
        ff_report_print(report, stdout);
    return ff_command_flush(error);
}

int ff_command_pack(int argc, char **argv) {
    ff_arguments arguments = ff_arguments_default();
    ff_option_table table = {0};
    ff_options_add_output(&table, &arguments);
    ff_options_add_source(&table, &arguments);
    ff_options_add_split(&table, &arguments);
    ff_options_add_samples(&table, &arguments);
    ff_options_add_like(&table, &arguments);
    ff_options_add_statistics(&table, &arguments);
    ff_options_add_storage(&table, &arguments);
    ff_options_add_shards(&table, &arguments);
    ff_options_add_remote(&table, &arguments);
    ff_options_add_running(&table, &arguments, true);
    ff_options_add_dry_run(&table, &arguments);
    const ff_command command = {
        .program = "ffpack",
        .usage = "ffpack SOURCE -o OUT [options]\n"
                 "       ffpack merge|append|check|copy|repair|ls|push|pull|verify ...",
        .summary = summary,
        .options = table.option,
        .epilogue = epilogue,
        .habits = ff_pack_habits};
    ff_error error = {0};
    ff_positionals operands;
    ff_status status = ff_command_parse(&command, argc, argv, &operands, &error);
    if (status == FF_OK && operands.done) return ff_positionals_free(&operands);
    if (status == FF_OK && operands.count != 1)
        status = ff_fail(&error, FF_USAGE, "%s; wanted ffpack SOURCE -o OUT [options], see --help",
                         operands.count ? "more than one SOURCE" : "no SOURCE");
    if (status == FF_OK) arguments.source = operands.operand[0];
    ff_positionals_free(&operands);
    ff_settings settings = {0};
    ff_report report = {0};
    ff_recorded recorded = {0};
    if (status == FF_OK)
        status = arguments.like
                     ? resolve_like(&settings, &arguments, &command, argc, argv, &recorded, &error)
                     : ff_settings_resolve(&settings, &arguments, &error);
    const bool began = status == FF_OK;
    settings.history = (ff_history_command){"pack", argc, argv, arguments.no_history};
    ff_progress_show_as((ff_progress_form)arguments.progress);
    if (began) status = run(&settings, arguments.json, &recorded, &report, &error);
    int code = status == FF_OK ? 0 : fail(&error, &settings, &report, began, argc, argv);
    ff_recorded_free(&recorded);
    ff_report_free(&report);
    ff_settings_free(&settings);
    return code;
}
