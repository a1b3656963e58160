/* Engines for a graph: those that cuDNN's heuristics offer for a device and that may be used, and
 * built plans. The device is a GPU, or a description of one: planning does not use the driver, but
 * engines compiled at run time can only be built if a libcuda.so.1 can be opened. Thread rule: one
 * thread. */
#ifndef FF_TRAIN_CUDA_CUDNN_PLAN_H
#define FF_TRAIN_CUDA_CUDNN_PLAN_H

#include "train/compute/cuda/cudnn/graph.h"

typedef struct ff_cudnn_device {
    void *handle;                   /* a cudnnHandle_t, not owned; NULL = only described */
    ff_cudnn_descriptor properties; /* of a described device */
    ff_cudnn_builder parts;
    char name[128];
    int major, minor; /* compute capability */
} ff_cudnn_device;

/* From text in cuDNN's own schema, as ff_cudnn_device_json returns it. FF_BAD_DATA: the text is not
 * a description. */
FF_MUST_USE ff_status ff_cudnn_device_describe(ff_cudnn_device *device, const char *json,
                                               ff_error *error);
/* The GPU of the handle. */
FF_MUST_USE ff_status ff_cudnn_device_open(ff_cudnn_device *device, void *handle, ff_error *error);
void ff_cudnn_device_close(ff_cudnn_device *device);

/* cudnnGetVersion, for example 91900. */
size_t ff_cudnn_version(void);

/* The description of the handle's GPU; the caller frees it. */
FF_MUST_USE ff_status ff_cudnn_device_json(void *handle, char **json, ff_error *error);

/* One engine with its knobs. */
typedef struct ff_cudnn_candidate {
    ff_cudnn_descriptor config;
    int64_t engine;
    char name[64]; /* "62 12=1 24=3": engine, knob=value...; a long list is replaced by a hash */
    bool tensor_cores, runtime_compiled, deterministic;
} ff_cudnn_candidate;

/* In the order of the heuristics (best guess first, their modes A, B, fallback), each engine and
 * knobs once. */
typedef struct ff_cudnn_candidates {
    ff_cudnn_candidate *list;
    int count;
    int engines;    /* distinct ones */
    int dropped;    /* distinct ones offered that may not be used */
    char told[256]; /* cuDNN's message if it offered no engine */
    size_t capacity;
    ff_cudnn_builder parts;
} ff_cudnn_candidates;

/* Drops engines that round more than the precision allows (full f32: all that use tensor cores),
 * that sum in less than f32, or that use Winograd (whose errors are larger than those of sums);
 * with `deterministic`, also engines that are not deterministic. FF_OK with count 0 if no engine is
 * left. */
FF_MUST_USE ff_status ff_cudnn_candidates_find(ff_cudnn_candidates *candidates,
                                               const ff_cudnn_device *device,
                                               const ff_cudnn_graph *graph, ff_precision precision,
                                               bool deterministic, ff_error *error);
void ff_cudnn_candidates_release(ff_cudnn_candidates *candidates);

/* A finalized plan: it can be executed, with a workspace. */
typedef struct ff_cudnn_plan {
    ff_cudnn_descriptor plan;
    ff_cudnn_builder parts;
    size_t workspace_bytes;
} ff_cudnn_plan;

/* From a candidate, or from the text of ff_cudnn_plan_json by the same version of cuDNN on the same
 * model of device. FF_FAILED: the engine does not support the graph, or cannot be compiled. */
FF_MUST_USE ff_status ff_cudnn_plan_create(ff_cudnn_plan *plan, const ff_cudnn_device *device,
                                           const ff_cudnn_candidate *candidate, ff_error *error);
FF_MUST_USE ff_status ff_cudnn_plan_load(ff_cudnn_plan *plan, const ff_cudnn_device *device,
                                         const char *json, ff_error *error);
/* The caller frees it. */
FF_MUST_USE ff_status ff_cudnn_plan_json(const ff_cudnn_plan *plan, char **json, ff_error *error);
void ff_cudnn_plan_destroy(ff_cudnn_plan *plan);

#endif
