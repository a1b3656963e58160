"""A packed split, sample by sample."""
from __future__ import annotations

import json
import operator
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Dict, List, Optional, SupportsIndex, Tuple, Union, overload

from . import _ffload, habits
from .arrays import as_list, converter, kind_of
from .errors import BadData, UsageError
from .samplers import Place
from .words import As, Path, Verify


#: The arguments of sets behind URLs.
STORAGE = ("cache", "cache_size", "storage_timeout", "endpoint")


def unescape(text: str) -> str:
    """A name from the library's JSON, in which %XX is a byte; bytes that are not UTF-8 are decoded as by os.fsdecode."""
    if "%" not in text:
        return text
    first, *rest = text.encode().split(b"%")
    return os.fsdecode(first + b"".join(bytes.fromhex(part[:2].decode()) + part[2:] for part in rest))


class Keys(Sequence[str]):
    """The samples' keys, usually paths in the source, each read when it is used; bytes that are not UTF-8 are decoded as by
    os.fsdecode."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, index: Union[slice, Iterable[SupportsIndex]]) -> List[str]: ...

    def __getitem__(self, index: Any) -> Any:
        """A key; a list for a slice, several numbers or a mask, as in Dataset."""
        chosen = self._dataset._chosen(index)
        if chosen is not None:
            return [self[i] for i in chosen]
        return os.fsdecode(self._dataset._own.key(self._dataset._number(index)))


class Dataset:
    """A packed split: a folder with index.ffx, mapped, never parsed, so ten million samples open as fast as ten.

    path    the folder; or a list of folders that become one set: the samples of the first, then those of the second, and so
            on, of equal dtype, shape, normalization and label fields. Its classes are those of the first set, then the further
            ones of the next, by name
    verify  "first" (default): a sample's checksum is compared the first time that it is read; "always": each time; "off"
    label   a label field, or several: "fine", "fine,coarse", ["fine", "coarse"]; by default the first. [i] returns a single
            field's value, for several fields a dict by name
    fields  True: a dict of all label fields
    cache, cache_size, storage_timeout, endpoint
            of sets behind URLs, whose path is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or https://HOST/PATH: the folder of what is
            fetched (default: FFPACK_CACHE, or ~/.cache/ffpack) and the most that it may have, in bytes or as "200G" (default:
            FFPACK_CACHE_SIZE, or half of the space); seconds without a byte from a server after which reading fails (300); the
            server of s3:// and gs:// (default: AWS_ENDPOINT_URL)
    as_     the arrays of samples: "torch", "numpy", "jax", "cupy", or "dlpack" for ffload.Tensor; by default torch if it
            is installed, else numpy if it is installed, else dlpack

    BadData if `path` is not such a folder, naming the splits in it, if any; OSError if the system refuses.

    Any number of threads may use a Dataset. It works as a map-style dataset of torch.utils.data.DataLoader: it pickles
    by its path and ids, and forked children open it again; BadData if another set is at the path by then. It is closed by
    close(), at the end of a `with`, or with its last user.
    """

    @habits.answering("Dataset", habits.DATASET)
    def __init__(self, path: Union[Path, Sequence[Path]], *, label: Union[str, Sequence[str], None] = None, fields: bool = False,
                 verify: Verify = "first", as_: Optional[As] = None, cache: Optional[Path] = None,
                 cache_size: Union[int, str, None] = None, storage_timeout: Optional[int] = None,
                 endpoint: Optional[str] = None) -> None:
        if as_ is not None:
            kind_of(as_)
        if fields and label is not None:
            raise UsageError("label=%r and fields=True contradict each other" % (label,))
        #: The folders, and their text in messages.
        self.paths = [os.fsdecode(one) for one in (path if isinstance(path, (list, tuple)) else [path])]
        self.path = " + ".join(self.paths)
        self._settings: Dict[str, Any] = {"verify": verify, "label": label, "fields": fields, "as_": as_,
                                          "cache": None if cache is None else os.fsdecode(cache), "cache_size": cache_size,
                                          "storage_timeout": storage_timeout, "endpoint": endpoint}
        self._description: Optional[Dict[str, Any]] = None
        self._fields: Optional[Dict[str, Dict[str, Any]]] = None
        self._labels: Any = None
        self._open()
        self._chosen_fields = self._choose(label)

    def _choose(self, label: Union[str, Sequence[str], None]) -> List[str]:
        """The names of the fields that [i] returns."""
        known = [name for name, field in self.fields.items() if field["kind"] != "none"]
        if label is None:
            return known if self._settings["fields"] else known[:1]
        names = list(label) if not isinstance(label, str) else [label] if label in self.fields else label.split(",")
        for name in names:
            if name not in self.fields:
                raise UsageError("%s: no label field %r; it has %s" % (self.path, name, ", ".join(self.fields) or "none"))
        return names

    def _open(self) -> _ffload.Dataset:
        words = {name: habits.text_of(self._settings[name]) for name in ("verify", *STORAGE) if self._settings[name] is not None}
        handle = _ffload.Dataset(tuple(self.paths), words)
        if self._description is not None:  # a forked child's
            self._check(json.loads(handle.describe())["ids"], self.ids)
        self._handle: Optional[_ffload.Dataset] = handle
        self._process = os.getpid()
        return handle

    def _check(self, found: Dict[str, str], wanted: Dict[str, str]) -> None:
        """BadData unless the set at the path is the one that was opened before: numbers of one set, with the samples of
        another, would be wrong."""
        if found != wanted:
            raise BadData("%s: was replaced by another set: its content id is %s, wanted %s" % (
                self.path, found["content"], wanted["content"]))

    @property
    def _given(self) -> Union[str, List[str]]:
        return self.paths if len(self.paths) > 1 else self.path

    @property
    def _own(self) -> _ffload.Dataset:
        """The library's dataset; a forked process opens its own."""
        handle = self._handle  # another thread may set it to None
        if handle is None:
            raise UsageError("the dataset is closed")
        return handle if self._process == os.getpid() else self._open()

    def __getstate__(self) -> Dict[str, Any]:
        return {"path": self._given, "settings": self._settings, "ids": self.ids}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(state["path"], **state["settings"])  # type: ignore[misc]
        self._check(self.ids, state["ids"])

    def close(self) -> None:
        """Closes it; existing samples, views and loaders stay valid."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._handle is None:
            return "ffload.Dataset(%r), closed" % self._given
        return "ffload.Dataset(%r): %d samples, %s %s" % (self._given, len(self), self.dtype, self.shape)

    def _repr_html_(self) -> str:
        """In a notebook: what the set is, and a contact sheet of some samples of every class."""
        from .sheet import html
        words = ["--%s=%s" % (name.replace("_", "-"), self._settings[name]) for name in STORAGE if self._settings[name] is not None]
        return "".join(html(path if at else repr(self), path, words) for at, path in enumerate(self.paths))

    # ---- samples ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._own)

    def _number(self, index: SupportsIndex) -> int:
        """The number of a sample; a negative index counts from the end. IndexError if there is no such sample."""
        count, index = len(self), operator.index(index)
        number = index + count if index < 0 else index
        if not 0 <= number < count:
            raise IndexError("sample %d of a set with %d" % (index, count))
        return number

    @overload
    def __getitem__(self, index: SupportsIndex) -> Tuple[Any, Any]: ...

    @overload
    def __getitem__(self, index: Union[slice, Iterable[SupportsIndex]]) -> List[Tuple[Any, Any]]: ...

    def __getitem__(self, index: Any) -> Any:
        """(image, label). The image is a copy, [C, H, W] or [H, W, C] in the set's dtype and layout, as stored: a float set is
        normalized, a u8 set is not. The label comes from the first label field, or the argument label; for several fields,
        and with fields=True, it is a dict by name; None if the set has no labels. A class is an int, -1 without a label;
        other labels are [width] arrays. BadData if the checksum is wrong.

        A list of these for a slice, for several numbers, and for a mask with one boolean for each sample (an array, a list)."""
        if isinstance(index, Place):
            return index  # Loader.collate_fn returns the batch
        chosen = self._chosen(index)
        if chosen is not None:
            return self.__getitems__(chosen)
        number = self._number(index)
        convert = converter(kind_of(self._settings["as_"]))
        image = convert(self._own.sample(number))
        return image, self._arranged(lambda name: self._label(number, name, convert))

    def _arranged(self, value: Callable[[str], Any]) -> Any:
        """value(name) of the only field, or a dict for several fields; None without fields."""
        names = self._chosen_fields
        if len(names) == 1 and not self._settings["fields"]:
            return value(names[0])
        return {name: value(name) for name in names} if names or self._settings["fields"] else None

    def _chosen(self, index: Any) -> Optional[List[Any]]:
        """The numbers in a slice, an array or a list; the marked numbers of a mask; None for a single number."""
        if isinstance(index, slice):
            return list(range(*index.indices(len(self))))
        if not hasattr(index, "__iter__") or getattr(index, "shape", None) == () or isinstance(index, (str, bytes)):
            return None
        numbers: List[Any] = index.tolist() if hasattr(index, "tolist") else list(index)
        # A boolean of NumPy or PyTorch in a list becomes one of Python's.
        numbers = [number.item() if getattr(number, "shape", None) == () else number for number in numbers]
        booleans = sum(isinstance(number, bool) for number in numbers)
        if not booleans:
            return numbers
        if booleans < len(numbers) or booleans != len(self):
            raise IndexError("a mask of %d booleans and %d numbers for %d samples" % (booleans, len(numbers) - booleans, len(self)))
        return [number for number, marked in enumerate(numbers) if marked]

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> List[Tuple[Any, Any]]:
        """Several samples; torch.utils.data.DataLoader asks for a batch by it."""
        return [self[index] for index in indices]

    def _label(self, number: int, name: str, convert: Callable[[_ffload.Tensor], Any]) -> Any:
        value = self._own.label(number, os.fsencode(name))
        return value if isinstance(value, int) else convert(value)

    def view(self, index: SupportsIndex) -> _ffload.Tensor:
        """The image in place: no byte is copied, and none may be written. numpy.asarray(view) is read-only, too; torch
        has no read-only tensors, so it gets no view. The view keeps the set open. Reading it after its file shrank ends
        the process, as with any mapped file: [i] is the safe way. UsageError for a compressed set."""
        return self._own.view(self._number(index))

    @property
    def keys(self) -> Keys:
        """The samples' keys, usually their paths in the source: a sequence."""
        return Keys(self)

    @property
    def labels(self) -> Any:
        """The labels of all samples, for the field or fields that [i] returns: [n] whole numbers for a class field, with -1 for
        unlabelled samples, [n, width] for other fields; a dict by name for several. Read once, without reading samples."""
        if self._labels is None:
            convert, count = converter(kind_of(self._settings["as_"])), len(self)
            self._labels = self._arranged(lambda name: convert(self._own.labels(0, count, os.fsencode(name))))
        return self._labels

    @property
    def targets(self) -> Any:
        """labels as a list, as torchvision's datasets have them."""
        labels = self.labels
        if isinstance(labels, dict):
            return {name: as_list(one) for name, one in labels.items()}
        return labels if labels is None else as_list(labels)

    # ---- the set ------------------------------------------------------------------------------

    def describe(self) -> Dict[str, Any]:
        """All facts about the set: the words of `ffinspect --json`. Names are percent-escaped."""
        if self._description is None:
            self._description = json.loads(self._own.describe())
        return self._description

    @property
    def fields(self) -> Dict[str, Dict[str, Any]]:
        """The label fields by name: kind (class, multi-hot, soft, vector), dtype, width, classes."""
        if self._fields is None:
            self._fields = {}
            for field in self.describe()["fields"]:
                name, classes = unescape(field["name"]), [unescape(word) for word in field.get("classes") or []]
                self._fields[name] = dict(field, name=name, classes=classes)
        return self._fields

    @property
    def classes(self) -> List[str]:
        """The names of the label field's classes, or of the first field's; [] without classes."""
        return list(self.fields[self._chosen_fields[0]]["classes"]) if self._chosen_fields else []

    @property
    def class_to_idx(self) -> Dict[str, int]:
        """The number of each class by its name."""
        return {name: number for number, name in enumerate(self.classes)}

    @property
    def mean(self) -> Optional[List[float]]:
        """Each channel's mean, of values from 0 to 1, as Normalize took it; None if the set is not normalized."""
        return self._floats("mean")

    @property
    def std(self) -> Optional[List[float]]:
        """Each channel's standard deviation, as mean."""
        return self._floats("std")

    def _floats(self, name: str) -> Optional[List[float]]:
        values = (self.describe()["normalize"] or {}).get(name)
        return [float(value) for value in values] if values else None

    @property
    def shape(self) -> Optional[Tuple[int, ...]]:
        """A sample's shape, in the order of its layout; None if samples differ in size."""
        shape = self.describe()["shape"]
        return tuple(shape) if shape else None

    @property
    def dtype(self) -> str:
        """f16, f32, bf16, u8 or u16."""
        return str(self.describe()["dtype"])

    @property
    def layout(self) -> str:
        """chw or hwc: the order of a sample's axes."""
        return str(self.describe()["layout"])

    @property
    def sizes(self) -> List[int]:
        """The number of samples of each of its folders."""
        sets = self.describe().get("sets")
        return [int(one["samples"]) for one in sets] if sets else [len(self)]

    @property
    def ids(self) -> Dict[str, str]:
        """content, transform and source, in hexadecimal: equal if the samples, their transforms or their sources are equal."""
        return dict(self.describe()["ids"])

    @property
    def provenance(self) -> Dict[str, str]:
        """The set's origin: versions and options, by name."""
        return {unescape(pair["key"]): unescape(pair["value"]) for pair in self.describe()["provenance"]}

    def verify(self, progress: Optional[Callable[[int, int], Any]] = None, threads: int = 0) -> None:
        """Checks every byte, as `ffinspect --verify` does: any changed bit is found.

        progress(done, total) is called with bytes some times a second, and at the end; threads: their number, 0 = one for each
        processor. BadData with the first problem; its attribute `problems` has all problems."""
        state = _Verification()
        worker = threading.Thread(target=state.run, args=(self._own, threads), name="ffload verify")
        worker.start()
        try:
            while worker.is_alive():
                worker.join(0.05)
                if progress is not None:
                    progress(state.done, state.total)
        finally:
            state.stop = True
            worker.join()
        if progress is not None:
            progress(state.done, state.total)
        if state.error is not None:
            if isinstance(state.error, BadData):
                state.error.problems = state.problems
            raise state.error


class _Verification:
    """One run of verify, in a separate thread, so that the caller's thread can handle signals."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.stop = False
        self.problems: List[str] = []
        self.error: Optional[BaseException] = None

    def run(self, handle: _ffload.Dataset, threads: int) -> None:
        try:
            handle.verify(threads, self._report)
        except BaseException as error:
            self.error = error

    def _report(self, problem: Optional[str], done: int, total: int) -> bool:
        self.done, self.total = done, total
        if problem is not None:
            self.problems.append(problem)
        return self.stop
