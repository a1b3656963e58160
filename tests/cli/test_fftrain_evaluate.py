#!/usr/bin/python3
"""fftrain evaluate on a folder of images: the numbers of the same folder packed with --like RUN, and of predict's lines;
and on a set with other classes than the run's, which are matched by name. Prints TAP."""
# Needs: ffpack fftrain
import csv
import io
import json
import os
import random
import shutil
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import ffpack, tap  # noqa: E402

FFTRAIN = os.path.join(tap.BUILD, "fftrain")
rng = random.Random(5)
place = tempfile.mkdtemp()
os.chdir(place)
os.mkdir("temporary")
os.environ["TMPDIR"] = os.path.join(place, "temporary")
CLASSES = ["a,b", "50% off", "Käse \"x\"", "7"]


def write(folder, name, count, size=None):
    os.makedirs("%s/%s/deep" % (folder, name), exist_ok=True)
    for i in range(count):
        noise = packing.Image.open(io.BytesIO(packing.image(rng, size=size or (rng.randint(34, 60), rng.randint(34, 60)))))
        shade = 80 * CLASSES.index(name)
        packing.Image.blend(noise, packing.Image.new("RGB", noise.size, (shade, 255 - shade, 99)), 0.2).save(
            "%s/%s/%s%02d.png" % (folder, name, "deep/" if i % 4 == 3 else "", i))


def fftrain(*arguments):
    return tap.run([FFTRAIN, *map(str, arguments)])


def numbers(*arguments):
    done = fftrain("evaluate", *arguments, "--json", "--threads", 1)
    if done.returncode:
        tap.ok(False, "evaluates " + " ".join(arguments), done.stderr.decode())
        return {}
    return json.loads(done.stdout)


def same(one, other):
    return bool(one) and all(one[key] == other.get(key) for key in ("accuracy", "samples", "loss", "unknown_samples", "unknown_classes"))


def refused(name, code, wanted, *arguments):
    done = fftrain("evaluate", *arguments)
    said = done.stderr.decode()
    tap.ok(done.returncode == code and said.count("\n") == 1 and wanted in said and not done.stdout and not os.listdir("temporary"), name,
           "%d %s" % (done.returncode, said))


for name in CLASSES[:3]:
    write("photos/train", name, 12)
    write("photos/test", name, 8)
    write("new", name, 9)
OPTIONS = {"crop": ["--resize", 36, "--center-crop", 32, "--normalize", "imagenet", *tap.pillow()], "raw": ["--dtype", "u8", "--resize", "32x32", *tap.pillow()],
           "plain": []}
for name in CLASSES[:3]:
    write("small/train", name, 8, (32, 32))
    write("small/test", name, 8, (32, 32))
for name, options in OPTIONS.items():
    source = "small" if name == "plain" else "photos"
    done = ffpack(source, "-o", name, *options)
    done = fftrain("--data", name, "--model", "smallnet", "--batch", 6, "--epochs", 3, "--threads", 1, "--quiet", "--lr", 0.02, "--out", "run-" + name)
    tap.ok(done.returncode == 0, "a run on " + name, done.stderr.decode())
    folder = "small/test" if name == "plain" else "new"
    ffpack(folder, "-o", "new-" + name, "--like", "run-" + name)
    found, packed = numbers("run-" + name, folder), numbers("run-" + name, "new-" + name)
    tap.ok(same(found, packed) and found["data"] == folder and found["unreadable_images"] == 0, "%s: a folder has the numbers of its set" % name, (found, packed))
    lines = [json.loads(line) for line in fftrain("predict", "run-" + name, folder).stdout.splitlines()]
    right = sum(line["name"] == urllib.parse.unquote(line["key"])[len(folder) + 1:].split("/")[0] for line in lines)
    tap.ok(lines and found["samples"] == len(lines) and abs(found["accuracy"] - right / len(lines)) < 1e-9, "%s: the accuracy of predict's lines" % name,
           (found, right, len(lines)))
found, packed = numbers("run-crop", "photos/test/"), numbers("run-crop", "crop/test")
tap.ok(same(found, packed), "the run's own test images have the numbers of its test set", (found, packed))
done = fftrain("evaluate", "run-crop", "new", "--threads", 1)
tap.ok(done.returncode == 0 and "Accuracy on new: %.2f %%" % (100 * numbers("run-crop", "new")["accuracy"]) in done.stdout.decode() and
       not os.listdir("temporary"), "the sentence names the folder; nothing is left in TMPDIR", done.stdout.decode())

# ---- fewer classes, and others

