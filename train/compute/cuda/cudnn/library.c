#include "train/compute/cuda/cudnn/library.h"

#include "format/base/memory.h"
#include "loader/device/device.h"
#include "train/compute/cuda/cudnn/cublas.h"
#include "train/compute/cuda/cudnn/run.h"
#include "train/compute/cuda/planner.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <stdlib.h>

typedef struct library {
    ff_library base;
    ff_cudnn_planner planner;
    cudnnHandle_t handle; /* NULL: plans only */
    ff_cublas *cublas;
} library;

typedef struct conv {
    ff_library_conv base;
    const ff_cudnn_planned *planned;
    ff_cudnn_run run;
} conv;

/* ---- open and close ---- */

static ff_status open_handle(ff_device *device, cudnnHandle_t *handle, ff_error *error) {
    FF_TRY(device->table->make_current(device, error));
    cudnnStatus_t status = cudnnCreate(handle);
    return status == CUDNN_STATUS_SUCCESS ? FF_OK : ff_cudnn_fail(error, "cudnnCreate", status);
}

static void library_close(ff_library *base) {
    library *l = (library *)base;
    if (!l) return;
    ff_cudnn_planner_close(&l->planner);
    ff_cublas_destroy(&l->cublas);
    if (l->handle) cudnnDestroy(l->handle);
    free(l);
}

static ff_status library_open(ff_library **out, const ff_library_options *options,
                              ff_error *error) {
    library *l;
    int driver = 0;
    ff_status status;
    *out = NULL;
    if (!options->device && !options->device_json)
        return ff_fail(error, FF_USAGE, "plans need a device or a device's description");
    FF_TRY(ff_alloc(&l, 1, sizeof *l, "cuDNN", error));
    l->base.table = &ff_library_cudnn;
    if (options->device) {
        FF_TRY_DONE(open_handle(options->device, &l->handle, error));
        FF_TRY_DONE(ff_cublas_create(&l->cublas, error));
        cudaError_t told = cudaDriverGetVersion(&driver);
        if (told != cudaSuccess) {
            status =
                ff_fail(error, FF_FAILED, "cudaDriverGetVersion: %s", cudaGetErrorString(told));
            goto done;
        }
    }
    FF_TRY_DONE(ff_cudnn_planner_open(&l->planner, options, l->handle, driver, error));
    *out = &l->base;
    return FF_OK;
done:
    library_close(&l->base);
    return status;
}

ff_status ff_library_cudnn_describe(struct ff_device *device, char **json, ff_error *error) {
    cudnnHandle_t handle;
    FF_TRY(open_handle(device, &handle, error));
    ff_status status = ff_cudnn_device_json(handle, json, error);
    cudnnDestroy(handle);
    return status;
}

/* ---- convolutions ---- */

static void tell(const library *l, const ff_library_conv_spec *spec, const ff_library_conv *made) {
    const ff_library_options *options = &l->planner.options;
    if (options->planned) options->planned(options->planned_context, spec, made);
}

static ff_status library_conv_create(ff_library *base, const ff_library_conv_spec *spec,
                                     ff_library_conv **out, ff_error *error) {
    library *l = (library *)base;
    const ff_cudnn_planned *planned;
    conv *c;
    *out = NULL;
    FF_TRY(ff_cudnn_planner_find(&l->planner, spec, &planned, error));
    if (!planned->plan.plan) {
        if (error) *error = planned->why;
        if (!ff_library_conv_fused(spec)) return FF_FAILED;
        tell(l, spec, NULL);
        return FF_OK;
    }
    FF_TRY(ff_alloc(&c, 1, sizeof *c, "a convolution", error));
    c->planned = planned;
    c->base.spec = *spec;
    c->base.workspace_bytes = planned->plan.workspace_bytes;
    c->base.engine = planned->engine;
    tell(l, spec, &c->base);
    *out = &c->base;
    return FF_OK;
}

static void library_conv_destroy(ff_library *base, ff_library_conv *c) {
    (void)base;
    if (c) ff_cudnn_run_release(&((conv *)c)->run);
    free(c);
}

static void library_settle(ff_library *base) {
    ff_cudnn_planner_settle(&((library *)base)->planner);
}

static ff_status library_conv_run(ff_library *base, ff_library_conv *c, void *stream,
                                  const ff_library_conv_arguments *arguments, void *workspace,
                                  ff_error *error) {
    library *l = (library *)base;
    conv *own = (conv *)c;
    if (!l->handle)
        return ff_fail(error, FF_FAILED, "a plan made for %s without a GPU cannot be run",
                       l->planner.device.name);
    ff_status status =
        ff_cudnn_run_enqueue(&own->run, l->handle, &own->planned->graph, &own->planned->plan,
                             stream, arguments, workspace, error);
    if (status == FF_OK) return FF_OK;
    char text[FF_LIBRARY_CONV_TEXT];
    ff_library_conv_text(&c->spec, text);
    return ff_fail_within(error, status, "%s", text);
}

/* ---- matrix products ---- */

static size_t library_gemm_workspace(const ff_library *base) {
    (void)base;
    return FF_CUBLAS_WORKSPACE;
}

static ff_status library_gemm(ff_library *base, void *stream, const ff_library_gemm *gemm,
                              void *workspace, ff_error *error) {
    library *l = (library *)base;
    if (!l->cublas)
        return ff_fail(error, FF_FAILED, "matrix products for %s cannot be run without a GPU",
                       l->planner.device.name);
    return ff_cublas_run(l->cublas, stream, gemm, workspace, error);
}

const ff_library_table ff_library_cudnn = {
    .name = "cudnn",
    .open = library_open,
    .close = library_close,
    .conv_create = library_conv_create,
    .conv_destroy = library_conv_destroy,
    .settle = library_settle,
    .conv_run = library_conv_run,
    .gemm_workspace = library_gemm_workspace,
    .gemm = library_gemm,
};
