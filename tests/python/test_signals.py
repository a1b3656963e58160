#!/usr/bin/env python3
"""Ctrl-C while the library works or waits: answered within 0.2 s, and the loader continues after it. TAP."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set, python  # noqa: E402
import tap  # noqa: E402

LIMIT = 2.0 if tap.SANITIZE else 0.2
BIG = make_set("big", "--count", 400, "--height", 64, "--width", 64, "--dtype", "f32")
# The time from the signal, which comes by another process's kill, to the exception.
COMMON = """
import os, signal, subprocess, sys, time, ffload
def interrupt(after):
    subprocess.Popen(["sh", "-c", "sleep %s; date +%%s.%%N; kill -INT %d" % (after, os.getpid())], stdout=open(sys.argv[2], "w"))
def answered():
    print("%.3f" % (time.time() - float(open(sys.argv[2]).read())))
"""
WAITS = COMMON + """
loader = ffload.Loader(sys.argv[1], 400, augment="rrc=512,jitter=0.4", workers=1, epochs=0, order="sequential")
steps, numbers = iter(loader), []
try:
    interrupt(0.5)
    while True:
        next(steps)
except KeyboardInterrupt:
    answered()
before = loader.stats()["batches"]
assert loader.state_dict()["epoch"] == before, (loader.state_dict(), before)
loader.load_state_dict(loader.state_dict())
assert next(iter(loader)) and loader.batch.epoch == before
"""
VERIFIES = COMMON + """
dataset = ffload.Dataset(sys.argv[1])
try:
    interrupt(0.3)
    while True:
        dataset.verify()
except KeyboardInterrupt:
    answered()
"""
HANDLER = COMMON + """
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(time.time()))
loader = ffload.Loader(sys.argv[1], 400, augment="rrc=512,jitter=0.4", workers=1, epochs=0)
interrupt(0.3)
for images, labels in loader:
    if seen:
        break
assert len(seen) == 1
print("%.3f" % (seen[0] - float(open(sys.argv[2]).read())))
"""
stamp = os.path.join(os.path.dirname(BIG), "stamp")
for name, text in (("a wait for a batch", WAITS), ("verify", VERIFIES), ("a handler that does not raise: the wait continues", HANDLER)):
    for _ in range(8):  # a machine that is busy may take longer, but not each time
        found = python(text, BIG, stamp)
        if found.returncode or float(found.stdout) < LIMIT:
            break
    tap.ok(found.returncode == 0 and float(found.stdout) < LIMIT, "%s: within %.1f s" % (name, LIMIT), "%s %s" % (found.stdout, found.stderr))
    print("# answered after %s s" % found.stdout.strip())
# Without workers the caller's own thread makes the batch, which ends first.
found = python(WAITS.replace("workers=1", "workers=0").replace("rrc=512,jitter=0.4", "crop=4"), BIG, stamp)
tap.ok(found.returncode == 0, "without workers", found.stderr)
finish()
