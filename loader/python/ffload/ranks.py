"""Which rank of how many this process is."""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from .errors import UsageError

# The variables that a launcher sets, all of them; the first two are the rank and the world. The table of fftrain's ranks.
FAMILIES = (
    ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")),
    ("Open MPI", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")),
    ("MPICH", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
    ("SLURM", ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID")),
)
# An epoch that long is begun by the other ranks before its end.
LONG_SECONDS, KEPT = 30, 8


def in_shell_of_slurm() -> bool:
    """A shell in an allocation, or the script of a batch, has variables of tasks but is not a task: only srun numbers steps; the ids
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
    world is set alone: a process that took it for a rank of a job, or ignored it, could read the wrong samples."""
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
                raise UsageError("%s=%r, %s=%r: these are not numbers" % (rank, os.environ[rank], world,
                                                                         os.environ[world])) from None
        known = [name for name in names[:2] if name not in missing]
        if known and partial is None:
            partial = "%s is set, but %s, which %s sets too, is not; no process group is initialized: give rank= and world=" % (
                known[0], missing[0], family)
    if partial is not None:
        raise UsageError(partial)
    return 0, 1


def found() -> Tuple[int, int]:
    """(rank, world) of torch.distributed if it is initialized, else of a launcher, else (0, 1)."""
    return of_group() or of_launcher()


def found_early() -> Tuple[int, int]:
    """found() for a loader that is not iterated yet: a process group may be initialized later, so a launcher's half of variables is
    no error now."""
    try:
        return found()
    except UsageError:
        return 0, 1


def checked(rank: Optional[int], world: Optional[int]) -> Optional[Tuple[int, int]]:
    """The arguments, which come together; None without them."""
    if (rank is None) != (world is None):
        raise UsageError("rank and world come together: set both or neither")
    return None if rank is None or world is None else (rank, world)


def beside(world: int) -> int:
    """The number of ranks on this machine, itself included, by a launcher's variables; else 1."""
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"):
        if os.environ.get(name, "").isdigit():
            return max(1, min(world, int(os.environ[name])))
    return 1


def store_of_group() -> Any:
    """The key-value store of torch.distributed's default group; None without one."""
    if of_group() is None:
        return None
    return getattr(sys.modules["torch"].distributed.distributed_c10d, "_get_default_store", lambda: None)()


class Watch:
    """An epoch of a set that the ranks share, counted in the group's store as it begins: a warning where this rank alone has iterated
    it, since others are already in a later one, or it was long. That is an evaluation on one rank, of that rank's rows."""
    begun: Dict[str, int] = {}  # epochs of each set in this process
    latest: List[Watch] = []    # in their order, those that are not known to be shared

    def __init__(self, path: str, samples: int, rank: int, world: int) -> None:
        self.path, self.samples, self.rank, self.world = path, samples, rank, world
        number = Watch.begun[path] = Watch.begun.get(path, 0) + 1
        self.key, self.began = "ffload/%s/%d" % (os.path.realpath(path), number), time.monotonic()
        self._count(1)
        Watch._look()
        Watch.latest = [*Watch.latest[-KEPT:], self]

    def _count(self, more: int) -> int:
        """Of the ranks that began it; 0 where the store is gone."""
        try:
            store = store_of_group()
            return int(store.add(self.key, more)) if store is not None else 0
        except (RuntimeError, ValueError):
            return 0

    def end(self) -> None:
        """Of its epoch."""
        if time.monotonic() - self.began > LONG_SECONDS and self._count(0) == 1:
            Watch.latest = [watch for watch in Watch.latest if watch is not self]
            self._warn()
        else:
            Watch._look()

    @staticmethod
    def _look() -> None:
        counts = [watch._count(0) for watch in Watch.latest]
        shared = max([number for number, count in enumerate(counts) if count > 1], default=-1)
        before, Watch.latest = Watch.latest[:shared + 1], Watch.latest[shared + 1:]
        for watch, count in zip(before, counts):
            if count == 1:
                watch._warn()

    def _warn(self) -> None:
        import warnings
        warnings.warn("%s: rank %d of %d has iterated its part of the %d samples, and no other rank has; for an evaluation on one rank "
                      "alone the loader is made with rank=0, world=1" % (self.path, self.rank, self.world, self.samples), stacklevel=5)
