#!/usr/bin/env python3
"""ffload.Loader on the CPU: its batches compared with the trainer's, epochs, ranks, resuming, mixed batches, what it refuses. TAP."""
import copy
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import FOLDER, PLACE, finish, make_set, python, raises  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

SET = make_set("plain", "--count", 100, "--height", 8, "--width", 8)
WORDS = dict(augment="crop=2,flip", layout="contiguous")


def Loader(path, *arguments, **words):
    """NumPy's arrays, and the whole batches alone."""
    if "last_batch" not in words and "drop_last" not in words:
        words["last_batch"] = "drop"
    return ffload.Loader(path, *arguments, **{"as_": "numpy", **words})


def epoch(loader):
    return [tuple(numpy.array(part) for part in batch) for batch in loader]


def same(one, other):
    return len(one) == len(other) > 0 and all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
                                              for one_batch, other_batch in zip(one, other) for a, b in zip(one_batch, other_batch))


# ---- the trainer's batches ----
dumped = subprocess.run([tap.program("dump_batches"), SET, "16", "6", "crop=2,flip", "7"], stdout=subprocess.PIPE, check=True).stdout
found = b"".join(part.tobytes() for batch in epoch(Loader(SET, 16, seed=7, **WORDS)) for part in batch)
tap.ok(found == dumped and len(dumped) == 6 * 16 * (3 * 8 * 8 * 4 + 8), "the batches of fftrain, bit for bit", (len(found), len(dumped)))
plain = epoch(Loader(SET, 16, **WORDS))
for words in ({"workers": 0}, {"workers": 1, "prefetch": 1}, {"workers": 3}, {"verify": "off"}):
    tap.ok(same(epoch(Loader(SET, 16, **WORDS, **words)), plain), "the same bits with %s" % words)
last = [batch for batch in Loader(SET, 16, augment="crop=2,flip")]
tap.ok(same([(numpy.ascontiguousarray(images), labels) for images, labels in last], plain) and last[0][0].strides == (768, 4, 96, 12), "channels_last by default")
half = epoch(Loader(SET, 16, dtype="f16", **WORDS))
tap.ok(half[0][0].dtype == numpy.float16 and (half[0][0] == plain[0][0].astype(numpy.float16)).all(), "f16")
tap.ok(same(epoch(Loader(SET, 16, dtype=numpy.float16, **WORDS)), half) and same(epoch(Loader(SET, 16, dtype="float16", **WORDS)), half), "NumPy's names of dtypes")
stored = make_set("u8", "--count", 60, "--height", 8, "--width", 8, "--dtype", "u8")
images, labels, numbers = next(iter(Loader(stored, 60, dtype="u8", return_indices=True, layout="contiguous")))
raw = ffload.Dataset(stored, label="label", as_="numpy")
tap.ok(images.dtype == numpy.uint8 and all((images[i] == raw[int(n)][0]).all() and labels[i] == raw[int(n)][1] for i, n in enumerate(numbers)) and
       sorted(numbers) == list(range(60)), "u8 as stored; return_indices=True gives their numbers")
tap.ok(next(iter(Loader(SET, 8, augment="rrc=24,flip")))[0].shape == (8, 3, 24, 24) and next(iter(Loader(SET, 8, augment=["resize=12", "flip"])))[0].shape[2:] == (12, 12)
       , "the size is the augmentation's")
tap.ok(next(iter(Loader(make_set("sizes", "--count", 9, "--variable", "--height", 12, "--width", 12), 4, augment="rrc=8", size=(8, 8))))[0].shape == (4, 3, 8, 8), "samples of different sizes")

