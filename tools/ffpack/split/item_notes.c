#include "tools/ffpack/split/item_notes.h"

#include <stdlib.h>

enum { NAME_BYTES = 16384 /* two paths */ };

ff_status ff_item_notes_add(ff_item_notes *notes, const ff_source *source,
                            const ff_source_split *split, const ff_item *item, ff_item_note note,
                            const char *message, ff_error *error) {
    char name[NAME_BYTES];
    FF_TRY(ff_reserve(&notes->note, &notes->capacity, notes->count + 1, sizeof *notes->note,
                      "notes", error));
    ff_source_item_name(source, split, item, name, sizeof name);
    FF_TRY(ff_copy_string(&note.name, name, error));
    const ff_status status = ff_copy_string(&note.message, message, error);
    if (status == FF_OK)
        notes->note[notes->count++] = note;
    else
        free(note.name);
    return status;
}

void ff_item_notes_clear(ff_item_notes *notes) {
    for (size_t i = 0; i < notes->count; i++) {
        free(notes->note[i].name);
        free(notes->note[i].message);
    }
    notes->count = 0;
}

void ff_item_notes_free(ff_item_notes *notes) {
    ff_item_notes_clear(notes);
    free(notes->note);
    *notes = (ff_item_notes){0};
}
