"""Shared by the tests in Python: TAP lines, the build's programs, running them."""
import fcntl
import importlib.util
import os
import resource
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
SANITIZE = os.environ.get("SANITIZE", "")
# Which parts a test with two parts runs (tests/lengths); without tests/run both.
SHORT = os.environ.get("TEST_LENGTH") != "long"
LONG = os.environ.get("TEST_LENGTH") != "test"
count = 0
failed = 0
lock = threading.Lock()


def ok(condition, name, detail=""):
    """detail: text, or a list of lines, of which a failure shows 20."""
    global count, failed
    with lock:
        count += 1
        print("%sok %d - %s" % ("" if condition else "not ", count, name))
        if not condition:
            failed += 1
            for line in (detail if isinstance(detail, list) else str(detail).splitlines())[:20]:
                print("#", line)
        sys.stdout.flush()
    return condition


def skip(name, reason):
    global count
    with lock:
        count += 1
        print("ok %d - %s # SKIP %s" % (count, name, reason))


def finish():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


def program(name):
    return os.path.join(BUILD, "tests", name)


def limit_memory():
    # A malicious file must not make a reader allocate much. Sanitizers need the address space.
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def run(arguments, limited=False):
    return subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600,
                          preexec_fn=limit_memory if limited and not SANITIZE else None)


def made_once(place, *commands):
    """Whether the commands, which make the folder, have succeeded, now or before; of two tests that want it at once, one waits."""
    os.makedirs(BUILD, exist_ok=True)
    with open(place + ".lock", "w") as lock_of_place:
        fcntl.flock(lock_of_place, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(place, "installed")):
            for command in commands:
                if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                    return False
            open(os.path.join(place, "installed"), "w").close()
    return True


def environment(name, *packages, dependencies=False):
    """A Python in build/NAME with these packages of PyPI, and what they need if so wanted, beside the system's; None where PyPI cannot be reached."""
    empty, place = os.path.join(BUILD, "empty-environment"), os.path.join(BUILD, name)
    python = os.path.join(place, "bin", "python")
    # Of large packages little is imported, and compiled then.
    install = [python, "-m", "pip", "-q", "install", "--no-compile", *([] if dependencies else ["--no-deps"]), *packages]
    if made_once(empty, [sys.executable, "-m", "venv", "--system-site-packages", empty]) and \
            made_once(place, ["rm", "-rf", place], ["cp", "-a", empty, place], ["rm", os.path.join(place, "installed")], install):
        return python
    return None


def pillow():
    """ffpack's options for the values of the Pillow that is installed."""
    import PIL
    return ["--pillow", "13" if int(PIL.__version__.split(".")[0]) >= 13 else "12"]


def files_of(folder):
    """{path below the folder: bytes}, without the histories of packed sets, which no two have alike, and what a killed process left of
    one."""
    found = {}
    for at, _, names in os.walk(folder):
        for path in (os.path.join(at, name) for name in names if name not in ("history.jsonl", "history.jsonl.tmp")):
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def second_reader():
    """The module tests/second_reader.py; skips the whole test where its libraries are missing."""
    for name in ("numpy", "xxhash", "zstandard"):
        if importlib.util.find_spec(name) is None:
            skip("second reader", "the Python module %s is not installed" % name)
            finish()
    return importlib.import_module("second_reader")
