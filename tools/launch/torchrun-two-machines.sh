#!/bin/sh
# Trains on two machines, one rank a GPU, started by torchrun. On both, with the name of the first:
#   sh torchrun-two-machines.sh FIRST-MACHINE RUN --data packed --model resnet50 --epochs 90
# packed and the run's new folder RUN are on a file system that both have. torchrun numbers the ranks and starts
# them again after a failure, from the last checkpoint; PyTorch does nothing else here.
host=$1 run=$2
shift 2
exec torchrun --no_python --nnodes=2 --nproc_per_node="${GPUS:-gpu}" --rdzv_backend=c10d \
    --rdzv_endpoint="$host:${PORT:-29400}" --rdzv_id="$run" --max_restarts=3 \
    fftrain --resume auto --out "$run" "$@"