# ---- epochs ----
two = Loader(SET, 16, **WORDS)
first, second = epoch(two), epoch(two)
tap.ok(same(first, plain) and not same(second, plain) and two.epoch == 2 and len(two) == 6, "each `for` is the next epoch")
tap.ok(same(epoch(Loader(SET, 16, epochs=2, **WORDS)), first + second), "epochs=2 gives both in one")
endless = iter(Loader(SET, 16, epochs=0, **WORDS))
tap.ok(same([tuple(map(numpy.array, next(endless))) for _ in range(12)], first + second) and next(endless), "epochs=0 continues")
two.set_epoch(1)
tap.ok(same(epoch(two), second), "set_epoch")
two.set_epoch(0)
kept = [next(iter(two))]
tap.ok(same([tuple(map(numpy.array, kept[0]))], first[:1]) and two.epoch == 1 and same(epoch(two), second), "after a break comes the next epoch")
two.set_epoch(3)
next(iter(two))
two.set_epoch(4)
tap.ok((two.state_dict()["epoch"], two.state_dict()["position"]) == (4, 0), "set_epoch counts at once")
two.set_epoch(0)
one, other = iter(two), None
next(one)
other = iter(two)
next(other)
tap.ok(raises(ffload.UsageError, lambda: next(one), "elsewhere"), "one iteration at a time")
info = two.batch
tap.ok(info.epoch == 1 and info.number == 0 and info.position == 0 and info.samples == info.rows == info.global_samples == 16 and not info.last, "what is known of a batch", info)

# ---- the end of an epoch ----
keep = epoch(Loader(SET, 16, last_batch="keep", return_indices=True))
tap.ok([len(batch[1]) for batch in keep] == [16] * 6 + [4] and sorted(n for batch in keep for n in batch[2]) == list(range(100)), "last_batch keep: each sample once")
pad = epoch(Loader(SET, 16, last_batch="pad"))
tap.ok(pad[-1][0].shape[0] == 16 and pad[-1][2].tolist() == [1] * 4 + [0] * 12 and (pad[-1][1][4:] == -1).all() and not pad[-1][0][4:].any(), "last_batch pad")

images, labels, weight, numbers = list(Loader(SET, 16, last_batch="pad", return_indices=True))[-1]
tap.ok(weight.dtype == numpy.float32 and numbers.dtype == numpy.int64 and (numbers[4:] == -1).all() and sorted(numbers[:4]) == sorted(keep[-1][2]), "and with return_indices=True: weight, then numbers")

# ---- kept batches ----
keeping = Loader(SET, 16, epochs=20, workers=2, **WORDS)
kept = list(keeping)
again = Loader(SET, 16, epochs=20, workers=0, **WORDS)
tap.ok(len(kept) == 120 and all((a == c).all() and (b == d).all() for (a, b), (c, d) in zip(kept, again)), "a loop that keeps all batches has the right ones")
tap.ok(keeping.stats()["blocks"] >= 120 and keeping.stats()["batches"] == 120 and keeping.stats()["samples"] == 1920, "which allocates for each", keeping.stats())
del kept
dropping = Loader(SET, 16, epochs=50, workers=2, **WORDS)
steps = iter(dropping)
for _ in range(20):
    next(steps)
blocks = dropping.stats()["blocks"]
for _ in steps:
    pass
tap.ok(dropping.stats()["blocks"] == blocks < 12, "a loop that keeps none allocates nothing after the start", (blocks, dropping.stats()))
tap.ok(0 <= dropping.stats()["wait_share"] <= 1 and dropping.stats()["fill_seconds"] > 0, "stats")

# ---- resuming ----
stopped = Loader(SET, 20, seed=3, **WORDS)
whole = epoch(stopped) + epoch(stopped)
stopped = Loader(SET, 20, seed=3, **WORDS)
epoch(stopped)
steps = iter(stopped)
next(steps), next(steps)
state = stopped.state_dict()
going = Loader(SET, 20, seed=3, **WORDS)
going.load_state_dict(state)
going.set_epoch(1)
tap.ok(same(epoch(going), whole[7:]) and going.epoch == 2, "resumed in the middle of an epoch, with set_epoch", state)
going.load_state_dict(state)
tap.ok(same(epoch(going), whole[7:]), "and once more")
ranks = [Loader(SET, 20, seed=3, rank=rank, world=2, **WORDS) for rank in range(2)]
[loader.load_state_dict(state) for loader in ranks]
halves = [epoch(loader) for loader in ranks]
tap.ok(same([tuple(numpy.concatenate(parts) for parts in zip(a, b)) for a, b in zip(*halves)], whole[7:]), "on two ranks")
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 20, seed=4).load_state_dict(state), "seed") and
       raises(ffload.UsageError, lambda: Loader(SET, 10, seed=3).load_state_dict(state)), "a state of other batches")
