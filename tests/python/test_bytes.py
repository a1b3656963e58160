#!/usr/bin/env python3
"""Batches of u8 whose samples are changed (grayscale, policies, affine, blur, ...): torchvision's functions of uint8 tensors, applied to
batches of the same loader without the change; batches of f32, denormalised; views, ranks, cuts, threads, resuming, and refusals. On a
simulated GPU: tests/python/test_gpu.py. TAP."""
# Needs: python-package tests/make_set tests/exact_change
import itertools
import math
import os
import pickle
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set, raises  # noqa: E402
import tap  # noqa: E402

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"  # as in exact/test_change.py
import numpy  # noqa: E402
import ffload  # noqa: E402

COUNT, HEIGHT, WIDTH = 60, 26, 21
SETS = {channels: make_set("u8-%d" % channels, "--count", COUNT, "--height", HEIGHT, "--width", WIDTH, "--dtype", "u8", "--channels", channels, "--classes", 5)
        for channels in (3, 1)}
PIXELS = make_set("pixels", "--count", COUNT, "--height", HEIGHT, "--width", WIDTH, "--dtype", "u8", "--layout", "hwc", "--classes", 5)
SIZES = make_set("sizes", "--count", COUNT, "--height", 40, "--width", 36, "--dtype", "u8", "--variable", "--classes", 5)
WORDS = ("grayscale=1", "solarize=100:1", "posterize=3:1", "invert=1", "equalize=1", "autocontrast=1", "sharpness=2:1", "blur=5", "affine=20:0.2:0.8-1.2:10",
         "affine=30:bilinear", "trivialaugment", "trivialaugment=bilinear", "randaugment=2:9", "autoaugment", "autoaugment=cifar10", "augmix", "augmix=10:5:4:0.5:nearest",
         "vflip,blur=3:0.1-2:0.5,grayscale=0.5,solarize=60:0.3,autocontrast=0.5")


def Loader(path=SETS[3], batch=16, **words):
    return ffload.Loader(path, batch, **{"as_": "numpy", "dtype": "u8", **words})


def flat(part):
    if isinstance(part, dict):
        part = list(part.values())
    return [numpy.asarray(part)] if not isinstance(part, (tuple, list)) else [array for one in part for array in flat(one)]


def same(found, wanted):
    found, wanted = [flat(batch) for batch in found], [flat(batch) for batch in wanted]
    return len(found) == len(wanted) > 0 and all(len(one) == len(other) and all(a.shape == b.shape and a.dtype == b.dtype and (a == b).all() for a, b in zip(one, other))
                                                 for one, other in zip(found, wanted))


# ---- torchvision ----
def drawn(words, height, width, seed, epoch):
    """Of each sample the changes that are drawn: (kind, numbers)."""
    out = subprocess.run([tap.program("exact_change")], input="draw %s %d %d %d %d %d\n" % (words, seed, epoch, COUNT, height, width), stdout=subprocess.PIPE, text=True, check=True).stdout
    return [[(int(change.split(":")[0]), [float.fromhex(number) for number in change.split(":")[1:]]) for change in line.split()] for line in out.split("\n")[:-1]]


def operations(height, width, bilinear, spaces):
    """Of each operation of a policy and magnitude what `drawn` has, and the function of an image."""
    end = "_bilinear" if bilinear else ""
    for space in spaces:
        for name, (magnitudes, signed) in space.items():
            for size, sign in itertools.product([0.0] if magnitudes.ndim == 0 else magnitudes.tolist(), (1, -1) if signed else (1,)):
                magnitude = sign * size
                shift = int(abs(magnitude) + 1e-4) * (1 if magnitude > 0 else -1)
                if name == "Identity":
                    continue
                if name in MOVES:
                    word, number, matrix = MOVES[name](magnitude, shift, height, width)
                    key = [m / (0.5 * (width if i < 3 else height)) for i, m in enumerate(matrix)]
                    yield 11 if bilinear else 10, key, lambda image, _, word=word + end, number=number: v2.CHANGE[word](image, number)
                else:
                    kind, word = KINDS[name]
                    number = {"Posterize": int(magnitude), "Solarize": magnitude}.get(name, 0.0 if name in ("Invert", "Equalize", "AutoContrast") else 1.0 + magnitude)
                    # torch's magnitudes differ in their last bits from build to build: the drawn 1 - factor decides.
                    factor = name in ("Brightness", "Contrast", "Color", "Sharpness")
                    yield kind, [number], lambda image, drawn, word=word, number=number, factor=factor: v2.CHANGE[word](image, 1.0 - drawn[1] if factor else number)


def by_torchvision(images, numbers, draws, known):
    wanted = images.copy()
    for row, number in enumerate(numbers):
        image = torch.from_numpy(images[row].copy())
        for kind, values in draws[number]:
            if kind == 12:
                image = v2.blur(image, int(values[0]), values[1])
                continue
            own = [change for other, key, change in known if other == kind and all(abs(a - b) <= 1e-6 * abs(b) + 1e-9 for a, b in zip(values, key))]
            image = own[0](image, values)
        wanted[row] = image.numpy()
    return wanted


