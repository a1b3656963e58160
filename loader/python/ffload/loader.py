"""Batches of a packed set."""
from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Dict, Optional, Union

from . import _ffload, habits, programs, ranks
from .arrays import converter, dtype_name, kind_of
from .batches import Batch, Parts, check_last
from .dataset import STORAGE, Dataset, unescape
from .errors import UsageError
from .iterating import Iterating
from .samplers import AsDataLoader
from .selecting import Selecting, numbers_of, shares_option, weights_of
from .views import Arranged, augment_text, size_text
from .words import (As, Augment, Indices, LastBatch, Layout, Order, Path, Placement, Shares, SharesOf, Size, Targets, Verify, Views,
                    Weights)


class Loader(AsDataLoader, Iterating[Batch], Selecting):
    """Batches of a packed set, in random order and augmented, on the CPU or made on a GPU.

        for images, labels in loader:                   # one epoch; the next `for` yields the next epoch
        for images, (labels, labels_b, share) in ...:   # with mixup or cutmix
        for images, labels, weight in ...:              # with last_batch="pad"
        for images, labels, indices, keys in ...:       # with return_indices=True and return_keys=True
        for (x1, x2), labels in ...:                    # with views=2; {"global": (x1, x2), "local": (...)} with groups of views

    images   [N, C, H, W] in `dtype`: normalized, as augmented; u8 and u16: as stored
    labels   for a class field [N] int64, -1 for unlabelled samples (cross_entropy's ignore_index=-1), for other fields
             [N, width] float32; with several fields {name: labels}; None if the set has no labels
    labels_b, share   the loss of a mixed row is share * loss(labels) + (1 - share) * loss(labels_b); [N], [N] float32
    weight   [N] float32: 1; 0 for rows that only pad, whose class is -1
    sources  [N] int64, with return_sources=True, before the indices: the set of each row, by its place in the list or dict of
             sets; -1 for rows that only pad
    indices  [N] int64: the samples' numbers in the set; -1 for rows that only pad
    keys     a list of the samples' keys, usually paths; None for rows that only pad

    path         a packed split, or a Dataset; a list of splits, as Dataset takes it; or their shares by their paths:
                 {"real": 0.8, "synthetic": 0.2}
    batch_size   samples of a batch, over all ranks, as fftrain's --batch
    augment      "crop=4,flip", "rrc=224,flip,mixup=0.2": as fftrain's --augment, or a list of such words
    size         (H, W) of the images; by default as augmented, or as stored
    views        several views of each sample, each augmented by its own draws, from one read of the sample: 2 (images are then a
                 tuple of two, both by `augment`), or groups with an augmentation each, as in multi-crop: {"global": (2,
                 "rrc=224:0.4-1,flip"), "local": (6, "rrc=96:0.05-0.4,flip")}, and then images are a dict of tuples, and augment
                 and size are None; a size that does not follow from the augmentation comes third, (2, "crop", (24, 24)). View 0 has
                 the bits of a loader without views; views exclude mixup and cutmix, and are at most 64
    device       "cpu", "cuda", "cuda:N", a torch.device: where batches are made
    dtype        "f32", "f16", "bf16", torch.float16, ...; "u8", "u16": values as stored, from such sets;
                 u8 is resampled (rrc, resize) and changed (randaugment, blur, ...) as torchvision's v2 does tensors of uint8
    layout       "channels_last" or "contiguous": the memory of the images; by default channels_last, except for JAX
    order        "random" (default), "block" (for sets larger than memory; block, group: samples per block, blocks per group),
                 "node-block" (for sets behind URLs that several machines read: each has a part of the blocks, another one in each
                 epoch; machines: their number, by default those of the ranks),
                 "sequential"; shuffle=True is "random", shuffle=False "sequential"
    seed         for order and augmentation
    epochs       of one iteration; 0: without end
    last_batch   "keep" (default): an incomplete last batch is smaller, "drop": it is left out, "pad": it has rows of zeros;
                 drop_last=True is "drop", drop_last=False "keep"
    placement    "auto", "resident": the whole set in the GPU's memory, "stream": samples are copied to it and augmented
                 there, "host": batches are copied to it; reserve: MiB of its memory to leave free with auto
    label        a label field, or several: "fine", "fine,coarse", ["fine", "coarse"]; by default the first
    workers      threads that make batches ahead of their use; 0: the caller's thread makes them; by default one for each
                 processor; num_workers is the same
    prefetch     batches that are ready or being made
    indices      the samples of an epoch: their numbers in this order (any array, a list, a slice; a repeated number repeats
                 its sample), a mask with a boolean for each, or a text file with a number or a key per line;
                 `loader.indices = ...` changes them between epochs
    where        the samples that an expression selects, as in ffpack copy --where: "label in ('cat', 'dog') and width >= 224"
    split        a part by the hash of keys that ffpack --split uses: "train:0.9", "val:0.1" (from the end), or
                 "val of train=0.8,val=0.1,test=0.1"; " seed=1", " stratified" (in each class of the label) and
                 " group-by=REGEX" (keys in which it matches the same text stay together) may follow
    fold         "2/5": the second of five equal parts, "not 2/5": the others; the same words may follow. A sample must match
                 all of indices, where, split and fold; no match is a UsageError
    weights      how often samples come: each sample of an epoch is drawn with a probability in proportion to its weight.
                 "balanced" (1 / the number of samples of its class of the first label), a label field of one number
                 per sample, a text file with a number per line, or an array with a weight for each sample of the selection (or
                 of the set)
    replacement  whether an epoch may have a sample several times. False: each sample comes at most once; the probability that
                 an epoch has it is in proportion to its weight, up to 1
    shares       with several sets: how much each contributes, a number for each set in their order, or by their paths, in
                 millionths and of any sum. The samples of a set come equally often, up to one time; a set that is smaller than
                 its share comes again, in another order. `loader.shares = ...` changes them between epochs;
                 "0.8,0.2;10:0.5,0.5" has other shares from epoch 10 on
    shares_of    "epoch" (default): the epoch has the shares, "batch": each batch has them, both up to one sample
    samples_per_epoch  the length of an epoch; by default the number of samples
    repeats      how often each drawn sample comes in a batch, each time augmented differently (repeated augmentation); the
                 length of an epoch stays
    per_class    samples of each class in a batch of batch_size / per_class classes of the first label (metric learning)
    rank, world  this loader yields rank's rows of each batch; world: the number of ranks. By default both come from
                 torch.distributed, torchrun, mpirun or SLURM, and are looked up again when an iteration begins. An
                 evaluation on one rank alone needs rank=0, world=1
    cuts         each batch comes in this number of equal parts, one after another
    as_          the arrays of a batch: "torch", "numpy", "jax", "cupy", or "dlpack" for ffload.Tensor; by default torch
                 if it is installed, else numpy if it is installed, else dlpack
    return_indices, return_keys, return_sources   whether batches end with the samples' numbers, their keys, and their sets
    targets      "classes": labels as above; "soft": targets [N, classes] float32 instead, whose rows are the shares
                 of the classes, mixed as mixup and cutmix mixed the images: the loss need not change
    transform    a function of a batch, whose result replaces the batch; called where the batch is used, on its device
    verify       "first", "always", "off": when samples' checksums are compared; for a Dataset: as it was opened
    cache, cache_size, storage_timeout, endpoint   of sets behind URLs, as in Dataset; not for a Dataset, which has its own
    memory       bytes, or "512M", "8G": for keeping the set in memory and for reading ahead, shared by the ranks on this
                 machine; a larger set is read directly; by default what the machine and limits leave, at most FFLOAD_MEMORY

    UsageError names the option that does not fit the other options or the set, or the option that replaces another loader's
    argument; BadData and OSError as Dataset. `next(iter(loader))` begins an epoch and returns its first batch; peek() returns that
    batch, and does not move the loader.

    The caller owns a batch as long as it keeps the batch; the memory of other batches is used again, so a loop that keeps
    no batch allocates nothing after the start. On a GPU batches are made in torch's memory and in its current stream (for
    other libraries in a pool of the loader, whose memory follows the streams that use it), and the host does not wait.
    A loader is used by one thread at a time, and by the process that made it.
    """

    @habits.answering("Loader", habits.LOADER)
    def __init__(self, path: Union[Path, Dataset, Sequence[Path], "Mapping[Path, float]"], batch_size: int = 256, *,
                 augment: Augment = None,
                 size: Optional[Size] = None, device: Any = "cpu", dtype: Any = "f32", layout: Optional[Layout] = None,
                 order: Optional[Order] = None, shuffle: Optional[bool] = None, block: Optional[int] = None,
                 group: Optional[int] = None, machines: Optional[int] = None, seed: int = 0, epochs: int = 1, last_batch: Optional[LastBatch] = None,
                 drop_last: Optional[bool] = None, placement: Placement = "auto", reserve: Optional[int] = None,
                 label: Union[str, Sequence[str], None] = None, workers: Optional[int] = None, num_workers: Optional[int] = None,
                 prefetch: Optional[int] = None, rank: Optional[int] = None, world: Optional[int] = None, cuts: int = 1,
                 as_: Optional[As] = None, return_indices: bool = False, return_keys: bool = False, verify: Verify = "first",
                 memory: Union[int, str, None] = None, targets: Targets = "classes",
                 transform: Optional[Callable[[Any], Batch]] = None, indices: Optional[Indices] = None,
                 where: Optional[str] = None, split: Optional[str] = None, fold: Optional[str] = None,
                 weights: Optional[Weights] = None, samples_per_epoch: Optional[int] = None, repeats: int = 1,
                 per_class: Optional[int] = None, replacement: bool = True, views: Optional[Views] = None,
                 shares: Optional[Shares] = None, shares_of: Optional[SharesOf] = None, return_sources: bool = False,
                 cache: Optional[Path] = None, cache_size: Union[int, str, None] = None, storage_timeout: Optional[int] = None,
                 endpoint: Optional[str] = None) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        if isinstance(path, Mapping):
            if shares is not None:
                raise UsageError("shares=%r contradicts the shares in %r" % (shares, path))
            shares, path = list(path.values()), list(path)
            self._arguments["shares"] = shares
        order = habits.settled("shuffle", shuffle, "order", order, lambda on: "random" if on else "sequential",
                               lambda given: bool(shuffle) == (given != "sequential"))
        last_batch = habits.settled("drop_last", drop_last, "last_batch", last_batch, lambda on: "drop" if on else "keep",
                                    lambda given: bool(drop_last) == (given == "drop"))
        workers = habits.settled("num_workers", num_workers, "workers", workers, int, lambda given: given == num_workers)
        self._as = as_
        kind = kind_of(as_)
        converter(kind)  # imports it now: the library's loader, made next, takes part of the memory that is left
        given = ranks.checked(rank, world)
        self._views = None if views is None else Arranged(views)
        options = {"batch_size": batch_size, "augment": None if augment is None else augment_text(augment),
                   "size": None if size is None else size_text(size), "views": self._views and self._views.text, "device": device,
                   "dtype": dtype_name(dtype), "layout": layout or ("contiguous" if kind == "jax" else "channels_last"),
                   "order": order or "random", "block": block, "group": group, "machines": machines, "seed": seed, "epochs": 0,
                   "last_batch": last_batch or "keep", "placement": placement, "reserve": reserve, "label": label, "workers": workers,
                   "prefetch": prefetch, "cuts": cuts, "verify": verify, "memory": memory, "label_dtype": "i64",
                   "where": where, "split": split, "fold": fold, "samples_per_epoch": samples_per_epoch, "repeats": repeats,
                   "per_class": per_class, "replacement": None if replacement else "no", "shares_of": shares_of}
        self._epochs = habits.whole("epochs", epochs)
        storage: Dict[str, Any] = {"cache": cache, "cache_size": cache_size, "storage_timeout": storage_timeout, "endpoint": endpoint}
        given_storage = [name for name, value in storage.items() if value is not None]
        if isinstance(path, Dataset) and given_storage:
            raise UsageError("%s=%r: the Dataset is open, and has its own" % (given_storage[0], storage[given_storage[0]]))
        self.dataset = path if isinstance(path, Dataset) else Dataset(path, verify=verify, **storage)
        if habits.text_of(device).startswith("cuda"):
            programs.name_cuda_folders()
        self._options = {name: habits.text_of(value) for name, value in options.items() if value is not None}
        # Rank and world: the arguments, or found when the loader is made and again when an
        # iteration begins.
        self._given = given is not None
        self._ranks = given or ranks.found_early()
        self._source_ranks = (0, 1)  # in a copy: the original loader's
        self._samples = numbers_of(self.dataset, indices)
        words, self._weights = weights_of(weights)
        self._options.update(words, **shares_option(self.dataset, shares))
        self._label, self._indices, self._keys = label, return_indices, self.dataset.keys if return_keys else None
        self._sources = return_sources
        if return_sources and len(self.dataset.paths) == 1:
            raise UsageError("return_sources=True: %s is a single set" % self.dataset.path)
        if targets not in ("classes", "soft"):
            raise UsageError("targets=%r: wanted \"classes\" or \"soft\"" % (targets,))
        if transform is not None and not callable(transform):
            raise UsageError("transform=%r: wanted a function of a batch" % (transform,))
        self._soft, self._transform = targets == "soft", transform
        self._open()
        if self._about["advice"]:
            import warnings
            warnings.warn("%s: %s" % (self.dataset.path, self._about["advice"]), stacklevel=2)
        # Where the next iteration begins, and whether the library's loader stands there.
        self._epoch = 0
        self._stands = True
        self._turn = 0
        self._began: Optional[float] = None
        self._watch: Optional[ranks.Watch] = None

    def __getstate__(self) -> Dict[str, Any]:
        """Its arguments and its position, at which a copy, or a loader from a pickle, begins independently."""
        return {"arguments": dict(self._arguments, path=self.dataset, **dict.fromkeys(STORAGE)), "state": self.state_dict(), "epoch": self._epoch,
                "stands": self._stands, "ranks": self._ranks if self._ranks[1] > 1 else self._source_ranks}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.load_state_dict(state["state"])
        self._epoch, self._stands, self._source_ranks = state["epoch"], state["stands"], state["ranks"]

    def _open(self) -> None:
        """The library's loader, of this process's rows."""
        rank, world = self._ranks
        more = {"rank": str(rank), "world": str(world), "local_world": str(ranks.beside(world))}
        #: The library's loader; only iterating takes its batches.
        self._own = _ffload.Loader(self.dataset._own, dict(self._options, **more, **self._samples[0]), self._samples[1], self._weights)
        about = json.loads(self._own.describe())
        last = self._options["last_batch"]
        check_last(about, last, int(self._options["cuts"]), world)
        self._about: Dict[str, Any] = about
        self._on_gpu = about["device"] != "cpu"
        self._parts = Parts([unescape(tensor["name"]) for tensor in self._about["tensors"]], self._label, last == "pad",
                            self._indices, self._keys, self._views, self._sources)
        if self._soft:
            self._parts.soften(kind_of(self._as), self.dataset.fields)

    def _find_ranks(self) -> None:
        """Called when an iteration begins: a loader that was made before torch.distributed was initialized takes the rows of the
        rank that this process has now."""
        if self._given:
            return
        now = ranks.found()
        if now[1] == 1 and self._source_ranks[1] > 1:
            raise UsageError("this loader is a copy of the one of rank %d of %d, but this process has no rank; set rank= and "
                             "world= when you make the loader" % self._source_ranks)
        if now == self._ranks:
            return
        if self._began is not None:
            raise UsageError("this process is rank %d of %d now, and was rank %d of %d in the loader's first iteration; set "
                             "rank= and world=, or make another loader" % (*now, *self._ranks))
        state, before = self._own.state(), self._ranks
        self._own.close()
        self._ranks = now
        try:
            self._open()
            self._own.restore(state)
        except UsageError:
            self._ranks = before  # so that the next iteration is also refused
            self._open()
            self._own.restore(state)
            raise

    # ---- about it -----------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Since the start: wait_seconds, for which the loop waited for data; wait_share, their share of the time since the loop
        began; fill_seconds, for which threads made batches; samples and batches, the numbers returned; blocks of memory allocated
        for them; reading, how the set's files are read now, and why."""
        wait, fill, samples, batches, blocks = self._own.stats()
        seconds = time.monotonic() - self._began if self._began is not None else 0.0
        return {"wait_seconds": wait / 1e9, "wait_share": wait / 1e9 / seconds if seconds > 0 else 0.0,
                "fill_seconds": fill / 1e9, "samples": samples, "batches": batches, "blocks": blocks,
                "reading": json.loads(self._own.describe())["reading"]}

    def describe(self) -> Dict[str, Any]:
        """batches, samples, rows, batch_size, channels, height, width, dtype, layout, threads, slots, device, placement
        and reason (why this one), reading, advice ("", or why a cache is too small), tensors. Names are percent-escaped."""
        return dict(self._about)

    def close(self) -> None:
        """Ends its threads. Batches stay as they are."""
        self._turn += 1
        self._own.close()

    def __enter__(self) -> Loader[Batch]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        about = self._about
        shown = "%(channels)dx%(height)dx%(width)d" % about if self._views is None else "views: %s" % self._views.shown(about)
        return "ffload.Loader(%r): %d batches of %d, %s %s, on %s, rank %d of %d" % (
            self.dataset.path, about["batches"], about["rows"], about["dtype"], shown, about["device"], *self._ranks)
