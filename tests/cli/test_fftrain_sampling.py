#!/usr/bin/python3
"""--sample-weights, --samples-per-epoch, --repeats: the samples of each step, ranks, a run that continues; what is refused. Prints TAP.
Environment: BUILD."""
# Needs: ffpack ffinspect fftrain tests/make_set
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import epochs, events, fftrain, refused, stored_bytes  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"
COUNTS = {"a": 60, "b": 20, "c": 10}
for kind, count in COUNTS.items():
    os.makedirs("photos/" + kind)
    for number in range(count):
        with open("photos/%s/p%02d.ppm" % (kind, number), "wb") as out:
            out.write(b"P6 8 8 255\n" + bytes((number * 7 + ord(kind) * 50 + i) % 256 for i in range(192)))
subprocess.run([os.path.join(tap.BUILD, "ffpack"), "photos", "-o", "all", "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25"], check=True,
               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
WHOLE = "all" if os.path.exists("all/index.ffx") else "all/" + os.listdir("all")[0]
RUN = ["--data", WHOLE, "--val", WHOLE, "--model", "smallnet", "--augment", "crop=2,flip", "--batch", 60, "--epochs", 2, "--threads", 1, "--warmup", 0, "--lr", 0.05,
       "--schedule", "constant"]


def result(run):
    return ([{key: line[key] for key in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")} for line in epochs(run)],
            stored_bytes(run + "/checkpoints/last/model.safetensors"))


def drawn(run, step):
    """The numbers of a step's samples."""
    done = fftrain("replay", run, "--step", step)
    return [int(number) for number in re.findall(r"^ +(\d+)  \S*p\d\d\.ppm$", done.stdout, re.M)]


done = fftrain(*RUN, "--sample-weights", "balanced", "--samples-per-epoch", 600, "--out", "balanced")
line = (events("balanced", "start") or [{}])[0]
tap.ok(done.returncode == 0 and (line.get("samples"), line.get("val_samples")) == (600, 90), "an epoch of 600 samples; evaluation has each once", done.stderr or line)
found = [number for step in range(1, 21) for number in drawn("balanced", step)]
classes = collections.Counter("a" if number < 60 else "b" if number < 80 else "c" for number in found)
tap.ok(len(found) == 1200 and all(abs(classes[kind] - 400) < 5 * (1200 * 2 / 9) ** 0.5 for kind in "abc"), "classes come alike", classes)

with open("weights", "w") as out:
    out.write("".join("%g\n" % (number in (3, 70, 71)) for number in range(90)))
fftrain(*RUN, "--sample-weights", "weights", "--out", "file")
tap.ok(set(drawn("file", 1)) == {3, 70, 71}, "weights of a file", drawn("file", 1))
done = fftrain(*RUN, "--sample-weights", "balanced", "--samples-per-epoch", 30, "--no-replacement", "--batch", 10, "--out", "once")
found = [[number for step in range(begin, begin + 3) for number in drawn("once", step)] for begin in (1, 4)]
classes = [collections.Counter("a" if number < 60 else "b" if number < 80 else "c" for number in epoch) for epoch in found]
tap.ok(all(len(set(epoch)) == 30 for epoch in found) and all(one["c"] == 10 and abs(one["a"] - 10) < 3 for one in classes), "without replacement: each at most once, all of the smallest class", classes or done.stderr)
fftrain(*RUN, "--repeats", 3, "--out", "three")
times = collections.Counter(drawn("three", 1))
tap.ok(len(times) == 20 and set(times.values()) == {3}, "each sample of a batch three times", times)
losses = []
for more in (["--reproducible"], []):
    fftrain(*RUN, "--repeats", 4, "--accumulate", 4, "--epochs", 1, *more, "--out", "cut" + "".join(more))
    losses.append(epochs("cut" + "".join(more))[0]["train_loss"])
tap.ok(abs(losses[0] - losses[1]) < 1e-5, "micro-batches are parts of a batch with its repeats", losses)
done = fftrain(*RUN, "--sample-weights", "balanced", "--repeats", 2, "--dry-run")
tap.ok(re.search(r"with weights [0-9a-f]{16}, repeats 2", done.stdout), "--dry-run prints how samples come", done.stdout)

# ---- ranks, and a run that continues ----
MORE = ["--sample-weights", "balanced", "--samples-per-epoch", 120, "--repeats", 2]
for name, more in (("alone", ["--accumulate", 2]), ("pair", ["--dp", "cpu,cpu"])):
    fftrain(*RUN, *MORE, "--reproducible", *more, "--out", name)
tap.ok(result("alone")[1] == result("pair")[1], "two ranks end in the bits of one")
for end in (1, 2):
    done = fftrain(*RUN, *MORE, "--epochs", end, "--out", "parted", *(["--resume", "auto"] if end > 1 else []))
fftrain(*RUN, *MORE, "--out", "whole")
tap.ok(result("parted") == result("whole"), "a run that continues ends in the same bits", done.stderr)
with open("weights", "a") as out:
    out.seek(0)
    out.truncate()
    out.write("1\n" * 90)
refused("a run whose weights' file changed does not continue", 2, ["--sample-weights", "cannot change"], "--resume", "file", "--epochs", 3)
refused("a run does not continue with other weights", 2, ["--sample-weights", "cannot change"], "--resume", "balanced", "--sample-weights", "weights", "--epochs", 3)
fftrain(*RUN, "--sample-weights", "balanced", "--samples-per-epoch", 60, "--out", "again")
refused("nor without replacement", 2, ["--no-replacement", "cannot change"], "--resume", "again", "--no-replacement", "--epochs", 3)
refused("nor with other repeats", 2, ["--repeats", "cannot change"], "--resume", "three", "--repeats", 2, "--epochs", 3)

# ---- what is refused ----
refused("weights that there are not", 2, ["--sample-weights", "weights", "label"], *RUN, "--sample-weights", "label")
with open("few", "w") as out:
    out.write("1\n2\n")
refused("each once, of too few", 2, ["--sample-weights", "needs as many", "there are 90"], *RUN, "--sample-weights", "balanced", "--samples-per-epoch", 91, "--no-replacement")
refused("each once, without weights", 2, ["--no-replacement", "needs --sample-weights"], *RUN, "--no-replacement")
refused("too few weights", 2, ["--sample-weights: few: there are 2", "90 samples"], *RUN, "--sample-weights", "few")
refused("weights in block order", 2, ["--sample-weights: needs order random"], *RUN, "--sample-weights", "balanced", "--order", "block")
refused("repeats in sequential order", 2, ["--repeats: needs order random"], *RUN, "--repeats", 2, "--order", "sequential")
refused("more samples than there are", 2, ["--samples-per-epoch: there are 90 samples", "with --sample-weights"], *RUN, "--samples-per-epoch", 91)
refused("flips that alternate with weights", 2, ["--augment: flips alternate"], *RUN, "--sample-weights", "balanced", "--augment", "flip=alternate")
os.chdir("/")
shutil.rmtree(place)
tap.finish()
