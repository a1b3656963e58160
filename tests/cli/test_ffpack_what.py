#!/usr/bin/python3
"""What a source is: which of its files become which split. Nothing is left out uncounted, and where two readings fit,
ffpack asks. The oracle is the list of what the test itself wrote. Prints TAP."""
# Needs: ffpack
import io
import json
import os
import pickle
import random
import shutil
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import ffpack, image, tap  # noqa: E402

rng = random.Random(26)
place = tempfile.mkdtemp()
os.chdir(place)
PICTURE = image(rng)
SMALL = ["--resize", "8x8", "--dtype", "u8"]


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def tar(path, count=2):
    """A WebDataset tar: samples called after the tar."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with tarfile.open(path, "w") as into:
        for i in range(count):
            for ending, data in ((".png", PICTURE), (".cls", b"%d" % i)):
                info = tarfile.TarInfo("%s-%d%s" % (path.replace("/", "_").replace(".", "_"), i, ending))
                info.size = len(data)
                into.addfile(info, io.BytesIO(data))


def fresh():
    for name in os.listdir(place):
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)


def packs(name, splits, notes, *arguments):
    """splits: {split: items}; notes: pieces of the summary's lines. Also the dry run reports it."""
    done = ffpack(*arguments, "-o", "out", "--json", "--force", *SMALL)
    dry = ffpack(*arguments, "--dry-run", "--json", *SMALL)
    text = ffpack(*arguments, "--dry-run", *SMALL).stdout.decode()
    if done.returncode or dry.returncode:
        return tap.ok(False, name, done.stderr.decode() + dry.stderr.decode())
    found = [{s["split"]: s["items"] for s in json.loads(run.stdout)["splits"]} for run in (done, dry)]
    lacks = [piece for piece in notes if piece not in text]
    shutil.rmtree("out")
    return tap.ok(found == [splits, splits] and not lacks, name, "%s %s\n%s" % (found, lacks, text))


def asks(name, pieces, *arguments, code=2):
    done = ffpack(*arguments, "-o", "out", *SMALL)
    said = done.stderr.decode()
    tap.ok(done.returncode == code and said.count("\n") == 1 and all(p in said for p in pieces) and not os.path.exists("out"),
           name, "%d %s" % (done.returncode, said))
    shutil.rmtree("out", ignore_errors=True)


# ---- the splits of a WebDataset ------------------------------------------------------------------
for train, val, split in (("imagenet1k-train-0000.tar", "imagenet1k-validation-00.tar", "val"),
                          ("imagenet-train-000000.tar", "imagenet-val-000000.tar", "val"),
                          ("shards-train-0.tar", "shards-test-0.tar", "test"), ("train0.tar", "VAL_0.tar", "val"),
                          ("a.train.0.tar", "a.dev.0.tar", "val")):
    tar("w/" + train, 3), tar("w/" + val, 2)
    packs("%s and %s are two splits" % (train, val), {"train": 3, split: 2}, [], "w")
    fresh()
tar("w/latest-0.tar", 1), tar("w/contraining-1.tar", 1)
packs("words within words say no split", {"": 2}, [], "w")
fresh()
tar("w/trainval-0.tar"), tar("w/test-0.tar")
asks("trainval and test", ["w: the name of test-0.tar has the split test, and the name of trainval-0.tar has no split", "--splits none"], "w")
packs("are one set with --splits none", {"": 4}, [], "w", "--splits", "none")
asks("--splits of other words", ["wanted none"], "w", "--splits", "val=test-0.tar")
fresh()
tar("w/train-0.tar"), tar("w/val-0.tar"), tar("w/extra-0.tar")
asks("one more tar next to splits", ["train-0.tar has the split train", "extra-0.tar has no split"], "w")
asks("in a pattern, too", ["extra-0.tar has no split"], "w/{train,val,extra}-0.tar")
fresh()
tar("w/train-test-0.tar"), tar("w/train-1.tar")
asks("two splits in one name", ["train-test-0.tar has several splits"], "w")
fresh()
tar("w/00000.tar"), tar("w/train/0.tar"), tar("w/val/0.tar")
asks("tars beside folders of tars", ["w: holds tars next to the folder train"], "w")
os.remove("w/00000.tar"), tar("w/extra/0.tar")
asks("a folder of tars that is not a split", ["holds the folder extra of tars"], "w")
shutil.rmtree("w/extra"), os.remove("w/train/0.tar"), tar("w/train/sub/0.tar")
asks("a split without tars", ["w: the folder train holds no tars, and val does"], "w")
fresh()
tar("w/train-0.tar"), tar("w/train-1.tar"), tar("w/train-4.tar"), tar("w/.val-0.tar"), tar("w/._train-0.tar")
write("w/README.md", b"x"), write("w/index.json", b"{}"), write("w/docs/a.txt", b"x")
packs("what is not a tar is counted, a missing number is noted", {"": 6},
      ["left out: 2 hidden files (w/._train-0.tar, ...)", "left out: 1 file in .md (w/README.md)", "left out: 1 file in .json",
       "left out: 1 folder without tars (w/docs)", "2 tars are missing in the sequence of numbers, first after train-1.tar"], "w")
