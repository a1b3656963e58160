#include "train/commands/run_given.h"

#include "format/base/path.h"
#include "train/checkpoint/run_folder.h"
#include "train/commands/settings.h"
#include "train/sets/splits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ff_status ff_run_given_checkpoint(const char *given, char **path, ff_error *error) {
    const ff_status status = ff_checkpoint_find(given, path, error);
    if (status == FF_USAGE) *path = NULL;
    return status == FF_USAGE ? FF_OK : status;
}

bool ff_run_given_is(const char *path) {
    static const char *const ends[] = {".safetensors", ".pth", ".pt", ".bin"};
    char *folder = NULL;
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && !strcmp(path + length - end, ends[i])) return true;
    }
    const bool is = ff_run_given_checkpoint(path, &folder, NULL) == FF_OK && folder;
    free(folder);
    return is;
}

void ff_run_given_tell(const char *given, const char *checkpoint) {
    if (!checkpoint || !strcmp(checkpoint, given)) return;
    char *real = realpath(checkpoint, NULL); /* best and last are links */
    fprintf(stderr, "fftrain: %s: takes its checkpoint %s%s%s\n", given, ff_path_base(checkpoint),
            real ? ", " : "", real ? ff_path_base(real) : "");
    free(real);
}

/* The options' values in the run's recipe. */
static ff_status read_recipe(const ff_safetensors *state, const char *where, char **data,
                             char **endpoint, ff_error *error) {
    const char *text = ff_safetensors_text(state, FF_CHECKPOINT_RECIPE);
    ff_settings settings = ff_settings_default();
    char *recipe;
    FF_TRY(ff_copy_string(&recipe, text ? text : "", error));
    ff_status status = ff_settings_read(&settings, recipe, where, error);
    const char *val = settings.trainer.val ? settings.trainer.val : settings.trainer.data;
    if (status == FF_OK && val && !ff_splits_val_is_none(val))
        status = ff_copy_string(data, val, error);
    if (status == FF_OK && *data && ff_storage_is_url(*data) && settings.storage.endpoint)
        status = ff_copy_string(endpoint, settings.storage.endpoint, error);
    free(recipe);
    return status;
}

ff_status ff_run_given_val(const char *checkpoint, char **data, char **endpoint, char content[33],
                           ff_error *error) {
    ff_safetensors *state = NULL;
    char *path = NULL;
    ff_status status;
    *data = *endpoint = NULL;
    if (!checkpoint) return ff_fail(error, FF_USAGE, "no packed set is named to evaluate on");
    FF_TRY_DONE(ff_path_join(&path, checkpoint, FF_CHECKPOINT_STATE_FILE, error));
    FF_TRY_DONE(ff_safetensors_open(&state, path, error));
    const char *id = ff_safetensors_text(state, FF_CHECKPOINT_VAL);
    const char *selected = ff_safetensors_text(state, FF_CHECKPOINT_SELECTED);
    snprintf(content, 33, "%s", id ? id : "");
    if (selected && *selected && !strstr(selected, "evaluates on all samples"))
        FF_TRY_DONE(ff_fail(error, FF_USAGE,
                            "no packed set is named to evaluate on, and the run of %s had a part "
                            "of one (--fold): it %s",
                            checkpoint, selected));
    if (*content) FF_TRY_DONE(read_recipe(state, checkpoint, data, endpoint, error));
    if (!*data)
        status = ff_fail(error, FF_USAGE,
                         "no packed set is named to evaluate on, and the run of %s had no "
                         "validation set",
                         checkpoint);
done:
    ff_safetensors_close(&state);
    free(path);
    return status;
}
