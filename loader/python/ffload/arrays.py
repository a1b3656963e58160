"""The library's tensors as arrays of the caller's array library."""
from __future__ import annotations

import functools
import importlib
import struct
import sys
from importlib.util import find_spec
from typing import Any, Callable, List, Optional

from ._ffload import Tensor
from .errors import UsageError

Convert = Callable[[Tensor], Any]
KINDS = ("torch", "numpy", "jax", "cupy", "dlpack")
# As the library calls them, by the names of torch, NumPy and JAX.
DTYPES = {"float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16", "uint8": "u8",
          "uint16": "u16"}


# The types of labels, as struct reads them.
LETTERS = {"u8": "B", "u16": "H", "i32": "i", "i64": "q", "f16": "e", "f32": "f"}


@functools.lru_cache(maxsize=None)
def installed() -> str:
    """torch if it is installed, else numpy, else dlpack; does not depend on which of them is imported."""
    for name in ("torch", "numpy"):
        try:
            if name in sys.modules or find_spec(name):
                importlib.import_module(name)
                return name
        except (ImportError, OSError):  # installed, but broken
            pass
    return "dlpack"


def kind_of(as_: Optional[str]) -> str:
    """as_, checked; by default what is installed."""
    if as_ is None:
        return installed()
    if as_ not in KINDS:
        raise UsageError("as_=%r: wanted one of %s" % (as_, ", ".join(KINDS)))
    return as_


@functools.lru_cache(maxsize=None)
def converter(kind: str) -> Convert:
    """A function that converts a library tensor to that kind, without a copy; a copy as i32 if torch has no u16."""
    try:
        if kind == "torch":
            return _torch_converter()
        if kind == "numpy":
            from numpy import asarray
            return asarray
        if kind != "dlpack":
            return _from_dlpack("jax.dlpack" if kind == "jax" else kind)
    except ImportError as error:
        raise UsageError("as_=%r: %s" % (kind, error)) from error
    return lambda tensor: tensor


def _from_dlpack(module: str) -> Convert:
    convert: Convert = importlib.import_module(module).from_dlpack
    return convert


def _torch_converter() -> Convert:
    import torch
    from torch.utils.dlpack import from_dlpack

    def convert(tensor: Tensor) -> Any:
        try:
            # A capsule is used directly; an object would first be asked for its device and stream.
            return from_dlpack(tensor.__dlpack__())
        except RuntimeError:
            if tensor.dtype != "u16" or hasattr(torch, "uint16"):
                raise
        values = torch.frombuffer(bytearray(tensor.tobytes()), dtype=torch.int16)
        return (values.to(torch.int32) & 0xffff).reshape(tensor.shape)
    return convert


def as_list(tensor: Any) -> List[Any]:
    """The values of a label tensor with one or two axes; waits for a tensor on a GPU."""
    if hasattr(tensor, "tolist"):
        values: List[Any] = tensor.tolist()
        return values
    data, width = tensor.tobytes(), tensor.shape[1] if len(tensor.shape) > 1 else 0
    flat = list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(LETTERS[tensor.dtype]), LETTERS[tensor.dtype]), data))
    return [flat[i:i + width] for i in range(0, len(flat), width)] if width else flat


def dtype_name(dtype: Any) -> str:
    """f32 of "f32", "float32", torch.float32, numpy.float32, numpy.dtype("float32")."""
    text = getattr(dtype, "__name__", None) or str(dtype)
    text = text.rsplit(".", 1)[-1]
    return DTYPES.get(text, text)
