#!/usr/bin/python3
"""ImageNet as it is distributed, in small: a tar of tars, a validation tar, and every form of its labels,
against the folders that torchvision's ImageNet extracts. meta.mat and meta-uncompressed.mat are
scipy.io.savemat's, with the devkit's fields."""
import io
import os
import random
import shutil
import struct
import sys
import tarfile
import zlib

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import archives  # noqa: E402
from archives import Image, ids, numpy, run  # noqa: E402
from tap import ok  # noqa: E402

random.seed(3)
OPTIONS = ["--resize", "20x16", "--mean", ".5,.5,.5", "--std", ".2,.2,.2", "--shard-size", "32K"]
WNIDS = {1: "n01440764", 2: "n02119789", 4: "n01443537", 5: "n09999999"}  # as meta.mat has them


def image(index):
    values = numpy.random.RandomState(index).randint(0, 256, (18 + index % 7, 21, 3), dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(values).save(out, "JPEG")
    return out.getvalue()


def add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def make_train(name, mode, inner_mode="w"):
    with tarfile.open(name, mode) as outer:
        for wnid in sorted(WNIDS.values(), reverse=True):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode=inner_mode) as tar:
                files = sorted(os.listdir("folders/train/" + wnid))
                random.shuffle(files)
                for file in files:
                    add(tar, file, open("folders/train/%s/%s" % (wnid, file), "rb").read())
            add(outer, wnid + ".tar", inner.getvalue())


# The folders that torchvision unpacks to.
index = 0
truth, lines = [], []
for wnid in WNIDS.values():
    os.makedirs("folders/train/" + wnid)
    os.makedirs("folders/val/" + wnid)
    for i in [7, 10, 2]:
        index += 1
        open("folders/train/%s/%s_%d.JPEG" % (wnid, wnid, i), "wb").write(image(index))
val = []
for i in range(1, 15):
    number = random.choice(sorted(WNIDS)) if i > 4 else sorted(WNIDS)[i - 1]
    name = "ILSVRC2012_val_%08d.JPEG" % i
    data = image(100 + i)
    open("folders/val/%s/%s" % (WNIDS[number], name), "wb").write(data)
    val.append((name, data))
    truth.append(number)
    lines.append((name, WNIDS[number]))
random.shuffle(val)

os.mkdir("imagenet")
make_train("imagenet/ILSVRC2012_img_train.tar", "w")
with tarfile.open("imagenet/ILSVRC2012_img_val.tar", "w") as tar:
    for name, data in val:
        add(tar, name, data)
for meta in ["meta.mat", "meta-uncompressed.mat"]:
    kit = "devkit-" + meta[:-4]
    with tarfile.open(kit + ".tar.gz", "w:gz") as tar:
        add(tar, "ILSVRC2012_devkit_t12/readme.txt", b"hello")
        add(tar, "ILSVRC2012_devkit_t12/data/meta.mat", open(os.path.join(here, meta), "rb").read())
        add(tar, "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
            "".join("%d\n" % number for number in truth).encode())
    tarfile.open(kit + ".tar.gz").extractall(kit)
shutil.copy("devkit-meta.tar.gz", "imagenet/ILSVRC2012_devkit_t12.tar.gz")

code, said = run("folders", "-o", "wanted", *OPTIONS)
ok(code == 0, "packs the folders", said)
wanted = {split: ids("wanted/" + split) for split in ["train", "val"]}
code, said = run("imagenet", "-o", "set", *OPTIONS)
ok(code == 0, "packs train, val and devkit in one command", said)
for split in ["train", "val"]:
    ok(ids("set/" + split) == wanted[split], "%s is torchvision's" % split, "%s, wanted %s" % (ids("set/" + split), wanted[split]))

for name, mode, inner in [("train.tar", "w", "w"), ("train.tar.gz", "w:gz", "w"), ("inner-gz.tar", "w", "w:gz")]:
    make_train(name, mode, inner)
    code, said = run(name, "-o", name + ".out", *OPTIONS)
    ok(code == 0 and ids(name + ".out") == wanted["train"], "%s alone" % name, said)

