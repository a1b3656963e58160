"""GPU memory in which batches are made, and its streams, both torch's."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from .dataset import unescape
from .errors import UsageError

if TYPE_CHECKING:
    from ._ffload import _Place as Place
    from .batches import BatchInfo
    from .loader import Loader

# dtype: (DLPack's code, bits, torch's name)
DTYPES = {"f32": (2, 32, "float32"), "f16": (2, 16, "float16"), "bf16": (4, 16, "bfloat16"), "u8": (1, 8, "uint8"),
          "u16": (1, 16, "uint16"), "i32": (0, 32, "int32"), "i64": (0, 64, "int64")}


# CUDA's legacy default stream, as a handle that is not 0.
LEGACY = 1


def current_stream(kind: str) -> int:
    """The stream in which a pool's batches are made: CuPy's current stream, else CUDA's legacy default stream."""
    if kind == "cupy":
        import cupy  # type: ignore[import-not-found,unused-ignore]
        return int(cupy.cuda.get_current_stream().ptr) or LEGACY
    return LEGACY


class Memory:
    """New tensors on the GPU for each batch of a loader: torch's allocator reuses the memory of unused ones, in the order of the
    stream."""

    def __init__(self, kind: str, about: Dict[str, Any], names: Tuple[bytes, ...]) -> None:
        if kind != "torch":
            raise UsageError("as_=%r: fixed tensors are torch's" % kind)
        import torch
        self._torch = torch
        self._device = torch.device(about["device"])
        known = {unescape(tensor["name"]).encode(errors="surrogateescape"): tensor for tensor in about["tensors"]}
        ordinal = self._device.index
        # For each tensor: its name, torch's arguments to make it, and the library's arguments except its address.
        self._specs = []
        for name in names:
            shape, strides = tuple(known[name]["shape"]), tuple(known[name]["strides"])
            code, bits, dtype = DTYPES[known[name]["dtype"]]
            self._specs.append((name, shape, strides, getattr(torch, dtype), (ordinal, code, bits, shape, strides)))

    def take(self) -> Tuple[List[Any], Tuple[Place, ...]]:
        """Tensors for one batch, and their addresses."""
        empty, tensors, places = self._torch.empty_strided, [], []
        for name, shape, strides, dtype, more in self._specs:
            tensor = empty(shape, strides, dtype=dtype, device=self._device)
            tensors.append(tensor)
            places.append((name, tensor.data_ptr(), *more))
        return tensors, tuple(places)

    def stream(self) -> int:
        """The current stream."""
        return int(self._torch.cuda.current_stream(self._device).cuda_stream) or LEGACY

    def is_capturing(self) -> bool:
        """Whether work in the current stream is recorded."""
        cuda: Any = self._torch.cuda
        return bool(cuda.is_current_stream_capturing())


class Static:
    """Fixed tensors on the GPU that each batch of a loader is written to (Loader.static). Incomplete batches have rows
    that only pad, of class -1."""

    def __init__(self, loader: Loader) -> None:
        self._loader, self._memory = loader, loader._memory()
        tensors, self._places = self._memory.take()
        #: As an iteration of the loader yields it; always these tensors.
        self.batch: Tuple[Any, ...] = loader._arrange(tensors)
        # Kernels are loaded here: a capture must not do that. The batch is not returned, so it is not lost.
        self._begin()
        loader._own.write(self._places, self._memory.stream())

    def _begin(self) -> BatchInfo:
        self._loader._own.begin(self._memory.stream())
        return self._loader.batch

    def enqueue(self) -> None:
        """Writes the next batch; in a capture, each replay of the graph writes the batch at which `for info in static` then is."""
        if self._memory.is_capturing():
            self._loader._own.write(self._places, self._memory.stream())
            return
        self._begin()
        self._loader._own.write(self._places, self._memory.stream())
        self._loader._own.end(self._memory.stream())
        self._loader._note()

    def __iter__(self) -> Iterator[BatchInfo]:
        """An epoch, or the loader's `epochs`: yields the numbers of each batch, which one replay writes."""
        for info in self._loader._iterate(self._begin):
            try:
                yield info
            finally:
                self._loader._own.end(self._memory.stream())