tap.ok(raises(ffload.UsageError, lambda: going.load_state_dict({"epoch": 1})), "a state that is none")
import json  # noqa: E402
import pickle  # noqa: E402
tap.ok(json.loads(json.dumps(state)) == state == pickle.loads(pickle.dumps(state)) and state["epoch"] == 1 and state["position"] == 40, "a state is JSON")
at_end = Loader(SET, 20, seed=3, **WORDS)
epoch(at_end)
tap.ok(at_end.state_dict()["epoch"] == 1 and at_end.state_dict()["position"] == 0, "at an epoch's end: the next one")

# ---- memory ----
def reading(**words):
    return Loader(SET, 20, **words).stats()["reading"]


tap.ok(reading(memory="16K").startswith("read directly: the set has ") and reading(memory="16K").endswith(", by the option memory") and
       reading(memory=1 << 30).startswith("mapped: the set has "), "memory decides how a set is read", reading(memory="16K"))
os.environ["FFLOAD_MEMORY"] = "16K"
tap.ok(reading().endswith(", by FFLOAD_MEMORY") and reading(memory="1G").startswith("mapped: "), "and comes before FFLOAD_MEMORY", reading())
del os.environ["FFLOAD_MEMORY"]
block = dict(order="block", block=1, seed=3, memory="16K")
state = Loader(SET, 20, **block).state_dict()
tap.ok((state["block"], state["group"]) == (1, 64) and Loader(SET, 20, order="block", block=1).state_dict()["group"] == 2048,
       "a state has the group that was chosen by the memory", state)
other = Loader(SET, 20, order="block", block=1, seed=3)
tap.ok(raises(ffload.UsageError, lambda: other.load_state_dict(state), "the state has group 64, but this loader has 2048"), "another group is refused")
other = Loader(SET, 20, order="block", block=1, group=64, seed=3)
other.load_state_dict(state)
tap.ok(same(epoch(other), epoch(Loader(SET, 20, **block))), "the same one continues, with other memory")
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 20, group=5), "group: is of order block, and the order is random") and
       raises(ffload.UsageError, lambda: Loader(SET, 20, memory="1 GB"), "memory: '1 GB' is not a size"), "what memory and blocks refuse")

# ---- labels ----
mixed = next(iter(Loader(SET, 20, augment="mixup=0.4", return_indices=True)))
images, (labels, others, share), numbers = mixed
tap.ok(others.tolist() == labels.reshape(-1, 2)[:, ::-1].ravel().tolist() and share.dtype == numpy.float32 and ((0 <= share) & (share <= 1)).all() and len(set(share.tolist())) > 2,
       "mixup: both labels and the share")
own, values = ffload.Dataset(SET, as_="numpy"), {}
blend = own[int(numbers[0])][0] * float(share[0]) + own[int(numbers[1])][0].astype(numpy.float32) * (1 - float(share[0]))
tap.ok(abs(images[0] - blend).max() < 1e-2, "the image is of these shares", abs(images[0] - blend).max())
words = dict(augment="mixup=0.4,cutmix", seed=4)
batch, soft = (next(iter(Loader(SET, 20, targets=targets, return_indices=True, **words))) for targets in ("classes", "soft"))
labels, others, share = batch[1]
wanted = numpy.zeros((20, len(own.classes)), "float32")
for row in range(20):
    wanted[row, labels[row]] += share[row]
    wanted[row, others[row]] += 1 - share[row]
tap.ok(soft[1].dtype == numpy.float32 and soft[1].shape == wanted.shape and abs(soft[1] - wanted).max() < 1e-6 and (soft[0] == batch[0]).all() and
       (soft[2] == batch[2]).all(), "soft targets: the shares of the classes", soft[1] - wanted)
images, hot = next(iter(Loader(SET, 20, targets="soft", last_batch="pad")))[:2]
tap.ok((hot == numpy.eye(len(own.classes))[next(iter(Loader(SET, 20)))[1]]).all(), "of a batch that is not mixed: one class")
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 20, targets="hot"), "classes") and
       raises(ffload.UsageError, lambda: Loader(SET, 20, targets="soft", as_="dlpack"), "torch, numpy, jax, cupy"), "other targets are refused")
