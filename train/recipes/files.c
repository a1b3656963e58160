#include "train/recipes/files.h"

#include "format/base/path.h"
#include "format/cli/nearest.h"
#include "train/recipes/table.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_BYTES = 64 };

static const char shipped[] = "share/ffpack/recipes";

/* *folder: the folder of the shipped files; NULL if it is missing, then *sought = the two paths. */
static ff_status find_folder(char **folder, char **sought, ff_error *error) {
    char *program, *above = NULL;
    *folder = *sought = NULL;
    FF_TRY(ff_path_of_program(&program, error));
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_format(&above, error, "%.*s", (int)(ff_path_base(program) - program), program));
    if (ff_path_exists("%s/%s", program, shipped))
        FF_TRY_DONE(ff_path_join(folder, program, shipped, error));
    else if (ff_path_exists("%s%s", above, shipped))
        FF_TRY_DONE(ff_path_join(folder, above, shipped, error));
    else
        FF_TRY_DONE(ff_format(sought, error, "%s/%s nor %s%s", program, shipped, above, shipped));
done:
    free(program);
    free(above);
    return status;
}

static ff_status add_name(ff_buffer *known, ff_nearest *nearest, const char *name,
                          ff_error *error) {
    ff_nearest_offer(nearest, name);
    return ff_buffer_printf(known, error, "%s%s", known->length ? ", " : "", name);
}

/* `files`: of the folder, by name. `sought`: from find_folder. */
static ff_status refuse(const char *given, struct dirent **files, int count, const char *sought,
                        ff_error *error) {
    ff_buffer known = {0};
    ff_nearest nearest = {.wanted = given, .length = strlen(given)};
    char(*names)[NAME_BYTES], near[NAME_BYTES] = "";
    ff_status status;
    FF_TRY(ff_alloc(&names, (uint64_t)count + 1, NAME_BYTES, "the recipes", error));
    for (int i = 0; i < count; i++)
        if (ff_path_stem(names[i], NAME_BYTES, files[i]->d_name, ".txt"))
            FF_TRY_DONE(add_name(&known, &nearest, names[i], error));
    for (int i = 0; ff_recipe_name(i); i++)
        FF_TRY_DONE(add_name(&known, &nearest, ff_recipe_name(i), error));
    if (sought)
        FF_TRY_DONE(ff_fail(error, FF_FAILED,
                            "--recipe: '%s' is unknown, and fftrain's recipe files are missing: "
                            "neither %s exists; copy share from where fftrain was built or "
                            "installed, or use make install or make bundle; the recipes without "
                            "files are %s",
                            given, sought, known.bytes));
    if (nearest.name) snprintf(near, sizeof near, "; did you mean %s?", nearest.name);
    status = ff_fail(error, FF_USAGE, "--recipe: '%s' is unknown%s%s recipes are %s", given, near,
                     *near ? " The" : "; the", known.bytes);
done:
    free(names);
    ff_buffer_free(&known);
    return status;
}

/* A folder with the name of a recipe is not a recipe file. */
static bool may_be_file(const char *given) {
    struct stat info;
    return stat(given, &info) == 0 && (strchr(given, '/') || !S_ISDIR(info.st_mode));
}

ff_status ff_recipe_find(char **path, const char *given, ff_error *error) {
    char *folder, *sought;
    struct dirent **files = NULL;
    int count = 0;
    ff_status status = FF_OK;
    *path = NULL;
    if (ff_recipe_named(given)) return FF_OK;
    FF_TRY(find_folder(&folder, &sought, error));
    if (folder && !strchr(given, '/') && ff_path_exists("%s/%s.txt", folder, given)) {
        status = ff_format(path, error, "%s/%s.txt", folder, given);
    } else if (may_be_file(given)) {
        status = ff_format(path, error, "%s", given);
    } else {
        if (folder) count = scandir(folder, &files, NULL, alphasort);
        if (count < 0)
            status = ff_fail_errno(error, "%s: cannot read the folder", folder);
        else
            status = refuse(given, files, count, sought, error);
        for (int i = 0; i < count; i++) free(files[i]);
        free(files);
    }
    free(folder);
    free(sought);
    return status;
}
