#!/usr/bin/env python3
"""Several sets as one, and their shares: samples, classes and keys beside the single sets, draws beside the formula of
loader/sequence/sampling.h in plain Python, counts beside the shares; ranks, threads, resuming, shares that change. TAP."""
import collections
import fractions
import json
import os
import pickle
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import PLACE, finish, make_set, raises  # noqa: E402
from philox import M32, mix, order_keys, permuted  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

SIZES, CLASSES = (70, 9, 23), (["cat", "dog", "eel"], ["eel", "ape"], ["dog", "cat", "eel"])
UNITED = ["cat", "dog", "eel", "ape"]
random = numpy.random.default_rng(11)
LABELS = [random.integers(-1, len(names), size) for size, names in zip(SIZES, CLASSES)]


def pack(name, labels, classes, first=0, side=8, **words):
    """Sample i of it has the values first + i."""
    with ffload.Writer(os.path.join(PLACE, name), classes=classes, dtype="u8", **dict(dict(mean=[.5] * 3, std=[.25] * 3), **words)) as writer:
        for i, label in enumerate(labels):
            writer.add(numpy.full((side, side, 3), first + i, numpy.uint8), int(label))
    return os.path.join(PLACE, name)


PATHS = [pack("set%d" % k, LABELS[k], CLASSES[k], sum(SIZES[:k]), shard_size=8192) for k in range(3)]
BEGIN = [0, *numpy.cumsum(SIZES).tolist()]
SHARES = (3, 1, 2)


def Loader(batch=16, paths=PATHS, shares=SHARES, **words):
    return ffload.Loader(paths, batch, as_="numpy", dtype="u8", return_indices=True, return_sources=True, shares=shares, **words)


def parts(batch):
    return [numpy.array(part) for part in batch]


def epoch_of(loader):
    """The sample of each position of the next epoch."""
    return [int(i) for batch in loader for i in batch[3]]


# ---- one set of several ----
data, singles = ffload.Dataset(PATHS, as_="numpy"), [ffload.Dataset(path, as_="numpy") for path in PATHS]
tap.ok(len(data) == BEGIN[-1] and data.sizes == list(SIZES) and singles[0].sizes == [SIZES[0]], "all samples of all sets")
tap.ok(data.classes == UNITED and data.class_to_idx["ape"] == 3, "classes are united by name", data.classes)
wanted = [-1 if label < 0 else UNITED.index(CLASSES[k][label]) for k in range(3) for label in LABELS[k]]
tap.ok(list(data.labels) == wanted and [data[i][1] for i in range(len(data))] == wanted, "labels are numbers of the united classes")
tap.ok(all((data[i][0] == i).all() for i in range(len(data))) and numpy.asarray(data.view(75))[0, 0, 0] == 75, "images are the single sets'")
tap.ok(list(data.keys) == [key for one in singles for key in one.keys], "as are keys")
progress = []
data.verify(progress=lambda done, total: progress.append((done, total)))
tap.ok(progress[-1][0] == progress[-1][1] == sum(os.path.getsize(os.path.join(path, name)) for path in PATHS for name in os.listdir(path) if name.startswith(("index", "shard"))),
       "all files are verified", progress[-3:])
copy = pickle.loads(pickle.dumps(data))
tap.ok(copy.paths == PATHS and copy.ids == data.ids != ffload.Dataset(PATHS[::-1]).ids, "pickled; ids tell the order of sets")
described = json.loads(json.dumps(data.describe()))["sets"]
tap.ok([one["samples"] for one in described] == list(SIZES) and [one["content"] for one in described] == [one.ids["content"] for one in singles], "described")
one = ffload.Dataset(PATHS[:1])
tap.ok(one.ids == singles[0].ids and one.path == PATHS[0] and "sets" not in one.describe(), "a list of one set is this set")
for words in (dict(), dict(order="block", block=8, group=2), dict(order="sequential"), dict(order="block", block=8, group=2, memory=1)):
    found = [parts(batch) for batch in Loader(shares=None, **words)]
    numbers = numpy.concatenate([batch[3] for batch in found])
    tap.ok(sorted(numbers) == list(range(BEGIN[-1])) and (words.get("order") != "sequential" or list(numbers) == list(range(BEGIN[-1]))) and
           all((batch[0] == batch[3][:, None, None, None]).all() and list(batch[1]) == [wanted[i] for i in batch[3]] and
               (batch[2] == numpy.searchsorted(BEGIN, batch[3], "right") - 1).all() for batch in found), "without shares each sample once: %r" % words)
