#!/usr/bin/python3
"""The cache of sets behind URLs: what is asked of the server when a set is opened, what is wrong on its way or in the cache, what several
processes count, few descriptors, and a set that is wholly in the cache. Prints TAP."""
# Needs: ffpack fftrain ffinspect python
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

from server import Server
from remote_sets import FFINSPECT, MIB, batches, batches_or_words, fresh, loader_of, losses, make_set, run, sums, tap
place = tempfile.mkdtemp()
os.chdir(place)


def asked(server, name):
    """The ranges of an object that were asked for: [(begin, end)]."""
    return [tuple(int(number) for number in wanted[6:].split("-")) for _, path, wanted in server.log if path == "bucket/" + name]


def in_cache(name):
    """Paths of a file of each cached set."""
    return [os.path.join("cache", folder, name) for folder in sorted(os.listdir("cache")) if os.path.exists(os.path.join("cache", folder, name))]


def asked_once(server, env):
    """Opening asks for each byte of the index once; with an index in the cache for its begin."""
    for name in ("raw", "many"):
        fresh(server)
        run(FFINSPECT, "s3://bucket/%s/train" % name, env=env)
        ranges, size = sorted(asked(server, name + "/train/index.ffx")), len(server.objects["bucket/%s/train/index.ffx" % name])
        tap.ok(len(ranges) == 1 + (size > 16384) and ranges[0][0] == 0 and all(one[1] + 1 == two[0] for one, two in zip(ranges, ranges[1:])) and ranges[-1][1] + 1 >= size,
               "%s: each byte of the index is asked for once" % name, (ranges, size))
        server.forget()
        run(FFINSPECT, "s3://bucket/%s/train" % name, env=env)
        tap.ok([one[0] for one in asked(server, name + "/train/index.ffx")] == [0] and not asked(server, name + "/train/history.jsonl"), "%s: once if the cache has it" % name,
               server.log)
    fresh(server)
    losses("s3://bucket/many", "--epochs", 1, env=env)
    tap.ok(len(asked(server, "many/train/index.ffx")) == 2, "a run asks no more often", asked(server, "many/train/index.ffx"))
    server.forget()
    batches("s3://bucket/many/train", epochs=1)
    tap.ok(len(asked(server, "many/train/index.ffx")) == 1, "nor does a loader", asked(server, "many/train/index.ffx"))


def wrong_index(server, expected):
    """An index that is changed on its way is fetched again once; then a sentence has the URL, and nothing is kept."""
    for byte in (3, 300, 20000, -1):
        for times in (1, 2, 99):
            fresh(server)
            left = [times]

            def fault(number, handler, left=left, byte=byte):
                if not handler.name.endswith("index.ffx") or not left[0]:
                    return None
                begin, end = (int(word) for word in handler.headers["Range"][6:].split("-"))
                size = len(server.objects[handler.name])
                at = byte % size
                if not begin <= at <= min(end, size - 1):
                    return None
                left[0] -= 1
                return "flip", at - begin
            server.fault = fault
            got = batches_or_words("s3://bucket/many/train", epochs=1)
            if times == 1:
                tap.ok(got == expected, "byte %d of the index is changed once: it is fetched again" % byte, str(got)[:300])
                continue
            server.fault = None
            tap.ok(isinstance(got, str) and "s3://bucket/many/train/index.ffx" in got and "\n" not in got and not (os.path.exists("cache") and in_cache("index.ffx")),
                   "changed %d times: %s" % (times, str(got)[:120]), (got, left))
            tap.ok(batches("s3://bucket/many/train", epochs=1) == expected, "and then it is fetched again")


def spoil(path, offset, bytes_):
    with open(path, "r+b") as file:
        file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        file.write(b"\0" * bytes_)


