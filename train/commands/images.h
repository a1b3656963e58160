/* Image files as a packed set: the ffpack beside this program packs them into a temporary folder as
 * the training set of a model was packed, so that predictions are those of a packed set.
 *
 * Thread rule: one thread. */
#ifndef FF_TRAIN_IMAGES_H
#define FF_TRAIN_IMAGES_H

#include "format/metadata.h"

typedef struct ff_image {
    char *name;     /* as given, or FOLDER/NAME */
    uint32_t class; /* with ff_images.classes: its number there */
    char *reason;   /* why it was not packed, in a sentence; NULL = it is the set's next sample */
} ff_image;

typedef struct ff_images {
    ff_image *image; /* in the order given; those of a folder, and of its folders, by name */
    size_t count, capacity;
    size_t broken;   /* with a reason */
    size_t left_out; /* files of folders that are not named as images are */
    /* Set by the caller: images are those of a folder with a folder for each of these classes, and
     * the set has their numbers as labels, in the field FF_IMAGES_LABEL. NULL: without labels. */
    const ff_field *classes;
    char *folder; /* temporary; holds the list and the set */
    char *set;
} ff_images;

#define FF_IMAGES_LABEL "label"

/* Packs the images of `names`, files and folders; `trained`: of the set that `weights` was trained
 * on. FF_USAGE: a packed set among them, no ffpack. FF_BAD_DATA: no image; one in no folder of
 * `classes`; trained on what image files cannot give. FF_IO, also where the temporary folder is
 * full; FF_INTERRUPTED. On failure nothing is left. `images` holds `classes` alone before;
 * ff_images_free in any case. */
FF_MUST_USE ff_status ff_images_pack(ff_images *images, const char *const *names, int count,
                                     const ff_metadata *trained, const char *weights,
                                     ff_error *error);
/* Removes the temporary folder. */
void ff_images_free(ff_images *images);

#endif
