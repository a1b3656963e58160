/* fftrain with a simulated GPU: linked with tests/cuda/sim/module, `fftrain_sim --device cuda` runs
 * what a GPU would run. */
#include "train/main.c"
