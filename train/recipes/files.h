/* Recipes as files of options (format/base/options.h): those shipped, train/recipes/NAME.txt, which
 * lie in share/ffpack/recipes below the program's folder or beside it; and the user's. */
#ifndef FF_TRAIN_RECIPE_FILES_H
#define FF_TRAIN_RECIPE_FILES_H

#include "format/base/status.h"

/* What --recipe names: a row of table.h, then *path = NULL; a shipped file; or the path of a
 * file. The caller frees *path. FF_USAGE with the nearest name and all others where it is none;
 * FF_FAILED, with where they were looked for, where the shipped files are missing. */
FF_MUST_USE ff_status ff_recipe_find(char **path, const char *given, ff_error *error);

#endif
