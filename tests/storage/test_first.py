#!/usr/bin/python3
"""The first batch of a large set behind a URL: it comes after few bytes, since the index is fetched by parts and its samples without
their pieces. The same batches as from a folder, with every order and selection and on several ranks; after kills, with wrong bytes in
the cache and on their way, and when the index is replaced meanwhile. Prints TAP."""
# Needs: ffpack fftrain ffinspect python-package
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

from server import Server
from remote_sets import FFINSPECT, FFPACK, FFTRAIN, MIB, batches, batches_or_words, fresh, loader_of, losses, numpy, run, tap
place = tempfile.mkdtemp()
os.chdir(place)
COUNT, SWAPPED, INDEX = 40000, 16000, "bucket/raw/train/index.ffx"
ORDERS = {"sequential": {"order": "sequential"}, "random": {"order": "random"}, "block": {"order": "block", "block": 500, "group": 8}}

# A loader in a process of its own: the numbers of its samples and the sums of its images; it ends after a given number of batches.
LOADER = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from remote_sets import loader_of, numpy
import zlib
found = []
for batch in loader_of(sys.argv[2], **json.loads(sys.argv[3])):
    found.append(([int(number) for number in batch[-1]], zlib.crc32(numpy.asarray(batch[0]).tobytes())))
    if len(found) == int(sys.argv[4]):
        break
