#include "tools/ffinspect/document.h"

#include "format/base/json.h"
#include "format/cli/options.h"
#include "format/cli/say.h"
#include "format/disk/set.h"
#include "tools/ffinspect/facts/text.h"
#include "tools/ffinspect/find.h"
#include "tools/ffinspect/grid.h"
#include "tools/ffinspect/json.h"
#include "tools/ffinspect/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets a member; takes the value over, also if it is NULL or setting fails. */
static ff_status set(json_t *object, const char *name, json_t *value, ff_error *error) {
    if (json_object_set_new(object, name, value) == 0) return FF_OK;
    return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
}

static ff_status add_stats(json_t *object, const ff_inspect_options *options, ff_dataset *dataset,
                           ff_error *error) {
    ff_channel_stats *stats;
    json_t *value;
    FF_TRY(ff_inspect_stats(&stats, dataset, (int)options->jobs, error));
    ff_status status =
        ff_inspect_json_stats(&value, stats, ff_dataset_metadata(dataset)->channels, error);
    free(stats);
    FF_TRY(status);
    return set(object, "stats", value, error);
}

static ff_status add_samples(json_t *object, const ff_inspect_options *options, ff_dataset *dataset,
                             ff_error *error) {
    uint64_t begin, end;
    json_t *value;
    FF_TRY(ff_inspect_range(options->sample, ff_dataset_count(dataset), &begin, &end, error));
    FF_TRY(ff_inspect_json_samples(&value, dataset, begin, end, error));
    return set(object, "sample", value, error);
}

static ff_status add_bench(json_t *object, const ff_inspect_options *options,
                           const ff_dataset *dataset, ff_error *error) {
    ff_bench bench;
    json_t *value;
    FF_TRY(ff_inspect_bench(&bench, ff_dataset_path(dataset), (int)options->jobs,
                            (uint64_t)options->seed, error));
    FF_TRY(ff_inspect_json_bench(&value, &bench, error));
    return set(object, "bench", value, error);
}

static ff_status add_files(json_t *object, const ff_inspect_options *options, ff_dataset *dataset,
                           ff_error *error) {
    if (options->npy) {
        uint64_t begin = 0, end = ff_dataset_count(dataset);
        if (options->sample) FF_TRY(ff_inspect_range(options->sample, end, &begin, &end, error));
        char *sentence;
        FF_TRY(ff_inspect_write_npy(dataset, options->npy, begin, end, &sentence, error));
        free(sentence);
        FF_TRY(set(object, "npy", ff_json_text(options->npy), error));
    }
    return FF_OK;
}

static ff_status add_facts(json_t *object, const ff_inspect_options *options, const ff_split *split,
                           ff_error *error) {
    ff_dataset *dataset;
    json_t *summary = NULL;
    FF_TRY(ff_dataset_open(&dataset, split->path, FF_VERIFY_FIRST, error));
    ff_status status = ff_inspect_json_summary(&summary, dataset, error);
    if (status == FF_OK && json_object_update(object, summary))
        status = ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    json_decref(summary);
    if (status == FF_OK && options->stats) status = add_stats(object, options, dataset, error);
    if (status == FF_OK && options->sample && !options->npy)
        status = add_samples(object, options, dataset, error);
    if (status == FF_OK && options->bench) status = add_bench(object, options, dataset, error);
    if (status == FF_OK) status = add_files(object, options, dataset, error);
    ff_dataset_close(&dataset);
    return status;
}

static ff_status add_sheet(json_t *document, const ff_inspect_options *options, const ff_set *list,
                           ff_error *error) {
    char *sentence;
    FF_TRY(ff_inspect_grid(list, options, &sentence, error));
    free(sentence);
    return set(document, "png", ff_json_text(options->png), error);
}

/* A key that no sample has is an error, reported after the document was printed. */
static ff_status add_found(json_t *document, const ff_inspect_options *options, const ff_set *list,
                           ff_error *verdict, ff_error *error) {
    json_t *found;
    FF_TRY(ff_inspect_json_found(&found, list, options->find, verdict, error));
    return set(document, "found", found, error);
}

/* A broken split is listed with its problems and nothing else; `*verdict` keeps the first one. */
static ff_status add_verification(json_t *object, const ff_inspect_options *options,
                                  const ff_split *split, bool *good, ff_error *verdict,
                                  ff_error *error) {
    ff_verification found;
    ff_error problem = {0};
    json_t *value;
    ff_status verified = ff_verification_run(&found, split->path, (int)options->jobs, &problem);
    uint64_t problems = found.problem_count + found.problems_left_out;
    ff_status status = ff_inspect_json_verification(&value, &found, error);
    ff_verification_free(&found);
    FF_TRY(status);
    *good = verified == FF_OK;
    if (!*good && verdict->status == FF_OK)
        (void)ff_fail(verdict, verified, "%s: %s, the first: %s", split->path,
                      ff_say_count(problems, "problem", "problems").text, problem.message);
    return set(object, "verify", value, error);
}

static ff_status add_split(json_t *list, const ff_inspect_options *options, const ff_split *split,
                           ff_error *verdict, ff_error *error) {
    json_t *object = json_object();
    bool good = true;
    if (json_array_append_new(list, object))
        return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    FF_TRY(set(object, "path", ff_json_text(split->path), error));
    if (options->verify) FF_TRY(add_verification(object, options, split, &good, verdict, error));
    return good ? add_facts(object, options, split, error) : FF_OK;
}

ff_status ff_inspect_document(const ff_inspect_options *options, const ff_set *list,
                              ff_error *error) {
    ff_error verdict = {0};
    json_t *splits = json_array(),
           *document = json_pack("{s:s, s:o, s:O}", "ffinspect", ff_version, "path",
                                 ff_json_text(options->path), "splits", splits);
    ff_status status = FF_OK;
    if (!document) status = ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    for (size_t i = 0; i < list->count && status == FF_OK; i++)
        status = add_split(splits, options, &list->split[i], &verdict, error);
    if (status == FF_OK && options->find && verdict.status == FF_OK)
        status = add_found(document, options, list, &verdict, error);
    if (status == FF_OK && options->png && verdict.status == FF_OK)
        status = add_sheet(document, options, list, error);
    /* Failures of the stream itself are found at exit. */
    if (status == FF_OK) {
        if (json_dumpf(document, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) && !ferror(stdout))
            status = ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
        else
            putchar('\n');
    }
    json_decref(document);
    json_decref(splits);
    if (status == FF_OK && verdict.status != FF_OK) {
        status = verdict.status;
        if (error) *error = verdict;
    }
    return status;
}
