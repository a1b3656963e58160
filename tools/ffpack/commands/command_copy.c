/* `ffpack copy SET -o NEW`: the command line of copying. */
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/storage/options.h"
#include "tools/ffpack/commands/command.h"
#include "tools/ffpack/copy/copy.h"

#include <stdio.h>
#include <stdlib.h>

static const char summary[] =
    "Copies the packed set SET, a folder or a URL, to NEW, with fewer samples, other classes or labels, or another dtype.\n"
    "The sources are not needed, and nothing is decoded: samples keep their bytes, checksums, keys and\n"
    "order. All splits are copied. SET stays.";

static const char epilogue[] =
    "A FILE of keys has a key a line, as ffinspect --keys prints it. If two splits have the same\n"
    "key, the split's name stands in front: train/cat/1.png.\n"
    "\n"
    "In EXPR text stands in '' or \"\"; in a pattern * is any text and ? one character. A class is named\n"
    "('cat') or numbered (3); -1 means samples without a label. height and width are as\n"
    "stored. key = '' means samples without a key, which no FILE can name. `NAME` is a label field\n"
    "whose name is also another word.\n"
    "\n"
    "NEW is built in NEW.partial and renamed when complete. After an interruption the same command\n"
    "continues it.\n"
    "\n"
    "Examples:\n"
    "  ffpack copy photos224 -o clean --not-keys bad.txt --labels corrected.csv\n"
    "  ffpack copy photos224 -o pets --where \"label in ('cat', 'dog') and height > 9\"\n"
    "  ffpack copy photos224 -o animals --merge-class cat,lion=cats\n"
    "  ffpack copy photos224 -o wider --add-class zebra; ffpack append wider zebras\n"
    "\n"
    "Exit codes: as for ffpack.";

/* The choices of --dtype: the ones before the integers. */
#define DTYPE_CHOICES "f16|f32|bf16"

typedef struct arguments {
    ff_copy_options options;
    int dtype, progress;
    int64_t jobs;
    bool json;
    ff_storage_options remote;
} arguments;

static ff_status check(arguments *given, const ff_positionals *operands, ff_error *error) {
    ff_copy_options *options = &given->options;
    if (operands->count != 1 || !options->output)
        return ff_fail(error, FF_USAGE, "copy: wanted ffpack copy SET -o NEW, see --help");
    if (options->keys && options->not_keys)
        return ff_fail(error, FF_USAGE, "--keys and --not-keys: wanted only one");
    options->set = operands->operand[0];
    FF_TRY(ff_storage_use(&given->remote, &options->set, 1, error));
    options->converts = given->dtype >= 0;
    if (options->converts) options->dtype = ff_dtype_choice(given->dtype);
    options->jobs = given->jobs ? (int)given->jobs : ff_cpu_count();
    return FF_OK;
}

static ff_status run(const arguments *given, ff_report *report, ff_error *error) {
    ff_progress_show_as((ff_progress_form)given->progress);
    ff_interrupt_install(0);
    FF_TRY(ff_copy_run(&given->options, report, error));
    if (given->json)
        FF_TRY(ff_report_json(report, stdout, error));
    else
        ff_report_print(report, stdout);
    return ff_command_flush(error);
}

static int fail(const ff_error *error, const ff_report *report, const char *output, int argc,
                char **argv) {
    char *kept = report->opened && error->status != FF_USAGE ? ff_command_kept(output) : NULL;
    char *more = NULL;
    if (kept)
        (void)!ff_format(&more, NULL, "finished work is kept in %s, and this continues: ffpack",
                         kept);
    int code = ff_command_fail(error, more, more ? argc : 0, argv);
    free(kept);
    free(more);
    return code;
}