tap.ok(sorted(epoch_of(Loader(shares=None, where="label == 'eel'"))) == [i for i in range(BEGIN[-1]) if wanted[i] == 2], "a class by its name in all sets")
tap.ok(sorted(epoch_of(Loader(shares=None, split="val:0.3"))) == sorted(BEGIN[k] + i for k in range(3) for i in epoch_of(
    ffload.Loader(PATHS[k], as_="numpy", return_indices=True, return_sources=False, split="val:0.3", transform=lambda batch: (*batch[:2], None, batch[2])))),
    "a split is the sets' splits")
splits = [os.path.join(os.path.dirname(make_set("splits", "--count", 6, "--splits", "train,val")), name) for name in ("val", "train")]
with open(os.path.join(PLACE, "keys"), "w") as out:
    out.write("train/%s\n" % ffload.Dataset(splits).keys[4])
for words, chosen in ((dict(where="split == 'train'"), range(3, 9)), (dict(where="split == 'val'"), range(3)), (dict(indices=os.path.join(PLACE, "keys")), [4])):
    found = [int(i) for batch in ffload.Loader(splits, 4, as_="numpy", return_indices=True, **words) for i in batch[2]]
    tap.ok(sorted(found) == list(chosen), "a sample's split is its own set's: %s" % "".join(words), found)
tap.ok((numpy.concatenate([batch[2] for batch in Loader(10, shares=None, last_batch="pad", order="sequential", samples_per_epoch=93,
        transform=lambda batch: (*batch[:2], batch[3]))])[-9:] == [2, 2, -1, -1, -1, -1, -1, -1, -1][:9]).all(), "rows that pad have no set")

equal = [pack("equal%d" % k, LABELS[1], CLASSES[1], 200 + 9 * k) for k in range(2)]
for shares in (None, (1, 1)):
    state = Loader(4, equal, shares).state_dict()
    tap.ok(all(raises(ffload.UsageError, lambda: Loader(4, paths, shares).load_state_dict(state), "other sets") for paths in (equal[::-1], [equal[0], PATHS[1]])),
           "a state of other sets, or of these in another order, is refused: shares %r" % (shares,))
single = ffload.Loader(PATHS[1], 9, samples_per_epoch=9).state_dict()
tap.ok("sets" not in single and raises(ffload.UsageError, lambda: ffload.Loader(equal, 9, samples_per_epoch=9).load_state_dict(single), "a single set"), "and one of a single set")

# ---- compressed sets, sets of many sizes, labels of other kinds ----
squeezed = [pack("squeezed%d" % k, LABELS[k], CLASSES[k], sum(SIZES[:k]), shard_size=8192, compress="zstd:%d" % (k + 1)) for k in range(2)]
for words in (dict(), dict(order="block", block=8, group=2, memory=1), dict(shares=(1, 1), samples_per_epoch=60), dict(workers=0, memory=1)):
    words = dict(dict(shares=None, seed=2), **words)
    found, plain = ([parts(batch) for batch in Loader(paths=paths, **words)] for paths in (squeezed, PATHS[:2]))
    tap.ok((words.get("order") or len(found) == len(plain) and all((a == b).all() for one, other in zip(found, plain) for a, b in zip(one, other))) and
           all((batch[0] == batch[3][:, None, None, None]).all() and list(batch[1]) == [wanted[i] for i in batch[3]] for batch in found), "compressed sets: %r" % words)