def wrong_in_cache(server, expected):
    """As after a power cut: zeros in the index, in the ends of a shard, in a sample."""
    cases = (("the index's begin", "index.ffx", 0, 4096), ("the index's blocks", "index.ffx", 4096, 4096), ("a header", "shard-000001.ffs", 0, 256),
             ("a footer", "shard-000002.ffs", -4096, 4096), ("samples", "shard-000003.ffs", MIB + 5000, 100000))
    for name in ("raw", "zstd"):
        for what, file, offset, length in cases:
            if name == "zstd" and what == "samples":
                offset = 5000
            fresh(server)
            url = "s3://bucket/%s/train" % name
            batches(url, epochs=1)
            spoil(in_cache(file)[0], offset, length)
            got = batches_or_words(url, epochs=1)
            tap.ok(got == expected[name], "%s: zeros in %s of the cache are fetched again" % (name, what), str(got)[:300])
    # A footer that is changed on its way, also in the ends of other processes.
    fresh(server)
    left = [3]

    def fault(number, handler):
        if handler.name.endswith("shard-000001.ffs") and left[0]:
            left[0] -= 1
            return "flip", 100
        return None
    server.fault = fault
    got = batches_or_words("s3://bucket/raw/train", epochs=1)
    server.fault = None
    tap.ok(got == expected["raw"] and left == [0], "header, footer and samples that are changed on their way are fetched again", (str(got)[:300], left))


def second_epoch(server, name):
    """Samples that are removed and fetched again are verified again."""
    fresh(server)
    os.environ["FFPACK_CACHE_SIZE"] = "8M"
    expected, chance = batches("sets/raw/train", epochs=3), random.Random(4)
    server.fault = lambda number, handler: ("flip", chance.randrange(MIB)) if number > 60 and chance.random() < 0.1 else None
    got = batches_or_words("s3://bucket/raw/train", epochs=3)
    server.fault = None
    del os.environ["FFPACK_CACHE_SIZE"]
    tap.ok(got == expected, name, str(got)[:300])


def state_of(folder):
    """(bytes counted, bytes by the table) of a cached set: format/storage/pieces.h."""
    with open(os.path.join(folder, "pieces"), "rb") as file:
        data = file.read()
    objects, pieces, counted = struct.unpack_from("<QQQ", data, 16)
    ends = sum(sum(struct.unpack_from("<QQ", data, 4096 + 64 * i + 8)) for i in range(objects))
    there = sum(counter % 2 for counter in struct.unpack_from("<%dI" % pieces, data, 4096 + 64 * objects))
    return counted, ends + there * MIB


