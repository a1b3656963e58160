#include "train/compute/cuda/engine_cache.h"

#include "format/base/memory.h"
#include "train/compute/cuda/plan_cache.h"

#include <stdlib.h>

/* The most notes about unusable plans: all plans of a folder may be of another version. */
enum { MOST_TOLD = 3 };

/* The key names everything a plan depends on. A choice among engines also depends on the driver; an
 * `engine` compiled by cuDNN does not. */
static ff_status key_of(const ff_engine_cache *c, const ff_library_conv_spec *spec,
                        const char *driver, const char *engine, char **key, ff_error *error) {
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(spec, text);
    return ff_format(key, error, "%s; cuDNN %zu; driver %s; %s, %d.%d; workspace %zu%s; %s%s", text,
                     ff_cudnn_version(), engine ? "any" : driver, c->device->name, c->device->major,
                     c->device->minor, c->options->workspace_limit,
                     c->options->deterministic ? "; deterministic" : "",
                     engine ? "engine " : "choice", engine ? engine : "");
}

static ff_status get(ff_engine_cache *c, const ff_library_conv_spec *spec, const char *driver,
                     const char *engine, bool timed, ff_cudnn_plan *plan, ff_library_engine *found,
                     ff_error *error) {
    ff_plan_entry entry;
    ff_error failure = {0};
    char *key;
    FF_TRY(key_of(c, spec, driver, engine, &key, error));
    ff_status status = ff_plan_cache_get(c->folder, key, &entry, &failure);
    free(key);
    if (status == FF_OK && entry.json && (!timed || entry.engine.timed))
        status = ff_cudnn_plan_load(plan, c->device, entry.json, &failure);
    if (plan->plan && found) *found = entry.engine;
    ff_plan_entry_release(&entry);
    if (status == FF_NO_MEMORY) return ff_fail(error, status, "%s", failure.message);
    if (status != FF_OK && c->told++ < MOST_TOLD)
        ff_library_note(c->options, "plan cache: %s; rebuilt", failure.message);
    return FF_OK;
}

ff_status ff_engine_cache_get(ff_engine_cache *c, const ff_library_conv_spec *spec,
                              const char *engine, bool timed, ff_cudnn_plan *plan,
                              ff_library_engine *found, ff_error *error) {
    *plan = (ff_cudnn_plan){0};
    if (!c->folder) return FF_OK;
    FF_TRY(get(c, spec, c->driver, engine, timed, plan, found, error));
    /* A choice made without a GPU equals the choice with a GPU and no timing. */
    if (plan->plan || engine || timed || !c->device->handle) return FF_OK;
    return get(c, spec, "none", NULL, false, plan, found, error);
}

void ff_engine_cache_put(ff_engine_cache *c, const ff_library_conv_spec *spec, const char *engine,
                         const ff_cudnn_plan *plan, const ff_library_engine *chosen) {
    if (!c->folder) return;
    ff_error failure = {0};
    char *key = NULL;
    ff_plan_entry entry = {.engine = *chosen};
    ff_status status;
    FF_TRY_DONE(key_of(c, spec, c->driver, engine, &key, &failure));
    FF_TRY_DONE(ff_cudnn_plan_json(plan, &entry.json, &failure));
    FF_TRY_DONE(ff_plan_cache_put(c->folder, key, &entry, &failure));
done:
    if (status != FF_OK) {
        ff_library_note(c->options, "plan cache: %s; nothing more is written to it",
                        failure.message);
        free(c->folder);
        c->folder = NULL;
    }
    free(entry.json);
    free(key);
}

bool ff_engine_cache_has(const ff_engine_cache *c, const ff_library_conv_spec *spec,
                         const char *engine) {
    if (!c->folder) return false;
    ff_plan_entry entry = {0};
    char *key;
    bool has = false;
    if (key_of(c, spec, c->driver, engine, &key, NULL) != FF_OK) return false;
    if (ff_plan_cache_get(c->folder, key, &entry, NULL) == FF_OK) has = entry.json;
    ff_plan_entry_release(&entry);
    free(key);
    return has;
}
