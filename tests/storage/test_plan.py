#!/usr/bin/python3
"""ffinspect --cache-plan: its table is what ten lines of Python count over ffload's own order, for the replacement that knows the future and
for the one that removes what was used the longest ago; the real cache fetches as much; fftrain's first lines say the same. Prints TAP."""
# Needs: ffpack fftrain ffinspect python-package
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server import Server  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("plans of the cache", "Python lacks a module: %s" % missing)
    tap.finish()
sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402
FFPACK, FFTRAIN, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "fftrain", "ffinspect"))
place = tempfile.mkdtemp()
os.chdir(place)
MIB, COUNT = 1 << 20, 2016


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)


def fetched(uses, size, capacity, furthest):
    """The bytes that a cache fetches in the first epoch, and in the others. uses: of each epoch the pieces."""
    every, following, last = [piece for epoch in uses for piece in epoch], {}, {}
    for at in range(len(every) - 1, -1, -1):
        following[at], last[every[at]] = last.get(every[at], len(every) + 1), at
    there, sums, at = {}, [0, 0], 0
    for epoch, pieces in enumerate(uses):
        for piece in pieces:
            if piece not in there:
                sums[epoch > 0] += size[piece]
                if len(there) == capacity:
                    del there[max(there, key=there.get)]
            there[piece] = following[at] if furthest else -at
            at += 1
    return sums[0], sums[1] // max(len(uses) - 1, 1)


def order_of(epochs, **options):
    """The numbers of the samples of each epoch."""
    loader = ffload.Loader("sets/large/train", batch_size=32, epochs=1, return_indices=True, last_batch="keep", workers=0, as_="numpy", **options)
    return [[int(number) for batch in loader for number in batch[-1]] for _ in range(epochs)]


def uses_of(epochs, **options):
    """The pieces of each epoch, in the order of their use; each once in a group of blocks, which is read into memory."""
    together = options["block"] * options["group"] if "group" in options else 0
    uses = []
    for numbers in order_of(epochs, **options):
        one = []
        for begin in range(0, COUNT, together or 1):
            found = [piece for number in numbers[begin:begin + (together or 1)] for piece in pieces[number]]
            one += list(dict.fromkeys(found)) if together else found
        uses.append(one)
    return uses


def plan(*options, data="sets/large/train"):
    done = run(FFINSPECT, data, "--cache-plan", "--json", *options)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def tables():
    words = {"random": {"order": "random", "seed": 5}, "sequential": {"order": "sequential"}, "blocks": {"order": "block", "block": 63, "group": 2, "seed": 3},
             "blocks in larger groups": {"order": "block", "block": 21, "group": 12}, "blocks of a sample": {"order": "block", "block": 1, "group": 96}}
    for name, own in words.items():
        for epochs in (1, 2, 4):
            found = plan(*["--%s=%s" % item for item in own.items()], "--epochs", epochs)
            uses, wrong = uses_of(epochs, **own), []
            for line in found["sizes"]:
                capacity = line["cache_bytes"] // MIB
                expected = fetched(uses, size, capacity, True) + fetched(uses, size, capacity, False)
                got = (line["first_epoch_bytes"], line["further_epoch_bytes"], line["least_recently_used_first_epoch_bytes"], line["least_recently_used_further_epoch_bytes"])
                if got != expected:
                    wrong.append((line["percent"], got, expected))
            if found["sizes"][-1]["further_epoch_bytes"] or found["sizes"][-1]["first_epoch_bytes"] != found["epoch_bytes"]:
                wrong.append(("all of the set", found["sizes"][-1]))
            tap.ok(not wrong and found["epoch_bytes"] == sum(size[piece] for piece in set(uses[0])), "%s, %d epochs: the table is what Python counts" % (name, epochs), wrong)
    far = plan("--order=block", "--block=63", "--group=2", data="s3://bucket/large/train")
    near = plan("--order=block", "--block=63", "--group=2")
    tap.ok(dict(far, path="") == dict(near, path=""), "a URL has the plan of its folder", (far, near))
    defaults = [plan("--order=block", data=data) for data in ("s3://bucket/large/train", "sets/large/train")]
    tap.ok(defaults[0]["sizes"] == defaults[1]["sizes"] and defaults[0]["block"] == defaults[1]["block"] == 42, "and its blocks, of two pieces", defaults)
    run_block = re.search("order block .([0-9]+) samples", run(FFTRAIN, "--data", "s3://bucket/large", "--val", "none", "--model", "smallnet", "--dry-run", "--order", "block").stdout)
    near_block = re.search("order block .([0-9]+) samples", run(FFTRAIN, "--data", "sets/large", "--val", "none", "--model", "smallnet", "--dry-run", "--order", "block").stdout)
    tap.ok(run_block and run_block[1] == "42" and near_block and near_block[1] == "21", "as a run has them", (run_block, near_block))
    text = run(FFINSPECT, "sets/large/train", "--cache-plan", "--order", "block", "--block", 63, "--group", 2).stdout.splitlines()
    tap.ok(text[0].startswith("sets/large/train: an epoch uses 94.") and "order block (63 samples a block, 2 blocks a group)" in text[0] and len(text) == 9 and text[-1].split()[2:4] == ["100", "%"], "as text", text)