fresh()
for i in range(3):
    tar("w/train/a-%05d-of-00003.tar" % i), tar("w/val/a-%05d-of-00001.tar" % (2 * i))
packs("N of M", {"train": 6, "val": 6}, ["2 tars are missing in the sequence of numbers, first after a-00000-of-00001.tar"], "w")
fresh()
# ---- the last tars of a sequence, of which no other name tells
tar("w/train-000.tar"), tar("w/train-001.tar"), tar("w/val-7.tar")
packs("first, last and count are said", {"train": 4, "val": 2},
      ["tars: 2 of a sequence of numbers, train-000.tar to train-001.tar\n", "tars: 1 of a sequence of numbers, val-7.tar\n"], "w")
fresh()
tar("w7/only.tar"), tar("w7/b.tar")
said = ffpack("w7", "--dry-run", *SMALL).stdout.decode()
tap.ok("sequence" not in said, "names without numbers are none, whatever their folder's name", said)
fresh()
for ending in ("tar.bz2", "tbz2", "tar.gz"):
    tar("w/train-1.tar"), tar("w/train-2.tar")
    for i in (1, 2):
        os.rename("w/train-%d.tar" % i, "w/train-%d.%s" % (i, ending))
    packs("of ." + ending, {"": 4}, ["tars: 2 of a sequence of numbers, train-1.%s to train-2.%s" % (ending, ending)], "w")
    fresh()
for begin in (0, 1):
    for missing in range(4):
        for i in range(4):
            if i != missing:
                tar("w/a-%05d-of-00004.tar" % (begin + i))
        there = [begin + i for i in range(4) if i != missing]
        asks("number %d of 4 is missing, from %d" % (missing, begin),
             ["w: 3 tars are there of the 4 that their names count, a-%05d-of-00004.tar to a-%05d-of-00004.tar; wanted all" % (there[0], there[-1])], "w", code=65)
        if missing == 3:
            packs("a brace pattern names those that are meant", {"": 6}, [], "w/a-{%05d..%05d}-of-00004.tar" % (begin, begin + 2))
            tar("w/a-%05d-of-00004.tar" % (begin + 3))
            packs("all four from %d" % begin, {"": 8}, ["tars: 4 of a sequence of numbers, a-%05d-of-00004.tar to a-%05d-of-00004.tar" % (begin, begin + 3)], "w")
        fresh()
tar("w/train-0-of-2.tar"), tar("w/train-1-of-2.tar"), tar("w/val-0-of-2.tar")
asks("one of a split's", ["w: 1 tar is there of the 2 that their names count, val-0-of-2.tar to val-0-of-2.tar"], "w", code=65)
fresh()


def sequences(*names):
    """What a dry run says of tars with these names."""
    for name in names:
        tar("w/" + name, 1)
    done = ffpack("w", "--dry-run", *SMALL)
    fresh()
    return [line for line in done.stdout.decode().splitlines() if "sequence" in line] if done.returncode == 0 else done.stderr.decode()