shutil.copytree("new/50% off", "few/50% off")
shutil.copytree("new/Käse \"x\"", "few/Käse \"x\"")
ffpack("few", "-o", "few-set", "--like", "run-crop")
found, packed = numbers("run-crop", "few"), numbers("run-crop", "few-set")
tap.ok(same(found, packed) and found["samples"] == 18 and found["unknown_samples"] == 0, "a folder with some of the classes, and its set", (found, packed))
write("more", CLASSES[3], 5)
shutil.copytree("new", "all")
shutil.copytree("more/7", "all/7")
refused("a class that the run lacks", 65, "all/7/00.png: the run has no class '7'; it has 50% off, Käse \"x\", a,b", "run-crop", "all")
write("loose", "a,b", 1)
shutil.copy("loose/a,b/00.png", "loose/00.png")
refused("an image in no class folder", 65, "loose/00.png: lies in no class folder; wanted loose/CLASS/00.png", "run-crop", "loose")
os.mkdir("empty")
refused("an empty folder", 65, "empty: neither a packed set nor a folder with files that are named as images are", "run-crop", "empty")
refused("two of them", 2, "unexpected argument 'new'; one set or folder of images is wanted", "run-crop", "few", "new")

before = numbers("run-crop", "new-crop")
done = ffpack("append", "new-crop", "more", "--new-classes")
tap.ok(done.returncode == 0, "a class is appended", done.stderr.decode())
after = numbers("run-crop", "new-crop")
tap.ok(before and after["accuracy"] == before["accuracy"] and abs(after["loss"] - before["loss"]) < 1e-6 and after["samples"] == before["samples"] == 27 and
       after["unknown_samples"] == 5 and after["unknown_classes"] == ["7"] and before["unknown_classes"] == [], "an older run: the new class is left out", (before, after))
done = fftrain("evaluate", "run-crop", "new-crop", "--threads", 1)
tap.ok(done.returncode == 0 and "\nLeft out: 5 samples of 1 class that the model does not have: 7\n" in done.stdout.decode(), "which a sentence says", done.stdout.decode())
with open("turned.txt", "w") as file:
    file.write("7\na,b\nKäse \"x\"\n50% off\n")
ffpack("all", "-o", "turned", "--like", "run-crop", "--classes", "turned.txt")
turned = numbers("run-crop", "turned")
tap.ok(before and turned["accuracy"] == before["accuracy"] and turned["samples"] == 27 and turned["unknown_classes"] == ["7"], "classes in another order", turned)
with open("turned.txt", "w") as file:
    file.write("a,b\nKäse \"x\"\n50% off\n")
ffpack("new", "-o", "around", "--like", "run-crop", "--classes", "turned.txt")
around = numbers("run-crop", "around")
tap.ok(before and around["accuracy"] == before["accuracy"] and around["samples"] == 27 and around["unknown_samples"] == 0, "the same classes in another order", around)
ffpack("more", "-o", "foreign", "--like", "run-crop")
refused("no class of the run", 65, "both need the same classes in the same order", "run-crop", "foreign")

# ---- broken images

shutil.copytree("few", "broken")
os.mkdir("broken/a,b")
for name in ("a,b/1.png", "50% off/zz.jpg"):
    with open("broken/" + name, "wb") as file:
        file.write(b"no image")
for option, code, last in ((["--on-error", "fail"], 65, "fftrain: 2 of 20 images could not be read"),
                           (["--on-error", "skip"], 0, "fftrain: skipped 2 of 20 images, which could not be read")):
    done = fftrain("evaluate", "run-crop", "broken", "--json", "--threads", 1, *option)
    said = done.stderr.decode().splitlines()
    found = json.loads(done.stdout or b"{}")
    tap.ok(done.returncode == code and said[-1] == last and sum("fftrain: left out broken/" in line for line in said) == 2 and found["unreadable_images"] == 2 and
           found["samples"] == 18 and found["accuracy"] == numbers("run-crop", "few")["accuracy"], "broken images: " + option[1], (done.returncode, said, found))
for folder in os.listdir("broken"):
    shutil.rmtree("broken/" + folder)
os.mkdir("broken/a,b")
with open("broken/a,b/1.png", "wb") as file:
    file.write(b"no image")
done = fftrain("evaluate", "run-crop", "broken")
tap.ok(done.returncode == 65 and done.stderr.decode().splitlines()[-1] == "fftrain: 1 of 1 image could not be read" and not done.stdout, "only broken images", done.stderr.decode())
done = fftrain("predict", "run-crop", "broken", "-o", "broken.csv")
with open("broken.csv", newline="") as file:
    rows = list(csv.reader(file))
fftrain("predict", "run-crop", "few", "-o", "few.csv")
with open("few.csv", newline="") as file:
    wanted = next(csv.reader(file))
tap.ok(done.returncode == 65 and rows[0] == wanted and "probability_3" in wanted and "probability_4" not in wanted and len(rows[1]) == len(wanted),
       "predict of only broken images has the header of the run's classes", rows)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
