#!/usr/bin/env python3
"""What people know from torch's DataLoader and torchvision's datasets: their words, their attributes, their defaults. The oracle is
DataLoader over the same samples, where it is installed. TAP."""
import base64
import importlib.util
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import FOLDER, PLACE, finish, make_set, python, raises  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

SET = make_set("plain", "--count", 100, "--height", 8, "--width", 8, "--dtype", "f32", "--fields", "label,soft,box")
USAGE = ffload.UsageError


def bits(batches):
    return [tuple(part if isinstance(part, list) else numpy.asarray(part).tobytes() for part in batch) for batch in batches]


def epoch(**words):
    return bits(ffload.Loader(SET, 32, as_="numpy", **words))


# ---- the evaluation that everybody writes ----
seen = sum(len(labels) for images, labels in ffload.Loader(SET, batch_size=32, as_="numpy"))
tap.ok(seen == len(ffload.Dataset(SET)), "each sample counts once where nothing is said of the last batch", seen)

# ---- DataLoader's words ----
tap.ok(epoch() == epoch(shuffle=True) == epoch(order="random") == epoch(shuffle=True, order="random") != epoch(shuffle=False) == epoch(order="sequential"), "shuffle")
tap.ok(epoch(shuffle=True, order="block", block=8) == epoch(order="block", block=8), "shuffle=True with an order that shuffles")
tap.ok(len(epoch(drop_last=True)) == 3 and epoch(drop_last=True) == epoch(last_batch="drop") and epoch(drop_last=False) == epoch() and len(epoch()) == 4, "drop_last")
tap.ok(ffload.Loader(SET, num_workers=2).describe()["threads"] == ffload.Loader(SET, workers=2).describe()["threads"] == 2 and
       ffload.Loader(SET, num_workers=0).describe()["threads"] == 0, "num_workers")
for words in (dict(shuffle=True, order="sequential"), dict(shuffle=False, order="block"), dict(drop_last=True, last_batch="keep"), dict(drop_last=False, last_batch="drop"),
              dict(num_workers=2, workers=3)):
    tap.ok(raises(USAGE, lambda: ffload.Loader(SET, **words), "%s=%r and %s=%r contradict each other" % tuple(sum(map(list, words.items()), []))), "refused: %s" % words)
DEFAULTS = dict(sampler=None, batch_sampler=None, collate_fn=None, pin_memory=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None,
                prefetch_factor=None, persistent_workers=False, pin_memory_device="")
tap.ok(epoch(**DEFAULTS) == epoch(), "DataLoader's other words with their defaults")
for name, value, instead in (("pin_memory", True, "device=\"cuda\""), ("sampler", [1, 2], "order="), ("collate_fn", len, "transform="), ("persistent_workers", True, "threads"),
                             ("prefetch_factor", 2, "prefetch="), ("generator", 3, "seed="), ("worker_init_fn", len, "seed="), ("samples", True, "return_indices=")):
    tap.ok(raises(USAGE, lambda: ffload.Loader(SET, **{name: value}), "Loader has no argument %s" % name, instead), "answered: %s" % name)
tap.ok(raises(USAGE, lambda: ffload.Loader(SET, batchsize=3), "no argument batchsize; did you mean batch_size?") and raises(USAGE, lambda: ffload.Dataset(SET, lable="soft"), "did you mean label?") and
       raises(USAGE, lambda: ffload.Dataset(SET, transform=len), "augment=") and raises(USAGE, lambda: ffload.Loader(SET, xyz=1), "no argument xyz"), "unknown words, with the nearest")

