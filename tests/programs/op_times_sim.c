/* tests/gpu/op_times.c over the simulated GPU of fftrain_sim.c. */
#define FF_SIM_MAIN "tests/gpu/op_times.c"
#include "tests/programs/fftrain_sim.c"
