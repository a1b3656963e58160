"""Exceptions. Each has one sentence: what is wrong, where, and usually what to do.

A file that the system refuses to open or read is an OSError with errno and filename (FileNotFoundError, PermissionError), missing
memory is a MemoryError.
"""

from __future__ import annotations

from collections.abc import Sequence


class Error(RuntimeError):
    """Any other failure: no GPU, a thread that does not start, a program that failed."""


class UsageError(Error, ValueError):
    """An unknown option, a wrong value, or a call that is not possible."""


class BadData(Error):
    """The packed set or the source is broken, or is not a set."""

    problems: Sequence[str] = ()
    """All problems that Dataset.verify found."""
