/* `ffpack push DIR URL` and `ffpack pull URL DIR`: the command lines of copying sets. */
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/cli/say.h"
#include "format/storage/options.h"
#include "tools/ffpack/bucket/pull.h"
#include "tools/ffpack/bucket/push.h"
#include "tools/ffpack/commands/command.h"

#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 8 };

static void tell(const char *sentence) {
    ff_command_notice(NULL, sentence);
}

static const char push_summary[] =
    "Copies the packed set DIR into a bucket: the shards first, the index last, so that readers see\n"
    "the whole set or none. If DIR was appended to, and the older set is there, readers see that one\n"
    "until the index comes. Objects that are there with the same bytes are not sent again; after an\n"
    "interruption the same command continues.";

static const char push_epilogue[] =
    "Example:\n"
    "  ffpack push packed s3://bucket/sets/packed\n"
    "  fftrain --data s3://bucket/sets/packed --model resnet50\n"
    "\n"
    "Exit codes: 0 done; 1 failure; 2 wrong usage, or another set is there; 65 a broken set; 74 the\n"
    "system or the server refused to read or write; 128 + n stopped by signal n.";

static void print_push(const ff_push_options *options, const ff_push_report *report) {
    printf("%s: %s, %s; sent %s, %s\n", options->url,
           ff_say_count(report->files, "file", "files").text, ff_say_bytes(report->bytes).text,
           ff_say_count(report->sent, "file", "files").text, ff_say_bytes(report->sent_bytes).text);
    if (report->removed)
        printf("%s of the old set removed\n",
               ff_say_count(report->removed, "object", "objects").text);
}

int ff_command_push(int argc, char **argv) {
    ff_push_options options = {.storage.check = ff_interrupt_check, .tell = tell};
    int64_t jobs = JOBS;
    int progress = 0;
    const ff_option table[] = {
        {"force", 0, FF_OPTION_FLAG, NULL, &options.force, NULL, 0, 0,
         "replace another set that is there: readers find none until the new one is complete"},
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &jobs, NULL, 1, 64,
         "requests at the same time (default: 8)"},
        {"progress", 0, FF_OPTION_CHOICE, NULL, &progress, FF_PROGRESS_CHOICES, 0, 0,
         "how far the work is (default: line, on stderr); json: objects on stdout, a line each"},
        {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
        FF_STORAGE_TIMEOUT("storage-timeout", options.storage, FF_SAYS_PHRASE),
        FF_STORAGE_ENDPOINT("endpoint", options.storage, FF_SAYS_PHRASE),
        {0}};
    const ff_command command = {.program = "ffpack push",
                                .usage = "ffpack push DIR URL [options]",
                                .summary = push_summary,
                                .options = table,
                                .epilogue = push_epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_push_report report = {0};
    ff_status status = ff_command_parse(&command, argc, argv, &operands, &error);
    if (status == FF_OK && operands.done) return ff_positionals_free(&operands);
    if (status == FF_OK && operands.count != 2)
        status = ff_fail(&error, FF_USAGE, "push: wanted ffpack push DIR URL, see --help");
    if (status == FF_OK) {
        options.folder = operands.operand[0];
        options.url = operands.operand[1];
        options.jobs = (int)jobs;
        ff_progress_show_as((ff_progress_form)progress);
        ff_interrupt_install(0);
        status = ff_storage_use(&options.storage, operands.operand, 2, &error);
        if (status == FF_OK) status = ff_push_run(&options, &report, &error);
    }
    if (status == FF_OK) {
        print_push(&options, &report);
        status = ff_command_flush(&error);
    }
    ff_positionals_free(&operands);
    return status == FF_OK ? 0 : ff_command_fail(&error, NULL, 0, NULL);
}

static const char pull_summary[] =
    "Copies the packed set behind URL into the new folder DIR and verifies every byte of it before\n"
    "the folder gets its name. URL is a bucket's or a web server's. After an interruption the same\n"
    "command continues.";

static const char pull_epilogue[] =
    "Everything is fetched into DIR.partial, which is renamed to DIR when it is complete.\n"
    "\n"
    "Example:\n"
    "  ffpack pull s3://bucket/sets/packed packed\n"
    "\n"
    "Exit codes: 0 done; 1 failure; 2 wrong usage, or DIR exists; 65 a broken set; 74 the system or\n"
    "the server refused to read or write; 128 + n stopped by signal n.";

int ff_command_pull(int argc, char **argv) {
    ff_pull_options options = {.storage.check = ff_interrupt_check};
    int64_t jobs = JOBS;
    int progress = 0;
    const ff_option table[] = {
        {"output", 'o', FF_OPTION_STRING, "DIR", &options.folder, NULL, 0, 0,
         "the new folder, if it does not follow URL"},
        {"force", 0, FF_OPTION_FLAG, NULL, &options.force, NULL, 0, 0,
         "replace DIR if it exists; the old set stays until the new one is complete"},
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &jobs, NULL, 1, 64,
         "requests at the same time (default: 8)"},
        {"progress", 0, FF_OPTION_CHOICE, NULL, &progress, FF_PROGRESS_CHOICES, 0, 0,
         "how far the work is (default: line, on stderr); json: objects on stdout, a line each"},
        {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
        FF_STORAGE_TIMEOUT("storage-timeout", options.storage, FF_SAYS_PHRASE),
        FF_STORAGE_ENDPOINT("endpoint", options.storage, FF_SAYS_PHRASE),
        {0}};
    const ff_command command = {.program = "ffpack pull",
                                .usage = "ffpack pull URL DIR [options]",
                                .summary = pull_summary,
                                .options = table,
                                .epilogue = pull_epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_pull_report report = {0};
    char *kept = NULL;
    ff_status status = ff_command_parse(&command, argc, argv, &operands, &error);
    if (status == FF_OK && operands.done) return ff_positionals_free(&operands);
    if (status == FF_OK && operands.count != (options.folder ? 1 : 2))
        status = ff_fail(&error, FF_USAGE,
                         "pull: wanted ffpack pull URL DIR, or URL -o DIR, see --help");
    if (status == FF_OK) {
        options.url = operands.operand[0];
        if (!options.folder) options.folder = operands.operand[1];
        options.jobs = (int)jobs;
        ff_progress_show_as((ff_progress_form)progress);
        ff_interrupt_install(0);
        status = ff_storage_use(&options.storage, operands.operand, (size_t)operands.count, &error);
        if (status == FF_OK) status = ff_pull_run(&options, &report, &error);
        if (status != FF_OK && status != FF_USAGE) kept = ff_command_kept(options.folder);
    }
    if (status == FF_OK) {
        printf("%s: %s, %s; fetched %s\n", options.folder,
               ff_say_count(report.files, "file", "files").text, ff_say_bytes(report.bytes).text,
               ff_say_bytes(report.fetched_bytes).text);
        status = ff_command_flush(&error);
    }
    ff_positionals_free(&operands);
    if (status == FF_OK) return 0;
    const int code = ff_command_fail(&error, kept ? "the same command continues" : NULL, 0, NULL);
    free(kept);
    return code;
}
