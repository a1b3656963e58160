"""Which rank of how many this process is."""
from __future__ import annotations

import os
import sys
from typing import Optional, Tuple

from .errors import UsageError

# The variables that a launcher sets, all of them; the first two are the rank and the world. The table of fftrain's ranks.
FAMILIES = (
    ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")),
    ("Open MPI", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")),
    ("MPICH", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
    ("SLURM", ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID")),
)


def in_shell_of_slurm() -> bool:
    """A shell in an allocation, or the script of a batch, has variables of tasks but is none: only srun numbers steps; the ids
    of such shells' steps have ten digits. The rule of fftrain's ranks."""
    name, step = os.environ.get("SLURM_JOB_NAME"), os.environ.get("SLURM_STEP_ID")
    if step:
        return name == "bash" or len(step) > 9
    return name in ("bash", "interactive") or os.environ.get("ENVIRONMENT") == "BATCH"


def of_group() -> Optional[Tuple[int, int]]:
    """(rank, world) of torch.distributed; None where no process group is initialized."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def of_launcher() -> Tuple[int, int]:
    """(rank, world) of the first launcher all of whose variables are set, else (0, 1). UsageError where some launcher's rank or
    world is set alone: a process that took it for a rank of a job, or for none, could read other samples than it should."""
    partial = None
    for family, names in FAMILIES:
        if family == "SLURM" and in_shell_of_slurm():
            continue
        missing = [name for name in names if not os.environ.get(name)]
        if not missing:
            rank, world = names[:2]
            try:
                return int(os.environ[rank]), int(os.environ[world])
            except ValueError:
                raise UsageError("%s=%r, %s=%r: these are no numbers" % (rank, os.environ[rank], world,
                                                                         os.environ[world])) from None
        known = [name for name in names[:2] if name not in missing]
        if known and partial is None:
            partial = "%s is set, but %s, which %s sets too, is not; no process group is initialized: give rank= and world=" % (
                known[0], missing[0], family)
    if partial is not None:
        raise UsageError(partial)
    return 0, 1


def found() -> Tuple[int, int]:
    """(rank, world) of torch.distributed where it is initialized, else of a launcher, else (0, 1)."""
    return of_group() or of_launcher()


def found_early() -> Tuple[int, int]:
    """found() of a loader that is not iterated yet: a process group may be initialized later, so what a launcher says by half is
    no error now."""
    try:
        return found()
    except UsageError:
        return 0, 1


def checked(rank: Optional[int], world: Optional[int]) -> Optional[Tuple[int, int]]:
    """Those given, which come together; None where none is given."""
    if (rank is None) != (world is None):
        raise UsageError("rank and world are given together")
    return None if rank is None or world is None else (rank, world)


def beside(world: int) -> int:
    """How many of the ranks are on this machine, itself included, as far as a launcher's variables tell; else 1."""
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"):
        if os.environ.get(name, "").isdigit():
            return max(1, min(world, int(os.environ[name])))
    return 1
