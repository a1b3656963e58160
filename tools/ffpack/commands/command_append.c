/* `ffpack append OUT SOURCE`: the command line of appending. */
#include "format/base/memory.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "tools/ffpack/commands/command.h"
#include "tools/ffpack/pack/append.h"
#include "tools/ffpack/settings/habits.h"
#include "tools/ffpack/settings/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char summary[] =
    "Appends SOURCE to the packed set OUT in the same way, as a new generation. Existing shards stay\n"
    "unchanged, and processes that have OUT open keep reading the old content. Item numbers continue;\n"
    "classes are matched by name; with --new-classes new ones come after them. OUT is a split's\n"
    "folder, or a folder of the same splits as SOURCE.\n"
    "OUT decides how samples are stored; options on the command line must agree with OUT. If OUT was\n"
    "packed with --allow-truncated or --shuffle, so is SOURCE; on the command line, these two hold\n"
    "for this append alone.";

static const char epilogue[] =
    "Until the new index is in place, OUT is unchanged. After an interruption the same command\n"
    "continues; appending another source removes the unfinished shards.\n"
    "\n"
    "Example:\n"
    "  ffpack append photos224 more-photos\n"
    "\n"
    "Exit codes: as for ffpack.";

static void fill_table(ff_option_table *table, ff_arguments *arguments) {
    ff_options_add_append(table, arguments);
    ff_options_add_source(table, arguments);
    ff_options_add_samples(table, arguments);
    ff_options_add_statistics(table, arguments);
    ff_options_add_storage(table, arguments);
    ff_options_add_remote(table, arguments);
    ff_options_add_running(table, arguments, true);
}

/* Reports the options taken from the set's packing that change which items are taken, or their
 * order. */
static ff_status note_recorded(const ff_recorded *recorded, const ff_arguments *arguments,
                               ff_names *notes, ff_error *error) {
    static const char shuffle[] = "--shuffle=";
    for (size_t i = 0; i < recorded->count; i++) {
        const char *option = recorded->option[i];
        const bool same = !strcmp(option, "--allow-truncated") ||
                          (!strncmp(option, shuffle, strlen(shuffle)) &&
                           strtoll(option + strlen(shuffle), NULL, 10) == arguments->shuffle);
        if (same) FF_TRY(ff_names_add_text(notes, error, "as the set was packed: %s", option));
    }
    return FF_OK;
}

static ff_status run(ff_append *append, const ff_arguments *arguments,
                     const ff_history_command *history, const ff_recorded *recorded,
                     ff_report *report, ff_error *error) {
    ff_settings settings = {0};
    ff_notices pack = {.tell = ff_command_notice};
    ff_status status = FF_OK;
    if (arguments->stats || arguments->stats_sample)
        status = ff_fail(error, FF_USAGE, "--%s: an append uses the statistics of %s",
                         arguments->stats ? "stats" : "stats-sample", arguments->output);
    if (status == FF_OK) status = ff_settings_resolve(&settings, arguments, error);
    if (status == FF_OK) {
        settings.history = *history;
        ff_progress_show_as((ff_progress_form)arguments->progress);
        ff_interrupt_install(0);
        status = ff_append_run(append, &settings, &pack, report, error);
    }
    ff_settings_free(&settings);
    FF_TRY(status);
    FF_TRY(note_recorded(recorded, arguments, &report->notes, error));
    if (!arguments->json)
        ff_report_print(report, stdout);
    else
        FF_TRY(ff_report_json(report, stdout, error));
    return ff_command_flush(error);
}

int ff_command_append(int argc, char **argv) {
    ff_arguments arguments = ff_arguments_default();
    ff_option_table table = {0};
    fill_table(&table, &arguments);
    const ff_command command = {.program = "ffpack append",
                                .usage = "ffpack append OUT SOURCE [options]",
                                .summary = summary,
                                .options = table.option,
                                .epilogue = epilogue,
                                .habits = ff_append_habits};
    ff_error error = {0};
    ff_positionals operands;
    ff_append *append = NULL;
    ff_recorded recorded = {0};
    ff_report report = {0};
    ff_status status;
    int code = 0;
    FF_TRY_DONE(ff_command_parse(&command, argc, argv, &operands, &error));
    if (operands.done) return ff_positionals_free(&operands);
    if (operands.count != 2)
        FF_TRY_DONE(
            ff_fail(&error, FF_USAGE, "append: wanted ffpack append OUT SOURCE, see --help"));
    FF_TRY_DONE(ff_append_open(&append, operands.operand[0], &error));
    FF_TRY_DONE(ff_recorded_options(&recorded, ff_append_metadata(append), &error));
    FF_TRY_DONE(ff_command_parse_after(&command, &recorded, argc, argv, &operands, &error));
    arguments.output = operands.operand[0];
    arguments.source = operands.operand[1];
    const ff_history_command history = {"append", argc, argv, arguments.no_history};
    FF_TRY_DONE(run(append, &arguments, &history, &recorded, &report, &error));
done:
    if (status != FF_OK) {
        bool kept = append && status != FF_USAGE && ff_append_kept(append);
        bool committed = append && ff_append_committed(append);
        code = ff_command_fail(
            &error,
            kept && ff_report_lost_too_much(&report)
                ? "OUT is unchanged; whole shards are kept, and with another --max-skip this "
                  "continues: ffpack"
            : kept      ? "OUT is unchanged; whole shards are kept, and this continues: ffpack"
            : committed ? "but the items were appended: do not append them again"
                        : NULL,
            kept ? argc : 0, argv);
    }
    ff_positionals_free(&operands);
    ff_recorded_free(&recorded);
    ff_report_free(&report);
    ff_append_close(&append);
    return code;
}
