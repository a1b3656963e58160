/* Opens the CUDA module: driver, libraries, libff_cuda.so; says in one sentence what is missing.
 *
 * In this order, each with its own sentence where it fails (FF_FAILED):
 *   module     libff_cuda.so is beside the program, in ../lib or in ..; builds without CUDA have
 * none driver     libcuda.so.1 is there, is no stub, is new enough (CUDA 13: 580, CUDA 12: 525),
 * and finds the device asked for (FF_USAGE where there are fewer); skipped for FF_CUDA_NO_DEVICE
 *   libraries  those of libraries.h
 *   module     opens, and is of the same build
 *
 * Nothing here touches a device: no context comes to be before table->device_create.
 *
 * Ownership: ff_cuda_module_close after every device made from it is destroyed; it only forgets.
 * Module and libraries stay open: CUDA's do not bear being closed. Thread rule: any thread. */
#ifndef FF_LOADER_CUDA_MODULE_H
#define FF_LOADER_CUDA_MODULE_H

#include "loader/cuda/table.h"

typedef struct ff_cuda_module ff_cuda_module;

enum { FF_CUDA_NO_DEVICE = -1 }; /* in place of an ordinal: for plans made without a card */

FF_MUST_USE ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error);
void ff_cuda_module_close(ff_cuda_module **module); /* *module = NULL; NULL is accepted */

/* Valid until the process ends. */
const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module);

/* What is missing that a run can do without, at a price: lines, or "". The module's. */
const char *ff_cuda_module_notes(const ff_cuda_module *module);

/* The same as if the program lay in `folder` (NULL: where it lies) and had been built with `cuda`
 * (13000; 0: without). For tests, which have modules and drivers of their own. */
FF_MUST_USE ff_status ff_cuda_module_open_as(ff_cuda_module **module, const char *folder, int cuda,
                                             int ordinal, ff_error *error);

#endif