open("wnids.txt", "w").write("".join(wnid + "\n" for _, wnid in lines))
open("names.txt", "w").write("".join("%s %s\n" % (name, wnid) for name, wnid in reversed(lines)))
open("paths.txt", "w").write("".join("val/%s\t%s\n" % (name, wnid) for name, wnid in lines))
open("solution.csv", "w").write("ImageId,PredictionString\n" +
                                "".join("%s,%s 1 2 3 4 \n" % (name[:-5], wnid) for name, wnid in reversed(lines)))
with tarfile.open("val.tar.gz", "w:gz") as tar:
    for name, data in val:
        add(tar, "./val/" + name, data)
for labels in ["wnids.txt", "names.txt", "paths.txt", "solution.csv", "devkit-meta.tar.gz", "devkit-meta-uncompressed.tar.gz",
               "devkit-meta/ILSVRC2012_devkit_t12"]:
    for source in ["imagenet/ILSVRC2012_img_val.tar", "val.tar.gz"]:
        code, said = run(source, "-o", "val", "--force", "--val-labels", labels, *OPTIONS)
        ok(code == 0 and ids("val") == wanted["val"], "%s with labels from %s" % (source, labels), said)

# Without the second image: the others keep their labels, which have their numbers.
with tarfile.open("gap.tar", "w") as tar:
    for name, data in val:
        if "00000002" not in name:
            add(tar, name, data)
shutil.copytree("folders/val", "gap")
os.remove("gap/%s/%s" % (lines[1][1], lines[1][0]))
code, said = run("gap", "-o", "gap.out", *OPTIONS)
ok(code == 0, "packs the folders without an image", said)
for labels in ["wnids.txt", "names.txt", "devkit-meta.tar.gz"]:
    code, said = run("gap.tar", "-o", "val", "--force", "--val-labels", labels, *OPTIONS)
    ok(code == 0 and ids("val") == ids("gap.out"), "an image is missing, labels from %s" % labels, said)
with tarfile.open("unnumbered.tar", "w") as tar:
    for name, data in val:
        add(tar, name.replace("ILSVRC2012_val_", "photo"), data)
code, said = run("unnumbered.tar", "--format", "imagenet", "-o", "unnumbered", "--val-labels", "wnids.txt", *OPTIONS)
ok(code == 0, "names without numbers, a line for each", said)

# Without the images and the lines of a class that train has.
without = [(name, data) for name, data in sorted(val) if dict(lines)[name] != "n02119789"]
os.mkdir("lacking")
shutil.copy("imagenet/ILSVRC2012_img_train.tar", "lacking")
with tarfile.open("lacking/ILSVRC2012_img_val.tar", "w") as tar:
    for name, data in without:
        add(tar, name, data)
open("lacking.txt", "w").write("".join("%s %s\n" % (name, dict(lines)[name]) for name, _ in without))
shutil.copytree("folders", "fewer")
shutil.rmtree("fewer/val/n02119789")
code, said = run("lacking", "-o", "out", "--val-labels", "lacking.txt", *OPTIONS)
ok(code == 65 and "has no class folder n02119789" in said and "--allow-empty-classes" in said, "a class that train alone has", said)
code, said = run("fewer", "-o", "fewer.out", "--allow-empty-classes", *OPTIONS)
code, said = run("lacking", "-o", "lacking.out", "--val-labels", "lacking.txt", "--allow-empty-classes", *OPTIONS)
ok(code == 0 and ids("lacking.out/val") == ids("fewer.out/val"), "is left out with --allow-empty-classes, as that error advises", said)

# ---- what is wrong -------------------------------------------------------------------------------