ONE = "tars: 1 of a sequence of numbers, "
for title, names, wanted in (
        ("other letters before the numbers, as many", ["a1.tar", "b3.tar"], [ONE + "a1.tar", ONE + "b3.tar"]),
        ("other letters before the numbers, more", ["a1.tar", "ab3.tar"], [ONE + "a1.tar", ONE + "ab3.tar"]),
        ("other letters after the numbers", ["a1x.tar", "a3y.tar"], [ONE + "a1x.tar", ONE + "a3y.tar"]),
        ("numbers of other lengths", ["a9.tar", "a10.tar", "a11.tar"], ["tars: 3 of a sequence of numbers, a9.tar to a11.tar"]),
        ("digits that are not a number of 64 bits", ["a1000000000000000000.tar", "a9000000000000000000.tar"], []),
        ("a number written twice", ["a-0-of-2.tar", "a-00-of-2.tar"],
         "ffpack: w: 1 tar is there of the 2 that their names count, a-0-of-2.tar to a-00-of-2.tar; wanted all, or a brace pattern that names those that are "
         "meant\n"),
        ("eight sequences", ["%s1.tar" % c for c in "abcdefgh"], [ONE + "%s1.tar" % c for c in "abcdefgh"]),
        ("nine sequences are not said", ["%s1.tar" % c for c in "abcdefghi"], []),
        ("except for those that lack some", ["%s1.tar" % c for c in "abcdefghi"] + ["i4.tar", "i9.tar"],
         ["tars: 3 of a sequence of numbers, i1.tar to i9.tar", "6 tars are missing in the sequence of numbers, first after i1.tar"])):
    found = sequences(*names)
    tap.ok(found == wanted, "sequences of tars: " + title, (found, wanted))

# ---- tars that were cut off ----------------------------------------------------------------------
tar("w/a-0.tar", 5)
with open("w/a-0.tar", "rb") as file:
    whole = file.read()