seen = [batch for batch in Loader(SET, 20, seed=3, transform=lambda batch: (batch[0] * 2, batch[1]))]
tap.ok(all((a[0] == 2 * b[0]).all() and (a[1] == b[1]).all() for a, b in zip(seen, Loader(SET, 20, seed=3))), "a transform of each batch")
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 20, transform=3), "a function of a batch"), "a transform that is none")
several = make_set("fields", "--count", 30, "--fields", "label,soft,box", "--height", 8, "--width", 8)
images, labels, numbers = next(iter(Loader(several, 10, label=["box", "label"], return_indices=True)))
own = ffload.Dataset(several, as_="numpy", fields=True)
tap.ok(list(labels) == ["box", "label"] and labels["box"].shape == (10, 4) and labels["label"].dtype == numpy.int64 and
       all(labels["label"][i] == own[int(n)][1]["label"] and (labels["box"][i] == own[int(n)][1]["box"]).all() for i, n in enumerate(numbers)), "several fields, by name")
images, (labels, others, share) = next(iter(Loader(several, 10, label="soft,label", augment="cutmix")))
tap.ok(list(labels) == list(others) == ["soft", "label"] and (others["soft"][0] == labels["soft"][1]).all(), "cutmix with several fields")
tap.ok(next(iter(Loader(several, 10, label="soft")))[1].dtype == numpy.float32, "soft labels")
tap.ok(next(iter(Loader(make_set("none", "--count", 9, "--fields", ""), 4)))[1] is None, "no labels: None")

# ---- ranks ----
def standing(loader, epoch):
    loader.set_epoch(epoch)
    return loader


