"""What goes wrong, as exceptions. Each has one sentence: what, where, and mostly what would be right.

A file that the system refuses to open or read is an OSError with errno and filename (FileNotFoundError, PermissionError), memory
that is not there a MemoryError.
"""

from __future__ import annotations

from collections.abc import Sequence


class Error(RuntimeError):
    """None of the others: no GPU, a thread that does not start, a program that failed."""


class UsageError(Error, ValueError):
    """An unknown option, a wrong value, or a call that is not possible."""


class BadData(Error):
    """The packed set, or the source to be packed, is broken, or not a set."""

    problems: Sequence[str] = ()
    """All that Dataset.verify found."""
