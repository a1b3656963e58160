#!/usr/bin/python3
"""What people type by habit: options and values of other programs are answered with ours, --normalize has the usual numbers,
--help WORD finds options, OUT's parents are made, and what is not a command is called so. Prints TAP."""
# Needs: ffpack ffinspect fftrain
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import ffpack, tap  # noqa: E402

rng = random.Random(8)
place = tempfile.mkdtemp()
os.chdir(place)
for i in range(6):
    os.makedirs("flat/%s" % "ab"[i % 2], exist_ok=True)
    with open("flat/%s/%d.png" % ("ab"[i % 2], i), "wb") as file:
        file.write(packing.image(rng, size=(12, 12)))


def refused(name, wanted, *arguments):
    done = ffpack(*arguments)
    said = done.stderr.decode()
    tap.ok(done.returncode == 2 and said.startswith("ffpack: ") and said.count("\n") == 1 and wanted in said and not done.stdout, name, said)


# ---- options and values of other programs

for option, wanted in (("--workers", "--jobs N"), ("--num-workers=2", "--jobs N"), ("--output-dir", "-o OUT"), ("--overwrite", "--force"), ("-f", "--force"),
                       ("--crop", "--center-crop N"), ("--quiet", "--progress none"), ("-q", "--progress none"), ("--val-split", "--split train=0.9,val=0.1"),
                       ("--seed", "--shuffle SEED"), ("--seed", "--split-seed N")):
    name = option.split("=")[0]
    refused("%s: %s" % (option, wanted), "unknown option %s: here it is " % name, "flat", "-o", "no", option, "1")
    tap.ok(wanted in ffpack("flat", "-o", "no", option, "1").stderr.decode(), "and names %s" % wanted)
for value, ours in (("uint8", "u8"), ("float16", "f16"), ("half", "f16"), ("float32", "f32"), ("bfloat16", "bf16"), ("uint16", "u16")):
    refused("--dtype " + value, "'%s' is not one of f16|f32|bf16|u8|u16; did you mean %s?" % (value, ours), "flat", "-o", "no", "--dtype", value)

# ---- --normalize

PRESETS = {"imagenet": "0.485,0.456,0.406 0.229,0.224,0.225", "cifar10": "0.4914,0.4822,0.4465 0.2470,0.2435,0.2616",
           "cifar100": "0.5071,0.4865,0.4409 0.2673,0.2564,0.2762", "mnist": "0.1307 0.3081", "fashion-mnist": "0.2860 0.3530", "half": "0.5,0.5,0.5 0.5,0.5,0.5"}
for name, numbers in PRESETS.items():
    mean, std = numbers.split()
    grey = ["--mode", "gray"] if "," not in mean else []
    done = ffpack("flat", "-o", "one", "--normalize", name, *grey, "--force")
    ffpack("flat", "-o", "two", "--mean", mean, "--std", std, *grey, "--force")
    one, two = (packing.Packed(each) if done.returncode == 0 else None for each in ("one", "two"))
    tap.ok(one and one.tensors == two.tensors and one.provenance["statistics"] == "--normalize " + name, "--normalize %s: %s" % (name, numbers), done.stderr.decode())
packing.numpy.save("five.npy", packing.numpy.random.RandomState(1).randint(0, 256, (4, 6, 6, 5), dtype=packing.numpy.uint8))
done = ffpack("five.npy", "-o", "five", "--array-layout", "hwc", "--normalize", "half")
tap.ok(done.returncode == 0 and "mean 0.5000,0.5000,0.5000,0.5000,0.5000, std 0.5" in done.stdout.decode(), "half: of any number of channels", done.stderr.decode())
for source, name, wanted in (("five.npy", "imagenet", "--normalize imagenet has 3 values of mean and std, but five.npy has 5 channels"),
                             ("flat", "mnist", "--normalize mnist has 1 value of mean and std, but flat has 3 channels")):
    refused("%s for %s" % (name, source), wanted, source, "-o", "no", "--normalize", name, *(["--array-layout", "hwc"] if source == "five.npy" else []))
