"""The samples and labels that are added to a Writer, checked."""
from __future__ import annotations

import struct
from typing import Any, Dict, List, Optional, Tuple

from .errors import UsageError

CLASS_LIMIT = 2 ** 31 - 1


class Sample:
    """An array's bytes, shape and type (in NumPy's words)."""

    def __init__(self, array: Any) -> None:
        from . import values
        mode = getattr(array, "mode", None)
        if isinstance(mode, str) and hasattr(array, "convert") and mode not in ("L", "RGB", "I;16", "I", "F"):
            raise UsageError("an image of mode %s; wanted RGB or L: convert it by .convert(\"RGB\")" % mode)
        self.data, shape, self.kind = values.read(array)
        self.shape = tuple(shape)
        if len(self.shape) not in (2, 3) or 0 in self.shape:
            raise UsageError("an array of shape %s; wanted height x width, or 3 axes, one of them the channels"
                             % (list(self.shape),))

    def __str__(self) -> str:
        return "%s of %s" % ("x".join(map(str, self.shape)), self.kind.lstrip("|<>"))

    def find_layout(self) -> Optional[str]:
        """Which axis is the channels: the last or the first, if only that one is at most 4; None for two axes."""
        if len(self.shape) == 2:
            return None
        first, last = self.shape[0] <= 4, self.shape[2] <= 4
        if first == last:
            raise UsageError("which axis of %s is the channels? wanted array_layout=\"chw\" (the first) or \"hwc\" "
                             "(the last)" % self)
        return "chw" if first else "hwc"

    def channels(self, layout: Optional[str]) -> int:
        if len(self.shape) == 2:
            return 1
        return self.shape[0 if layout == "chw" else 2]

    def size(self, layout: Optional[str]) -> Tuple[int, ...]:
        at = 1 if len(self.shape) == 3 and layout == "chw" else 0
        return self.shape[at:at + 2]


class Label:
    """A class (shape ()), a number, or several numbers."""
    none = struct.pack("<q", -1)  # no class

    def __init__(self, value: Any, classes: Optional[Dict[str, int]]) -> None:
        if isinstance(value, str):
            number = (classes or {}).get(value)
            if number is None:
                raise UsageError("label %r; %s" % (value, "wanted one of classes=" if classes else
                                                   "names need classes=, the list of all"))
            value = number
        if hasattr(value, "tolist"):  # arrays and tensors, and their numbers
            value = value.tolist()
        several = isinstance(value, (list, tuple))
        values = list(value) if several else [value]
        whole = all(hasattr(one, "__index__") for one in values)
        try:
            values = [one.__index__() if whole else float(one) for one in values]
            self.data = struct.pack("<%d%s" % (len(values), "q" if whole else "d"), *values)
        except (TypeError, ValueError, struct.error):
            raise UsageError("label %.100r; wanted a whole number, several numbers, or None" % (value,)) from None
        if not values:
            raise UsageError("a label of no numbers")
        self.value = values[0]
        self.kind = "<i8" if whole else "<f8"
        self.shape: Tuple[int, ...] = (len(values),) if several or not whole else ()
        limit = len(classes) if classes else CLASS_LIMIT
        if self.shape == () and not -1 <= self.value < limit:
            raise UsageError("label %d; wanted a class from 0 to %d, or -1 or None for an unlabelled sample" % (self.value, limit - 1))

    def is_class(self) -> bool:
        return self.kind == "<i8" and self.shape in ((), (1,))

    def __str__(self) -> str:
        words = {"<i8": "whole numbers", "<f8": "floats"}
        return "a class" if self.shape == () else "%d %s" % (self.shape[0], words[self.kind])


class Labels:
    """Checks that all labels are of one kind; None stands for no label."""

    def __init__(self, classes: Optional[List[str]]) -> None:
        self.classes = {str(name): number for number, name in enumerate(classes)} if classes is not None else None
        self.first: Optional[Label] = None
        self.bare: Optional[int] = None  # the first sample without a label

    def check(self, number: int, value: Any) -> Optional[Label]:
        label = None if value is None else Label(value, self.classes)
        first = label if self.first is None else self.first
        if label is not None and first is not None and (label.kind, label.shape) != (first.kind, first.shape):
            raise UsageError("the label of sample %d is %s, but earlier labels are %s" % (number, label, first))
        bare = number if label is None and self.bare is None else self.bare
        if bare is not None and first is not None and first.shape != ():
            raise UsageError("sample %d has no label, and others have %s: only classes may be missing" % (bare, first))
        return label

    def take(self, number: int, label: Optional[Label]) -> None:
        if label is None:
            self.bare = number if self.bare is None else self.bare
        elif self.first is None:
            self.first = label
