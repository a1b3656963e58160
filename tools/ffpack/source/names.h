/* Lists of names, in one block of memory. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_NAMES_H
#define FF_FFPACK_SOURCE_NAMES_H

#include "format/base/memory.h"

typedef struct ff_names {
    size_t count, used, capacity, offset_capacity;
    char *bytes;    /* [used] the names, each with a final zero */
    size_t *offset; /* [count] into bytes */
} ff_names;

static inline const char *ff_names_at(const ff_names *names, size_t index) {
    return names->bytes + names->offset[index];
}

FF_MUST_USE ff_status ff_names_add(ff_names *names, const char *name, size_t length,
                                   ff_error *error);
/* Adds a text made as by printf: a note. */
FF_MUST_USE ff_status ff_names_add_text(ff_names *names, ff_error *error, const char *format, ...)
    FF_PRINTF(3, 4);
/* In the order of their bytes, as Python sorts UTF-8. */
void ff_names_sort(ff_names *names);

/* All names in a folder except . and .., sorted. `keep` (NULL: all) filters by name and by dirent's
 * d_type, which may be DT_UNKNOWN. FF_IO if the folder cannot be read. */
FF_MUST_USE ff_status ff_names_read(ff_names *names, const char *path,
                                    bool (*keep)(const char *name, unsigned char type),
                                    ff_error *error);
void ff_names_free(ff_names *names);

/* Whether a file of this name is an image to torchvision's ImageFolder: .jpg .jpeg .png .ppm .bmp
 * .pgm .tif .tiff .webp, in any case. */
bool ff_is_image_name(const char *name);
#define FF_IMAGE_NAMES ".jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp"

/* The split meant by a name of `bytes` bytes, in any case: train and training; val, valid,
 * validation and dev; test and testing. Its index in ff_split_names, or -1. */
int ff_split_rank(const char *name, size_t bytes);
#define FF_SPLIT_NAMES 3
extern const char *const ff_split_names[FF_SPLIT_NAMES];

#endif
