"""The attributes that other libraries expect of a DataLoader: a sampler, a batch sampler and a collate function. With these and the
loader's dataset a DataLoader returns the loader's own batches; accelerate skips the first batches of an epoch in this way."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, cast

if TYPE_CHECKING:
    from .loader import Loader


class Place(NamedTuple):
    """The place of a batch, instead of the numbers of its samples."""
    epoch: int
    position: int  #: of its first sample in the epoch's order


class Sampler:
    """The parts of a sampler that other libraries use: its epoch and its length."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return int(self._loader._about["samples"])

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)


class BatchSampler:
    """The places of the batches that a loader's next iteration would yield."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.sampler = Sampler(loader)
        self.batch_size, self.drop_last = loader.batch_size, loader.drop_last

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[List[Place]]:
        return ([place] for place in self._loader._places())

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)


class Collate:
    """Gives the batch of a place."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __call__(self, places: List[Place]) -> Any:
        [place] = places
        return self._loader._at(place)


class AsDataLoader:
    """The attributes of a DataLoader that others read."""

    _about: Dict[str, Any]
    _options: Dict[str, str]

    #: No processes make batches, and no memory is pinned.
    num_workers, pin_memory = 0, False

    @property
    def batch_size(self) -> int:
        """Samples of a batch, over all ranks."""
        return int(self._about["batch_size"])

    @property
    def drop_last(self) -> bool:
        """Whether an incomplete last batch is left out."""
        return self._options["last_batch"] == "drop"

    @property
    def prefetch_factor(self) -> Any:
        """DataLoader's own default, for libraries that copy it."""
        from inspect import signature
        from torch.utils.data import DataLoader
        return signature(DataLoader).parameters["prefetch_factor"].default

    @property
    def sampler(self) -> Sampler:
        """Has set_epoch, which Lightning and timm call."""
        return Sampler(cast("Loader", self))

    @property
    def batch_sampler(self) -> BatchSampler:
        """The places of the next epoch's batches. DataLoader(loader.dataset, batch_sampler=loader.batch_sampler,
        collate_fn=loader.collate_fn) yields the batches, as accelerate.skip_first_batches makes it."""
        return BatchSampler(cast("Loader", self))

    @property
    def collate_fn(self) -> Callable[[List[Place]], Any]:
        """Gives the batch of a place."""
        return Collate(cast("Loader", self))
