/* Room tools/ffinspect/facts, floor 10: what the views print.
 *
 * facts.c collects a split's facts, history.c how it was made, splits.c the splits of a set.
 * spread.c picks the samples to show, label.c names them, keys.c prints their keys; text.c formats.
 *
 * May include format.
 *
 * ffinspect's command line as a struct. */
#ifndef FF_FFINSPECT_INSPECT_H
#define FF_FFINSPECT_INSPECT_H

#include "format/reader/reader.h"

#define FF_INSPECT_NO_SEED INT64_C(-1) /* no --seed: a spread of classes */

typedef struct ff_inspect_options {
    const char *path;
    bool json, verify, stats, bench;
    bool keys, null;       /* --keys; a zero byte after each key */
    const char *find;      /* a key; NULL = unset */
    const char *sample;    /* "I" or "A:B"; NULL = unset */
    const char *grid;      /* "RxC" */
    const char *png;       /* file to write the contact sheet to */
    const char *npy;       /* file to write the samples to; "-" = standard output */
    const char *label;     /* field that names the pictures; NULL = the first class field */
    int64_t seed;          /* or FF_INSPECT_NO_SEED */
    int64_t jobs;          /* threads */
    int64_t classes_limit; /* classes listed by the summary for each field; 0 = all */
    ff_storage_options storage;
} ff_inspect_options;

/* Whether anything other than the summary was requested. */
static inline bool ff_inspect_asked(const ff_inspect_options *options) {
    return options->verify || options->stats || options->bench || options->sample ||
           options->grid || options->png || options->npy || options->keys || options->find;
}

#endif
