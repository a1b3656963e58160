/* Notes about items while several threads make their samples: each thread's notes are printed in
 * the order of the items, by the thread that takes its work. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_ITEM_NOTES_H
#define FF_FFPACK_ITEM_NOTES_H

#include "tools/ffpack/source/source.h"

typedef struct ff_item_note {
    bool broken;             /* else a warning */
    uint64_t position, item; /* storage position and number */
    char *name, *message;    /* the item's, as messages name it */
} ff_item_note;

/* Zero-initialised; owns its strings. */
typedef struct ff_item_notes {
    ff_item_note *note; /* [count] */
    size_t count, capacity;
} ff_item_notes;

/* Adds a note about `item` of a split; `note` has all but the strings. */
FF_MUST_USE ff_status ff_item_notes_add(ff_item_notes *notes, const ff_source *source,
                                        const ff_source_split *split, const ff_item *item,
                                        ff_item_note note, const char *message, ff_error *error);
/* Removes all; the space stays. */
void ff_item_notes_clear(ff_item_notes *notes);
void ff_item_notes_free(ff_item_notes *notes);

#endif
