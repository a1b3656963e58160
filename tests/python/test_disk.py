#!/usr/bin/env python3
"""ffload.Loader while shards are removed, cut, replaced as by ffpack --force, or fail: the old data, or one error that names a shard, in
each way of reading. TAP."""
import errno
import hashlib
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import PLACE, finish, make_set  # noqa: E402
import tap  # noqa: E402
import slow_disk  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

# 80 shards, more than are open at a time; of the same sizes where they are not compressed
SHAPE = ["--count", 800, "--height", 64, "--width", 64, "--shard-size", "250K", "--noise"]
SETS = {kind: [make_set("%s-%d" % (kind, seed), *SHAPE, "--seed", seed, *more) for seed in (1, 2)]
        for kind, wanted, more in (("raw", tap.SHORT, []), ("zstd", tap.LONG, ["--compress", 1])) if wanted}
EPOCHS = 2
WAYS = {"mapped": {}, "mapped, sequential": dict(order="sequential"), "read ahead": dict(memory="4M"),
        "read ahead, block": dict(memory="4M", order="block", block=10, group=8), "read ahead, sequential": dict(memory="4M", order="sequential")}


def batches(path, **words):
    """A hash of each batch; the last item is what ended them: None at the end, else an exception."""
    try:
        for batch in ffload.Loader(path, 20, dtype="f16", workers=2, epochs=EPOCHS, seed=7, return_indices=True, drop_last=True, layout="contiguous", as_="numpy", **words):
            yield hashlib.blake2b(b"".join(numpy.ascontiguousarray(part).tobytes() for part in batch)).digest()
    except (OSError, ffload.BadData) as error:
        yield error
    else:
        yield None


def shards(path):
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".ffs")]


def remove(path, other):
    for shard in shards(path):
        os.unlink(shard)


def cut(path, other):
    for shard in shards(path)[::20]:
        os.truncate(shard, os.path.getsize(shard) // 4)


def replace(path, other):
    shutil.copytree(other, path + ".new")
    os.rename(path, path + ".old")
    os.rename(path + ".new", path)
    shutil.rmtree(path + ".old")


def judge(name, found, wanted, path, fails):
    """fails: it must, or it must not."""
    end = found[-1]
    good = found[:-1] == wanted[:len(found) - 1] and (end is not None) == fails
    if end is None:
        good = good and len(found) == len(wanted)
    else:
        shard, reason = (end.filename, end.strerror) if getattr(end, "errno", None) else str(end).split(": ", 1)
        good = good and re.fullmatch(r"%s/shard-0000\d\d\.ffs" % re.escape(path), shard) and reason and "\n" not in str(end)
    tap.ok(good, name, "%d of %d batches, %d of them as they should be; ended by %r" %
           (len(found) - 1, len(wanted) - 1, sum(a == b for a, b in zip(found[:-1], wanted)), end))


tap.ok(all(len(shards(path)) == 80 for paths in SETS.values() for path in paths), "sets of 80 shards", [len(shards(p[0])) for p in SETS.values()])
right = {}
for kind, (first, second) in SETS.items():
    for way, words in WAYS.items():
        order = {name: word for name, word in words.items() if name != "memory"}
        key = kind, str(order)
        if key not in right:
            right[key] = list(batches(first, **order))
            tap.ok(len(right[key]) == EPOCHS * 40 + 1 and right[key][-1] is None, "%s, %s" % (kind, order), right[key][-1])
        for harm, ends_mapped in ((remove, False), (cut, True), (replace, False)):
            path = os.path.join(PLACE, "harmed")
            shutil.copytree(first, path)
            taken = batches(path, **words)
            found = [next(taken) for _ in range(50)] # an epoch and some
            harm(path, second)
            found += list(taken)
            judge("%s, %s: %s" % (kind, way, harm.__name__), found, right[key], path, ends_mapped or "memory" in words)
            shutil.rmtree(path)

# ---- a disk that fails ----
why = slow_disk.possible()
if why:
    tap.skip("a disk that fails", why)
for kind, (first, second) in SETS.items() if not why else ():
    for way, words in WAYS.items():
        fails, path = os.path.join(PLACE, "fails"), os.path.join(PLACE, "disk")
        shard = shards(first)[41]
        with open(fails, "w", encoding="ascii") as file:
            file.write("%s %d\n" % (os.path.basename(shard), os.path.getsize(shard) // 2))
        with slow_disk.Mounted(first, path, 0, 1e6, fails):
            found = list(batches(path, **words))
        order = {name: word for name, word in words.items() if name != "memory"}
        judge("%s, %s: a disk that fails" % (kind, way), found, right[kind, str(order)], path, True)
        end = found[-1]
        tap.ok(end.errno == errno.EIO and end.filename.endswith("/shard-000041.ffs") and end.strerror.startswith("offset ") or "shard-000041.ffs: offset " in str(end),
               "  with its place", end)
finish()
