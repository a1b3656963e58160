/* tests/gpu/op_times.c over the simulated GPU (tests/cudasim/module). */
#include "tests/gpu/op_times.c"