# ---- what a batch has ----
dataset = ffload.Dataset(SET, as_="numpy")
for last in ("keep", "pad"):
    good, rows = True, 0
    for batch in ffload.Loader(SET, 32, as_="numpy", last_batch=last, layout="contiguous", return_indices=True, return_keys=True):
        images, labels, *weight, indices, keys = batch
        good = good and len(weight) == (last == "pad") and len(keys) == len(indices) == len(images)
        for row, (number, key) in enumerate(zip(indices, keys)):
            rows += number >= 0
            good = good and (key is None if number < 0 else key == dataset.keys[number] and (images[row] == dataset[number][0]).all() and labels[row] == dataset[number][1])
    tap.ok(good and rows == 100, "return_indices and return_keys with last_batch=%s" % last)
batch = next(iter(ffload.Loader(SET, 32, as_="numpy", return_keys=True)))
tap.ok(len(batch) == 3 and batch[2] == next(iter(ffload.Loader(SET, 32, as_="dlpack", return_keys=True)))[2] and batch[2][0] in list(dataset.keys), "return_keys alone")
images, (labels, others, share), keys = next(iter(ffload.Loader(SET, 32, as_="numpy", augment="mixup", return_keys=True)))
tap.ok(dataset[list(dataset.keys).index(keys[1])][1] == labels[1] == others[0], "and with mixup")

# ---- peek ----
loader = ffload.Loader(SET, 32, as_="numpy", augment="crop=2,flip")
want = [bits(loader), bits(loader)]
loader.set_epoch(0)
looked = bits([loader.peek(), loader.peek()])
tap.ok(looked == [want[0][0]] * 2 and loader.epoch == 0 and bits(loader) == want[0], "peek() looks at the first batch of the epoch that comes")
steps = iter(loader)
given = bits([next(steps), next(steps)])
other = bits([loader.peek()])
loader_at = ffload.Loader(SET, 32, as_="numpy", augment="crop=2,flip")
loader_at.set_epoch(2)
tap.ok(other == bits([next(iter(loader_at))]) and given + bits(steps) == want[1] and loader.epoch == 2, "also within an iteration, which continues where it was")
loader.load_state_dict({**loader.state_dict(), "epoch": 1, "position": 64})
tap.ok(bits([loader.peek()]) == want[1][2:3] and bits(loader) == want[1][2:], "and after load_state_dict")

doubled = ffload.Loader(SET, 32, as_="numpy", augment="crop=2,flip", transform=lambda batch: {"pixels": batch[0] * 2})
loader.set_epoch(0)
tap.ok((doubled.peek()["pixels"] == loader.peek()[0] * 2).all() and (doubled.collate_fn(next(iter(doubled.batch_sampler)))["pixels"] == loader.peek()[0] * 2).all(), "peek and collate_fn with a transform")
images, targets, indices, keys = next(iter(ffload.Loader(SET, 32, as_="numpy", augment="mixup", targets="soft", return_indices=True, return_keys=True)))
tap.ok(targets.shape == (32, len(dataset.classes)) and keys == [dataset.keys[i] for i in indices], "soft targets with indices and keys")

# ---- datasets as torchvision's ----
each = [dataset[number] for number in range(100)]
tap.ok(isinstance(each[3], tuple) and len(each[3]) == 2 and each[3][1] == ffload.Dataset(SET, label="label", as_="numpy")[3][1], "[i] is (image, label) of the first field, as a loader's rows")
several = ffload.Dataset(SET, label="soft,label", as_="numpy")
tap.ok(list(several[3][1]) == ["soft", "label"] == list(ffload.Dataset(SET, label=["soft", "label"])[3][1]) and several[3][1]["label"] == each[3][1] and
       list(ffload.Dataset(SET, fields=True)[3][1]) == ["label", "soft", "box"], "fields as a dict on request")
