"""Memory of a GPU that batches are made in: torch's own, which knows which streams use it."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

from .dataset import unescape
from .errors import UsageError

Place = Tuple[bytes, int, int, int, int, Tuple[int, ...], Tuple[int, ...]]
# dtype: (DLPack's code, bits, torch's name)
DTYPES = {"f32": (2, 32, "float32"), "f16": (2, 16, "float16"), "bf16": (4, 16, "bfloat16"), "u8": (1, 8, "uint8"),
          "u16": (1, 16, "uint16"), "i32": (0, 32, "int32"), "i64": (0, 64, "int64")}


class Memory:
    """Tensors of a loader's batches on its GPU, new ones for each batch: torch's allocator gives those that are not
    used any more again, in the order of the stream."""

    def __init__(self, kind: str, about: Dict[str, Any], names: Tuple[bytes, ...]) -> None:
        if kind != "torch":
            raise UsageError("as_=%r with device=%r: batches on a GPU are torch's" % (kind, about["device"]))
        import torch
        self._torch = torch
        self._device = torch.device(about["device"])
        known = {unescape(tensor["name"]).encode(errors="surrogateescape"): tensor for tensor in about["tensors"]}
        self._specs = [(name, known[name]) for name in names]

    def take(self) -> Tuple[List[Any], Tuple[Place, ...]]:
        """Tensors for one batch, and where they are."""
        torch, tensors, places = self._torch, [], []
        for name, spec in self._specs:
            code, bits, dtype = DTYPES[spec["dtype"]]
            tensor = torch.empty_strided(spec["shape"], spec["strides"], dtype=getattr(torch, dtype),
                                         device=self._device)
            tensors.append(tensor)
            places.append((name, tensor.data_ptr(), self._device.index, code, bits, tuple(spec["shape"]),
                           tuple(spec["strides"])))
        return tensors, tuple(places)

    def stream(self) -> int:
        """The current one."""
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)
