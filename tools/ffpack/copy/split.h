/* Writes a split of a copy: samples of a packed split, as they are or in another dtype, into the
 * blocks and shards of a new one. */
#ifndef FF_FFPACK_COPY_SPLIT_H
#define FF_FFPACK_COPY_SPLIT_H

#include "tools/ffpack/copy/choice.h"
#include "tools/ffpack/image/transform.h"
#include "tools/ffpack/split/class_map.h"
#include "tools/ffpack/split/report.h"

/* The label of this place's sample stays. */
#define FF_LABEL_STAYS INT64_MIN

/* Nothing in it is owned. */
typedef struct ff_copy_split {
    ff_dataset *dataset; /* opened so that it verifies its samples */
    const ff_choice *choice;
    const ff_class_map *classes;   /* to the copy's numbers */
    size_t field;                  /* for `label` */
    const int64_t *label;          /* [choice->count] by place, in the copy's numbers, or
                                      FF_LABEL_STAYS; NULL: all stay */
    const ff_transform *transform; /* from the set's u8 to the copy's dtype; NULL: bytes stay */
    int jobs;
    const char *directory, *partial; /* to build it in; OUT.partial: `directory` or its parent */
    ff_report_split *report;         /* its metadata is the copy's; the rest is filled here */
} ff_copy_split;

/* Continues after the whole shards in the folder. Commits shards and index. A sample whose bytes
 * stay keeps its checksum, against which it was verified. FF_BAD_DATA if a sample is broken. */
FF_MUST_USE ff_status ff_copy_split_run(const ff_copy_split *job, ff_error *error);

#endif
