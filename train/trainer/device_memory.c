#include "train/trainer/device_memory.h"

#include "loader/device/absent.h"

static const char *const names[FF_MEMORY_STAGES] = {
    [FF_MEMORY_OPENED] = "opened",   [FF_MEMORY_MODEL] = "model",
    [FF_MEMORY_STEP] = "step",       [FF_MEMORY_COMMUNICATOR] = "communicator",
    [FF_MEMORY_BATCHES] = "batches", [FF_MEMORY_WARM_UP] = "warm_up",
};

const char *ff_memory_stage_name(ff_memory_stage stage) {
    return names[stage];
}

ff_status ff_device_memory_read(ff_device_memory *memory, ff_memory_stage stage, ff_device *device,
                                ff_error *error) {
    if (!device || device->table->unified || ff_device_is_absent(device)) return FF_OK;
    memory->stages = (int)stage + 1;
    return device->table->memory(device, &memory->free_bytes[stage], &memory->total_bytes, error);
}
