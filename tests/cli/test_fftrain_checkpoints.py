#!/usr/bin/python3
"""Which checkpoints a run has, where `best` and `last` point, and what a resume makes of them: after each history of saves, stops,
failures and resumes, against the run's own log read by ten plain lines. Prints TAP. Environment: BUILD."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import epochs, events, fftrain, make, refused, stored  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"
FFPACK = os.path.join(tap.BUILD, "ffpack")

# 5 steps an epoch.
make("set", "--count", 100, "--splits", "train,test", "--height", 8, "--width", 8, "--statistics")
COMMON = ["--data", "set", "--model", "smallnet", "--augment", "none", "--batch", 20, "--threads", 1, "--schedule", "constant", "--warmup", 0, "--quiet"]


def pack(name, train, val, labels=None):
    """A set of f32 arrays; labels: of the validation set."""
    for split, images in (("train", train), ("test", val)):
        known = numpy.arange(len(images)) % 4 if split == "train" or labels is None else labels
        numpy.save("x_%s.npy" % split, images)
        numpy.save("y_%s.npy" % split, known.astype("int64"))
    folder = name + "-arrays"
    os.mkdir(folder)
    for split in ("train", "test"):
        for part in "xy":
            os.rename("%s_%s.npy" % (part, split), "%s/%s_%s.npy" % (folder, part, split))
    subprocess.run([FFPACK, folder, "-o", name, "--dtype", "f32"], check=True, capture_output=True)


def steps(run):
    return sorted(int(name[5:]) for name in os.listdir(run + "/checkpoints") if name.startswith("step-") and name[5:].isdigit())


def link(run, name):
    path = "%s/checkpoints/%s" % (run, name)
    return int(os.readlink(path)[5:]) if os.path.islink(path) and os.path.exists(path) else None


def best_of(lines, by):
    """The steps of the first of the best evaluations."""
    score = (lambda line: line["val_accuracy"]) if by == "accuracy" else (lambda line: -line["val_loss"])
    known = [line for line in lines if line["val_loss"] is not None and line["val_loss"] == line["val_loss"]]
    return 5 * max(known, key=lambda line: (score(line), -line["epoch"]))["epoch"] if known else None


def evaluated(checkpoint, *arguments):
    done = fftrain("evaluate", "set", "-c", checkpoint, "--json", *arguments)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}


def weights(checkpoint):
    with open(checkpoint + "/model.safetensors", "rb") as file:
        return file.read()


# ---- best is the best evaluation, and last the newest, however often checkpoints are written

for every in (None, "1 epochs", "3 epochs", "4 epochs", "5 steps", "7 steps", "60 minutes"):
    for rate, by, keep in ((0.3, "accuracy", 1), (2, "loss", 2)):
        run = "every-%s-%s" % (every, by)
        options = ["--checkpoint-every", every] if every else []
        done = fftrain(*COMMON, "--epochs", 7, "--lr", rate, "--best-by", by, "--keep", keep, "--out", run, *options)
        found = (done.returncode, link(run, "best"), link(run, "last"))
        tap.ok(found == (0, best_of(epochs(run), by), 35) and set(steps(run)[-keep:]) | {found[1]} == set(steps(run)),
               "--checkpoint-every %s --best-by %s --keep %d" % (every, by, keep), (found, best_of(epochs(run), by), steps(run), done.stderr))
line = epochs("every-4 epochs-accuracy")[link("every-4 epochs-accuracy", "best") // 5 - 1]
tap.ok(abs(evaluated("every-4 epochs-accuracy/checkpoints/best").get("accuracy", -1) - line["val_accuracy"]) < 1e-9,
       "evaluate of best has the log's accuracy", (evaluated("every-4 epochs-accuracy/checkpoints/best"), line))
for every, end in (("16 steps", "15 steps"), ("4 epochs", "3 epochs"), ("15 steps", None), ("3 epochs", None)):
    done = fftrain(*COMMON, "--epochs", 3, "--out", "late-" + every, "--checkpoint-every", every, "--val", "none", "--quiet")
    word = "--checkpoint-every %s: the run has %s, so a checkpoint is saved at its end alone" % (every, end)
    tap.ok(done.returncode == 0 and (word in done.stderr if end else not done.stderr), "--checkpoint-every %s of a run of 15 steps" % every, done.stderr)
done = fftrain(*COMMON, "--epochs", 3, "--out", "steps", "--checkpoint-every", "5 steps", "--keep", 100, "--val", "none")
tap.ok(steps("steps") == [5, 10, 15] and link("steps", "best") is None, "steps that end an epoch are saved, too; without evaluations nothing is best",
       (steps("steps"), done.stderr))
fftrain(*COMMON, "--epochs", 2, "--out", "single", "--checkpoint-every", "1 step", "--keep", 100)
tap.ok(steps("single") == list(range(1, 11)), "every step", steps("single"))

# ---- --resume with another measure

for first, then in (("loss", "accuracy"), ("accuracy", "loss")):
    run = first + "-then"
    fftrain(*COMMON, "--epochs", 5, "--lr", 0.1, "--best-by", first, "--checkpoint-every", "1 epoch", "--keep", 9, "--out", run)
    done = fftrain("--resume", run, "--epochs", 8, "--lr", 3, "--best-by", then, "--quiet")
    tap.ok(done.returncode == 0 and link(run, "best") == best_of(epochs(run), then) and
           events(run, "end")[-1]["best_epoch"] == best_of(epochs(run), then) // 5,
           "--best-by %s, resumed with %s" % (first, then), (done.stderr, link(run, "best"), [(line["val_accuracy"], line["val_loss"]) for line in epochs(run)]))
fftrain(*COMMON, "--epochs", 3, "--lr", 0.1, "--out", "views")
before = link("views", "best")
done = fftrain("--resume", "views", "--epochs", 5, "--lr", 3, "--views", 2, "--quiet")
tap.ok(done.returncode == 0 and link("views", "best") == best_of(epochs("views")[3:], "accuracy"), "evaluations with other views do not compare",
       (before, link("views", "best"), done.stderr))

# ---- --resume from an older checkpoint

fftrain(*COMMON, "--epochs", 6, "--lr", 0.1, "--out", "old", "--checkpoint-every", "1 epoch", "--keep", 9)
kept = {step: weights("old/checkpoints/step-%d" % step) for step in (20, 25, 30)}
shutil.copytree("old", "again", symlinks=True)
done = fftrain("--resume", "old/checkpoints/step-15", "--lr", 1e-4, "--keep", 2, "--epochs", 5, "--quiet")
line = epochs("old")[:3] + epochs("old")[6:]
tap.ok(done.returncode == 0 and "old/checkpoints/branch-1" in done.stderr and steps("old")[-2:] == [20, 25] and link("old", "last") == 25 and
       link("old", "best") == best_of(line, "accuracy"), "an older checkpoint begins a line of its own", (done.stderr, steps("old"), link("old", "best")))
tap.ok({step: weights("old/checkpoints/branch-1/step-%d" % step) for step in kept} == kept and
       os.readlink("old/checkpoints/branch-1/last") == "step-30", "what was newer is in branch-1, unchanged", os.listdir("old/checkpoints/branch-1"))
now = weights("old/checkpoints/last")
done = fftrain("--resume", "old", "--epochs", 6, "--quiet")
tap.ok(done.returncode == 0 and link("old", "last") == 30 and epochs("old")[-1]["epoch"] == 6 and "/old/checkpoints/step-25, after" in done.stderr and
       weights("old/checkpoints/step-25") == now, "which the next --resume continues", done.stderr)
# killed after a checkpoint was complete, before `last` pointed to it; or while one was written
for name, target, at in (("complete", "step-20", 20), ("half", "step-999", 15)):
    shutil.copytree("again", name, symlinks=True)
    for link_name, to in (("last", "step-15"), ("last.tmp", target)):
        if os.path.islink("%s/checkpoints/%s" % (name, link_name)):
            os.unlink("%s/checkpoints/%s" % (name, link_name))
        os.symlink(to, "%s/checkpoints/%s" % (name, link_name))
    for step in [25, 30] + [20] * (at == 15):
        shutil.rmtree("%s/checkpoints/step-%d" % (name, step))
    done = fftrain("--resume", name, "--quiet")
    tap.ok(done.returncode == 0 and "step-%d, after" % at in done.stderr and link(name, "last") == 30 and
           not {"branch-1", "last.tmp"} & set(os.listdir(name + "/checkpoints")) and weights(name + "/checkpoints/last") == kept[30],
           "a save that was cut off: %s" % name, (done.stderr, os.listdir(name + "/checkpoints")))
# the same at the end of a run, which has no step left to do
fftrain(*COMMON, "--epochs", 6, "--lr", 0.1, "--out", "end", "--checkpoint-every", "1 epoch", "--keep", 9)
best = link("end", "best")
for name, to in (("last", "step-25"), ("last.tmp", "step-30"), ("best", "step-5")):
    if os.path.islink("end/checkpoints/" + name):
        os.unlink("end/checkpoints/" + name)
    os.symlink(to, "end/checkpoints/" + name)
done = fftrain("--resume", "end", "--quiet")
tap.ok(done.returncode == 2 and "the run is complete" in done.stderr and link("end", "last") == 30 and link("end", "best") == best != 5 and
       "last.tmp" not in os.listdir("end/checkpoints"), "a save that was cut off at the end of a run", (done.stderr, os.listdir("end/checkpoints"), best))
done = fftrain("--resume", "again/checkpoints/step-10", "--lr", 1e-4, "--keep", 1, "--quiet")
fftrain("--resume", "again/checkpoints/best", "--lr", 1e-3, "--quiet")
tap.ok(link("again", "last") == 30 and link("again", "best") in steps("again"), "twice", (steps("again"), os.listdir("again/checkpoints")))
# One that was cut short: `last` has left the newer ones, and they are still there.
fftrain(*COMMON, "--epochs", 4, "--out", "cut", "--checkpoint-every", "1 epoch", "--keep", 9)
os.remove("cut/checkpoints/last")
os.symlink("step-10", "cut/checkpoints/last")
done = fftrain("--resume", "cut", "--quiet")
tap.ok(done.returncode == 0 and "/cut/checkpoints/step-10, after" in done.stderr and sorted(os.listdir("cut/checkpoints/branch-1"))[-2:] == ["step-15", "step-20"],
       "a kill while they are moved: the next --resume completes it", (done.stderr, os.listdir("cut/checkpoints")))

# ---- a damaged newest checkpoint does not hold a place

fftrain(*COMMON, "--epochs", 4, "--out", "damaged", "--checkpoint-every", "1 epoch", "--keep", 1, "--best-by", "loss")
fftrain(*COMMON, "--epochs", 4, "--out", "kept", "--checkpoint-every", "1 epoch", "--keep", 2, "--best-by", "loss")
with open("kept/checkpoints/step-20/model.safetensors", "r+b") as file:
    file.seek(-1, os.SEEK_END)
    byte = file.read(1)
    file.seek(-1, os.SEEK_END)
    file.write(bytes([byte[0] ^ 64]))
done = fftrain("--resume", "kept", "--keep", 1, "--epochs", 5, "--quiet")
tap.ok(done.returncode == 0 and "step-20: is damaged" in done.stderr and link("kept", "last") == 25, "a run resumes before a damaged checkpoint, and gets on",
       (done.stderr, steps("kept")))



def requeued(run, after):
    """Resumes it, and ends it with SIGTERM once it has a checkpoint after this step: its messages."""
    process = subprocess.Popen([runs.FFTRAIN, "--resume", run, "--keep", "1", "--checkpoint-every", "1 step", "--quiet"], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **runs.ENVIRONMENT})
    while process.poll() is None and not (link(run, "last") or 0) in range(after + 1, 500):
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    return process.communicate()[1]


# A job that is requeued again and again gets on, though the damaged one has the most steps.
fftrain(*COMMON, "--epochs", 100, "--out", "queue", "--checkpoint-every", "250 steps", "--keep", 2, "--val", "none")
with open("queue/checkpoints/step-500/model.safetensors", "r+b") as file:
    file.seek(-1, os.SEEK_END)
    file.write(bytes([open("queue/checkpoints/step-500/model.safetensors", "rb").read()[-1] ^ 64]))
at, told = 250, []
for i in range(3):
    told.append(requeued("queue", at))
    now = link("queue", "last") or 0
    good = at < now < 500 and ("resumes from step-%d" % at in told[-1] or "step-%d, after" % at in told[-1] or "resuming from step-%d" % at in told[-1])
    tap.ok(good, "requeued with --keep 1 beside a damaged checkpoint: it gets on (%d)" % i, (at, now, steps("queue"), told[-1]))
    at = now

# ---- evaluations that are not finite, or fail

rng = numpy.random.default_rng(1)
train = rng.standard_normal((100, 3, 8, 8)).astype("float32")
val = rng.standard_normal((20, 3, 8, 8)).astype("float32")
bad = val.copy()
bad[3, 0, 0, 0] = numpy.nan
pack("nan", train, bad)
SMALL = [*COMMON[2:], "--data", "nan"]
pack("good", train, val)
for by in ("accuracy", "loss"):
    run = "nan-" + by
    done = fftrain(*SMALL, "--epochs", 2, "--out", run, "--best-by", by)
    resumed = fftrain("--resume", run, "--epochs", 3, "--quiet")
    tap.ok(done.returncode == 0 and "not finite" in done.stderr and link(run, "best") is None and resumed.returncode == 0 and link(run, "last") == 15,
           "an evaluation that is NaN is never the best by %s, and the run resumes" % by, (done.stderr, resumed.stderr))
for options in ([], ["--json"]):
    done = fftrain("evaluate", "nan/test", "-c", "nan-loss", "--batch", 1, *options)
    tap.ok(done.returncode == 1 and "not finite" in done.stderr.splitlines()[-1], "evaluate reports it: %s" % options, (done.returncode, done.stderr))
single = json.loads(done.stdout)
clean = fftrain("evaluate", "good/test", "-c", "nan-loss", "--batch", 1, "--json")
rows = {line["key"]: line for line in map(json.loads, fftrain("predict", "nan/test", "-c", "nan-loss", "--batch", 1).stdout.splitlines())}
right = {line["key"]: line for line in map(json.loads, fftrain("predict", "good/test", "-c", "nan-loss", "--batch", 1).stdout.splitlines())}
third = [key for key in rows if key.endswith(":3")][0]
tap.ok("not finite" in rows[third].get("error", "") and all(rows[key] == right[key] for key in rows if key != third),
       "predict has no class for the sample, and the others' are unchanged", rows[third])
correct = sum(line["class"] == int(key.split(":")[1]) % 4 for key, line in right.items() if key != third)
tap.ok(abs(single["accuracy"] - correct / 20) < 1e-9, "it counts as wrong", (single, correct))
pack("unlabeled", train, val, numpy.full(20, -1))
for options in ([], ["--val", "unlabeled/test"], ["--dry-run"]):
    refused("a validation set without labels is refused at the start: %s" % " ".join(options), 65, ["unlabeled/test", "unlabeled", "--val none"],
            *COMMON[2:], "--data", "unlabeled", "--epochs", 1, "--out", "none" if options != ["--dry-run"] else "none", *options)
for name in os.listdir("good/test"):
    if name.endswith(".ffs"):
        with open("good/test/" + name, "r+b") as file:
            file.seek(-5000, os.SEEK_END)
            byte = file.read(1)
            file.seek(-5000, os.SEEK_END)
            file.write(bytes([byte[0] ^ 64]))
done = fftrain(*COMMON[2:], "--data", "good", "--epochs", 3, "--val-every", 0, "--out", "failed")
tap.ok(done.returncode == 65 and "what was trained is in" in done.stderr and link("failed", "last") == 15, "a failing evaluation leaves what was trained",
       (done.returncode, done.stderr, os.listdir("failed/checkpoints")))
whole = fftrain(*COMMON[2:], "--data", "good", "--epochs", 3, "--val", "none", "--out", "without")
tap.ok(whole.returncode == 0 and weights("without/checkpoints/last") == weights("failed/checkpoints/last"), "which are the weights of the whole training", whole.stderr)

# ---- a disk that is full at the end


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


done = fftrain(*COMMON, "--epochs", 1, "--out", "full", limit=small_files)
tap.ok(done.returncode == 74 and "the last checkpoint was not saved" in done.stderr.splitlines()[-1] and not steps("full"),
       "a last checkpoint that cannot be written is exit code 74", (done.returncode, done.stderr))

# ---- the state of the run has what the keeper reads

_, facts = stored("old/checkpoints/last/state.safetensors")
now = json.loads(facts["ffpack.state"])
tap.ok(now["totals.val_step"] == now["totals.steps"] == 30 and now["totals.val.accuracy"] == epochs("old")[-1]["val_accuracy"],
       "a checkpoint has its own evaluation", now)
shutil.rmtree(place)
tap.finish()
