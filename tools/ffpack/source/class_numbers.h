/* Which class a number means: one rule for all sources, wherever labels are numbers and classes
 * have names (--labels, lists, .cls and .json, arrays; with class folders, --classes,
 * --classes-from).
 *
 * A number may be the name of a class (of the folders 1 to 102), or count the classes in their
 * order from 0. All numbers of a source are read in one way:
 * - as names, if each number is the name of a class, and all classes are numbers or no number is
 *   another class's place. "2" and "00002" are the same number;
 * - else they count, if no class is called by one of them and some class has another name than a
 *   number;
 * - else both may be meant: refused with both readings, until --label-kind names or numbers
 *   decides.
 * -1 is an item without a label, never a class, and does not decide. Thread rule: one thread at a
 * time. */
#ifndef FF_FFPACK_CLASS_NUMBERS_H
#define FF_FFPACK_CLASS_NUMBERS_H

#include "format/disk/metadata.h"

/* --label-kind, or the word after ':' in a list's header. */
typedef enum ff_label_kind {
    FF_LABEL_GUESS,
    FF_LABEL_CLASS,   /* names or numbers */
    FF_LABEL_NAMES,   /* of classes */
    FF_LABEL_NUMBERS, /* that count the classes */
    FF_LABEL_MULTI_HOT,
    FF_LABEL_VALUE,
    FF_LABEL_KIND_COUNT,
} ff_label_kind;
#define FF_LABEL_KIND_CHOICES "class|names|numbers|multi-hot|value"

typedef struct ff_class_numbers {
    const ff_field *field; /* its names are the classes; not owned */
    const char *by;        /* what names them, for messages; not owned */
    ff_label_kind kind;
    bool listed; /* the names come from another list: numbers count only if requested */
    struct ff_class_number {
        int64_t value;
        uint32_t label;
    } * name; /* [name_count] the names that are numbers, by value; owned */
    uint32_t name_count;
    bool all; /* names are numbers */
    /* The lines of the first number that is a name, that is not a name, and that is not a place; 0
     * = none. */
    uint64_t named_at, nameless_at, beyond_at;
    /* The first number that is one class's name and another class's place; 0 = none. */
    uint64_t other_at;
    int64_t nameless, beyond, other;
    bool names;     /* decided: numbers are names */
} ff_class_numbers; /* zero-initialised {0} */

/* Must be freed also after a failure. `field` must not move or change. */
FF_MUST_USE ff_status ff_class_numbers_begin(ff_class_numbers *numbers, const ff_field *field,
                                             const char *by, ff_label_kind kind, ff_error *error);
/* Notes a number at line or item `at`, from 1 on. */
void ff_class_numbers_see(ff_class_numbers *numbers, int64_t value, uint64_t at);
/* After all were seen. FF_USAGE if both readings are possible; the error names `unit` ("line",
 * "item") and number. */
FF_MUST_USE ff_status ff_class_numbers_decide(ff_class_numbers *numbers, const char *unit,
                                              ff_error *error);
/* The class of a number that was seen, or -1. */
int32_t ff_class_numbers_label(const ff_class_numbers *numbers, int64_t value);
/* The class that has this number as its name, or -1. */
int32_t ff_class_numbers_named(const ff_class_numbers *numbers, int64_t value);
/* The numbers from here on are certainly no classes of the field; 0 = unknown: it has no names, or
 * some are numbers. */
uint32_t ff_class_numbers_limit(const ff_field *field);
/* "labels are names of classes (2 is class 2)", allocated. */
FF_MUST_USE ff_status ff_class_numbers_say(const ff_class_numbers *numbers, char **text,
                                           ff_error *error);
void ff_class_numbers_free(ff_class_numbers *numbers);

#endif
