#!/usr/bin/python3
"""Long runs from a URL: memory, threads and descriptors stay flat over 10,000 batches; no batch is wrong in 10,000 injected faults of the
server, drawn by a seed (FF_SEED): codes, connections that end, bodies that are cut, changed or shifted, stalls, other versions. Prints
TAP."""
# Needs: ffpack ffinspect python
import ast
import collections
import os
import random
import shutil
import tempfile
import time

from server import Server
from remote_sets import MIB, batches, batches_or_words, loader_of, make_set, tap
SEED = int(os.environ.get("FF_SEED", "1"))
FAULTS = int(os.environ.get("FF_FAULTS", "10000"))
WORKERS = 8
place = tempfile.mkdtemp()
os.chdir(place)


def resources():
    with open("/proc/self/smaps_rollup") as file:
        anonymous = next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
    return anonymous / 1024, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def flat(server):
    """A child fetches half of the set in every epoch, and another one maps it; this process is the server."""
    for name, size in (("a cache of half the set", "12M"), ("a full cache", "200M")):
        shutil.rmtree("cache", ignore_errors=True)
        server.forget()
        os.environ["FFPACK_CACHE_SIZE"] = size
        there, back = os.pipe()
        child = os.fork()
        if not child:
            loader = loader_of("s3://bucket/raw/train", batch_size=4, epochs=100, order="block", block=16, group=2)
            seen = []
            for at, _ in enumerate(loader):
                if at % 500 == 0:
                    seen.append(resources())
                if at == 10000:
                    break
            os.write(back, repr((seen, loader.stats()["reading"])).encode())
            os._exit(0)
        os.close(back)
        with open(there, "rb") as file:
            seen, reading = ast.literal_eval(file.read().decode() or "([], '')")
        os.waitpid(child, 0)
        early, late = seen[4:8], seen[-4:]
        grows = [max(one[i] for one in late) - max(one[i] for one in early) for i in range(3)] if len(seen) == 21 else None
        # A leak of 1 KiB a batch, or of a descriptor in a hundred requests; connections to the server come and go.
        tap.ok(grows and grows[0] < 8 and grows[1] <= 0 and grows[2] < 16, "10,000 batches from %s (%s, %.0f MiB fetched): memory grows by %s MiB, threads by %s, descriptors by %s" %
               (name, reading[:13], server.bytes / MIB, *("%.1f" % grow for grow in grows or [9, 9, 9])), seen)
    del os.environ["FFPACK_CACHE_SIZE"]


PASSING = ((("status", 500, []), 3), (("status", 503, [("Retry-After", "0")]), 3), (("status", 429, []), 3), (("status", 408, []), 1), (("reset",), 4), (("cut", 0), 2),
           (("cut", 700), 3), (("cut", 5000), 3), (("stall", 0.1), 1), (("stall", 25), 0.03), (("flip", 77), 2), (("flip",), 2))
LASTING = (("shift",), ("whole",), ("version",), ("status", 403, []), ("status", 404, []), ("status", 416, []))


def work(seed, wanted):
    """Each loader draws a share of faulty requests; in every third one a fault that does not pass comes at last. Returns what happened."""
    rng, counts, wrong, ends, loaders = random.Random(seed), collections.Counter(), [], collections.Counter(), 0
    server = Server()
    server.add("sets", "bucket")
    os.environ.update(AWS_ENDPOINT_URL=server.url, FFPACK_CACHE="cache%d" % seed)
    kinds, weights = zip(*PASSING)
    names = ("few", "packed")
    expected = {name: batches("sets/%s/train" % name, epochs=2) for name in names}
    while sum(counts.values()) < wanted:
        loaders += 1
        name, share, size = rng.choice(names), rng.choice((0.05, 0.2, 0.4)), rng.choice(("6M", "200M"))
        last = rng.randrange(5, 200) if loaders % 3 == 0 else None
        lasting, chance = rng.choice(LASTING), random.Random(rng.random())

        def fault(number, handler, share=share, last=last, lasting=lasting, chance=chance):
            with server.lock:
                kind = lasting if number == last else chance.choices(kinds, weights)[0] if chance.random() < share else None
                if kind:
                    counts[kind[0] + (str(kind[1]) if kind[0] == "status" else "")] += 1
                return kind
        shutil.rmtree("cache%d" % seed, ignore_errors=True)
        os.environ["FFPACK_CACHE_SIZE"] = size
        server.forget()
        server.fault = fault
        got = batches_or_words("s3://bucket/%s/train" % name, epochs=2)
        server.fault = None
        case = (seed, loaders, name, share, size, last, lasting)
        if isinstance(got, str):
            ends[got.split("train")[-1][:60]] += 1
            # A sentence needs a fault that does not pass, or bytes that were changed twice.
            if "\n" in got or "train" not in got or (last is None and not got.startswith("BadData")):
                wrong.append((*case, got))
        elif got != expected[name]:
            wrong.append((*case, "%d wrong batches" % sum(one != other for one, other in zip(got, expected[name]))))
    return counts, wrong, ends, loaders


def faults():
    """Workers mostly wait for the pauses between attempts, so there are several."""
    began, pipes = time.monotonic(), []
    for i in range(WORKERS):
        back, there = os.pipe()
        if not os.fork():
            os.write(there, repr([dict(one) if isinstance(one, collections.Counter) else one for one in work(SEED * WORKERS + i, FAULTS // WORKERS)]).encode())
            os._exit(0)
        os.close(there)
        pipes.append(back)
    counts, wrong, ends, loaders, ended = collections.Counter(), [], collections.Counter(), 0, 0
    for back in pipes:
        with open(back, "rb") as file:
            text = file.read()
        if not text:
            continue
        one = ast.literal_eval(text.decode())
        counts.update(one[0])
        wrong += one[1]
        ends.update(one[2])
        loaders += one[3]
        ended += 1
    tap.ok(not wrong and ended == WORKERS, "%d faults in %d loaders (%.0f s, seed %d): no wrong batch; %d ended with a sentence; %s" %
           (sum(counts.values()), loaders, time.monotonic() - began, SEED, sum(ends.values()), ", ".join("%s %d" % pair for pair in sorted(counts.items()))),
           [str(one) for one in wrong] or "%d of %d workers" % (ended, WORKERS))
    print("#", dict(ends))


make_set("raw", 500, 64, "--shard-size", "3M")
make_set("few", 400, 32, "--shard-size", "60K")
make_set("packed", 400, 32, "--shard-size", "60K", "--compress", "zstd")
os.environ.update({name: value for name, value in Server().environment(FFPACK_CACHE="cache").items() if name.startswith(("AWS_", "FFPACK_", "HOME"))})
if FAULTS:
    faults()
server = Server()
server.add("sets", "bucket")
os.environ["AWS_ENDPOINT_URL"] = server.url
flat(server)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
