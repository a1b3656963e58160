#!/usr/bin/python3
"""What a loader in block order fetches ahead from behind a URL: first what its first batch needs, and into the cache, not into memory. Prints TAP."""
# Needs: ffpack python
import os
import shutil
import sys
import tempfile
import threading
import time

from server import Server
from remote_sets import FFPACK, MIB, batches, fresh, loader_of, make_set, numpy, run, sums, tap
SAMPLES, SIDE, BATCH = 900, 224, 8
OPTIONS = {"batch_size": BATCH, "order": "block", "block": 7, "epochs": 1}
place = tempfile.mkdtemp()
os.chdir(place)


def pieces_of(numbers):
    """The pieces of 1 MiB in which these samples begin, in the only shard, after its header of 4096 bytes; and the next ones, in which others end."""
    begins = [(4096 + number * SIDE * SIDE * 3) // MIB for number in numbers]
    return {begin + more for begin in begins for more in (0, 1)}


def first_batch(server, expected):
    """The server answers requests for the pieces of the first batch's samples only, until that batch is there. 64 requests are on their way at a time."""
    fresh(server)
    wanted, first = pieces_of(expected[0][0]), threading.Event()
    tap.ok(max(wanted) > 100, "the first batch needs pieces that are far apart", sorted(wanted))

    def fault(number, handler):
        begin, end = (int(word) for word in handler.headers["Range"][6:].split("-"))
        if end - begin > 65536 and not wanted & set(range(begin // MIB, end // MIB + 1)):
            first.wait(60)
    server.fault = fault
    loader = loader_of("s3://bucket/set", storage_timeout=30, **OPTIONS)
    got, threads = [], []

    def read():
        for batch in sums_of(loader):
            got.append(batch)
            first.set()
    threads.append(threading.Thread(target=read))
    threads[0].start()
    came = first.wait(20)
    first.set()
    threads[0].join()
    tap.ok(came, "the first batch waits for no other request")
    tap.ok(got == expected, "and the batches are those of the folder")


def sums_of(loader):
    for batch in loader:
        yield sums([batch])[0]


MEMORY = """
import sys
sys.path.insert(0, %r)
from remote_sets import loader_of, sums
def private():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
before = private()
loader = loader_of(sys.argv[1], batch_size=8, order="block", block=7, epochs=2)
got = sums(loader)
print(private() - before, loader.stats()["reading"], len(got))
"""


def memory(server):
    """All blocks are one group, which the cache keeps: no copy of them is in memory."""
    for name, size, least, most in (("a cache that keeps the set", "1G", 0, 80), ("a smaller cache", "100M", 250, 400)):
        fresh(server)
        done = run(sys.executable, "-c", MEMORY % os.path.dirname(os.path.abspath(__file__)), "s3://bucket/set", env={**os.environ, "FFPACK_CACHE_SIZE": size})
        words = done.stdout.split()
        tap.ok(len(words) > 1 and least <= int(words[0]) / 1024 <= most, "%s: between %d and %d MiB of memory" % (name, least, most), (done.stdout, done.stderr[-600:]))


def ends(server):
    """Headers and footers of neighbouring shards are asked for at the same time: none is answered within 0.3 s."""
    fresh(server)
    begun = []

    def fault(number, handler):
        if handler.name.endswith(".ffs"):
            begun.append(time.monotonic())
            return "stall", 0.3
        return None
    server.fault = fault
    got = batches("s3://bucket/many/train", epochs=1)
    together = max(sum(one <= other < one + 0.25 for other in begun) for one in begun)
    tap.ok(got == batches("sets/many/train", epochs=1) and together >= 8, "%d of %d requests for the parts of shards are under way together" % (together, len(begun)))


def half(server):
    """A cache of half the set, all blocks in one group: the least is half of the set in each further epoch. 64 of 130 pieces are on their way at a
    time, in any order, so that it is more; without knowledge of what was read it is all of the set."""
    fresh(server)
    os.environ["FFPACK_CACHE_SIZE"] = "66M"
    got = batches("s3://bucket/set", **{**OPTIONS, "epochs": 7})
    del os.environ["FFPACK_CACHE_SIZE"]
    each = (server.bytes / sum(map(len, server.objects.values())) - 1) / 6
    tap.ok(got == batches("set", **{**OPTIONS, "epochs": 7}), "half a cache, one group: the batches of the folder")
    tap.ok(each < 0.8, "%.2f of the set are fetched in a further epoch" % each)


def small_caches(server):
    """Caches that keep two groups, and smaller ones, in which pieces are removed all the time."""
    for size in ("300M", "40M", "20M"):
        for group in (2, 5, 40):
            fresh(server)
            os.environ["FFPACK_CACHE_SIZE"] = size
            options = {**OPTIONS, "group": group, "epochs": 2}
            got = batches("s3://bucket/set", **options)
            del os.environ["FFPACK_CACHE_SIZE"]
            tap.ok(got == batches("set", **options), "groups of %d blocks, a cache of %s" % (group, size))


numpy.save("x.npy", numpy.random.RandomState(1).randint(0, 256, (SAMPLES, SIDE, SIDE, 3), dtype=numpy.uint8))
done = run(FFPACK, "x.npy", "-o", "set", "--dtype", "u8")
assert done.returncode == 0, done.stderr
server = Server()
server.add("set", "bucket/set")
make_set("many", 300, 32, "--shard-size", "120K")
server.add("sets", "bucket")
env = server.environment(FFPACK_CACHE="cache")
os.environ.update({name: value for name, value in env.items() if name.startswith(("AWS_", "FFPACK_", "HOME"))})
first_batch(server, batches("set", **OPTIONS))
memory(server)
half(server)
ends(server)
small_caches(server)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
