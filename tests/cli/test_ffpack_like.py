#!/usr/bin/python3
"""--like and --stats-from: the set that a run was trained on, packed again from its source by what the run records, has
the same transform id and the same samples; so has one packed like the set; given options count; what contradicts is
refused. Prints TAP."""
# Needs: ffpack fftrain
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import ffpack, numpy, tap  # noqa: E402

FFTRAIN = os.path.join(tap.BUILD, "fftrain")
rng = random.Random(28)
place = tempfile.mkdtemp()
os.chdir(place)
for split, count in (("train", 12), ("val", 6)):
    for i in range(count):
        os.makedirs("photos/%s/%s" % (split, "abc"[i % 3]), exist_ok=True)
        with open("photos/%s/%s/%d.png" % (split, "abc"[i % 3], i), "wb") as file:
            file.write(packing.image(rng, size=(rng.randint(34, 70), rng.randint(34, 70))))
os.makedirs("tiles")
for i in range(6):
    os.makedirs("tiles/%s" % "abc"[i % 3], exist_ok=True)
    with open("tiles/%s/%d.png" % ("abc"[i % 3], i), "wb") as file:
        file.write(packing.image(rng, size=(32, 32)))
os.makedirs("digits")
values = numpy.random.RandomState(1).randint(0, 256, (20, 28, 28), dtype=numpy.uint8)
numpy.savez("digits.npz", x_train=values, y_train=numpy.arange(20) % 3, x_test=values[:5], y_test=numpy.arange(5) % 3)


def made(name, *arguments, program=packing.FFPACK):
    done = tap.run([program, *map(str, arguments)])
    if done.returncode:
        tap.ok(False, name, done.stderr.decode())
    return done


def packed(source, out, *options):
    """{split: (transform id, tensors)} of a packing, and what it printed."""
    done = made("packs " + out, source, "-o", out, "--force", "--json", *options)
    if done.returncode:
        return {}, {}
    said = json.loads(done.stdout)
    return {one["split"]: (one["transform_id"], packing.Packed(one["directory"]).tensors) for one in said["splits"]}, said


def trained(data, out, *options):
    made("trains " + out, "--data", data, "--model", "smallnet", "--batch", 4, "--epochs", 1, "--threads", 1, "--quiet", "--lr", 0.01, "--val", "none",
         "--out", out, *options, program=FFTRAIN)


def refused(name, code, wanted, *arguments):
    done = ffpack(*arguments, "-o", "no")
    said = done.stderr.decode()
    tap.ok(done.returncode == code and said.startswith("ffpack: ") and said.count("\n") == 1 and wanted in said and not done.stdout and
           not os.path.exists("no"), name, "%d %s" % (done.returncode, said))


# ---- a run's set, from its source

PILLOW = tap.pillow()
SETS = {
    "crop": ("photos", ["--resize", 40, "--center-crop", 32, "--interpolation", "bicubic", "--mean", "0.4,0.5,0.6", "--std", "0.2,0.3,0.25"], []),
    "raw": ("photos", ["--dtype", "u8", "--resize", "32x32", "--compress", "zstd"], []),
    "grey": ("photos", ["--mode", "gray", "--pad-square", "--resize", "32x32", "--exif", "--normalize", "half", "--dtype", "f32", "--layout", "hwc"], []),
    "sides": ("photos", ["--dtype", "u8", "--resize", 33, "--max-side", 60, "--pillow", 12, "--shuffle", 3], ["--augment", "rrc=32"]),
    "squares": ("tiles", ["--normalize", "cifar10"], []),
    "digits": ("digits.npz", ["--dtype", "u8"], []),
}
for name, (source, options, training) in SETS.items():
    wanted, _ = packed(source, name, *options, *(PILLOW if "--pillow" not in options else []))
    trained(name, "run-" + name, *training)
    for like in ("run-" + name, name):
        found, said = packed(source, "again", "--like", like)
        tap.ok(wanted and found == wanted, "%s: as it was packed, from its source, --like %s" % (name, like), said)
