"""A program's progress, read from its lines of JSON: a bar in a terminal and in a notebook, lines elsewhere."""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, Optional, Tuple

Event = Dict[str, Any]
BAR, SECONDS_BETWEEN_LINES = 20, 30


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter, whose stderr is not a terminal but can rewrite a line."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return "%d:%02d:%02d" % (hours, minutes, rest) if hours else "%02d:%02d" % (minutes, rest)


class Silent:
    """Shows nothing."""

    def event(self, event: Event) -> None:
        pass

    def clear(self) -> None:
        pass


class Called(Silent):
    """Calls a function with (done, total) instead; total is None if it is unknown."""

    def __init__(self, function: Callable[[int, Optional[int]], object]) -> None:
        self.function = function
        self.last: Optional[Tuple[int, Optional[int]]] = None

    def event(self, event: Event) -> None:
        if event["event"] == "progress":
            self.last = event["done"], event["total"]
            self.function(*self.last)
        elif self.last and self.last[0] != self.last[1]:
            self.function(self.last[1] or 0, self.last[1])


class Line(Silent):
    """Writes to sys.stderr: a bar that rewrites its line, or a line every half minute."""

    def __init__(self, rewrites: bool) -> None:
        self.rewrites = rewrites
        self.width = 0
        self.what: Optional[str] = None
        self.began = self.told = 0.0

    def text(self, event: Event, seconds: float) -> str:
        done, total, unit = event["done"], event["total"], event["unit"]
        rate = done / seconds if seconds > 0 else 0
        speed = "%.0f %s/s" % (rate, unit) if rate >= 10 else "%.2f %s/s" % (rate, unit)
        if not total:
            return "%s: %d [%s, %s]" % (event["what"], done, clock(seconds), speed)
        share = min(done / total, 1)
        bar = "|%-*s|" % (BAR, "#" * int(share * BAR)) if self.rewrites else ""
        left = clock((total - done) / rate) if rate > 0 and done <= total else "?"
        return "%s: %3.0f%%%s %d/%d [%s<%s, %s]" % (event["what"], share * 100, bar, done, total, clock(seconds),
                                                    left, speed)

    def event(self, event: Event) -> None:
        if event["event"] != "progress":
            return
        now = time.monotonic()
        if event["what"] != self.what:
            self.what, self.began = event["what"], now
            self.told = self.told if self.rewrites else now
        if not self.rewrites and now - self.told < SECONDS_BETWEEN_LINES:
            return
        self.told = now
        self.write(self.text(event, now - self.began))

    def write(self, text: str) -> None:
        if not self.rewrites:
            sys.stderr.write(text + "\n")
        else:
            if sys.stderr.isatty():
                try:
                    text = text[:(os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1]
                except (OSError, ValueError):
                    pass
            # Blanks instead of an escape sequence, which not every notebook knows.
            sys.stderr.write("\r" + text.ljust(self.width))
            self.width = len(text)
        sys.stderr.flush()

    def clear(self) -> None:
        if self.rewrites and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0


def of(progress: Any) -> Silent:
    """The object that shows the progress, by the argument `progress` of ffload.pack."""
    if callable(progress):
        return Called(progress)
    if progress is False or sys.stderr is None:
        return Silent()
    if progress is True:
        return Line(rewrites=True)
    if progress is not None:
        from .errors import UsageError
        raise UsageError("progress: %r is not None, True, False or a function of (done, total)" % (progress,))
    dumb = os.environ.get("TERM", "dumb") in ("", "dumb")
    return Line(rewrites=in_notebook() or sys.stderr.isatty() and not dumb)


def parse(line: str) -> Optional[Event]:
    """The event in a line of the program's stdout, or None."""
    import json
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
