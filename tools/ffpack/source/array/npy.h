/* Shared by the NPY and NPZ sources: finds the images and labels of each split by the arrays'
 * names. For npy*.c only. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_NPY_H
#define FF_FFPACK_SOURCE_NPY_H

#include "tools/ffpack/source/array/list.h"

enum { FF_NPY_SETS_LIMIT = 8 };

/* The chosen arrays, as sets without their arrays; the names belong to the list. */
typedef struct ff_npy_choice {
    size_t count;
    ff_array_set set[FF_NPY_SETS_LIMIT];
    size_t images[FF_NPY_SETS_LIMIT]; /* indices into the list of names */
    size_t labels[FF_NPY_SETS_LIMIT]; /* if set.labeled */
} ff_npy_choice;

/* Bytes of an array's name without ".npy" (and ".gz"); 0 if it is not an array. */
size_t ff_npy_stem(const char *name);
/* Whether the file name names an array of images; and whether `labels` names the labels of the same
 * split. */
bool ff_npy_is_images(const char *name);
bool ff_npy_is_like_labels(const char *name); /* the name contains a word for labels */
bool ff_npy_labels_of(const char *images, const char *labels);

/* Chooses among the arrays with these names. `place` holds them, for messages. FF_BAD_DATA without
 * images among them, or with two for one split. */
FF_MUST_USE ff_status ff_npy_choose(ff_npy_choice *choice, const ff_names *names, const char *place,
                                    ff_error *error);
/* Adds to the source's summary which arrays were left out, and which images have no labels. */
FF_MUST_USE ff_status ff_npy_report(const ff_npy_choice *choice, const ff_names *names,
                                    ff_source *source, ff_error *error);
void ff_npy_choice_free(ff_npy_choice *choice);

/* ---- npz.c ---------------------------------------------------------------------------------- */

/* Lists source->path, which is a zip archive of .npy files. */
FF_MUST_USE ff_status ff_npz_list(ff_source *source, ff_error *error);

#endif
