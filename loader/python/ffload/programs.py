"""The programs that come with the package, ffpack, ffinspect and fftrain: finds them, and replaces this process by them, so that
name, arguments, signals and exit code are theirs."""
from __future__ import annotations

import glob
import os
import sys
from typing import Dict, List

NAMES = ("ffpack", "ffinspect", "fftrain")


def find(name: str) -> str:
    """The path of a program: in the package (bin), or of a checkout's build, two folders above the package."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(here, "bin"), os.path.dirname(os.path.dirname(here))):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    from .errors import Error
    raise Error("%s is not in %s: the package is incomplete; reinstall it" % (name, os.path.join(here, "bin")))


def cuda_folders() -> List[str]:
    """The folders of this environment's nvidia-* packages that hold libraries, in the order of sys.path."""
    found: List[str] = []
    for place in sys.path:
        found += sorted(glob.glob(os.path.join(glob.escape(os.path.abspath(place)), "nvidia", "*", "lib")))
    return [folder for folder in dict.fromkeys(found) if ":" not in folder]


def environment() -> Dict[str, str]:
    """The environment for a program: FFPACK_CUDA_PATH also names cuda_folders(), since a program that is started by
    its path does not show a virtual environment."""
    folders = [folder for folder in os.environ.get("FFPACK_CUDA_PATH", "").split(":") if folder]
    folders += [folder for folder in cuda_folders() if folder not in folders]
    return {**os.environ, "FFPACK_CUDA_PATH": ":".join(folders)} if folders else dict(os.environ)


def name_cuda_folders() -> None:
    """The same for the library in this process, before it opens a GPU: PyTorch loads its libraries from the environment, and each
    should be loaded once."""
    os.environ.update(environment())


def run(name: str, arguments: List[str]) -> None:
    """Replaces this process by a program; returns only by an exception. `arguments`: a list, without the name."""
    import signal
    path = find(name)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # Python ignores these signals, and a program inherits that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(path, [path, *arguments], environment())


def ffpack() -> None:
    run("ffpack", sys.argv[1:])


def ffinspect() -> None:
    run("ffinspect", sys.argv[1:])


def fftrain() -> None:
    run("fftrain", sys.argv[1:])
