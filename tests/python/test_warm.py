#!/usr/bin/env python3
"""ffload.Loader of a mapped set that is on the disk alone: one thread reads the shards into memory ahead of the faults, no further than
what was used allows, and the batches are the same. The oracle is mincore. TAP."""
import ctypes
import glob
import hashlib
import mmap
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set  # noqa: E402
from limits import drop  # noqa: E402
import tap  # noqa: E402
import ffload  # noqa: E402

MIB, LEAD, PAGE = 1 << 20, 256 << 20, mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
# What the loader's own faults may have read: for each of a few samples what the device reads ahead, 8 MiB at the most that was met.
OWN = 64 * MIB


def resident(path):
    """Bytes of the shards that are in memory."""
    found = 0
    for name in glob.glob(path + "/*.ffs"):
        file = os.open(name, os.O_RDONLY)
        size = os.fstat(file).st_size
        pages = (size + PAGE - 1) // PAGE
        place = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
        flags = (ctypes.c_ubyte * pages)()
        if LIBC.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), flags):
            raise OSError(ctypes.get_errno(), "mincore")
        found += PAGE * sum(flag & 1 for flag in flags)
        LIBC.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))
        os.close(file)
    return found


def settles(path, least):
    """resident(path), once it is `least` and for a while no more, or 60 s are over."""
    was, ends = -1, time.monotonic() + 60
    while time.monotonic() < ends:
        now = resident(path)
        if now == was and now >= least:
            return now
        was = now
        time.sleep(0.3)
    return was


def bits(path, **options):
    found = hashlib.sha1()
    for images, labels in ffload.Loader(path, 64, seed=1, as_="numpy", drop_last=True, **options):
        found.update(images.tobytes() + labels.tobytes())
    return found.hexdigest()


path = make_set("large", "--count", 9000, "--height", 128, "--width", 128, "--dtype", "u8", "--shard-size", "64M")
size = sum(os.path.getsize(name) for name in glob.glob(path + "/*.ffs"))
drop(path)
try:
    cold = resident(path)
except OSError as error:
    cold, why = size, error
else:
    why = "pages of the set stay in memory"
if cold > OWN:
    tap.skip("warming a set", why)
    finish()

# In storage order the loader's own faults read no more than what is used.
loader = ffload.Loader(path, 2, order="sequential", workers=1, as_="numpy", drop_last=True)
batches = iter(loader)
next(batches)
SHORT, MOST = 16 * MIB, size - 32 * MIB # the last parts of shards are smaller than the others, and count as much
least = settles(path, LEAD - SHORT)
tap.ok(LEAD - SHORT <= least <= LEAD + OWN, "after a batch %d MiB are read ahead of %d" % (LEAD // MIB, size // MIB), least // MIB)
for _ in range(600): # 57 MiB, 16 times which is more than the set
    next(batches)
# Less than all: if memory is short, the kernel leaves pages out of what it reads ahead. One lead and the loader's own faults are 342 MiB.
tap.ok(settles(path, MOST) >= MOST, "after a few hundred batches more is", resident(path) // MIB)
loader.close()

drop(path)
loader = ffload.Loader(path, 2, seed=1, workers=0, as_="numpy", drop_last=True)
next(iter(loader))
time.sleep(1)
tap.ok(resident(path) < LEAD, "without threads nothing is read but what is used", resident(path) // MIB)
loader.close()

small = make_set("small", "--count", 4000, "--height", 64, "--width", 64, "--dtype", "u8", "--shard-size", "8M")
for order in ("random", "block", "sequential"):
    drop(small)
    tap.ok(bits(small, workers=2, order=order) == bits(small, workers=0, order=order), "the batches of a cold set in %s order" % order)
drop(path)
shares = [ffload.Loader(path, 8, seed=1, workers=1, as_="numpy", drop_last=True, rank=rank, world=2) for rank in (0, 1)]
for share in shares:
    next(iter(share))
tap.ok(settles(path, MOST) >= MOST, "two ranks begin at different places", resident(path) // MIB)
for share in shares:
    share.close()

drop(path)
began = time.monotonic()
loader = ffload.Loader(path, 2, seed=1, workers=1, as_="numpy", drop_last=True)
next(iter(loader))
loader.close()
tap.ok(time.monotonic() - began < 10, "a loader that is closed stops at once", time.monotonic() - began)
finish()
