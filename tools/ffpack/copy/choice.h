/* Which samples of a split a copy has, and where. Memory: 8 or 16 bytes per sample. Thread rule:
 * read-only once made. */
#ifndef FF_FFPACK_COPY_CHOICE_H
#define FF_FFPACK_COPY_CHOICE_H

#include "format/select/keys.h"
#include "format/select/meant.h"

/* A place is a position in the copy's storage. */
typedef struct ff_choice {
    uint64_t count;
    uint64_t *number;   /* [count]: the number of each place's sample in the set */
    uint64_t *item;     /* [count]: the sample's number in the copy; NULL: the place itself */
    uint64_t key_bytes; /* of all its keys */
} ff_choice;

/* The samples chosen from a split: those in both of these. */
typedef struct ff_choice_rule {
    const char *split; /* its name */
    ff_keys *keys;     /* the samples that it names; NULL: all */
    bool others;       /* all but these */
    ff_where *where;   /* the samples that it selects; NULL: all */
} ff_choice_rule;

/* Chooses the samples. Numbers and storage keep the set's order; a count of 0 is not a failure. The
 * caller frees the choice, after a failure too. */
FF_MUST_USE ff_status ff_choice_make(ff_choice *choice, ff_dataset *dataset,
                                     const ff_choice_rule *rule, ff_error *error);

void ff_choice_free(ff_choice *choice);

#endif
