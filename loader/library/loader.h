/* Room loader/library, floor 10: libffload, the loader for other programs in C and C++.
 *
 * include/ffload/ffload.h is the public header, and documents the library. dataset.c opens sets,
 * options.c and views.c read options by name, loader.c makes batches from the host's ring or on a
 * GPU (gpu.c), and batch.c passes a slot's memory to the caller. tensor.c describes memory as
 * DLPack does; plan.c lays out a batch's tensors; pool.c holds device memory. status.c turns
 * internal errors into the library's.
 *
 * May include format, loader/cuda, loader/device, loader/gpu, loader/sequence.
 *
 * A loader, and what it needs to continue. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_LOADER_H
#define FF_LOADER_LIBRARY_LOADER_H

#include "loader/library/batch.h"
#include "loader/library/dataset.h"
#include "loader/library/gpu.h"

#include <pthread.h>

struct ffload_loader {
    int process;
    atomic_bool busy;        /* a thread is in a call */
    atomic_bool interrupted; /* and the next wait ends */
    ffload_dataset *dataset;
    ff_library_settings settings;
    ff_library_plan *plan;
    ff_loader *inner;       /* on the CPU */
    ff_library_gpu gpu;     /* on a GPU, instead of `loader` */
    ffload_batch_info told; /* the last batch's on a GPU */
    ff_slot *slot;          /* acquired, but not returned yet for lack of memory; else NULL */
    uint64_t length;        /* batches per epoch: known without a lock, also in a forked process */
    pthread_mutex_t place;  /* protects what is read while another thread is in a call: */
    bool fresh;             /* no batch was returned since the loader started at `next` */
    ff_loader_position next;
    char *json, *state; /* returned texts; NULL = none */
    ffload_loader *abandoned;
};

/* The begin and the end of every public function except destroy, interrupt, and those that only
 * read. `given`: the result of FF_LIBRARY_GIVEN; a failure in it is returned. FF_USAGE in another
 * process, and while another thread is in a call. The end returns `status`. */
FF_MUST_USE ff_status ff_library_enter(ffload_loader *loader, ff_status given, ff_error *error);
ff_status ff_library_leave(ffload_loader *loader, ff_status status);

/* Begins a function that only reads, and locks the loader's place, so that any thread may call it
 * while another is in a call. FF_USAGE in another process, and then nothing is locked. */
FF_MUST_USE ff_status ff_library_look(ffload_loader *loader, ff_status given, ff_error *error);
ff_status ff_library_look_away(ffload_loader *loader, ff_status status);

ff_loader_info ff_library_info(const ffload_loader *loader);

/* Continues at a position, with a cut of the batch there; on failure the loader is as before. */
FF_MUST_USE ff_status ff_library_seek(ffload_loader *loader, uint32_t epoch, uint64_t position,
                                      uint32_t cut, ff_error *error);

#endif
