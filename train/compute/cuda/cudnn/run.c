#include "train/compute/cuda/cudnn/run.h"

#include <cudnn.h>

#include <string.h>

void ff_cudnn_run_release(ff_cudnn_run *run) {
    ff_cudnn_release(&run->parts);
    *run = (ff_cudnn_run){0};
}

static ff_status make_pack(ff_cudnn_run *run, const ff_cudnn_graph *graph,
                           const ff_library_conv_arguments *arguments, void *workspace,
                           ff_error *error) {
    void *pointers[FF_CUDNN_TENSORS];
    ff_cudnn_graph_pointers(graph, arguments, pointers);
    for (int i = 0; i < graph->id_count; i++)
        if (!pointers[i]) return ff_fail(error, FF_FAILED, "an argument is missing");
    ff_cudnn_run_release(run);
    ff_cudnn_builder *parts = &run->parts;
    run->pack = ff_cudnn_make(parts, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    ff_cudnn_set(parts, run->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                 graph->id_count, graph->ids);
    ff_cudnn_set(parts, run->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                 graph->id_count, pointers);
    ff_cudnn_set(parts, run->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                 &workspace);
    ff_cudnn_finish(parts, run->pack, "a run's pointers");
    ff_status status = ff_cudnn_result(parts, error);
    if (status != FF_OK) {
        ff_cudnn_run_release(run);
        return status;
    }
    run->arguments = *arguments;
    run->workspace = workspace;
    return FF_OK;
}

ff_status ff_cudnn_run_enqueue(ff_cudnn_run *run, void *handle, const ff_cudnn_graph *graph,
                               const ff_cudnn_plan *plan, void *stream,
                               const ff_library_conv_arguments *arguments, void *workspace,
                               ff_error *error) {
    /* Most convolutions get the same pointers in every step. */
    if (!run->pack || run->workspace != workspace ||
        memcmp(&run->arguments, arguments, sizeof *arguments) != 0)
        FF_TRY(make_pack(run, graph, arguments, workspace, error));
    cudnnStatus_t status = cudnnSetStream(handle, stream);
    if (status != CUDNN_STATUS_SUCCESS) return ff_cudnn_fail(error, "cudnnSetStream", status);
    status = cudnnBackendExecute(handle, plan->plan, run->pack);
    if (status != CUDNN_STATUS_SUCCESS) return ff_cudnn_fail(error, "cudnnBackendExecute", status);
    return FF_OK;
}
