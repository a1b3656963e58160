/* Which tensors the batches of a loader have, and where. Private to loader/library/.
 *
 * A batch is one block of memory: what the ring fills, then what the library adds:
 *   data | labels | weight | mix || ffload_batch with its tensors | samples | sources | labels_b
 * of which data is view after view, labels_b, as mix, only with mixup or cutmix, and sources only
 * with several sets. On a device
 * ffload_batch is elsewhere, in host memory, and the part that the ring fills has the layout of
 * ff_batch_buffers. */
#ifndef FF_LOADER_LIBRARY_PLAN_H
#define FF_LOADER_LIBRARY_PLAN_H

#include "loader/library/options.h"
#include "loader/library/tensor.h"

#include <stdatomic.h>

typedef enum ff_library_plan_kind {
    FF_LIBRARY_IMAGES,
    FF_LIBRARY_ROWS,
    FF_LIBRARY_VALUES
} ff_library_plan_kind;

typedef struct ff_library_plan_tensor {
    char *name;
    ff_library_plan_kind kind; /* [n, C, height, width], [n], [n, width] */
    ff_dtype dtype;
    uint32_t height, width;
    uint32_t view;   /* of images */
    uint64_t offset; /* in the block */
    ff_batch_content content;
    uint64_t from; /* for FF_BATCH_OTHER: the place of the row's own values in the block */
    bool again;    /* another name of the tensor before */
} ff_library_plan_tensor;

/* Read-only once made; shared by a loader and its batches. */
typedef struct ff_library_plan {
    atomic_size_t users;
    uint32_t rows, channels, height, width; /* height and width: the first view's */
    ff_layout layout;
    int ordinal;           /* the GPU of the batches, or FF_LIBRARY_CPU */
    bool pads;             /* tensors have all rows, with padding */
    uint64_t batch_offset; /* in the block: the ring's bytes before it */
    uint64_t samples_offset, sources_offset;
    uint32_t sets;                     /* that the dataset unites; 1 = there are no sources */
    uint64_t begin[FF_SETS_LIMIT + 1]; /* [sets + 1]: their first samples */
    uint64_t bytes;                    /* the block's */
    size_t count;
    ff_library_plan_tensor *tensor; /* [count] */
} ff_library_plan;

/* The library's bytes of a block, for a ring that is to be created with them. */
FF_MUST_USE ff_status ff_library_plan_added_bytes(uint64_t *bytes, ff_dataset *dataset,
                                                  const ff_library_settings *settings,
                                                  ff_error *error);

/* The plan of a loader created with these settings. Has one user. On a device `slot` has the
 * addresses of the buffers, of `bytes` bytes, from which batches are copied. */
FF_MUST_USE ff_status ff_library_plan_create(ff_library_plan **plan, ff_loader *loader,
                                             ff_dataset *dataset,
                                             const ff_library_settings *settings, ff_error *error);
FF_MUST_USE ff_status ff_library_plan_create_device(ff_library_plan **plan, const ff_slot *slot,
                                                    uint64_t bytes, ff_dataset *dataset,
                                                    const ff_library_settings *settings,
                                                    ff_error *error);
void ff_library_plan_retain(ff_library_plan *plan);
void ff_library_plan_release(ff_library_plan *plan);

/* Tensor number `i` of a batch of `rows` rows in `block`. */
void ff_library_plan_describe(const ff_library_plan *plan, size_t i, uint32_t rows, uint8_t *block,
                              ff_library_tensor *tensor);

/* The number of the tensor of this name; FF_USAGE listing the batch's tensors. */
FF_MUST_USE ff_status ff_library_plan_find(const ff_library_plan *plan, const char *name, size_t *i,
                                           ff_error *error);

#endif
