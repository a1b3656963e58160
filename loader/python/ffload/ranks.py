"""Which rank of how many this process is."""
from __future__ import annotations

import os
import sys
from typing import Optional, Tuple

from .errors import UsageError

# Families of variables, of which one is taken whole: torchrun's, Open MPI's, SLURM's.
FAMILIES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))


def in_shell_of_slurm() -> bool:
    """A shell in an allocation, or the script of a batch, has variables of tasks but is none: only srun numbers steps; the ids
    of such shells' steps have ten digits. The rule of fftrain's ranks."""
    name, step = os.environ.get("SLURM_JOB_NAME"), os.environ.get("SLURM_STEP_ID")
    if step:
        return name == "bash" or len(step) > 9
    return name in ("bash", "interactive") or os.environ.get("ENVIRONMENT") == "BATCH"


def found() -> Tuple[int, int]:
    """(rank, world) of torch.distributed where it is initialized, else of the launcher's variables, else (0, 1)."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for rank, world in FAMILIES:
        if rank not in os.environ or world not in os.environ:
            continue
        if rank.startswith("SLURM") and in_shell_of_slurm():
            continue
        try:
            return int(os.environ[rank]), int(os.environ[world])
        except ValueError:
            raise UsageError("%s=%r, %s=%r: these are no numbers" % (rank, os.environ[rank], world,
                                                                     os.environ[world])) from None
    return 0, 1


def chosen(rank: Optional[int], world: Optional[int]) -> Tuple[int, int]:
    """Those given, which come together, else found()."""
    if rank is None and world is None:
        return found()
    if rank is None or world is None:
        raise UsageError("rank and world are given together")
    return rank, world


def beside(world: int) -> int:
    """How many of the ranks are on this machine, itself included, as far as a launcher's variables tell; else 1."""
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"):
        if os.environ.get(name, "").isdigit():
            return max(1, min(world, int(os.environ[name])))
    return 1