SHOW = "import ffload, sys; loader = ffload.Loader(sys.argv[1], 20, as_='numpy'); print(loader.describe()['rows'], [n.tobytes().hex() for *_, n in ffload.Loader(sys.argv[1], 20, return_indices=True, as_='numpy')][0][:16])"
alone, second = python(SHOW, SET).stdout, [n for *_, n in Loader(SET, 20, return_indices=True, rank=1, world=2)][0]
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train"}
for name, environment, rows in (("torchrun", TORCHRUN, 10), ("mpirun", MPIRUN, 10),
                                ("MPICH", {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, 10),
                                ("SLURM", SLURM, 10),
                                ("srun in a batch", dict(SLURM, ENVIRONMENT="BATCH", SLURM_STEP_ID="0"), 10),
                                ("a shell in SLURM", dict(SLURM, SLURM_JOB_NAME="bash"), 20),
                                ("a step of a shell", dict(SLURM, SLURM_STEP_ID="4294967290"), 20),
                                ("a batch without srun", dict(SLURM, SLURM_PROCID="0", SLURM_NTASKS="4", ENVIRONMENT="BATCH"), 20),
                                ("a torchrun in an srun of four", dict(SLURM, SLURM_PROCID="0", SLURM_NTASKS="4", **TORCHRUN), 10),
                                ("an mpirun where WORLD_SIZE is left over", dict(MPIRUN, WORLD_SIZE="8"), 10)):
    found = python(SHOW, SET, environment=environment)
    wanted = "10 %s\n" % second.tobytes().hex()[:16] if rows == 10 else alone
    tap.ok(found.stdout == wanted, "rank and world of " + name, found.stdout + found.stderr)
MAKES = "import ffload, sys; loader = ffload.Loader(sys.argv[1], 20, as_='numpy'%s); print(loader); next(iter(loader)); print('read')"
for name in TORCHRUN:
    partial = {key: value for key, value in TORCHRUN.items() if key != name}
    known = "RANK" if name != "RANK" else "WORLD_SIZE"
    found = python(MAKES % "", SET, environment=partial)
    tap.ok("rank 0 of 1" in found.stdout and "read" not in found.stdout and "UsageError: %s is set, but %s, which torchrun sets too, is not" % (known, name) in found.stderr,
           "torchrun's variables without %s: the first iteration reports it" % name, found.stdout + found.stderr)
    found = python(MAKES % ", rank=1, world=2", SET, environment=partial)
    tap.ok("rank 1 of 2" in found.stdout and "read" in found.stdout, "and rank= and world= are taken in any case", found.stdout + found.stderr)
DISTRIBUTED = """
import sys, torch, torch.distributed as distributed, ffload
how = sys.argv[4]
def make(**more):
    return ffload.Loader(sys.argv[1], 20, return_indices=True, **more)
early = make()                                      # as at the top of a script, before the ranks are known
if how == "moved":
    early.load_state_dict({**early.state_dict(), "epoch": 3})
    early.set_epoch(5)
if how == "used":
    next(iter(early))
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
loader = make() if how == "late" else early
try:
    print(torch.cat([n for *_, n in loader]).tolist())
    print(loader.describe()["rows"], loader.batch.epoch, repr(loader))
    print(torch.cat([n for *_, n in make(rank=0, world=1)]).tolist())
    distributed.destroy_process_group()
    next(iter(loader))
except ffload.UsageError as error:
    print("refused", error)
"""
try:
    import torch  # noqa: F401
except ImportError:
    tap.skip("torch.distributed", "torch is not installed")
else:
    from concurrent.futures import ThreadPoolExecutor
    for how in ("late", "early", "moved", "used"):
        with ThreadPoolExecutor() as pool:
            pair = list(pool.map(lambda rank: python(DISTRIBUTED, SET, os.path.join(PLACE, "rendezvous-" + how), rank, how), range(2)))
        lines = [one.stdout.splitlines() for one in pair]
        if how == "used":
            tap.ok(all("refused this process is rank %d of 2 now, and was rank 0 of 1 in the loader's first iteration" % rank in pair[rank].stdout for rank in range(2)),
                   "a loader that was iterated before the process group was initialized is refused", [one.stdout + one.stderr for one in pair])
            continue
        begins = 5 if how == "moved" else 0
        wanted = [torch.cat([n for *_, n in standing(Loader(SET, 20, return_indices=True, as_="torch", rank=rank, world=2), begins)]).tolist() for rank in range(2)]
        tap.ok(all(len(of) == 4 and eval(of[0]) == wanted[rank] and of[1].startswith("10 %d " % begins) and of[1].endswith("rank %d of 2" % rank) for rank, of in enumerate(lines)) and
               sorted(wanted[0] + wanted[1]) == list(range(100)), "torch.distributed's rank and world, of a loader made %s" % how, [one.stdout + one.stderr for one in pair])
        tap.ok(all(sorted(eval(of[2])) == list(range(100)) for of in lines), "rank=0, world=1 has the whole set in each process", lines)
        tap.ok(all("refused this process is rank 0 of 1 now, and was rank %d of 2" % rank in of[3] for rank, of in enumerate(lines)),
               "without its process group a loader is refused in its next iteration", lines)

# ---- a batch without rows ----
for words, wanted in ((dict(batch_size=4, rank=0, world=8), "batch_size: with 4 samples some of the 8 ranks get none"),
                      (dict(batch_size=8, rank=0, world=8, augment="mixup"), "mixup and cutmix need two for each"),
                      (dict(batch_size=30, rank=0, world=4, last_batch="keep"), "the last batch of an epoch has 10 samples and leaves rank 3 of 4 without any"),
                      (dict(batch_size=200, rank=0, world=2), 'wanted last_batch="pad", or another'), (dict(batch_size=30, rank=0, world=4, drop_last=False), "leaves rank 3 of 4 without any"),
                      (dict(batch_size=32, rank=0, world=2, last_batch="pad", cuts=8), "has 4 samples, of which ranks would get 1 to 2 parts; wanted last_batch=\"drop\" or another"),
                      (dict(batch_size=80, rank=0, world=2, last_batch="keep", cuts=2), "leaves rank 1 of 2 without any"),
                      (dict(batch_size=72, rank=0, world=2, last_batch="pad", cuts=2), "ranks would get 1 to 2 parts")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(SET, **words), wanted), "refused: %s" % words)
for words in (dict(batch_size=8, world=8), dict(batch_size=30, world=4, last_batch="pad"), dict(batch_size=35, world=8, last_batch="drop"), dict(batch_size=21, world=8, last_batch="pad"),
              dict(batch_size=64, world=2, last_batch="keep", cuts=1), dict(batch_size=52, world=2, last_batch="keep", cuts=2), dict(batch_size=32, world=2, last_batch="pad", cuts=4),
              dict(batch_size=32, world=2, last_batch="drop", augment="mixup"), dict(batch_size=60, world=2, last_batch="keep"), dict(batch_size=16, world=8, augment="mixup")):
    rows = [[len(batch[0]) for batch in Loader(SET, rank=rank, **words)] for rank in range(words["world"])]
    tap.ok(min(map(min, rows)) > 0 and len(set(map(len, rows))) == 1, "every rank has rows in every batch, and as many batches: %s" % words, rows)
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 20, epochs=1.5), "epochs=1.5: wanted a whole number") and
       raises(ffload.UsageError, lambda: Loader(SET, 20).set_epoch(2 ** 32), "epoch=4294967296: wanted a number from 0 to 4294967295") and
       raises(ffload.UsageError, lambda: Loader(SET, 20).set_epoch(1.0), "whole number"), "numbers of epochs")
