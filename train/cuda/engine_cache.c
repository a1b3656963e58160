#include "train/cuda/engine_cache.h"

#include "format/base/memory.h"
#include "train/cuda/plan_cache.h"

#include <stdlib.h>

/* Lines about plans that cannot be used: a whole folder may be of another version. */
enum { MOST_TOLD = 3 };

/* What a plan depends on. Of the choice among engines: the driver too; of an `engine`, which cuDNN
 * compiled itself: not. */
static ff_status key_of(const ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                        const char *driver, const char *engine, char **key, ff_error *error) {
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(spec, text);
    return ff_format(key, error, "%s; cuDNN %zu; driver %s; %s, %d.%d; workspace %zu%s; %s%s", text,
                     ff_cudnn_version(), engine ? "any" : driver, p->device.name, p->device.major,
                     p->device.minor, p->options.workspace_limit,
                     p->options.deterministic ? "; deterministic" : "",
                     engine ? "engine " : "choice", engine ? engine : "");
}

/* A plan of the cache; plan->plan stays NULL where there is none that can be used. */
ff_status ff_cudnn_cache_get(ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                             const char *driver, const char *engine, bool timed,
                             ff_cudnn_plan *plan, ff_library_engine *found, ff_error *error) {
    *plan = (ff_cudnn_plan){0};
    if (!p->options.cache_folder) return FF_OK;
    ff_plan_entry entry;
    ff_error failure = {0};
    char *key;
    FF_TRY(key_of(p, spec, driver, engine, &key, error));
    ff_status status = ff_plan_cache_get(p->options.cache_folder, key, &entry, &failure);
    free(key);
    if (status == FF_OK && entry.json && (!timed || entry.engine.timed))
        status = ff_cudnn_plan_load(plan, &p->device, entry.json, &failure);
    if (plan->plan && found) *found = entry.engine;
    ff_plan_entry_release(&entry);
    if (status == FF_NO_MEMORY) return ff_fail(error, status, "%s", failure.message);
    if (status != FF_OK && p->told_cache++ < MOST_TOLD)
        ff_cudnn_planner_note(p, "plan cache: %s; made anew", failure.message);
    return FF_OK;
}

/* That the cache cannot be written is worth a line, not a failure. */
void ff_cudnn_cache_put(ff_cudnn_planner *p, const ff_library_conv_spec *spec, const char *engine,
                        const ff_cudnn_plan *plan, const ff_library_engine *chosen) {
    if (!p->options.cache_folder) return;
    ff_error failure = {0};
    char *key = NULL;
    ff_plan_entry entry = {.engine = *chosen};
    ff_status status = key_of(p, spec, p->driver, engine, &key, &failure);
    if (status == FF_OK) status = ff_cudnn_plan_json(plan, &entry.json, &failure);
    if (status == FF_OK) status = ff_plan_cache_put(p->options.cache_folder, key, &entry, &failure);
    if (status != FF_OK) {
        ff_cudnn_planner_note(p, "plan cache: %s; nothing more is written to it", failure.message);
        free((char *)p->options.cache_folder);
        p->options.cache_folder = NULL;
    }
    free(entry.json);
    free(key);
}

bool ff_cudnn_cache_has(const ff_cudnn_planner *p, const ff_library_conv_spec *spec,
                        const char *engine) {
    if (!p->options.cache_folder) return false;
    ff_plan_entry entry = {0};
    char *key;
    bool has = false;
    if (key_of(p, spec, p->driver, engine, &key, NULL) != FF_OK) return false;
    if (ff_plan_cache_get(p->options.cache_folder, key, &entry, NULL) == FF_OK) has = entry.json;
    ff_plan_entry_release(&entry);
    free(key);
    return has;
}
