/* `ffpack merge OUT [PART...]`: the command line of merging. */
#include "format/cli/interrupt.h"
#include "tools/ffpack/commands/command.h"
#include "tools/ffpack/pack/merge_bucket.h"

#include <inttypes.h>
#include <stdio.h>

static const char summary[] =
    "Merges the parts packed with ffpack --part, in any order, into one set: the same bytes as one\n"
    "run without --part. Without PARTs it merges the parts of --part auto: OUT.part-I-of-N. Shards\n"
    "are linked, not copied, if OUT is on the same file system. The parts stay. If OUT is a URL, the\n"
    "parts are those that ffpack SOURCE -o URL --part I/N has sent there; no shard is moved.";

static const char epilogue[] =
    "Example, on three machines and then on one:\n"
    "  ffpack photos -o part1 --part 1/3 ...\n"
    "  ffpack merge photos224 part1 part2 part3\n"
    "or, by the tasks of a job:\n"
    "  ffpack photos -o photos224 --part auto ...\n"
    "  ffpack merge photos224 --wait\n"
    "\n"
    "The lists PART.skipped.tsv become OUT.skipped.tsv. Exit codes: 0 done; 1 failure; 2 wrong usage,\n"
    "parts of different sets, or OUT exists; 65 broken parts; 74 the system refused to read\n"
    "or write; 128 + n stopped by signal n.";

static ff_status merge(const ff_merge_options *options, const ff_positionals *operands,
                       ff_merge_report *report, ff_error *error) {
    if (!ff_storage_is_url(options->output))
        return ff_merge_run(options, operands->operand + 1, (size_t)operands->count - 1, report,
                            error);
    if (operands->count > 1)
        return ff_fail(error, FF_USAGE,
                       "merge: the parts of a set in a bucket lie there; wanted ffpack merge %s",
                       options->output);
    return ff_merge_bucket_run(options, report, error);
}

static void print(const ff_merge_report *report, const char *output) {
    for (size_t i = 0; i < report->split_count; i++) {
        const ff_merge_split *split = &report->split[i];
        printf("%s%s%" PRIu64 " items, %" PRIu64 " shards in %s%s%s\n", split->name,
               *split->name ? ": " : "", split->result.sample_count, split->result.shard_count,
               output, *split->name ? "/" : "", split->name);
    }
    if (!ff_storage_is_url(output))
        printf("%" PRIu64 " shards linked, %" PRIu64 " copied\n", report->linked, report->copied);
    if (report->skipped_path) printf("items left out: %s\n", report->skipped_path);
}

int ff_command_merge(int argc, char **argv) {
    ff_merge_options options = {.wait_seconds = FF_MERGE_NO_WAIT,
                                .history = {.name = "merge", .argc = argc, .argv = argv},
                                .notices = {.tell = ff_command_notice}};
    const ff_option table[] = {
        {"force", 0, FF_OPTION_FLAG, NULL, &options.force, NULL, 0, 0,
         "replace OUT if it exists; the old set stays until the new one is complete"},
        {"max-skip", 0, FF_OPTION_STRING, "N|P%", &options.max_skip, NULL, 0, 0,
         "fail where all parts together left out more items of a split, or all images of a class "
         "(default: what they were packed with)"},
        {"wait", 0, FF_OPTION_INTEGER, "[SECONDS]", &options.wait_seconds, "forever", 0, 1e9,
         "wait until all parts are whole, at most so long; a part whose packing failed, or that is "
         "of another set, ends it at once"},
        {"no-history", 0, FF_OPTION_FLAG, NULL, &options.history.none, NULL, 0, 0,
         "write no history.jsonl from the parts' own"},
        {0}};
    const ff_command command = {.program = "ffpack merge",
                                .usage = "ffpack merge OUT [PART...] [options]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_merge_report report = {0};
    ff_status status = ff_command_parse(&command, argc, argv, &operands, &error);
    if (status == FF_OK && operands.done) return ff_positionals_free(&operands);
    if (status == FF_OK && operands.count < 1)
        status = ff_fail(&error, FF_USAGE, "merge: wanted ffpack merge OUT [PART...], see --help");
    if (status == FF_OK) {
        options.output = operands.operand[0];
        ff_interrupt_install(0);
        status = merge(&options, &operands, &report, &error);
    }
    if (status == FF_OK) {
        print(&report, options.output);
        status = ff_command_flush(&error);
    }
    ff_positionals_free(&operands);
    ff_merge_report_free(&report);
    return status == FF_OK ? 0 : ff_command_fail(&error, NULL, 0, NULL);
}
