"""Packing from Python: ffload.pack runs the package's ffpack."""
from __future__ import annotations

import errno
import os
import re
import signal
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from . import programs, progress as shown
from .arrays import dtype_name
from .errors import BadData, Error, UsageError
from .options import PackOptions, Path

if TYPE_CHECKING:
    import subprocess

    from typing_extensions import Unpack

TAKEN = ("output", "json", "progress", "help", "version", "describe")
SIZES = ("resize", "center_crop")
REASONS = {2: UsageError, 65: BadData}
KEPT, CONTINUES = "; finished work is kept in ", ", and this continues: "
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
    raise UsageError("%s: %r is not a text, number, list or dict" % (name, value))


def command_line(options: Dict[str, Any]) -> List[str]:
    """The arguments for options by name: True sets a flag; False and None leave an option out."""
    arguments = []
    for name, value in options.items():
        if name in TAKEN:
            raise UsageError("%s: ffload sets this option of ffpack itself" % name)
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not False and value is not None:
            arguments.append("%s=%s" % (option, text_of(name, value)))
    return arguments


def write_names(classes: Iterable[Any], path: str) -> None:
    """Class names in the form of the file that --classes reads."""
    names = [str(name) for name in classes]
    for name in names:
        if not name or "\n" in name:
            raise UsageError("classes: %r is not the name of a class" % name)
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UsageError("classes: %r is named twice" % twice)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(name + "\n" for name in names)


def in_python(sentence: str, arguments: Iterable[str]) -> str:
    """ffpack's sentence with options as keywords: center_crop=N for --center-crop N, on_error="skip" for --on-error skip."""
    types = {name.replace("_", "-"): str(type_) for name, type_ in PackOptions.__annotations__.items()}
    given = {argument[2:].partition("=")[0] for argument in arguments}

    def keyword(found: re.Match[str]) -> str:
        name, value = found.group(1), found.group(2)
        if name not in types and name not in given:
            return found.group()
        if value and "'%s'" % value in types.get(name, ""):
            return '%s="%s"' % (name.replace("-", "_"), value)
        after = "" if value is None else ("=" if value[0].isupper() or value[0].isdigit() else " ") + value
        return name.replace("-", "_") + after
    return re.sub(r"--([a-z][a-z-]*[a-z])(?: ([\w.-]*\w))?", keyword, sentence)


def refusal(sentence: str) -> OSError:
    """With errno and the file's name, so that it is a FileNotFoundError, a PermissionError, ..., where the sentence ends with the
    system's reason."""
    path, found, reason = sentence.partition(": cannot ")
    what = reason.rpartition(": ")[2]
    number = next((number for number in errno.errorcode if os.strerror(number) == what), None)
    if found and number is not None:
        return OSError(number, "cannot " + reason, without_option(path))
    path, found, _ = sentence.partition(": no such folder")
    return OSError(errno.ENOENT, "no such folder", without_option(path)) if found else OSError(sentence)


def without_option(path: str) -> str:
    """The path without an option's name in front."""
    name, found, rest = path.partition(": ")
    return rest if found and name in PackOptions.__annotations__ else path


def failure(code: int, sentence: Optional[str], continues: bool, arguments: Iterable[str]) -> Exception:
    """The exception for an exit code; `continues`: whether the same call continues with what is kept."""
    if code < 0 or not sentence:
        name = signal.Signals(-code).name if code < 0 else "exit code %d" % code
        return Error("ffpack ended without a message, by %s" % name)
    before, found, _ = sentence.rpartition(CONTINUES)
    if found:  # with its command line
        sentence = before + ", and the same call continues" if continues else before.rpartition(KEPT)[0]
    sentence = in_python(sentence, arguments)
    return refusal(sentence) if code == 74 else REASONS.get(code, Error)(sentence)


class Listener:
    """The output of a running ffpack. On stdout are events, the last of them the summary. On stderr are sentences: the last is the
    reason of a failure, the others are warnings."""

    def __init__(self, bar: shown.Silent, arguments: Sequence[str]) -> None:
        self.bar, self.arguments = bar, arguments
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
        """Issues the kept sentence as a warning, since it was not the last."""
        if self.sentence is None:
            return
        import warnings
        self.bar.clear()
        warnings.warn(in_python(self.sentence, self.arguments), stacklevel=2)
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
    """Holds back Ctrl-C until the returned function is called. Otherwise Ctrl-C could end Popen after it started ffpack, and nobody
    would stop ffpack."""
    before = signal.getsignal(signal.SIGINT)
    came: List[Any] = []
    if not callable(before):
        return lambda: None
    try:
        signal.signal(signal.SIGINT, lambda *call: came.append(call))
    except ValueError:  # signals arrive only in the main thread
        return lambda: None

    def release() -> None:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came.pop())
    return release


def run(arguments: List[str], progress: Progress = None, keep_open: Sequence[int] = (),
        continues: bool = True) -> Dict[str, Any]:
    """Runs ffpack and returns its summary. Ctrl-C, or an exception in the progress function, stops ffpack as Ctrl-C does."""
    import subprocess
    bar = shown.of(progress)
    listener = Listener(bar, arguments)
    command = [programs.find("ffpack"), "--json", "--progress", "json", *arguments]
    release = hold_interrupt()
    try:
        # A separate session, so that Ctrl-C in a terminal, as in a notebook, reaches only Python, which passes it on.
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
        raise failure(code, listener.sentence, continues, arguments)
    listener.warn()
    return listener.summary or {}


def pack(source: Path, out: Optional[Path], *, progress: Progress = None, **options: Unpack[PackOptions]) -> Dict[str, Any]:
    """Packs a dataset as the program ffpack does, and returns its summary.

    source: a folder, archive, list or array that ffpack can pack (`python -m ffload ffpack --help` lists the kinds).
    out: the folder to create; None with dry_run=True.
    progress: None shows a bar on sys.stderr in a terminal and in a notebook, and elsewhere a line every half minute;
        True a bar in any case; False nothing; a function is called with (done, total) of each pass instead, ten
        times a second at most.
    options: ffpack's, with _ for - (ffload.PackOptions). True sets a flag; False and None leave an option out; lists are joined:
        mean=(0.5, 0.5, 0.5), resize=256, center_crop=(224, 224), dtype="u8", shuffle=0, force=True.
        resize and center_crop take a side or (height, width); dtype also takes torch's and NumPy's;
        classes may also be a list of names; blanks at a name's ends are not part of the name.

    Returns a dict: "event" ("packed", "would_pack" or "kept"), "splits" with the samples, shapes, dtypes, shards and
    bytes of each, "mean", "std", "seconds" and more; with if_changed, if nothing was done, only "event"
    ("unchanged"), "source" and "output".

    Raises UsageError, BadData, OSError (with errno and filename) or Error with ffpack's sentence, which names the image or
    file that it is about, and keywords for its options. Ctrl-C raises KeyboardInterrupt; finished shards stay in OUT.partial, and
    the same call continues. ffpack's other messages (images that were left out or odd) become warnings. Threads: any; the GIL is
    not held.
    """
    import tempfile
    given: Dict[str, Any] = {**options}
    with tempfile.TemporaryDirectory() as folder:
        classes = given.get("classes")
        if classes is not None and not isinstance(classes, (str, os.PathLike)):
            given["classes"] = os.path.join(folder, "classes.txt")
            write_names(classes, given["classes"])
        target = [] if out is None else ["--output=" + os.fspath(out)]
        return run([*target, *command_line(given), "--", os.fspath(source)], progress)
