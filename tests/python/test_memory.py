#!/usr/bin/env python3
"""Memory stays as it is over 10,000 batches, samples, sets, loaders and exceptions. TAP."""
import gc
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

SET = make_set("plain", "--count", 200, "--height", 32, "--width", 32)
BATCHES = 1000 if tap.SANITIZE else 10000


def resident():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss_Anon") or line.startswith("Private_Dirty"))


def flat(name, step, count, most_kib=256):
    """The memory of the first tenth is that of the last, to most_kib; a leak of 30 bytes in each of 10,000 would be seen."""
    for _ in range(count // 10):
        step()
    gc.collect()
    before = resident()
    for _ in range(count - count // 10):
        step()
    gc.collect()
    after = resident()
    tap.ok(after - before < most_kib, "%s, %d times: memory grows by less than %d KiB" % (name, count, most_kib), "%d KiB" % (after - before))
    print("# %+d KiB" % (after - before))


before, kept = resident(), [bytes(1000) for _ in range(1000)]
tap.ok(resident() - before > 700, "1000 KB that are kept are seen", "%d KiB" % (resident() - before))
del kept
for kind in ("numpy", "dlpack", "torch"):
    try:
        __import__(kind) if kind != "dlpack" else None
    except ImportError:
        tap.skip("batches as torch tensors", "torch is not installed")
        continue
    steps = iter(ffload.Loader(SET, 50, augment="crop=4,flip,mixup", epochs=0, workers=2, as_=kind, samples=True))
    flat("batches as %s" % kind, lambda: next(steps), BATCHES)
    del steps
dataset = ffload.Dataset(SET, as_="numpy")
flat("samples, views, keys", lambda: (dataset[7], dataset.view(9), dataset.keys[3]), BATCHES)
tensor = dataset.view(1)
flat("tensors given out and not taken", lambda: (tensor.__dlpack__(max_version=(1, 0)), tensor.__dlpack__(copy=True), numpy.asarray(tensor)), BATCHES)


def wrong():
    for call in (lambda: ffload.Loader(dataset, 50, augment="crp"), lambda: ffload.Dataset("/nowhere"), lambda: dataset[1000], lambda: tensor.__dlpack__()):
        try:
            call()
        except (ffload.UsageError, OSError, IndexError, BufferError):
            pass


flat("exceptions", wrong, BATCHES // 2)
flat("sets", lambda: ffload.Dataset(SET, as_="numpy")[0], BATCHES // 5)
flat("loaders", lambda: next(iter(ffload.Loader(SET, 50, workers=1))), BATCHES // 20, 1024)
flat("states", lambda: dataset.describe() and ffload.Loader(dataset, 50, workers=0).state_dict(), BATCHES // 20)
finish()
