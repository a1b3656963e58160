"""Shared by the tests of the Python package: the package as it was built, and small packed sets."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

# A shell's background jobs ignore it, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
FOLDER = os.path.join(tap.BUILD, "python")
if not os.path.exists(os.path.join(FOLDER, "ffload", "_ffload.abi3.so")):
    tap.skip("the Python package", "built without Python.h")
    tap.finish()
if tap.SANITIZE and "LD_PRELOAD" not in os.environ:
    tap.skip("the Python package", "the sanitizer's library is not in this Python (tests/python/test_calls.py puts it there)")
    tap.finish()
sys.path.insert(0, FOLDER)
PLACE = tempfile.mkdtemp()


def make_set(name, *options):
    """The path of the split train."""
    path = os.path.join(PLACE, name)
    subprocess.run([tap.program("make_set"), path, "--splits", "train", "--statistics", *map(str, options)], check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.join(path, "train")


def python(text, *arguments, environment=None, timeout=600):
    """Another Python with the package, which runs this text."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "RANK", "WORLD"))}
    return subprocess.run([sys.executable, "-c", text, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, env=dict(inherited, PYTHONPATH=FOLDER, **(environment or {})))


def raises(kind, call, *parts):
    """Whether call() raises an exception of just this kind, whose text has these parts."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001
        good = type(error) is kind and all(part in str(error) for part in parts)
        return good or print("# raised %s: %s" % (type(error).__name__, error))
    print("# returned", found)
    return False


def finish():
    shutil.rmtree(PLACE)
    tap.finish()
