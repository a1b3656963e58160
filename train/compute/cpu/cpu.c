#include "train/compute/compute.h"

#include "train/compute/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

/* The only place in this room that lists the libraries. */
static const ff_compute_ops *const implementations[] = {
#ifdef FF_HAVE_DNNL
    &ff_onednn_ops,
#endif
    &ff_reference_ops_f32,
    NULL,
};

const ff_compute_ops *ff_compute_implementation(int index) {
    int count = (int)(sizeof implementations / sizeof *implementations);
    return index >= 0 && index < count ? implementations[index] : NULL;
}

/* The number of threads that a parallel region really gets, which OMP_THREAD_LIMIT and the like can
 * make smaller than requested. The implementations divide their work by this number, so it must be
 * exact. */
static int threads_to_be_had(int wanted) {
    int count = 1;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(wanted)
#pragma omp single
    count = omp_get_num_threads();
    return count;
}

/* FF_USAGE lists the names of this build. */
static ff_status find(const ff_compute_ops **ops, const char *name, ff_error *error) {
    char known[256] = "";
    for (int i = 0; implementations[i]; i++) {
        *ops = implementations[i];
        if (!name || strcmp(name, (*ops)->name) == 0) return FF_OK;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", (*ops)->name);
    }
    return ff_fail(error, FF_USAGE, "no compute implementation '%s' in this build; it has: %s",
                   name, known);
}

ff_status ff_cpu_allows(ff_precision precision, ff_error *error) {
    if (precision == FF_PRECISION_F32 || precision == FF_PRECISION_BF16) return FF_OK;
    return ff_fail(error, FF_USAGE, "the CPU computes in f32 and bf16, not in %s",
                   ff_precision_name(precision));
}

ff_status ff_compute_allows(const char *name, ff_precision precision, ff_error *error) {
    const ff_compute_ops *ops;
    FF_TRY(find(&ops, name, error));
    return ops->allows(precision, error);
}

ff_status ff_compute_open(ff_compute **compute, const char *name, const ff_compute_options *options,
                          ff_error *error) {
    const ff_compute_ops *ops;
    ff_compute_options granted = *options;
    *compute = NULL;
    FF_TRY(find(&ops, name, error));
    FF_TRY(ops->allows(options->precision, error));
    granted.threads = threads_to_be_had(options->threads);
    return ops->open(compute, &granted, error);
}

void ff_compute_close(ff_compute **compute) {
    if (!*compute) return;
    (*compute)->ops->close(*compute);
    *compute = NULL;
}

ff_status ff_cpu_begin(ff_compute *compute, const ff_compute_ops *ops,
                       const ff_compute_options *options, ff_error *error) {
    if (options->device && !options->device->table->unified)
        return ff_fail(error, FF_USAGE, "the CPU computes in its own memory, not on a device %s",
                       options->device->table->name);
    FF_TRY(ff_compute_begin(compute, ops, options, error));
    compute->fusions = FF_FUSE_CONV_POOL;
    return FF_OK;
}
