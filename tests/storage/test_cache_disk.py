#!/usr/bin/python3
"""The disk of the cache: full, read-only, removed while it is used, and shared by runs that allow it different sizes. The right batches, or
one sentence with the path; never a wrong batch, a hang or a signal. Prints TAP."""
# Needs: ffpack python
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from server import Server
from remote_sets import MIB, batches, fresh, make_set, tap
place = tempfile.mkdtemp()
os.chdir(place)

# A loader: a line for each batch, then all of them or what was said. It reads without verifying, so zeros would be wrong batches.
LOADER = """
import json, sys, zlib
sys.path[:0] = [sys.argv[1]]
from remote_sets import loader_of, numpy
try:
    found = []
    for batch in loader_of(sys.argv[2], **json.loads(sys.argv[3])):
        found.append(([int(number) for number in batch[-1]], zlib.crc32(numpy.asarray(batch[0]).tobytes())))
        print("batch", flush=True)
        if len(sys.argv) > 4:
            __import__("time").sleep(float(sys.argv[4]))
    print(json.dumps({"batches": found}))
except (OSError, RuntimeError, ValueError) as error:
    print(json.dumps({"said": "%s: %s" % (type(error).__name__, error)}))
"""


class Loader:
    def __init__(self, url, pause=0.0, **options):
        options = {"epochs": 3, "cache": "cache", **options}
        self.process = subprocess.Popen([sys.executable, "-c", LOADER, os.path.dirname(os.path.abspath(__file__)), url, json.dumps(options), str(pause)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def await_batches(self, count):
        for _ in range(count):
            if self.process.stdout.readline() != "batch\n":
                return

    def result(self):
        """The batches; or what was said; or how it ended."""
        try:
            out, said = self.process.communicate(timeout=150)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "it hangs"
        lines = [line for line in out.splitlines() if line != "batch"]
        if self.process.returncode or not lines:
            return "ended with %d: %s" % (self.process.returncode, said[-500:])
        found = json.loads(lines[-1])
        return [tuple(pair) for pair in found["batches"]] if "batches" in found else found["said"]


def is_sentence(got, path):
    return isinstance(got, str) and re.match("[A-Za-z]*Error: |BadData: ", got) and path in got and "\n" not in got


def mounted(options):
    os.makedirs("disk", exist_ok=True)
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", "disk"], capture_output=True).returncode == 0


def full():
    """A disk that is smaller than the cache may be, and one that others fill."""
    if os.geteuid() or not mounted("size=1M"):
        return tap.skip("a full disk", "needs root and mount")
    subprocess.run(["umount", "disk"], check=True)
    for size in (64, 300, 1500, 5000, 9000, 23000):
        for order in ("random", "sequential"):
            mounted("size=%dK" % size)
            got = Loader("s3://bucket/raw/train", cache="disk/cache", cache_size="100M", order=order, epochs=1).result()
            tap.ok(got == expected[order][:len(got)] and len(got) == 25 or is_sentence(got, "disk/cache"), "%s order, a disk of %d KiB: %s" % (order, size, got if isinstance(got, str) else "the right batches"), str(got)[:400])
            subprocess.run(["umount", "disk"], check=True)
    mounted("size=40M")
    loader = Loader("s3://bucket/raw/train", pause=0.05, cache="disk/cache", cache_size="8M")
    loader.await_batches(5)
    with open("disk/other", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
    got = loader.result()
    tap.ok(got == expected["random"] or is_sentence(got, "disk/cache"), "others fill the disk: %s" % (got if isinstance(got, str) else "the right batches"), str(got)[:400])
    os.remove("disk/other")
    got = Loader("s3://bucket/raw/train", cache="disk/cache", cache_size="8M").result()
    tap.ok(got == expected["random"], "and with space again", str(got)[:400])
    subprocess.run(["umount", "disk"], check=True)


def large_index():
    """What the cache lacks of a large index takes no space until it is fetched, and a full disk is named. A read-only disk is, too."""
    if os.geteuid() or not mounted("size=1M"):
        return tap.skip("a full disk", "needs root and mount")
    subprocess.run(["umount", "disk"], check=True)
    options = {"order": "random", "epochs": 1, "batch_size": 500}
    for size in (24, 120, 700):
        mounted("size=%dK" % size)
        got = Loader("s3://bucket/large/train", cache="disk/cache", cache_size="100M", **options).result()
        tap.ok(is_sentence(got, "disk/cache") and "No space left on device" in got, "a large index on a disk of %d KiB: %s" % (size, got), str(got)[:400])
        subprocess.run(["umount", "disk"], check=True)
    mounted("size=40M")
    server.forget()
    server.fault = lambda number, handler: ("reset",) if number > 4 else None
    got = Loader("s3://bucket/large/train", cache="disk/cache", cache_size="20M", where="label == 1", storage_timeout=1, **options).result()
    server.fault = None
    index = next(os.path.join("disk/cache", name, "index.ffx") for name in os.listdir("disk/cache") if len(name) == 32)
    taken = os.stat(index).st_blocks * 512
    tap.ok(isinstance(got, str) and taken < 100000 and os.path.getsize(index) > MIB, "an index that could not be fetched takes no space: %d bytes" % taken, str(got)[:400])
    got = Loader("s3://bucket/large/train", cache="disk/cache", cache_size="20M", **options).result()
    tap.ok(got == expected["large"], "and later it is fetched", str(got)[:400])
    subprocess.run(["mount", "-o", "remount,ro", "disk"], check=True)
    got = Loader("s3://bucket/large/train", cache="disk/cache", cache_size="20M", **options).result()
    tap.ok(is_sentence(got, "index.ffx") and "a cache must be writable" in got, "on a read-only disk: %s" % got, str(got)[:400])
    subprocess.run(["umount", "disk"], check=True)


def read_only():
    if os.geteuid() or not mounted("size=60M"):
        return tap.skip("a read-only disk", "needs root and mount")
    assert Loader("s3://bucket/raw/train", cache="disk/cache", cache_size="50M").result() == expected["random"]
    subprocess.run(["mount", "-o", "remount,ro", "disk"], check=True)
    for name, cache in (("with the whole set", "disk/cache"), ("empty", "disk/other")):
        got = Loader("s3://bucket/raw/train", cache=cache, cache_size="50M").result()
        tap.ok(is_sentence(got, cache), "a read-only cache, %s: %s" % (name, got), str(got)[:400])
    subprocess.run(["umount", "disk"], check=True)


def remove_tree(folder):
    """Also what the run makes there meanwhile."""
    for _ in range(1000):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return


def removed():
    """All or a part of the cache is removed while a run reads, and another run may make it again."""
    def all_of_it(folder):
        remove_tree("cache")

    def the_set(folder):
        remove_tree(folder)

    def its_files(folder):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # a copy that the run has just renamed
                os.remove(os.path.join(folder, name))

    def shards(folder):
        for name in os.listdir(folder):
            if name.endswith(".ffs"):
                os.remove(os.path.join(folder, name))

    def state(folder):
        os.remove(os.path.join(folder, "pieces"))

    def usage(folder):
        os.remove("cache/usage")
    for remove in (all_of_it, the_set, its_files, shards, state, usage):
        for again in (False, True):
            for size in ("9M", "100M"):
                fresh(server)
                loader = Loader("s3://bucket/raw/train", pause=0.02, cache_size=size, verify=VERIFY)
                loader.await_batches(12)
                folder = next(os.path.join("cache", name) for name in os.listdir("cache") if len(name) == 32)
                remove(folder)
                second = Loader("s3://bucket/raw/train", cache_size=size, verify=VERIFY, pause=0.02).result() if again else None
                got = loader.result()
                name = "%s removed while a run reads through %s%s" % (remove.__name__.replace("_", " "), size, ", and another run begins" if again else "")
                tap.ok(got == expected["random"] or is_sentence(got, "cache"), "%s: %s" % (name, got if isinstance(got, str) else "the right batches"), str(got)[:400])
                if again:
                    tap.ok(second == expected["random"] or is_sentence(second, "cache"), "%s: the other one: %s" % (name, second if isinstance(second, str) else "the right batches"), str(second)[:400])
                third = Loader("s3://bucket/raw/train", cache_size=size, verify=VERIFY).result()
                tap.ok(third == expected["random"], "%s: and the next one" % name, str(third)[:400])


def sizes():
    """Runs that share a cache and allow it different sizes, of one set and of two."""
    for names in (("raw", "raw"), ("raw", "zstd"), ("raw", "zstd", "raw")):
        for allowed in (("6M", "100M"), ("100M", "6M"), ("6M", "12M"), ("8M", "8M")):
            fresh(server)
            began = time.monotonic()
            loaders = [Loader("s3://bucket/%s/train" % name, cache_size=allowed[i % 2], pause=0.01) for i, name in enumerate(names)]
            got = [loader.result() for loader in loaders]
            tap.ok(all(one == expected["random"] if name == "raw" else one == expected["zstd"] for one, name in zip(got, names)),
                   "%s share a cache of %s: %.1f s" % (" and ".join(names), " and ".join(allowed), time.monotonic() - began), [str(one)[:300] for one in got])
            if len(names) == 3:
                break


VERIFY = "off"
make_set("raw", 500, 64, "--shard-size", "3M")
make_set("zstd", 500, 64, "--shard-size", "3M", "--compress", "zstd")
make_set("large", 20000, 4, "--array-layout", "hwc")
server = Server()
server.add("sets", "bucket")
os.environ.update({name: value for name, value in server.environment(FFPACK_CACHE="cache").items() if name.startswith(("AWS_", "FFPACK_", "HOME"))})
expected = {"random": batches("sets/raw/train", epochs=3), "sequential": batches("sets/raw/train", epochs=1, order="sequential"), "zstd": batches("sets/zstd/train", epochs=3), "large": batches("sets/large/train", order="random", epochs=1, batch_size=500)}
for step in (full, large_index, read_only, removed, sizes):
    step()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
