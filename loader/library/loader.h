/* Room loader/library, floor 7: libffload, the loader for programs of others in C and C++.
 *
 * include/ffload/ffload.h is all that a user sees, and documents it. dataset.c opens sets,
 * options.c reads options by name, loader.c makes batches from the host's ring or on a GPU
 * (gpu.c), and batch.c gives a slot's memory away. tensor.c describes memory as DLPack does;
 * plan.c reports which samples come when; pool.c holds device memory. status.c turns our errors
 * into the library's.
 *
 * May include format, loader/cuda, loader/device, loader/gpu, loader/sequence.
 *
 * A loader with what continues it. Private to loader/library/. */
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
    ff_library_gpu gpu;     /* on a GPU: in place of it */
    ffload_batch_info told; /* of the last batch on a GPU */
    ff_slot *slot;          /* acquired, but not given yet: there was no memory; else NULL */
    uint64_t length;        /* batches per epoch: known without a lock, also in a forked process */
    pthread_mutex_t place;  /* of what is read while another thread is in a call: */
    bool fresh;             /* no batch was given since it started at `next` */
    ff_loader_position next;
    char *json, *state; /* texts given; NULL = none */
    ffload_loader *abandoned;
};

/* The begin and the end of every public function but destroy, interrupt, and those that only look.
 * `given`: of FF_LIBRARY_GIVEN, which it returns on failure. FF_USAGE in another process, and where
 * another thread is in a call. The end returns `status`. */
FF_MUST_USE ff_status ff_library_enter(ffload_loader *loader, ff_status given, ff_error *error);
ff_status ff_library_leave(ffload_loader *loader, ff_status status);

/* Begins a function that only looks, which any thread may call while another is in a call: with
 * the loader's place locked. FF_USAGE in another process, and then nothing is locked. */
FF_MUST_USE ff_status ff_library_look(ffload_loader *loader, ff_status given, ff_error *error);
ff_status ff_library_look_away(ffload_loader *loader, ff_status status);

ff_loader_info ff_library_info(const ffload_loader *loader);

/* Continues at a position; on failure the loader is as before. */
FF_MUST_USE ff_status ff_library_seek(ffload_loader *loader, uint32_t epoch, uint64_t position,
                                      ff_error *error);

#endif
