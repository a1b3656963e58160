/* Runs a finalized plan. Thread rule: one thread, in which the handle's device is current. */
#ifndef FF_TRAIN_CUDA_CUDNN_RUN_H
#define FF_TRAIN_CUDA_CUDNN_RUN_H

#include "train/compute/cuda/cudnn/plan.h"

/* The pointers of the last run, as a variant pack; zero-initialised. Each user of a plan has its
 * own pack. */
typedef struct ff_cudnn_run {
    ff_cudnn_builder parts;
    ff_cudnn_descriptor pack;
    ff_library_conv_arguments arguments;
    void *workspace;
} ff_cudnn_run;

void ff_cudnn_run_release(ff_cudnn_run *run);

/* Only enqueues. FF_FAILED: an argument is missing, or cuDNN's error. */
FF_MUST_USE ff_status ff_cudnn_run_enqueue(ff_cudnn_run *run, void *handle,
                                           const ff_cudnn_graph *graph, const ff_cudnn_plan *plan,
                                           void *stream, const ff_library_conv_arguments *arguments,
                                           void *workspace, ff_error *error);

#endif
