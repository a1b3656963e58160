"""What a loader's batches are made of."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

from . import targets as soft_targets
from .arrays import as_list
from .errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as WithDefault

    from .dataset import Keys
    from .views import Arranged
    #: A loader's batch: Any, unless a Loader[...] or a transform names its type.
    Batch = WithDefault("Batch", covariant=True, default=Any)
else:
    Batch = TypeVar("Batch", covariant=True)

# Images, labels, and the further parts that were requested (Loader).
Parted = Tuple[Any, ...]


class BatchInfo(NamedTuple):
    """The numbers of a batch."""
    epoch: int
    number: int          #: in its epoch
    position: int        #: of its first sample in the epoch's order
    samples: int         #: in it
    rows: int            #: of each full batch of this rank
    global_samples: int  #: in it over all ranks
    last: bool           #: whether it is the last one of its epoch


def check_last(about: Dict[str, Any], last_batch: str, cuts: int, world: int) -> None:
    """Refuses a last batch that leaves a rank without rows, because the mean of no losses is NaN, or with fewer parts than other
    ranks, which would then wait forever."""
    batch, count = about["batch_size"], about["samples"]
    left = count % batch
    if not left or (last_batch == "drop" and count >= batch):
        return
    even = -2 if "mix" in (tensor["name"] for tensor in about["tensors"]) else -1
    begins = [batch * rank // world & even for rank in range(world)] + [batch]
    wanted = "" if count < batch else " or \"drop\""
    if left <= begins[-2] and last_batch != "pad":
        raise UsageError("last_batch=%r: the last batch of an epoch has %d samples and leaves rank %d of %d without any; wanted "
                         "last_batch=\"pad\"%s, or another batch_size" % (last_batch, left, world - 1, world, wanted))
    # The number of parts that have rows, for each rank; at least one, which then is padding.
    parts = [max(1, min(cuts, -((begin - left) * cuts // (end - begin)))) for begin, end in zip(begins, begins[1:])]
    if min(parts) < max(parts):
        raise UsageError("last_batch=%r, cuts=%d: the last batch of an epoch has %d samples, of which ranks would get %d to %d "
                         "parts; wanted %sanother batch_size" % (last_batch, cuts, left, min(parts), max(parts),
                                                               "last_batch=\"drop\" or " * (count >= batch)))


class Parts:
    """Which library tensors a batch consists of, and how they are arranged."""

    def __init__(self, known: List[str], label: Any, pad: bool, indices: bool, keys: Optional[Keys],
                 views: Optional[Arranged] = None, sources: bool = False) -> None:
        fields = [name[len("labels/"):] for name in known if name.startswith("labels/")]
        several = label is not None and len(fields) > 1
        labels = ["labels/" + field for field in fields] if several else ["labels"] if "labels" in known else []
        mixed = "mix" in known
        names = [*(views.names if views is not None else ["images"]), *labels]
        if mixed:
            names += [name.replace("labels", "labels_b", 1) for name in labels] + ["mix"]
        names += ["weight"] * pad + ["sources"] * sources + ["samples"] * (indices or keys is not None)
        self.names = tuple(os.fsencode(name) for name in names)
        self._fields, self._count, self._mixed = fields if several else None, len(labels), mixed
        self._labelled = [label] if isinstance(label, str) else list(label or [])
        self._soft: Optional[List[Callable[..., Any]]] = None
        self._indices, self._keys, self._views = indices, keys, views

    def soften(self, kind: str, fields: Dict[str, Dict[str, Any]]) -> None:
        """From now on labels are soft targets."""
        chosen = self._fields or self._labelled or list(fields)[:1]
        self._soft = [soft_targets.maker(kind, fields[name]) for name in chosen[:self._count]]

    def _targets(self, labels: List[Any], others: List[Any], share: Any) -> Any:
        """The soft targets."""
        return self._group([make(*pair, share) for make, pair in zip(self._soft or [], zip(labels, others))])

    def _group(self, labels: List[Any]) -> Any:
        if self._fields is not None:
            return dict(zip(self._fields, labels))
        return labels[0] if labels else None

    def arrange(self, tensors: List[Any]) -> Parted:
        """images, labels, and any further parts."""
        if self._views is not None:
            tensors = [self._views.arrange(tensors), *tensors[len(self._views.names):]]
        if not self._mixed and self._fields is None and len(tensors) == 2 and self._count and self._soft is None:
            return tensors[0], tensors[1]
        at = 1 + self._count
        labels, others, share = tensors[1:at], [None] * self._count, None
        if self._mixed:
            others, share, at = tensors[at:at + self._count], tensors[at + self._count], at + self._count + 1
        if self._soft is not None:
            arranged = self._targets(labels, others, share)
        else:
            arranged = (self._group(labels), self._group(others), share) if self._mixed else self._group(labels)
        if self._keys is None:
            return (tensors[0], arranged, *tensors[at:])
        keys = [self._keys[number] if number >= 0 else None for number in as_list(tensors[-1])]
        return (tensors[0], arranged, *tensors[at:None if self._indices else -1], keys)
