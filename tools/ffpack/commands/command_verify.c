/* `ffpack verify SET`: the command line of verifying. */
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/reader/verification.h"
#include "format/storage/options.h"
#include "tools/ffpack/commands/command.h"

#include <stdio.h>

static const char summary[] =
    "Checks every byte of a packed set, in a folder or behind a URL, against its checksums, as\n"
    "ffinspect --verify does, and prints each problem. What lies behind a URL is fetched through the\n"
    "cache.";

static const char epilogue[] =
    "Exit codes: 0 all is well; 1 failure; 2 wrong usage; 65 something is broken; 74 the system or\n"
    "the server refused to read; 128 + n stopped by signal n.";

static ff_status run(const char *path, int jobs, ff_error *error) {
    ff_set set = {0};
    ff_status status;
    FF_TRY_DONE(ff_set_check_folder(path, error));
    FF_TRY_DONE(ff_set_find(&set, path, error));
    for (size_t i = 0; i < set.count; i++)
        if (set.split[i].kind != FF_FOLDER_SPLIT)
            FF_TRY_DONE(ff_set_refuse(set.split[i].path, error));
    if (!set.count) FF_TRY_DONE(ff_set_refuse(path, error));
    status = ff_verification_print(&set, jobs, stdout, error);
done:
    ff_set_free(&set);
    return status;
}

int ff_command_verify(int argc, char **argv) {
    int64_t jobs = 0;
    int progress = 0;
    ff_storage_options storage = {0};
    const ff_option table[] = {
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &jobs, NULL, 1, 1024,
         "threads (default: one per CPU)"},
        {"progress", 0, FF_OPTION_CHOICE, NULL, &progress, FF_PROGRESS_CHOICES, 0, 0,
         "how far the work is (default: line, on stderr); json: objects on stdout, a line each"},
        {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
        FF_STORAGE_ROWS(storage, FF_SAYS_PHRASE),
        {0}};
    const ff_command command = {.program = "ffpack verify",
                                .usage = "ffpack verify SET|URL [options]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_status status;
    FF_TRY_DONE(ff_command_parse(&command, argc, argv, &operands, &error));
    if (operands.done) return ff_positionals_free(&operands);
    if (operands.count != 1)
        FF_TRY_DONE(ff_fail(&error, FF_USAGE, "verify: wanted ffpack verify SET, see --help"));
    FF_TRY_DONE(ff_storage_use(&storage, operands.operand, 1, &error));
    ff_progress_show_as((ff_progress_form)progress);
    ff_interrupt_install(0);
    status = run(operands.operand[0], jobs ? (int)jobs : ff_cpu_count(), &error);
done:
    ff_positionals_free(&operands);
    const ff_status flushed = ff_command_flush(status == FF_OK ? &error : NULL);
    if (status == FF_OK) status = flushed;
    return status == FF_OK ? 0 : ff_command_fail(&error, NULL, 0, NULL);
}
