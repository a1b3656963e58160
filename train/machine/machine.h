/* Room train/machine, floor 12: the computer that a run uses.
 *
 * This header opens the CPU or a GPU for a rank, and holds the module and the device until the end.
 * card.c computes how fast a GPU can be at best. tuning.c collects how engines were chosen and
 * shows progress meanwhile. planned_device.c stands in for a GPU that this machine does not have,
 * from the GPU's description.
 *
 * May include format, loader/cuda, loader/device, train/comm/job, train/compute,
 * train/compute/cuda, train/net.
 *
 * The device on which a run computes: the CPU, or a GPU through the CUDA module. A model and its
 * batches are made on the device. Thread rule: one thread at a time. */
#ifndef FF_TRAIN_MACHINE_H
#define FF_TRAIN_MACHINE_H

#include "format/base/status.h"
#include "loader/cuda/nvml.h"
#include "loader/device/device.h"
#include "train/comm/job/job.h"
#include "train/machine/card.h"
#include "train/machine/tuning.h"
#include "train/net/model.h"

typedef struct ff_machine ff_machine;
struct ff_loader_kernels;

/* Accepts "auto", "cpu", "cuda", "cuda:1"; NULL = auto. FF_USAGE for anything else. */
FF_MUST_USE ff_status ff_machine_check(const char *device, ff_error *error);
typedef struct ff_machine_options {
    const char *device; /* as above */
    int local_rank; /* among the ranks on this machine: auto takes the GPU of this number, or the
                       first if a rank sees only one */
    const char *plan_cache; /* the folder of plans; NULL = ff_plan_cache_folder's */
    double tune_seconds;    /* as in ff_cuda_options; negative = the default */
    bool compile_nothing;   /* as in ff_library_options */
    bool no_fold;
    bool verbose;      /* ff_machine_text has the whole reason why there is no GPU, not only its
                          beginning */
    ff_tuning *tuning; /* receives counts and notes, must outlive the machine; NULL = none */
} ff_machine_options;

/* `auto` uses the CPU if no GPU can be used, and ff_machine_text returns why; `cuda` fails with
 * this reason. On failure *machine = NULL. */
FF_MUST_USE ff_status ff_machine_open(ff_machine **machine, const ff_machine_options *options,
                                      ff_error *error);
/* Call after everything made on the machine is destroyed. NULL is accepted. */
void ff_machine_close(ff_machine **machine);

/* NULL: the CPU. */
const ff_model_device *ff_machine_device(const ff_machine *machine);
/* For the communicator of a job; on the CPU `create` is NULL. */
ff_job_gpu ff_machine_gpu(const ff_machine *machine);
/* The loader's kernels on the device; NULL: the CPU. */
const struct ff_loader_kernels *ff_machine_kernels(const ff_machine *machine);
/* The GPU's description (`describe` of train/compute/cuda/exports.h; the caller frees it) and its
 * free memory. Allocates no GPU memory. */
FF_MUST_USE ff_status ff_machine_describe(const ff_machine *machine, char **json,
                                          uint64_t *free_bytes, ff_error *error);
/* The GPU's limits, as its driver reports them; 0 = not reported. All 0 for the CPU. */
ff_card ff_machine_card(const ff_machine *machine);
/* One sentence if `auto` uses the CPU although a driver knows a GPU; else NULL. Owned by the
 * machine. */
const char *ff_machine_warning(const ff_machine *machine);
/* "cpu; no GPU: ...", "cuda:0, NVIDIA H200 (compute capability 9.0), card 3 at PCI 0000:5e:00.0,
 * CUDA 13.0 ...": for reports; owned by the machine. The card's number is nvidia-smi's; the number
 * in cuda:0 follows CUDA_VISIBLE_DEVICES. */
const char *ff_machine_text(const ff_machine *machine);

/* Reads what the driver's NVML reports of the GPU now (loader/cuda/nvml.h). False on the CPU, and
 * if NVML or its data about the GPU is missing. */
bool ff_machine_read(const ff_machine *machine, ff_nvml_reading *reading);

/* Names a range of the calling thread's work, for profilers; no effect on the CPU. */
void ff_machine_push(const ff_machine *machine, const char *name);
void ff_machine_pop(const ff_machine *machine);

#endif
