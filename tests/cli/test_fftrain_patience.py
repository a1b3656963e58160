#!/usr/bin/python3
"""--patience: where a run stops early, against its own log read by ten plain lines; what it says then; that it stops there on two ranks
and after interruptions, too, with the same bits; and what a resumed run makes of it. Prints TAP. Environment: BUILD."""
# Needs: ffpack fftrain tests/make_set
import json
import os
import shutil
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import epochs, events, fftrain, make, refused, same, starts  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"
# 5 steps an epoch.
make("set", "--count", 100, "--splits", "train,test", "--height", 8, "--width", 8, "--statistics")
COMMON = ["--data", "set", "--model", "smallnet", "--augment", "none", "--batch", 20, "--threads", 1, "--warmup", 0, "--lr", 0.3, "--epochs", 30]


def stop_of(run, by, patience):
    """The epoch after which a run with these evaluations stops, and the best before."""
    best, best_epoch, waited = None, None, 0
    for line in epochs(run):
        if line["val_loss"] is None:
            continue
        score = line["val_accuracy"] if by == "accuracy" else -line["val_loss"] if isinstance(line["val_loss"], float) else None
        finite = isinstance(line["val_loss"], float)
        if finite and (best is None or score > best):
            best, best_epoch, waited = score, line["epoch"], 0
        else:
            waited += 1
        if waited == patience:
            return line["epoch"], best_epoch
    return None, best_epoch


def train(run, *options, **more):
    return fftrain(*COMMON, "--out", run, *options, **more)


def curve(run):
    return [(line["epoch"], line["train_loss"], line["val_loss"], line["learning_rate"]) for line in epochs(run)]


# ---- where it stops, and that the way there is that of a run without --patience

for by, every, more in (("accuracy", 1, []), ("loss", 2, []), ("accuracy", 2, ["--ema", 0.9]), ("loss", 1, [])):
    name = "%s-%d%s" % (by, every, "-ema" * ("--ema" in more))
    how = ["--best-by", by, "--val-every", every, *more]
    train(name + "-whole", *how)
    patience = next((n for n in (2, 3, 1) if stop_of(name + "-whole", by, n)[0] not in (None, 30)), 1)
    done = train(name, "--patience", patience, *how)
    stop, best = stop_of(name + "-whole", by, patience)
    end = events(name, "end")[-1]
    tap.ok(done.returncode == 0 and stop and curve(name) == curve(name + "-whole")[:stop] and len(curve(name)) < 30, "--patience %d --best-by %s --val-every %d %s" % (patience, by, every, more),
           (done.returncode, stop, len(curve(name)), done.stderr))
    words = "%d evaluation%s in a row had no %s than the " % (patience, "s" * (patience > 1), "better accuracy" if by == "accuracy" else "lower loss")
    tap.ok("Stopped early after epoch %d of 30: %s" % (stop, words) in done.stdout and end["status"] == "stopped early" and words in end["message"] and
           end["message"].endswith("after epoch %d" % best) and end["best_epoch"] == best, "the reason stands in the output and the log", (done.stdout[-900:], end))
    page = open(name + "/report.html").read()
    tap.ok("stopped early, epoch %d of 30: %s" % (stop, words) in page, "and in report.html")
    links = [os.readlink("%s/checkpoints/%s" % (name, link)) for link in ("best", "last")]
    tap.ok(links == ["step-%d" % (5 * best), "step-%d" % (5 * stop)], "best is the best, last is the last", links)
tap.ok(starts("accuracy-1")[-1]["patience"] == 2 and starts("loss-1")[-1]["best_by"] == "loss", "the log's start has both", starts("accuracy-1"))
PATIENCE = starts("accuracy-1")[-1]["patience"]
STOP = len(curve("accuracy-1"))
quiet = train("quiet", "--patience", PATIENCE, "--quiet")
tap.ok(quiet.returncode == 0 and ", stopped early of 30 epochs" in quiet.stdout and quiet.stdout.count("\n") == 1, "--quiet: the result reports it", quiet.stdout)

# ---- a run that is interrupted, in an epoch or after it, stops after the same step with the same bits

for at in (3, 5 * STOP - 5, 5 * STOP - 7):
    run = "cut-%d" % at
    train(run, "--patience", PATIENCE, "--checkpoint-every", "%d steps" % at, "--keep", 99)
    for name in os.listdir(run + "/checkpoints"):
        path = run + "/checkpoints/" + name
        if name.startswith("step-") and int(name[5:]) > at:
            shutil.rmtree(path)
        elif os.path.islink(path):
            os.unlink(path)
    done = fftrain("--resume", run + "/checkpoints/step-%d" % at)
    tap.ok(done.returncode == 0 and len({line["epoch"] for line in epochs(run)}) == STOP and events(run, "end")[-1]["message"] == events("accuracy-1", "end")[-1]["message"] and
           same(run, "accuracy-1"), "resumed after step %d" % at, (len(epochs(run)), STOP, done.stderr, done.stdout[-300:]))

# ---- a run that has stopped is resumed

