/* The fixed device buffers of batches (ff_batch_buffers). Private to loader/. */
#ifndef FF_LOADER_BATCH_BUFFERS_H
#define FF_LOADER_BATCH_BUFFERS_H

#include "loader/gpu/batches.h"
#include "loader/host/settings.h"

/* Buffers for batches of `channels` channels per pixel, with room for the largest size; adds their
 * bytes to *bytes. They must be released also after a failure. */
FF_MUST_USE ff_status ff_batch_buffers_create(ff_batch_buffers *buffers, ff_device *device,
                                              const ff_loader_settings *settings, uint32_t channels,
                                              uint64_t *bytes, ff_error *error);
/* Zeroed buffers are accepted. */
void ff_batch_buffers_release(ff_batch_buffers *buffers, ff_device *device);

#endif
