/* What makes the rows of a batch's views: the host's augmentation, and buffers of one thread.
 * Private to loader/. Thread rule: an ff_row_maker belongs to one thread. */
#ifndef FF_LOADER_MAKER_H
#define FF_LOADER_MAKER_H

#include "loader/augment/resample.h"
#include "loader/host/settings.h"

/* What makes the rows of a view. Views of one group have the same resampler and images. */
typedef struct ff_row_maker {
    const ff_loader_settings *settings; /* the group's */
    const ff_augment_host *host;
    ff_resampler *resampler; /* NULL if samples keep their size */
    bool alters;             /* rows are altered after they are made (ff_finish_alters) */
    uint8_t *images;         /* images of u8, if samples are changed; else NULL */
    uint8_t *apart;          /* [rows] in a separate buffer (ff_finish.apart); else NULL */
    uint64_t offset;         /* of the view's rows in a slot */
} ff_row_maker;

/* Fills makers[view], zeroed before, after the makers of the views before it. all: the loader's
 * settings, which must outlive the maker; rows: a buffer's. After a failure, too,
 * ff_row_maker_destroy frees the maker. */
FF_MUST_USE ff_status ff_row_maker_create(ff_row_maker *makers, const ff_loader_settings *all,
                                          uint32_t view, uint32_t rows, ff_error *error);
void ff_row_maker_destroy(ff_row_maker *makers, uint32_t view);

#endif
