/* All own kernels of the training step: C launchers of the .cu files of this folder. Common rules
 * (layout, dtypes, streams, results): launch.h. */
#ifndef FF_TRAIN_CUDA_KERNELS_KERNELS_H
#define FF_TRAIN_CUDA_KERNELS_KERNELS_H

#include "train/compute/cuda/kernels/depthwise.h"
#include "train/compute/cuda/kernels/launch.h"
#include "train/compute/cuda/kernels/loss.h"
#include "train/compute/cuda/kernels/muon.h"
#include "train/compute/cuda/kernels/norm.h"
#include "train/compute/cuda/kernels/pointwise.h"
#include "train/compute/cuda/kernels/pool.h"
#include "train/compute/cuda/kernels/update.h"
#include "train/compute/cuda/kernels/views.h"

#endif