for other in (["--mean", "0,0,0", "--std", "1,1,1"], ["--stats", "compute"], ["--stats-sample", "3"], ["--stats-from", "one"]):
    refused("--normalize and " + other[0], "wanted one of --mean with --std, --normalize, --stats compute", "flat", "-o", "no", "--normalize", "half", *other)
refused("an unknown one", "'imagenette' is not one of imagenet|cifar10|cifar100|mnist|fashion-mnist|half; did you mean imagenet?", "flat", "-o", "no", "--normalize", "imagenette")
ffpack("flat", "-o", "half", "--normalize", "half", "--force")
done = ffpack("append", "half", "flat", "--normalize", "half", "--allow-duplicates")
tap.ok(done.returncode == 0, "an append with what the set has", done.stderr.decode())
refused("and with other numbers", "appended samples must be like the set's", "append", "half", "flat", "--normalize", "imagenet", "--allow-duplicates")

# ---- --help WORD

for program, word, has, lacks in (("ffpack", "crop", "--center-crop", "--jobs"), ("ffpack", "CIFAR100", "--normalize", "--jobs"), ("ffinspect", "sheet", "--png", "--verify"),
                                  ("fftrain", "momentum", "--momentum", "--epochs"), ("ffpack", "workers", "--workers: here it is --jobs N", "--mean")):
    done = subprocess.run([os.path.join(tap.BUILD, program), "--help", word], capture_output=True, text=True)
    tap.ok(done.returncode == 0 and has in done.stdout and lacks not in done.stdout and "Usage" not in done.stdout, "%s --help %s" % (program, word), done.stdout + done.stderr)
    done = subprocess.run([os.path.join(tap.BUILD, program), "--help", "zzz"], capture_output=True, text=True)
    tap.ok(done.returncode == 2 and "no option of %s has 'zzz'; '%s --help' lists all" % (program, program) in done.stderr, "%s --help zzz" % program, done.stderr)
done = ffpack("flat", "--help", "--jobs")
tap.ok(done.returncode == 0 and b"Usage" in done.stdout, "--help before an option lists all")

# ---- the parents of OUT

for arguments in (["--dry-run"], ["--resume"], ["--mean", "x"]):
    ffpack("flat", "-o", "deep/er/out", *arguments)
    tap.ok(not os.path.exists("deep"), "%s makes no folder" % arguments[0])
ffpack("nothing", "-o", "deep/er/out")
tap.ok(not os.path.exists("deep"), "nor does a SOURCE that is missing")
for out in ("deep/er/out", os.path.join(place, "ab/so/lute"), "deep//er/two/"):
    done = ffpack("flat", "-o", out, *packing.FIXED)
    tap.ok(done.returncode == 0 and packing.Packed(out).keys, out, done.stderr.decode())
refused("a folder that would be in SOURCE", "the output would lie in the source folder flat", "flat", "-o", "flat/new/er/out")
tap.ok(sorted(os.listdir("flat")) == ["a", "b"], "which stays as it was")

# ---- append

ffpack("flat", "-o", "grown")
for option, wanted in (("-o", "OUT comes first: ffpack append OUT SOURCE"), ("--output-dir", "OUT comes first"), ("--workers", "--jobs N"), ("--add-classes", "--new-classes")):
    refused("append %s: %s" % (option, wanted), wanted, "append", "flat", option, "grown")

# ---- what is not a command

for arguments in (["remove", "half", "x"], ["relabel"], ["help"], ["photo", "out"]):
    refused("ffpack " + " ".join(arguments), "%s: is neither a command nor a file or folder; the commands are merge, append, check, copy, repair, ls, push, pull and verify" % arguments[0], *arguments)
refused("close to a command", "mergee: is neither a command nor a file or folder; did you mean ffpack merge?", "mergee", "half")
done = ffpack("photo", "-o", "no")
tap.ok(b"photo: cannot open: No such file" in done.stderr, "a SOURCE that is missing is not called a command", done.stderr)
refused("two sources", "more than one SOURCE", "flat", "half", "-o", "no")

os.chdir("/")
shutil.rmtree(place)
tap.finish()
