/* The labels in the rows of a loader's batches. Private to loader/. Thread rule: an ff_labels
 * belongs to one thread. */
#ifndef FF_LOADER_LABELS_H
#define FF_LOADER_LABELS_H

#include "loader/host/settings.h"

typedef struct ff_labels {
    const ff_loader_settings *settings;
    ff_reader *reader;
    void *values; /* a label as stored */
} ff_labels;

/* settings and reader must outlive it. */
FF_MUST_USE ff_status ff_labels_init(ff_labels *labels, const ff_loader_settings *settings,
                                     ff_reader *reader, ff_error *error);
void ff_labels_free(ff_labels *labels);

/* Label `which` of sample `number` into row `row` of the batch in `memory`. */
FF_MUST_USE ff_status ff_labels_gather(ff_labels *labels, size_t which, uint64_t number,
                                       uint32_t row, uint8_t *memory, ff_error *error);

/* All labels of a row of padding: class -1, or zeros. */
void ff_labels_pad(const ff_loader_settings *settings, uint32_t row, uint8_t *memory);

#endif
