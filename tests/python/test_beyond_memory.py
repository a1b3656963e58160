#!/usr/bin/env python3
"""A set of half a GB in a memory cgroup of a tenth of it: the same batches in every way of reading, what is read for them, and no more
memory than there is; and sixty short runs under limits of 40 to 100 MB. Skipped where this process may make no memory cgroups. TAP."""
# Needs: python-package tests/make_set
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import FOLDER, finish, make_set  # noqa: E402
import memory_group  # noqa: E402
import tap  # noqa: E402

SAMPLES, SIDE = 40000, 64
STORED = SAMPLES * SIDE * SIDE * 3
LIMIT = STORED // 10
BLOCKS = {"block": 21, "group": 4} # a frame each; a group and the next one fit into the memory for reading ahead
# An epoch's batches as one number, the bytes that were read for them, and how.
EPOCH = """
import hashlib, json, sys
import numpy
import ffload
def read():
    return int(open("/proc/self/io").read().split("\\nread_bytes: ")[1].split()[0])
loader = ffload.Loader(sys.argv[1], 64, dtype="u8", layout="contiguous", last_batch="keep", as_="numpy", seed=3, **json.loads(sys.argv[2]))
before, found, samples = read(), hashlib.blake2b(), 0
for images, labels in loader:
    found.update(images)
    found.update(labels)
    samples += len(images)
print(json.dumps({"digest": found.hexdigest(), "read": read() - before, "samples": samples, "reading": loader.stats()["reading"]}))
"""


def epoch(path, words, group=None):
    """What the program prints; None where it failed, which is said."""
    memory_group.drop(path)
    command = [sys.executable, "-c", EPOCH, path, json.dumps(words)]
    done = subprocess.run(group.inside(command) if group else command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=900, env=dict(os.environ, PYTHONPATH=FOLDER, OPENBLAS_NUM_THREADS="1"))
    if done.returncode:
        print("# rc %d: %s" % (done.returncode, done.stderr[-1000:]))
        return None
    return json.loads(done.stdout)


if tap.SANITIZE:
    tap.skip("a tenth of the set's memory", "sanitizers need more")
    finish()
try:
    memory_group.MemoryGroup(LIMIT).remove()
except OSError as error:
    tap.skip("a tenth of the set's memory", "memory cgroups: %s" % error)
    finish()

ORDERS = {order: dict(BLOCKS if order == "block" else {}, order=order) for order in ("random", "block", "sequential")}
mapped = {}
ZSTD = ("--compress", 1, "--filter", "table")
# Of the zstd sets, which have the same samples, the ways that decompress each frame once.
for kind, options, ways in (("raw", (), [(order, workers) for order in ORDERS for workers in (2, 0)]),
                            ("zstd", ZSTD, [("block", 2), ("sequential", 2), ("sequential", 0)]),
                            ("zstd-in-small-shards", (*ZSTD, "--shard-size", "4M"), [("block", 2), ("sequential", 2)])):
    path = make_set(kind, "--count", SAMPLES, "--height", SIDE, "--width", SIDE, "--dtype", "u8", "--shard-size", "1G", *options)
    size = sum(map(os.path.getsize, glob.glob(path + "/*.ff[sx]")))
    memory_group.sync(path)
    for order in ORDERS if kind == "raw" else ():
        mapped[order] = epoch(path, dict(ORDERS[order], workers=2))
        tap.ok(mapped[order] and mapped[order]["samples"] == SAMPLES and mapped[order]["reading"].startswith("mapped"),
               order + ": mapped with all memory", mapped[order])
    for order, workers in ways:
        name = "%s, %s, workers=%d" % (kind, order, workers)
        with memory_group.MemoryGroup(LIMIT) as group:
            found = epoch(path, dict(ORDERS[order], workers=workers), group)
            peak, killed = group.peak, group.killed()
        if not tap.ok(found and not killed and 0 < peak < LIMIT, name + ": a tenth of the memory suffices", (found, killed, peak, LIMIT)):
            continue
        way = found["reading"].split(":")[0]
        tap.ok(mapped[order] and found["digest"] == mapped[order]["digest"], name + ": the same batches, " + way, found)
        if workers:
            tap.ok(size > LIMIT and way == "read directly" and found["read"] <= 1.05 * size,
                   name + ": at most 1.05 bytes are read for each used", (found["read"] / size, size, found["reading"]))

path, runs = make_set("short", "--count", 12000, "--height", SIDE, "--width", SIDE, "--dtype", "u8", "--shard-size", "1G"), 5
memory_group.sync(path)
for limit in (40, 49, 64, 100):
    for order in ORDERS:
        found, killed, peak = set(), 0, 0
        for _ in range(runs):
            with memory_group.MemoryGroup(limit * 10**6) as group:
                run = epoch(path, dict(ORDERS[order], workers=2), group)
                killed, peak = killed + group.killed(), max(peak, group.peak)
            found.add(run and (run["samples"], run["digest"], run["reading"].split(":")[0]))
        alike = len(found) == 1 and None not in found and found.pop()[::2] == (12000, "read directly")
        tap.ok(alike and not killed, "%d MB, %s: %d short runs, none is killed" % (limit, order, runs), (found, killed, peak))
import_last = "import sys, ffload\nffload.Loader(sys.argv[1], 64, as_='numpy')\nprint('numpy' in sys.modules)"
done = subprocess.run([sys.executable, "-c", import_last, path], stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=FOLDER), timeout=60)
tap.ok(done.stdout == "True\n", "what batches are made of is imported before the loader takes its memory", done.stdout)
finish()
