/* fftrain with a GPU that is none: linked with tests/cuda/sim/module, `fftrain_sim --device cuda`
 * runs what a card would run. */
#include "train/main.c"
