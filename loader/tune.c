#include "loader/tune.h"

#include <math.h>

#define PAUSE_SECONDS 4e-3

ff_tuned ff_tune(double thread_rate, double copy_rate, uint32_t rows, int cpus) {
    double threads = ceil(1.25 * copy_rate / thread_rate);
    double waiting = ceil(PAUSE_SECONDS * copy_rate / rows);
    return (ff_tuned){
        .threads = threads < 1      ? 1
                   : threads > cpus ? cpus
                                    : (int)threads,
        .slots = waiting < 1    ? 4
                 : waiting > 13 ? 16
                                : 3 + (uint32_t)waiting,
    };
}
