/* A library (train/compute/cuda/library.h) on a device against the plain loops on the host: random
 * specs of odd shapes, random numbers, outputs filled with NaN before, guard bands around every
 * tensor. Run by tests/gpu on a GPU, and by the unit tests on the asynchronous host device. */
#ifndef FF_TESTS_LIBRARY_AGREE_H
#define FF_TESTS_LIBRARY_AGREE_H

#include "loader/device/device.h"
#include "train/compute/cuda/library.h"

typedef struct ff_agreement {
    ff_device *device;
    ff_library *library; /* open on the device */
    uint64_t seed;       /* trial n depends on (seed, n) alone */
    /* Filled: the number that agreed, and the number without an engine. */
    int agreed, missing;
} ff_agreement;

/* One random convolution in `precision`, plain or, if `fused`, a fused graph; or one random matrix
 * product. FF_BAD_DATA: they differ; the message has the spec, the place and the values. */
FF_MUST_USE ff_status ff_agree_conv(ff_agreement *a, uint64_t trial, ff_precision precision,
                                    bool fused, ff_error *error);
FF_MUST_USE ff_status ff_agree_gemm(ff_agreement *a, uint64_t trial, ff_precision precision,
                                    ff_error *error);

#endif
