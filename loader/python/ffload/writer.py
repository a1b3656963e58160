"""Packing what a program has in memory: ffload.Writer takes arrays and labels one after another, keeps them in files
beside OUT, and has ffpack pack these at the end."""
from __future__ import annotations

import os
import struct
import threading
import weakref
from typing import Any, Iterable, Optional, Union

from . import packing
from .errors import Error, UsageError

CHANGES = ("resize", "center_crop", "max_side", "pad_square")
HEADER_BYTES = 128
CLASS_LIMIT = 2 ** 31 - 1
HELD = 1 << 20
PACKING = "packing"


def npy_header(kind, shape):
    """The beginning of an .npy file, of HEADER_BYTES."""
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join("%d, " % n for n in shape))
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", HEADER_BYTES - 10)
    return magic + text.encode().ljust(HEADER_BYTES - 11) + b"\n"


class Growing:
    """A file that grows. Python's own would be written by a fork of the process, too, at its end."""

    def __init__(self, path):
        self.file = open(path, "xb", buffering=0)
        self.held = bytearray()

    def write(self, *parts):
        for part in parts:
            self.held += part
        if len(self.held) >= HELD:
            self.flush()

    def flush(self):
        at = 0
        while at < len(self.held):
            at += self.file.write(memoryview(self.held)[at:])
        self.held = bytearray()

    def close(self):
        self.flush()
        self.file.close()

    def __del__(self):
        self.file.close()


class ArrayFile:
    """An .npy file that grows; its shape is written at the end."""

    def __init__(self, path, kind, shape):
        self.kind, self.shape, self.count = kind, shape, 0
        self.file = Growing(path)
        self.file.write(npy_header(kind, (0, *shape)))

    def add(self, data):
        self.file.write(data)
        self.count += 1

    def finish(self):
        self.file.flush()
        self.file.file.seek(0)
        self.file.write(npy_header(self.kind, (self.count, *self.shape)))
        self.file.close()


class ArraySpool:
    """Samples of one shape and type as an array, and their labels as another."""

    def __init__(self, folder, sample, layout):
        self.folder, self.sample, self.layout = folder, sample, layout
        self.images = ArrayFile(os.path.join(folder, "images.npy"), sample.kind, sample.shape)
        self.labels = None

    def add(self, sample, label):
        if (sample.kind, sample.shape) != (self.sample.kind, self.sample.shape):
            raise UsageError(
                "sample %d is %s, and those before are %s: wanted one shape and type; u8 images of different sizes are "
                "packed with resize=, center_crop= or max_side=" % (self.images.count, sample, self.sample))
        if self.labels is None and label is not None:
            self.labels = ArrayFile(os.path.join(self.folder, "labels.npy"), label.kind, label.shape)
            for _ in range(self.images.count):
                self.labels.add(label.none)
        self.images.add(sample.data)
        if self.labels is not None:
            self.labels.add(Label.none if label is None else label.data)

    def finish(self):
        self.images.finish()
        if self.labels is not None:
            self.labels.finish()
        return [self.folder, "--format=npy"] + (["--array-layout=" + self.layout] if self.layout else [])


class ImageSpool:
    """u8 images of any sizes in a tar, each as a PPM or PGM file with its class beside it (a WebDataset)."""

    def __init__(self, folder, sample, layout):
        self.path = os.path.join(folder, "images.tar")
        self.file = Growing(self.path)
        self.channels, self.layout, self.count = sample.channels(layout), layout, 0

    def member(self, name, parts):
        size = sum(map(len, parts))
        header = bytearray(512)
        for at, text in ((0, name.encode()), (100, b"0000644"), (108, b"0000000"), (116, b"0000000"),
                         (124, b"%011o" % size), (136, b"00000000000"), (148, b" " * 8), (156, b"0"),
                         (257, b"ustar\x0000")):
            header[at:at + len(text)] = text
        header[148:156] = b"%06o\0 " % sum(header)
        self.file.write(header, *parts, bytes(-size % 512))

    def add(self, sample, label):
        channels = sample.channels(self.layout)
        if sample.kind != "|u1" or channels != self.channels:
            raise UsageError("sample %d is %s, and those before have %d %s of u8: wanted the same" % (
                self.count, sample, self.channels, "channel" if self.channels == 1 else "channels"))
        if label is not None and label.shape != ():
            raise UsageError("sample %d: images whose size ffpack changes have a class as their label, or none"
                             % self.count)
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
        if label is not None:
            self.member(name + ".cls", [b"%d" % label.value])
        self.count += 1

    def finish(self):
        self.file.write(bytes(1024))
        self.file.close()
        return [self.path, "--format=webdataset", "--mode=" + ("rgb" if self.channels == 3 else "gray")]


