#!/usr/bin/python3
"""Arrays of every kind, shape and element type against NumPy and torchvision: every value compared. NPY, NPZ,
folders of NPY, IDX."""
# Needs: ffpack
import gzip
import itertools
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packed  # noqa: E402
import tap  # noqa: E402
from packed import numpy, pack, write  # noqa: E402
from tap import ok  # noqa: E402

f32 = numpy.float32
rng = numpy.random.default_rng(3)
N = 5


def f16(x):
    return x.astype(numpy.float16)


def same(got, wanted):
    return got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()


def chw(images, axes):
    """(N, C, H, W) of an array with these axes."""
    if axes == "hw":
        return images[:, None]
    return images.transpose(0, 3, 1, 2) if axes == "hwc" else images


def to_tensor(images, limits=None):
    if limits is not None:
        low, high = limits
        return ((images.astype(numpy.float64) - low) / (high - low)).astype(f32)
    return images.astype(f32) / f32(255) if images.dtype == numpy.uint8 else images.astype(f32)


def normalize(x, mean, std):
    shape = (1, -1, 1, 1)
    return (x - numpy.array(mean, f32).reshape(shape)) / numpy.array(std, f32).reshape(shape)


def center_crop(x, side):
    """torchvision's CenterCrop of (N, C, H, W)."""
    height, width = x.shape[2:]
    if height < side or width < side:
        down, across = max(side - height, 0), max(side - width, 0)
        x = numpy.pad(x, ((0, 0), (0, 0), (down // 2, (down + 1) // 2), (across // 2, (across + 1) // 2)))
        height, width = x.shape[2:]
    top, left = int(round((height - side) / 2.0)), int(round((width - side) / 2.0))
    return x[:, :, top:top + side, left:left + side]


def values(dtype, shape):
    dtype = numpy.dtype(dtype)
    if dtype.kind == "f":
        return (rng.standard_normal(shape) * 3).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    info = numpy.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)


def options_for(dtype):
    if dtype.kind not in "iu" or dtype == numpy.uint8:
        return None, []
    info = numpy.iinfo(dtype)
    limits = (float(info.min), float(info.max) / 3)
    return limits, ["--range=%.17g,%.17g" % limits]


# ---- element types, axes, byte and array order ---------------------------------------------------

SHAPES = {"hw": (N, 7, 6), "hwc": (N, 7, 6, 3), "chw": (N, 3, 7, 6)}
TYPES = ["u1", "?", "i1", "<u2", ">u2", "<i2", ">i2", "<u4", "<i4", ">i4", "<u8", "<i8", ">i8",
         "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
bad = []
for (axes, shape), code in itertools.product(SHAPES.items(), TYPES):
    images = values(code, shape)
    fortran = rng.integers(2)
    numpy.savez("a.npz", images=numpy.asfortranarray(images) if fortran else images, labels=numpy.arange(N))
    limits, options = options_for(images.dtype)
    mean = [0.25] * (1 if axes == "hw" else 3)
    std = [0.5 + i / 4 for i in range(len(mean))]
    given = ["--mean", ",".join(map(str, mean)), "--std", ",".join(map(str, std))]
    wanted = normalize(to_tensor(chw(images, axes), limits), mean, std)
    for layout in ("chw", "hwc"):
        got = pack("a.npz", "--dtype", "f32", "--layout", layout, *options, *given)[""]
        if not same(got.array, wanted if layout == "chw" else wanted.transpose(0, 2, 3, 1).copy("C")):
            bad.append((axes, code, layout, fortran))
ok(not bad, "f32 of every element type, three kinds of axes, both byte orders, both array orders", bad)

bad = []
for code in ("u1", "?", ">i2", "<u2", "<f2", "<f4", ">f8", "<i8"):
    images = values(code, SHAPES["chw"])
    numpy.savez_compressed("a.npz", images=images, labels=numpy.arange(N))
    limits, options = options_for(images.dtype)
    plain = ["--mean", "0,0,0", "--std", "1,1,1"] if code == "u1" else []
    with numpy.errstate(over="ignore"):
        wanted = f16(to_tensor(images, limits))
    got = pack("a.npz", *options, *plain)[""]
    if not same(got.array, wanted) or (not plain and got.metadata.mean):
        bad.append(code)
    for side in (4, 9, 7):
        got = pack("a.npz", "--dtype", "f32", "--center-crop", side, *options, *plain)[""]
        if not same(got.array, to_tensor(center_crop(images, side), limits)):
            bad.append((code, side))
ok(not bad, "f16 of deflated arrays, nothing normalized unless asked; center crops, also larger", bad)

images = values("u1", (N, 9, 8, 12))
numpy.save("deep.npy", images)
got = pack("deep.npy", "--array-layout", "hwc", "--dtype", "u8")[""]
ok(same(got.array, images.transpose(0, 3, 1, 2).copy("C")) and got.fields["label"].kind == "none", "12 channels, no labels")
got = pack("deep.npy", "--array-layout", "chw", "--dtype", "u8", "--center-crop", "5", "--layout", "hwc")[""]
ok(same(got.array, center_crop(images, 5).transpose(0, 2, 3, 1).copy("C")), "9 channels, cropped")
flat = values("u1", (N, 8, 8, 2))
numpy.save("two.npy", flat)
got = pack("two.npy", "--dtype", "u8", "--resize", "8x8")[""]
ok(same(got.array, flat.transpose(0, 3, 1, 2).copy("C")), "2 channels, resized to their own size")
gray = values("u1", (N, 6, 6))
numpy.save("gray.npy", gray)
ok(same(pack("gray.npy", "--dtype", "u8", "--mode", "rgb")[""].array, numpy.stack([gray] * 3, 1)), "--mode rgb")
color = values("u1", (N, 6, 6, 3))
numpy.save("color.npy", color)
wanted = ((color.astype(int) * (19595, 38470, 7471)).sum(3) + 0x8000 >> 16).astype(numpy.uint8)[:, None]
ok(same(pack("color.npy", "--dtype", "u8", "--mode", "gray")[""].array, wanted), "--mode gray")
got = pack("gray.npy", "--dtype", "f32", "--range", "0,1")[""]
ok(same(got.array, gray.astype(f32)[:, None]) and got.transforms == ["to_tensor range=0,1"], "u8 with its own --range")
deep = (rng.standard_normal((N, 6, 6)) * 1000).astype("f4")
numpy.save("deep32.npy", deep)
ok(pack("deep32.npy", "--dtype", "f32")[""].transforms == [], "floats have no to_tensor line")

# ---- u16, raw and with statistics ----------------------------------------------------------------

wide = {"train": values(">u2", (40, 2, 9, 9)), "test": values(">u2", (7, 2, 9, 9))}
numpy.savez("wide.npz", x_train=wide["train"], y_train=numpy.arange(40), x_test=wide["test"], y_test=numpy.arange(7))
x = wide["train"].astype(numpy.float64).transpose(1, 0, 2, 3).reshape(2, -1)
x = (x - 100) / (65000 - 100)
got = pack("wide.npz", "--dtype", "u16", "--range", "100,65000")
ok(same(got["train"].array, wide["train"].astype("<u2")) and same(got["test"].array, wide["test"].astype("<u2")),
   "--dtype u16 stores what was there")
mean, std = (numpy.array([struct.unpack(">f", bytes.fromhex(bits))[0] for bits in all_bits], f32)
             for all_bits in (got["train"].metadata.mean, got["train"].metadata.std))
ok(numpy.allclose(mean, x.mean(1), rtol=1e-6) and numpy.allclose(std, x.std(1), rtol=1e-6)
   and got["train"].transforms[0] == "to_tensor range=100,65000", "and records exact mean and std of the train split",
   "%s %s, wanted %s %s; %s" % (mean, std, x.mean(1), x.std(1), got["train"].transforms))
got = pack("wide.npz", "--dtype", "f32", "--range", "100,65000", "--stats", "compute", "--jobs", 3)
for split in wide:
    ok(same(got[split].array, normalize(to_tensor(wide[split], (100, 65000)), mean, std)), "--stats compute of u16, " + split)
got = pack("wide.npz", "--range", "100,65000", "--compress", "zstd")
ok(same(got["test"].array, f16(to_tensor(wide["test"], (100, 65000)))), "compressed u16 as f16")
one = values("<u2", (N, 4, 4))
numpy.save("one.npy", one)
ok(same(pack("one.npy", "--dtype", "u16", "--range", "0,65535", "--compress", "zstd")[""].array, one[:, None]), "compressed u16")

# ---- names and labels ----------------------------------------------------------------------------

small = {name: values("u1", (count, 4, 4)) for name, count in (("train", 6), ("val", 3), ("test", 4))}
label = {name: rng.integers(0, 3, len(small[name])) for name in small}


def check(name, source, splits, kind, *options):
    got = pack(source, "--dtype", "u8", *options)
    ok(list(got) == sorted(splits) and all(
        same(got[s].array, small[s or "train"][:, None]) and (got[s].labels["label"] == label[s or "train"]).all()
        and got[s].provenance["source"] == kind for s in splits), name, list(got))
    return got


for pattern in (("x_{}", "y_{}"), ("{}_images", "{}_labels"), ("X_{}", "Y_{}"), ("images-{}", "targets-{}"), ("{}_data", "{}.label")):
    arrays = {}
    for s in small:
        arrays[pattern[0].format(s)], arrays[pattern[1].format(s)] = small[s], label[s]
    numpy.savez("set.npz", class_names=numpy.array(["a", "b"]), **arrays)
    check("names like %s in an .npz" % pattern[0], "set.npz", ["train", "val", "test"], "npz")
    for name, array in arrays.items():
        numpy.save(write("set_%s/%s.npy" % (pattern[0].format(""), name), b""), array)
    check("and in a folder", "set_%s" % pattern[0].format(""), ["train", "val", "test"], "npy")
check("one file of the folder, with its labels", "set_x_/x_train.npy", [""], "npy")
for images, labels in (("images", "labels"), ("data", "labels"), ("X", "y"), ("arr_0", "arr_1"), ("x", "y")):
    numpy.savez("set.npz", **{images: small["train"], labels: label["train"][:, None].astype("u1")})
    got = check("%s and %s, labels [N, 1]" % (images, labels), "set.npz", [""], "npz")[""]
ok(got.keys == ["x:%d" % i for i in range(6)], "keys are the array's name and the number", got.keys)
numpy.save("mine.npy", small["train"])
numpy.save("mine_labels.npy", label["train"])
check("any name with _labels", "mine.npy", [""], "npy")
os.makedirs("gz", exist_ok=True)
for name in ("mine", "mine_labels"):
    write("gz/%s.npy" % name.replace("mine_labels", "y").replace("mine", "x"), gzip.compress(open(name + ".npy", "rb").read()))
check("compressed with gzip", "gz/x.npy", [""], "npy")
write("three.classes", b"a\nb\nc\n")
ok(check("--classes", "mine.npy", [""], "npy", "--classes", "three.classes")[""].classes == ["a", "b", "c"], "are recorded")
for version in ((1, 0), (2, 0), (3, 0)):
    with open("x.npy", "wb") as file:
        numpy.lib.format.write_array(file, small["train"], version=version)
    numpy.save("y.npy", label["train"])
    check("NPY version %d" % version[0], "x.npy", [""], "npy")


def labels_of(array, name="labels", **more):
    numpy.savez("set.npz", images=small["train"], **{name: array}, **more)
    return pack("set.npz", "--dtype", "u8")[""]


hot = rng.integers(0, 2, (6, 9))
for code in ("u1", "?", "<i8", ">i2"):
    got = labels_of(hot.astype(code))
    ok(got.fields["label"].kind == "multi-hot" and (got.labels["label"] == hot).all(), "multi-hot labels of %s" % code)
got = labels_of(hot * 3 - 1)
ok(got.fields["label"].kind == "vector" and got.fields["label"].dtype == "i64" and (got.labels["label"] == hot * 3 - 1).all(),
   "a vector of integers")
soft = rng.random((6, 5)).astype("f4")
got = labels_of(soft)
ok(got.fields["label"].kind == "vector" and same(got.labels["label"], soft), "a vector of floats")
soft /= soft.sum(1, keepdims=True)
got = labels_of(soft.astype(">f8"))
ok(got.fields["label"].kind == "soft" and same(got.labels["label"], soft.astype(">f8").astype(f32)), "soft labels")
got = labels_of(numpy.asfortranarray(soft))
ok(got.fields["label"].kind == "soft" and same(got.labels["label"], soft), "soft labels in fortran order")
got = labels_of(soft[:, 0].astype("f2"))
ok(got.fields["label"].kind == "vector" and same(got.labels["label"], soft[:, :1].astype("f2").astype(f32)), "one float a sample")
got = labels_of(numpy.array([0, 1, -1, 2, -1, 0]))
ok(got.fields["label"].kind == "class" and got.labels["label"].tolist() == [0, 1, -1, 2, -1, 0], "-1 is unlabeled")
numpy.savez("set.npz", x_train=small["train"], y_train=label["train"], x_test=small["test"])
got = pack("set.npz", "--dtype", "u8")
ok(got["test"].labels["label"].tolist() == [-1] * 4, "a split without labels next to one with classes")

# ---- appending: classes are matched by name, sets without names stay so ----------------------------

write("other.classes", b"c\na\n")
numpy.savez("first.npz", images=small["train"], labels=numpy.array([0, 1, 2, 0, 1, 2]))
numpy.savez("more.npz", images=255 - small["train"], labels=numpy.array([-1, 0, 1, -1, 1, 0]))
pack("first.npz", "--dtype", "u8", "--classes", "three.classes")
code, _, said = packed.run("append", "packed", "more.npz", "--classes", "other.classes")
got = packed.Packed("packed").labels["label"].tolist() if ok(code == 0, "unlabeled samples are appended", said) else []
ok(got == [0, 1, 2, 0, 1, 2, -1, 2, 0, -1, 0, 2], "and stay unlabeled among classes in another order", got)

# ---- IDX -----------------------------------------------------------------------------------------

IDX = {"u1": 8, ">i1": 9, ">i2": 0x0b, ">i4": 0x0c, ">f4": 0x0d, ">f8": 0x0e}


def idx(path, array, code):
    data = struct.pack(">HBB", 0, IDX[code], array.ndim) + struct.pack(">%dI" % array.ndim, *array.shape)
    data += array.astype(code).tobytes()
    write(path, gzip.compress(data) if path.endswith(".gz") else data)


bad = []
for (axes, shape), code, label_code in itertools.product(SHAPES.items(), IDX, ("u1", ">i4")):
    images = values(code, shape)
    gz = ".gz" if rng.integers(2) else ""
    idx("idx/train-images-idx%d-ubyte%s" % (images.ndim, gz), images, code)
    idx("idx/train-labels-idx1-ubyte%s" % gz, numpy.arange(N), label_code)
    limits, options = options_for(images.dtype)
    plain = ["--mean", ",".join("0" * (1 if axes == "hw" else 3)), "--std", ",".join("1" * (1 if axes == "hw" else 3))]
    got = pack("idx", "--dtype", "f32", *options, *plain)[""]
    if not same(got.array, to_tensor(chw(images, axes), limits)) or got.labels["label"].tolist() != list(range(N)):
        bad.append((axes, code, label_code))
    for name in os.listdir("idx"):
        os.remove("idx/" + name)
ok(not bad, "IDX of every type, 3 and 4 dimensions, plain and .gz", bad)

# ---- sameness ------------------------------------------------------------------------------------

files = []
for jobs in (1, 2, 5):
    pack("wide.npz", "--range", "0,65535", "--stats", "compute", "--jobs", jobs, "--shard-size", "8K")
    files.append({os.path.join(root, name): open(os.path.join(root, name), "rb").read()
                  for root, _, names in os.walk("packed") for name in names if name != "history.jsonl"})
ok(files[0] == files[1] == files[2] and len(files[0]) > 4, "the same bytes for any number of jobs")
packed.finish()
