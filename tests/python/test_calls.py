#!/usr/bin/env python3
"""Random calls of the Python package (random_calls.py), with a build of their own under AddressSanitizer and
UndefinedBehaviorSanitizer. CALLS_SECONDS: for how long, CALLS_SEED: which. TAP."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import FOLDER, finish, make_set  # noqa: E402
import tap  # noqa: E402

SECONDS, SEED = os.environ.get("CALLS_SECONDS", "10"), os.environ.get("CALLS_SEED", "1")
SETS = [make_set("f16", "--count", 60, "--height", 8, "--width", 8, "--fields", "label,soft"), make_set("u8", "--dtype", "u8", "--count", 40, "--height", 7, "--width", 9,
                                                                                                      "--compress", 3, "--unlabeled"),
        make_set("sizes", "--variable", "--count", 20, "--height", 12, "--width", 10), os.path.dirname(tap.BUILD)]
HERE = os.path.dirname(os.path.abspath(__file__))


def calls(name, folder, **environment):
    found = subprocess.run([sys.executable, os.path.join(HERE, "random_calls.py"), SECONDS, SEED, *SETS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=dict(os.environ, PYTHONPATH=folder, PYTHONFAULTHANDLER="1", **environment), timeout=120 + 4 * float(SECONDS))
    tap.ok(found.returncode == 0, name, found.stdout[-3000:])
    print("#", found.stdout.strip().splitlines()[-1] if found.stdout.strip() else "")


calls("random calls", FOLDER)
build = os.path.join(tap.BUILD, "sanitized-python")
flags = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
made = subprocess.run(["make", "-s", "-C", tap.ROOT, "BUILD=" + build, "SANITIZE=address,undefined", "CUDA=0", "python-package"], stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT, text=True, env=flags)
library = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True).stdout.strip()
if tap.ok(made.returncode == 0 and os.path.isabs(library), "a build under the sanitizers", made.stdout[-2000:]):
    # Python's own allocator would hide what is used after its end; what Python leaves at its end is not a leak of ours.
    calls("random calls under AddressSanitizer", os.path.join(build, "python"), LD_PRELOAD=library, PYTHONMALLOC="malloc",
          ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1")
finish()
