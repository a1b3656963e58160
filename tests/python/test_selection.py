#!/usr/bin/env python3
"""Which samples a loader has: lists, expressions, splits and folds beside plain Python and ffpack --split; their order, ranks, resuming and
curricula. TAP."""
import collections
import json
import os
import pickle
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import PLACE, finish, make_set, raises  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

COUNT = 97
SET = make_set("plain", "--count", COUNT, "--height", 8, "--width", 8, "--classes", 5, "--shuffle", 3)
DATA = ffload.Dataset(SET, as_="numpy")
LABELS = [int(label) for label in DATA.labels]


def Loader(path, batch=7, **words):
    return ffload.Loader(path, batch, as_="numpy", return_indices=True, **words)


def numbers(loader):
    """Of an epoch, in its order."""
    return [int(i) for batch in loader for i in batch[2] if i >= 0]


def file(name, lines):
    path = os.path.join(PLACE, name)
    with open(path, "w") as out:
        out.write("".join("%s\n" % line for line in lines))
    return path


# ---- lists ----
CHOSEN = [5, 96, 0, 5, 40, 41, 42, 7, 5]
mask = [number % 9 == 2 for number in range(COUNT)]
for name, given, wanted in (
        ("a list", CHOSEN, CHOSEN), ("an array", numpy.array(CHOSEN, numpy.int32), CHOSEN), ("a range", range(9, 0, -2), [9, 7, 5, 3, 1]),
        ("numbers from the end", [-1, -97], [96, 0]), ("a slice", slice(90, None, -11), list(range(COUNT))[90::-11]),
        ("a mask", mask, [i for i in range(COUNT) if mask[i]]), ("a mask of NumPy", numpy.array(mask), [i for i in range(COUNT) if mask[i]]),
        ("a file of numbers", file("numbers", CHOSEN), CHOSEN), ("numbers:", "numbers:" + file("numbers", CHOSEN), CHOSEN),
        ("a file of keys", file("keys", [DATA.keys[i] for i in CHOSEN]), sorted(set(CHOSEN))),
        ("keys:", "keys:" + file("keys", [DATA.keys[i] for i in CHOSEN]), sorted(set(CHOSEN)))):
    loader = Loader(SET, indices=given, order="sequential")
    found = [batch for batch in loader]
    images = numpy.concatenate([batch[0] for batch in found])
    labels = numpy.concatenate([batch[1] for batch in found])
    tap.ok([int(i) for batch in found for i in batch[2]] == wanted and [int(label) for label in labels] == [LABELS[i] for i in wanted] and
           all((images[row] == DATA[i][0]).all() for row, i in enumerate(wanted)) and len(loader) == -(-len(wanted) // 7) and
           len(loader.sampler) == len(wanted) == loader.describe()["samples"], "indices: %s" % name, numbers(loader))
for given, *parts in (([3, COUNT], "sample 97 ", "index 1", "not exist", "0 to 96"), ([-98], "sample -98 "), ([], "none of its 97 samples"),
                      (slice(5, 5), "none of its 97 samples"), ([1.5], "indices: "), (7, "indices: 7"), ([True, False], "mask"),
                      (file("far", [3, 97]), "sample 97 "), (file("huge", [10 ** 20]), "line 1"),
                      (file("unknown", [DATA.keys[3], "nobody", "nothing"]), "2 keys are not in", "nobody", "line 2"),
                      ("numbers:" + file("names", ["nobody"]), "not numbers")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(SET, indices=given), *parts), "indices=%.40r is refused" % (given,))
tap.ok(raises(FileNotFoundError, lambda: Loader(SET, indices=os.path.join(PLACE, "absent")), "absent"), "a file that there is not")
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, sampler=[1]), "indices=") and raises(ffload.UsageError, lambda: Loader(SET, subset=[1]), "indices="),
       "other loaders' words are answered")

# ---- expressions ----
SIZES = make_set("sizes", "--count", 60, "--variable", "--height", 12, "--width", 12)
VARIED = ffload.Dataset(SIZES, as_="numpy")
wide = [i for i in range(60) if VARIED[i][0].shape[2] >= 9 and int(VARIED.labels[i]) in (1, 2)]
tap.ok(numbers(Loader(SIZES, augment="rrc=6", order="sequential", where="label in (1, 2) and width >= 9")) == wide and 0 < len(wide) < 30,
       "where over labels and sizes", wide)
