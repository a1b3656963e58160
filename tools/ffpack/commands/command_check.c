/* `ffpack check SOURCE`: the command line of checking. */
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "tools/ffpack/commands/command.h"
#include "tools/ffpack/pack/pack.h"
#include "tools/ffpack/settings/habits.h"
#include "tools/ffpack/settings/options.h"

#include <stdio.h>

static const char summary[] =
    "Decodes all images of SOURCE, on as many threads as packing, and lists every broken one: a line\n"
    "on stdout with its name, what is wrong and where. Writes nothing. SOURCE and the options are as\n"
    "in packing; images may have different sizes.";

static const char epilogue[] =
    "With --json each line is an object: event \"broken\", split, name, reason; the last one is the\n"
    "summary.\n"
    "'ffpack SOURCE -o OUT [options] --dry-run --decode' does the same, and then reports what would\n"
    "be packed.\n"
    "\n"
    "Examples:\n"
    "  ffpack check photos > broken.txt\n"
    "  find downloads -name '*.jpg' > list.txt; ffpack check list.txt\n"
    "\n"
    "Exit codes: 0 nothing is broken; 65 something is; else as for ffpack.";

static ff_status run(const ff_settings *settings, bool json, ff_error *error) {
    int failed = 0;
    const ff_notices notices = {.tell = ff_command_notice,
                                .context = &failed,
                                .broken = json ? ff_command_broken_json : ff_command_broken};
    ff_report report = {0};
    ff_interrupt_install(0);
    ff_status status = ff_pack_run(settings, &notices, &report, error);
    status = ff_command_listed(status, failed, error);
    if (json && (status == FF_OK || report.broken)) {
        const ff_status written = ff_report_json(&report, stdout, status == FF_OK ? error : NULL);
        if (status == FF_OK) status = written;
    } else if (status == FF_OK) {
        ff_report_print(&report, stdout);
    }
    ff_report_free(&report);
    const ff_status flushed = ff_command_flush(status == FF_OK ? error : NULL);
    return status == FF_OK ? flushed : status;
}

int ff_command_check(int argc, char **argv) {
    ff_arguments arguments = ff_arguments_default();
    ff_option_table table = {0};
    ff_options_add_check(&table);
    ff_options_add_source(&table, &arguments);
    ff_options_add_split(&table, &arguments);
    ff_options_add_samples(&table, &arguments);
    ff_options_add_remote(&table, &arguments);
    ff_options_add_running(&table, &arguments, false);
    const ff_command command = {.program = "ffpack check",
                                .usage = "ffpack check SOURCE [options]",
                                .summary = summary,
                                .options = table.option,
                                .epilogue = epilogue,
                                .habits = ff_pack_habits};
    ff_error error = {0};
    ff_positionals operands;
    ff_settings settings = {0};
    ff_status status;
    FF_TRY_DONE(ff_command_parse(&command, argc, argv, &operands, &error));
    if (operands.done) return ff_positionals_free(&operands);
    if (operands.count != 1)
        FF_TRY_DONE(
            ff_fail(&error, FF_USAGE, "check: wanted ffpack check SOURCE [options], see --help"));
    arguments.source = operands.operand[0];
    arguments.dry_run = arguments.decode = arguments.check = true;
    FF_TRY_DONE(ff_settings_resolve(&settings, &arguments, &error));
    ff_progress_show_as((ff_progress_form)arguments.progress);
    status = run(&settings, arguments.json, &error);
done:
    ff_positionals_free(&operands);
    ff_settings_free(&settings);
    return status == FF_OK ? 0 : ff_command_fail(&error, NULL, 0, NULL);
}
