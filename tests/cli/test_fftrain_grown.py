#!/usr/bin/python3
"""A run resumes on the samples that its sets had when the run began, to the same bits, whatever was appended since. The
oracle is the same run, resumed at the same step, on a copy of the sets from before. Prints TAP. Environment: BUILD."""
# Needs: ffpack fftrain
import os
import shutil
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import fftrain, refused  # noqa: E402

os.chdir(tempfile.mkdtemp())
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"
rng = numpy.random.default_rng(33)
COMMON = ["--data", "set", "--model", "smallnet", "--augment", "crop,flip", "--batch", 20, "--threads", 1, "--epochs", 4, "--quiet",
          "--checkpoint-every", "3 steps", "--keep", 100, "--class-weights", "balanced"]


def ffpack(*arguments):
    done = subprocess.run([os.path.join(tap.BUILD, "ffpack"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def arrays(name, train, val):
    """A folder of arrays with so many samples of 4 classes."""
    os.mkdir(name)
    for split, count in (("train", train), ("test", val)):
        if count:
            numpy.save("%s/x_%s.npy" % (name, split), rng.integers(0, 256, (count, 3, 12, 12), dtype=numpy.uint8))
            numpy.save("%s/y_%s.npy" % (name, split), rng.integers(0, 4, count) % 4)


def resumed(checkpoint, *arguments):
    """Of the run that nothing was appended to."""
    done = fftrain("--resume", checkpoint, *arguments)
    assert done.returncode == 0 and "appended" not in done.stderr, done.stderr


def weights(run):
    with open(run + "/checkpoints/last/model.safetensors", "rb") as file:
        return file.read()


def log(run):
    return [(e["epoch"], e["train_loss"], e["val_loss"]) for e in runs.epochs(run)][-2:]


arrays("first", 90, 30)
arrays("more", 40, 25)
arrays("again", 7, 60)
PACKED = {"plain": ["--dtype", "f32"], "compressed": ["--dtype", "u8", "--compress", "zstd", "--shard-size", "16K"], "shuffled": ["--shuffle", "3"]}
for kind, options in reversed(PACKED.items()):
    shutil.rmtree("set", ignore_errors=True)
    shutil.rmtree("before", ignore_errors=True)
    ffpack("first", "-o", "set", *options)
    shutil.copytree("set", "before", symlinks=True)
    done = fftrain(*COMMON, "--out", "run-" + kind)
    tap.ok(done.returncode == 0, "%s: a run" % kind, done.stderr)
    shutil.copytree("run-" + kind, "other-" + kind, symlinks=True)
    resumed("other-%s/checkpoints/step-6" % kind)
    ffpack("append", "set", "more")
    ffpack("append", "set", "again")
    # From the middle of the second epoch.
    done = fftrain("--resume", "run-%s/checkpoints/step-6" % kind)
    said = done.stderr
    tap.ok(done.returncode == 0 and said.count("set/train was appended to: the run continues with the 90 of its 137 samples with which it began") == 1 and
           said.count("set/test was appended to: the run continues with the 30 of its 115 samples with which it began") == 1,
           "%s: resumed after two appends, and reports it" % kind, done.stdout + said)
    tap.ok(done.returncode == 0 and weights("run-" + kind) == weights("other-" + kind) and log("run-" + kind) == log("other-" + kind),
           "%s: ends in the bits of the run on the sets as they were" % kind, (log("run-" + kind), log("other-" + kind)))

# ---- its later checkpoints are of the same sets; a run on the second generation returns to that
done = fftrain("--resume", "run-plain", "--epochs", 6)
alone = fftrain("--resume", "other-plain", "--epochs", 6, "--data", "before")
tap.ok(done.returncode == 0 and "90 of its 137" in done.stderr and "appended" not in alone.stderr and weights("run-plain") == weights("other-plain"),
       "resumed once more, and on the copy", done.stderr + alone.stderr)
shutil.rmtree("set")
shutil.copytree("before", "set", symlinks=True)
ffpack("append", "set", "more")
done = fftrain(*COMMON, "--out", "second")
shutil.copytree("second", "second-other", symlinks=True)
resumed("second-other/checkpoints/step-9")
shutil.rmtree("before")
shutil.copytree("set", "before", symlinks=True)
ffpack("append", "set", "again")
done = fftrain("--resume", "second/checkpoints/step-9")
tap.ok(done.returncode == 0 and "130 of its 137" in done.stderr and "55 of its 115" in done.stderr and weights("second") == weights("second-other"),
       "a run on the second of three generations", done.stderr)

# ---- new classes: a run keeps those with which it began; on another set with more it starts anew


def photos(name, classes):
    for c in classes:
        os.makedirs("%s/%s" % (name, c))
        for i in range(20):
            with open("%s/%s/%s%d.ppm" % (name, c, name, i), "wb") as file:
                file.write(b"P6\n12 12\n255\n" + rng.integers(0, 256, 432, dtype=numpy.uint8).tobytes())


photos("pictures", "pr")
photos("newer", "qr")
ffpack("pictures", "-o", "named")
NAMED = ["--data", "named", "--val", "none", *COMMON[2:]]
done = fftrain(*NAMED, "--out", "two")
shutil.copytree("two", "two-other", symlinks=True)
resumed("two-other/checkpoints/step-3")
ffpack("append", "named", "newer", "--new-classes")
done = fftrain("--resume", "two/checkpoints/step-3")
tap.ok(done.returncode == 0 and "40 of its 80 samples" in done.stderr and weights("two") == weights("two-other"),
       "a set that got more classes is used as it was, with the classes that it had", done.stderr)
done = fftrain(*(each for each in NAMED if each != "--quiet"), "--out", "three", "--weights", "two")
tap.ok(done.returncode == 0 and "the head keeps its initial values" in done.stdout + done.stderr,
       "a new run has all classes, and starts from the other one's weights but the head", done.stdout + done.stderr)
subprocess.run([os.path.join(tap.BUILD, "ffpack"), "copy", "named", "-o", "copied", "--rename-class", "q=Q"], check=True, capture_output=True)
done = fftrain("--resume", "two/checkpoints/step-3", "--data", "copied")
tap.ok(done.returncode == 65 and "the run has other data" in done.stderr, "a run does not continue on a copy that has other samples", done.stderr)

# ---- several sets as one: each is used as it was
for name, classes in (("l1", "pr"), ("l2", "pr"), ("l3", "pr"), ("r1", "qr"), ("r2", "qr"), ("r3", "sr")):
    photos(name, classes)
NORMAL = ["--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25"]
ffpack("l1", "-o", "left", *NORMAL)
ffpack("r1", "-o", "right", *NORMAL)
ffpack("append", "left", "l2")
TOGETHER = {"both": ["--val", "none", "--shares", "1,1", "--hash-every", 1], "folded": ["--fold", "1/4 stratified"]}
for run, more in TOGETHER.items():
    done = fftrain("--data", "left,right", *COMMON[2:], *more, "--out", run)
    assert done.returncode == 0, done.stderr
    shutil.copytree(run, run + "-other", symlinks=True)
    resumed(run + "-other/checkpoints/step-6")
for grown in (("right", "r2"), ("left", "l3"), ("right", "r3", "--new-classes")):
    ffpack("append", *grown)
for run in TOGETHER:
    done = fftrain("--resume", run + "/checkpoints/step-6")
    tap.ok(done.returncode == 0 and done.stderr.count("right was appended to: the run continues with the 120 of its 240 samples") == 1 + (run == "folded") and
           weights(run) == weights(run + "-other"), "%s: two sets that grew, one of them before the run and after it, end in the same bits" % run, done.stderr)
done = fftrain("replay", "both", "--step", 2)
tap.ok(done.returncode == 0 and "the same as in the run" in done.stdout, "and replay uses them", done.stdout[:300] + done.stderr)
refused("with the sets in another order it does not go on", 65, ["other data"], "--resume", "both", "--data", "right,left", "--epochs", 5)

# ---- replay from the first step, where no checkpoint is before it
done = fftrain(*COMMON, "--out", "replayed", "--data", "before", "--hash-every", 1)
shutil.copytree("replayed", "young", symlinks=True)  # as if it was killed before its first checkpoint
shutil.rmtree("young/checkpoints")
os.mkdir("young/checkpoints")
shutil.copytree("young", "hashless", symlinks=True)
os.remove("hashless/hashes.jsonl")
for run in "replayed", "young":
    done = fftrain("replay", run, "--step", 2, "--data", "set")
    tap.ok(done.returncode == 0 and "the same as in the run" in done.stdout, "%s: replay uses the set as it was before it was appended to" % run,
           done.stdout[:300] + done.stderr)
    refused("%s: and refuses another set" % run, 65, ["the run has other data, with content id", "set/test has", "--data DIR names its place"],
            "replay", run, "--step", 2, "--data", "set/test")
shutil.copytree("replayed", "later", symlinks=True)  # has checkpoints, all of them after the step
os.remove("later/hashes.jsonl")
done, alone = (fftrain("replay", "later", "--step", 2, "--data", data) for data in ("set", "before"))
tap.ok(done.returncode == 0 and done.stdout == alone.stdout, "a later checkpoint reports which set it was", done.stdout[:300] + done.stderr)
done = fftrain("replay", "hashless", "--step", 2, "--data", "before")
tap.ok(done.returncode == 0 and "the run has kept no content id of its data: replay uses before/train as it is now" in done.stderr,
       "a run that kept nothing of its data reports it", done.stderr)

# ---- ranks, both at a resume and from the start of the command
RANKS = ["--ranks", 2]
done = fftrain(*COMMON, "--out", "ranks", "--data", "before", *RANKS)
shutil.copytree("ranks", "ranks-other", symlinks=True)
resumed("ranks-other/checkpoints/step-9", *RANKS)
done = fftrain("--resume", "ranks/checkpoints/step-9", "--data", "set", *RANKS)
tap.ok(done.returncode == 0 and done.stderr.count("130 of its 137") == 1 and weights("ranks") == weights("ranks-other"), "two ranks", done.stderr)
done = fftrain("--resume", "second", "--epochs", 5, "--dp", "cpu,cpu")
tap.ok(done.returncode == 0 and done.stderr.count("130 of its 137") == 1, "two replicas", done.stderr)

# ---- a validation set of its own, the one alone that grew; samples of different sizes
ffpack("first", "-o", "apart", "--dtype", "f32")
ffpack("append", "apart", "more")
done = fftrain(*COMMON, "--out", "val", "--data", "before/train", "--val", "apart/test")
shutil.copytree("val", "val-other", symlinks=True)
shutil.copytree("apart", "apart-before", symlinks=True)
resumed("val-other/checkpoints/step-9")
ffpack("append", "apart", "again")
done = fftrain("--resume", "val/checkpoints/step-9")
tap.ok(done.returncode == 0 and "apart/test was appended to: the run continues with the 55 of its 115" in done.stderr and "before/train was" not in done.stderr and
       weights("val") == weights("val-other") and log("val") == log("val-other"), "a validation set alone", done.stderr)
for name, count, most in (("small", 40, 16), ("large", 20, 24)):
    for i in range(count):
        os.makedirs("%s/%d" % (name, i % 3), exist_ok=True)
        height, width = (int(v) for v in rng.integers(8, most, 2))
        with open("%s/%d/%s%02d.ppm" % (name, i % 3, name, i), "wb") as file:
            file.write(b"P6 %d %d 255\n" % (width, height) + rng.integers(0, 256, height * width * 3, dtype=numpy.uint8).tobytes())
ffpack("small", "-o", "sizes", "--max-side", "32", "--dtype", "u8")
SIZES = ["--data", "sizes", "--augment", "rrc=8,flip", "--val", "none"]
fftrain(*COMMON, *SIZES, "--out", "sized")
shutil.copytree("sized", "sized-other", symlinks=True)
resumed("sized-other/checkpoints/step-3")
ffpack("append", "sizes", "large")
done = fftrain("--resume", "sized/checkpoints/step-3")
tap.ok(done.returncode == 0 and "the 40 of its 60 samples" in done.stderr and weights("sized") == weights("sized-other"), "samples of different sizes", done.stderr)

# ---- replay; what is not the run's before is refused; a new run and evaluate use all
done = fftrain("replay", "second", "--step", 12)
tap.ok(done.returncode == 0 and "the same as in the run" in done.stdout, "replay makes the run's step again", done.stdout + done.stderr)
ffpack("again", "-o", "foreign", "--dtype", "f32")
ffpack("append", "foreign", "first")
refused("a set that was never the run's, and was appended to", 65, ["the run has other data", "was not the run's before, and --weights RUN in place of --resume"],
        "--resume", "second", "--epochs", 9, "--data", "foreign")
ffpack("append", "foreign", "more")
refused("nor one appended to twice", 65, ["the run has other data", "was not the run's before"], "--resume", "second", "--epochs", 9, "--data", "foreign")
FIXED = ["--dtype", "f32", "--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5"]
arrays("changed", 90, 30)
for name, source in (("whole", "first"), ("other", "changed")):
    ffpack(source, "-o", name, *FIXED)
done = fftrain(*COMMON, "--data", "whole", "--out", "exchanged")
ffpack("append", "whole", "more")
shutil.copy("other/train/shard-000000.ffs", "whole/train/shard-000000.ffs")
refused("a shard of another set of the same size", 65, ["whole/train/shard-000000.ffs: belongs to another dataset"],
        "--resume", "exchanged/checkpoints/step-3")
done = fftrain(*COMMON, "--out", "new", "--epochs", 1)
new = runs.starts("new")[0]
tap.ok(done.returncode == 0 and "appended" not in done.stderr and new["samples"] == 137, "a new run uses all", (done.stderr, new))
done = fftrain("evaluate", "set", "-c", "second")
tap.ok(done.returncode == 0 and "of 115 samples" in done.stdout, "and so does evaluate", done.stdout + done.stderr)
tap.finish()
