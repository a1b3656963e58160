"""The values of any array as bytes, without NumPy: by the buffer protocol (NumPy, array.array), by
__array_interface__ (PIL's images, ffload's tensors), by DLPack (PyTorch and others)."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, Optional, Sequence, Tuple

from .errors import UsageError

# Letters of the buffer protocol and their types in NumPy's words, which all values use.
LETTERS = {"?": "b1", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8",
           "q": "i8", "Q": "u8", "e": "f2", "f": "f4", "d": "f8"}
OWN = "<" if sys.byteorder == "little" else ">"
CPU, PINNED = 1, 3
Read = Tuple[bytes, Tuple[int, ...], str]


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    """DLTensor, and the beginning of DLManagedTensor."""
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


def typed(letter: str, size: int) -> str:
    return ("|" if size == 1 else OWN) + "%s%d" % (letter, size)


def rows(address: int, shape: Sequence[int], strides: Optional[Sequence[int]], size: int) -> bytes:
    """The bytes of an array at `address` in the order of its axes; strides in bytes, None = without gaps."""
    count = 1
    for length in shape:
        count *= length
    if count == 0:
        return b""
    dense = [size]
    for length in reversed(shape[1:]):
        dense.insert(0, dense[0] * length)
    if strides is None or all(s == d for s, d, length in zip(strides, dense, shape) if length > 1):
        return ctypes.string_at(address, count * size)
    if any(stride % size for stride in strides):
        raise UsageError("an array whose values are %s bytes apart, of %d bytes each" % (list(strides), size))
    # Slices of one memoryview of the whole array copy the values of the last axis.
    steps = [stride // size for stride in strides]
    low = sum((length - 1) * step for length, step in zip(shape, steps) if step < 0)
    high = sum((length - 1) * step for length, step in zip(shape, steps) if step > 0)
    memory = (ctypes.c_char * ((high - low + 1) * size)).from_address(address + low * size)
    whole: Any = memoryview(memory).cast("B")
    values = whole.cast({1: "B", 2: "H", 4: "I", 8: "Q"}[size])
    starts = [-low]
    for length, step in zip(shape[:-1], steps[:-1]):
        starts = [start + i * step for start in starts for i in range(length)]
    length, step = shape[-1], steps[-1]
    if step == 0:
        return b"".join(bytes(values[start:start + 1]) * length for start in starts)
    parts = []
    for start in starts:
        end = start + length * step
        parts.append(values[start:end if end >= 0 else None:step].tobytes())
    return b"".join(parts)


def from_interface(value: Any, found: Dict[str, Any]) -> Read:
    """If the interface's data is None, the object's own buffer holds the values."""
    shape, name, data = tuple(found["shape"]), found["typestr"], found.get("data")
    if name[1] not in "buif" or not name[2:].isdigit():
        raise UsageError("an array of type %s, wanted numbers" % name)
    size = int(name[2:])
    if isinstance(data, tuple):
        return rows(data[0], shape, found.get("strides"), size), shape, name
    view: memoryview = memoryview(value if data is None else data)
    return view.cast("B")[found.get("offset", 0):].tobytes(), shape, name


def from_dlpack(value: Any) -> Read:
    device = value.__dlpack_device__()
    if device[0] not in (CPU, PINNED):
        raise UsageError("an array in the memory of a GPU: copy it to the host's memory, by .cpu() or the like")
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = Tensor.from_address(pointer(capsule, b"dltensor"))
    letter = {0: "i", 1: "u", 2: "f", 6: "b"}.get(tensor.code)
    if letter is None or tensor.lanes != 1 or tensor.bits % 8:
        raise UsageError("an array of a type that NumPy does not know (bfloat16, complex, ...): convert it to float32")
    size = tensor.bits // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.dimensions))
    strides = tuple(tensor.strides[i] * size for i in range(tensor.dimensions)) if tensor.strides else None
    data = rows((tensor.data or 0) + tensor.offset, shape, strides, size)
    del capsule  # until here it owns the memory
    return data, shape, typed(letter, size)


def from_buffer(view: memoryview) -> Read:
    order, letter = (view.format[0], view.format[1:]) if view.format[:1] in ("<", ">", "=", "@", "!") else ("@", view.format)
    if letter not in LETTERS:
        raise UsageError("an array of type %s, wanted numbers" % view.format)
    name = LETTERS[letter][0] + str(view.itemsize)
    order = {"=": OWN, "@": OWN, "!": ">"}.get(order, order)
    return view.tobytes(), tuple(view.shape or ()), ("|" if view.itemsize == 1 else order) + name


def read(value: Any) -> Read:
    """(bytes, shape, type) of an array: bytes in the order of the axes, the last the fastest; the type in NumPy's
    words: "|u1", "<f4". UsageError for anything but an array in host memory."""
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):
        view = None
    if view is not None:
        return from_buffer(view)
    found = getattr(value, "__array_interface__", None)
    if isinstance(found, dict):
        return from_interface(value, found)
    why: Optional[Exception] = None
    if hasattr(value, "__dlpack__"):
        try:
            return from_dlpack(value)
        except (RuntimeError, TypeError, BufferError) as error:  # a type that its version of DLPack lacks, a gradient
            if isinstance(error, UsageError):
                raise
            why = error
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(value, "__array__"):
        try:
            return from_buffer(memoryview(numpy.asarray(value)))
        except (RuntimeError, TypeError, ValueError) as error:
            why = why or error
    if why is not None:
        raise UsageError("%s: %s" % (type(value).__name__, " ".join(str(why).split())))
    raise UsageError("%s is not an array; wanted one of NumPy or PyTorch, an image of PIL, or another object with a "
                     "buffer, __array_interface__ or __dlpack__" % type(value).__name__)