with tarfile.open("w/a-0.tar") as found:
    ends = [m.offset_data + (m.size + 511) // 512 * 512 for m in found]
for at in (ends[5], ends[-1]):
    write("cut.tar", whole[:at])
    asks("a tar cut off between two members, at byte %d of %d" % (at, len(whole)), ["cut.tar: ends at byte %d after a member" % at], "cut.tar", code=65)
    write("cut.tar", whole[:at] + bytes(1024))
    packs("with zeros it is whole", {"": 3 if at == ends[5] else 5}, [], "cut.tar")
write("cut.tar", whole[:ends[-1]] + bytes(512))
packs("one block of zeros is an end", {"": 5}, [], "cut.tar")
for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
    with tarfile.open("images.tar", "w", format=format) as into:
        for name in ("a/1.png", "b/" + 40 * "long/" + "2.png"):
            info = tarfile.TarInfo(name)
            info.size = len(PICTURE)
            into.addfile(info, io.BytesIO(PICTURE))
        into.addfile(tarfile.TarInfo("c.txt"))
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        into.addfile(folder)
    packs("a whole tar of format %d" % format, {"": 2}, ["1 file in .txt"], "images.tar")
fresh()
# ---- two kinds of sources in one folder ----------------------------------------------------------
array = io.BytesIO()
packing.numpy.save(array, packing.numpy.arange(768, dtype="u1").reshape(4, 8, 8, 3))
batch = pickle.dumps({b"data": packing.numpy.zeros((4, 3072), "u1"), b"labels": [0, 1, 2, 3]}, protocol=2)
idx = bytes((0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 8)) + bytes(64)
for stray, data, kind in (("data.npy", array.getvalue(), "npy"), ("x.npy", array.getvalue(), "npy"), ("train.bin", bytes(6148), "cifar"),
                          ("test_batch", batch, "cifar"), ("train-images-idx3-ubyte", idx, "idx"), ("backup.tar", None, "webdataset")):
    for classes in ("m/%s", "m/train/%s", "m/val/%s"):
        for name in ("cat", "dog"):
            write(classes % name + "/1.png", PICTURE)
        if data:
            write("m/" + stray, data)
        else:
            tar("m/" + stray)
        asks("%s beside %s" % (stray, classes % "cat"), ["m: holds what is read as %s, and what is read as folder" % kind,
                                                       "--format %s or --format folder" % kind], "m")
        split = classes.split("/")[1] if classes.count("/") > 1 else ""
        packs("  --format folder packs the images", {split: 2}, ["left out: 1 file" if stray != "train-images-idx3-ubyte" else ""], "m", "--format", "folder")
        fresh()
write("m/data.npy", array.getvalue()), write("m/notes/plan.md", b"x"), write("m/logo.png", PICTURE)
packs("an array beside no class folders", {"": 4}, [], "m")
fresh()
# ---- which arrays are images and labels ----------------------------------------------------------
numpy = packing.numpy
IMAGES = numpy.arange(768, dtype="u1").reshape(4, 8, 8, 3)
LABELS = numpy.array([2, 0, 1, 2])


def arrays(form, names):
    """{name: array} as files of a folder, or in an .npz. The SOURCE."""
    os.makedirs("n", exist_ok=True)
    if form == "npz":
        numpy.savez("n.npz", **names)
        return "n.npz"
    for name, values in names.items():
        numpy.save("n/%s.npy" % name, values)
    return "n" if form == "folder" else "n/%s.npy" % next(iter(names))


def labeled(name, source, wanted):
    done = ffpack(source, "-o", "out", "--dtype", "u8")
    found = packing.Packed("out").labels["label"] if done.returncode == 0 else done.stderr.decode()
    tap.ok(found == wanted, name, found)
    shutil.rmtree("out", ignore_errors=True)


for images, labels in (("images", "images_labels"), ("data", "data_labels"), ("X", "X_labels"), ("x_train", "x_train_labels"), ("trainX", "trainY"),
                       ("x_train", "y_train"), ("imgs", "imgs-targets")):
    for form in ("npz", "folder", "file"):
        labeled("%s of %s in a %s" % (labels, images, form), arrays(form, {images: IMAGES, labels: LABELS}), LABELS.tolist())
        fresh()
for images, labels in (("X_train_224", "y_train_224"), ("photos", "photos_labels"), ("photos", "photos_y")):
    labeled("%s of %s as a file" % (labels, images), arrays("file", {images: IMAGES, labels: LABELS}), LABELS.tolist())
    fresh()
for images, labels in (("images", "fine_labels"), ("images", "coarse_label"), ("X", "classes"), ("x_train", "y_train_onehot")):
    for form in ("npz", "folder"):
        labeled("%s with %s in a %s" % (images, labels, form), arrays(form, {images: IMAGES, labels: LABELS, "extra": IMAGES}), LABELS.tolist())
        fresh()
labeled("y before X_labels and names", arrays("npz", {"X": IMAGES, "X_labels": LABELS[::-1], "y": LABELS, "class_names": LABELS}), LABELS.tolist())
fresh()
for form in ("npz", "folder"):
    source = arrays(form, {"x_train": IMAGES, "y_train": LABELS, "mnist_x_test": IMAGES, "mnist_y_test": LABELS, "x_extra": IMAGES})
    packs("other arrays are left out of a %s, and counted" % form, {"": 4}, ["left out: 3 arrays (mnist_x_test.npy, ...)"], source)
    fresh()
    asks("two that may be labels in a %s" % form, ["coarse_labels.npy and fine_labels.npy may both be the labels of images.npy"],
         arrays(form, {"images": IMAGES, "coarse_labels": LABELS, "fine_labels": LABELS}))
    fresh()
    asks("a typo in a %s" % form, ["x_train.npy has no labels, and y_trian.npy is called like labels"], arrays(form, {"x_train": IMAGES, "y_trian": LABELS}))
    fresh()
packs("a typo next to a file", {"": 4}, ["no file is called like the labels of x_train.npy; y_trian.npy was left out"],
      arrays("file", {"x_train": IMAGES, "y_trian": LABELS}))
write("n/notes.txt", b"x"), write("n/.hidden.npy", b"x"), os.remove("n/y_trian.npy")
packs("no labels at all", {"": 4}, ["no array is called like the labels of x_train.npy", "left out: 1 file in .txt", "left out: 1 hidden file"], "n")
fresh()
tap.finish()
