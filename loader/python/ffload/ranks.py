"""This process's rank and the number of ranks."""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from .errors import UsageError
from .habits import whole

# The variables that each launcher sets; the first two are the rank and the world. The same table as fftrain's.
FAMILIES = (
    ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")),
    ("Open MPI", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")),
    ("MPICH", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
    ("SLURM", ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID")),
)
# The other ranks begin an epoch of this length before it ends here.
LONG_SECONDS, KEPT = 30, 8


def in_shell_of_slurm() -> bool:
    """Whether this is a shell in an allocation, or a batch script: it has the variables of a task but is not one. Only srun numbers
    steps; the step ids of such shells have ten digits. The same rule as fftrain's."""
    name, step = os.environ.get("SLURM_JOB_NAME"), os.environ.get("SLURM_STEP_ID")
    if step:
        return name == "bash" or len(step) > 9
    return name in ("bash", "interactive") or os.environ.get("ENVIRONMENT") == "BATCH"


def of_group() -> Optional[Tuple[int, int]]:
    """(rank, world) of torch.distributed; None if no process group is initialized."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def of_launcher() -> Tuple[int, int]:
    """(rank, world) of the first launcher all of whose variables are set, else (0, 1). UsageError if a launcher's rank or world is
    set but others of its variables are missing: whether the process used them or ignored them, it could read the wrong samples."""
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
            partial = "%s is set, but %s, which %s sets too, is not; no process group is initialized: set rank= and world=" % (
                known[0], missing[0], family)
    if partial is not None:
        raise UsageError(partial)
    return 0, 1


def found() -> Tuple[int, int]:
    """(rank, world) from torch.distributed if it is initialized, else from a launcher, else (0, 1)."""
    return of_group() or of_launcher()


def found_early() -> Tuple[int, int]:
    """found() for a loader that is not iterated yet: a process group may be initialized later, so an incomplete set of a launcher's
    variables is not an error now."""
    try:
        return found()
    except UsageError:
        return 0, 1


def checked(rank: Optional[int], world: Optional[int]) -> Optional[Tuple[int, int]]:
    """The arguments, of which both or neither must be set; None without them."""
    if (rank is None) != (world is None):
        raise UsageError("rank and world come together: set both or neither")
    return None if rank is None or world is None else (whole("rank", rank), whole("world", world))


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
    """An epoch of a set that the ranks share, counted in the group's store when it begins. Warns if only this rank has iterated it
    although the others are already in a later epoch, or it was long: that is an evaluation on one rank, which sees only that rank's
    rows."""
    begun: Dict[str, int] = {}  # epochs of each set in this process
    latest: List[Watch] = []    # in order, the epochs not yet known to be shared

    def __init__(self, path: str, samples: int, rank: int, world: int) -> None:
        self.path, self.samples, self.rank, self.world = path, samples, rank, world
        number = Watch.begun[path] = Watch.begun.get(path, 0) + 1
        self.key, self.began = "ffload/%s/%d" % (os.path.realpath(path), number), time.monotonic()
        self._count(1)
        Watch._look()
        Watch.latest = [*Watch.latest[-KEPT:], self]

    def _count(self, more: int) -> int:
        """Adds `more` to the number of ranks that began the epoch, and returns it; 0 if the store is gone."""
        try:
            store = store_of_group()
            return int(store.add(self.key, more)) if store is not None else 0
        except (RuntimeError, ValueError):
            return 0

    def end(self) -> None:
        """The epoch ends."""
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
        warnings.warn("%s: rank %d of %d has iterated its part of the %d samples, and no other rank has; to evaluate on one rank "
                      "alone, make the loader with rank=0, world=1" % (self.path, self.rank, self.world, self.samples), stacklevel=5)