class Sample:
    """An array's bytes, shape and type (of NumPy's words)."""

    def __init__(self, array):
        from . import values
        mode = getattr(array, "mode", None)
        if isinstance(mode, str) and hasattr(array, "convert") and mode not in ("L", "RGB", "I;16", "I", "F"):
            raise UsageError("an image of mode %s; wanted RGB or L: convert it by .convert(\"RGB\")" % mode)
        self.data, shape, self.kind = values.read(array)
        self.shape = tuple(shape)
        if len(self.shape) not in (2, 3) or 0 in self.shape:
            raise UsageError("an array of shape %s; wanted height x width, or 3 axes, one of them the channels"
                             % (list(self.shape),))

    def __str__(self):
        return "%s of %s" % ("x".join(map(str, self.shape)), self.kind.lstrip("|<>"))

    def find_layout(self):
        """Which axis is the channels: the last or the first, if only that one is at most 4; None for two axes."""
        if len(self.shape) == 2:
            return None
        first, last = self.shape[0] <= 4, self.shape[2] <= 4
        if first == last:
            raise UsageError("which axis of %s is the channels? wanted array_layout=\"chw\" (the first) or \"hwc\" "
                             "(the last)" % self)
        return "chw" if first else "hwc"

    def channels(self, layout):
        if len(self.shape) == 2:
            return 1
        return self.shape[0 if layout == "chw" else 2]

    def size(self, layout):
        at = 1 if len(self.shape) == 3 and layout == "chw" else 0
        return self.shape[at:at + 2]


class Label:
    """A class (shape ()), a number, or several numbers."""
    none = struct.pack("<q", -1)  # no class

    def __init__(self, value, classes):
        if isinstance(value, str):
            if value not in (classes or {}):
                raise UsageError("label %r; %s" % (value, "wanted one of classes=" if classes else
                                                   "names need classes=, the list of all"))
            value = classes[value]
        if hasattr(value, "tolist"):  # of arrays and tensors, and their numbers
            value = value.tolist()
        several = isinstance(value, (list, tuple))
        values = list(value) if several else [value]
        whole = all(hasattr(one, "__index__") for one in values)
        try:
            values = [one.__index__() if whole else float(one) for one in values]
            self.data = struct.pack("<%d%s" % (len(values), "q" if whole else "d"), *values)
        except (TypeError, ValueError, struct.error):
            raise UsageError("label %.100r; wanted a whole number, several numbers, or None" % (value,)) from None
        if not values:
            raise UsageError("a label of no numbers")
        self.value = values[0]
        self.kind = "<i8" if whole else "<f8"
        self.shape = (len(values),) if several or not whole else ()
        limit = len(classes) if classes else CLASS_LIMIT
        if self.shape == () and not -1 <= self.value < limit:
            raise UsageError("label %d; wanted a class from 0 to %d, or -1 or None for none" % (self.value, limit - 1))

    def __str__(self):
        words = {"<i8": "whole numbers", "<f8": "floats"}
        return "a class" if self.shape == () else "%d %s" % (self.shape[0], words[self.kind])