tap.ok((next(iter(Loader(SET, 20, augment=[])))[0] == next(iter(Loader(SET, 20)))[0]).all(), "augment=[] is none")

# ---- looked at while a batch is awaited ----
watched = Loader(SET, 20, epochs=0, augment="rrc=64", workers=1, return_indices=True)
seen, problems, ends = [], [], threading.Event()


def look(*_):
    try:
        place = watched.state_dict()
        seen.append((place["epoch"], place["position"]))
        watched.stats(), watched.describe()
    except Exception as error:  # noqa: BLE001
        problems.append(repr(error))


def keep_looking():
    while not ends.is_set():
        look()
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.001)


before = signal.signal(signal.SIGUSR1, look)
thread = threading.Thread(target=keep_looking)
thread.start()
places = [(0, 0)]
for batch in watched:
    place = watched.state_dict()
    places.append((place["epoch"], place["position"]))
    if len(places) > 100 and len(seen) > 100:
        break
ends.set()
thread.join()
signal.signal(signal.SIGUSR1, before)
tap.ok(not problems and set(seen) <= set(places) and len(set(seen)) > 5, "state_dict, stats and describe, by another thread and in a signal handler: always the place after some batch",
       (problems[:3], len(seen), sorted(set(seen) - set(places))[:3]))
tap.ok(places[:7] == [(0, 0), (0, 20), (0, 40), (0, 60), (0, 80), (1, 0), (1, 20)], "which are these", places[:7])
watched.close()

# ---- copies and pickles ----
numbers_of = lambda loader: [n.tolist() for *_, n in loader]  # noqa: E731
source = Loader(SET, 20, return_indices=True, seed=4, augment=["crop=2", "flip"], rank=0, world=1)
halfway = iter(source)
given = [next(halfway)[-1].tolist() for _ in range(2)]
copies = [copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))]
expected = [numbers_of(standing(Loader(SET, 20, return_indices=True, seed=4), number)) for number in range(3)]
tap.ok(all(numbers_of(other) == expected[1] for other in copies), "a copy begins with the epoch that the original's next iteration begins with")
tap.ok(given + [n.tolist() for *_, n in halfway] == expected[0] and numbers_of(source) == expected[1], "and takes nothing from an iteration of the original")
source.load_state_dict({**source.state_dict(), "epoch": 2, "position": 40})
other = pickle.loads(pickle.dumps(source))
tap.ok(numbers_of(other) == expected[2][2:] == numbers_of(source), "a pickle has the position of load_state_dict")
first_images = [next(iter(standing(one, 1)))[0] for one in (source, copies[0], Loader(SET, 20, seed=4, augment="crop=2,flip"))]
tap.ok((first_images[0] == first_images[1]).all() and (first_images[0] == first_images[2]).all(), "and the arguments")
code = """
import ffload, multiprocessing, sys
def work(loader):
    return [n.tolist() for *_, n in loader]
if __name__ == "__main__":
    loader = ffload.Loader(sys.argv[1], 20, return_indices=True, as_="numpy")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work, (loader,)) == work(loader))
"""
with open(os.path.join(PLACE, "spawned.py"), "w") as file:
    file.write(code)
