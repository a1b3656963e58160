"""Batches of a packed set."""
from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from . import _ffload, habits, programs, ranks
from .arrays import converter, dtype_name, kind_of
from .batches import Batch, BatchInfo, Parts, check_last
from .dataset import Dataset, Path, unescape
from .errors import UsageError
from .samplers import AsDataLoader, Place
from .words import As, LastBatch, Layout, Order, Placement, Size, Targets, Verify

if TYPE_CHECKING:
    from .memory import Memory, Static


class Loader(AsDataLoader):
    """Batches of a packed set, in random order and augmented, on the CPU or made on a GPU.

        for images, labels in loader:                   # one epoch; the next `for` goes on with the next one
        for images, (labels, labels_b, share) in ...:   # with mixup or cutmix
        for images, labels, weight in ...:              # with last_batch="pad"
        for images, labels, indices, keys in ...:       # with return_indices=True and return_keys=True

    images   [N, C, H, W] in `dtype`: normalized, as augmented; u8 and u16: as stored
    labels   of a class field [N] int64, -1 where there is none (cross_entropy's ignore_index=-1), of others [N, width]
             float32; with several fields {name: labels}; None where the set has no labels
    labels_b, share   the loss of a mixed row is share * loss(labels) + (1 - share) * loss(labels_b); [N], [N] float32
    weight   [N] float32: 1; 0 for rows that only pad, whose class is -1
    indices  [N] int64: the samples' numbers in the set; -1 for rows that only pad
    keys     a list of the samples' keys, mostly paths; None for rows that only pad

    path         a packed split, or a Dataset
    batch_size   samples of a batch, over all ranks, as fftrain's --batch
    augment      "crop=4,flip", "rrc=224,flip,mixup=0.2": as fftrain's --augment, or a list of such words
    size         (H, W) of the images; by default as augmented, or as stored
    device       "cpu", "cuda", "cuda:N", a torch.device: where batches are made
    dtype        "f32", "f16", "bf16", torch.float16, ...; "u8", "u16": values as stored, from such sets
    layout       "channels_last" or "contiguous": the memory of the images; by default channels_last, but for JAX
    order        "random" (default), "block" (for sets larger than memory; block, group: samples a block, blocks a group),
                 "sequential"; shuffle=True is "random", shuffle=False "sequential"
    seed         of order and augmentation
    epochs       that one iteration gives; 0: without end
    last_batch   "keep" (default): an incomplete last batch is smaller, "drop": it is left out, "pad": it has rows of zeros;
                 drop_last=True is "drop", drop_last=False "keep"
    placement    "auto", "resident": the whole set in the GPU's memory, "stream": samples are copied to it and augmented
                 there, "host": batches are copied to it; reserve: MiB of its memory that stay free with auto
    label        a label field, or several: "fine", "fine,coarse", ["fine", "coarse"]; by default the first
    workers      threads that make batches ahead of their use; 0: the caller's does; by default as many as processors;
                 num_workers is the same
    prefetch     batches that are ready or being made
    rank, world  this loader gives rank's rows of each batch, of so many ranks; by default those of torch.distributed,
                 torchrun, mpirun or SLURM, found again when an iteration begins. An evaluation on one rank alone needs
                 rank=0, world=1
    cuts         each batch comes in so many equal parts, one after another
    as_          what a batch is made of: "torch", "numpy", "jax", "cupy", or "dlpack" for ffload.Tensor; by default
                 torch where that is installed, else numpy where that is, else dlpack
    return_indices, return_keys   whether batches end with the samples' numbers, and with their keys
    targets      "classes": labels as above; "soft": in their place targets [N, classes] float32, whose rows are the shares
                 of the classes, mixed ones as mixup and cutmix mixed the images: the loss stays as it is
    transform    a function of a batch, whose value the loop gets in its place; called where the batch is used, on its device
    verify       "first", "always", "off": when samples' checksums are compared; of a Dataset: as it was opened
    memory       bytes, or "512M", "8G": for keeping the set in memory and for reading ahead, shared by the ranks on this
                 machine; a larger set is read directly; by default what machine and limits leave, at most FFLOAD_MEMORY

    UsageError says which option does not fit, the others or the set, and what there is in place of another loader's
    argument; BadData and OSError as Dataset. `next(iter(loader))` is the first batch of an epoch, which it begins; peek() looks
    at that batch and leaves the loader where it is.

    A batch is the caller's for as long as it is kept; memory of those that are not is used again, so a loop that keeps
    none allocates nothing after the start. On a GPU batches are made in torch's memory and in its current stream (for
    other libraries in a pool of the loader's, whose memory follows the streams that take it), and the host waits for
    nothing. A loader is used by one thread at a time, and by the process that made it.
    """

    @habits.answering("Loader", habits.LOADER)
    def __init__(self, path: Union[Path, Dataset], batch_size: int = 256, *, augment: Union[str, Sequence[str], None] = None,
                 size: Optional[Size] = None, device: Any = "cpu", dtype: Any = "f32", layout: Optional[Layout] = None,
                 order: Optional[Order] = None, shuffle: Optional[bool] = None, block: Optional[int] = None,
                 group: Optional[int] = None, seed: int = 0, epochs: int = 1, last_batch: Optional[LastBatch] = None,
                 drop_last: Optional[bool] = None, placement: Placement = "auto", reserve: Optional[int] = None,
                 label: Union[str, Sequence[str], None] = None, workers: Optional[int] = None, num_workers: Optional[int] = None,
                 prefetch: Optional[int] = None, rank: Optional[int] = None, world: Optional[int] = None, cuts: int = 1,
                 as_: Optional[As] = None, return_indices: bool = False, return_keys: bool = False, verify: Verify = "first",
                 memory: Union[int, str, None] = None, targets: Targets = "classes",
                 transform: Optional[Callable[[Any], Any]] = None) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        order = habits.settled("shuffle", shuffle, "order", order, lambda on: "random" if on else "sequential",
                               lambda given: bool(shuffle) == (given != "sequential"))
        last_batch = habits.settled("drop_last", drop_last, "last_batch", last_batch, lambda on: "drop" if on else "keep",
                                    lambda given: bool(drop_last) == (given == "drop"))
        workers = habits.settled("num_workers", num_workers, "workers", workers, int, lambda given: given == num_workers)
        self._as = as_
        kind = kind_of(as_)
        converter(kind)  # imports it now: the library's loader, made next, takes part of the memory that is left
        given = ranks.checked(rank, world)
        if isinstance(size, (list, tuple)):
            size = "x".join(str(side) for side in size)  # as the library reads it
        if isinstance(augment, (list, tuple)) and not augment:
            augment = "none"
        options = {"batch_size": batch_size, "augment": augment, "size": size, "device": device,
                   "dtype": dtype_name(dtype), "layout": layout or ("contiguous" if kind == "jax" else "channels_last"),
                   "order": order or "random", "block": block, "group": group, "seed": seed, "epochs": 0,
                   "last_batch": last_batch or "keep", "placement": placement, "reserve": reserve, "label": label, "workers": workers,
                   "prefetch": prefetch, "cuts": cuts, "verify": verify, "memory": memory, "label_dtype": "i64"}
        self._epochs = habits.whole("epochs", epochs)
        self.dataset = path if isinstance(path, Dataset) else Dataset(path, verify=verify)
        if habits.text_of(device).startswith("cuda"):
            programs.name_cuda_folders()
        self._options = {name: habits.text_of(value) for name, value in options.items() if value is not None}
        # Those given, or found when the loader is made and again when an iteration begins.
        self._given = given is not None
        self._ranks = given or ranks.found_early()
        self._source_ranks = (0, 1)  # of a copy: those of the loader that it was made from
        self._label, self._indices, self._keys = label, return_indices, self.dataset.keys if return_keys else None
        if targets not in ("classes", "soft"):
            raise UsageError("targets=%r: it is \"classes\" or \"soft\"" % (targets,))
        if transform is not None and not callable(transform):
            raise UsageError("transform=%r: it is a function of a batch" % (transform,))
        self._soft, self._transform = targets == "soft", transform
        self._open()
        # Where the next iteration begins, and whether the library's loader stands there.
        self._epoch = 0
        self._stands = True
        self._turn = 0
        self._began: Optional[float] = None
        self._watch: Optional[ranks.Watch] = None

    def __getstate__(self) -> Dict[str, Any]:
        """Its arguments, and where it is: a copy, and a loader from a pickle, are loaders of their own that begin there."""
        return {"arguments": dict(self._arguments, path=self.dataset), "state": self.state_dict(), "epoch": self._epoch,
                "stands": self._stands, "ranks": self._ranks if self._ranks[1] > 1 else self._source_ranks}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.load_state_dict(state["state"])
        self._epoch, self._stands, self._source_ranks = state["epoch"], state["stands"], state["ranks"]

    def _open(self) -> None:
        """The library's loader, of this process's rows."""
        rank, world = self._ranks
        more = {"rank": str(rank), "world": str(world), "local_world": str(ranks.beside(world))}
        #: The library's; its batches are taken by iterating alone.
        self._own = _ffload.Loader(self.dataset._own, dict(self._options, **more))
        self._about: Dict[str, Any] = json.loads(self._own.describe())
        self._on_gpu = self._about["device"] != "cpu"
        last = self._options["last_batch"]
        check_last(self._about, last, len(self.dataset), int(self._options["cuts"]), world)
        self._parts = Parts([unescape(tensor["name"]) for tensor in self._about["tensors"]], self._label, last == "pad",
                            self._indices, self._keys)
        if self._soft:
            self._parts.soften(kind_of(self._as), self.dataset.fields)

    def _find_ranks(self) -> None:
        """When an iteration begins: a loader that was made before torch.distributed was initialized takes the rows of the rank
        that this process is since."""
        if self._given:
            return
        now = ranks.found()
        if now[1] == 1 and self._source_ranks[1] > 1:
            raise UsageError("this loader is a copy of the one of rank %d of %d, but this process has no rank; give rank= and "
                             "world= where the loader is made" % self._source_ranks)
        if now == self._ranks:
            return
        if self._began is not None:
            raise UsageError("this process is rank %d of %d now, and was rank %d of %d in the loader's first iteration; give "
                             "rank= and world=, or make another loader" % (*now, *self._ranks))
        state, before = self._own.state(), self._ranks
        self._own.close()
        self._ranks = now
        try:
            self._open()
        except UsageError:
            self._ranks = before  # so that the next iteration is refused, too
            raise
        self._own.restore(state)

    # ---- iterating ----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Batches of an epoch from its start; with cuts, parts of batches."""
        return len(self._own)

    def __iter__(self) -> Iterator[Any]:
        """The next epoch, or `epochs` of them: the one that was left unfinished does not go on. Ends an iteration that
        goes on elsewhere. UsageError where this process's rank or world is another than in the first iteration."""
        self._find_ranks()
        if self._ranks[1] > 1 and not self._given:
            self._watch = ranks.Watch(self.dataset.path, len(self.dataset), *self._ranks)
        return self._iterate(self._take())

    def _take(self) -> Callable[[], Batch]:
        """What takes the next batch of the library's loader."""
        if not self._on_gpu:
            return self._host_batches()
        return self._torch_batches() if kind_of(self._as) == "torch" else self._pool_batches()

    def _iterate(self, take: Callable[[], Any]) -> Iterator[Any]:
        """What take() returns, once a batch, which it takes of the library's loader."""
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
        """What the loop gets of a batch."""
        return batch if self._transform is None else self._transform(batch)

    def _note(self) -> None:
        """That a batch was taken: the next iteration begins with the epoch after it."""
        self._epoch, self._stands = self._own.info[0] + 1, self._own.last

    def _host_batches(self) -> Callable[[], Batch]:
        names, arrange, convert, take = (self._parts.names, self._parts.arrange, converter(kind_of(self._as)),
                                         self._own.next)
        return lambda: arrange([convert(tensor) for tensor in take(names)])  # type: ignore[union-attr]

    def _pool_batches(self) -> Callable[[], Batch]:
        from .memory import current_stream
        kind, names, arrange, take = kind_of(self._as), self._parts.names, self._parts.arrange, self._own.next
        if kind == "numpy":
            raise UsageError("as_=\"numpy\" with device=%r: NumPy's arrays are in the memory of the host" % (
                self._about["device"],))
        convert = converter(kind)
        return lambda: arrange([convert(tensor) for tensor in take(names, current_stream(kind))])  # type: ignore[union-attr]

    def _torch_batches(self) -> Callable[[], Batch]:
        memory, arrange, own, pad = self._memory(), self._arrange, self._own, self._options["last_batch"] == "pad"

        def take() -> Batch:
            tensors, places = memory.take()
            own.enqueue_into(places, memory.stream())
            rows, count = own.info[4], own.info[3]
            return arrange(tensors if pad or count == rows else [tensor[:count] for tensor in tensors])
        return take

    def _memory(self) -> Memory:
        """Of its GPU, for batches."""
        from .memory import Memory
        return Memory(kind_of(self._as), self._about, self._parts.names)

    @property
    def _arrange(self) -> Callable[[List[Any]], Batch]:
        """What makes of a batch's tensors what an iteration gives."""
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

        UsageError of a loader on the CPU."""
        if not self._on_gpu:
            raise UsageError("static() of a loader on the CPU; wanted device=\"cuda\"")
        if self._transform is not None:
            raise UsageError("static() of a loader with a transform; call it in the step instead")
        if self._keys is not None:
            raise UsageError("static() of a loader with return_keys: keys are no tensors; wanted return_indices")
        from .memory import Static
        self._find_ranks()
        return Static(self)

    def peek(self) -> Any:
        """The batch with which the next iteration begins; the loader, and an iteration that goes on, stay where they are. The
        batches that are ready are made again: for a look, not for a loop."""
        self._find_ranks()
        state, take = self._own.state(), self._take()
        if not self._stands:
            self._own.seek(self._epoch, 0)
        try:
            return self._changed(take())
        finally:
            self._own.restore(state)

    def _places(self) -> Iterator[Place]:
        """Of the batches of the next iteration's epoch."""
        self._find_ranks()
        if int(self._options["cuts"]) > 1:
            raise UsageError("batch_sampler of a loader with cuts: it has whole batches alone")
        state = json.loads(self._own.state())
        begin, epoch = state["position"] if self._stands else 0, self._epoch
        return (Place(epoch, position) for position in range(begin, len(self) * self.batch_size, self.batch_size))

    def _at(self, place: Place) -> Any:
        """The batch there; the next iteration begins with the epoch after it."""
        self._turn += 1
        self._own.seek(*place)
        batch = self._take()()
        self._note()
        return self._changed(batch)

    # ---- where it is --------------------------------------------------------------------------

    @property
    def batch(self) -> BatchInfo:
        """Of the batch given last."""
        return BatchInfo(*self._own.info)

    @property
    def epoch(self) -> int:
        """That the next iteration begins with."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """The next iteration gives this epoch, from its start; of the one that load_state_dict went to, from there."""
        epoch = habits.whole("epoch", epoch)
        if epoch == self._epoch and self._stands:
            return
        self._turn += 1
        self._own.seek(epoch, 0)
        self._epoch, self._stands = epoch, True

    def state_dict(self) -> Dict[str, Any]:
        """Where the loader is: what is needed to go on with the batch after the last one given. Few small numbers. Signal handlers
        and other threads may call it at any time, as stats() and describe()."""
        state: Dict[str, Any] = json.loads(self._own.state())
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on there, in the next iteration. UsageError where the state is of other batches, by its seed, order,
        batch size or samples. Rank, world, cuts, augmentation and workers may be others."""
        self._own.restore(json.dumps(state))
        self._turn += 1
        self._epoch, self._stands = json.loads(self._own.state())["epoch"], True

    # ---- about it -----------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Since the start: wait_seconds that the loop waited for data, wait_share of the time since its begin,
        fill_seconds of threads making batches, samples and batches given, blocks of memory allocated for them; and
        reading: how the set's files are read now, and why."""
        wait, fill, samples, batches, blocks = self._own.stats()
        seconds = time.monotonic() - self._began if self._began is not None else 0.0
        return {"wait_seconds": wait / 1e9, "wait_share": wait / 1e9 / seconds if seconds > 0 else 0.0,
                "fill_seconds": fill / 1e9, "samples": samples, "batches": batches, "blocks": blocks,
                "reading": json.loads(self._own.describe())["reading"]}

    def describe(self) -> Dict[str, Any]:
        """batches, samples, rows, batch_size, channels, height, width, dtype, layout, threads, slots, device, placement
        and reason (why this one), reading, tensors. Names are percent-escaped."""
        return dict(self._about)

    def close(self) -> None:
        """Ends its threads. Batches stay as they are."""
        self._turn += 1
        self._own.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        about = self._about
        return "ffload.Loader(%r): %d batches of %d, %s %dx%dx%d, on %s, rank %d of %d" % (
            self.dataset.path, about["batches"], about["rows"], about["dtype"], about["channels"], about["height"],
            about["width"], about["device"], *self._ranks)
