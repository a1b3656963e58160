"""Which rank of how many this process is."""
from __future__ import annotations

import os
import sys
from typing import Optional, Tuple

from .errors import UsageError

# Families of variables, of which one is taken whole: torchrun's, Open MPI's, SLURM's.
FAMILIES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))


def found() -> Tuple[int, int]:
    """(rank, world) of torch.distributed where it is initialized, else of the launcher's variables, else (0, 1)."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for rank, world in FAMILIES:
        if rank not in os.environ or world not in os.environ:
            continue
        # A shell in an allocation, not a step of a job.
        if rank.startswith("SLURM") and os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
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
