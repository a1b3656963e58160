"""The words that arguments take, for type checkers."""
from typing import Literal, Tuple, Union

As = Literal["torch", "numpy", "jax", "cupy", "dlpack"]
LastBatch = Literal["drop", "keep", "pad"]
Layout = Literal["channels_last", "contiguous"]
Order = Literal["random", "block", "sequential"]
Placement = Literal["auto", "resident", "stream", "host"]
Size = Union[str, Tuple[int, int]]
Targets = Literal["classes", "soft"]
Verify = Literal["first", "always", "off"]