tap.ok(raises(USAGE, lambda: ffload.Dataset(SET, label="soft", fields=True), "contradict") and raises(USAGE, lambda: ffload.Dataset(SET, label="soft,sofd"), "no label field 'sofd'"), "what fields refuse")
tap.ok(dataset.labels.dtype == numpy.int64 and dataset.labels.tolist() == [label for _, label in each] == dataset.targets, "labels and targets")
tap.ok(isinstance(dataset.targets, list) and all(type(one) is int for one in dataset.targets) and dataset.class_to_idx == {name: i for i, name in enumerate(dataset.classes)} and len(dataset.classes) > 2, "class_to_idx")
soft = several.labels["soft"]
tap.ok(soft.shape == (100, several.fields["soft"]["width"]) and all((soft[i] == several[i][1]["soft"]).all() for i in range(100)) and several.targets["soft"] == soft.tolist() and
       (several.labels["label"] == dataset.labels).all(), "of several fields by name")
tap.ok(ffload.Dataset(SET, as_="dlpack").targets == dataset.targets and ffload.Dataset(SET, label="soft", as_="dlpack").targets == soft.tolist(), "without an array library, too")
unlabeled = ffload.Dataset(make_set("unlabeled", "--count", 30, "--unlabeled", "--fields", "all", "--height", 4, "--width", 4), as_="numpy", fields=True)
tap.ok(all((numpy.array([unlabeled[i][1][name] for i in range(30)]) == values).all() and len(values) == 30 for name, values in unlabeled.labels.items()) and -1 in unlabeled.labels["label"] and len(unlabeled.labels) > 4,
       "of every kind of field, also wide ones and where there is no class", list(unlabeled.labels))
keys = list(dataset.keys)
mask = numpy.arange(100) % 7 == 0
tap.ok(dataset.keys[[3, 1]] == [keys[3], keys[1]] and dataset.keys[numpy.array([5, -1])] == [keys[5], keys[99]] and dataset.keys[mask] == [keys[i] for i in range(0, 100, 7)] and
       dataset.keys[2:4] == keys[2:4] and dataset.keys[numpy.int64(7)] == keys[7] and raises(IndexError, lambda: dataset.keys[[100]]), "keys of several samples, as of the dataset")

# ---- in a notebook ----
page = dataset._repr_html_()
data = base64.b64decode(page.partition("base64,")[2].partition('"')[0])
sheet = subprocess.run([os.path.join(tap.BUILD, "ffinspect"), SET, "--grid", "3x8", "--png", os.path.join(PLACE, "sheet.png")], stdout=subprocess.PIPE)
tap.ok(page.startswith("<pre>ffload.Dataset(") and "100 samples" in page and data == open(os.path.join(PLACE, "sheet.png"), "rb").read() and data[:4] == b"\x89PNG", "a notebook shows a contact sheet, ffinspect's")

# ---- a sub-interpreter ----
SUB = """
import sys, ffload
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
own = interpreters.create()
run = getattr(interpreters, "exec", None) or interpreters.run_string
try:
    said = run(own, "import sys; sys.path[:] = %r; import ffload" % sys.path)
except Exception as error:
    said = error
print(said)
print(len(ffload.Dataset(sys.argv[1])))
"""
for first in ("ffload", "os"):  # the sub-interpreter's import may be the first of the process
    text = SUB if first == "ffload" else SUB.replace("import sys, ffload", "import sys").replace("print(len(", "import ffload\nprint(len(")
    found = python(text, SET)
    tap.ok("sub-interpreter" in found.stdout and found.stdout.endswith("\n100\n") and found.returncode == 0, "a sub-interpreter is refused, and the main one continues (first: %s)" % first, found.stdout + found.stderr)

# ---- with torch ----
if importlib.util.find_spec("torch") is None:
    tap.skip("torch", "it is not installed")
    finish()
from torch.utils.data import DataLoader  # noqa: E402

