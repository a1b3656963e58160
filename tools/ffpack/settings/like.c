#include "tools/ffpack/settings/like.h"

#include "format/disk/set.h"
#include "format/reader/reader.h"
#include "format/weights/trained.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- where options are recorded
 * ------------------------------------------------------------------- */

static ff_status read_set(ff_metadata *metadata, const char *folder, ff_error *error) {
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
    const ff_status status = ff_metadata_copy(metadata, ff_dataset_metadata(dataset), error);
    ff_dataset_close(&dataset);
    return status;
}

static bool is_trained(const char *path) {
    struct stat info;
    char *checkpoint;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) return true;
    if (ff_checkpoint_find(path, &checkpoint, NULL) != FF_OK) return false;
    free(checkpoint);
    return true;
}

static ff_status refuse(const char *path, ff_error *error) {
    FF_TRY(ff_set_check_folder(path, error));
    FF_TRY(ff_set_refuse_part(path, error));
    return ff_fail(error, FF_USAGE,
                   "%s: is neither a packed set with an index, nor a run or checkpoint of fftrain",
                   path);
}

ff_status ff_like_read(ff_metadata *metadata, const char **kind, const char *path,
                       ff_error *error) {
    char *folder;
    *metadata = (ff_metadata){0};
    FF_TRY(ff_set_choose(&folder, path, FF_SPLIT_TRAIN, FF_SPLIT_TRAIN, error));
    *kind = folder ? "a packed set" : "a run";
    const ff_status status = folder             ? read_set(metadata, folder, error)
                             : is_trained(path) ? ff_trained_metadata(metadata, path, error)
                                                : refuse(path, error);
    free(folder);
    return status;
}

/* ---- its options ---------------------------------------------------------------------------- */

static void leave_out(ff_recorded *options, const char *name) {
    size_t kept = 0;
    for (size_t i = 0; i < options->count; i++)
        if (strncmp(options->option[i], name, strlen(name)) != 0)
            options->option[kept++] = options->option[i];
        else
            free(options->option[i]);
    options->count = kept;
}

ff_status ff_like_options(ff_recorded *options, const ff_metadata *metadata, ff_error *error) {
    FF_TRY(ff_recorded_options(options, metadata, error));
    leave_out(options, "--shuffle=");
    leave_out(options, "--mode=");
    /* A set made from arrays does not record that its images are grey. */
    if (metadata->channels != 1 && metadata->channels != 3) return FF_OK;
    return ff_recorded_add(options, metadata->channels == 1 ? "--mode=gray" : "--mode=rgb", error);
}

ff_status ff_like_text(const ff_recorded *options, ff_buffer *text, ff_error *error) {
    for (size_t i = 0; i < options->count; i++)
        FF_TRY(ff_buffer_printf(text, error, "%s%s", i ? " " : "", options->option[i]));
    return FF_OK;
}

/* ---- what no option sets -------------------------------------------------------------------- */

void ff_like_expect(ff_settings *settings, const ff_arguments *given, const ff_metadata *like) {
    const bool sized = given->resize || given->center_crop || given->max_side || given->pad_square;
    settings->like = given->like;
    if (given->mode < 0) settings->like_channels = like->channels;
    if (sized || like->variable_size) return;
    settings->like_height = like->height;
    settings->like_width = like->width;
}
