"""The data of the phases: CIFAR packed from its JPEGs, or synthetic images where it is missing, and the JPEGs
as files for the usual loop."""
import ctypes
import glob
import io
import os
import tarfile


def cifar(s, sizes):
    """The packed set's folder, or None. Packed once per machine; from --cifar, else synthetic."""
    folder = os.path.join(s.work, "cifar")
    if os.path.isdir(folder):
        return folder
    if s.options.cifar:
        pack = s.program("ffpack")
        if not pack:
            s.fail("ffpack is not here")
            return None
        result = s.run("pack CIFAR-10", [pack, os.path.abspath(s.options.cifar), "-o", folder, "--dtype", "u8", "--force", *sizes["pack"]], 60)
        s.measured -= result.good  # nothing of a GPU
        s.row(f"packed in {result.seconds:.1f} s: {result.last_line()}")
        return folder if result.good else None
    s.row("pictures are made up: --cifar names no archive; accuracies mean nothing")
    return made(s, "cifar", sizes["made_count"], 32, 10, "train,test")


def made(s, name, count, side, classes, splits=""):
    """A folder of synthetic images, or None."""
    folder, make = os.path.join(s.work, name), s.program("make_set")
    if os.path.isdir(folder):
        return folder
    if not make:
        s.fail("make_set is not here")
        return None
    result = s.run(f"make {name}", [make, folder, "--dtype", "u8", "--statistics", "--count", str(count), "--classes", str(classes),
                                    "--height", str(side), "--width", str(side), *(["--splits", splits] if splits else [])], 60)
    s.measured -= result.good  # makes, measures nothing
    return folder if result.good else None


def decompress(path, libraries):
    """The bytes of a zstd file, by the libzstd that the packer uses."""
    found = glob.glob(os.path.join(libraries, "libzstd.so*"))
    zstd = ctypes.CDLL(found[0] if found else "libzstd.so.1")
    for name in ("ZSTD_createDStream", "ZSTD_DStreamOutSize"):
        getattr(zstd, name).restype = ctypes.c_void_p if "create" in name else ctypes.c_size_t
    zstd.ZSTD_decompressStream.restype = ctypes.c_size_t

    class Buffer(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]

    with open(path, "rb") as file:
        packed = file.read()
    room = ctypes.create_string_buffer(1 << 20)
    source = Buffer(ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p), len(packed), 0)
    stream, out = ctypes.c_void_p(zstd.ZSTD_createDStream()), io.BytesIO()
    while True:
        to = Buffer(ctypes.cast(room, ctypes.c_void_p), len(room), 0)
        code = zstd.ZSTD_decompressStream(stream, ctypes.byref(to), ctypes.byref(source))
        if zstd.ZSTD_isError(ctypes.c_size_t(code)):
            raise OSError(f"{path}: not zstd, or broken")
        out.write(room.raw[:to.pos])
        if source.pos == source.size and to.pos < to.size:
            break
    zstd.ZSTD_freeDStream(stream)
    return out.getvalue()


def jpegs(s):
    """The folder of training JPEGs, one folder per class; None where they are not available."""
    folder = os.path.join(s.work, "jpegs")
    train = os.path.join(folder, "train")
    if os.path.isdir(train):
        return train
    if not s.options.cifar:
        s.skip("the usual loop: --cifar names no archive")
        return None
    try:
        data = decompress(s.options.cifar, os.path.join(os.path.dirname(s.programs), "lib"))
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            members = [member for member in tar if member.isfile() and "train/" in member.name and ".." not in member.name and not member.name.startswith("/")]
            for member in members:
                parts = member.name.split("/")
                to = os.path.join(folder, *parts[parts.index("train"):])
                os.makedirs(os.path.dirname(to), exist_ok=True)
                with open(to, "wb") as file:
                    file.write(tar.extractfile(member).read())
    except (OSError, tarfile.TarError, AttributeError, ValueError) as error:
        s.skip(f"the usual loop: {error}")
        return None
    return train if os.path.isdir(train) else None
