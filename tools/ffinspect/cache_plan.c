#include "tools/ffinspect/cache_plan.h"

#include "format/base/json.h"
#include "format/cli/say.h"
#include "format/storage/cache.h"
#include "loader/host/cache_plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const uint32_t percents[] = {10, 25, 50, 75, 90, 100};
enum { SIZES = sizeof percents / sizeof *percents };

/* A size of the cache, and what is fetched with it: as the cache removes pieces, and with the least
 * recently used one removed. */
typedef struct line {
    uint32_t percent;
    uint64_t cache_bytes;
    ff_cache_fetches furthest, oldest;
} line;

ff_status ff_inspect_check_plan(const ff_inspect_options *options, ff_error *error) {
    const char *own = options->epochs     ? "epochs"
                      : options->order    ? "order"
                      : options->block    ? "block"
                      : options->group    ? "group"
                      : options->machines ? "machines"
                      : options->batch    ? "batch"
                                          : NULL;
    if (!options->cache_plan && own)
        return ff_fail(error, FF_USAGE, "--%s is of --cache-plan, which is missing", own);
    if (!options->cache_plan) return FF_OK;
    if (options->verify || options->stats || options->sample || options->bench || options->npy ||
        options->png || options->find || options->keys)
        return ff_fail(error, FF_USAGE,
                       "--cache-plan prints a table and nothing else; use it without another view");
    if (options->batch && !options->machines)
        return ff_fail(error, FF_USAGE, "--batch is of --machines, which is missing");
    if (!ff_order_has_blocks((ff_order_kind)options->order) && (options->block || options->group))
        return ff_fail(error, FF_USAGE, "--%s is of --order block, and the order is %s",
                       options->block ? "block" : "group",
                       ff_order_name((ff_order_kind)options->order));
    return FF_OK;
}

static ff_loader_options loader_of(const ff_inspect_options *options) {
    ff_loader_options loader = ff_loader_defaults();
    loader.order = (ff_order_kind)options->order;
    loader.block = (uint64_t)options->block;
    loader.group = (uint64_t)options->group;
    loader.seed = options->seed == FF_INSPECT_NO_SEED ? 0 : (uint64_t)options->seed;
    loader.last_batch = FF_LAST_BATCH_KEEP;
    if (options->batch) loader.batch = (uint64_t)options->batch;
    if (options->machines) {
        loader.share_end = 1;
        loader.share_total = (uint32_t)options->machines;
        loader.memory_ranks = 1;
    }
    loader.access = FF_ACCESS_READ;
    loader.remote = true;
    loader.feed.raw = true; /* samples of different sizes, too */
    loader.threads = 1;
    return loader;
}

static ff_status count(const ff_cache_plan *plan, line lines[SIZES], ff_error *error) {
    const uint64_t all = ff_cache_plan_room(plan);
    for (int i = 0; i < SIZES; i++) {
        line *own = &lines[i];
        own->percent = percents[i];
        own->cache_bytes =
            ff_align_u64(all / 100 * percents[i] + all % 100 * percents[i] / 100, FF_PIECE_BYTES);
        FF_TRY(ff_cache_plan_count(plan, own->cache_bytes, FF_REPLACES_FURTHEST, &own->furthest,
                                   error));
        FF_TRY(
            ff_cache_plan_count(plan, own->cache_bytes, FF_REPLACES_OLDEST, &own->oldest, error));
    }
    return FF_OK;
}

static void print_text(const ff_inspect_options *options, const char *path,
                       const ff_cache_plan *plan, const line lines[SIZES]) {
    uint64_t block, group;
    ff_cache_plan_blocks(plan, &block, &group);
    printf("%s: an epoch uses %s; order %s", path, ff_say_bytes(ff_cache_plan_bytes(plan)).text,
           ff_order_name((ff_order_kind)options->order));
    if (block)
        printf(" (%s a block, %s a group)", ff_say_count(block, "sample", "samples").text,
               ff_say_count(group, "block", "blocks").text);
    printf("\n\n%12s  %6s  %25s  %25s\n", "cache", "of all", "fetched: first epoch, then",
           "least recently used");
    for (int i = 0; i < SIZES; i++)
        printf("%12s  %4u %%  %12s %12s  %12s %12s\n", ff_say_bytes(lines[i].cache_bytes).text,
               lines[i].percent, ff_say_bytes(lines[i].furthest.first).text,
               ff_say_bytes(lines[i].furthest.further).text,
               ff_say_bytes(lines[i].oldest.first).text,
               ff_say_bytes(lines[i].oldest.further).text);
}

static ff_status print_json(const char *path, const ff_cache_plan *plan, const line lines[SIZES],
                            ff_error *error) {
    uint64_t block, group;
    ff_cache_plan_blocks(plan, &block, &group);
    json_t *sizes = json_array();
    for (int i = 0; i < SIZES; i++)
        json_array_append_new(
            sizes,
            json_pack("{s:i, s:I, s:I, s:I, s:I, s:I}", "percent", (int)lines[i].percent,
                      "cache_bytes", (json_int_t)lines[i].cache_bytes, "first_epoch_bytes",
                      (json_int_t)lines[i].furthest.first, "further_epoch_bytes",
                      (json_int_t)lines[i].furthest.further,
                      "least_recently_used_first_epoch_bytes", (json_int_t)lines[i].oldest.first,
                      "least_recently_used_further_epoch_bytes",
                      (json_int_t)lines[i].oldest.further));
    json_t *object = json_pack("{s:o, s:I, s:I, s:I, s:o}", "path", ff_json_text(path),
                               "epoch_bytes", (json_int_t)ff_cache_plan_bytes(plan), "block",
                               (json_int_t)block, "group", (json_int_t)group, "sizes", sizes);
    char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for the plan");
    puts(text);
    free(text);
    return FF_OK;
}

ff_status ff_inspect_print_plan(const ff_inspect_options *options, const char *path,
                                ff_error *error) {
    const ff_loader_options loader = loader_of(options);
    ff_dataset *dataset;
    ff_cache_plan *plan = NULL;
    line lines[SIZES];
    ff_status status;
    FF_TRY(ff_dataset_open(&dataset, path, FF_VERIFY_FIRST, error));
    FF_TRY_DONE(ff_cache_plan_create(&plan, dataset, &loader,
                                     options->epochs ? (uint32_t)options->epochs : 3, error));
    FF_TRY_DONE(count(plan, lines, error));
    status = FF_OK;
    if (options->json)
        status = print_json(path, plan, lines, error);
    else
        print_text(options, path, plan, lines);
done:
    ff_cache_plan_destroy(&plan);
    ff_dataset_close(&dataset);
    return status;
}
