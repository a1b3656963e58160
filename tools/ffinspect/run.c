#include "tools/ffinspect/run.h"

#include "format/cli/say.h"
#include "format/disk/set.h"
#include "format/reader/verification.h"
#include "tools/ffinspect/cache_plan.h"
#include "tools/ffinspect/checks/bench.h"
#include "tools/ffinspect/document.h"
#include "tools/ffinspect/facts/keys.h"
#include "tools/ffinspect/facts/splits.h"
#include "tools/ffinspect/facts/text.h"
#include "tools/ffinspect/find.h"
#include "tools/ffinspect/grid.h"
#include "tools/ffinspect/npy.h"
#include "tools/ffinspect/sample.h"
#include "tools/ffinspect/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ff_status ff_inspect_check_options(const ff_inspect_options *options, ff_error *error) {
    unsigned rows, columns;
    if (options->grid && !options->png)
        return ff_fail(error, FF_USAGE, "--grid needs --png FILE, to which the sheet is written");
    if (options->label && !options->png)
        return ff_fail(error, FF_USAGE, "--label chooses the names under the pictures of --png");
    if (options->null && !options->keys)
        return ff_fail(error, FF_USAGE, "-0 ends the keys of --keys, but --keys is missing");
    if (options->keys && (options->json || options->verify || options->stats || options->sample ||
                          options->bench || options->npy || options->png || options->find))
        return ff_fail(error, FF_USAGE,
                       "--keys prints keys and nothing else; use it without another option%s",
                       options->json ? " (--json --sample 0: has the keys, too)" : "");
    FF_TRY(ff_inspect_check_plan(options, error));
    if (options->grid) FF_TRY(ff_inspect_grid_size(options->grid, &rows, &columns, error));
    bool npy_out = options->npy && !strcmp(options->npy, "-");
    bool png_out = options->png && !strcmp(options->png, "-");
    if ((npy_out || png_out) &&
        (options->json || options->verify || options->stats || options->bench ||
         (npy_out && options->png) || (png_out && (options->npy || options->sample))))
        return ff_fail(error, FF_USAGE,
                       "--%s - writes to standard output, and so does another "
                       "option; name a file",
                       npy_out ? "npy" : "png");
    return FF_OK;
}

/* ---- printing text ------------------------------------------------------------------------ */

static ff_status print_stats(const ff_inspect_options *options, ff_dataset *dataset,
                             const char *name, ff_error *error) {
    ff_channel_stats *stats;
    FF_TRY(ff_inspect_stats(&stats, dataset, (int)options->jobs, error));
    ff_inspect_print_stats(dataset, name, stats);
    free(stats);
    return FF_OK;
}

static ff_status print_bench(const ff_inspect_options *options, const char *path, const char *name,
                             ff_error *error) {
    ff_bench bench;
    FF_TRY(ff_inspect_bench(&bench, path, (int)options->jobs, (uint64_t)options->seed, error));
    ff_inspect_print_bench(name, &bench);
    return FF_OK;
}

static ff_status write_png(const ff_inspect_options *options, const ff_set *list, ff_error *error) {
    char *sentence;
    FF_TRY(ff_inspect_grid(list, options, &sentence, error));
    if (strcmp(options->png, "-")) printf("%s\n", sentence);
    free(sentence);
    return FF_OK;
}

/* With --sample, writes only those samples. */
static ff_status write_npy(const ff_inspect_options *options, ff_dataset *dataset,
                           ff_error *error) {
    uint64_t begin = 0, end = ff_dataset_count(dataset);
    if (options->sample) FF_TRY(ff_inspect_range(options->sample, end, &begin, &end, error));
    char *sentence;
    FF_TRY(ff_inspect_write_npy(dataset, options->npy, begin, end, &sentence, error));
    if (strcmp(options->npy, "-")) printf("%s\n", sentence);
    free(sentence);
    return FF_OK;
}

static ff_status print_samples(const ff_inspect_options *options, ff_dataset *dataset,
                               ff_error *error) {
    uint64_t begin, end;
    FF_TRY(ff_inspect_range(options->sample, ff_dataset_count(dataset), &begin, &end, error));
    return ff_inspect_print_samples(dataset, begin, end, error);
}

static ff_status print_split(const ff_inspect_options *options, const ff_split *split,
                             const char *name, bool first, ff_error *error) {
    ff_dataset *dataset;
    ff_status status;
    FF_TRY(ff_dataset_open(&dataset, split->path, FF_VERIFY_FIRST, error));
    if (!ff_inspect_asked(options)) {
        if (!first) putchar('\n');
        FF_TRY_DONE(
            ff_inspect_print_summary(dataset, name, (uint64_t)options->classes_limit, error));
    }
    if (options->stats) FF_TRY_DONE(print_stats(options, dataset, name, error));
    if (options->sample && !options->npy) FF_TRY_DONE(print_samples(options, dataset, error));
    if (options->bench) FF_TRY_DONE(print_bench(options, split->path, name, error));
    if (options->npy) FF_TRY_DONE(write_npy(options, dataset, error));
    status = FF_OK;
done:
    ff_dataset_close(&dataset);
    return status;
}

static ff_status run_text(const ff_inspect_options *options, const ff_set *list, ff_error *error) {
    if (options->keys) return ff_inspect_print_keys(list, options->null, error);
    if (options->verify) FF_TRY(ff_verification_print(list, (int)options->jobs, stdout, error));
    if (options->find) FF_TRY(ff_inspect_print_found(list, options->find, error));
    bool others = options->stats || options->sample || options->bench || options->npy ||
                  !ff_inspect_asked(options);
    if (list->count > 1 && !ff_inspect_asked(options))
        printf("%s: %zu splits\n\n", options->path, list->count);
    for (size_t i = 0; i < list->count && others; i++) {
        const ff_split *split = &list->split[i];
        FF_TRY(
            print_split(options, split, *split->name ? split->name : split->path, i == 0, error));
    }
    return options->png ? write_png(options, list, error) : FF_OK;
}

ff_status ff_inspect_run(const ff_inspect_options *options, ff_error *error) {
    ff_set list;
    ff_status status = ff_inspect_find_splits(&list, options->path, error);
    if (status == FF_OK && options->sample)
        status = ff_inspect_one_split(&list, options->path, "--sample", error);
    if (status == FF_OK && options->npy)
        status = ff_inspect_one_split(&list, options->path, "--npy", error);
    if (status == FF_OK && options->cache_plan)
        status = ff_inspect_one_split(&list, options->path, "--cache-plan", error);
    if (status == FF_OK && options->cache_plan)
        status = ff_inspect_print_plan(options, list.split[0].path, error);
    else if (status == FF_OK)
        status = options->json ? ff_inspect_document(options, &list, error)
                               : run_text(options, &list, error);
    ff_set_free(&list);
    return status;
}