some = [i for i in range(COUNT) if LABELS[i] == 3 or DATA.keys[i].endswith("7")]
tap.ok(numbers(Loader(SET, order="sequential", where="label = 3 or key like '*7'")) == some, "where over labels and keys", some)
tap.ok(numbers(Loader(SET, order="sequential", where="label != 3", indices=[9, 8, 9, 7, 6, 5])) == [i for i in [9, 8, 9, 7, 6, 5] if LABELS[i] != 3],
       "where among indices keeps their order")
for where, *parts in (("nonsense", "where: ", "at 9"), ("height = 'a'", "where: "), ("width > 100", "none of its 97 samples"), ("klass = 1", "klass")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(SET, where=where), *parts), "where=%r is refused" % where)

# ---- splits, as ffpack makes them ----
SOURCE = os.path.join(PLACE, "source")
for kind in range(3):
    os.makedirs(os.path.join(SOURCE, "abc"[kind]))
    for number in range(40):
        with open(os.path.join(SOURCE, "abc"[kind], "p%02d_%d.ppm" % (number // 4, number % 4)), "wb") as out:
            out.write(b"P6 4 4 255\n" + bytes((number * 7 + kind + i) % 256 for i in range(48)))


def pack(name, *options):
    path = os.path.join(PLACE, name)
    subprocess.run([os.path.join(tap.BUILD, "ffpack"), SOURCE, "-o", path, "--mean", "0,0,0", "--std", "1,1,1", *options], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return path


WHOLE = pack("whole")
WHOLE = WHOLE if os.path.exists(os.path.join(WHOLE, "index.ffx")) else os.path.join(WHOLE, os.listdir(WHOLE)[0])
KEYS = list(ffload.Dataset(WHOLE).keys)


def keys(**words):
    return [KEYS[i] for i in numbers(Loader(WHOLE, order="sequential", **words))]


for options, first, second in (
        (["--split", "train=0.7,val=0.3"], "train:0.7", "val:0.3"),
        (["--split", "train=0.7,val=0.3", "--split-seed", "5"], "train:0.7 seed=5", "val:0.3 seed=5"),
        (["--split", "train=0.7,val=0.3", "--stratify"], "train:0.7 stratified", "val:0.3 stratified"),
        (["--split", "train=0.5,val=0.3,test=0.2", "--group-by", "p[0-9]+"], "train of train=0.5,val=0.3,test=0.2 group-by=p[0-9]+",
         "val of train=0.5,val=0.3,test=0.2 group-by=p[0-9]+"),
        (["--split", "train=0.5,val=0.3,test=0.2", "--split-seed", "9", "--stratify"], "train of train=0.5,val=0.3,test=0.2 seed=9 stratified",
         "val of train=0.5,val=0.3,test=0.2 stratified seed=9")):
    path = pack("split%d" % len(os.listdir(PLACE)), *options)
    wanted = [list(ffload.Dataset(os.path.join(path, name)).keys) for name in ("train", "val")]
    tap.ok([keys(split=first), keys(split=second)] == wanted and all(wanted), "split=%r and %r: those of ffpack %s" % (first, second, " ".join(options)),
           [len(part) for part in wanted])
for split in ("train", "train:2", "train:0", "a b:0.5", "train:0.5 sed=1", "x of train=0.5,val=0.5", "val of train=0.5", "train:0.5 group-by=",
              "train:0.5 seed=", "train:0.5 seed=-1"):
    tap.ok(raises(ffload.UsageError, lambda: Loader(WHOLE, split=split), "split: "), "split=%r is refused" % split)
tap.ok(raises(ffload.UsageError, lambda: Loader(WHOLE, split="train:0.5 group-by=nothing"), "matches nothing"), "a group that a key lacks is refused")

# ---- folds ----
for words in ("", " seed=4", " stratified", " group-by=p[0-9]+"):
    folds = [keys(fold="%d/5%s" % (k + 1, words)) for k in range(5)]
    rest = [keys(fold="not %d/5%s" % (k + 1, words)) for k in range(5)]
    groups = [{re.search("p[0-9]+", key).group() for key in fold} for fold in folds]
    tap.ok(sorted(key for fold in folds for key in fold) == sorted(KEYS) and all(folds) and
           all(not set(fold) & set(others) and len(fold) + len(others) == len(KEYS) for fold, others in zip(folds, rest)) and
           ("stratified" not in words or all(collections.Counter(key.split("/")[-2] for key in fold) == dict.fromkeys("abc", 8) for fold in folds)) and
           ("group" not in words or all(not one & other for i, one in enumerate(groups) for other in groups[:i])), "five folds%s divide the set" % words,
           [len(fold) for fold in folds])
tap.ok(keys(fold="1/5") == keys(split="a of a=0.2,b=0.2,c=0.2,d=0.2,e=0.2") != keys(fold="1/5 seed=4"), "a fold is a split of equal shares")
tap.ok(keys(fold="not 1/5", split="train:0.5", where="key like '*_1.ppm'") ==
       [key for key in KEYS if key in keys(fold="not 1/5") and key in keys(split="train:0.5") and key.endswith("_1.ppm")], "all that is asked for holds")
for fold in ("0/5", "6/5", "1/1", "1/17", "2", "2/", "x/3", "2/5 stratify", "not  2/5"):
    tap.ok(raises(ffload.UsageError, lambda: Loader(WHOLE, fold=fold), "fold: "), "fold=%r is refused" % fold)
tap.ok(raises(ffload.UsageError, lambda: Loader(make_set("soft", "--fields", "soft"), fold="1/2 stratified"), "no label that is a class"),
       "a stratified fold needs classes")

# ---- the order: as for a set of this number of samples, each place a selected sample ----
CHOSEN = [i * 7 % COUNT for i in range(61)] + [3, 3]
LIKE = make_set("like", "--count", len(CHOSEN), "--height", 8, "--width", 8)
ORDERS = [dict(order="random"), dict(order="block", block=5, group=3), dict(order="sequential")]
AS_MANY = make_set("as_many", "--count", COUNT, "--height", 8, "--width", 8)
# The samples as they lie in storage: position p of block order has the place that it has in a set that is not shuffled.
LIES = [number for _, number in sorted(zip(*(numbers(Loader(path, **ORDERS[1])) for path in (AS_MANY, SET))))]
tap.ok(sorted(LIES) == list(range(COUNT)) != LIES, "the set is shuffled")
for words in ORDERS:
    for epoch in (0, 3):
        loader, like = Loader(SET, indices=CHOSEN, seed=11, **words), Loader(LIKE, seed=11, **words)
        loader.set_epoch(epoch), like.set_epoch(epoch)
        order, found = numbers(like), numbers(loader)
        if words["order"] == "block":
            # Position p has place order[p]; the places are the selected samples as they lie in storage.
            places = [number for _, number in sorted(zip(order, found))]
            tap.ok(places == [number for number in LIES for _ in range(CHOSEN.count(number))], "block order, epoch %d" % epoch)
        else:
            tap.ok(found == [CHOSEN[place] for place in order] and sorted(found) == sorted(CHOSEN), "%s order, epoch %d" % (words["order"], epoch))
whole = {}
for batch in Loader(SET, augment="crop=2,flip", seed=11):
    whole.update((int(i), image.tobytes()) for i, image in zip(batch[2], batch[0]))
tap.ok(all(whole[int(i)] == image.tobytes() for batch in Loader(SET, augment="crop=2,flip", seed=11, indices=CHOSEN[:61]) for i, image in zip(batch[2], batch[0])),
       "a sample looks as it does without a selection")
copies = {flip: [image.tobytes() for batch in Loader(SET, augment="crop=2,flip" + flip, indices=[3] * 20) for image in batch[0]] for flip in ("", "=alternate")}
tap.ok(len(set(copies[""])) > 10 and len(set(copies["=alternate"])) == 1,
       "a number that is listed several times is augmented differently each time, unless flips alternate by epoch")


# ---- ranks, threads, last batches, mixtures, resumes ----
def rows(loader):
    """A row's bytes and number, of all batches."""
    return [tuple(numpy.ascontiguousarray(part[row]).tobytes() for part in (batch[0], batch[2]))
            for batch in loader for row in range(len(batch[0]))]


for words in ORDERS:
    for more in (dict(last_batch="drop"), dict(last_batch="keep", epochs=2), dict(last_batch="keep", augment="mixup=0.5,flip")):
        given = dict(words, **more, indices=CHOSEN, seed=2)
        plain = rows(Loader(SET, 17, workers=1, **given))
        parts = [[rows([batch]) for batch in Loader(SET, 17, workers=1 + rank, rank=rank, world=3, **given)] for rank in range(3)]
        together = [row for batches in zip(*parts) for part in batches for row in part]
        tap.ok(plain and together == plain == rows(Loader(SET, 17, workers=4, **given)), "3 ranks and 4 threads: %s, %s" % (words["order"], more))
    loader = Loader(SET, 6, indices=CHOSEN, **words)
    loader.set_epoch(1)
    steps = iter(loader)
    before = [next(steps) for _ in range(4)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = rows(steps)
    going = Loader(SET, 6, indices=numpy.array(CHOSEN), workers=3, **words)
    going.load_state_dict(state)
    copy = pickle.loads(pickle.dumps(loader))
    copy.load_state_dict(state)
    tap.ok(rows(going) == rest == rows(copy) and len(before) * 6 + len(rest) == len(CHOSEN) and state["samples"] == len(CHOSEN),
           "resumed in an epoch: %s" % words["order"], state)
    tap.ok(numbers(going) == numbers(loader), "and the epoch after it")
for name, other in (("another selection", dict(indices=CHOSEN[::-1])), ("none", {}), ("a smaller one", dict(where="label = 1"))):
    tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 6, order="sequential", **other).load_state_dict(state), "63 of 97 samples", "but this loader has"),
           "a state is refused by a loader of %s" % name)
plain = Loader(SET, 6)
state = plain.state_dict()
tap.ok(raises(ffload.UsageError, lambda: Loader(SET, 6, indices=CHOSEN).load_state_dict(state), "the state belongs to all samples", "63 of 97 samples"), "and the other way round")
del state["selection"]
plain.load_state_dict(state)
tap.ok(len(numbers(plain)) == COUNT, "a state of a version without selections is one of all samples")

# ---- curricula ----
loader = Loader(SET, 6, indices=[1, 2, 3], where="label >= 0")
tap.ok(sorted(numbers(loader)) == [1, 2, 3], "the first epoch's samples")
loader.indices = range(20)
found = numbers(loader)
fresh = Loader(SET, 6, indices=range(20), where="label >= 0")
fresh.set_epoch(1)
tap.ok(sorted(found) == list(range(20)) and found == numbers(fresh) and loader.indices == range(20) and len(loader) == 4, "others in the second, as a new loader's")
tap.ok(raises(ffload.UsageError, lambda: setattr(loader, "indices", [97]), "sample 97 ") and loader.epoch == 2 and sorted(numbers(loader)) == list(range(20)),
       "what is refused changes nothing")
pair = Loader(SET, 6, indices=range(96), rank=0, world=2)
for name, kind, chosen in (("a last batch that leaves a rank without rows", ffload.UsageError, range(97)), ("a file that there is not", FileNotFoundError, "nothing")):
    tap.ok(raises(kind, lambda: setattr(pair, "indices", chosen)) and pair.indices == range(96) and len(pair) == pair.describe()["batches"] == 16
           and pair._samples[0] == {} and len(numbers(pair)) == 48, "%s, too" % name)
loader.indices = None
tap.ok(len(numbers(loader)) == COUNT and loader.epoch == 4, "None: all samples")
loader.indices = range(20)
steps = iter(loader)
next(steps)
loader.indices = range(5)
tap.ok(raises(ffload.UsageError, lambda: next(steps), "iterated elsewhere") and sorted(numbers(loader)) == list(range(5)), "in an epoch: which ends")
finish()
