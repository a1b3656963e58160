#!/usr/bin/python3
"""--subset and --fold: a run on some samples of a set has the losses and weights of a run on a set that holds just these (ffpack --split and
ffpack copy), also on two ranks and when it continues; what is refused. Prints TAP. Environment: BUILD."""
# Needs: ffpack ffinspect fftrain tests/make_set
import json
import os
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
for kind in "abc":
    os.makedirs("photos/" + kind)
    for number in range(30):
        with open("photos/%s/p%02d_%d.ppm" % (kind, number // 3, number % 3), "wb") as out:
            out.write(b"P6 8 8 255\n" + bytes((number * 7 + ord(kind) * 50 + i) % 256 for i in range(192)))


def ffpack(*arguments):
    subprocess.run([os.path.join(tap.BUILD, "ffpack"), *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


NORMAL = ["--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25"]
ffpack("photos", "-o", "all", *NORMAL)
for name, more in (("half", []), ("strata", ["--stratify"]), ("groups", ["--group-by", "p[0-9]+", "--split-seed", 4])):
    ffpack("photos", "-o", name, "--split", "one=0.5,two=0.5", *more, *NORMAL)
ffpack("copy", "all", "-o", "some", "--where", "label != 'b'")
ffpack("copy", "half/one", "-o", "some_one", "--where", "label != 'b'")
ffpack("copy", "half/two", "-o", "some_two", "--where", "label != 'b'")


def part(name):
    """The folder of a set's only split."""
    return name if os.path.exists(name + "/index.ffx") else "%s/%s" % (name, *os.listdir(name))


def samples_of(name):
    """How many samples it has."""
    return sum(1 for _ in subprocess.run([os.path.join(tap.BUILD, "ffinspect"), part(name), "--keys"], check=True, stdout=subprocess.PIPE).stdout.splitlines())


WHOLE, SOME = part("all"), part("some")
# No augmentation, which depends on the samples' numbers.
RUN = ["--model", "smallnet", "--augment", "none", "--batch", 8, "--epochs", 2, "--threads", 1, "--warmup", 0, "--lr", 0.05, "--last-batch", "keep"]


def result(run):
    return ([{key: line[key] for key in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")} for line in epochs(run)],
            stored_bytes(run + "/checkpoints/last/model.safetensors"))


def same(name, wanted, *given):
    """A run of --data all with these options, next to the one of the other sets."""
    one = fftrain("--data", WHOLE, *RUN, *given, "--out", name)
    other = fftrain(*wanted, *RUN, "--out", name + "_other")
    found = one.returncode or other.returncode
    return tap.ok(not found and result(name) == result(name + "_other"), "%s: as on the set of just these" % " ".join(map(str, given)),
                  (one.stderr + other.stderr) if found else (result(name)[0], result(name + "_other")[0]))


same("fold", ["--data", "half/one", "--val", "half/two"], "--fold", "2/2")
same("strata_fold", ["--data", "strata/two", "--val", "strata/one", "--order", "sequential"], "--fold", "1/2 stratified", "--order", "sequential")
same("groups_fold", ["--data", "groups/one", "--val", "groups/two", "--class-weights", "balanced"], "--fold", "2/2 seed=4 group-by=p[0-9]+",
     "--class-weights", "balanced")
same("fold_alone", ["--data", "half/one", "--val", "none"], "--fold", "2/2", "--val", "none")
same("subset", ["--data", SOME, "--val", SOME], "--subset", "label != 'b'", "--val", SOME)
same("both", ["--data", part("some_one"), "--val", part("some_two")], "--subset", "label != 'b'", "--fold", "2/2")
# Its first convolution is of the selected images alone. 32 x 32, which the net needs.
ffpack("photos", "-o", "all32", "--resize", 32, "--center-crop", 32, *NORMAL)
ffpack("copy", "all32", "-o", "some32", "--where", "label != 'b'")
WHITE = ["--model", "cifarnet", "--val", "none", "--augment", "none", "--batch", 30, "--epochs", 1, "--threads", 1]
for name, given in (("white", ["--data", part("some32")]), ("white_subset", ["--data", part("all32"), "--subset", "label != 'b'"]), ("white_all", ["--data", part("all32")])):
    fftrain(*given, *WHITE, "--out", name)
whites = [runs.stored(name + "/checkpoints/last/model.safetensors")[0]["whiten.weight"] for name in ("white", "white_subset", "white_all")]
tap.ok(whites[0] == whites[1] != whites[2], "--subset: the whitening is of the selected images")
keys = subprocess.run([os.path.join(tap.BUILD, "ffinspect"), SOME, "--keys"], check=True, stdout=subprocess.PIPE, text=True).stdout
with open("keys", "w", encoding="utf-8") as out:
    out.write(keys)
same("listed", ["--data", SOME, "--val", "none"], "--subset", "keys:keys", "--val", "none")
same("file", ["--data", SOME, "--val", "none"], "--subset", "keys", "--val", "none")

# ---- what a run says and keeps ----
line = events("both", "start")[0]
tap.ok((line["samples"], line["val_samples"]) == (samples_of("some_one"), samples_of("some_two")), "the log has the numbers of samples", line)
with open("both/evaluation.json", encoding="utf-8") as file:
    worst = json.load(file)["worst"]
tap.ok(worst and all(one["label"] == one["sample"] // 30 != 1 for one in worst), "the worst samples have their numbers in the whole set", worst)
done = fftrain("--data", WHOLE, *RUN, "--fold", "2/2", "--subset", "label != 'b'", "--dry-run")
tap.ok("trains on %d of 90 samples" % line["samples"] in done.stdout and "evaluates on %d of 90 samples" % line["val_samples"] in done.stdout,
       "--dry-run prints what is selected", done.stdout)

# ---- ranks, and a run that continues ----
for name, more in (("alone", ["--accumulate", 2]), ("pair", ["--dp", "cpu,cpu"])):
    fftrain("--data", WHOLE, *RUN, "--reproducible", "--fold", "2/2", "--subset", "label != 'b'", *more, "--out", name)
tap.ok(result("alone")[1] == result("pair")[1], "two ranks end in the bits of one")
for end in (1, 2):
    done = fftrain("--data", WHOLE, *RUN, "--schedule", "constant", "--fold", "2/2", "--epochs", end, "--out", "parted", *(["--resume", "auto"] if end > 1 else []))
fftrain("--data", WHOLE, *RUN, "--schedule", "constant", "--fold", "2/2", "--out", "whole")
tap.ok(result("parted") == result("whole"), "a run that continues ends in the same bits", done.stderr)
for name in ("file", "listed"):
    done = fftrain("--resume", os.path.join(place, name), "--epochs", 3, "--schedule", "cosine", before=["env", "-C", "/"])
    tap.ok(done.returncode == 0 and len(epochs(name)) == 3, "%s: the run continues from another folder" % name, done.stderr)
with open("keys", "w", encoding="utf-8") as out:
    out.writelines(line + "\n" for line in keys.splitlines()[1:])
refused("a run whose file has other keys does not continue", 2, ["--subset", "59 of 90", "60 of 90"], "--resume", "file", "--epochs", 3)
refused("a run does not continue with another fold", 2, ["--fold", "cannot change"], "--resume", "fold", "--fold", "1/2", "--epochs", 3)
refused("and not with another subset", 2, ["--subset", "cannot change"], "--resume", "fold", "--subset", "label = 'a'", "--epochs", 30)

# ---- what is refused ----
refused("--fold with --val", 2, ["--fold", "excludes --val"], "--data", WHOLE, *RUN, "--fold", "2/2", "--val", SOME)
refused("--fold of others", 2, ["--fold", "K/N"], "--data", WHOLE, *RUN, "--fold", "not 2/2")
refused("--fold that is none", 2, ["--fold", "2/5"], "--data", WHOLE, *RUN, "--fold", "3/2")
refused("a subset of no sample", 2, ["--subset", "none of its 90 samples"], "--data", WHOLE, *RUN, "--subset", "width > 100")
refused("a field that there is not", 2, ["--subset", "klass"], "--data", WHOLE, *RUN, "--subset", "klass = 1")
refused("evaluate of a fold's run without a set", 2, ["--fold", "evaluates on"], "evaluate", "both")
os.chdir("/")
shutil.rmtree(place)
tap.finish()