class Labels:
    """Checks that all labels are alike; None is no class."""

    def __init__(self, classes):
        self.classes = {str(name): number for number, name in enumerate(classes)} if classes is not None else None
        self.first = None
        self.bare = None  # the first sample without

    def check(self, number, value):
        label = None if value is None else Label(value, self.classes)
        first = label if self.first is None else self.first
        if label is not None and (label.kind, label.shape) != (first.kind, first.shape):
            raise UsageError("the label of sample %d is %s, and those before are %s" % (number, label, first))
        bare = number if label is None and self.bare is None else self.bare
        if bare is not None and first is not None and first.shape != ():
            raise UsageError("sample %d has no label, and others have %s: only classes may be missing" % (bare, first))
        return label

    def take(self, number, label):
        if label is None:
            self.bare = number if self.bare is None else self.bare
        elif self.first is None:
            self.first = label


class Spool:
    """The folder OUT.spool-*, which is locked as long as its writer, or its ffpack, lives. Those that a killed
    writer left are removed by the next one of the same OUT, with what its ffpack had begun."""

    def __init__(self, out):
        import tempfile
        parent, name = os.path.split(os.path.abspath(out))
        self.partial = os.path.join(parent, name + ".partial")
        self.remove_stale(parent, name + ".spool-")
        if os.path.lexists(self.partial):
            raise UsageError("%s is of an interrupted packing: continue that one, or remove it" % self.partial)
        self.path = tempfile.mkdtemp(prefix=name + ".spool-", dir=parent)
        self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        take_lock(self.lock)
        self.remove = weakref.finalize(self, remove_spool, self.path, self.partial, self.lock, os.getpid())

    def remove_stale(self, parent, prefix):
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

    def begin_packing(self):
        """From here on OUT.partial is this spool's."""
        open(os.path.join(self.path, PACKING), "w").close()


def take_lock(handle):
    import fcntl
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another's, or of a file system without locks
        return False
    return True


def remove_spool(path, partial, lock, process):
    """By its own process alone, not by a fork of it."""
    import shutil
    if os.getpid() == process:
        if os.path.exists(os.path.join(path, PACKING)):
            shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


