"""Arguments: ffload's replacements for other loaders' keywords, the nearest known keyword, and values as texts and numbers."""
from __future__ import annotations

import difflib
import functools
import operator
from typing import Any, Callable, Dict, Iterable, Optional, Tuple, TypeVar, cast

from .errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])
# A keyword's default in other libraries, which counts as unset, and what to use here instead. Keywords that ffload
# understands are arguments and not listed.
Answers = Dict[str, Tuple[Any, str]]

# The keywords of torch.utils.data.DataLoader, then torchvision's and timm's.
LOADER: Answers = {
    "dataset": (None, "it is the first argument, a path or an ffload.Dataset"),
    "samples": (False, "it is return_indices="),
    "sampler": (None, "indices=, where=, split=, fold=, order=, seed=, rank= and world= decide which samples come, and when"),
    "batch_sampler": (None, "batch_size=, indices=, order=, seed=, rank= and world= decide which samples come, and when"),
    "subset": (None, "it is indices=, where=, split= or fold="),
    "collate_fn": (None, "batches are made whole; transform= changes one"),
    "pin_memory": (False, "device=\"cuda\" makes batches on the GPU"),
    "pin_memory_device": ("", "device=\"cuda:1\" makes batches on that GPU"),
    "timeout": (0, "there are no worker processes that could hang"),
    "worker_init_fn": (None, "there are no worker processes; seed= decides all that is random"),
    "multiprocessing_context": (None, "there are no worker processes, only threads"),
    "persistent_workers": (False, "threads stay for all epochs"),
    "prefetch_factor": (None, "prefetch= is the number of batches that are ready or being made"),
    "generator": (None, "seed= decides all that is random"),
    "in_order": (True, "batches come in their order"),
    "num_replicas": (None, "it is world="),
    "distributed": (None, "rank and world are found"),
}
DATASET: Answers = {
    "root": (None, "it is the first argument, the path of a packed split"),
    "transform": (None, "samples are packed as ffload.pack transforms them; ffload.Loader has augment="),
    "target_transform": (None, "labels are as they were packed"),
    "train": (None, "the path names the split, as in packed/train"),
    "split": (None, "the path names the split, as in packed/train"),
    "download": (None, "ffload.pack makes a set of what is on the disk"),
}


def nearest(name: str, known: Iterable[str]) -> Optional[str]:
    found = difflib.get_close_matches(name, list(known), 1, 0.6)
    return found[0] if found else None


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    near = nearest(name, known)
    return UsageError("%s has no argument %s%s" % (what, name, "; did you mean %s?" % near if near else ""))


def answering(what: str, answers: Answers) -> Callable[[Function], Function]:
    """Makes a method refuse other keywords than its own with a UsageError that names the replacement."""
    def decorate(function: Function) -> Function:
        code: Any = function.__code__
        known = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]

        @functools.wraps(function)
        def checked(self: Any, *arguments: Any, **keywords: Any) -> Any:
            for name in [name for name in keywords if name not in known]:
                if name not in answers:
                    raise unknown(what, name, known)
                usual, instead = answers[name]
                if keywords.pop(name) not in (usual, None):
                    raise UsageError("%s has no argument %s: %s" % (what, name, instead))
            return function(self, *arguments, **keywords)
        return cast(Function, checked)
    return decorate


def settled(name: str, value: Any, own: str, given: Any, means: Callable[[Any], Any], fits: Callable[[Any], bool]) -> Any:
    """An argument with two names: `given`, or the meaning of `value`, which came by the other name. UsageError if both are set and
    contradict each other."""
    if value is None:
        return given
    if given is not None and not fits(given):
        raise UsageError("%s=%r and %s=%r contradict each other" % (name, value, own, given))
    return means(value) if given is None else given


def text_of(value: Any) -> str:
    """An option's value as the library reads it."""
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(one) for one in value)
    return str(value)


def whole(name: str, value: Any) -> int:
    """A whole number from 0 to the largest epoch's number."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError("%s=%r: wanted a whole number" % (name, value)) from None
    if not 0 <= number < 2 ** 32:
        raise UsageError("%s=%d: wanted a number from 0 to %d" % (name, number, 2 ** 32 - 1))
    return number
