/* Recipes as files of options (format/cli/options.h): the shipped files train/recipes/NAME.txt,
 * installed in share/ffpack/recipes in the program's folder or next to it; and the user's files. */
#ifndef FF_TRAIN_RECIPE_FILES_H
#define FF_TRAIN_RECIPE_FILES_H

#include "format/base/status.h"

/* Finds what --recipe names: a row of table.h, then *path = NULL; a shipped file; or the path of a
 * file. The caller frees *path. FF_USAGE with the nearest name and all others if there is no such
 * recipe; FF_FAILED, with the searched paths, if the shipped files are missing. */
FF_MUST_USE ff_status ff_recipe_find(char **path, const char *given, ff_error *error);

#endif