try:
    import torch
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "exact"))
    import v2
    from torchvision.transforms import autoaugment
    from torchvision.transforms.functional import _get_inverse_affine_matrix as inverse
except ImportError as missing:
    tap.skip("torchvision", missing)
else:
    torch.set_num_threads(1)
    KINDS = {"Posterize": (0, "posterize"), "Solarize": (1, "solarize"), "Invert": (2, "invert"), "Brightness": (3, "brightness"), "Equalize": (4, "equalize"),
             "AutoContrast": (5, "autocontrast"), "Contrast": (6, "contrast"), "Color": (7, "color"), "Sharpness": (9, "sharpness")}
    MOVES = {
        "ShearX": lambda m, s, h, w: ("shear_x", m, inverse([-w * 0.5, -h * 0.5], 0.0, [0, 0], 1.0, [math.degrees(math.atan(m)), 0.0])),
        "ShearY": lambda m, s, h, w: ("shear_y", m, inverse([-w * 0.5, -h * 0.5], 0.0, [0, 0], 1.0, [0.0, math.degrees(math.atan(m))])),
        "TranslateX": lambda m, s, h, w: ("affine", (0.0, s, 0, 1.0, 0.0), inverse([0, 0], 0.0, [s, 0], 1.0, [0.0, 0.0])),
        "TranslateY": lambda m, s, h, w: ("affine", (0.0, 0, s, 1.0, 0.0), inverse([0, 0], 0.0, [0, s], 1.0, [0.0, 0.0])),
        "Rotate": lambda m, s, h, w: ("rotate", m, inverse([0, 0], -m, [0, 0], 1.0, [0.0, 0.0])),
    }
    # Words whose number is not drawn.
    SINGLE = [(1, [100.0], lambda i, _: v2.CHANGE["solarize"](i, 100)), (0, [3.0], lambda i, _: v2.CHANGE["posterize"](i, 3)), (2, [0.0], lambda i, _: v2.CHANGE["invert"](i, 0)),
              (4, [0.0], lambda i, _: v2.CHANGE["equalize"](i, 0)), (5, [0.0], lambda i, _: v2.CHANGE["autocontrast"](i, 0)), (8, [0.0], lambda i, _: v2.CHANGE["grayscale"](i, 0)),
              (9, [2.0], lambda i, _: v2.CHANGE["sharpness"](i, 2.0))]
    compared = 0
    for channels, moves in itertools.product((3, 1), ("crop=2,flip", "rrc=19,flip")):
        height, width = (19, 19) if "rrc" in moves else (HEIGHT, WIDTH)
        trivial = autoaugment.TrivialAugmentWide()._augmentation_space(31)
        rand = autoaugment.RandAugment()._augmentation_space(31, (height, width))
        rand = {name: (sizes if sizes.ndim == 0 else sizes[9:10], signed) for name, (sizes, signed) in rand.items()}
        for word in ("grayscale=1", "solarize=100:1", "posterize=3:1", "invert=1", "equalize=1", "autocontrast=1", "sharpness=2:1", "blur=5", "blur=9:0.1-3:0.5",
                     "trivialaugment", "trivialaugment=bilinear", "randaugment=2:9", "randaugment=2:9:bilinear"):
            known = list(operations(height, width, "bilinear" in word, [trivial] if "trivial" in word else [rand] if "rand" in word else [])) + SINGLE
            good = True
            for layout in ("contiguous", "channels_last"):
                words = dict(seed=7, layout=layout, return_indices=True)
                draws = drawn(word, height, width, 7, 0)
                for (found, _, numbers), (plain, _, others) in zip(Loader(SETS[channels], augment=moves + "," + word, **words), Loader(SETS[channels], augment=moves, **words)):
                    wanted = by_torchvision(numpy.ascontiguousarray(plain), numbers.tolist(), draws, known)
                    good = good and found.dtype == numpy.uint8 and (numbers == others).all() and (found == wanted).all()
                    compared += found.size
            tap.ok(good, "%d channels, %s,%s: torchvision's bytes" % (channels, moves, word))
    print("# %d values, %s" % (compared, v2.VERSIONS))


# ---- beside f32 ----
def denormalised(images, dataset):
    mean, std = (numpy.array(values).reshape(-1, 1, 1) for values in (dataset.mean, dataset.std))
    return numpy.rint((images.astype(numpy.float64) * std + mean) * 255).astype(numpy.uint8)


for path, word in itertools.product((SETS[3], SETS[1], PIXELS), WORDS):
    words = dict(augment="crop=2,flip," + word if "flip" not in word else "crop=2," + word, seed=5, epochs=2)
    found, floats, dataset = list(Loader(path, **words)), list(Loader(path, dtype="f32", **words)), ffload.Dataset(path)
    plain = list(Loader(path, **dict(words, augment="crop=2,flip")))
    tap.ok(same(found, [(denormalised(images, dataset), labels) for images, labels in floats]) and same(found, plain) == (path == SETS[1] and word == "grayscale=1"), "%s %s: the f32 batches, denormalised" % (os.path.basename(os.path.dirname(path)), word))

