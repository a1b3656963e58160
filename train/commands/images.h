/* Image files as a packed set: the ffpack in this program's folder packs them into a temporary
 * folder with the options of the model's training set, so that predictions equal the predictions
 * from a packed set.
 *
 * Thread rule: one thread. */
#ifndef FF_TRAIN_IMAGES_H
#define FF_TRAIN_IMAGES_H

#include "format/disk/metadata.h"

typedef struct ff_image {
    char *name;     /* the argument, or FOLDER/NAME */
    uint32_t class; /* with ff_images.classes: its number there */
    char *reason;   /* why the image was not packed, a sentence; NULL = the image is the set's next
                     * sample */
} ff_image;

typedef struct ff_images {
    ff_image *image; /* in the arguments' order; files of a folder by name */
    size_t count, capacity;
    size_t broken;   /* with a reason */
    size_t left_out; /* files of folders that are not named as images are */
    /* Set by the caller: images lie in one folder for each of these classes, and the set has the
     * classes' numbers as labels, in the field FF_IMAGES_LABEL. NULL: without labels. */
    const ff_field *classes;
    char *folder; /* temporary; holds the list and the set */
    char *set;
} ff_images;

#define FF_IMAGES_LABEL "label"

/* Packs the images of `names`, files and folders; `trained`: the metadata of the set on which
 * `weights` was trained. FF_USAGE: one of the names is a packed set, or ffpack was not found.
 * FF_BAD_DATA: no images; an image outside the folders of `classes`; a training set that image
 * files cannot reproduce. FF_IO, also if the temporary folder is full; FF_INTERRUPTED. On failure
 * nothing is left. Before the call `images` holds only `classes`; call ff_images_free in any
 * case. */
FF_MUST_USE ff_status ff_images_pack(ff_images *images, const char *const *names, int count,
                                     const ff_metadata *trained, const char *weights,
                                     ff_error *error);
/* Removes the temporary folder. */
void ff_images_free(ff_images *images);

#endif
