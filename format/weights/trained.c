#include "format/weights/trained.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/weights/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

ff_status ff_checkpoint_find(const char *given, char **path, ff_error *error) {
    if (ff_path_exists("%s/" FF_CHECKPOINT_SUMS_FILE, given))
        return ff_copy_string(path, given, error);
    static const char *const links[] = {FF_RUN_BEST, FF_RUN_LAST};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (ff_path_exists("%s/" FF_RUN_CHECKPOINTS "/%s/" FF_CHECKPOINT_SUMS_FILE, given,
                           links[i]))
            return ff_format(path, error, "%s/" FF_RUN_CHECKPOINTS "/%s", given, links[i]);
    return ff_fail(error, FF_USAGE, "%s: is neither a checkpoint nor the folder of a run with one",
                   given);
}

/* The weights' file, allocated: `path` itself, or the weights in the folder of a run or a
 * checkpoint. */
static ff_status find_weights(const char *path, char **file, ff_error *error) {
    struct stat info;
    char *folder;
    if (stat(path, &info) != 0) return ff_fail_errno(error, "%s: cannot open", path);
    if (!S_ISDIR(info.st_mode)) return ff_copy_string(file, path, error);
    FF_TRY(ff_checkpoint_find(path, &folder, error));
    const ff_status status = ff_path_join(file, folder, FF_WEIGHTS_FILE, error);
    free(folder);
    return status;
}

/* Checks the JSON after the length that a safetensors file begins with; the length may be
 * anything. */
static ff_status check_start(const char *file, ff_error *error) {
    char head[9] = {0};
    uint64_t bytes;
    int fd;
    FF_TRY(ff_open_file(file, &fd, &bytes, error));
    const ff_status status =
        bytes < sizeof head ? FF_OK : ff_read_at(fd, file, head, sizeof head, 0, error);
    ff_close_file(&fd);
    if (status != FF_OK || head[8] == '{') return status;
    return ff_fail(error, FF_USAGE,
                   "%s: is not a safetensors file; wanted weights that fftrain wrote", file);
}

ff_status ff_trained_metadata(ff_metadata *metadata, const char *path, ff_error *error) {
    ff_safetensors *weights = NULL;
    char *file = NULL;
    ff_status status;
    *metadata = (ff_metadata){0};
    FF_TRY_DONE(find_weights(path, &file, error));
    FF_TRY_DONE(check_start(file, error));
    FF_TRY_DONE(ff_safetensors_open(&weights, file, error));
    const char *text = ff_safetensors_text(weights, FF_WEIGHTS_METADATA);
    if (!text)
        FF_TRY_DONE(ff_fail(error, FF_USAGE,
                            "%s: does not record how the images of its training were packed; "
                            "wanted weights that fftrain wrote",
                            file));
    status = ff_metadata_read(metadata, text, strlen(text), error);
    if (status != FF_OK) ff_fail_within(error, status, "%s", file);
done:
    ff_safetensors_close(&weights);
    free(file);
    return status;
}
