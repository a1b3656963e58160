#include "train/needs.h"

#include "format/base/say.h"
#include "loader/device_absent.h"
#include "train/recipe.h"

#include <inttypes.h>
#include <math.h>

static ff_status add_mapped(uint64_t *bytes, ff_dataset *dataset, ff_error *error) {
    if (!dataset) return FF_OK;
    *bytes += ff_dataset_index_bytes(dataset);
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard(dataset, i, &shard, error));
        *bytes += shard.file_bytes;
    }
    return FF_OK;
}

/* Of a GPU that is there and has given the memory already. */
static ff_status ask_device(ff_needs *needs, const ff_recipe *recipe, ff_error *error) {
    ff_device *device = recipe->device->device;
    const ff_feed *feeds[] = {recipe->train_feed, recipe->val_feed};
    uint64_t total;
    for (int role = 0; role < FF_ROLE_COUNT; role++)
        needs->device_bytes += ff_model_bytes(recipe->model, (ff_role)role);
    for (int i = 0; i < 2; i++) {
        if (!feeds[i]) continue;
        needs->device_bytes += ff_feed_describe(feeds[i]).device_bytes;
        needs->host_bytes += ff_feed_describe(feeds[i]).pinned_bytes;
    }
    FF_TRY(device->table->memory(device, &needs->device_has, &total, error));
    needs->device_has += needs->device_bytes;
    return FF_OK;
}

ff_status ff_needs_of(ff_needs *needs, const ff_recipe *recipe, ff_error *error) {
    *needs = (ff_needs){.host = ff_host_memory_left("")};
    FF_TRY(add_mapped(&needs->mapped_bytes, recipe->splits.train, error));
    FF_TRY(add_mapped(&needs->mapped_bytes, recipe->splits.val, error));
    ff_device *device = recipe->device ? recipe->device->device : recipe->counted;
    if (!ff_device_is_absent(device)) return ask_device(needs, recipe, error);
    const ff_absent_bytes most = ff_device_absent_most(device);
    needs->host_bytes = most.pinned;
    if (recipe->counted) {
        needs->host_bytes += most.device;
        return FF_OK;
    }
    uint64_t free_bytes;
    needs->device_bytes = most.device;
    return device->table->memory(device, &free_bytes, &needs->device_has, error);
}

void ff_needs_print(FILE *out, const ff_needs *needs) {
    fprintf(out, "host memory    needs %s", ff_say_bytes(needs->host_bytes).text);
    if (needs->host.bytes != UINT64_MAX)
        fprintf(out, ", has %s %s", ff_say_bytes(needs->host.bytes).text, needs->host.limit);
    fprintf(out, "; beside it %s of the sets are mapped, as page cache\n",
            ff_say_bytes(needs->mapped_bytes).text);
    if (needs->device_has)
        fprintf(out, "device memory  needs %s, has %s\n", ff_say_bytes(needs->device_bytes).text,
                ff_say_bytes(needs->device_has).text);
}

/* What the recipe would need with another batch; false where it cannot be made. */
static bool needs_with(const ff_recipe *recipe, int64_t batch, uint64_t *bytes) {
    ff_recipe_options options = *recipe->options;
    ff_recipe *other;
    options.batch = batch;
    options.counts = true;
    if (ff_recipe_create(&other, &options, NULL) != FF_OK) return false;
    *bytes = other->needs.host_bytes;
    ff_recipe_destroy(&other);
    return true;
}

/* The largest batch that fits, nearly: needs grow with it almost in a line, and what is said was
 * counted. 0 = none was found. */
static int64_t batch_that_fits(const ff_recipe *recipe) {
    enum { TRIES = 4 };
    const double has = (double)recipe->needs.host.bytes;
    double above = (double)recipe->needs.host_bytes, per_sample = above / (double)recipe->batch;
    int64_t at = recipe->batch, fits = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t bytes;
        int64_t next = at + (int64_t)floor((has - above) / per_sample);
        if (next > 64) next -= next % 8;
        if (next == at && above > has) next--;
        if (next < 1) next = 1;
        if (next == at || next <= fits || !needs_with(recipe, next, &bytes)) break;
        if ((double)bytes <= has) fits = next;
        per_sample = (above - (double)bytes) / (double)(at - next);
        above = (double)bytes;
        at = next;
        if (per_sample <= 0) break;
    }
    return fits;
}

ff_status ff_needs_check(const ff_recipe *recipe, ff_error *error) {
    const ff_needs *needs = &recipe->needs;
    char advice[64] = "a smaller --batch may fit";
    if (needs->device_bytes > needs->device_has)
        return ff_fail(error, FF_NO_MEMORY,
                       "the run needs %s of the device's memory with batches of %" PRId64
                       ", and %s has %s; a smaller --batch may fit",
                       ff_say_bytes(needs->device_bytes).text, recipe->batch, recipe->device->name,
                       ff_say_bytes(needs->device_has).text);
    if (needs->host_bytes <= needs->host.bytes) return FF_OK;
    if (recipe->counted) {
        const int64_t fits = batch_that_fits(recipe);
        if (fits)
            snprintf(advice, sizeof advice, "--batch %" PRId64 " would fit", fits);
        else
            snprintf(advice, sizeof advice, "take a smaller model or smaller samples");
    }
    return ff_fail(error, FF_NO_MEMORY,
                   "the run needs %s of memory with batches of %" PRId64
                   ", and this machine has %s %s; %s",
                   ff_say_bytes(needs->host_bytes).text, recipe->batch,
                   ff_say_bytes(needs->host.bytes).text, needs->host.limit, advice);
}
