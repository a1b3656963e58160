"""Packing from Python: ffload.pack runs the package's ffpack."""
from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from . import programs, progress as shown
from .arrays import dtype_name
from .errors import BadData, Error, UsageError

if TYPE_CHECKING:
    import subprocess

TAKEN = ("output", "json", "progress", "help", "version", "describe")
SIZES = ("resize", "center_crop")
REASONS = {2: UsageError, 65: BadData, 74: OSError}
KEPT, CONTINUES = "; finished work is kept in ", ", and this continues: "
Path = Union[str, "os.PathLike[str]"]
Progress = Union[None, bool, Callable[[int, Optional[int]], object]]


def text_of(name: str, value: Any) -> str:
    """The text of an option's value: lists become A,B,C, a pair for a size HxW, a dict NAME=VALUE,NAME=VALUE."""
    if name == "dtype":
        return dtype_name(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, dict):
        return ",".join("%s=%s" % (key, text_of(name, one)) for key, one in value.items())
    if hasattr(value, "tolist"):  # arrays, tensors and their numbers
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return ("x" if name in SIZES else ",").join(text_of(name, one) for one in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    raise UsageError("%s: %r is no text, number, list or dict" % (name, value))


def command_line(options: Dict[str, Any]) -> List[str]:
    """The arguments for options by name: True is a flag that is set; False and None are not given."""
    arguments = []
    for name, value in options.items():
        if name in TAKEN:
            raise UsageError("%s: ffload sets this option of ffpack's itself" % name)
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not False and value is not None:
            arguments.append("%s=%s" % (option, text_of(name, value)))
    return arguments


def write_names(classes: Iterable[Any], path: str) -> None:
    """Class names as the file that --classes reads."""
    names = [str(name) for name in classes]
    for name in names:
        if not name or "\n" in name:
            raise UsageError("classes: %r is no name of a class" % name)
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UsageError("classes: %r is named twice" % twice)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(name + "\n" for name in names)


def failure(code: int, sentence: Optional[str], continues: bool) -> Exception:
    """The exception for an exit code; `continues`: whether the same call goes on with what is kept."""
    if code < 0 or not sentence:
        name = signal.Signals(-code).name if code < 0 else "exit code %d" % code
        return Error("ffpack ended without a word, by %s" % name)
    before, found, _ = sentence.rpartition(CONTINUES)
    if found:  # with its command line
        sentence = before + ", and the same call continues" if continues else before.rpartition(KEPT)[0]
    return REASONS.get(code, Error)(sentence)


class Listener:
    """What a running ffpack says: events on stdout, of which the last is the summary, sentences on stderr, of which
    the last is the reason of a failure and others are warnings."""

    def __init__(self, bar: shown.Silent) -> None:
        self.bar = bar
        self.summary: Optional[Dict[str, Any]] = None
        self.sentence: Optional[str] = None
        self.rest = {1: b"", 2: b""}

    def take(self, stream: int, data: bytes) -> None:
        *lines, self.rest[stream] = (self.rest[stream] + data).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "surrogateescape")
            (self.take_event if stream == 1 else self.take_sentence)(text)

    def take_event(self, text: str) -> None:
        event = shown.parse(text)
        if event is None:
            return
        if event["event"] != "progress":
            self.summary = event
        self.bar.event(event)

    def take_sentence(self, text: str) -> None:
        self.warn()
        self.sentence = text[len("ffpack: "):] if text.startswith("ffpack: ") else text

    def warn(self) -> None:
        """Passes the sentence on that proved not to be the last."""
        if self.sentence is None:
            return
        import warnings
        self.bar.clear()
        warnings.warn(self.sentence, stacklevel=2)
        self.sentence = None


def listen(process: subprocess.Popen[bytes], listener: Listener) -> None:
    import selectors
    with selectors.DefaultSelector() as selector:
        for number, stream in ((1, process.stdout), (2, process.stderr)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, number)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 65536)
                if data:
                    listener.take(key.data, data)
                else:
                    selector.unregister(key.fileobj)


def hold_interrupt() -> Callable[[], None]:
    """Ctrl-C arrives when what this returns is called. It would end Popen after that started ffpack, and nobody would
    stop ffpack."""
    before = signal.getsignal(signal.SIGINT)
    came: List[Any] = []
    if not callable(before):
        return lambda: None
    try:
        signal.signal(signal.SIGINT, lambda *call: came.append(call))
    except ValueError:  # signals arrive in the main thread alone
        return lambda: None

    def release() -> None:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came.pop())
    return release


def run(arguments: List[str], progress: Progress = None, keep_open: Sequence[int] = (),
        continues: bool = True) -> Dict[str, Any]:
    """Runs ffpack; its summary. On Ctrl-C, or an exception of the progress's function, it stops as by Ctrl-C."""
    import subprocess
    bar = shown.of(progress)
    listener = Listener(bar)
    command = [programs.find("ffpack"), "--json", "--progress", "json", *arguments]
    release = hold_interrupt()
    try:
        # A session of its own, so that Ctrl-C in a terminal, as in a notebook, reaches Python alone, which passes it on.
        process = subprocess.Popen(command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, pass_fds=keep_open)
    except BaseException:
        release()
        raise
    try:
        release()
        listen(process, listener)
        code = process.wait()
    except BaseException:
        try:
            process.send_signal(signal.SIGINT)
            process.communicate()
        except KeyboardInterrupt:  # again
            process.kill()
            process.communicate()
        raise
    finally:
        bar.clear()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        raise failure(code, listener.sentence, continues)
    listener.warn()
    return listener.summary or {}


def pack(source: Path, out: Optional[Path], *, progress: Progress = None, **options: Any) -> Dict[str, Any]:
    """Packs a dataset as the program ffpack does, and returns its summary.

    source: a folder, archive, list or array that ffpack can pack (`python -m ffload ffpack --help` lists the kinds).
    out: the folder to create; None with dry_run=True.
    progress: None shows a bar on sys.stderr in a terminal and in a notebook, and elsewhere a line every half minute;
        True a bar in any case; False nothing; a function is called with (done, total) of each pass instead, ten
        times a second at most.
    options: those of ffpack, with _ for -. True sets a flag; False and None are as not given; lists are joined:
        mean=(0.5, 0.5, 0.5), resize=256, center_crop=(224, 224), dtype="u8", shuffle=0, force=True.
        resize and center_crop take a side or (height, width); dtype also takes torch's and NumPy's;
        classes may also be a list of names; blanks at a name's ends are no part of the name.

    Returns a dict: "event" ("packed", "would_pack" or "kept"), "splits" with the samples, shapes, dtypes, shards and
    bytes of each, "mean", "std", "seconds" and more; with if_changed, where nothing was done, "event"
    ("unchanged"), "source" and "output" alone.

    Raises UsageError, BadData, OSError or Error with ffpack's sentence, which names the image or file that it is
    about. Ctrl-C raises KeyboardInterrupt; shards that are whole stay in OUT.partial, and the same call continues.
    What ffpack tells besides (images that were left out or odd) are warnings. Threads: any; the GIL is not held.
    """
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        classes = options.get("classes")
        if classes is not None and not isinstance(classes, (str, os.PathLike)):
            options["classes"] = os.path.join(folder, "classes.txt")
            write_names(classes, options["classes"])
        target = [] if out is None else ["--output=" + os.fspath(out)]
        return run([*target, *command_line(options), "--", os.fspath(source)], progress)
