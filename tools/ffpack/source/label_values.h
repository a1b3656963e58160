/* The labels of samples that carry them: whole numbers, which count the classes, or names of
 * classes. The first decides for all. Names are numbered in the order of --classes, else of their
 * bytes. A set has labels for every sample, or for none. Thread rule: one thread. */
#ifndef FF_FFPACK_SOURCE_LABEL_VALUES_H
#define FF_FFPACK_SOURCE_LABEL_VALUES_H

#include "tools/ffpack/source/class_set.h"
#include "tools/ffpack/source/source.h"

typedef struct ff_label_values {
    ff_source *source;
    enum { FF_LABELS_UNKNOWN, FF_LABELS_NUMBERS, FF_LABELS_NAMES } values;
    bool fixed;           /* --classes: no other names */
    uint32_t counted;     /* classes that numbers may count; 0 = any */
    const char *named_by; /* what names the classes, for messages */
    ff_class_set classes;
} ff_label_values;

/* Adds the source's only field: source->label, or "label"; with the classes of --classes. */
FF_MUST_USE ff_status ff_label_values_begin(ff_label_values *values, ff_source *source,
                                            ff_error *error);
/* The same with class names of the source itself: numbers below `count`, and never another's; the
 * caller adds the names to field 0 before it. `by` names their place. */
void ff_label_values_named(ff_label_values *values, uint32_t count, const char *by);

/* *label = that of a sample with this number, from -1 on (no label); or with this name, for
 * ff_label_values_finish to change. FF_BAD_DATA; the message follows the sample's name. */
FF_MUST_USE ff_status ff_label_number(ff_label_values *values, int64_t number, int32_t *label,
                                      ff_error *error);
FF_MUST_USE ff_status ff_label_name(ff_label_values *values, const char *name, size_t bytes,
                                    int32_t *label, ff_error *error);

/* After all samples were listed: the labels become those of classes, or the field one of kind none
 * if no sample has one (`labeled` false). */
FF_MUST_USE ff_status ff_label_values_finish(ff_label_values *values, bool labeled,
                                             ff_error *error);
void ff_label_values_free(ff_label_values *values);

#endif
