/* Streams of simulated GPUs for consumers of libffload that have no CUDA of their own (tests of the
 * Python package): linked into a libffload with module/, and called by their names. */
#include "loader/cuda/module.h"

#include <stdlib.h>

#define PUBLIC __attribute__((visibility("default")))

typedef struct sim_card {
    ff_cuda_module *module;
    ff_device *device;
    ff_stream *stream;
    ff_recording *recording;
} sim_card;

PUBLIC sim_card *ffload_sim_create(int ordinal);
PUBLIC void *ffload_sim_stream(sim_card *card);
PUBLIC int ffload_sim_synchronize(sim_card *card);
PUBLIC int ffload_sim_begin(sim_card *card);
PUBLIC int ffload_sim_end(sim_card *card);
PUBLIC int ffload_sim_launch(sim_card *card);

/* NULL on failure. Lives as long as the process. */
sim_card *ffload_sim_create(int ordinal) {
    sim_card *card = calloc(1, sizeof *card);
    if (!card || ff_cuda_module_open(&card->module, ordinal, NULL) != FF_OK) return NULL;
    if (ff_cuda_module_table(card->module)->device_create(&card->device, ordinal, NULL) != FF_OK)
        return NULL;
    if (card->device->table->stream_create(card->device, &card->stream, NULL) != FF_OK) return NULL;
    return card;
}

void *ffload_sim_stream(sim_card *card) {
    return card->device->table->native_stream(card->device, card->stream);
}

int ffload_sim_synchronize(sim_card *card) {
    return (int)card->device->table->stream_synchronize(card->device, card->stream, NULL);
}

int ffload_sim_begin(sim_card *card) {
    return (int)card->device->table->capture_begin(card->device, card->stream, NULL);
}

int ffload_sim_end(sim_card *card) {
    return (int)card->device->table->capture_end(card->device, card->stream, &card->recording,
                                                 NULL);
}

int ffload_sim_launch(sim_card *card) {
    return (int)card->device->table->recording_launch(card->device, card->recording, card->stream,
                                                      NULL);
}
