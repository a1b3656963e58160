/* The classes of ImageNet's validation images. Accepted:
 * - the devkit ILSVRC2012_devkit_t12, its .tar.gz or its folder: the ground truth's ids (1 to 1000,
 *   a line per image) through meta.mat, as torchvision reads them;
 * - a text with one wnid per line;
 * - a text with an image's name and its wnid per line, separated by blanks, a tab or a comma; the
 *   rest of a line is ignored, as is a first line without a wnid (LOC_val_solution.csv). The names'
 *   folders and extensions are ignored.
 * Lines without names belong to images by their numbers: ILSVRC2012_val_00000003 has the third
 * line, whatever images are missing. Images with other names take the lines in the order of names,
 * one line for each image. Thread rule: read-only once read. */
#ifndef FF_FFPACK_SOURCE_IMAGENET_LABELS_H
#define FF_FFPACK_SOURCE_IMAGENET_LABELS_H

#include "tools/ffpack/source/names.h"

#define FF_WNID_BYTES 9 /* n01440764 */

typedef struct ff_imagenet_labels {
    char *path;
    ff_names wnid;   /* in the order of lines */
    ff_names name;   /* the images', or none if the lines are in their order */
    bool header;     /* a first line without a wnid */
    size_t *by_name; /* [name.count] lines in the order of names */
} ff_imagenet_labels;

/* Whether a text begins as a wnid does: n and eight digits. */
bool ff_is_wnid(const char *text);

/* Reads the file or folder `path`. To be freed also after a failure. */
FF_MUST_USE ff_status ff_imagenet_labels_read(ff_imagenet_labels *labels, const char *path,
                                              ff_error *error);

/* The wnid of the image of this name, which is number `rank` of `count` in the order of names. */
FF_MUST_USE ff_status ff_imagenet_labels_find(const ff_imagenet_labels *labels, const char *name,
                                              uint64_t rank, uint64_t count, const char **wnid,
                                              ff_error *error);
void ff_imagenet_labels_free(ff_imagenet_labels *labels);

#endif
