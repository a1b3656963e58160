#!/usr/bin/env python3
"""Several views of each sample in a batch: each view beside a few lines of NumPy that draw its crop and flip by the formula of
loader/sequence/sampling.h, and beside loaders without views; groups of other sizes; ranks, threads, resuming, the forms of a batch,
what is read, and refusals. On a simulated GPU: tests/python/test_gpu.py. TAP."""
# Needs: python-package tests/make_set
import os
import pickle
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set, raises  # noqa: E402
from philox import philox  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

COUNT, SIDE, PAD = 60, 8, 2
SET = make_set("u8", "--count", COUNT, "--height", SIDE, "--width", SIDE, "--dtype", "u8", "--classes", 5, "--fields", "label,soft")
LARGE = make_set("large", "--count", 24, "--height", 40, "--width", 36, "--dtype", "u8", "--classes", 3)
STORED = [numpy.array(image) for image, _ in ffload.Dataset(SET, as_="numpy")]


def Loader(path=SET, batch=16, **words):
    return ffload.Loader(path, batch, **{"as_": "numpy", **words})


def flat(part):
    """The arrays of a batch, one after another."""
    if isinstance(part, dict):
        part = list(part.values())
    return [numpy.asarray(part)] if not isinstance(part, (tuple, list)) else [array for one in part for array in flat(one)]


def same(found, wanted):
    """Whether two epochs have the same arrays, bit for bit."""
    found, wanted = [flat(batch) for batch in found], [flat(batch) for batch in wanted]
    return len(found) == len(wanted) > 0 and all(len(one) == len(other) and all(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
                                                                                for a, b in zip(one, other)) for one, other in zip(found, wanted))


# ---- by the formula ----
def drawn(index, view, epoch, seed, domain=2, block=0):
    index += view * 2 ** 56
    return philox((index & 0xffffffff, index >> 32, epoch, domain << 16 | block), (seed & 0xffffffff, seed >> 32))


def crop_and_flip(number, index, view, epoch, seed, alternate=False):
    """The view of a stored image by "crop=2,flip", and what was drawn."""
    word = drawn(index, view, epoch, seed)
    y, x = (word[0] * (2 * PAD + 1) >> 32), (word[1] * (2 * PAD + 1) >> 32)
    flipped = drawn(index, view, 0, seed, domain=3)[0] >> 31 ^ epoch & 1 if alternate else word[2] >> 31
    image = numpy.pad(STORED[number], ((0, 0), (PAD, PAD), (PAD, PAD)))[:, y:y + SIDE, x:x + SIDE]
    return (image[:, :, ::-1] if flipped else image), (y, x, flipped)


tap.ok(philox((0, 0, 0, 0), (0, 0)) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8], "this test's Philox has Random123's known answer")
found_draws = []
for seed, words in ((0, {}), (2 ** 40 + 3, {}), (5, dict(augment="crop=2,flip=alternate")), (6, dict(repeats=3)), (7, dict(weights="balanced", samples_per_epoch=90)),
                    (8, dict(indices=[3, 9, 9, 20, 41] * 4))):
    loader = Loader(views=4, seed=seed, dtype="u8", layout="contiguous", return_indices=True, **{"augment": "crop=2,flip", **words})
    alternate, again, good = "alternate" in words.get("augment", ""), bool(set(words) - {"augment"}), True
    for epoch in range(2):
        position = 0
        for images, _, numbers in loader:
            for row, number in enumerate(map(int, numbers)):
                index = 2 ** 63 + position + row if again else number
                for view in range(4):
                    wanted, draws = crop_and_flip(number, index, view, epoch, seed, alternate)
                    good = good and (images[view][row] == wanted).all()
                    found_draws.append((index, view, epoch, *draws))
            position += len(numbers)
    tap.ok(good and position > 0, "four views are those of the formula: seed %d %s" % (seed, words or ""))

# Whether a change of values comes, by the word that stands for it: invert, the fourth with a probability.
loader = Loader(views=5, augment="invert=0.5", dtype="f32", layout="contiguous", return_indices=True, seed=9)
plain = {int(i): image for images, _, numbers in Loader(dtype="f32", layout="contiguous", return_indices=True) for image, i in zip(images, numbers)}
inverted = [[(image != plain[int(i)]).any() for image, i in zip(images[view], numbers)] for images, _, numbers in loader for view in range(5)]
wanted = [[drawn(int(i), view, 0, 9, block=25)[3] < 2 ** 31 for i in numbers] for _, _, numbers in Loader(return_indices=True, seed=9) for view in range(5)]
tap.ok(inverted == wanted, "changes are drawn for each view")

# ---- beside loaders without views ----
WORDS = ("crop=2,flip", "rrc=6,flip", "jitter=0.4:0.4:0.4:0.1,grayscale=0.2", "rrc=6:0.2-0.9,flip,jitter=0.4:0.4:0.4:0.1,grayscale=0.2,solarize=128:0.2", "flip,erase=0.5", "cutout=4", "trivialaugment",
         "resize=10,crop=0,vflip=0.5")