def tree(folder):
    """Every file with its bytes, every link with its target."""
    paths = [os.path.join(at, name) for at, folders, files in os.walk(folder) for name in folders + files]
    return {path: os.readlink(path) if os.path.islink(path) else os.path.isdir(path) or open(path, "rb").read() for path in paths}


shutil.copytree("accuracy-1", "again", symlinks=True)
before = tree("again")
refused("a resumed run reports that it stopped early", 2, ["stopped early after epoch %d of 30" % STOP, "--patience", "it continues"], "--resume", "again")
refused("also with more epochs", 2, ["stopped early after epoch %d of 40" % STOP], "--resume", "again", "--epochs", 40)
done = fftrain("--resume", "auto", "--out", "again")
tap.ok(done.returncode == 0 and "stopped early" in done.stdout and len(epochs("again")) == STOP, "--resume auto reports it, and is done", (done.returncode, done.stdout, done.stderr))
after = tree("again")
log = [json.loads(line) for line in after.pop("again/log.jsonl")[len(before.pop("again/log.jsonl")):].splitlines()]
tap.ok(after == before and [line["event"] for line in log] == ["note"], "and none of these changes a file of the run; the log has a note of --resume auto", (set(after.items()) ^ set(before.items()), log))
train("kept", "--epochs", 4, "--checkpoint-every", "1 epochs", "--keep", 99)
before, third = tree("kept"), "kept/checkpoints/step-15"
refused("from the third epoch of three", 2, ["the run is complete"], "--resume", third, "--epochs", 3)
tap.ok(tree("kept") == before, "changes no file either: newer checkpoints stay where they are", set(tree("kept")) ^ set(before))
done = fftrain("--resume", "again", "--patience", 0)
tap.ok(done.returncode == 0 and curve("again") == curve("accuracy-1-whole") and same("again", "accuracy-1-whole"), "--patience 0 continues to the end, to the bits of a run without", done.stderr)
whole = train("longer-whole", "--patience", PATIENCE + 1)
shutil.copytree("accuracy-1", "longer", symlinks=True)
done = fftrain("--resume", "longer", "--patience", PATIENCE + 1)
tap.ok(done.returncode == 0 and curve("longer") == curve("longer-whole") and len(curve("longer")) == (stop_of("accuracy-1-whole", "accuracy", PATIENCE + 1)[0] or 30),
       "a larger --patience continues, and stops where a run that began with it does", (len(curve("longer")), len(curve("longer-whole")), done.stderr))

# ---- ranks

done = train("ranks", "--patience", PATIENCE, "--ranks", 2, "--device", "cpu")
stop = stop_of("ranks", "accuracy", PATIENCE)[0]
tap.ok(done.returncode == 0 and stop == len(epochs("ranks")) < 30 and events("ranks", "end")[-1]["status"] == "stopped early", "two ranks stop after the same step", (stop, done.stderr))
done = fftrain("--resume", "ranks", "--ranks", 2, "--patience", 1, "--best-by", "loss", "--lr", 9)
tap.ok(done.returncode == 0 and len(epochs("ranks")) == stop + 1 and events("ranks", "end")[-1]["status"] == "stopped early",
       "and continue by another measure, whose earlier best only rank 0 knows", (done.returncode, done.stderr))

# ---- evaluations that are not finite

rng = numpy.random.default_rng(1)
for split, count in (("train", 100), ("test", 20)):
    os.makedirs("nan-arrays", exist_ok=True)
    images = rng.standard_normal((count, 3, 8, 8)).astype("float32")
    if split == "test":
        images[3, 0, 0, 0] = numpy.nan
    numpy.save("nan-arrays/x_%s.npy" % split, images)
    numpy.save("nan-arrays/y_%s.npy" % split, numpy.arange(count) % 4)
tap.run([os.path.join(tap.BUILD, "ffpack"), "nan-arrays", "-o", "nan", "--dtype", "f32"])
done = fftrain(*COMMON[2:], "--data", "nan", "--out", "nan-run", "--patience", 3)
tap.ok(done.returncode == 0 and len(epochs("nan-run")) == 3 and "3 evaluations in a row had no finite loss" in events("nan-run", "end")[-1]["message"],
       "an evaluation that is NaN is not better", (len(epochs("nan-run")), done.stderr))
refused("a resumed run knows it", 2, ["stopped early after epoch 3 of 30"], "--resume", "nan-run")

# ---- where it cannot work

for options in (["--val", "none"], ["--val", "none", "--dry-run"]):
    refused("--patience without a validation set: %s" % options[2:], 2, ["--patience 3", "no validation set", "--val", "--patience 0"], *COMMON, "--out", "none", "--patience", 3, *options)
for patience, more, told in ((2, ["--val-every", 0], "1 evaluation"), (4, ["--epochs", 4], "4 evaluations"), (3, ["--epochs", 4], None), (2, ["--epochs", 3, "--val-every", 2], "2 evaluations")):
    done = train("none", "--patience", patience, "--dry-run", *more)
    word = "--patience %d: the run has %s, so it never stops early" % (patience, told)
    tap.ok(done.returncode == 0 and (word in done.stderr if told else "early" not in done.stderr), "--patience %d %s" % (patience, more), done.stderr)
shutil.rmtree(place)
tap.finish()
