"""Keeps samples until they are packed: files in a folder next to OUT, in forms that ffpack reads."""
from __future__ import annotations

import os
import struct
import weakref
from typing import List, Optional, Tuple, Union

from . import packing
from .errors import UsageError
from .options import Path
from .samples import Label, Sample

HEADER_BYTES = 128
HELD = 1 << 20
PACKING = "packing"


def npy_header(kind: str, shape: Tuple[int, ...]) -> bytes:
    """The beginning of an .npy file, of HEADER_BYTES."""
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join("%d, " % n for n in shape))
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", HEADER_BYTES - 10)
    return magic + text.encode().ljust(HEADER_BYTES - 11) + b"\n"


class Growing:
    """A file that grows. A forked process would write the buffer of one of Python's own files again at its end."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "xb", buffering=0)
        self.held = bytearray()

    def write(self, *parts: bytes) -> None:
        for part in parts:
            self.held += part
        if len(self.held) >= HELD:
            self.flush()

    def flush(self) -> None:
        at = 0
        while at < len(self.held):
            at += self.file.write(memoryview(self.held)[at:])
        self.held = bytearray()

    def close(self) -> None:
        self.flush()
        self.file.close()

    def __del__(self) -> None:
        self.file.close()


class ArrayFile:
    """An .npy file that grows; its shape is written at the end."""

    def __init__(self, path: str, kind: str, shape: Tuple[int, ...]) -> None:
        self.kind, self.shape, self.count = kind, shape, 0
        self.file = Growing(path)
        self.file.write(npy_header(kind, (0, *shape)))

    def add(self, data: bytes) -> None:
        self.file.write(data)
        self.count += 1

    def finish(self) -> None:
        self.file.flush()
        self.file.file.seek(0)
        self.file.write(npy_header(self.kind, (self.count, *self.shape)))
        self.file.close()


class ArraySpool:
    """Samples of one shape and type as an array, and their labels as another."""

    def __init__(self, folder: str, sample: Sample, layout: Optional[str]) -> None:
        self.folder, self.sample, self.layout = folder, sample, layout
        self.images = ArrayFile(os.path.join(folder, "images.npy"), sample.kind, sample.shape)
        self.labels: Optional[ArrayFile] = None

    def add(self, sample: Sample, label: Optional[Label]) -> None:
        if (sample.kind, sample.shape) != (self.sample.kind, self.sample.shape):
            raise UsageError(
                "sample %d is %s, but earlier samples are %s; wanted one shape and type; u8 images of different sizes are "
                "packed with resize=, center_crop= or max_side=" % (self.images.count, sample, self.sample))
        if self.labels is None and label is not None:
            self.labels = ArrayFile(os.path.join(self.folder, "labels.npy"), label.kind, label.shape)
            for _ in range(self.images.count):
                self.labels.add(label.none)
        self.images.add(sample.data)
        if self.labels is not None:
            self.labels.add(Label.none if label is None else label.data)

    def finish(self) -> List[str]:
        self.images.finish()
        if self.labels is not None:
            self.labels.finish()
        return [self.folder, "--format=npy"] + (["--array-layout=" + self.layout] if self.layout else [])


class ImageSpool:
    """u8 images of any sizes in a tar, each as a PPM or PGM file with its class next to it (a WebDataset)."""

    def __init__(self, folder: str, sample: Sample, layout: Optional[str]) -> None:
        self.path = os.path.join(folder, "images.tar")
        self.file = Growing(self.path)
        self.channels, self.layout, self.count = sample.channels(layout), layout, 0
        self.labeled = False  # if one sample has a class, all have one, or -1

    def member(self, name: str, parts: List[bytes]) -> None:
        size = sum(map(len, parts))
        header = bytearray(512)
        for at, text in ((0, name.encode()), (100, b"0000644"), (108, b"0000000"), (116, b"0000000"),
                         (124, b"%011o" % size), (136, b"00000000000"), (148, b" " * 8), (156, b"0"),
                         (257, b"ustar\x0000")):
            header[at:at + len(text)] = text
        header[148:156] = b"%06o\0 " % sum(header)
        self.file.write(header, *parts, bytes(-size % 512))

    def add(self, sample: Sample, label: Optional[Label]) -> None:
        channels = sample.channels(self.layout)
        if sample.kind != "|u1" or channels != self.channels:
            raise UsageError("sample %d is %s, but earlier samples have %d %s of u8; wanted the same" % (
                self.count, sample, self.channels, "channel" if self.channels == 1 else "channels"))
        if label is not None and label.shape != ():
            raise UsageError("sample %d: the label of images whose size ffpack changes is a class, or nothing"
                             % self.count)
        if label is not None and self.count and not self.labeled:
            raise UsageError("sample %d has a class, but the samples before it do not: if ffpack changes the size "
                             "of images, the first has a class, or -1" % self.count)
        self.labeled = label is not None or self.labeled
        height, width = sample.size(self.layout)
        data = sample.data
        if channels == 3 and self.layout == "chw":
            turned, plane = bytearray(len(data)), height * width
            for channel in range(3):
                turned[channel::3] = data[channel * plane:(channel + 1) * plane]
            data = turned
        name = "%010d" % self.count
        head = b"P%d %d %d 255\n" % (6 if channels == 3 else 5, width, height)
        self.member(name + (".ppm" if channels == 3 else ".pgm"), [head, data])
        if self.labeled:
            self.member(name + ".cls", [b"%d" % (-1 if label is None else label.value)])
        self.count += 1

    def finish(self) -> List[str]:
        self.file.write(bytes(1024))
        self.file.close()
        return [self.path, "--format=webdataset", "--mode=" + ("rgb" if self.channels == 3 else "gray")]


Files = Union[ArraySpool, ImageSpool]


class Spool:
    """The folder OUT.spool-*, locked as long as its writer or its ffpack lives. If a writer is killed, the next writer with the
    same OUT removes its folder, and what its ffpack had begun."""

    def __init__(self, out: Path) -> None:
        import tempfile
        parent, name = os.path.split(os.path.abspath(out))
        self.partial = os.path.join(parent, name + ".partial")
        self.remove_stale(parent, name + ".spool-")
        if os.path.lexists(self.partial):
            raise UsageError("%s belongs to an interrupted packing: continue that one, or remove it" % self.partial)
        self.path = tempfile.mkdtemp(prefix=name + ".spool-", dir=parent)
        self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        take_lock(self.lock)
        self.remove = weakref.finalize(self, remove_spool, self.path, self.partial, self.lock, os.getpid())

    def remove_stale(self, parent: str, prefix: str) -> None:
        for name in os.listdir(parent):
            if not name.startswith(prefix):
                continue
            path = os.path.join(parent, name)
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            if take_lock(lock):
                remove_spool(path, self.partial, lock, os.getpid())
            else:
                os.close(lock)

    def begin_packing(self) -> None:
        """From here on OUT.partial is this spool's."""
        open(os.path.join(self.path, PACKING), "w").close()


def take_lock(handle: int) -> bool:
    import fcntl
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another writer's, or on a file system without locks
        return False
    return True


def remove_spool(path: str, partial: str, lock: int, process: int) -> None:
    """Removes it, but only in its own process, not in a fork."""
    import shutil
    if os.getpid() == process:
        if os.path.exists(os.path.join(path, PACKING)):
            remove_partial(partial)
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def remove_partial(partial: str) -> None:
    """Removes OUT.partial, unless another Writer's running ffpack with the same OUT locks it; this Writer's has ended."""
    import shutil
    try:
        lock = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    if take_lock(lock):
        shutil.rmtree(partial, ignore_errors=True)
    os.close(lock)