def real():
    """The cache itself, at each size of the table."""
    for name, own in (("blocks", {"order": "block", "block": 63, "group": 2}), ("sequential", {"order": "sequential"})):
        rows = {line["percent"]: line for line in plan(*["--%s=%s" % item for item in own.items()])["sizes"]}
        for percent in (25, 50, 100):
            shutil.rmtree("cache", ignore_errors=True)
            server.forget()
            # Beside the pieces the cache has the ends of shards.
            loader = ffload.Loader("s3://bucket/large/train", batch_size=32, epochs=3, last_batch="keep", workers=2, as_="numpy", memory="8M", cache="cache",
                                   cache_size=rows[percent]["cache_bytes"] + MIB, **own)
            for _ in loader:
                pass
            loader.close()
            wanted = rows[percent]["first_epoch_bytes"] + 2 * rows[percent]["further_epoch_bytes"]
            tap.ok(wanted <= server.bytes * 1.02 and server.bytes <= 1.2 * wanted + 2 * MIB, "%s, a cache of %d %%: %.1f MiB are fetched, and the plan has %.1f" % (name, percent, server.bytes / MIB, wanted / MIB))
    shutil.rmtree("cache", ignore_errors=True)


def told():
    """The lines with which a run begins."""
    train = [FFTRAIN, "--data", "s3://bucket/large", "--val", "none", "--model", "smallnet", "--batch", 32, "--threads", 1, "--dry-run", "--cache", "cache"]
    own = ["--order", "block", "--block", 63, "--group", 2]
    half = next(line for line in plan(*own)["sizes"] if line["percent"] == 50)
    two = next(line for line in plan(*own, "--epochs", 2)["sizes"] if line["percent"] == 50)
    done = run(*train, *own, "--cache-size", half["cache_bytes"])
    said = re.search(r"^cache +(.*)$", done.stdout, re.M)
    tap.ok(said and ": an epoch fetches %.1f MiB; with --cache-size 97M, which has all of the set, only the first one does" % (two["further_epoch_bytes"] / MIB) in said[1], "a run says what an epoch fetches, and with which cache it would be less",
           (done.stdout[-3000:], done.stderr, two))
    small = "the cache of %s MiB is smaller than the %s MiB that the order mixes, and a sample that it lacks fetches a piece of 1 MiB: a cache of %sM has them"
    mixed = re.search("has all of the set, only the first one does, ([0-9.]+) MiB", done.stdout)[1]
    tap.ok("that the order mixes" not in done.stdout, "memory has a group's blocks: the cache is not too small", done.stdout)
    done = run(*train, "--order", "random", "--cache-size", "20M")
    tap.ok("\n               %s\n" % small % ("20.0", mixed, 97) in done.stdout, "random order and a cache of a part: what a sample fetches, and with which cache it does not", done.stdout)
    for what, said, options in (("random order", small % ("20.0", mixed, 97), {"cache_size": "20M"}), ("block order, no threads", small % ("6.0", "8.0", 9), {"cache_size": "6M", "order": "block", "block": 63, "group": 2, "workers": 0}),
                                ("a larger cache", None, {"cache_size": "11M", "order": "block", "block": 63, "group": 2, "workers": 0}), ("threads", None, {"cache_size": "11M", "order": "block", "block": 63, "group": 2}),
                                ("a sequence", None, {"cache_size": "6M", "order": "sequential"}), ("all in the cache", None, {"cache_size": "200M"})):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ffload.Loader("s3://bucket/large/train", batch_size=32, cache="cache", **options).close()
        tap.ok([str(one.message) for one in found] == (["s3://bucket/large/train: " + said] if said else []), "a loader warns of its cache: %s" % what, [str(one.message) for one in found])
    shutil.rmtree("cache")
    done = run(*train, *own, "--cache-size", "200M")
    tap.ok(re.search(r"^cache +200.0 MiB in .*cache: the first epoch fetches [0-9.]+ MiB, further ones nothing$", done.stdout, re.M), "with a cache of the whole set", (done.stdout[-2000:], done.stderr))
    done = run(FFTRAIN, "--data", "sets/large", *train[3:-2])
    tap.ok(done.returncode == 0 and not re.search("^cache ", done.stdout, re.M), "a folder has no such line", done.stdout)