words = dict(as_="torch", layout="contiguous")
theirs = bits(DataLoader(ffload.Dataset(SET, as_="torch"), 32, shuffle=False))
tap.ok(bits(ffload.Loader(SET, 32, shuffle=False, **words)) == theirs and len(theirs) == 4, "the batches of a DataLoader over the same samples, its last one too")
tap.ok(bits(ffload.Loader(SET, 32, shuffle=False, drop_last=True, **words)) == bits(DataLoader(ffload.Dataset(SET, as_="torch"), 32, drop_last=True)), "with drop_last=True")
loader = ffload.Loader(SET, 32, augment="crop=2,flip,mixup", as_="torch", seed=5)
want = [[images.numpy().tobytes() for images, _ in loader] for _ in range(2)]
loader.set_epoch(0)
through = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn)
tap.ok(len(through) == len(loader) and [[images.numpy().tobytes() for images, _ in through] for _ in range(2)] == want and loader.epoch == 2, "a DataLoader of a loader's batch_sampler, collate_fn and dataset gives its batches")
loader.sampler.set_epoch(1)
tap.ok([images.numpy().tobytes() for images, _ in loader] == want[1] and len(loader.sampler) == 100 and loader.batch_sampler.batch_size == 32 and not loader.batch_sampler.drop_last, "sampler.set_epoch, which Lightning and timm call")
SPAWNED = """
import sys, torch, torch.distributed as distributed, ffload
def work(rank, loader, path, queue):
    distributed.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    queue.put((rank, torch.cat([n for *_, n in loader]).tolist(), loader.batch.epoch))
    distributed.barrier()
if __name__ == "__main__":
    loader = ffload.Loader(sys.argv[1], 20, return_indices=True, drop_last=True)
    loader.set_epoch(3)
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(work, (loader, sys.argv[2], queue), 2)
    print(sorted(queue.get() for _ in range(2)))
"""
with open(os.path.join(PLACE, "spawned.py"), "w") as file:
    file.write(SPAWNED)
found = subprocess.run([sys.executable, os.path.join(PLACE, "spawned.py"), SET, os.path.join(PLACE, "spawn-rendezvous")], env=dict(os.environ, PYTHONPATH=FOLDER), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
want = []
for rank in range(2):
    one = ffload.Loader(SET, 20, return_indices=True, rank=rank, world=2, as_="numpy", drop_last=True)
    one.set_epoch(3)
    want.append((rank, numpy.concatenate([n for *_, n in one]).tolist(), 3))
tap.ok(found.stdout == "%s\n" % want, "a loader that is given to spawned ranks (ddp_spawn) has their rows", found.stdout + found.stderr)
ALONE = """
import sys, warnings, torch.distributed as distributed, ffload
rank, how = int(sys.argv[3]), sys.argv[4]
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
train, val = ffload.Loader(sys.argv[1], 20, drop_last=True), ffload.Loader(sys.argv[5], 20, last_batch="pad", **({"rank": 0, "world": 1} if how == "given" else {}))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for epoch in range(3):
        for _ in train:
            pass
        distributed.barrier()
        if how == "all" or rank == 0:
            for _ in val:
                pass
        distributed.barrier()
print([str(one.message) for one in seen], len(seen) and seen[0].filename)
"""
import shutil  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
VAL = os.path.join(PLACE, "val")
shutil.copytree(SET, VAL)
for how in ("all", "one", "given"):
    with ThreadPoolExecutor() as pool:
        pair = list(pool.map(lambda rank: python(ALONE, SET, os.path.join(PLACE, "alone-" + how), rank, how, VAL), range(2)))
    said = [one.stdout for one in pair]
    wanted = ["[] 0\n", "[] 0\n"]
    if how == "one":
        good = "%s: rank 0 of 2 has iterated its part of the 100 samples, and no other rank has" % VAL in said[0] and "rank=0, world=1" in said[0] and "<string>" in said[0] and said[1] == wanted[1] and SET + ": rank" not in said[0]
    else:
        good = said == wanted
    tap.ok(good, "an evaluation that only one rank iterates is warned of (%s)" % how, [one.stdout + one.stderr for one in pair])
tap.ok(dir(ffload) == ffload.__all__ and all(hasattr(ffload, name) for name in dir(ffload)), "dir() has the public names alone", dir(ffload))
finish()
