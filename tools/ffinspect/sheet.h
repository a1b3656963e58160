/* The content of a contact sheet: the samples of each split, and their text. */
#ifndef FF_FFINSPECT_SHEET_H
#define FF_FFINSPECT_SHEET_H

#include "format/disk/set.h"
#include "loader/draw/picture.h"
#include "tools/ffinspect/facts/inspect.h"
#include "tools/ffinspect/facts/splits.h"

/* A split's samples, with a title. */
typedef struct ff_sheet_section {
    ff_dataset *dataset;
    ff_reader *reader;
    const ff_metadata *metadata;
    char *title;
    uint64_t count;
    uint64_t *number;
    bool captioned; /* captions show `field`; otherwise the number */
    size_t field;
    ff_picture_scale scale;
    void *tensor;
    uint8_t *rgb;
} ff_sheet_section;

/* All splits. */
typedef struct ff_sheet {
    ff_sheet_section *split;
    size_t splits;
    unsigned columns, rows;
    uint64_t count;
    uint32_t largest_height, largest_width; /* of the chosen samples */
} ff_sheet;

/* Chooses samples of all splits and reads their labels and sizes. The caller frees the sheet, after
 * a failure too. */
FF_MUST_USE ff_status ff_sheet_open(ff_sheet *sheet, const ff_set *list,
                                    const ff_inspect_options *options, ff_error *error);
void ff_sheet_free(ff_sheet *sheet);

/* Reads the section's sample `i` into its tensor. */
FF_MUST_USE ff_status ff_sheet_read(ff_sheet_section *split, uint64_t i, ff_view *view,
                                    ff_error *error);

#endif
