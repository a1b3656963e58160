#!/usr/bin/env python3
"""Memory stays as it is over 10,000 batches, samples, sets, loaders and exceptions. TAP."""
import ctypes
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


class Malloc(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Malloc


def used():
    """(bytes that are allocated by malloc, blocks that are allocated by Python, KiB of memory)"""
    gc.collect()
    found = libc.mallinfo2()
    with open("/proc/self/smaps_rollup") as file:
        private = sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
    return found.uordblks + found.hblkhd, sys.getallocatedblocks(), private


def flat(name, step, count, most_kib=512):
    """After a tenth memory grows no more, except for what malloc keeps at hand (40,000 bytes)."""
    for _ in range(count // 10):
        step()
    before = used()
    for _ in range(count - count // 10):
        step()
    grown = [after - one for after, one in zip(used(), before)]
    tap.ok((tap.SANITIZE or grown[0] < 40000) and grown[1] < max(count // 10, 100) and grown[2] < most_kib,
           "%s, %d times: memory stays as it is" % (name, count), "%d bytes, %d blocks of Python, %d KiB" % tuple(grown))
    print("# %+d bytes, %+d blocks of Python, %+d KiB" % tuple(grown))


before, kept = used(), [ctypes.create_string_buffer(1000) for _ in range(1000)]
tap.ok(used()[0] - before[0] > 900000 and used()[1] - before[1] > 1000, "what is kept is seen", (before, used()))
del kept
for kind in ("numpy", "dlpack", "torch"):
    try:
        __import__(kind) if kind != "dlpack" else None
    except ImportError:
        tap.skip("batches as torch tensors", "torch is not installed")
        continue
    steps = iter(ffload.Loader(SET, 50, augment="crop=4,flip,mixup", epochs=0, workers=2, as_=kind, return_indices=True))
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
flat("loaders", lambda: next(iter(ffload.Loader(SET, 50, workers=1))), BATCHES // 20, 8192)  # a thread has an arena of malloc, which stays
flat("states", lambda: dataset.describe() and ffload.Loader(dataset, 50, workers=0).state_dict(), BATCHES // 20)
finish()
