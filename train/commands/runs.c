/* fftrain runs: compares the runs of a folder, one line each. */
#include "format/base/path.h"
#include "train/checkpoint/run_folder.h"
#include "train/commands/command.h"
#include "train/report/page/runs_table.h"

#include <stdio.h>
#include <stdlib.h>

static const char summary[] =
    "Lists the runs in a folder, the best first: the best value of the measure by which each run "
    "chooses its best checkpoint (--best-by), the epoch of that value, the last epoch and the "
    "number of epochs, the seconds of all sessions, how the run ended, and the options in which "
    "the runs differ.";

static const char epilogue[] =
    "DIR holds runs, each a folder with recipe.txt and log.jsonl; default: runs. A run that has not\n"
    "ended is \"running\" where a process holds its folder, else \"killed\": --resume continues it.\n"
    "\"-\" is an option as by default. With --json and --csv accuracies are in [0, 1].\n"
    "\n"
    "Examples:\n"
    "  fftrain runs\n"
    "  fftrain runs sweeps/lr --csv > lr.csv\n"
    "\n"
    "Exit codes: 0 done, 2 wrong usage or no run, 74 input or output error.";

static ff_status show(const char *folder, bool json, bool csv, ff_error *error) {
    ff_runs_table table = {0};
    ff_status status;
    if (ff_path_exists("%s/.", folder) && !ff_runs_are_in(folder))
        return ff_fail(error, FF_USAGE,
                       "%s: is a run itself; wanted the folder of runs, and fftrain report %s is "
                       "about this one",
                       folder, folder);
    FF_TRY_DONE(ff_runs_table_read(&table, folder, error));
    if (table.left_out.length) fprintf(stderr, "fftrain: left out:\n%s", table.left_out.bytes);
    if (json)
        status = ff_runs_table_json(stdout, &table, error);
    else if (csv)
        status = ff_runs_table_csv(stdout, &table, error);
    else if (table.count)
        status = ff_runs_table_print(stdout, &table, error);
done:
    ff_runs_table_free(&table);
    return status;
}

ff_status ff_command_runs(int argc, char **argv, ff_error *error) {
    bool json = false, csv = false;
    const ff_option table[] = {
        {"json", 0, FF_OPTION_FLAG, NULL, &json, NULL, 0, 0, "Print an array of JSON objects."},
        {"csv", 0, FF_OPTION_FLAG, NULL, &csv, NULL, 0, 0,
         "Print comma-separated values, a header first."},
        {.name = NULL},
    };
    const ff_command command = {.program = "fftrain runs",
                                .usage = "fftrain runs [DIR] [--json|--csv]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_positionals words;
    ff_status status;
    FF_TRY_DONE(ff_options_parse(&command, argc, argv, &words, error));
    if (words.done) goto done;
    if (words.count > 1)
        status =
            ff_fail(error, FF_USAGE, "runs: wanted one folder of runs, and got %d", words.count);
    else if (json && csv)
        status = ff_fail(error, FF_USAGE, "runs: --json and --csv exclude each other");
    else
        status = show(words.count ? words.operand[0] : FF_RUN_FOLDERS, json, csv, error);
done:
    ff_positionals_free(&words);
    return status;
}
