#!/usr/bin/env python3
"""Prints loader/python/ffload/options.py, the options of ffload.pack with their types, from `ffpack --describe`.

Usage: build/ffpack --describe | tools/build/python_options.py >loader/python/ffload/options.py"""
import sys

TAKEN = ("output", "json", "progress")  # which ffload.pack sets itself
OWN = ("classes", "array_layout")  # arguments of a Writer
UNFIT = ("dry_run", "part", "format", "labels", "splits", "resume")  # for a Writer
LISTS = {"classes": "Union[Path, Iterable[str]]", "mean": "Numbers", "std": "Numbers", "range": "Numbers", "dtype": "Any"}
TYPES = {"": "bool", "N": "int", "SEED": "int", "N|HxW": "Union[int, Size]", "BYTES": "Union[int, str]", "FILE": "Path", "PATH": "Path",
         "RUN|SET": "Path", "SET|FOLDER": "Path", "zstd[:LEVEL]": "str", "I/N|auto": "str", "N|P%": "Union[int, str]", "REGEX": "str",
         "FIELD": "str"}


def type_of(name, argument):
    if name in LISTS:
        return LISTS[name]
    if argument in TYPES:
        return TYPES[argument]
    words = argument.split("|")
    if all(word.replace("-", "").isalnum() and word == word.lower() for word in words):
        return "Literal[%s]" % ", ".join(('%s, "%s"' % (word, word)) if word.isdigit() else '"%s"' % word for word in words)
    return "Words"


writer, pack, inside = [], [], False
for line in sys.stdin.read().splitlines():
    kind, *fields = line.split("\t")
    if kind == "command":
        inside = fields[0] == "ffpack"
    if inside and kind == "option" and fields[0] not in TAKEN:
        name = fields[0].replace("-", "_")
        (pack if name in OWN + UNFIT else writer).append("    %s: %s" % (name, type_of(fields[0], fields[2])))
print(r'''"""The options of ffload.pack and ffload.Writer: ffpack's, as tools/build/python_options.py makes them of `ffpack --describe`."""
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
%s


class PackOptions(WriterOptions, total=False):
    """Those of ffpack, with _ for -; the program's --help says what each means."""
%s''' % ("\n".join(writer), "\n".join(pack)))