for augment in WORDS:
    for words in (dict(), dict(dtype="f16", layout="contiguous")):
        size = {"size": (10, 10)} if "resize" in augment else {}
        one = [batch[0] for batch in Loader(augment=augment, seed=3, **words, **size)]
        three = list(Loader(augment=augment, views=3, seed=3, **words, **size))
        tap.ok(same([images[0] for images, _ in three], one) and same([labels for _, labels in three], [labels for _, labels in Loader(seed=3)]),
               "view 0 has the bits of a loader without views: %s %s" % (augment, words or ""))
        tap.ok(all((images[0] != images[1]).any() and (images[1] != images[2]).any() for images, _ in three), "and the views differ")

FIRST, SECOND = "rrc=24:0.4-1,flip,jitter=0.4:0.4:0.2:0.1,grayscale=0.2", "rrc=10:0.05-0.4,flip,solarize=128:0.2"
GROUPS = {"global": (2, FIRST), "local": (6, SECOND)}
crops = list(Loader(LARGE, 8, views=GROUPS, seed=4))
first, second = list(Loader(LARGE, 8, views=2, augment=FIRST, seed=4)), list(Loader(LARGE, 8, views=8, augment=SECOND, seed=4))
tap.ok([image.shape for image in flat(crops[0][0])] == [(8, 3, 24, 24)] * 2 + [(8, 3, 10, 10)] * 6, "groups have their own sizes", [image.shape for image in flat(crops[0][0])])
tap.ok(same([images["global"] for images, _ in crops], [images for images, _ in first]), "the first group's views are 0 and 1")
tap.ok(same([images["local"] for images, _ in crops], [images[2:] for images, _ in second]), "the second group's views are 2 to 7")
both = list(Loader(views={"weak": (1, "flip"), "strong": (1, ["crop=2", "flip", "randaugment"]), "small": (1, "crop", (5, 6)), "plain": (1, None)}, seed=1))
tap.ok([image.shape[2:] for image in flat(both[0][0])] == [(8, 8), (8, 8), (5, 6), (8, 8)] and same([images["plain"] for images, _ in both], [[images] for images, _ in Loader(seed=1)]),
       "a group's size, a list of words, and no augmentation")

# ---- independence ----
draws = {(index, epoch, view): rest for index, view, epoch, *rest in found_draws}
pairs = [(draws[index, epoch, 0], draws[index, epoch, view]) for index, epoch, view in draws if view]
for name, cells, cell in (("corners", 25, lambda d: d[0] * 5 + d[1]), ("flips", 2, lambda d: d[2])):
    table = numpy.zeros((cells, cells))
    for one, other in pairs:
        table[cell(one), cell(other)] += 1
    expected = numpy.outer(table.sum(1), table.sum(0)) / table.sum()
    squares, degrees = ((table - expected) ** 2 / expected).sum(), (cells - 1) ** 2
    tap.ok(abs(squares - degrees) < 5 * (2 * degrees) ** 0.5, "%s of two views of a sample are independent" % name, (squares, degrees))

# ---- ranks, threads, resuming ----
words = dict(views={"a": (2, "crop=2,flip"), "b": (1, "rrc=5,flip,jitter=0.3")}, seed=11)
whole = list(Loader(**words))
for more in (dict(workers=0), dict(workers=1), dict(workers=5), dict(workers=3, prefetch=1)):
    tap.ok(same(Loader(**words, **more), whole), "the same bits with %s" % more)
tap.ok(same(ffload.Loader(SET, 16, as_="numpy", memory="64K", workers=2, **words), whole), "and where the files are read, not mapped")
parts = [list(Loader(**words, rank=rank, world=3, last_batch="keep")) for rank in range(3)]
joined = [[numpy.concatenate(arrays) for arrays in zip(*(flat(batch) for batch in batches))] for batches in zip(*parts)]
tap.ok(same(joined, whole), "three ranks have the rows of one")
cut = list(Loader(**words, cuts=2, drop_last=True))
tap.ok(same([[numpy.concatenate(arrays) for arrays in zip(flat(one), flat(other))] for one, other in zip(cut[::2], cut[1::2])], whole[:3]), "cuts")
loader = Loader(**words)
steps = iter(loader)
next(steps)
state = loader.state_dict()
resumed = Loader(**dict(words, views=dict(words["views"], c=(1, "none"))), workers=1)
resumed.load_state_dict(state)
tap.ok(same([[images["a"], images["b"], labels] for images, labels in resumed], whole[1:]), "a state resumes, also with another number of views")
copied = pickle.loads(pickle.dumps(loader))
tap.ok(same(copied, list(loader)), "a copy from a pickle")
loader = Loader(**words)
tap.ok(same([loader.peek()], whole[:1]) and same(loader, whole) and len(loader) == 4, "peek, and the number of batches")

