"""What the tests of this folder share: TAP lines, the programs of the build, running them."""
import importlib.util
import os
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
SANITIZE = os.environ.get("SANITIZE", "")
count = 0
failed = 0


def ok(condition, name, detail=""):
    global count, failed
    count += 1
    print("%sok %d - %s" % ("" if condition else "not ", count, name))
    if not condition:
        failed += 1
        for line in str(detail).splitlines()[:20]:
            print("# " + line)
    sys.stdout.flush()
    return condition


def skip(name, reason):
    global count
    count += 1
    print("ok %d - %s # SKIP %s" % (count, name, reason))


def finish():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


def program(name):
    return os.path.join(BUILD, "tests", name)


def limit_memory():
    # A crafted file must not make a reader ask for much. Sanitizers need the address space.
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def run(arguments, limited=False):
    return subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          preexec_fn=limit_memory if limited and not SANITIZE else None)


def second_reader():
    """The module tests/second_reader.py; a skip of everything where its libraries are missing."""
    for name in ("numpy", "xxhash", "zstandard"):
        if importlib.util.find_spec(name) is None:
            skip("second reader", "the Python module %s is not installed" % name)
            finish()
    path = os.path.join(ROOT, "tests", "second_reader.py")
    spec = importlib.util.spec_from_file_location("second_reader", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