def counted_once(server, env):
    """Processes that fetch the same ends and pieces at the same time."""
    for round_ in range(3):
        fresh(server)
        server.fault = lambda number, handler: ("stall", 0.05)
        running = [subprocess.Popen([FFINSPECT, "s3://bucket/few/train", "--sample", "0:300", "--json"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
        said = [process.communicate()[1] for process in running]
        server.fault = None
        counted, there = state_of(os.path.dirname(in_cache("pieces")[0]))
        with open("cache/usage", "rb") as file:
            usage = struct.unpack("<Q", file.read(8))[0]
        ranges = [(path, wanted) for _, path, wanted in server.log if path.endswith(".ffs")]
        tap.ok(not any(process.returncode for process in running) and counted == there == usage and len(ranges) == len(set(ranges)),
               "four processes fetch and count each end and piece once", (said, counted, there, usage, len(ranges), len(set(ranges))))


FEW = """
import os, resource, sys
sys.path.insert(0, %r)
from remote_sets import loader_of, sums
left, url = int(sys.argv[1]), sys.argv[2]
highest = max(int(name) for name in os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + left, highest + left))
print(sums(loader_of(url, epochs=2)))
"""


def few_descriptors(server):
    """Fetching waits for a descriptor as opening does: 150 shards, of which few can be open."""
    expected = str(batches("sets/few/train", epochs=2))
    for left in (14, 18, 24, 40):
        fresh(server)
        done = run(sys.executable, "-c", FEW % os.path.dirname(os.path.abspath(__file__)), left, "s3://bucket/few/train")
        tap.ok(done.stdout.strip() == expected, "a process with %d descriptors left" % left, done.stderr[-600:])


def small_shards(server):
    """The cache removes pieces while shards have not been opened: what it asks of the order must not fetch their ends."""
    for name in ("few", "packed"):
        expected = str(batches("sets/%s/train" % name, epochs=2))
        fresh(server)
        try:
            done = run(sys.executable, "-c", FEW % os.path.dirname(os.path.abspath(__file__)), 900, "s3://bucket/%s/train" % name, env={**os.environ, "FFPACK_CACHE_SIZE": "7M"}, timeout=200)
            tap.ok(done.stdout.strip() == expected, "%s: a small cache of many shards" % name, done.stderr[-600:])
        except subprocess.TimeoutExpired:
            tap.ok(False, "%s: a small cache of many shards" % name, "it hangs")


def mapped(server, expected):
    """A set that is wholly in the cache is mapped, from the next epoch on; what others remove from it meanwhile is read again."""
    for name in ("raw", "zstd"):
        fresh(server)
        url = "s3://bucket/%s/train" % name
        loader = loader_of(url, epochs=1)
        first = loader.stats()["reading"]
        got = [sums(loader)]
        again = loader_of(url, epochs=1)
        tap.ok(first.startswith("read directly") and again.stats()["reading"].startswith("mapped") and got + [sums(again)] == [expected[name]] * 2,
               "%s: read at first, mapped from the cache" % name, (first, again.stats()["reading"]))
    # Its tables fill a piece that no reader needs.
    fresh(server)
    batches("s3://bucket/tables/train", epochs=1)
    again = loader_of("s3://bucket/tables/train", epochs=1)
    tap.ok(again.stats()["reading"].startswith("mapped") and sums(again) == batches("sets/tables/train", epochs=1) and
           server.bytes < sum(len(data) for name, data in server.objects.items() if name.startswith("bucket/tables/")),
           "a set is mapped without the tables", (again.stats()["reading"], server.bytes))
    fresh(server)
    twice = loader_of("s3://bucket/raw/train", epochs=3)
    got = sums(twice)
    tap.ok(got == batches("sets/raw/train", epochs=3) and twice.stats()["reading"].startswith("mapped"), "the loader that fetched it maps it from the next epoch on", twice.stats()["reading"])


def removed_while_mapped(server, env):
    """A second process needs the space of a set that is mapped."""
    for name in ("raw", "zstd"):
        fresh(server)
        expected, got = batches("sets/%s/train" % name, epochs=12), []
        batches("s3://bucket/%s/train" % name, epochs=1)
        loader = loader_of("s3://bucket/%s/train" % name, epochs=12, prefetch=1)
        before = loader.stats()["reading"]
        other = None
        for at, batch in enumerate(loader):
            got.append(([int(number) for number in batch[-1]], __import__("zlib").crc32(batch[0].tobytes())))
            if at == 60:
                other = subprocess.Popen([FFINSPECT, "s3://bucket/large/train", "--verify"], env={**env, "FFPACK_CACHE_SIZE": "26M"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if other and other.poll() is None:
                time.sleep(0.01)
        other.communicate()
        tap.ok(before.startswith("mapped") and got == expected, "%s: removed by another process while it is mapped: the right batches" % name,
               (before, [i for i, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]][:5]))


make_set("raw", 500, 64, "--shard-size", "3M")
make_set("zstd", 500, 64, "--shard-size", "3M", "--compress", "zstd")
make_set("many", 1000, 8)
make_set("few", 300, 32, "--shard-size", "24K")
make_set("packed", 300, 32, "--shard-size", "40K", "--compress", "zstd")
make_set("tables", 20000, 5)
make_set("large", 600, 64, "--shard-size", "3M")
server = Server()
server.add("sets", "bucket")
env = server.environment(FFPACK_CACHE="cache")
os.environ.update({name: value for name, value in env.items() if name.startswith(("AWS_", "FFPACK_", "HOME"))})
expected = {name: batches("sets/%s/train" % name, epochs=1) for name in ("raw", "zstd", "many")}
asked_once(server, env)
wrong_index(server, expected["many"])
wrong_in_cache(server, expected)
second_epoch(server, "samples that come again are verified again")
counted_once(server, env)
few_descriptors(server)
small_shards(server)
mapped(server, expected)
removed_while_mapped(server, env)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
