/* A GPU's free memory after each stage of a run's beginning, for the log. What CUDA's libraries
 * take for themselves is what the stages took beyond the count of needs.h. */
#ifndef FF_TRAIN_DEVICE_MEMORY_H
#define FF_TRAIN_DEVICE_MEMORY_H

#include "loader/device/device.h"

/* In their order. The batches come after all memory of the step, so that the placement is chosen
 * from what is really left. */
typedef enum ff_memory_stage {
    FF_MEMORY_OPENED,       /* the device and CUDA's libraries */
    FF_MEMORY_MODEL,        /* parameters, plans, engines */
    FF_MEMORY_COMMUNICATOR, /* NCCL; it may take more at the first collective */
    FF_MEMORY_STEP,         /* tables of the update, Muon's workspaces, buckets */
    FF_MEMORY_BATCHES,      /* resident sets, slots */
    FF_MEMORY_WARM_UP,      /* graphs, kernels that are loaded at their first launch */
    FF_MEMORY_STAGES,
} ff_memory_stage;

typedef struct ff_device_memory {
    uint64_t total_bytes; /* 0 = not read: the CPU, or a planned device */
    uint64_t free_bytes[FF_MEMORY_STAGES];
    int stages; /* the first ones have been read */
} ff_device_memory;

/* As in the log: "opened", "warm_up". */
const char *ff_memory_stage_name(ff_memory_stage stage);
/* Reads the device's free memory after `stage`. Does nothing for the host, an absent device and
 * NULL. The device's errors. */
FF_MUST_USE ff_status ff_device_memory_read(ff_device_memory *memory, ff_memory_stage stage,
                                            ff_device *device, ff_error *error);

#endif
