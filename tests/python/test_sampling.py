#!/usr/bin/env python3
"""How often samples come: weights, repeats and classes beside NumPy's counts; ranks, resuming, augmentation. TAP."""
import collections
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import PLACE, finish, make_set, raises  # noqa: E402
from philox import philox  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

COUNT = 60
SET = make_set("plain", "--count", COUNT, "--height", 8, "--width", 8, "--classes", 5, "--shuffle", 3)
DATA = ffload.Dataset(SET, as_="numpy")
LABELS = numpy.array([int(label) for label in DATA.labels])
random = numpy.random.default_rng(5)


def Loader(batch=8, **words):
    return ffload.Loader(SET, batch, as_="numpy", return_indices=True, **words)


def numbers(loader):
    """Of an epoch, in its order."""
    return [int(i) for batch in loader for i in batch[2]]


def drawn(epochs, **words):
    """[epochs, samples]"""
    loader = Loader(128, **words)
    return numpy.array([numbers(loader) for _ in range(epochs)])


def fits(found, wanted):
    """Whether counts are those of a multinomial draw: chi-squared within 5 standard deviations (Wilson and Hilferty's cube root)."""
    found, wanted = numpy.asarray(found, float).ravel(), numpy.asarray(wanted, float).ravel()
    if (found[wanted == 0] != 0).any():
        return False
    found, wanted = found[wanted > 0], wanted[wanted > 0]
    degrees = len(found) - 1
    squares = ((found - wanted) ** 2 / wanted).sum()
    return abs((squares / degrees) ** (1 / 3) - 1 + 2 / (9 * degrees)) < 5 * math.sqrt(2 / (9 * degrees))