found, said = packed("photos", "again", "--like", "run-crop")
origin = packing.Packed("again/train").provenance["statistics"]
tap.ok(origin == "taken from a run" and said["notes"][-1] ==
       "as run-crop was packed: --dtype=f16 --layout=chw --align=64 --resize=40 --interpolation=bicubic --center-crop=32x32 --pillow=%s --mode=rgb" %
       (PILLOW[1] if PILLOW else 13), "the summary reports what --like took", (said, origin))
wanted, _ = packed("photos", "crop", *SETS["crop"][1], *PILLOW)
for like in ("run-crop/checkpoints/last", "run-crop/checkpoints/last/model.safetensors"):
    tap.ok(packed("photos", "again", "--like", like)[0] == wanted, "--like " + like)

# ---- options next to it

BASE = ["--interpolation", "bicubic", *PILLOW]
MEAN = SETS["crop"][1][-4:]
for given, whole in ((["--center-crop", 24], ["--resize", 40, "--center-crop", 24, *BASE, *MEAN]),
                     (["--dtype", "f32", "--normalize", "half"], ["--resize", 40, "--center-crop", 32, *BASE, "--normalize", "half", "--dtype", "f32"]),
                     (["--mode", "gray", "--stats", "compute"], ["--resize", 40, "--center-crop", 32, *BASE, "--stats", "compute", "--mode", "gray"]),
                     (["--stats-from", "run-raw"], ["--resize", 40, "--center-crop", 32, *BASE, "--stats-from", "raw"])):
    wanted, _ = packed("photos", "whole", *whole)
    tap.ok(wanted and packed("photos", "again", "--like", "run-crop", *given)[0] == wanted, "--like, and %s" % " ".join(map(str, given)))
refused("what contradicts it", 2, "--like run-sides (--dtype=u8 --layout=chw --align=64 --resize=33 --max-side=60", "photos", "--like", "run-sides", "--center-crop", 20)
refused("a wrong option is not blamed on it", 2, "ffpack: --mean is set without --std", "photos", "--like", "run-sides", "--mean", "0,0,0")
with open("oblong.png", "wb") as file:
    file.write(packing.image(rng, size=(48, 40)))
os.makedirs("oblong/a")
shutil.move("oblong.png", "oblong/a/1.png")
refused("images of another size than a set that was not resized", 2,
        "--like: samples of run-squares have 32x32, but samples of oblong would have 40x48; add --resize 32x32", "oblong", "--like", "run-squares")
found, _ = packed("oblong", "again", "--like", "run-squares", "--resize", "32x32")
tap.ok(found == packed("oblong", "whole", "--resize", "32x32", "--normalize", "cifar10", *PILLOW)[0] and found, "and with --resize")
numpy.save("five.npy", numpy.zeros((4, 5, 32, 32), numpy.uint8))
refused("arrays of other channels", 2, "--mode rgb: wanted 1 or 3 channels, and five.npy has 5", "five.npy", "--array-layout", "chw", "--like", "run-squares")

# ---- --stats-from

wanted, _ = packed("tiles", "whole", "--stats-from", "raw")
for place_of in ("run-raw", "run-raw/checkpoints/last", "run-raw/checkpoints/last/model.safetensors"):
    found, said = packed("tiles", "again", "--stats-from", place_of)
    tap.ok(wanted and found == wanted and said["statistics"] == "taken from a run", "--stats-from " + place_of, said)
os.mkdir("empty")
with open("weights.pth", "wb") as file:
    file.write(b"PK\3\4 and more than eight bytes")
for option in ("--stats-from", "--like"):
    refused(option + " nothing", 74, option + ": nowhere: no such folder", "tiles", option, "nowhere")
    refused(option + " an empty folder", 2, "empty: is neither a packed set with an index, nor a run or checkpoint of fftrain", "tiles", option, "empty")
    refused(option + " a file of PyTorch's", 2, "weights.pth: is not a safetensors file; wanted weights that fftrain wrote", "tiles", option, "weights.pth")
os.chdir("/")
shutil.rmtree(place)
tap.finish()