print(json.dumps(found))
"""


def started(url, most=0, **options):
    return subprocess.Popen([sys.executable, "-c", LOADER, os.path.dirname(os.path.abspath(__file__)), url, json.dumps(options), str(most)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process):
    out, said = process.communicate(timeout=150)
    return [tuple(one) for one in json.loads(out)] if process.returncode == 0 else said[-600:]


def sums_of(loader):
    """Each batch as of remote_sets.sums, one after another."""
    for batch in loader:
        yield [int(number) for number in batch[-1]], zlib.crc32(numpy.asarray(batch[0]).tobytes())


def make_sets():
    images = numpy.random.RandomState(5).randint(0, 256, (COUNT, 16, 16, 3), dtype=numpy.uint8)
    numpy.save("x.npy", images)
    numpy.save("y.npy", numpy.arange(COUNT) % 10)
    for name, more in (("raw", ["--dtype", "u8"]), ("mixed", ["--dtype", "u8", "--shuffle", 3]), ("zstd", ["--dtype", "f32", "--compress", "zstd", "--stats", "compute"])):
        done = run(FFPACK, "x.npy", "-o", "sets/%s/train" % name, "--shard-size", "8M", *more)
        assert done.returncode == 0, done.stderr
    assert os.path.getsize("sets/raw/train/index.ffx") > 2.5 * MIB
    make_swapped()


def png(value):
    """An image of 4 x 4 pixels whose first three bytes are a number."""
    rows = b"".join(b"\0" + value.to_bytes(3, "big") + bytes([row] * 9) for row in range(4))
    parts = (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)


def make_swapped():
    """A set that is stored in the order of its archive: some neighbours are swapped, and so are some samples at the same place of two shards."""
    numbers = list(range(SWAPPED))
    for at, other in [(at, at + 1) for at in range(8192, SWAPPED, 20)] + [(at, at + 4096) for at in range(0, 4096, 100)]:
        numbers[at], numbers[other] = numbers[other], numbers[at]
    with tarfile.open("swapped.tar.gz", "w:gz", compresslevel=1) as archive:
        for number in numbers:
            member, data = tarfile.TarInfo("c%d/%06d.png" % (number // 4000, number)), png(number)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    done = run(FFPACK, "swapped.tar.gz", "-o", "sets/swapped/train", "--dtype", "u8", "--shard-size", "256K")
    assert done.returncode == 0 and os.path.getsize("sets/swapped/train/index.ffx") > 1.1 * MIB, done.stderr


class Gate:
    """Holds requests back from the one on that makes more than `most` bytes together; `asked`: the bytes before."""

    def __init__(self, server, most):
        self.most, self.asked, self.open, self.lock = most, 0, threading.Event(), threading.Lock()
        server.fault = self

    def __call__(self, number, handler):
        match = re.match(r"bytes=(\d+)-(\d+)$", handler.headers.get("Range", ""))
        with self.lock:
            asked = self.asked + (int(match.group(2)) + 1 - int(match.group(1)) if match else 0)
            if asked <= self.most:
                self.asked = asked
                return
        self.open.wait(20)
        self.open.set()


def some(url, count, **options):
    """The first batches."""
    return [one for one, _ in zip(sums_of(loader_of(url, **options)), range(count))]


def few_bytes(server):
    """The first batch arrives while a gate holds back all that is more than it needs."""
    for name, order, most, batch, count in (("raw", "sequential", 2.0, 16, 3000), ("raw", "random", 2.0, 16, 3000), ("raw", "block", 2.0, 16, 3000), ("zstd", "random", 1.2, 1, 20)):
        fresh(server)
        gate, options = Gate(server, most * MIB), {**ORDERS[order], "batch_size": batch}
        began = time.monotonic()
        iterator = sums_of(loader_of("s3://bucket/%s/train" % name, **options))
        got = [next(iterator)]
        waited, asked = time.monotonic() - began, gate.asked
        gate.open.set()
        got += [one for one, _ in zip(iterator, range(count - 1))]
        del iterator
        whole = os.path.getsize("sets/%s/train/index.ffx" % name)
        tap.ok(waited < 20 and got == some("sets/%s/train" % name, count, **options),
               "%s, %s order: the first batch of an index of %.1f MiB after %.2f MiB" % (name, order, whole / MIB, asked / MIB), (waited, got[:1]))
        if count > COUNT / batch:
            tap.ok(server.bytes < 1.02 * folder_bytes(name), "and of an epoch each byte is fetched once", (server.bytes, folder_bytes(name)))


def folder_bytes(name):
    return sum(os.path.getsize("sets/%s/train/%s" % (name, file)) for file in os.listdir("sets/%s/train" % name))


def proven(server):
    """Block order takes each sample to lie at the place of its number until an entry says otherwise: in the first batch, or later."""
    wrong, first, near = [], 0, 0
    for name, seeds in (("swapped", range(12)), ("mixed", (1, 2))):
        for seed in seeds:
            fresh(server)
            options = {"order": "block", "block": 500, "group": 1 + 3 * (seed % 2), "batch_size": 50, "seed": seed}
            wanted = batches("sets/%s/train" % name, **options)
            got = batches_or_words("s3://bucket/%s/train" % name, **options)
            wrong += [] if got == wanted else [(name, seed, str(got)[:300])]
            near += name == "swapped" and any(number >= 8192 and (number - 8192) % 20 < 2 for number in wanted[0][0])
            first += name == "swapped" and any(number < 8192 and number % 4096 % 100 == 0 for number in wanted[0][0])
    tap.ok(not wrong, "sets that are not stored in the order of numbers, block order: the batches of a folder", wrong)
    tap.ok(0 < first < 12 and near, "swapped samples are in some of the first batches", (first, near))
    fresh(server)
    options = {**ORDERS["block"], "batch_size": 50}
    got = batches_or_words("s3://bucket/swapped/train", **options, workers=0)
    tap.ok(got == batches("sets/swapped/train", **options, workers=0), "and without threads", str(got)[:300])
    fresh(server)
    said = [run(FFINSPECT, "s3://bucket/mixed/train", "--cache-plan", "--order", "block", "--block", 500, "--group", 4, "--cache", "cache").stdout for _ in range(2)]
    tap.ok(said[0] == said[1] and "an epoch uses" in said[0], "a plan counts over the order of storage, whatever the cache has of the index", said)


def training(server, env):
    """fftrain needs all labels before its first step, but not all entries, whatever the cache may have."""
    for size in ("1G", "20M"):
        fresh(server)
        done = run(FFTRAIN, "--data", "s3://bucket/raw", "--model", "smallnet", "--batch", 64, "--epochs", 1, "--val", "none", "--order", "sequential", "--dry-run", "--cache-size", size,
                   env={**env, "FFPACK_CACHE": os.path.abspath("cache")})
        asked, whole = sum(end + 1 - begin for begin, end in asked_index(server)), os.path.getsize("sets/raw/train/index.ffx")
        tap.ok(done.returncode == 0 and 8 * COUNT < asked < whole / 3, "fftrain starts with %.2f of %.2f MiB of the index, a cache of %s" % (asked / MIB, whole / MIB, size), done.stderr + done.stdout)


def same_batches(server):
    cases = [(name, order) for name in ("raw", "mixed", "zstd") for order in ORDERS]
    for name, order in cases:
        fresh(server)
        options = {**ORDERS[order], "batch_size": 100}
        got, wanted = batches_or_words("s3://bucket/%s/train" % name, **options), batches("sets/%s/train" % name, **options)
        tap.ok(got == wanted, "%s, %s order: the batches of a folder" % (name, order), str(got)[:300])
    weights = (numpy.arange(COUNT) % 7 + 1).tolist()
    for what, options in (("where", {"where": "label in (3, 4)"}), ("a part", {"split": "train:0.3"}), ("a part by label", {"split": "val:0.1 stratified"}),
                          ("balanced classes", {"weights": "balanced", "samples_per_epoch": 2000}), ("weights", {"weights": weights, "samples_per_epoch": 2000}),
                          ("numbers", {"indices": list(range(COUNT - 1, 0, -7))}), ("classes in a batch", {"per_class": 5}), ("no threads", {"workers": 0})):
        for order in ({"order": "random"}, {"order": "block", "block": 500, "group": 8}):
            fresh(server)
            options = {**options, **order, "batch_size": 50}
            got, wanted = batches_or_words("s3://bucket/raw/train", **options), batches_or_words("sets/raw/train", **options)
            tap.ok(got == wanted and isinstance(got, list) or isinstance(wanted, str) and isinstance(got, str) and order["order"] == "block",
                   "%s, %s order: the batches of a folder" % (what, order["order"]), (str(got)[:300], str(wanted)[:300]))


def other_ways(server):
    """A cache that removes pieces from the first batch on; a link that is lost; resumed; with a set in a folder."""
    options = {"order": "random", "batch_size": 100, "seed": 4}
    wanted = batches("sets/raw/train", **options)
    fresh(server)
    got = batches_or_words("s3://bucket/raw/train", **options, cache_size="6M")
    tap.ok(got == wanted, "a cache of 6 MiB: the batches of a folder", str(got)[:300])
    for after in (2, 5, 30):
        fresh(server)
        server.fault = lambda number, handler, after=after: ("reset",) if number > after else None
        began = time.monotonic()
        got = batches_or_words("s3://bucket/raw/train", **options, storage_timeout=2)
        tap.ok(isinstance(got, str) and "s3://bucket/raw/train" in got and "\n" not in got and time.monotonic() - began < 40, "the link is lost after %d requests: a sentence" % after, (got if isinstance(got, str) else "batches", time.monotonic() - began))
    server.fault = None
    for order in ORDERS:
        fresh(server)
        own = {**ORDERS[order], "batch_size": 100}
        first = loader_of("sets/raw/train", **own)
        iterator = sums_of(first)
        for _ in range(20):
            next(iterator)
        state, rest = first.state_dict(), list(iterator)
        later = loader_of("s3://bucket/raw/train", **own)
        later.load_state_dict(state)
        tap.ok(list(sums_of(later)) == rest and len(rest) == COUNT // 100 - 20, "%s order, resumed from behind the URL" % order, len(rest))
    for order in ORDERS:
        fresh(server)
        own = {**ORDERS[order], "batch_size": 100}
        got = batches_or_words(["s3://bucket/raw/train", "sets/mixed/train"], **own)
        tap.ok(got == batches(["sets/raw/train", "sets/mixed/train"], **own), "%s order, with a set in a folder" % order, str(got)[:300])


def on_ranks(server, env):
    for order in ORDERS:
        fresh(server)
        options = {**ORDERS[order], "batch_size": 100, "world": 4, "cache": "cache"}
        ranks = [started("s3://bucket/raw/train", rank=rank, **options) for rank in range(4)]
        got = [result(rank) for rank in ranks]
        wanted = [batches("sets/raw/train", **{**options, "rank": rank, "cache": None}) for rank in range(4)]
        asked = sum(int(end) + 1 - int(begin) for _, what, where in server.log if what == INDEX for begin, end in re.findall(r"(\d+)-(\d+)", where))
        tap.ok(got == wanted, "four ranks, %s order: the batches of a folder" % order, str(got)[:300])
        tap.ok(asked < 1.6 * os.path.getsize("sets/raw/train/index.ffx"), "and together they fetch about one index", asked)
    fresh(server)
    env = {**env, "FFPACK_CACHE": os.path.abspath("cache")}
    got = [losses(data, "--epochs", 1, "--ranks", 4, "--batch", 1000, env=env) for data in ("s3://bucket/raw", "sets/raw/train")]
    tap.ok(got[0] == got[1] and isinstance(got[0], list), "fftrain on four ranks: the losses of a folder", got)


def asked_index(server):
    """The ranges of the index that were asked for."""
    return [tuple(map(int, re.findall(r"\d+", where))) for _, what, where in server.log if what == INDEX]


def index_file():
    return next(os.path.join(at, "index.ffx") for at, _, names in os.walk("cache") if "index.ffx" in names)


def killed(server, times):
    """Killed while parts of the index are there: the next run has the right batches, and fetches what is missing."""
    options = {"order": "random", "batch_size": 100, "cache": "cache"}
    wanted, wrong, again = batches("sets/raw/train", **{**options, "cache": None}), [], []
    for i in range(times):
        fresh(server)
        gate = Gate(server, (0.3 + 0.5 * i) * MIB)
        process = started("s3://bucket/raw/train", **options)
        while gate.asked < gate.most - 0.2 * MIB and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        gate.open.set()
        server.settle()
        server.forget()
        server.fault = None
        got = result(started("s3://bucket/raw/train", **options))
        again.append(sum(end + 1 - begin for begin, end in asked_index(server)))
        if got != wanted:
            wrong.append((i, str(got)[:300]))
    tap.ok(not wrong, "killed %d times with parts of the index" % times, wrong)
    tap.ok(again[-1] < os.path.getsize("sets/raw/train/index.ffx"), "what was there is not fetched again", again)


def spoilt(server):
    """Wrong bytes in the cached index, and on their way."""
    options = {"order": "random", "batch_size": 100}
    wanted = batches("sets/raw/train", **options)
    fresh(server)
    first = batches("s3://bucket/raw/train", **options)
    size = os.path.getsize(index_file())
    for at in (5000, size // 2, size - 400000):
        with open(index_file(), "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))
        server.forget()
        got = batches_or_words("s3://bucket/raw/train", **options)
        tap.ok(first == wanted and got == wanted and any(begin <= at <= end for begin, end in asked_index(server)[1:]), "a wrong byte in the cached index at %d: fetched again" % at, (str(got)[:300], asked_index(server)))

    def once(number, handler, seen=set()):
        if handler.name == INDEX and handler.headers.get("Range") not in seen and handler.headers.get("Range") != "bytes=0-16383":
            seen.add(handler.headers.get("Range"))
            return ("flip", 77)
    fresh(server)
    server.fault = once
    got = batches_or_words("s3://bucket/raw/train", **options)
    tap.ok(got == wanted, "a byte of each part is wrong on its way, once: fetched again", str(got)[:300])
    seen = set()

    def each_piece(number, handler):
        where = handler.headers.get("Range")
        if handler.name.endswith(".ffs") and (handler.name, where) not in seen:
            seen.add((handler.name, where))
            begin, end = map(int, re.findall(r"\d+", where))
            return ("flip", 50000) if end - begin > 100000 else None
    both = {"order": "random", "batch_size": 500, "workers": 4}
    wanted_of_both, wrong = batches(["sets/raw/train"] * 2, **both), []
    for _ in range(3):
        fresh(server)
        seen.clear()
        server.fault = each_piece
        got = batches_or_words(["s3://bucket/raw/train"] * 2, **both)
        wrong += [] if got == wanted_of_both else [str(got)[:300]]
    tap.ok(not wrong, "a byte of each piece is wrong on its way, once, while two sets and four threads read the piece: fetched again", wrong)
    for what, fault in (("each part of the index is wrong", lambda number, handler: ("flip", 77) if handler.name == INDEX and "=0-" not in handler.headers.get("Range") else None),
                        ("the server sends no ranges", lambda number, handler: ("whole",))):
        fresh(server)
        server.fault = fault
        got = batches_or_words("s3://bucket/raw/train", **options)
        tap.ok(isinstance(got, str) and "s3://bucket/raw/train/index.ffx" in got and "\n" not in got, "%s: a sentence with the URL" % what, str(got)[:300])
    server.fault = None


def replaced(server):
    """The index is replaced while parts of it are there: the right batches, or a sentence."""
    options = {"order": "random", "batch_size": 100}
    wanted, older = batches("sets/raw/train", **options), server.objects[INDEX]
    for after in (1, 3, 8):
        fresh(server)

        def fault(number, handler, after=after):
            if sum(what == INDEX for _, what, _ in server.log) == after:
                server.tags[INDEX] = "replaced-%d" % after
        server.fault = fault
        got = batches_or_words("s3://bucket/raw/train", **options)
        server.tags.pop(INDEX, None)
        tap.ok(got == wanted or isinstance(got, str) and "raw/train/index.ffx: was replaced while it was read" in got, "the index is replaced after %d requests: %s" % (after, got if isinstance(got, str) else "the right batches"), str(got)[:300])
    server.objects[INDEX] = older


def programs(server, env):
    """What needs the whole index says the same as of a folder."""
    for words in (["--verify"], ["--stats"], ["--find", "17"], ["--sample", COUNT - 1], []):
        fresh(server)
        local, remote = (run(FFINSPECT, where, *words, env={**env, "FFPACK_CACHE": os.path.abspath("cache")}) for where in ("sets/raw/train", "s3://bucket/raw/train"))
        plain = [re.sub(r"(s3://bucket|sets)/|[0-9.]+ s\b|.*(history|samples/s|MiB/s).*", "", done.stdout) for done in (local, remote)]
        tap.ok(remote.returncode == local.returncode and plain[0] == plain[1], "ffinspect %s" % " ".join(map(str, words)), (remote.stderr[-300:], [pair for pair in zip(plain[0].splitlines(), plain[1].splitlines()) if pair[0] != pair[1]][:3]))
    whole = asked_index(server)
    tap.ok(len(whole) < 20, "the index is fetched by few requests", whole)


make_sets()
server = Server({}, {"key": ("secret", None)})
server.add("sets", "bucket")
env = server.environment()
os.environ.update({name: value for name, value in env.items() if name.startswith("AWS_")}, FFPACK_CACHE=os.path.abspath("cache"))
if tap.SHORT:
    few_bytes(server)
    proven(server)
    training(server, env)
    spoilt(server)
    replaced(server)
if tap.LONG:
    same_batches(server)
    other_ways(server)
    on_ranks(server, env)
    killed(server, 5)
    programs(server, env)
tap.finish()