# ---- forms ----
ones, pair = next(iter(Loader(views=1, augment="flip"))), next(iter(Loader(views=2, augment="flip")))
tap.ok(type(ones[0]) is tuple and len(ones[0]) == 1 and type(pair) is tuple and type(pair[0]) is tuple and len(pair) == 2, "one view is a tuple, too")
images, labels, weight, numbers, keys = list(Loader(views=2, augment="flip", last_batch="pad", return_indices=True, return_keys=True, label=["label", "soft"], dtype="f16"))[-1]
tap.ok(weight.tolist() == [1] * 12 + [0] * 4 and not images[0][12:].any() and not images[1][12:].any() and images[1][:12].any() and set(labels) == {"label", "soft"} and len(keys) == 16,
       "padding is zero in every view; weights, fields, numbers, keys")
loader = Loader(views=GROUPS, path=LARGE, transform=lambda batch: batch[0]["local"][5])
tap.ok(next(iter(loader)).shape == (16, 3, 10, 10), "a transform gets the views")
tap.ok(next(iter(Loader(views=2, targets="soft")))[1].shape == (16, 5), "soft targets")
tap.ok("views: global 2 of 3x24x24, local 6 of 3x10x10" in repr(Loader(LARGE, views=GROUPS)) and "views: 2 of " in repr(Loader(views=2)), "repr", repr(Loader(LARGE, views=GROUPS)))
names = [tensor["name"] for tensor in Loader(LARGE, views=GROUPS).describe()["tensors"]]
tap.ok(names[:3] == ["images", "images/global/0", "images/global/1"] and "images/local/5" in names, "describe", names)
tensors = next(iter(Loader(views=2, as_="dlpack")))
tap.ok(type(tensors[0][1]).__name__ == "Tensor" and numpy.asarray(tensors[0][1]).shape[0] == 16, "tensors of DLPack")
try:
    import torch
except ImportError:
    tap.skip("tensors of torch", "the Python module torch is not installed")
else:
    (one, other), labels = next(iter(Loader(views=2, as_="torch", augment="rrc=6,flip", seed=2)))
    wanted = next(iter(Loader(views=2, augment="rrc=6,flip", seed=2)))[0]
    tap.ok(isinstance(other, torch.Tensor) and other.is_contiguous(memory_format=torch.channels_last) and (other.numpy() == wanted[1]).all(), "tensors of torch, channels_last")
    kept, last = [], Loader(views=2, as_="torch", epochs=3, augment="flip")
    for (one, other), labels in last:
        kept.append((other, other.clone()))
    tap.ok(all((a == b).all() for a, b in kept), "views that are kept stay as they are")

# ---- read once ----
def read(**words):
    """Bytes that the system read for an epoch of the large set without its map."""
    def count():
        with open("/proc/self/io") as file:
            return int(file.read().split()[1])
    loader = ffload.Loader(LARGE, 8, as_="numpy", memory="64K", workers=0, verify="always", **words)
    tap.ok("read" in loader.stats()["reading"], "the set is read", loader.stats()["reading"])
    before = count()
    for _ in loader:
        pass
    return count() - before


one, eight = read(augment=FIRST), read(views=GROUPS)
stored = 24 * 40 * 36 * 3
tap.ok(stored <= one < 2 * stored and abs(eight - one) < stored / 24, "eight views read each sample once", (one, eight, stored))

# ---- refusals ----
for words, *parts in ((dict(views=0), "from 1 to 64"), (dict(views=65), "from 1 to 64"), (dict(views="two"), "views: 'two'"), (dict(views={}), "views"), (dict(views={"a": 2}), "views['a']=2", "(number, augment)"),
                      (dict(views={"a": (0, "flip")}), "from 1 to 64"), (dict(views={"a": (1, "flipp")}), "views: a", "flip"), (dict(views={"a b": (1, "flip")}), "spaces"),
                      (dict(views={"a": (33, "flip"), "b": (33, "flip")}), "at most 64, not 66"), (dict(views={"a": (1, "flip")}, augment="flip"), "augment: is set in each group"),
                      (dict(views={"a": (1, "flip")}, size=8), "size"), (dict(views=2, augment="mixup"), "mixup", "there are 2"), (dict(views={"a": (1, "flip"), "b": (1, "cutmix")}), "cutmix"),
                      (dict(views={"a": (1, "flip"), "b": (1, "none", (9, 9))}), "views: number 1", "9x9"), (dict(views={"ä": (1, "flip")}), "group"), (dict(views=[2]), "views"),
                      (dict(views={"a": (1, "flip"), "b": (1, "flip=alternate")}, weights="balanced"), "alternate")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(**words), *parts), "%r is refused" % words)
tap.ok(len(Loader(views=64, augment="crop=2").peek()[0]) == 64, "64 views")
finish()
