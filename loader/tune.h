/* The ring's threads and slots, from measured rates. Private to loader/. Pure. */
#ifndef FF_LOADER_TUNE_H
#define FF_LOADER_TUNE_H

#include <stdint.h>

typedef struct ff_tuned {
    int threads;
    uint32_t slots;
} ff_tuned;

/* thread_rate: samples a second that one thread gathers (and augments, where that is its work);
 * copy_rate: that are copied to the device; rows: of a batch; all > 0. Threads that keep up with
 * the copies, with a quarter to spare, at most `cpus`. Slots: one is read by the kernels, one
 * copied, one filled, and as many wait as the copies need to last through 4 ms, in which a thread
 * may lose its CPU; 4 to 16. */
ff_tuned ff_tune(double thread_rate, double copy_rate, uint32_t rows, int cpus);

#endif
