"""The samples of a loader, selected by their numbers."""
from __future__ import annotations

import array
import operator
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .errors import UsageError
from .words import Indices, Shares, Weights

if TYPE_CHECKING:
    from .dataset import Dataset

# Options of the library, and an argument.
Samples = Tuple[Dict[str, str], Optional[bytes]]


def numbers_of(dataset: Dataset, indices: Optional[Indices]) -> Samples:
    """The option and the argument for the library."""
    if indices is None or isinstance(indices, (str, os.PathLike)):
        return ({} if indices is None else {"indices": os.fspath(indices)}), None
    try:
        chosen = dataset._chosen(indices)
        if chosen is None:
            raise TypeError("%r; wanted numbers of samples, a slice, a mask or a file" % (indices,))
        numbers = [operator.index(number) for number in chosen]
    except (IndexError, TypeError) as error:
        raise UsageError("indices: %s" % error) from None
    count = len(dataset)
    return {}, array.array("q", (number + count if -count <= number < 0 else number for number in numbers)).tobytes()


def weights_of(weights: Optional[Weights]) -> Samples:
    """What the library takes."""
    if weights is None or isinstance(weights, (str, os.PathLike)):
        return ({} if weights is None else {"weights": os.fspath(weights)}), None
    try:
        return {}, array.array("d", (float(weight) for weight in weights)).tobytes()
    except (TypeError, ValueError) as error:
        raise UsageError("weights: %s; wanted \"balanced\", a label field, a file, or a number for each sample" % error) from None


def shares_option(dataset: Dataset, shares: Optional[Shares]) -> Dict[str, str]:
    """The option for the library."""
    if shares is None or isinstance(shares, str):
        return {} if shares is None else {"shares": shares}
    if isinstance(shares, Mapping):
        named = {os.fsdecode(path): share for path, share in shares.items()}
        if sorted(named) != sorted(dataset.paths):
            raise UsageError("shares of %s; wanted one for each of %s" % (", ".join(sorted(named)) or "no set", ", ".join(dataset.paths)))
        shares = [named[path] for path in dataset.paths]
    try:
        return {"shares": ",".join("%r" % float(share) for share in shares)}
    except (TypeError, ValueError) as error:
        raise UsageError("shares: %s; wanted a number for each set" % error) from None


class Selecting:
    """The samples of a loader, which may change between epochs."""

    dataset: Dataset
    _arguments: Dict[str, Any]
    _own: Any
    _samples: Samples
    _options: Dict[str, str]
    _epoch: int
    _stands: bool
    _turn: int

    def _open(self) -> None:
        raise NotImplementedError

    @property
    def indices(self) -> Optional[Indices]:
        """The argument `indices`. Setting it between epochs changes the next epoch's samples (a curriculum) and ends a running
        iteration. Errors as when the loader is made; the loader then keeps the earlier samples."""
        given: Optional[Indices] = self._arguments["indices"]
        return given

    @indices.setter
    def indices(self, indices: Optional[Indices]) -> None:
        self._change("indices", indices, numbers_of(self.dataset, indices), self._options)

    @property
    def shares(self) -> Optional[Shares]:
        """The argument `shares`. Setting it between epochs changes the shares from the next epoch on, as with `indices`."""
        given: Optional[Shares] = self._arguments["shares"]
        return given

    @shares.setter
    def shares(self, shares: Optional[Shares]) -> None:
        others = {name: value for name, value in self._options.items() if name != "shares"}
        self._change("shares", shares, self._samples, dict(others, **shares_option(self.dataset, shares)))

    def _change(self, name: str, value: Any, samples: Samples, options: Dict[str, str]) -> None:
        before = self._samples, self._options, self._own
        self._samples, self._options = samples, options
        try:
            self._open()
        except Exception:  # a file of numbers may be missing
            self._samples, self._options, self._own = before
            raise
        before[2].close()
        self._arguments[name] = value
        self._turn += 1
        self._own.seek(self._epoch, 0)
        self._stands = True