many = [make_set("many%d" % k, "--count", 5 + k, "--height", 9 + k, "--width", 11 - k, "--variable", "--seed", k) for k in range(2)]
various, each = ffload.Dataset(many, as_="numpy"), [sample for path in many for sample in ffload.Dataset(path, as_="numpy")]
tap.ok([various.describe()[side] for side in ("height", "width")] == [10, 11] and all((image == wanted).all() and label == number for (image, label), (wanted, number) in zip(various, each)) and len(each) == 11, "sets of many sizes")
found = [parts(batch) for batch in ffload.Loader(many, 5, as_="numpy", augment="rrc=4", shares=(2, 3), samples_per_epoch=20, return_indices=True)]
tap.ok(sum(len(batch[0]) for batch in found) == 20 and all(list(batch[1]) == [each[i][1] for i in batch[2]] for batch in found), "and their batches")
fields = [make_set("fields%d" % k, "--count", 12 + k, "--height", 8, "--width", 8, "--fields", "label,soft", "--seed", k) for k in range(2)]
both, each = ffload.Dataset(fields, fields=True, as_="numpy"), [ffload.Dataset(path, fields=True, as_="numpy") for path in fields]
tap.ok(all((both[i][1]["soft"] == each[i > 11][i - 12 * (i > 11)][1]["soft"]).all() for i in range(25)), "labels of other kinds are the single sets'")

broken = os.path.join(pack("broken", LABELS[1], CLASSES[1], 200), "shard-000000.ffs")
with open(broken, "r+b") as file:
    place = file.read().index(bytes([203]) * 192)
    file.seek(place)
    file.write(b"\0")
tap.ok(raises(ffload.BadData, lambda: ffload.Dataset([PATHS[0], os.path.dirname(broken)])[73], "%s: offset %d: sample 3 has checksum" % (broken, place)),
       "a broken sample: the file, the place in it, and the number in its own set")

# ---- what does not fit ----
small = pack("small", [0] * 4, ["cat"], side=6)
numbers = os.path.join(PLACE, "numbers")
with ffload.Writer(numbers, dtype="u8", mean=[.5] * 3, std=[.25] * 3) as writer:
    for i in range(4):
        writer.add(numpy.full((8, 8, 3), i, numpy.uint8), i)
half = make_set("half", "--count", 6, "--height", 8, "--width", 8, "--classes", 3)
for path, *words in ((small, "3x8x8", "3x6x6"), (numbers, "names of classes in only one"), (half, "dtype or layout", "--dtype"),
                     (pack("squeezed", [0] * 4, ["cat"], compress="zstd"), "compression"), (pack("aligned", [0] * 4, ["cat"], align=4096), "alignment"),
                     (pack("normal", [0] * 4, ["cat"], mean=[.5] * 3, std=[.5] * 3), "normalization", "--stats-from")):
    tap.ok(raises(ffload.UsageError, lambda: ffload.Dataset([PATHS[0], path]), PATHS[0], path, "one set", *words), "%s is refused: %s" % (os.path.basename(path), words[0]))
tap.ok(raises(ffload.UsageError, lambda: ffload.Dataset([]), "0 sets"), "no set")
tap.ok(raises(ffload.BadData, lambda: ffload.Dataset([PATHS[0], PLACE]), PLACE), "a folder that is not a set")
for shares, *words in (((1, 2), "there are 2, but 3 sets"), ((0, 0, 0), "their sum is 0"), ((1, -1, 1), "number from 0"), ("1,2,x", "'x' does not begin"),
                       ("1,2,3 4", "' 4' is neither"), ("1,2,3;1,2,3", "EPOCH:"), ("1,2,3;5:1,2,3;5:1,1,1", "later epoch"), ({PATHS[0]: 1}, "wanted one for each of", PATHS[1]),
                       (3, "shares: "), (["a"], "shares: "), ((1e7, 1, 1), "number from 0 to 1000000"), ((1, 4e-7, 0), "'4e-07,0.0' begins with a share that rounds to 0")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(shares=shares), *words), "shares=%r are refused" % (shares,))
