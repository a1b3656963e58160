"""Several views of each sample in a batch."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .errors import UsageError
from .habits import text_of

if TYPE_CHECKING:
    from .words import Views


def size_text(size: Any) -> str:
    """"224x224" for (224, 224), as the library reads it."""
    return "x".join(str(side) for side in size) if isinstance(size, (list, tuple)) else str(size)


def augment_text(augment: Any) -> str:
    """The augmentation as the library reads it; "none" for no words."""
    empty = augment is None or isinstance(augment, (list, tuple)) and not augment
    return "none" if empty else text_of(augment)


def _group(name: str, group: Any) -> Tuple[int, str]:
    """The number of a group's views, and the group as the library reads it."""
    if not isinstance(group, (list, tuple)) or not 2 <= len(group) <= 3:
        raise UsageError("views[%r]=%r: wanted (number, augment), as in (2, \"rrc=224,flip\"), or (number, augment, size)" % (name, group))
    words = [str(name), str(group[0]), augment_text(group[1]), *map(size_text, group[2:])]
    if any(len(word.split()) != 1 or ";" in word for word in words):
        raise UsageError("views[%r]=%r: neither name nor augmentation has spaces" % (name, group))
    return int(group[0]) if words[1].isdigit() else 0, " ".join(words)


class Arranged:
    """The images of a batch's views: a tuple, or {name: tuple} of groups."""

    def __init__(self, views: Views) -> None:
        if isinstance(views, Mapping):
            groups = {name: _group(name, group) for name, group in views.items()}
            #: The library's option.
            self.text = ";".join(text for _, text in groups.values())
            self._groups: Optional[Dict[str, int]] = {name: count for name, (count, _) in groups.items()}
        else:
            self.text, self._groups = str(views), None
        counts = self._groups or {"": int(self.text) if self.text.isdigit() else 0}
        #: The library's tensors.
        self.names = ["images/%s%d" % (name and name + "/", i) for name, count in counts.items() for i in range(count)]

    def arrange(self, tensors: List[Any]) -> Any:
        """The views, whose tensors come in the order of their names."""
        if self._groups is None:
            return tuple(tensors[:len(self.names)])
        rest = iter(tensors)
        return {name: tuple(next(rest) for _ in range(count)) for name, count in self._groups.items()}

    def shown(self, about: Dict[str, Any]) -> str:
        """Number and shape of the views, for people: "2 of 3x32x32"."""
        shape = {tensor["name"]: "x".join(map(str, tensor["shape"][1:])) for tensor in about["tensors"]}
        groups = self._groups or {"": len(self.names)}
        return ", ".join("%s%d of %s" % (name and name + " ", count, shape["images/%s0" % (name and name + "/")])
                         for name, count in groups.items())
