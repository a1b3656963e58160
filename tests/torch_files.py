"""Files as torch.save writes them, both forms, made without torch by Python's own pickle: for tests of what reads them. torch's
names are stand-ins, so a process that uses this module does not import torch."""
import collections
import io
import json
import pickle
import struct
import sys
import types
import zipfile

FORMATS = {"float32": "f", "float16": "e", "bfloat16": "H", "float64": "d", "int64": "q", "int32": "i", "uint8": "B", "complex": "d"}
STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage", "float64": "DoubleStorage",
            "int64": "LongStorage", "int32": "IntStorage", "uint8": "ByteStorage"}


def _stand_in(module, name, what=None):
    """An importable MODULE.NAME, which pickle then writes by its name."""
    parts = module.split(".")
    for i in range(len(parts)):
        sys.modules.setdefault(".".join(parts[:i + 1]), types.ModuleType(".".join(parts[:i + 1])))
    what = what or type(name, (), {})
    what.__module__, what.__qualname__, what.__name__ = module, name, name
    setattr(sys.modules[module], name, what)
    return what


def stand_in(module, name):
    """A class, whose objects are pickled as those of any class are."""
    return _stand_in(module, name)


def _function(module, name):
    return _stand_in(module, name, types.FunctionType((lambda *arguments: None).__code__, {}, name))


REBUILD = _function("torch._utils", "_rebuild_tensor_v2")
PARAMETER = _function("torch._utils", "_rebuild_parameter")
TYPES = {name: _stand_in("torch", name) for name in [*STORAGES.values(), "ComplexFloatStorage"]}


class Storage:
    def __init__(self, data, kind="float32"):
        """data: bytes, or numbers; "bfloat16" takes their upper 16 bits."""
        self.kind = kind
        self.data = data if isinstance(data, bytes) else struct.pack("<%d%s" % (len(data), FORMATS[kind]), *data)
        self.count = len(self.data) // struct.calcsize(FORMATS[kind])  # what the pickle contains


class Tensor:
    """A view of a storage; by default of one of its own, whole."""
    def __init__(self, data, shape, kind="float32", offset=0, stride=None):
        self.storage = data if isinstance(data, Storage) else Storage(data, kind)
        if stride is None:
            stride = [1]
            for side in reversed(shape[1:]):
                stride.insert(0, stride[0] * side)
            stride = stride[:len(shape)]
        self.offset, self.shape, self.stride = offset, tuple(shape), tuple(stride)

    def __reduce__(self):
        return REBUILD, (self.storage, self.offset, self.shape, self.stride, False, collections.OrderedDict())


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return PARAMETER, (self.tensor, True, collections.OrderedDict())


class Call:
    """An object that Python would rebuild by calling a function."""
    def __init__(self, function, *arguments):
        self.how = function, arguments

    def __reduce__(self):
        return self.how


class _Pickler(pickle._Pickler):  # the one in Python, which finds functions by the names above
    def __init__(self, file, protocol, legacy):
        super().__init__(file, protocol)
        self.storages, self.legacy = {}, legacy

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        key = next((key for key, known in self.storages.items() if known is value), str(len(self.storages)))
        self.storages[key] = value
        name = STORAGES.get(value.kind, "ComplexFloatStorage")
        return ("storage", TYPES[name], key, "cpu", value.count) + ((None,) if self.legacy else ())


def pickled(value, protocol=2, legacy=False):
    """Its bytes, and the storages by their keys."""
    to = io.BytesIO()
    pickler = _Pickler(to, protocol, legacy)
    pickler.dump(value)
    return to.getvalue(), pickler.storages


def save(path, value, protocol=2, name="archive", byteorder="little", compression=zipfile.ZIP_STORED, skip=(), cut=0):
    """As PyTorch since 1.6; skip: keys of storages that are left out; cut: bytes that each lacks."""
    pickle_bytes, storages = pickled(value, protocol)
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(name + "/data.pkl", pickle_bytes)
        if byteorder:
            file.writestr(name + "/byteorder", byteorder)
        for key, storage in storages.items():
            if key not in skip:
                file.writestr("%s/data/%s" % (name, key), storage.data[:len(storage.data) - cut])
        file.writestr(name + "/version", "3\n")


def widen(path):
    """Rewrites a zip of save() with zip64's records, as PyTorch writes one of more than 4 GiB: all sizes and offsets stand there."""
    with zipfile.ZipFile(path) as file, open(path, "rb") as whole:
        members, body, directory = file.infolist(), whole.read()[:file.start_dir], b""
    for one in members:
        name, none = one.filename.encode(), 0xffffffff
        extra = struct.pack("<HH", 0x1234, 2) + b"xx" + struct.pack("<HHQQQ", 1, 24, one.file_size, one.compress_size, one.header_offset)
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0x21, one.CRC, none, none, len(name), len(extra), 0, 0, 0, 0, none)
        directory += name + extra
    at = len(body) + len(directory)
    with open(path, "wb") as file:
        file.write(body + directory)
        file.write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, len(members), len(members), len(directory), len(body)))
        file.write(struct.pack("<4sLQL", b"PK\6\7", 0, at, 1))
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 3) + b"end")


def save_old(path, value, protocol=2, little=True):
    """As PyTorch before 1.6, and with _use_new_zipfile_serialization=False."""
    pickle_bytes, storages = pickled(value, protocol, True)
    with open(path, "wb") as file:
        for one in (0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": little,
                                                   "type_sizes": {"short": 2, "int": 4, "long": 4}}):
            pickle.dump(one, file, protocol)
        file.write(pickle_bytes)
        pickle.dump(list(storages), file, protocol)
        for storage in storages.values():
            file.write(struct.pack("<q", storage.count) + storage.data)


def state_dict(tensors):
    """An OrderedDict with torch's attribute _metadata."""
    out = collections.OrderedDict(tensors)
    out._metadata = collections.OrderedDict([("", {"version": 1})])
    return out


def read_safetensors(path):
    """{name: (kind, shape, bytes)} of a safetensors file."""
    kinds = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I64": "int64"}
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (kinds[one["dtype"]], one["shape"], data[slice(*one["data_offsets"])])
            for name, one in header.items() if name != "__metadata__"}
