/* Facts from one pass over an index: sizes, order, and the number of samples per class. */
#ifndef FF_FFINSPECT_FACTS_H
#define FF_FFINSPECT_FACTS_H

#include "format/reader/reader.h"

/* Counts for a class field, or for a multi-hot field stored in the index (one count per value
 * set). */
typedef struct ff_class_counts {
    bool counted;
    uint64_t unlabeled;       /* class -1; multi-hot: no value set */
    uint64_t other;           /* in a field without names: classes above the counted ones */
    int64_t minimum, maximum; /* of the labeled samples; minimum > maximum if there are none */
    uint64_t *count;          /* [length] */
    size_t length;
} ff_class_counts;

typedef struct ff_facts {
    uint64_t file_bytes;   /* index and shards */
    uint64_t tensor_bytes; /* of all samples, as the trainer reads them */
    bool in_number_order;  /* storage order is the order of numbers */
    uint32_t smallest_height, smallest_width, largest_height, largest_width;
    ff_class_counts *field; /* [field_count] */
    size_t field_count;
} ff_facts;

/* Reads every entry and label row, but no shard. The caller frees the facts, after a failure
 * too. */
FF_MUST_USE ff_status ff_inspect_facts(ff_facts *facts, ff_dataset *dataset, ff_error *error);
void ff_inspect_free_facts(ff_facts *facts);

#endif