# ---- neighbours ----
WORD = dict(augment="crop=2,flip,randaugment=2:9,grayscale=0.2", seed=11, epochs=2, return_indices=True)
whole = list(Loader(**WORD))
for more in (dict(workers=0), dict(workers=1), dict(workers=2), dict(workers=5, prefetch=1), dict(memory="64K", workers=2), dict(layout="contiguous")):
    tap.ok(same(Loader(**WORD, **more), whole), "the same with %s" % more)
tap.ok(all(images.dtype == numpy.uint8 and images.shape[1:] == (3, HEIGHT, WIDTH) and images.strides[1] == 1 for images, _, _ in whole), "channels last by default")
parts = [list(Loader(**WORD, rank=rank, world=3)) for rank in range(3)]
tap.ok(same([[numpy.concatenate(arrays) for arrays in zip(*(flat(batch) for batch in batches))] for batches in zip(*parts)], whole), "three ranks have the rows of one")
cut = list(Loader(**dict(WORD, epochs=1), cuts=2, drop_last=True))
tap.ok(same([[numpy.concatenate(arrays) for arrays in zip(flat(one), flat(other))] for one, other in zip(cut[::2], cut[1::2])], whole[:3]), "cuts")
loader = Loader(**WORD)
steps = iter(loader)
next(steps), next(steps)
resumed = Loader(**WORD, workers=0)
resumed.load_state_dict(loader.state_dict())
tap.ok(same(resumed, whole[2:]) and same(pickle.loads(pickle.dumps(loader)), list(loader)), "a state resumes, and a copy from a pickle")
for more in (dict(indices=[3, 50, 7, 7, 12] * 5), dict(weights="balanced", samples_per_epoch=40), dict(repeats=2), dict(order="block", block=8, group=2), dict(where="label in (1, 3)")):
    floats = [(denormalised(images, ffload.Dataset(SETS[3])), labels, numbers) for images, labels, numbers in Loader(dtype="f32", **WORD, **more)]
    tap.ok(same(Loader(**WORD, **more), floats), "%s: the f32 batches, denormalised" % (more,))
changed = []
for images, labels, numbers in Loader(**WORD):
    changed.append((images.copy(), labels.copy(), numbers.copy()))
    images[...] = 77
tap.ok(same(changed, whole), "batches that are changed in place change no later ones")
images, _, weight, numbers = list(Loader(**dict(WORD, epochs=1), last_batch="pad"))[-1]
tap.ok(weight.tolist() == [1] * 12 + [0] * 4 and not images[12:].any() and (images[:12] == whole[3][0]).all(), "rows that only pad are zeros")
views = list(Loader(**dict(WORD, augment="rrc=20,flip,trivialaugment,solarize=100:0.5"), views=3))
one = list(Loader(**dict(WORD, augment="rrc=20,flip,trivialaugment,solarize=100:0.5")))
tap.ok(same([(images[0], *rest) for images, *rest in views], one) and all((images[0] != images[1]).any() and (images[1] != images[2]).any() for images, *_ in views), "views")
groups = {"weak": (1, "crop=2,flip"), "strong": (2, "crop=2,flip,augmix"), "small": (2, "rrc=9,invert=0.5")}
found, floats = list(Loader(views=groups, seed=3)), list(Loader(views=groups, seed=3, dtype="f32"))
dataset = ffload.Dataset(SETS[3])
tap.ok(all((a == denormalised(b, dataset)).all() for (one, _), (other, _) in zip(found, floats) for name in ("weak", "strong") for a, b in zip(one[name], other[name])) and
       found[0][0]["small"][1].shape == (16, 3, 9, 9), "groups of views")
found, plain = list(Loader(SIZES, augment="rrc=24,flip,invert=1", seed=2)), list(Loader(SIZES, augment="rrc=24,flip", seed=2))
tap.ok(same(found, [(255 - images, labels) for images, labels in plain]), "samples of several sizes: a crop in whole numbers, then the change")
found, plain = list(Loader(PIXELS, augment="resize=30,crop=0,vflip=0.5,solarize=128:1", size=(24, 24))), list(Loader(PIXELS, augment="resize=30,crop=0,vflip=0.5", size=(24, 24)))
tap.ok(same(found, [(numpy.where(images < 128, images, 255 - images), labels) for images, labels in plain]), "a resize")

# ---- refusals ----
FLOATS = make_set("floats", "--count", 20, "--height", 8, "--width", 8, "--dtype", "f16")
for path, words, *text in ((SETS[3], "invert,jitter=0.4", "colour jitter, mixup and cutmix need batches of f32, f16 or bf16, not u8"), (SETS[3], "invert,mixup", "need batches of f32"),
                           (SETS[3], "invert,erase=0.5", "random erasing needs batches of f32"), (FLOATS, "invert", "batches of u8 cannot be made from samples of f16"),
                           (SETS[3], "blur=43", "needs more than 21 pixels a side")):
    tap.ok(raises(ffload.UsageError, lambda: Loader(path, augment=words), *text), "%s is refused" % words)
finish()
