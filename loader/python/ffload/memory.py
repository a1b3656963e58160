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
        self._rows: int = about["rows"]
        known = {unescape(tensor["name"]).encode(errors="surrogateescape"): tensor for tensor in about["tensors"]}
        self._specs = [(name, known[name]) for name in names]
        # Labels of mixed batches: the neighbour's, too.
        self._labels = [i for i, name in enumerate(names) if name.startswith(b"labels")] if b"mix" in names else []

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

    def finish(self, tensors: List[Any], count: int) -> List[Any]:
        """The rows that have samples, and the neighbour's labels after the own ones where they are mixed: of row i
        those of row i ^ 1, of a last row without a neighbour its own."""
        if count < self._rows:
            tensors = [tensor[:count] for tensor in tensors]
        if not self._labels:
            return tensors
        at = self._labels[-1] + 1
        other = self._torch.arange(count, device=self._device).bitwise_xor_(1).clamp_(max=count - 1)
        others = [tensors[i].index_select(0, other) for i in self._labels]
        return [*tensors[:at], *others, *tensors[at:]]
