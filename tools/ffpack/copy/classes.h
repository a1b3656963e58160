/* The edits of a copy's classes: --rename-class A=B, --merge-class A,B=C, --add-class A. Each
 * changes one label field of the copy's metadata, and the map from the set's numbers to the copy's;
 * classes keep their order, without a gap. A name may contain ',' and '=': text that is a class's
 * name is read as one. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_COPY_CLASSES_H
#define FF_FFPACK_COPY_CLASSES_H

#include "tools/ffpack/split/class_map.h"

typedef struct ff_class_edit {
    ff_metadata *copy;
    size_t field;
    ff_class_map *map;
    const char *path; /* the set's, for messages */
} ff_class_edit;

/* FF_USAGE if A is not a class, or B is one already. */
FF_MUST_USE ff_status ff_class_rename(const ff_class_edit *edit, const char *text, ff_error *error);

/* C may be A, B, another class, or a new class, which takes the first one's place. FF_USAGE if one
 * of A,B is not a class. */
FF_MUST_USE ff_status ff_class_merge(const ff_class_edit *edit, const char *text, ff_error *error);

/* Adds a class after the last one. FF_USAGE if it is a class already. */
FF_MUST_USE ff_status ff_class_append(const ff_class_edit *edit, const char *name, ff_error *error);

#endif