for words, *named in ((dict(order="block"), "shares: needs order random"), (dict(order="sequential"), "shares: needs order random"), (dict(weights="balanced"), "combined with weights"),
                      (dict(per_class=4), "combined with per_class"), (dict(augment="flip=alternate"), "alternate"), (dict(where="label == 'ape'"), "none of its samples is selected", PATHS[0]),
                      (dict(shares=None, shares_of="batch"), "needs the option shares"), (dict(shares_of="x"), "shares_of")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(**words), *named), "%r is refused" % words)
tap.ok(raises(ffload.UsageError, lambda: ffload.Loader(PATHS[0], return_sources=True), "single set"), "sources of a single set are refused")
tap.ok(raises(ffload.UsageError, lambda: ffload.Loader({PATHS[0]: 1}, shares=[1]), "contradicts"), "shares twice are refused")


# ---- the very samples, by the formulas of order.h and sampling.h ----
def shared(sizes, shares, draws, unit, seed, epoch):
    """The place of each draw of an epoch: ranks by counting, where the library has a formula."""
    keys = order_keys(seed, epoch, 0)
    units, whole = -(-draws // unit), sum(map(fractions.Fraction, shares))
    upto = [sum(map(fractions.Fraction, shares[:k])) / whole for k in range(len(shares) + 1)]
    cuts = [[int(unit * part + fractions.Fraction(turn, units)) for part in upto] for turn in range(units)]
    ranks = [[sum(cut[k + 1] - cut[k] for cut in cuts[:turn]) for turn in range(units)] for k in range(len(shares))]
    begin, places = [0, *numpy.cumsum(sizes).tolist()], []
    for draw in range(draws):
        turn = permuted(keys, units, draw // unit, 0)
        slot = permuted(keys, unit, draw % unit, mix(2 * (draw // unit) + 1 & M32))
        k = next(k for k in range(len(shares)) if slot < cuts[turn][k + 1])
        again, rank = divmod(ranks[k][turn] + slot - cuts[turn][k], sizes[k])
        places.append(begin[k] + permuted(keys, sizes[k], rank, mix(2 * (again * len(shares) + k) + 2 & M32)))
    return places


for seed, shares, words in ((0, (3, 1, 2), {}), (2 ** 40 + 3, (.8, .15, .05), dict(shares_of="batch")), (5, (0, 1, 5), {}), (5, (1, 1, 1), dict(shares_of="batch", repeats=3)),
                            (6, (.25, .5, .25), dict(samples_per_epoch=300)), (7, (2, 0, 1), dict(shares_of="batch", samples_per_epoch=40)), (8, (1, 9, 1), dict(repeats=2)), (9, (2, 9, 1), dict(repeats=2, samples_per_epoch=108))):
    loader = Loader(16, shares=shares, seed=seed, **words)
    length, each = words.get("samples_per_epoch", BEGIN[-1]), -(-16 // words.get("repeats", 1))
    draws = length // 16 * each + min(length % 16, each)
    unit = each if "shares_of" in words else 1
    if unit > 1:
        draws = -(-length // 16) * each
    for epoch in range(2):
        order = shared(SIZES, shares, draws, unit, seed, epoch)
        tap.ok(epoch_of(loader) == [order[p // 16 * each + p % 16 % each] for p in range(length)], "the samples are the formula's: %r %r epoch %d" % (shares, words, epoch))

# ---- counts ----
for shares, of, length, batch in (((3, 1, 2), "epoch", 102, 16), ((3, 1, 2), "batch", 96, 16), ((.8, .2, 0), "batch", 400, 20), ((.1, .1, .8), "epoch", 1000, 7),
                                  ((1, 2, 4), "batch", 280, 28), ((1, 1, 1), "batch", 320, 32), ((0.05, 0.05, 0.9), "batch", 512, 4)):
    loader = Loader(batch, shares=shares, shares_of=of, samples_per_epoch=length, seed=4)
    share, exact, even, differ = numpy.array(shares) / sum(shares), True, True, []
    for epoch in range(3):
        found = [parts(one) for one in loader]
        sets = numpy.bincount(numpy.concatenate([one[2] for one in found]), minlength=3)
        exact &= (abs(sets - length * share) < 1).all()
        if of == "batch":
            exact &= all((abs(numpy.bincount(one[2], minlength=3) - batch * share) < 1 - 1e-9).all() for one in found)
        times = numpy.bincount(numpy.concatenate([one[3] for one in found]), minlength=BEGIN[-1])
        even &= all(times[BEGIN[k]:BEGIN[k + 1]].max() - times[BEGIN[k]:BEGIN[k + 1]].min() <= 1 for k in range(3))
        differ.append(tuple(numpy.concatenate([one[3] for one in found])))
    tap.ok(exact, "shares %r of each %s, up to one sample" % (shares, of))
    tap.ok(even and len(set(differ)) == 3, "samples of a set come equally often; epochs differ")


def fits(found, wanted):
    """Chi-squared within 5 standard deviations of its mean, from above: draws without replacement vary less."""
    found = numpy.asarray(found, float).ravel()
    degrees = len(found) - 1
    return ((found - wanted) ** 2 / wanted).sum() < degrees + 5 * (2 * degrees) ** .5


for of in ("epoch", "batch"):
    loader = Loader(20, shares=(3, 1, 1), shares_of=of, samples_per_epoch=200)
    found = numpy.array([epoch_of(loader) for _ in range(400)])
    sets = numpy.searchsorted(BEGIN, found, "right") - 1
    where = [(sets == k).sum(0) for k in range(3)]
    tap.ok(all(fits(where[k], where[k].mean()) for k in range(3)), "each set at all positions alike: %s" % of)
    rows = [(sets == 1).reshape(400, 10, 20).sum((0, 1)), (sets == 1).reshape(400, 10, 20).sum((0, 2))]
    tap.ok(all(fits(counts, counts.mean()) for counts in rows), "in all rows and batches alike: %s" % of)
    times = [numpy.bincount(found.ravel(), minlength=BEGIN[-1])[BEGIN[k]:BEGIN[k + 1]] for k in range(3)]
    tap.ok(all(fits(counts, counts.mean()) for counts in times), "samples of a set come alike over epochs: %s" % of)
    pairs = numpy.zeros((3, 3))
    numpy.add.at(pairs, (sets[:, 0::2].ravel(), sets[:, 1::2].ravel()), 1)
    tap.ok(abs(pairs / pairs.sum() - numpy.outer([.6, .2, .2], [.6, .2, .2])).max() < .02, "neighbouring rows are of any sets: %s" % of)

# ---- a selection of each set ----
for words in (dict(indices=[5, 80, 3, 72, 100, 71, 4, 90]), dict(where="label == 'eel'"), dict(fold="not 1/3"), dict(split="val:0.5")):
    chosen = set(epoch_of(Loader(shares=None, **words)))
    found = epoch_of(Loader(12, samples_per_epoch=120, **words))
    sets = collections.Counter(int(numpy.searchsorted(BEGIN, i, "right")) - 1 for i in found)
    tap.ok(set(found) == chosen and [sets[k] for k in range(3)] == [60, 20, 40], "shares with %s" % words)

# ---- ranks, threads, resuming, augmentation ----
for words in (dict(), dict(shares_of="batch"), dict(shares_of="batch", samples_per_epoch=200), dict(repeats=2, samples_per_epoch=200), dict(paths=dict(zip(PATHS, SHARES)), shares=None)):
    words = dict(words, augment="crop=2,flip", epochs=2)
    whole = [parts(batch) for batch in Loader(12, workers=0, **words)]
    tap.ok(all(all((a == b).all() for a, b in zip(one, parts(other))) for one, other in zip(whole, Loader(12, workers=3, prefetch=6, **words))), "%r: with any number of threads" % words)
    full = [batch for batch in whole if len(batch[2]) == 12]
    for world in (1, 2, 3):
        ranks = [[parts(batch) for batch in Loader(12, rank=rank, world=world, last_batch="drop", **words)] for rank in range(world)]
        tap.ok(len(full) == len(ranks[0]) and all(all((numpy.concatenate(rows) == c).all() for *rows, c in zip(*batches)) for batches in zip(*ranks, full)), "%r: %d ranks" % (words, world))
    good = True
    for at in range(1, len(whole)):
        loader = Loader(12, **words)
        for _, batch in zip(range(at), loader):
            state = loader.state_dict()
        other = Loader(12, **words)
        other.load_state_dict(json.loads(json.dumps(state)))
        good &= all((a == b).all() for a, b in zip(parts(next(iter(other))), whole[at]))
    tap.ok(good, "%r: resumed anywhere" % words)
    copy = pickle.loads(pickle.dumps(Loader(12, **words)))
    tap.ok(all((a == b).all() for a, b in zip(parts(next(iter(copy))), whole[0])), "%r: pickled" % words)
images = collections.defaultdict(list)
for batch in ffload.Loader(PATHS, 12, as_="numpy", return_indices=True, augment="crop=4,flip,jitter=0.4", shares=SHARES, samples_per_epoch=300):
    for image, number in zip(batch[0], batch[2]):
        images[int(number)].append(image.tobytes())
tap.ok(all(len(set(images[i])) > len(images[i]) / 2 > 2 for i in range(BEGIN[1], BEGIN[2])), "a sample that comes again is augmented differently")
for other in (dict(shares=(3, 1, 1)), dict(shares_of="batch"), dict(shares=None), dict(samples_per_epoch=33)):
    tap.ok(raises(ffload.UsageError, lambda: Loader(12, **other).load_state_dict(Loader(12).state_dict()), "the state belongs to shares of an epoch"), "a state is refused by %r" % other)
tap.ok(Loader(12, shares=(.3, .1, .2)).load_state_dict(Loader(12).state_dict()) is None, "the same shares in other units are the same")

# ---- shares that change ----
loader, early, late = Loader(12, seed=3), Loader(12, seed=3), Loader(12, shares=(1, 1, 1), seed=3)
found = [epoch_of(loader)]
loader.shares = dict(zip(PATHS[::-1], (1, 1, 1)))
found += [epoch_of(loader), epoch_of(loader)]
late.set_epoch(1)
tap.ok(found == [epoch_of(early), epoch_of(late), epoch_of(late)] and loader.shares == dict(zip(PATHS, (1, 1, 1))), "shares set between epochs")
other = Loader(12, shares=(1, 1, 1), seed=3)
other.shares = dict(zip(PATHS[::-1], SHARES[::-1]))
tap.ok(epoch_of(other) == found[0], "a share belongs to its folder, in any order")
tap.ok(raises(ffload.UsageError, lambda: setattr(loader, "shares", (1, 1)), "3 sets") and loader.shares == dict(zip(PATHS, (1, 1, 1))) and
       epoch_of(loader) == epoch_of(late), "wrong shares change nothing")
planned = Loader(12, shares="3,1,2;1:1,1,1;4:0,0,1", seed=3)
tap.ok([epoch_of(planned) for _ in range(3)] == found, "shares by epoch from the start are the same")
planned.set_epoch(4)
tap.ok(min(epoch_of(planned)) >= BEGIN[2], "to the last stage")
tap.ok(raises(ffload.UsageError, lambda: planned.load_state_dict(Loader(12, seed=3).state_dict()), "the state belongs to"), "and are recorded")
planned = Loader(12, shares="3,1,2;1:1,1,1", seed=3)
tap.ok([epoch_of(pickle.loads(pickle.dumps(planned))) for _ in range(2)] == found[:1] * 2, "and pickled")
finish()
