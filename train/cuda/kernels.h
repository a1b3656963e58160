/* All own kernels of the training step: C launchers of the .cu files of this folder, one header a
 * .cu. Common rules (layout, dtypes, streams, results): launch.h. */
#ifndef FF_TRAIN_CUDA_KERNELS_H
#define FF_TRAIN_CUDA_KERNELS_H

#include "train/cuda/depthwise.h"
#include "train/cuda/launch.h"
#include "train/cuda/loss.h"
#include "train/cuda/muon.h"
#include "train/cuda/norm.h"
#include "train/cuda/pointwise.h"
#include "train/cuda/pool.h"
#include "train/cuda/update.h"
#include "train/cuda/views.h"

#endif