shutil.copy("imagenet/ILSVRC2012_img_val.tar", "alone.tar")
code, said = run("alone.tar", "-o", "out", *OPTIONS)
ok(code == 2 and "--val-labels" in said, "a validation tar without labels asks for them", said)
open("short.txt", "w").write("n01440764\n" * 3)
open("other.txt", "w").write("n01440764\nhello\n")
open("missing.txt", "w").write("".join("%s %s\n" % line for line in lines[1:]))
open("empty.txt", "w").write("")
open("headed.txt", "w").write("n0144076\n" + open("wnids.txt").read())
with tarfile.open("fewer.tar", "w") as tar:
    for name, data in val[1:]:
        add(tar, name.replace("ILSVRC2012_val_", "photo"), data)
code, said = run("fewer.tar", "--format", "imagenet", "-o", "out", "--val-labels", "wnids.txt", *OPTIONS)
ok(code == 65 and "has 14 lines for 13 images" in said, "more lines than images without numbers", said)
open("last.txt", "w").write("n01440764\n" * (len(lines) - 1))
open("longer.txt", "w").write("".join("%s %s\n" % (name[:-5] + "x" * (i == 0) + ".JPEG", wnid) for i, (name, wnid) in enumerate(lines)))
for labels, sentence in [("short.txt", "has 3 lines"), ("other.txt", "line 2 is 'hello'"), ("missing.txt", "no line for the image"),
                         ("last.txt", "has %d lines, but there are more images" % (len(lines) - 1)),
                         ("longer.txt", "no line for the image " + lines[0][0]),
                         ("empty.txt", "has no line"), ("headed.txt", "line 1 is not a wnid"), ("alone.tar", "wanted ImageNet's devkit")]:
    code, said = run("alone.tar", "-o", "out", "--val-labels", labels, *OPTIONS)
    ok(code == 65 and sentence in said and len(said.splitlines()) == 1, "labels: %s" % sentence, said)
# A synset with children is not a class, and compressed elements follow one another without padding.
plain = open(os.path.join(here, "meta-uncompressed.mat"), "rb").read()
for name, number, packed in [("inner", 3, plain), ("unpadded", 0, None)]:
    os.makedirs(name + "/data")
    if not packed:
        end = 136 + struct.unpack("<I", plain[132:136])[0]  # of the first of two elements
        first = next(part for part in (zlib.compress(plain[128:end], level) for level in range(10)) if len(part) % 8)
        packed = plain[:128] + b"".join(struct.pack("<II", 15, len(part)) + part for part in (first, zlib.compress(plain[end:])))
    open(name + "/data/meta.mat", "wb").write(packed)
    open(name + "/data/ILSVRC2012_validation_ground_truth.txt", "w").write(
        "".join("%d\n" % (number if number and not i else wanted_id) for i, wanted_id in enumerate(truth)))
code, said = run("alone.tar", "-o", "out", "--val-labels", "inner", *OPTIONS)
ok(code == 65 and "line 1: '3' is not a class of meta.mat" in said, "a synset with children in the ground truth", said)
code, said = run("alone.tar", "-o", "out", "--val-labels", "unpadded", *OPTIONS)
ok(code == 0 and ids("out") == wanted["val"], "compressed elements of any length", said)
shutil.rmtree("out")

for meta in ["meta.mat", "meta-uncompressed.mat"]:
    data = open(os.path.join(here, meta), "rb").read()
    kit = "devkit-%s/ILSVRC2012_devkit_t12" % meta[:-4]
    crashed, whole = [], 0
    for trial in range(300):
        broken = bytearray(data)
        if trial % 3:
            for _ in range(1 + trial % 4):
                broken[random.randrange(120, len(data))] = random.randrange(256)
        else:
            broken = broken[:random.randrange(len(data))]
        open(kit + "/data/meta.mat", "wb").write(broken)
        code, said = run("alone.tar", "-o", "out", "--dry-run", "--val-labels", kit, *OPTIONS)
        whole += code == 0
        if code not in (0, 65) or (code == 65 and len(said.splitlines()) != 1):
            crashed.append((trial, code, said))
    ok(not crashed and whole < 250, "%s, broken in 300 ways: a message or the classes" % meta, crashed[:3])

archives.finish()
