"""Packs data from a program's memory: ffload.Writer takes arrays and labels one after another, keeps them in files next to OUT, and
finally calls ffpack to pack these files."""
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Type, Union

from . import habits, packing
from .errors import Error, UsageError
from .options import Path, WriterOptions
from .samples import Labels, Sample, Label
from .spool import ArraySpool, Files, ImageSpool, Spool

if TYPE_CHECKING:
    from typing_extensions import Unpack

CHANGES = ("resize", "center_crop", "max_side", "pad_square")


class Writer:
    """Packs arrays and labels that a program has, or makes, one after another:

        with ffload.Writer("packed", dtype="u8", classes=dataset.classes) as writer:
            for image, label in dataset:
                writer.add(image, label)

    out: the folder to create, with its parents. It appears, whole, when the block ends; if the block raises, or the process is
        killed, nothing appears. Until then the samples are in a folder OUT.spool-* next to it, uncompressed.
    classes: the list of the classes' names, or a file with one name per line. Labels may then also be names. Blanks at a name's
        ends are not part of the name, as in every list of labels.
    array_layout: "hwc" or "chw", for arrays with 3 axes; None: the channels are the axis of at most 4.
    progress: for the packing at the end, as in ffload.pack.
    options: ffpack's own, as in ffload.pack: dtype, layout (of what is stored), mean, std, stats, stats_from, range,
        resize, center_crop, max_side, shuffle, compress, shard_size, jobs, force, ...

    Attributes: samples, the number added; summary, ffpack's, after the end.

    Raises UsageError, BadData, OSError or Error, in the first add if options do not fit the samples. Threads: any number may add;
    samples keep the order of the calls.
    """

    def __init__(self, out: Path, *, classes: Union[None, Path, Iterable[str]] = None,
                 array_layout: Optional[str] = None, progress: packing.Progress = None,
                 **options: Unpack[WriterOptions]) -> None:
        if array_layout not in (None, "hwc", "chw"):
            raise UsageError("array_layout: %r is not None, \"hwc\" or \"chw\"" % (array_layout,))
        given: Dict[str, Any] = {**options}
        for name in given:
            if name in ("dry_run", "part", "format", "labels", "splits", "resume"):
                raise UsageError("%s: no option of a Writer" % name)
            if name not in WriterOptions.__annotations__ and name not in packing.TAKEN:
                raise habits.unknown("Writer", name, WriterOptions.__annotations__)
        self.out, self.progress, self.layout = os.fspath(out), progress, array_layout
        self.options = packing.command_line(given)
        self.changes = any(given.get(name) for name in CHANGES)
        self.named = (classes is not None or bool(given.get("classes_from"))) and not given.get("label_kind")
        if os.path.lexists(self.out) and not given.get("force"):
            raise UsageError("%s exists; force=True replaces it" % self.out)
        self.samples = 0
        self.summary: Optional[Dict[str, Any]] = None
        self.lock, self.process = threading.Lock(), os.getpid()
        self.files: Optional[Files] = None
        self.broken: Optional[BaseException] = None
        named: Optional[List[str]] = None
        if isinstance(classes, (str, os.PathLike)):
            self.options.append("--classes=" + os.path.abspath(classes))
        elif classes is not None:
            named = list(classes)
        os.makedirs(os.path.dirname(os.path.abspath(self.out)), exist_ok=True)
        self.spool = Spool(self.out)
        try:
            self.labels = Labels(named)
            if named is not None:
                names = os.path.join(self.spool.path, "classes.txt")
                packing.write_names(named, names)
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

        label: a class (a whole number, which counts the classes from 0, also classes that are named by numbers; -1 or
            None without a label; a name with classes=); or several numbers: whole ones or floats that are all 0 or 1
            (multi-hot), floats whose sums are 1 (soft), others (a vector).

        The values are copied. UsageError if the sample is not like the samples before; the writer stays as it was."""
        self._check_open()
        sample = Sample(array)
        with self.lock:
            self._check_open()
            checked = self.labels.check(self.samples, label)
            try:
                self._write(sample, checked)
            except UsageError:
                raise
            except BaseException as why:  # half a sample may be written
                self.broken = why
                raise
            self.labels.take(self.samples, checked)
            self.samples += 1

    def _check_open(self) -> None:
        if os.getpid() != self.process:
            raise UsageError("%s: a forked process cannot use its parent's Writer" % self.out)
        if self.broken is not None:
            raise Error("%s: nothing can be added after a failure: %s" % (self.out, self.broken))
        if not self.spool.remove.alive:
            raise UsageError("%s: the Writer is closed" % self.out)

    def _write(self, sample: Sample, label: Optional[Label]) -> None:
        if self.files is None:
            layout = self.layout if len(sample.shape) == 3 and self.layout else sample.find_layout()
            images = self.changes and sample.kind == "|u1" and sample.channels(layout) in (1, 3)
            kind: Type[Files] = ImageSpool if images else ArraySpool
            self._rehearse(kind, sample, label, layout)
            self.files = kind(self.data, sample, layout)
        self.files.add(sample, label)

    def _rehearse(self, kind: Type[Files], sample: Sample, label: Optional[Label], layout: Optional[str]) -> None:
        """Passes the first sample to ffpack alone, so that options that do not fit are reported before all samples are there."""
        import tempfile
        with tempfile.TemporaryDirectory(dir=self.spool.path) as folder:
            files = kind(folder, sample, layout)
            files.add(sample, label)
            self._run(files, label, ["--dry-run"], False)

    def _run(self, files: Files, label: Optional[Label], more: List[str], progress: packing.Progress) -> Dict[str, Any]:
        """label: the label of one sample, which shows the kind."""
        source, *how = files.finish()
        if self.named and label is not None and label.is_class():  # also if a class's name is a number
            how.append("--label-kind=numbers")
        try:
            summary = packing.run([*how, *more, *self.options, "--output=" + self.out, "--", source], progress,
                                  (self.spool.lock,), continues=False)
        except (Error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise type(error)(str(error).replace(source, "the samples")) from None
        return {**summary, "source": "ffload.Writer"}

    def close(self) -> Dict[str, Any]:
        """Packs what was added and puts it into place; the end of the `with` block calls this. Returns the summary."""
        with self.lock:
            if not self.spool.remove.alive and self.summary is not None:
                return self.summary
            self._check_open()
            try:
                if self.files is None:
                    raise UsageError("%s: no sample was added" % self.out)
                self.spool.begin_packing()
                self.summary = self._run(self.files, self.labels.first, [], self.progress)
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