def refused():
    for options, words in ((["--order", "block"], "--order is of --cache-plan, which is missing"), (["--epochs", 2], "--epochs is of --cache-plan"), (["--cache-plan", "--block", 3], "--block is of --order block, and the order is random"),
                           (["--cache-plan", "--verify"], "--cache-plan prints a table and nothing else"), (["--cache-plan", "--epochs", 0], "--epochs: 0 is out of range"), (["--cache-plan", "--order", "blocks"], "--order")):
        done = run(FFINSPECT, "sets/large/train", *options)
        tap.ok(done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, "refused: %s" % " ".join(map(str, options)), done.stderr)
    done = run(FFINSPECT, "sets", "--cache-plan")
    tap.ok(done.returncode != 0 and done.stderr.count("\n") == 1, "not a set", done.stderr)


numpy.save("x.npy", numpy.random.RandomState(2).randint(0, 256, (COUNT, 64, 64, 3), dtype=numpy.uint8))
numpy.save("y.npy", numpy.arange(COUNT) % 10)
done = run(FFPACK, "x.npy", "-o", "sets/large/train", "--shard-size", "3M", "--dtype", "f32", "--stats", "compute")
assert done.returncode == 0, done.stderr
facts = json.loads(run(FFINSPECT, "sets/large/train", "--sample", "0:%d" % COUNT, "--json").stdout)["splits"][0]["sample"]
pieces = [[(fact["shard"], piece) for piece in range(fact["offset"] // MIB, (fact["offset"] + fact["bytes"] - 1) // MIB + 1)] for fact in facts]
shard_bytes = {fact["shard"]: os.path.getsize(os.path.join("sets/large/train", fact["shard"])) for fact in facts}
size = {(shard, piece): min(MIB, shard_bytes[shard] - piece * MIB) for shard, piece in {piece for each in pieces for piece in each}}
server = Server()
server.add("sets", "bucket")
for name in list(os.environ):
    if name.startswith(("AWS_", "FFPACK_CACHE")):
        del os.environ[name]
os.environ.update(AWS_ENDPOINT_URL=server.url, AWS_EC2_METADATA_DISABLED="true", HOME=place)
tables()
real()
told()
refused()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
