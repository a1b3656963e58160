/* Names of classes for people. Thread rule: pure. */
#ifndef FF_FORMAT_CLASS_NAME_H
#define FF_FORMAT_CLASS_NAME_H

#include "format/disk/metadata.h"

/* How a class is named. */
enum {
    FF_NAME_NUMBERED = 1, /* the class's number before its name: "3 cat" */
    FF_NAME_ASCII = 2, /* non-ASCII letters are transliterated, and the name is marked and numbered:
                          "3 ~chat" */
};
/* Shortens names to at most `characters`, 3 to 255, by leaving out their middle. Combine it with a
 * value above by |. */
#define FF_NAME_AT_MOST(characters) ((unsigned)(characters) << 8)

/* Appends the name of a field's class as text for people, or the class's number if it has no name;
 * "unlabeled" for -1. `how`: FF_NAME_ values. */
FF_MUST_USE ff_status ff_class_name(ff_buffer *out, const ff_field *field, int64_t value,
                                    unsigned how, ff_error *error);

#endif
