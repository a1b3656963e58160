/* New labels of a copy's samples by --labels: the list of labels that packing reads
 * (source/tree/label_list.h), for the splits of a set. Samples without a line keep their label.
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_COPY_LABELS_H
#define FF_FFPACK_COPY_LABELS_H

#include "tools/ffpack/copy/split.h"
#include "tools/ffpack/source/tree/label_list.h"

/* Zero-initialised; released with ff_relabel_free. */
typedef struct ff_relabel {
    const char *path;
    ff_label_list list; /* the first split's; its lines are marked for all splits */
    const char **split; /* [list.name.count]: the split whose sample the line names; NULL: none */
} ff_relabel;

/* *label [choice->count] by place, allocated: the class in the copy's numbers, or FF_LABEL_STAYS.
 * `copy` is the metadata of the split after all edits of its classes; `name` is the split's, and
 * may stand before keys in the list; both must outlive the rest. `column`: the title of the
 * classes' column, or NULL. *said: how the list was read, or NULL; allocated. FF_USAGE; FF_BAD_DATA
 * if a line's class is not one of the copy's. */
FF_MUST_USE ff_status ff_relabel_split(ff_relabel *relabel, const ff_choice *choice,
                                       ff_dataset *dataset, ff_metadata *copy, size_t field,
                                       const char *name, const char *column, int64_t **label,
                                       char **said, ff_error *error);

/* After all splits: FF_USAGE with the first line that names no sample, and the number of such
 * lines. */
FF_MUST_USE ff_status ff_relabel_check(const ff_relabel *relabel, const char *set, ff_error *error);

void ff_relabel_free(ff_relabel *relabel);

#endif