class Writer:
    """Packs arrays and labels that a program has, or makes, one after another:

        with ffload.Writer("packed", dtype="u8", classes=dataset.classes) as writer:
            for image, label in dataset:
                writer.add(image, label)

    out: the folder to create. It appears, whole, when the block ends; where that raises, or the process is killed,
        nothing does. Until then the samples are in a folder OUT.spool-* beside it, uncompressed.
    classes: the list of the classes' names, or a file with a line for each. Labels may then be names, too.
    array_layout: "hwc" or "chw", of arrays with 3 axes; None: the channels are the axis of at most 4.
    progress: of the packing at the end, as of ffload.pack.
    options: ffpack's own, as of ffload.pack: dtype, layout (of what is stored), mean, std, stats, stats_from, range,
        resize, center_crop, max_side, shuffle, compress, shard_size, jobs, force, ...

    Attributes: samples, how many were added; summary, ffpack's, after the end.

    Raises UsageError, BadData, OSError or Error, by the first add where options do not fit the samples. Threads: any
    number may add; the order is that of the calls.
    """

    def __init__(self, out: packing.Path, *, classes: Union[None, packing.Path, Iterable[str]] = None,
                 array_layout: Optional[str] = None, progress: packing.Progress = None, **options: Any) -> None:
        if array_layout not in (None, "hwc", "chw"):
            raise UsageError("array_layout: %r is none of None, \"hwc\" and \"chw\"" % (array_layout,))
        for name in ("dry_run", "part", "format", "labels", "splits", "resume"):
            if name in options:
                raise UsageError("%s: no option of a Writer" % name)
        self.out, self.progress, self.layout = os.fspath(out), progress, array_layout
        self.options = packing.command_line(options)
        self.changes = any(options.get(name) for name in CHANGES)
        if os.path.lexists(self.out) and not options.get("force"):
            raise UsageError("%s exists; force=True replaces it" % self.out)
        self.samples = 0
        self.summary: Optional[dict[str, Any]] = None
        self.lock, self.files, self.broken, self.process = threading.Lock(), None, None, os.getpid()
        named = classes is not None and not isinstance(classes, (str, os.PathLike))
        if classes is not None and not named:
            self.options.append("--classes=" + os.path.abspath(classes))
        self.spool = Spool(self.out)
        try:
            self.labels = Labels(list(classes) if named else None)
            if named:
                names = os.path.join(self.spool.path, "classes.txt")
                packing.write_names(classes, names)
                self.options.append("--classes=" + names)
            self.data = os.path.join(self.spool.path, "data")
            os.mkdir(self.data)
        except BaseException:
            self.spool.remove()
            raise

    def add(self, array: Any, label: Any = None) -> None:
        """Adds a sample: an array of NumPy, a tensor of PyTorch on the CPU, an image of PIL, or anything else with a
        buffer, __array_interface__ or DLPack; height x width, or with the channels first or last, of u8, u16, f16,
        f32 or another type of numbers (u8 from 0 to 255, floats as they are, other integers with range=(low, high)).

        label: a class (a whole number, -1 or None for none, a name with classes=); or several numbers: whole ones
            that are all 0 or 1 (multi-hot), others (a vector), floats whose sums are 1 (soft), others (a vector).

        The values are copied. UsageError where the sample is not like those before; the writer stays as it was."""
        self.check_open()
        sample = Sample(array)
        with self.lock:
            self.check_open()
            checked = self.labels.check(self.samples, label)
            try:
                self.write(sample, checked)
            except UsageError:
                raise
            except BaseException as why:  # half a sample may be written
                self.broken = why
                raise
            self.labels.take(self.samples, checked)
            self.samples += 1

    def check_open(self):
        if os.getpid() != self.process:
            raise UsageError("%s: a forked process has no part in its parent's Writer" % self.out)
        if self.broken is not None:
            raise Error("%s: nothing can be added after a failure: %s" % (self.out, self.broken))
        if not self.spool.remove.alive:
            raise UsageError("%s: the Writer is closed" % self.out)

    def write(self, sample, label):
        if self.files is None:
            layout = self.layout if len(sample.shape) == 3 and self.layout else sample.find_layout()
            images = self.changes and sample.kind == "|u1" and sample.channels(layout) in (1, 3)
            kind = ImageSpool if images else ArraySpool
            self.rehearse(kind, sample, label, layout)
            self.files = kind(self.data, sample, layout)
        self.files.add(sample, label)

    def rehearse(self, kind, sample, label, layout):
        """Has ffpack look at the first sample alone, so that what does not fit is told before all are there."""
        import tempfile
        with tempfile.TemporaryDirectory(dir=self.spool.path) as folder:
            files = kind(folder, sample, layout)
            files.add(sample, label)
            self.run(files, ["--dry-run"], False)

    def run(self, files, more, progress):
        source, *how = files.finish()
        try:
            summary = packing.run([*how, *more, *self.options, "--output=" + self.out, "--", source], progress,
                                  (self.spool.lock,), continues=False)
        except (Error, OSError) as error:
            raise type(error)(str(error).replace(source, "the samples")) from None
        return {**summary, "source": "ffload.Writer"}

    def close(self) -> dict[str, Any]:
        """Packs what was added, and puts it into place; the end of the block does. Returns the summary."""
        with self.lock:
            if not self.spool.remove.alive and self.summary is not None:
                return self.summary
            self.check_open()
            try:
                if self.files is None:
                    raise UsageError("%s: no sample was added" % self.out)
                self.spool.begin_packing()
                self.summary = self.run(self.files, [], self.progress)
            finally:
                self.spool.remove()
            return self.summary

    def abort(self) -> None:
        """Forgets what was added; nothing appears at OUT."""
        with self.lock:
            self.spool.remove()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
