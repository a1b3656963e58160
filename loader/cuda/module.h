/* Room loader/cuda, floor 7: the CUDA module, and the kernels that make batches.
 *
 * No program links CUDA: this header opens the module, libff_cuda.so, if it finds a driver
 * (driver.h), its libraries (libraries.h) and a card of a known architecture, and reports what is
 * missing otherwise. The module's table (table.h) has the device of CUDA (device_cuda.c) and the
 * launchers of the kernels (kernels.h). params.cu draws the parameters of each row. move.cu makes
 * the batch if pixels only move; augment.cu, with change.cu and resample.cu, if values change.
 * give.cu writes into a consumer's memory. Every .cu keeps to the dialect of kernel.h, so tests run
 * it on the CPU.
 *
 * May include format, loader/augment, loader/device, loader/sequence.
 *
 * Opens the CUDA module: driver, libraries, libff_cuda.so; reports in one sentence what is missing.
 *
 * In this order, each with its own error message (FF_FAILED):
 *   module     libff_cuda.so is next to the program or library that this is in, in ../lib or
 *              in ..; builds without CUDA have none
 *   driver     libcuda.so.1 is installed, is not the stub, is new enough (CUDA 13: 580, CUDA 12:
 *              525), and finds the device (FF_USAGE if there are fewer); skipped for
 *              FF_CUDA_NO_DEVICE
 *   libraries  those of libraries.h
 *   module     opens, and is of the same build
 *
 * Nothing here uses a device: no context is created before table->device_create.
 *
 * Ownership: call ff_cuda_module_close after every device made from it is destroyed; it frees only
 * the handle. Module and libraries stay open: CUDA's libraries cannot be closed safely. Thread
 * rule: any thread. */
#ifndef FF_LOADER_CUDA_MODULE_H
#define FF_LOADER_CUDA_MODULE_H

#include "loader/cuda/table.h"

typedef struct ff_cuda_module ff_cuda_module;

enum { FF_CUDA_NO_DEVICE = -1 }; /* in place of an ordinal: for planning without a device */

FF_MUST_USE ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error);
void ff_cuda_module_close(ff_cuda_module **module); /* *module = NULL; NULL is accepted */

/* Valid until the process ends. */
const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module);

/* A line for each part of a library that is missing and what its lack costs, or "". Owned by the
 * module. */
const char *ff_cuda_module_notes(const ff_cuda_module *module);

/* The same as if the program lay in `folder` (NULL: its own folder, or the library's) and were
 * built with `cuda` (13000; 0: without). For tests, which bring their own modules and drivers. */
FF_MUST_USE ff_status ff_cuda_module_open_as(ff_cuda_module **module, const char *folder, int cuda,
                                             int ordinal, ff_error *error);

#endif
