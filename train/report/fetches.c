#include "train/report/fetches.h"

#include "format/cli/say.h"
#include "loader/host/cache_plan.h"

/* Counting over more positions takes seconds. */
#define POSITIONS_MOST (UINT64_C(4) << 20)

/* What two epochs fetch with the cache: false if it cannot be counted, or only with entries that
 * are not there, for which the first step would wait. */
static bool count(const ff_trainer *trainer, uint64_t cache_bytes, ff_cache_fetches *fetches) {
    ff_loader_options input = trainer->train_input;
    ff_cache_plan *plan = NULL;
    if (trainer->train_count > POSITIONS_MOST || !ff_dataset_has_index(trainer->splits.train))
        return false;
    input.position = input.first_cut = 0;
    input.block = trainer->block;
    input.group = trainer->group;
    const bool done =
        ff_cache_plan_create(&plan, trainer->splits.train, &input, 2, NULL) == FF_OK &&
        ff_cache_plan_count(plan, cache_bytes, FF_REPLACES_FURTHEST, fetches, NULL) == FF_OK;
    ff_cache_plan_destroy(&plan);
    return done;
}

void ff_fetches_print(FILE *out, const ff_trainer *trainer, const ff_loader_info *loader) {
    const ff_dataset *set = trainer->splits.train;
    ff_cache_fetches fetches;
    const char *place;
    uint64_t limit, set_bytes, there;
    if (!ff_dataset_cache(set, &place, &limit, &set_bytes, &there)) return;
    fprintf(out, "cache          %s in %s", ff_say_bytes(limit).text, place);
    if (limit >= set_bytes) {
        fprintf(out, ": the first epoch fetches %s, further ones nothing\n",
                ff_say_bytes(set_bytes > there ? set_bytes - there : 0).text);
        return;
    }
    if (count(trainer, limit, &fetches))
        fprintf(out, ": an epoch fetches %s", ff_say_bytes(fetches.further).text);
    else
        fprintf(out, ": smaller than the set, ffinspect --cache-plan says what an epoch fetches");
    fprintf(out,
            "; with --cache-size %lluM, which has all of the set, only the first one does, %s\n",
            (unsigned long long)(set_bytes >> 20) + 1, ff_say_bytes(set_bytes).text);
    if (loader->cache_wanted) fprintf(out, "               %s\n", ff_loader_say_cache(loader).text);
}
