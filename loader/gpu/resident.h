/* A whole set, or its selected samples, in device memory, as stored: uploaded once, by the loader's
 * own ring. Private to loader/. Ownership: device and dataset must outlive the resident set. Thread
 * rule: read-only after creation. */
#ifndef FF_LOADER_RESIDENT_H
#define FF_LOADER_RESIDENT_H

#include "loader/host/loader.h"

/* Rows begin at multiples of this, the width of the kernels' loads. */
#define FF_RESIDENT_ALIGN 16u

/* Upper bound of the device memory used during an upload, for samples of up to a few MiB. */
#define FF_RESIDENT_EXTRA (UINT64_C(40) << 20)

typedef struct ff_resident {
    ff_device *device;
    uint64_t count;     /* rows; a selected sample that comes several times has several */
    uint64_t row_bytes; /* if samples have one size */
    uint8_t *samples;   /* device: [count] rows, in storage order */
    uint64_t
        *offset; /* device: [count], where a row begins if sizes differ; NULL = row_bytes apart */
    uint32_t
        *row_of; /* device: [the set's samples], the row of each one uploaded; NULL = its number */
    size_t label_count;
    void **label;          /* device: [count][width] as an ff_slot_label's, in storage order */
    uint64_t device_bytes; /* total of these arrays */
} ff_resident;

/* Bytes of all rows: the set's samples, or those of a selection. */
FF_MUST_USE ff_status ff_resident_bytes(ff_dataset *dataset, const ff_selection *selection,
                                        uint64_t *bytes, ff_error *error);

/* Uploads the samples and the label fields of `options`; threads, verification and errors are as in
 * the loader. FF_INTERRUPTED after a signal or by `stop`; FF_NO_MEMORY if the device has too little
 * memory. On failure everything is released. */
FF_MUST_USE ff_status ff_resident_upload(ff_resident *resident, ff_dataset *dataset,
                                         const ff_loader_options *options, bool quiet,
                                         ff_error *error);
/* The work that reads the set must be done. A zeroed set is accepted. */
void ff_resident_release(ff_resident *resident);

#endif
