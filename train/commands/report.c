#include "train/commands/command.h"

#include "format/base/path.h"
#include "format/cli/say.h"
#include "train/report/page/page.h"
#include "train/report/page/runs_page.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char summary[] =
    "Writes one HTML page about one or several runs: curves, accuracy of each class, confusion matrix, "
    "the samples that a run got most wrong, where the time went, and the settings side by side. "
    "The page loads nothing from elsewhere.";

static const char epilogue[] =
    "RUN is a run's folder (log.jsonl, evaluation.json, worst.png, inputs.png, recipe.txt), or a log\n"
    "alone, as --log-json writes it; the run may still be running. A single folder of runs becomes a\n"
    "page with a table of its runs, as fftrain runs prints it, with links to the pages of the runs.\n"
    "\n"
    "Examples:\n"
    "  fftrain report runs/resnet18-1\n"
    "  fftrain report runs/resnet18-1 runs/resnet18-2 -o compared.html\n"
    "  fftrain report runs\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 65 no log of a run, 74 input or output error.";

/* The page's path, allocated: the option's, or for a single run report.html in its folder. */
static ff_status choose_output(char **path, const char *given, const char *const *paths,
                               size_t count, ff_error *error) {
    struct stat info;
    if (given) return ff_copy_string(path, given, error);
    if (count == 1 && stat(paths[0], &info) != 0)
        return ff_fail_errno(error, "%s: cannot open", paths[0]);
    if (count == 1 && S_ISDIR(info.st_mode))
        return ff_path_join(path, paths[0], "report.html", error);
    return ff_fail(error, FF_USAGE, "report: -o FILE is needed for %s",
                   count == 1 ? "a log without a folder" : "several runs");
}

/* The report of a folder of runs. */
static ff_status report_folder(const char *output, const char *folder, ff_error *error) {
    ff_runs_table table = {0};
    uint64_t bytes;
    ff_status status;
    FF_TRY_DONE(ff_runs_table_read(&table, folder, error));
    if (table.left_out.length) fprintf(stderr, "fftrain: left out:\n%s", table.left_out.bytes);
    FF_TRY_DONE(ff_runs_page_write(&table, output, &bytes, error));
    if (!output || strcmp(output, "-") != 0)
        printf("%s%s: %s, %s\n", output ? output : table.folder, output ? "" : "/report.html",
               ff_say_count(table.count, "run", "runs").text, ff_say_bytes(bytes).text);
done:
    ff_runs_table_free(&table);
    return status;
}

static ff_status report(const char *output, const char *const *runs, size_t count,
                        ff_error *error) {
    char *path = NULL;
    uint64_t bytes;
    ff_status status;
    if (!count)
        return ff_fail(error, FF_USAGE,
                       "report: wanted fftrain report RUN... [-o FILE], see --help");
    if (count == 1 && ff_runs_are_in(runs[0])) return report_folder(output, runs[0], error);
    FF_TRY_DONE(choose_output(&path, output, runs, count, error));
    FF_TRY_DONE(ff_page_write(path, runs, count, &bytes, error));
    if (strcmp(path, "-") != 0)
        printf("%s: %s, %s\n", path, ff_say_count(count, "run", "runs").text,
               ff_say_bytes(bytes).text);
done:
    free(path);
    return status;
}

ff_status ff_command_report(int argc, char **argv, ff_error *error) {
    const char *output = NULL;
    const ff_option table[] = {
        {"output", 'o', FF_OPTION_STRING, "FILE", &output, NULL, 0, 0,
         "The page; - is the standard output; default: report.html in the folder of the one RUN."},
        {.name = NULL},
    };
    const ff_command command = {.program = "fftrain report",
                                .usage = "fftrain report RUN... [-o FILE]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, error);
    if (status == FF_OK && !words.done)
        status = report(output, words.operand, (size_t)words.count, error);
    ff_positionals_free(&words);
    return status;
}