# ---- frequencies ----
WEIGHTS = random.exponential(size=COUNT)
WEIGHTS[[0, 7, COUNT - 1]] = 0
found = drawn(20, weights=WEIGHTS, samples_per_epoch=4000)
share = WEIGHTS / WEIGHTS.sum()
tap.ok(found.shape == (20, 4000) and fits(numpy.bincount(found.ravel(), minlength=COUNT), found.size * share), "frequencies are the weights'")
half = [numpy.bincount(found[:, k::2].ravel(), minlength=COUNT) for k in range(2)]
third = [numpy.bincount(found[k::4].ravel(), minlength=COUNT) for k in range(4)]
tap.ok(all(fits(part, part.sum() * share) for part in half + third), "at even and odd positions, and in each epoch")
heavy = int(WEIGHTS.argmax())
place = numpy.nonzero(found == heavy)[1]
tap.ok(fits(numpy.bincount(place // 200, minlength=20), numpy.full(20, len(place) / 20)), "a sample comes at all positions alike")
pairs = numpy.zeros((2, 2))
numpy.add.at(pairs, ((found[:, :-1:2] == heavy).astype(int).ravel(), (found[:, 1::2] == heavy).astype(int).ravel()), 1)
p = share[heavy]
tap.ok(fits(pairs, pairs.sum() * numpy.outer([1 - p, p], [1 - p, p])), "neighbours are independent")
tap.ok(len({tuple(epoch) for epoch in found}) == 20 and (found[0] != drawn(1, weights=WEIGHTS, samples_per_epoch=4000, seed=1)[0]).any(), "epochs and seeds differ")
scaled = drawn(2, weights=WEIGHTS * 2.0 ** -1000, samples_per_epoch=4000)
tap.ok((scaled == found[:2]).all(), "weights of another scale are the same weights")
chosen = [3, 9, 9, 20, 41]
found = drawn(4, weights=[1, 2, 3, 0, 4], indices=chosen, samples_per_epoch=5000)
tap.ok(fits(numpy.bincount(found.ravel(), minlength=COUNT), 20000 * numpy.bincount(chosen, weights=[.1, .2, .3, 0, .4], minlength=COUNT)),
       "weights of a selection")
found = drawn(4, weights=WEIGHTS, where="label != 2", samples_per_epoch=5000)
kept = numpy.where(LABELS != 2, WEIGHTS, 0)
tap.ok(fits(numpy.bincount(found.ravel(), minlength=COUNT), 20000 * kept / kept.sum()), "weights of the set with a selection")
with open(os.path.join(PLACE, "weights"), "w") as out:
    out.write("".join("%r\n" % float(weight) for weight in WEIGHTS))
tap.ok(numbers(Loader(weights=os.path.join(PLACE, "weights"))) == numbers(Loader(weights=WEIGHTS)), "weights from a file")

# ---- balanced ----
few = [int(i) for i in numpy.flatnonzero(LABELS == 0)[:2]] + [int(i) for i in numpy.flatnonzero(LABELS == 1)] + [int(i) for i in numpy.flatnonzero(LABELS == 3)[:5]]
found = drawn(10, weights="balanced", indices=few, samples_per_epoch=2000)
sizes = collections.Counter(int(LABELS[i]) for i in few)
wanted = [20000 / 3 / sizes[int(LABELS[i])] if i in few else 0 for i in range(COUNT)]
tap.ok(fits(numpy.bincount(found.ravel(), minlength=COUNT), wanted), "balanced: classes come alike, and their samples")

# ---- the very samples, by loader/sequence/sampling.h's formulas ----
def weighted(weights, seed, epoch, draw):
    shares = [int(weight / sum(weights) * 2 ** 62) for weight in weights]
    word = philox((draw & 0xffffffff, draw >> 32, epoch, 7 << 16), (seed & 0xffffffff, seed >> 32))
    x = (word[0] << 32 | word[1]) * sum(shares) >> 64
    return next(place for place in range(len(shares)) if x < sum(shares[:place + 1]))


tap.ok(philox((0, 0, 0, 0), (0, 0)) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8], "this test's Philox has Random123's known answer")
EXACT = [float(i % 7) / 4 for i in range(COUNT)]
for seed, words in ((0, {}), (2 ** 40 + 3, {}), (5, dict(repeats=3))):
    loader = Loader(8, weights=EXACT, seed=seed, **words)
    each = -(-8 // words.get("repeats", 8))
    found = [numbers(loader) for _ in range(2)]
    wanted = [[weighted(EXACT, seed, epoch, p // 8 * each + p % 8 % each if words else p) for p in range(COUNT)] for epoch in range(2)]
    tap.ok(found == wanted, "the samples are those of the formula: seed %d %s" % (seed, words or ""))

# ---- without replacement ----
def chosen_by_tree(weights, seed, epoch, count):
    """The places that the tree of sampling.h chooses; weights are fractions of a power of two with the sum `count`."""
    def below(place, n):
        word = philox((place & 0xffffffff, place >> 32, epoch, 7 << 16 | 1), (seed & 0xffffffff, seed >> 32))
        return (word[0] << 32 | word[1]) * n >> 64

    def walk(first, end, chosen):
        if end - first == 1:
            return [first] * chosen
        middle = (first + end) // 2
        left, right = sum(shares[first:middle]), sum(shares[middle:end])
        here, more = left // unit, chosen - left // unit - right // unit
        f, g = left % unit, right % unit
        if more == 2 or more == 1 and (below(middle, f + g) < f if f + g < unit else below(middle, 2 * unit - f - g) < unit - g):
            here += 1
        return walk(first, middle, here) + walk(middle, end, chosen - here)

    unit = 2 ** (62 - count.bit_length())
    shares = [int(weight * unit) for weight in weights]
    return walk(0, len(weights), count)


def distinct(epochs, **words):
    loader = Loader(128, replacement=False, **words)
    return [numbers(loader) for _ in range(epochs)]


HALVES = [(3, 5, 8, 0)[i % 4] / 8 for i in range(COUNT)]  # 30 of them
for seed in (0, 2 ** 40 + 3):
    tap.ok([sorted(found) for found in distinct(3, weights=HALVES, samples_per_epoch=30, seed=seed)] ==
           [chosen_by_tree(HALVES, seed, epoch, 30) for epoch in range(3)], "the chosen samples are those of the formula: seed %d" % seed)
SOME = random.exponential(size=COUNT) ** 2
SOME[[0, 31, COUNT - 1]] = 0
for count in (1, 7, 20, 45, 57):
    epochs = 3000 // count
    found = distinct(epochs, weights=SOME, samples_per_epoch=count)
    share, sure = SOME / SOME.sum() * count, set()
    while (share > 1).any():  # certain ones; the others have the rest
        sure |= set(numpy.flatnonzero(share >= 1))
        rest = numpy.where([i in sure for i in range(COUNT)], 0, SOME)
        share = rest / rest.sum() * (count - len(sure))
    share[list(sure)] = 1
    times = numpy.bincount(numpy.concatenate(found), minlength=COUNT)
    spread = numpy.sqrt(epochs * share * (1 - share)) + 1e-9
    tap.ok(all(len(epoch) == len(set(epoch)) == count for epoch in found), "%d samples, each at most once" % count)
    tap.ok((times[share == 1] == epochs).all() and (times[SOME == 0] == 0).all() and (abs(times - epochs * share) < 5 * spread + 1e-6).all(),
           "%d samples: as often as their weights" % count, abs((times - epochs * share) / spread).max())
found = distinct(400, weights=numpy.ones(COUNT), samples_per_epoch=30)
tap.ok(len({frozenset(epoch) for epoch in found}) > 390, "epochs have different samples")
tap.ok(all(len({first // 10 for first in epoch[:10]}) > 1 for epoch in found[:50]), "in no order of storage")
first = numpy.bincount([epoch[0] for epoch in found], minlength=COUNT)
tap.ok(fits(first, numpy.full(COUNT, 400 / COUNT)), "each sample comes first alike")
tap.ok(sorted(distinct(1, weights=numpy.ones(COUNT))[0]) == list(range(COUNT)), "all samples, each once")
for words, *parts in ((dict(), "replacement: needs weights"), (dict(weights=SOME), "needs as many", "there are 57"), (dict(weights=SOME, samples_per_epoch=58), "58 samples", "57"),
                      (dict(weights=SOME, samples_per_epoch=10, order="block"), "needs order random")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(replacement=False, **words), *parts), "replacement=False, %r is refused" % sorted(words))
extreme = numpy.array([2.0 ** (-16 * i) for i in range(COUNT)])
tap.ok(sorted(distinct(1, weights=extreme, samples_per_epoch=COUNT)[0]) == list(range(COUNT)), "weights of all sizes, all samples")
tap.ok(all({0, 1, 2} <= set(epoch) for epoch in distinct(20, weights=extreme, samples_per_epoch=4)), "weights of all sizes, the heaviest ones are certain")
images = {}
loader = ffload.Loader(SET, 20, as_="numpy", return_indices=True, weights=HALVES, samples_per_epoch=30, replacement=False, augment="flip,crop=2")
own = ffload.Loader(SET, 20, as_="numpy", return_indices=True, augment="flip,crop=2")
plain = {int(i): image.tobytes() for batch in own for image, i in zip(batch[0], batch[2])}
tap.ok(all(plain[int(i)] == image.tobytes() for batch in loader for image, i in zip(batch[0], batch[2])), "each is augmented as without weights: it comes once")

# ---- refusals ----
for weights, *parts in ((WEIGHTS - 1, "weight 0 is -"), (numpy.full(COUNT, numpy.nan), "nan"), (numpy.zeros(COUNT), "their sum is 0"),
                        (numpy.full(COUNT, numpy.inf), "inf"), (numpy.full(COUNT, 1e308), "their sum is inf"), ([1, 2], "there are 2, but", "has 60 samples"),
                        ("label", "does not hold one number"), (["a"], "weights: "), (3, "weights: ")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(weights=weights), "weights: ", *parts), "weights=%.30r is refused" % (weights,))
try:
    Loader(weights="nowhere.txt")
    tap.ok(False, "a file of weights that does not exist")
except FileNotFoundError as error:
    tap.ok((error.errno, error.filename) == (2, "nowhere.txt"), "a file of weights that does not exist: an OSError with its name", error)
tap.ok(raises(FileNotFoundError, lambda: Loader(weights="nothing"), "nothing"), "a file that there is not")
for words, *parts in ((dict(weights="balanced", order="block"), "needs order random"), (dict(weights="balanced", order="sequential"), "needs order random"),
                      (dict(repeats=2, order="sequential"), "repeats: needs order random"), (dict(weights="balanced", augment="flip=alternate"), "alternate"),
                      (dict(samples_per_epoch=COUNT + 1), "there are 60 samples"), (dict(samples_per_epoch=0), "samples_per_epoch"), (dict(repeats=0), "repeats"),
                      (dict(per_class=3), "cannot have 3 samples of each"), (dict(per_class=1), "8 classes; there are 5"),
                      (dict(per_class=4, weights="balanced"), "cannot be combined with weights"), (dict(per_class=4, repeats=2), "cannot be combined with repeats")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(**words), *parts), "%r is refused" % words)

# ---- epochs of another length ----
tap.ok(numbers(Loader(samples_per_epoch=20)) == numbers(Loader())[:20] and len(Loader(samples_per_epoch=20)) == 3, "fewer samples an epoch: its first ones")

# ---- repeats ----
for batch, repeats in ((12, 3), (16, 3), (7, 4), (5, 5), (100, 2)):
    each = -(-batch // repeats)
    plain = numbers(Loader(12, seed=2))
    wanted = [plain[p // batch * each + p % batch % each] for p in range(COUNT)]
    tap.ok(numbers(Loader(batch, seed=2, repeats=repeats)) == wanted, "%d repeats in batches of %d" % (repeats, batch))
first = next(iter(Loader(12, repeats=3)))[2]
tap.ok(sorted(collections.Counter(first.tolist()).values()) == [3] * 4 and (first[0::2] != first[1::2]).all(), "each three times, not next to itself")

# ---- classes ----
seen, classes = collections.Counter(), collections.Counter()
good = True
for _ in range(200):
    loader = Loader(8, per_class=4, seed=_)
    for batch in loader:
        labels, found = LABELS[batch[2]], batch[2]
        good &= all(len(set(labels[k:k + 4])) == 1 and len(set(found[k:k + 4])) == 4 for k in range(0, len(found) - 3, 4)) and len(set(labels[:4]) & set(labels[4:])) == 0
        good &= (batch[1] == labels).all()
        seen.update(found[:len(found) // 4 * 4].tolist())
        classes.update(labels[:len(found) // 4 * 4:4].tolist())
tap.ok(good, "batches of two classes with four samples of each")
tap.ok(fits([classes[c] for c in range(5)], [sum(classes.values()) / 5] * 5), "classes come alike", classes)
tap.ok(all(max(seen[int(i)] for i in numpy.flatnonzero(LABELS == c)) < 1.5 * min(seen[int(i)] for i in numpy.flatnonzero(LABELS == c)) for c in range(5)), "as do the samples of a class")
small = [int(i) for c in range(5) for i in numpy.flatnonzero(LABELS == c)[:2]]
found = next(iter(Loader(20, per_class=4, indices=small, samples_per_epoch=20)))[2]
tap.ok(all(sorted(collections.Counter(found[k:k + 4].tolist()).values()) == [2, 2] for k in range(0, 20, 4)), "a class of fewer samples repeats them")

# ---- ranks, threads, resuming, augmentation ----
CASES = (dict(weights=WEIGHTS, samples_per_epoch=70), dict(weights="balanced"), dict(repeats=3), dict(weights=WEIGHTS, repeats=2), dict(weights=WEIGHTS, samples_per_epoch=50, replacement=False), dict(per_class=4, samples_per_epoch=70))
for words in CASES:
    words = dict(words, augment="crop=2,flip,jitter=0.4", epochs=2)
    name = repr({key: "..." if key == "weights" else value for key, value in words.items()})
    whole = [[numpy.array(part) for part in batch] for batch in Loader(workers=0, **words)]
    tap.ok(all(all((a == b).all() for a, b in zip(one, other)) for one, other in zip(whole, Loader(workers=3, prefetch=6, **words))), "%s: with any number of threads" % name)
    ranks = [list(Loader(rank=rank, world=2, last_batch="drop", **words)) for rank in range(2)]
    full = [batch for batch in whole if len(batch[2]) == 8]
    tap.ok(len(full) == len(ranks[0]) and all(all((numpy.concatenate([a, b]) == c).all() for a, b, c in zip(*parts)) for parts in zip(*ranks, full)), "%s: ranks together" % name)
    good = True
    for at in range(1, len(whole)):
        loader = Loader(**words)
        for _, batch in zip(range(at), loader):
            state = loader.state_dict()
        other = Loader(**words)
        other.load_state_dict(state)
        batch = next(iter(other))
        good &= all((a == b).all() for a, b in zip(batch, whole[at]))
    tap.ok(good, "%s: resumed anywhere" % name)
    images = collections.defaultdict(list)
    for batch in whole[:len(whole) // 2]:
        for image, number in zip(batch[0], batch[2]):
            images[int(number)].append(image.tobytes())
    again = [len(set(own)) > len(own) / 2 for own in images.values() if len(own) > 1]
    if words.get("replacement") is False:
        tap.ok(not again, "%s: none comes again" % name)
    else:
        tap.ok(again and all(again), "%s: a sample that comes again is augmented differently" % name)
    tap.ok(raises(ffload.UsageError, lambda: Loader(**dict(words, seed=0, samples_per_epoch=33)).load_state_dict(state)), "%s: a state of others is refused" % name)
plain = Loader()
state = plain.state_dict()
tap.ok(raises(ffload.UsageError, lambda: Loader(weights="balanced").load_state_dict(state), "each sample once", "weights "), "a state without weights is refused")
state.pop("sampling", None)
plain.load_state_dict(state)
tap.ok(numbers(plain) == numbers(Loader()), "a state of an earlier version is taken")
finish()