found = subprocess.run([sys.executable, os.path.join(PLACE, "spawned.py"), SET], env=dict(os.environ, PYTHONPATH=FOLDER), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
tap.ok(found.stdout == "True\n", "a loader is an argument of a spawned process", found.stdout + found.stderr)

# ---- a copy in a process without a rank; a refusal that stays ----
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
unranked = Loader(SET, 30, last_batch="keep")
os.environ.update(TORCHRUN)
ranked = Loader(SET, 20, return_indices=True)
again = pickle.loads(pickle.dumps(ranked))
tap.ok(numbers_of(again) == numbers_of(Loader(SET, 20, return_indices=True, rank=1, world=2)), "a copy in a process of the rank has the rank's rows")
tap.ok(all(raises(ffload.UsageError, lambda: next(iter(unranked)), "leaves rank 1 of 2 without any") for _ in range(2)), "what an iteration refuses the next one refuses")
kept = pickle.dumps(ranked)
for name in TORCHRUN:
    del os.environ[name]
tap.ok(all(raises(ffload.UsageError, lambda: next(iter(pickle.loads(one))), "a copy of the one of rank 1 of 2, but this process has no rank") for one in (kept, pickle.dumps(pickle.loads(kept)))),
       "a copy in a process without a rank is refused")
tap.ok(numbers_of(pickle.loads(pickle.dumps(Loader(SET, 20, return_indices=True, rank=1, world=2)))) == numbers_of(Loader(SET, 20, return_indices=True, rank=1, world=2)), "one that was given its rank has the rank's rows anywhere")
del unranked, ranked, again

# ---- array libraries ----
# Whichever are installed, whatever was imported before. Those that are named by the second argument seem not to be installed.
KINDS = """
import sys
first, *hidden = sys.argv[2].split(",")
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name in hidden:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
if first != "-":
    __import__(first)
import ffload
images, labels = next(iter(ffload.Loader(sys.argv[1], 16)))
image, label = ffload.Dataset(sys.argv[1])[0]
print(type(images).__module__.split(".")[0], type(images).__name__, type(labels).__name__, type(image).__name__)
"""
for modules, wanted in (("-", "torch Tensor Tensor Tensor"), ("numpy", "torch Tensor Tensor Tensor"), ("torch", "torch Tensor Tensor Tensor"),
                        ("-,torch", "numpy ndarray ndarray ndarray"), ("numpy,torch", "numpy ndarray ndarray ndarray"),
                        ("-,torch,numpy", "ffload Tensor Tensor Tensor")):
    found = python(KINDS, SET, modules)
    if "torch" in wanted and importlib.util.find_spec("torch") is None:
        tap.skip("torch", "it is not installed")
        continue
    tap.ok(found.stdout.strip() == wanted, "imported first, and not installed: %s" % modules, found.stdout + found.stderr)
tap.ok(isinstance(next(iter(Loader(SET, 16, as_="dlpack")))[0], ffload.Tensor), "as_ chooses")
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 16, as_="list"), "torch, numpy, jax, cupy, dlpack"), "as_ that there is not")

# ---- what it refuses ----
for name, call, parts in (
        ("an augmentation", lambda: Loader(SET, augment="crp=4"), ["crp", "crop"]),
        ("a label field", lambda: Loader(SET, label="fine"), ["fine", "label"]),
        ("a dtype that it has not", lambda: Loader(SET, dtype="u8"), ["u8"]),
        ("no dtype", lambda: Loader(SET, dtype="int3"), ["int3", "f32"]),
        ("a layout", lambda: Loader(SET, layout="nchw"), ["nchw", "channels_last"]),
        ("an order", lambda: Loader(SET, order="shuffled"), ["shuffled", "random"]),
        ("a batch", lambda: Loader(SET, 0), ["0"]),
        ("a rank outside the world", lambda: Loader(SET, 16, rank=2, world=2), ["2"]),
        ("a rank alone", lambda: Loader(SET, 16, rank=0), ["together"]),
        ("a rank in words", lambda: Loader(SET, 16, rank="0", world="2"), ["rank='0': wanted a whole number"]),
        ("a world that is not whole", lambda: Loader(SET, 16, rank=0, world=2.0), ["world=2.0: wanted a whole number"]),
        ("epochs", lambda: Loader(SET, 16, epochs=-1), ["-1"]),
        ("an epoch", lambda: Loader(SET, 16).set_epoch(-1), ["-1"]),
        ("a placement", lambda: Loader(SET, placement="ram"), ["ram", "resident"]),
        ("last_batch", lambda: Loader(SET, last_batch="fill"), ["fill", "drop"]),
        ("a device", lambda: Loader(SET, device="tpu"), ["tpu"]),
        ("workers", lambda: Loader(SET, workers=-2), ["-2"]),
        ("sizes without an augmentation", lambda: Loader(os.path.join(PLACE, "sizes", "train"), 4), ["size"])):
    tap.ok(raises(ffload.UsageError, call, *parts), "refused: " + name)
tap.ok(raises(ffload.BadData, lambda: Loader(PLACE, 16)) and raises(FileNotFoundError, lambda: Loader("/nowhere", 16), "/nowhere"), "refused: a path that is not a set")
tap.ok(any(raises(kind, lambda: Loader(SET, 16, device="cuda")) for kind in (ffload.Error, ffload.UsageError)), "refused: CUDA without a card")

