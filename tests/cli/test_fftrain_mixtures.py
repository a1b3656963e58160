#!/usr/bin/python3
"""--data with several sets, --shares, --shares-of: which samples come, beside the shares; ranks, a run that goes on; what is refused.
Prints TAP. Environment: BUILD."""
# Needs: ffpack ffinspect fftrain tests/fftrain_sim
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
from runs import SIMULATED, epochs, events, fftrain, refused, stored_bytes  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"


def pack(name, counts, out, *options):
    for kind, count in counts.items():
        os.makedirs("%s/%s" % (name, kind))
        for number in range(count):
            with open("%s/%s/%s%02d.ppm" % (name, kind, name[0], number), "wb") as file:
                file.write(b"P6 8 8 255\n" + bytes((number * 7 + ord(kind) * 50 + i) % 256 for i in range(192)))
    subprocess.run([os.path.join(tap.BUILD, "ffpack"), name, "-o", out, "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25", *options],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out if os.path.exists(out + "/index.ffx") else os.path.join(out, os.listdir(out)[0])


REAL = pack("real", {"a": 40, "b": 20}, "packed-real")
SYNTHETIC = pack("synthetic", {"b": 9, "c": 6}, "packed-synthetic")
VAL = pack("valid", {"a": 4, "b": 4, "c": 4}, "packed-valid")
BOTH = REAL + "," + SYNTHETIC
RUN = ["--data", BOTH, "--val", VAL, "--model", "smallnet", "--augment", "crop=2,flip", "--batch", 25, "--epochs", 2, "--threads", 1, "--warmup", 0,
       "--lr", 0.05, "--schedule", "constant"]
SHARES = ["--shares", "0.6,0.4", "--samples-per-epoch", 100]


def result(run):
    return ([{key: line[key] for key in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")} for line in epochs(run)],
            stored_bytes(run + "/checkpoints/last/model.safetensors"))


def drawn(run, step):
    """The keys of a step's samples."""
    return re.findall(r"^ +\d+  (\S*\d\d\.ppm)$", fftrain("replay", run, "--step", step).stdout, re.M)


def sets(run, step):
    return collections.Counter(os.path.basename(key)[0] for key in drawn(run, step))


# ---- which samples come ----
done = fftrain(*RUN, *SHARES, "--shares-of", "batch", "--out", "mixed")
line = (events("mixed", "start") or [{}])[0]
tap.ok(done.returncode == 0 and line.get("samples") == 100 and line.get("shares") == "0.6,0.4" and all(name in line.get("data", "") for name in (REAL, SYNTHETIC)),
       "a run on two sets, whose log has both and their shares", done.stderr or line)
tap.ok(all(sets("mixed", step) == {"r": 15, "s": 10} for step in (1, 3, 4, 8)), "each batch has the shares", sets("mixed", 1))
times = collections.Counter(key for step in range(1, 5) for key in drawn("mixed", step))
tap.ok(len(times) == 75 and collections.Counter(times[key] for key in times if "/s" in key or key.startswith("s")) == {3: 10, 2: 5},
       "the smaller set comes again, its samples equally often", times)
for run, more in (("one", []), ("five", ["--accumulate", 5])):
    fftrain(*RUN, *SHARES, "--shares-of", "batch", "--repeats", 2, *more, "--lr", 1e-9, "--freeze", "bn*", "--frozen-norms", "eval", "--out", run)
one, five = ([line["train_loss"] for line in epochs(run)] for run in ("one", "five"))
tap.ok(len(one) == 2 and all(abs(a - b) < 1e-5 * a for a, b in zip(one, five)), "the same samples in micro-batches", (one, five))
fftrain(*RUN, "--out", "plain")
times = collections.Counter(key for step in range(1, 4) for key in drawn("plain", step))
tap.ok(len(times) == 75 and set(times.values()) == {1}, "without shares each sample of both once", times)
done = fftrain("evaluate", VAL, "-c", "plain")
tap.ok(done.returncode == 0, "the net has the classes of both", done.stderr)
fftrain(*RUN, "--shares", "1,0;1:0,1", "--samples-per-epoch", 25, "--out", "changed")
tap.ok(sets("changed", 1) == {"r": 25} and sets("changed", 2) == {"s": 25}, "shares that change by epoch")
fftrain(*RUN, *SHARES, "--subset", "label == 'b'", "--out", "chosen")
tap.ok(all("b/" in key for key in drawn("chosen", 1)) and len(drawn("chosen", 1)) == 25, "a subset of both sets")
done = fftrain(*RUN, *SHARES, "--dry-run")
tap.ok(re.search(r"with shares of an epoch [0-9a-f]{16}, 100 samples an epoch", done.stdout), "--dry-run prints how samples come", done.stdout)
os.mkdir("a,b")
os.mkdir("a")
shutil.copytree(REAL, "a,b/train")
done = fftrain(*RUN[4:], "--data", "a,b", "--val", "none", "--dry-run")
tap.ok(done.returncode == 0, "a folder whose name has a comma", done.stderr)
os.mkdir("sets, more")
for name in (REAL, SYNTHETIC):
    shutil.copytree(name, "sets, more/" + os.path.basename(name))
os.chdir("sets, more")
fftrain(*RUN[4:], "--data", ",".join(map(os.path.basename, (REAL, SYNTHETIC))), "--val", "none", "--epochs", 1, "--out", "../comma")
os.chdir(place)
done = fftrain("--resume", "comma", "--epochs", 2)
tap.ok(done.returncode == 0 and len(drawn("comma", 4)) == 25, "folders in one whose name has a comma: the run goes on, and its steps are made again", done.stderr)

shutil.copytree(REAL, "parts/train")
shutil.copytree(VAL, "parts/val")
done = fftrain(*RUN[4:], "--data", "parts," + SYNTHETIC, "--out", "found")
line = (events("found", "start") or [{}])[0]
tap.ok((line.get("samples"), line.get("val_samples")) == (75, 12), "evaluated on the set next to the first one", done.stderr or line)

# ---- ranks, and a run that goes on ----
for name, more in (("alone", ["--accumulate", 2]), ("pair", ["--dp", "cpu,cpu"])):
    fftrain(*RUN, *SHARES, "--batch", 20, "--reproducible", *more, "--out", name)
tap.ok(result("alone")[1] == result("pair")[1], "two ranks end in the bits of one")
for end in (1, 2):
    done = fftrain(*RUN, *SHARES, "--epochs", end, "--out", "parted", *(["--resume", "auto"] if end > 1 else []))
fftrain(*RUN, *SHARES, "--out", "whole")
tap.ok(done.returncode == 0 and result("parted") == result("whole"), "a run that goes on ends in the same bits", done.stderr)
done = fftrain(*RUN, *SHARES, "--device", "cuda", "--precision", "f32", "--out", "card", program=SIMULATED)
both = [[line["train_loss"] for line in epochs(run)] for run in ("whole", "card")]
tap.ok(len(both[1]) == 2 and all(abs(one - other) < 1e-3 * one for one, other in zip(*both)), "on a simulated GPU the same samples come", both or done.stderr)
os.chdir("packed-valid")
done = fftrain("--resume", os.path.join(place, "parted"), "--epochs", 3)
os.chdir(place)
tap.ok(done.returncode == 0, "from another folder, too", done.stderr)
for name, *more in (("other shares", "--shares", "0.5,0.5"), ("the other kind", "--shares-of", "batch")):
    refused("a run does not go on with %s" % name, 2, ["--shares", "cannot change"], "--resume", "whole", *more, "--epochs", 3)
fftrain(*RUN, "--shares", "0.6,0.4", "--out", "bare")
refused("nor one without --samples-per-epoch", 2, ["--shares", "cannot change"], "--resume", "bare", "--shares", "0.5,0.5", "--epochs", 3)
EXTRA = pack("extra", {"b": 9, "c": 6}, "packed-extra")
refused("nor with other data in one set", 65, ["other data"], "--resume", "whole", "--data", REAL + "," + EXTRA, "--epochs", 3)
refused("nor with the sets in another order", 65, ["class 0 is 'b'"], "--resume", "whole", "--data", SYNTHETIC + "," + REAL, "--epochs", 3)

# ---- what is refused ----
refused("shares of one set", 2, ["--shares 1,2", "there are 2, but 1 set"], *RUN, "--data", REAL, "--shares", "1,2")
refused("shares that are all 0", 2, ["--shares 0,0", "their sum is 0"], *RUN, "--shares", "0,0")
refused("--shares-of alone", 2, ["--shares-of", "--shares"], *RUN, "--shares-of", "batch")
refused("shares in block order", 2, ["shares: needs order random"], *RUN, *SHARES, "--order", "block")
refused("shares with weights", 2, ["shares", "weights"], *RUN, *SHARES, "--sample-weights", "balanced")
refused("a folder without a name", 2, ["without a name"], *RUN, "--data", REAL + ",")
refused("sets that differ", 2, [REAL, "normalization"], *RUN, "--data", REAL + "," + pack("other", {"a": 2}, "packed-other", "--mean", "0,0,0"))
refused("no set", 74, ["nothing"], *RUN, "--data", REAL + ",nothing")
os.chdir("/")
shutil.rmtree(place)
tap.finish()
