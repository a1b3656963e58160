#include "train/sets/folders.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The comma after the first folder of a list, NULL = none: the names of folders may have commas,
 * too, as in absolute paths that a recipe keeps. */
static char *comma_after(char *list) {
    struct stat info;
    for (char *comma = strchr(list, ','); comma; comma = strchr(comma + 1, ',')) {
        *comma = 0;
        const bool exists = stat(list, &info) == 0;
        *comma = ',';
        if (exists) return comma;
    }
    return stat(list, &info) == 0 ? NULL : strchr(list, ',');
}

ff_status ff_folders_read(ff_folders *folders, const char *data, ff_error *error) {
    struct stat info;
    const bool whole = stat(data, &info) == 0;
    *folders = (ff_folders){0};
    FF_TRY(ff_copy_string(&folders->text, data, error));
    for (char *rest = folders->text; rest; folders->count++) {
        char *comma = whole ? NULL : comma_after(rest);
        if (comma) *comma = 0;
        if (folders->count == FF_SETS_LIMIT || (!*rest && !whole && strchr(data, ','))) {
            const bool many = folders->count == FF_SETS_LIMIT;
            ff_folders_free(folders);
            return ff_fail(error, FF_USAGE, "--data %s: %s", data,
                           many ? "more than 64 folders" : "a folder without a name");
        }
        folders->path[folders->count] = rest;
        rest = comma ? comma + 1 : NULL;
    }
    return FF_OK;
}

void ff_folders_free(ff_folders *folders) {
    free(folders->text);
    *folders = (ff_folders){0};
}

char *ff_folders_absolute(const char *data) {
    ff_folders folders;
    char *list = NULL;
    if (ff_folders_read(&folders, data, NULL) != FF_OK) return NULL;
    for (size_t i = 0; i < folders.count; i++) {
        char *own = realpath(folders.path[i], NULL), *longer = NULL;
        if (own) (void)!ff_format(&longer, NULL, "%s%s%s", list ? list : "", list ? "," : "", own);
        free(own);
        free(list);
        list = longer;
        if (!list) break;
    }
    ff_folders_free(&folders);
    return list;
}