int ff_command_copy(int argc, char **argv) {
    arguments given = {.options = {.notices.tell = ff_command_notice,
                                   .history = {.name = "copy", .argc = argc, .argv = argv}},
                       .dtype = -1};
    ff_copy_options *options = &given.options;
    const ff_option table[] = {
        {"output", 'o', FF_OPTION_STRING, "NEW", &options->output, NULL, 0, 0,
         "the folder of the copy, which must not exist"},
        {"force", 0, FF_OPTION_FLAG, NULL, &options->force, NULL, 0, 0,
         "replace NEW if it exists; the old set stays until the new one is complete"},
        {"no-history", 0, FF_OPTION_FLAG, NULL, &options->history.none, NULL, 0, 0,
         "neither copy nor write history.jsonl"},
        {.kind = FF_OPTION_HEADING, .help = "Samples"},
        {"keys", 0, FF_OPTION_STRING, "FILE", &options->keys, NULL, 0, 0,
         "copy only the samples whose keys FILE has"},
        {"not-keys", 0, FF_OPTION_STRING, "FILE", &options->not_keys, NULL, 0, 0,
         "copy all samples but those whose keys FILE has"},
        {"where", 0, FF_OPTION_STRING, "EXPR", &options->where, NULL, 0, 0,
         "copy only the samples that EXPR means: comparisons of label fields, key, split, height and "
         "width by = != < <= > >=, in ('a', 'b') and like 'cat/*', joined by and, or, not and "
         "parentheses; with --keys or --not-keys, the samples that both choose"},
        {"dtype", 0, FF_OPTION_CHOICE, NULL, &given.dtype, DTYPE_CHOICES, 0, 0,
         "type of the stored values, from a set of u8: the values of packing the sources so"},
        {.kind = FF_OPTION_HEADING, .help = "Classes and labels (made in this order)"},
        {"rename-class", 0, FF_OPTION_LIST, "OLD=NEW", &options->rename, NULL, 0, 0,
         "rename a class; may be repeated"},
        {"merge-class", 0, FF_OPTION_LIST, "OLD,OLD=NEW", &options->merge, NULL, 0, 0,
         "make one class of several; the others are numbered again, in their order; may be "
         "repeated"},
        {"add-class", 0, FF_OPTION_LIST, "NAME", &options->add, NULL, 0, 0,
         "add a class without samples after the last one, for ffpack append; may be repeated"},
        {"labels", 0, FF_OPTION_STRING, "FILE", &options->labels, NULL, 0, 0,
         "corrected labels: lines of a key and its class, separated by a tab or as CSV; other samples "
         "keep theirs"},
        {"label", 0, FF_OPTION_STRING, "FIELD", &options->label, NULL, 0, 0,
         "the label field that these change, of a set with several"},
        {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
        FF_STORAGE_ROWS(given.remote, FF_SAYS_PHRASE),
        {.kind = FF_OPTION_HEADING, .help = "Running"},
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &given.jobs, NULL, 1, 1024,
         "worker threads (default: one per CPU); the output does not depend on it"},
        {"json", 0, FF_OPTION_FLAG, NULL, &given.json, NULL, 0, 0,
         "print the summary as a JSON object"},
        {"progress", 0, FF_OPTION_CHOICE, NULL, &given.progress, FF_PROGRESS_CHOICES, 0, 0,
         "how far the work is (default: line, on stderr); json: objects on stdout, a line each, before "
         "the summary"},
        {0}};
    const ff_command command = {.program = "ffpack copy",
                                .usage = "ffpack copy SET -o NEW [options]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_report report = {0};
    ff_status status;
    int code = 0;
    FF_TRY_DONE(ff_command_parse(&command, argc, argv, &operands, &error));
    if (operands.done) return ff_positionals_free(&operands);
    FF_TRY_DONE(check(&given, &operands, &error));
    FF_TRY_DONE(run(&given, &report, &error));
done:
    if (status != FF_OK) code = fail(&error, &report, options->output, argc, argv);
    ff_positionals_free(&operands);
    ff_report_free(&report);
    return code;
}
