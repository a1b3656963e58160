/* Opens the CUDA module: driver, libraries, libff_cuda.so; says in one sentence what is missing.
 *
 * In this order, each with its own sentence where it fails (FF_FAILED):
 *   driver     libcuda.so.1 is there, is no stub, is new enough (CUDA 13: 580, CUDA 12: 525),
 *              and finds the device asked for; skipped for FF_CUDA_NO_DEVICE
 *   libraries  those of libraries.h, opened by full path, in that order, from the first folder of
 *                FFPACK_CUDA_PATH (folders, separated by colons; the environment's)
 *                the program's own folder and its ../lib
 *                the nvidia-* wheels of a Python environment (VIRTUAL_ENV, CONDA_PREFIX)
 *                /usr/local/cuda/lib64 and its like, the system's folders
 *                the nvidia-* wheels that python3 of PATH sees
 *              that holds one of the right CUDA version; once open, the dynamic linker finds them
 *              by name for whatever needs them, so LD_LIBRARY_PATH is neither needed nor changed
 *   module     libff_cuda.so, beside the program or in ../lib, by full path
 *
 * Nothing here touches a device: no context comes to be before table->device_create.
 *
 * Ownership: ff_cuda_module_close after every device made from it is destroyed. The libraries stay
 * open: CUDA's do not bear being closed. Thread rule: any thread. */
#ifndef FF_LOADER_CUDA_MODULE_H
#define FF_LOADER_CUDA_MODULE_H

#include "loader/cuda/table.h"

typedef struct ff_cuda_module ff_cuda_module;

enum { FF_CUDA_NO_DEVICE = -1 }; /* in place of an ordinal: for plans made without a card */

FF_MUST_USE ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error);
void ff_cuda_module_close(ff_cuda_module **module); /* *module = NULL; NULL is accepted */

/* Valid until the process ends. */
const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module);

#endif
