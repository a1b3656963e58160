/* All own kernels of the training step: C launchers of the .cu files of this folder. Common rules
 * (layout, dtypes, streams, results): launch.h. */
#ifndef FF_TRAIN_CUDA_KERNELS_KERNELS_H
#define FF_TRAIN_CUDA_KERNELS_KERNELS_H

#include "train/cuda/kernels/depthwise.h"
#include "train/cuda/kernels/launch.h"
#include "train/cuda/kernels/loss.h"
#include "train/cuda/kernels/muon.h"
#include "train/cuda/kernels/norm.h"
#include "train/cuda/kernels/pointwise.h"
#include "train/cuda/kernels/pool.h"
#include "train/cuda/kernels/update.h"
#include "train/cuda/kernels/views.h"

#endif
