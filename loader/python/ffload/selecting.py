"""The samples of a loader, selected by their numbers."""
from __future__ import annotations

import array
import operator
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .errors import UsageError
from .words import Indices, Weights

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


class Selecting:
    """The samples of a loader, which may change between epochs."""

    dataset: Dataset
    _arguments: Dict[str, Any]
    _own: Any
    _samples: Samples
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
        before = self._samples, self._own
        self._samples = numbers_of(self.dataset, indices)
        try:
            self._open()
        except Exception:  # a file of numbers may be missing
            self._samples, self._own = before
            raise
        before[1].close()
        self._arguments["indices"] = indices
        self._turn += 1
        self._own.seek(self._epoch, 0)
        self._stands = True