# ---- ends, threads, processes ----
ended = Loader(SET, 16)
batch = next(iter(ended))
ended.close()
ended.close()
tap.ok(raises(ffload.UsageError, lambda: next(iter(ended)), "the loader is closed") and batch[0].shape == (16, 3, 8, 8) and batch[0].sum() == batch[0].sum(), "after close; its batch stays")
with Loader(SET, 16) as inside:
    steps = iter(inside)
    next(steps)
tap.ok(raises(ffload.UsageError, lambda: next(steps)), "a with closes, and ends the iteration")
set_ = ffload.Dataset(SET)
loader = Loader(set_, 16, **WORDS)
set_.close()
tap.ok(same(epoch(loader), plain), "a loader keeps its dataset open")
big = make_set("big", "--count", 60, "--height", 64, "--width", 64)
slow = Loader(big, 60, augment="rrc=512", workers=0, epochs=0)
outcomes = []


def take():
    try:
        slow._own.next((b"images",))
        outcomes.append("a batch")
    except Exception as error:  # noqa: BLE001
        outcomes.append("%s: %s" % (type(error).__name__, error))


pair = [threading.Thread(target=take) for _ in range(2)]
[thread.start() for thread in pair]
[thread.join(60) for thread in pair]
tap.ok(sorted(outcomes) == ["UsageError: the loader is used from two threads at once", "a batch"], "two threads at once", outcomes)
ticks, ticking = [0], [True]


def tick():
    while ticking[0]:
        ticks[0] += 1
        time.sleep(0.001)


ticker = threading.Thread(target=tick)
ticker.start()
within = [] # a call that holds the interpreter's lock lets the other thread tick before it and after it, never more often
while len(within) < 100 and max(within, default=0) < 5:
    began = ticks[0]
    slow._own.next((b"images",))
    within.append(ticks[0] - began)
ticking[0] = False
ticker.join()
tap.ok(max(within) >= 5, "other threads run while a batch is made", within)
waiting = threading.Thread(target=take)
waiting.start()
slow.close()
waiting.join(60)
tap.ok(len(outcomes) == 3 and not waiting.is_alive() and outcomes[2] in ("a batch", "UsageError: the loader is closed", "UsageError: the loader was closed while a batch was awaited"),
       "closed while another thread is in it", outcomes)
live = Loader(SET, 16)
steps = iter(live)
next(steps)
pid = os.fork()
if pid == 0:
    try:
        next(steps)
    except ffload.UsageError as error:
        live.close()
        os._exit(0 if "fork" in str(error) else 2)
    os._exit(1)
tap.ok(os.waitpid(pid, 0)[1] == 0 and next(steps), "a forked child is refused, its parent continues")
# Threads of the parent hold locks at the moment of the fork. A child waits for none of them.
busy, ends = [Loader(SET, 1, workers=3, epochs=0, prefetch=5) for _ in range(6)], set()
steps = [iter(loader) for loader in busy]
for _ in range(300):
    for step in steps:
        next(step)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        lengths = [len(loader) for loader in busy]
        for loader in busy:
            loader.close()
        os._exit(0 if lengths == [100] * 6 else 1)
    ends.add(os.waitpid(pid, 0)[1])
    if ends != {0}:
        break
tap.ok(ends == {0}, "children of a process with busy loaders know the loaders' lengths and close them", ends)
del busy, steps, step
threads = len(os.listdir("/proc/self/task"))
for _ in range(30):
    early = Loader(SET, 16, workers=2)
    next(iter(early))
del early
tap.ok(len(os.listdir("/proc/self/task")) == threads, "iterations that stop early leave no threads", (threads, len(os.listdir("/proc/self/task"))))

# ---- a shard that breaks while it is read ----
import shutil  # noqa: E402
broken = os.path.join(PLACE, "broken")
shutil.copytree(big, broken)
reading = Loader(broken, 6, epochs=0, workers=1, verify="always")
steps = iter(reading)
next(steps)
shard = os.path.join(broken, [name for name in os.listdir(broken) if name.endswith(".ffs")][0])
os.truncate(shard, 65536)


def until_it_fails():
    for _ in range(50):
        next(steps)


tap.ok(any(raises(kind, until_it_fails, shard) for kind in (OSError, ffload.BadData)), "a shard that shrinks while it is read")
finish()
