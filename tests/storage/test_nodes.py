#!/usr/bin/python3
"""Order node-block: ffload's and fftrain's samples are those of the definition in loader/sequence/order.h, written again here; two machines
with a cache each fetch the set once together, where the ranks of another order fetch it twice; resumed, with other numbers of ranks, and
its neighbours. Prints TAP."""
# Needs: ffpack fftrain ffinspect python-package
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import runs  # noqa: E402
import tap  # noqa: E402
from philox import M32, mix, order_keys, permuted  # noqa: E402
from server import Server  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("order node-block", "Python lacks a module: %s" % missing)
    tap.finish()
sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402
FFPACK, FFTRAIN, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "fftrain", "ffinspect"))
rng = random.Random(7)
place = tempfile.mkdtemp()
os.chdir(place)
MIB = 1 << 20


def run(*command, env=None):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, env=env)


def defined(n, seed, epoch, block, group, batch, machines, pairs):
    """The samples of an epoch, by the page."""
    outer, inner, blocks, unit = order_keys(seed, epoch, 1), order_keys(seed, epoch, 2), -(-n // block), 2 if pairs else 1
    group = min(group, blocks)
    samples = [sample for at in range(blocks) for sample in range(permuted(outer, blocks, at, 0) * block, n)[:block]]
    cut = [unit * (batch * m // (unit * machines)) for m in range(machines)] + [batch]
    begin = [n // batch * c + min(n % batch, c) for c in cut]
    order, own = [], [0] * machines
    for p in range(n):
        m = max(m for m in range(machines) if cut[m] <= p % batch)
        q, own[m] = own[m], own[m] + 1
        g = q // (group * block)
        first = g * group * block
        size = min(group * block, begin[m + 1] - begin[m] - first)
        order.append(samples[begin[m] + first + permuted(inner, size, q - first, mix(g * machines + m + 1 & M32))])
    return order


def numbers(data, **options):
    """The numbers of the samples of each batch of an epoch."""
    loader = ffload.Loader(data, return_indices=True, workers=0, as_="numpy", order="node-block", **options)
    return [[int(number) for number in batch[-1] if number >= 0] for batch in loader]


def by_definition():
    """Loaders of drawn options: what all ranks have together is the definition's order, whatever the ranks."""
    for i in range(12):
        machines, ranks = rng.choice((1, 2, 3)), rng.choice((1, 2, 3))
        batch, pairs = 6 * rng.choice((2, 4, 5)) * machines, rng.random() < 0.3
        own = dict(seed=rng.randrange(100), block=rng.choice((1, 7, 20, 300)), group=rng.choice((1, 3, 50)), machines=machines)
        if pairs:
            own["augment"] = "mixup=0.2"
        got = []
        parts = [numbers("sets/small/train", batch_size=batch, last_batch="pad", rank=r, world=ranks, **own) for r in range(ranks)]
        for together in zip(*parts):
            got += [number for part in together for number in part]
        wanted = defined(COUNT, own["seed"], 0, own["block"], own["group"], batch, machines, pairs)
        tap.ok(got == wanted and sorted(got) == list(range(COUNT)), "%d machines, %d ranks, batches of %d%s, %d samples a block, %d blocks a group" % (machines, ranks, batch, " pairs" if pairs else "", own["block"], own["group"]), (got[:20], wanted[:20]))
    loader = ffload.Loader("sets/small/train", batch_size=20, epochs=1, order="node-block", block=7, group=3, machines=2, return_indices=True, workers=2, last_batch="keep", as_="numpy")
    epochs = [[int(number) for batch in loader for number in batch[-1]] for _ in range(3)]
    tap.ok(epochs == [defined(COUNT, 0, epoch, 7, 3, 20, 2, False) for epoch in range(3)], "three epochs")
    found = [ffload.Loader("sets/small/train", batch_size=20, order="node-block", rank=0, world=4, last_batch="drop").state_dict(), ]
    tap.ok(found[0]["order"] == "node-block" and found[0]["machines"] == 4, "machines are those of the ranks: one without a launcher's variables each", found)


def resumed():
    """A state continues with other ranks of as many machines, and is refused with another number of machines."""
    own = dict(batch_size=24, order="node-block", block=7, group=3, seed=4, return_indices=True, last_batch="pad", as_="numpy")
    wanted = defined(COUNT, 4, 0, 7, 3, 24, 2, False)
    loader = ffload.Loader("sets/small/train", machines=2, rank=0, world=1, **own)
    batches = iter(loader)
    first = [int(number) for _ in range(4) for number in next(batches)[-1]]
    state, rest = loader.state_dict(), []
    parts = []
    for rank in range(3):
        other = ffload.Loader("sets/small/train", machines=2, rank=rank, world=3, workers=0, **own)
        other.load_state_dict(state)
        parts.append([[int(number) for number in batch[-1] if number >= 0] for batch in other])
    for together in zip(*parts):
        rest += [number for part in together for number in part]
    tap.ok(first + rest == wanted, "a state continues with three ranks", (first[:5], rest[:5]))
    try:
        ffload.Loader("sets/small/train", machines=3, **own).load_state_dict(state)
        said = ""
    except ffload.UsageError as error:
        said = str(error)
    tap.ok("machines 2" in said and "3" in said, "another number of machines is refused", said)


def losses(log):
    with open(log) as file:
        return [line["train_loss"] for line in map(json.loads, file) if line["event"] == "epoch"]


def trained():
    """fftrain: the same losses with 1 and 2 ranks for as many machines, in a folder and from the server, and resumed."""
    train = [FFTRAIN, "--model", "smallnet", "--batch", 32, "--seed", 1, "--val", "none", "--quiet", "--threads", 1]
    order = ["--order", "node-block", "--machines", 2, "--block", 20, "--group", 3]
    found = {}
    for name, more in (("one", ["--data", "sets/small", "--epochs", 2]), ("far", ["--data", "s3://bucket/small", "--epochs", 2])):
        done = run(*train, *order, *more, "-o", name, "--checkpoint-every", "7 steps", "--keep", 20, "--log-json", name + ".jsonl")
        found[name] = losses(name + ".jsonl") if done.returncode == 0 else done.stderr
    tap.ok(found["one"] == found["far"] and len(found["one"]) == 2, "the losses of a folder", found)
    done = run(FFTRAIN, "--resume", "one/checkpoints/step-7", "--quiet", "--log-json", "again.jsonl")
    tap.ok(done.returncode == 0 and losses("again.jsonl") == found["one"], "resumed within an epoch", (done.stderr, found))
    with open("one/recipe.txt") as file:
        recipe = file.read()
    tap.ok("order = node-block" in recipe and "machines = 2" in recipe, "recorded", recipe)
    done = run(FFTRAIN, "--resume", "one", "--epochs", 3, "--machines", 1, "--quiet")
    tap.ok(done.returncode == 2 and "--machines" in done.stderr, "a resumed run keeps its machines", done.stderr)
    # The parameters hardly move, so that rounding cannot grow in them: each step has the loss of its own samples.
    steps = {}
    for ranks in (1, 2):
        still = run(*train, *order, "--data", "sets/small", "--epochs", 2, "--ranks", ranks, "--sync-bn", "--lr", 1e-7, "--hash-every", 1, "-o", "still%d" % ranks)
        steps[ranks] = runs.losses("still%d" % ranks) if still.returncode == 0 else still.stderr
    near = len(steps[1]) == len(steps[2]) == 2 * (COUNT // 32) and max(abs(a - b) for a, b in zip(steps[1], steps[2])) < 1e-5
    tap.ok(near, "two ranks have the same samples", steps)
    blocks = run(*train, "--order", "node-block", "--data", "sets/small", "--dry-run", "--ranks", 2)
    tap.ok("order node-block (" in run(*[word for word in train if word != "--quiet"], *order, "--data", "sets/small", "--dry-run").stdout, "a run says it", blocks.stderr)


def machines(kind, **more):
    """Two ranks of two machines, each with its own cache: the bytes that both fetch."""
    server.forget()
    for name in ("cache0", "cache1"):
        shutil.rmtree(name, ignore_errors=True)
    got = [None, None]

    def one(rank):
        loader = ffload.Loader("s3://bucket/large/train", batch_size=32, rank=rank, world=2, epochs=EPOCHS, order=kind, block=63, group=2, workers=2, memory="8M", return_indices=True,
                               last_batch="keep", as_="numpy", cache="cache%d" % rank, cache_size="200M", **more)
        got[rank] = [int(number) for batch in loader for number in batch[-1]]
        loader.close()
    threads = [threading.Thread(target=one, args=(rank,)) for rank in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return server.bytes / MIB, got


def fetched():
    """In the first epoch; caches that have everything show what a machine needs at all."""
    blocks, _ = machines("block")
    nodes, got = machines("node-block")
    tap.ok(len(got[0]) + len(got[1]) == LARGE and len(set(got[0]) | set(got[1])) == LARGE and blocks > 1.8 * 94 and nodes < 1.1 * 94 + 4,
           "of a set of 94 MiB two machines fetch %.0f MiB in block order, %.0f in order node-block" % (blocks, nodes), (len(got[0]), len(got[1])))


def refused():
    for options, words in (({"machines": 2}, "machines: is of order node-block, and the order is random"), ({"order": "block", "machines": 2}, "machines: is of order node-block, and the order is block"),
                           ({"order": "node-block", "machines": 21}, "1 to 20 machines"), ({"order": "node-block", "machines": 0}, "machines: 0 is out of range"),
                           ({"order": "node-block", "weights": "balanced"}, "order random")):
        try:
            ffload.Loader("sets/small/train", batch_size=20, **options)
            said = "nothing"
        except ffload.UsageError as error:
            said = str(error)
        tap.ok(words in said, "ffload refuses %s" % options, said)
    for options, words in ((["--machines", 2], "--machines is of --order node-block, and the order is random"), (["--order", "node-block", "--machines", 33], "1 to 32 machines"), (["--order", "node-block", "--machines", 0], "--machines: 0 is out of range")):
        done = run(FFTRAIN, "--data", "sets/small", "--model", "smallnet", "--batch", 32, "--epochs", 1, "--out", "none", "--threads", 1, *options)
        tap.ok(done.returncode == 2 and words in done.stderr, "fftrain refuses %s" % " ".join(map(str, options)), done.stderr)


COUNT, LARGE, EPOCHS = 403, 2016, 1
for name, count, side, more in (("small", COUNT, 32, []), ("large", LARGE, 64, ["--dtype", "f32"])):
    numpy.save("x.npy", numpy.random.RandomState(2).randint(0, 256, (count, side, side, 3), dtype=numpy.uint8))
    numpy.save("y.npy", numpy.arange(count) % 10)
    done = run(FFPACK, "x.npy", "-o", "sets/%s/train" % name, "--shard-size", "3M", "--stats", "compute", *more)
    assert done.returncode == 0, done.stderr
server = Server()
server.add("sets", "bucket")
for name in list(os.environ):
    if name.startswith(("AWS_", "FFPACK_CACHE", "LOCAL_WORLD_SIZE")):
        del os.environ[name]
os.environ.update(AWS_ENDPOINT_URL=server.url, AWS_EC2_METADATA_DISABLED="true", HOME=place)
by_definition()
resumed()
trained()
fetched()
refused()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
