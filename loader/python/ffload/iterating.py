"""A loader's iterations: its epochs, its place in them, and the arrays in which its batches come."""
from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Optional, Tuple, cast

from . import habits, ranks
from .arrays import converter, kind_of
from .batches import Batch, BatchInfo, Parted, Parts
from .dataset import Dataset
from .errors import UsageError
from .samplers import Place
from .words import As

if TYPE_CHECKING:
    from .loader import Loader
    from .memory import Memory, Static


class Iterating(Generic[Batch]):
    """The iterations of a loader."""

    dataset: Dataset
    _own: Any
    _as: Optional[As]
    _about: Dict[str, Any]
    _options: Dict[str, str]
    _parts: Parts
    _on_gpu: bool
    _keys: Any
    _transform: Optional[Callable[[Any], Any]]
    _given: bool
    _epochs: int
    # Where the next iteration begins, and whether the library's loader stands there.
    _epoch: int
    _stands: bool
    _turn: int
    _began: Optional[float]
    _watch: Optional[ranks.Watch]
    _ranks: Tuple[int, int]

    def _find_ranks(self) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        """Batches of an epoch from its start; with cuts, parts of batches."""
        return len(self._own)

    def __iter__(self) -> Iterator[Batch]:
        """The next epoch, or the next `epochs` epochs: an unfinished epoch does not continue. Ends any other running
        iteration. UsageError if this process's rank or world has changed since the first iteration."""
        self._find_ranks()
        if self._ranks[1] > 1 and not self._given:
            self._watch = ranks.Watch(self.dataset.path, self._about["samples"], *self._ranks)
        return self._iterate(self._take())

    def _take(self) -> Callable[[], Parted]:
        """A function that takes the next batch of the library's loader."""
        if not self._on_gpu:
            return self._host_batches()
        return self._torch_batches() if kind_of(self._as) == "torch" else self._pool_batches()

    def _iterate(self, take: Callable[[], Any]) -> Iterator[Any]:
        """Yields what take() returns, once for each batch of the library's loader."""
        self._turn += 1
        if not self._stands:
            self._own.seek(self._epoch, 0)
            self._stands = True
        if self._began is None:
            self._began = time.monotonic()
        return self._steps(self._turn, take)

    def _steps(self, turn: int, take: Callable[[], Any]) -> Iterator[Any]:
        own, epochs = self._own, self._epochs or -1
        while epochs != 0:
            if turn != self._turn:
                raise UsageError("the loader is iterated elsewhere, which ended this iteration")
            batch = take()
            last = own.last
            epochs -= last
            if last or self._stands:
                self._note()
            if last and self._watch is not None:
                self._watch.end()
                self._watch = None
            yield self._changed(batch)

    def _changed(self, batch: Any) -> Any:
        """What the loop receives for a batch."""
        return batch if self._transform is None else self._transform(batch)

    def _note(self) -> None:
        """Notes that a batch was taken: the next iteration begins with the epoch after it."""
        self._epoch, self._stands = self._own.info[0] + 1, self._own.last

    def _host_batches(self) -> Callable[[], Parted]:
        names, arrange, convert, take = (self._parts.names, self._parts.arrange, converter(kind_of(self._as)),
                                         self._own.next)
        return lambda: arrange([convert(tensor) for tensor in take(names)])

    def _pool_batches(self) -> Callable[[], Parted]:
        from .memory import current_stream
        kind, names, arrange, take = kind_of(self._as), self._parts.names, self._parts.arrange, self._own.next
        if kind == "numpy":
            raise UsageError("as_=\"numpy\" with device=%r: NumPy's arrays are in the memory of the host" % (
                self._about["device"],))
        convert = converter(kind)
        return lambda: arrange([convert(tensor) for tensor in take(names, current_stream(kind))])

    def _torch_batches(self) -> Callable[[], Parted]:
        memory, arrange, own, pad = self._memory(), self._arrange, self._own, self._options["last_batch"] == "pad"

        def take() -> Parted:
            tensors, places = memory.take()
            own.enqueue_into(places, memory.stream())
            rows, count = own.info[4], own.info[3]
            return arrange(tensors if pad or count == rows else [tensor[:count] for tensor in tensors])
        return take

    def _memory(self) -> Memory:
        """Its GPU's memory for batches."""
        from .memory import Memory
        return Memory(kind_of(self._as), self._about, self._parts.names)

    @property
    def _arrange(self) -> Callable[[List[Any]], Parted]:
        """The function that turns a batch's tensors into what an iteration yields."""
        return self._parts.arrange

    def static(self) -> Static:
        """Fixed tensors on the GPU that each batch is written to, for training steps captured as a CUDA graph:

            static = loader.static()
            images, labels = static.batch
            with torch.cuda.graph(graph):
                static.enqueue()            # writes the next batch
                ...                         # the step, which reads images and labels
            for info in static:             # an epoch, as `for batch in loader`
                graph.replay()

        UsageError for a loader on the CPU."""
        if not self._on_gpu:
            raise UsageError("static() of a loader on the CPU; wanted device=\"cuda\"")
        if self._transform is not None:
            raise UsageError("static() of a loader with a transform; call it in the step instead")
        if self._keys is not None:
            raise UsageError("static() of a loader with return_keys: keys are not tensors; wanted return_indices")
        from .memory import Static
        self._find_ranks()
        return Static(cast("Loader", self))

    def peek(self) -> Batch:
        """The batch with which the next iteration begins; the loader and a running iteration keep their places. Batches that were
        ready are made again, so use this for a look, not in a loop."""
        self._find_ranks()
        state, take = self._own.state(), self._take()
        if not self._stands:
            self._own.seek(self._epoch, 0)
        try:
            return cast(Batch, self._changed(take()))
        finally:
            self._own.restore(state)

    def _places(self) -> Iterator[Place]:
        """The places of the batches in the next iteration's epoch."""
        self._find_ranks()
        if int(self._options["cuts"]) > 1:
            raise UsageError("batch_sampler of a loader with cuts: a batch sampler has only whole batches")
        state = json.loads(self._own.state())
        begin, epoch = state["position"] if self._stands else 0, self._epoch
        batch = int(self._about["batch_size"])
        return (Place(epoch, position) for position in range(begin, len(self) * batch, batch))

    def _at(self, place: Place) -> Any:
        """The batch at a place; the next iteration begins with the epoch after it."""
        self._turn += 1
        self._own.seek(*place)
        batch = self._take()()
        self._note()
        return self._changed(batch)

    # ---- position -----------------------------------------------------------------------------

    @property
    def batch(self) -> BatchInfo:
        """The numbers of the last returned batch."""
        return BatchInfo(*self._own.info)

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """The next iteration yields this epoch from its start or, after load_state_dict to this epoch, from its position."""
        epoch = habits.whole("epoch", epoch)
        if epoch == self._epoch and self._stands:
            return
        self._turn += 1
        self._own.seek(epoch, 0)
        self._epoch, self._stands = epoch, True

    def state_dict(self) -> Dict[str, Any]:
        """The loader's position: a few small numbers, with which a loader continues after the last returned batch. Signal
        handlers and other threads may call this at any time, as stats() and describe()."""
        state: Dict[str, Any] = json.loads(self._own.state())
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration continues from this state. UsageError if the state belongs to other batches: another seed, order,
        batch size or other samples. Rank, world, cuts, augmentation and workers may differ; for a state between the cuts of a
        batch, cuts and world may not."""
        self._own.restore(json.dumps(state))
        self._turn += 1
        self._epoch, self._stands = json.loads(self._own.state())["epoch"], True
