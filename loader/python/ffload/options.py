"""The options of ffload.pack and ffload.Writer: ffpack's, as tools/build/python_options.py makes them of `ffpack --describe`."""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, Union

from .words import Size


class Array(Protocol):
    def tolist(self) -> Any: ...


Path = Union[str, "os.PathLike[str]"]
Numbers = Union[str, Sequence[float], Array]
# One text, or several that are joined by commas, or NAME=VALUE.
Words = Union[str, "os.PathLike[str]", Sequence[str], "Mapping[str, Any]"]


class WriterOptions(TypedDict, total=False):
    """Those of ffpack that a Writer takes."""
    force: bool
    if_changed: bool
    no_history: bool
    classes_from: Path
    columns: Words
    exclude: Words
    allow_empty_classes: bool
    label: str
    label_kind: Literal["class", "names", "numbers", "multi-hot", "value"]
    val_labels: Path
    split: Words
    split_seed: int
    stratify: bool
    group_by: str
    dtype: Any
    layout: Literal["chw", "hwc"]
    resize: Union[int, Size]
    center_crop: Union[int, Size]
    max_side: int
    pad_square: bool
    interpolation: Literal["bilinear", "bicubic"]
    mode: Literal["rgb", "gray"]
    range: Numbers
    exif: bool
    fast_decode: bool
    allow_truncated: bool
    pillow: Literal[13, "13", 12, "12"]
    like: Path
    stats: Literal["compute"]
    stats_sample: int
    mean: Numbers
    std: Numbers
    normalize: Literal["imagenet", "cifar10", "cifar100", "mnist", "fashion-mnist", "half"]
    stats_from: Path
    shuffle: int
    compress: str
    align: Literal[64, "64", 4096, "4096"]
    shard_size: Union[int, str]
    jobs: int
    on_error: Literal["fail", "skip"]
    max_skip: Union[int, str]
    decode: bool


class PackOptions(WriterOptions, total=False):
    """Those of ffpack, with _ for -; the program's --help says what each means."""
    resume: bool
    format: Literal["auto", "idx", "cifar", "npy", "webdataset", "imagenet", "archive", "list", "folder"]
    classes: Union[Path, Iterable[str]]
    labels: Words
    splits: Words
    array_layout: Literal["chw", "hwc"]
    part: str
    dry_run: bool
