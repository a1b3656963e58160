/* `ffpack repair DIR`: the command line of repairing. */
#include "format/base/thread.h"
#include "tools/ffpack/commands/command.h"
#include "tools/ffpack/repair/repair.h"

#include <stdio.h>

static const char summary[] =
    "Checks every byte of a packed set's shards and rebuilds a lost or broken index, with the same\n"
    "bytes. If shards or samples are lost, it names each of them and changes nothing.";

static const char epilogue[] =
    "Exit codes: 0 the set is whole; 1 failure; 2 wrong usage, or another ffpack writes there; 65\n"
    "something is lost; 74 the system refused to read or write.";

static void print_line(void *context, const char *line) {
    (void)context;
    puts(line);
}

int ff_command_repair(int argc, char **argv) {
    int64_t jobs = 0;
    bool no_history = false;
    const ff_option table[] = {{"jobs", 'j', FF_OPTION_INTEGER, "N", &jobs, NULL, 1, 1024,
                                "threads (default: one per CPU)"},
                               {"no-history", 0, FF_OPTION_FLAG, NULL, &no_history, NULL, 0, 0,
                                "leave history.jsonl as it is, also where an index is rebuilt"},
                               {0}};
    const ff_command command = {.program = "ffpack repair",
                                .usage = "ffpack repair DIR [options]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_status status = ff_command_parse(&command, argc, argv, &operands, &error);
    if (status == FF_OK && operands.done) return ff_positionals_free(&operands);
    if (status == FF_OK && operands.count != 1)
        status = ff_fail(&error, FF_USAGE, "repair: wanted ffpack repair DIR, see --help");
    if (status == FF_OK) {
        ff_repair_options options = {.jobs = jobs ? (int)jobs : ff_cpu_count(),
                                     .history = {"repair", argc, argv, no_history},
                                     .notices = {print_line, NULL}};
        status = ff_repair_run(operands.operand[0], &options, &error);
    }
    ff_positionals_free(&operands);
    if (status == FF_OK) status = ff_command_flush(&error);
    return status == FF_OK ? 0 : ff_command_fail(&error, NULL, 0, NULL);
}
