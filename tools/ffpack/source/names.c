#include "tools/ffpack/source/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const ff_split_names[FF_SPLIT_NAMES] = {"train", "val", "test"};

int ff_split_rank(const char *name, size_t bytes) {
    static const struct {
        const char *word;
        int rank;
    } words[] = {{"train", 0}, {"training", 0},   {"val", 1},  {"valid", 1},
                 {"dev", 1},   {"validation", 1}, {"test", 2}, {"testing", 2}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].word) == bytes && !strncasecmp(name, words[i].word, bytes))
            return words[i].rank;
    return -1;
}

bool ff_is_image_name(const char *name) {
    static const char *const extensions[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                             ".pgm", ".tif",  ".tiff", ".webp"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        size_t tail = strlen(extensions[i]);
        if (length >= tail && !strcasecmp(name + length - tail, extensions[i])) return true;
    }
    return false;
}

static int compare_names(const void *a, const void *b, void *bytes) {
    size_t first, second;
    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    return strcmp((char *)bytes + first, (char *)bytes + second);
}

ff_status ff_names_add(ff_names *names, const char *name, size_t length, ff_error *error) {
    FF_TRY(
        ff_reserve(&names->bytes, &names->capacity, names->used + length + 1, 1, "names", error));
    FF_TRY(ff_reserve(&names->offset, &names->offset_capacity, names->count + 1,
                      sizeof *names->offset, "names", error));
    memcpy(names->bytes + names->used, name, length);
    names->bytes[names->used + length] = 0;
    names->offset[names->count++] = names->used;
    names->used += length + 1;
    return FF_OK;
}

ff_status ff_names_add_text(ff_names *names, ff_error *error, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return ff_fail(error, FF_NO_MEMORY, "not enough memory for a note");
    const ff_status status = ff_names_add(names, text, (size_t)length, error);
    free(text);
    return status;
}

void ff_names_sort(ff_names *names) {
    if (names->count)
        qsort_r(names->offset, names->count, sizeof *names->offset, compare_names, names->bytes);
}

ff_status ff_names_read(ff_names *names, const char *path,
                        bool (*keep)(const char *name, unsigned char type), ff_error *error) {
    *names = (ff_names){0};
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot list", path);
    ff_status status = FF_OK;
    while (status == FF_OK) {
        errno = 0;
        const struct dirent *found = readdir(folder);
        if (!found) {
            if (errno) status = ff_fail_errno(error, "%s: cannot list", path);
            break;
        }
        if (!strcmp(found->d_name, ".") || !strcmp(found->d_name, "..")) continue;
        if (!keep || keep(found->d_name, found->d_type))
            status = ff_names_add(names, found->d_name, strlen(found->d_name), error);
    }
    closedir(folder);
    if (status == FF_OK)
        ff_names_sort(names);
    else
        ff_names_free(names);
    return status;
}

void ff_names_free(ff_names *names) {
    free(names->bytes);
    free(names->offset);
    *names = (ff_names){0};
}
