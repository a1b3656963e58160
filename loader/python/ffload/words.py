"""The words that arguments accept, for type checkers."""
import os
from typing import Iterable, Literal, Mapping, Sequence, SupportsFloat, SupportsIndex, Tuple, Union

As = Literal["torch", "numpy", "jax", "cupy", "dlpack"]
LastBatch = Literal["drop", "keep", "pad"]
Layout = Literal["channels_last", "contiguous"]
Order = Literal["random", "block", "sequential", "node-block"]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Placement = Literal["auto", "resident", "stream", "host"]
Size = Union[str, Tuple[int, int]]
# Numbers of samples, a slice, a mask, or a file of numbers or keys.
Indices = Union[str, "os.PathLike[str]", slice, Iterable[SupportsIndex]]
# "balanced", a label field's name, a file of numbers, or the numbers.
Weights = Union[str, "os.PathLike[str]", Iterable[SupportsFloat]]
# A number for each set, in their order or by their paths; or the library's words.
Shares = Union[str, Sequence[float], Mapping[Path, float]]
SharesOf = Literal["epoch", "batch"]
Targets = Literal["classes", "soft"]
Augment = Union[str, Sequence[str], None]
# Their number, or groups: number, augmentation and, if wanted, size.
Views = Union[int, Mapping[str, Union[Tuple[int, Augment], Tuple[int, Augment, Size]]]]
Verify = Literal["first", "always", "off"]
