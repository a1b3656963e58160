/* `ffpack ls URL`: the command line of listing. */
#include "format/base/json.h"
#include "format/cli/columns.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "format/storage/options.h"
#include "tools/ffpack/bucket/bucket.h"
#include "tools/ffpack/commands/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char summary[] =
    "Lists the packed sets in a bucket, at and below URL: a line for each split with its samples,\n"
    "shards and size. A split whose shards are there without their index is not visible to readers\n"
    "yet.";

static const char epilogue[] =
    "Examples:\n"
    "  ffpack ls s3://bucket\n"
    "  ffpack ls gs://bucket/sets --json\n"
    "\n"
    "Exit codes: 0 done; 1 failure; 2 wrong usage; 65 a broken index; 74 the server refuses, does\n"
    "not answer, or has nothing there.";

static void print_set(const ff_bucket_set *set, int columns) {
    const char *name = *set->name ? set->name : ".";
    printf("%s%*s  ", name, columns - ff_columns(name), "");
    if (set->has_index)
        printf("%s, ", ff_say_count(set->header.sample_count, "sample", "samples").text);
    if (set->has_index && set->shards < set->header.shard_count)
        printf("%" PRIu64 " of ", set->shards);
    printf("%s, %s%s\n",
           ff_say_count(set->has_index && set->shards < set->header.shard_count
                            ? set->header.shard_count
                            : set->shards,
                        "shard", "shards")
               .text,
           ff_say_bytes(set->bytes).text, set->has_index ? "" : ", no " FF_INDEX_NAME);
}

static void print(const ff_bucket_view *view) {
    int columns = 0;
    for (size_t i = 0; i < view->count; i++) {
        const int own = ff_columns(*view->set[i].name ? view->set[i].name : ".");
        if (own > columns) columns = own;
    }
    for (size_t i = 0; i < view->count; i++) print_set(&view->set[i], columns);
    if (view->others)
        printf("and %s of no set, %s\n", ff_say_count(view->others, "object", "objects").text,
               ff_say_bytes(view->other_bytes).text);
}

static json_t *set_json(const ff_bucket_set *set) {
    json_t *object =
        json_pack("{s:o, s:b, s:I, s:I}", "name", ff_json_text(set->name), "index", set->has_index,
                  "shards", (json_int_t)set->shards, "bytes", (json_int_t)set->bytes);
    if (!object || !set->has_index) return object;
    json_object_set_new(object, "samples", json_integer((json_int_t)set->header.sample_count));
    json_object_set_new(object, "index_shards", json_integer((json_int_t)set->header.shard_count));
    json_object_set_new(object, "content_id", ff_json_id(set->header.id.content));
    return object;
}

static ff_status print_json(const ff_bucket_view *view, const char *url, ff_error *error) {
    json_t *sets = json_array();
    for (size_t i = 0; i < view->count; i++) ff_json_append(&sets, set_json(&view->set[i]));
    json_t *all =
        json_pack("{s:o, s:o, s:I, s:I}", "url", ff_json_text(url), "sets", sets, "other_objects",
                  (json_int_t)view->others, "other_bytes", (json_int_t)view->other_bytes);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "out of memory for the list");
    puts(text);
    free(text);
    return FF_OK;
}

static ff_status run(const char *url, const ff_storage_options *options, bool json,
                     ff_error *error) {
    ff_storage *storage;
    ff_bucket_view view = {0};
    ff_status status;
    ff_interrupt_install(0);
    FF_TRY(ff_storage_open(&storage, url, options, error));
    FF_TRY_DONE(ff_bucket_look(&view, storage, error));
    if (!view.count && !view.others)
        FF_TRY_DONE(
            ff_fail(error, FF_IO, "%s: there is nothing below it", ff_storage_url(storage)));
    if (json)
        FF_TRY_DONE(print_json(&view, ff_storage_url(storage), error));
    else
        print(&view);
    status = ff_command_flush(error);
done:
    ff_bucket_view_free(&view);
    ff_storage_close(&storage);
    return status;
}

int ff_command_ls(int argc, char **argv) {
    bool json = false;
    ff_storage_options storage = {.check = ff_interrupt_check};
    const ff_option table[] = {
        {"json", 0, FF_OPTION_FLAG, NULL, &json, NULL, 0, 0, "print the list as a JSON object"},
        {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
        FF_STORAGE_TIMEOUT("storage-timeout", storage, FF_SAYS_PHRASE),
        FF_STORAGE_ENDPOINT("endpoint", storage, FF_SAYS_PHRASE),
        {0}};
    const ff_command command = {.program = "ffpack ls",
                                .usage = "ffpack ls URL [options]",
                                .summary = summary,
                                .options = table,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_positionals operands;
    ff_status status;
    FF_TRY_DONE(ff_command_parse(&command, argc, argv, &operands, &error));
    if (operands.done) return ff_positionals_free(&operands);
    if (operands.count != 1)
        FF_TRY_DONE(ff_fail(&error, FF_USAGE, "ls: wanted ffpack ls URL, see --help"));
    FF_TRY_DONE(ff_storage_use(&storage, operands.operand, 1, &error));
    status = run(operands.operand[0], &storage, json, &error);
done:
    ff_positionals_free(&operands);
    return status == FF_OK ? 0 : ff_command_fail(&error, NULL, 0, NULL);
}
