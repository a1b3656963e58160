#!/usr/bin/python3
"""--reproducible: where ranks times micro-batches stay the same, 1, 2, 4 and 8 ranks end in the same bits, also of a run that continues on
other ranks; what is refused. Prints TAP."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import MPIRUN  # noqa: E402
from runs import distance, fftrain, make, stored_bytes, tensors  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)
HAS_MPI = shutil.which("mpirun") and not tap.SANITIZE


def lines(run, name, *keys):
    """Of the events with all these keys; by the first, because a run that continues does some again."""
    with open("%s/%s.jsonl" % (run, name), encoding="utf-8") as file:
        return {line[keys[0]]: [line[key] for key in keys] for line in map(json.loads, file) if all(key in line for key in keys)}


def result(run):
    """All that must not depend on how batches are split. Losses of the epochs are sums over all steps."""
    last = run + "/checkpoints/last/"
    return [stored_bytes(last + "model.safetensors"), stored_bytes(last + "state.safetensors"),
            lines(run, "log", "epoch", "train_loss", "train_accuracy", "val_accuracy"), lines(run, "hashes", "step", "loss", "parameters")]


def differs(a, b):
    """What two results do not have in common."""
    found = [name for x, y in zip(a[:2], b[:2]) for name in sorted(set(x) | set(y)) if x.get(name) != y.get(name)]
    return found[:3] + [(x, y) for x, y in zip(a[2:], b[2:]) if x != y]


def check(want, run, done, what):
    found = differs(want, result(run)) if done.returncode == 0 else done.stderr
    tap.ok(not found, what + ": the same bits", found)


# 8 steps in 2 epochs; the last batch of each has 9 samples: of 8 parts of 2 one has a sample, and three have none
PARTS, COUNT = 8, 57
os.mkdir("set")
make("set/train", "--count", COUNT, "--height", 16, "--width", 16, "--statistics")
make("set/test", "--count", 21, "--height", 16, "--width", 16, "--statistics")
RUN = ["--data", "set", "--batch", 16, "--epochs", 2, "--seed", 3, "--lr", 0.01, "--schedule", "constant", "--warmup", 0,
       "--last-batch", "keep", "--hash-every", 1, "--reproducible"]
SMALLNET = ["--model", "smallnet", "--augment", "crop=4,flip,mixup", "--dropout", 0.3, "--clip-norm", 1, "--class-weights", "balanced"]
MOBILENET = ["--model", "mobilenet_v2", "--stem", "cifar", "--augment", "crop=4,flip", "--ema", 0.9]


def cpus(count):
    return ",".join(["cpu"] * count)


SPLITS = [("smallnet", SMALLNET, [("--dp of 2", ["--dp", cpus(2), "--accumulate", 4], ()), ("--dp of 8", ["--dp", cpus(8)], ())]),
          ("mobilenet_v2", MOBILENET, [("--ranks 2", ["--ranks", 2, "--accumulate", 4, "--checkpoint-every", "3 steps", "--keep", 9], ()),
                                       ("--dp of 4", ["--dp", cpus(4), "--parts", PARTS], ()), ("--ranks 8", ["--ranks", 8], ())])]
if HAS_MPI:
    SPLITS[1][2].append(("4 ranks of MPI", ["--accumulate", 2], (*MPIRUN, 4)))
else:
    tap.skip("ranks of MPI", "mpirun is not installed")

for net, how, splits in SPLITS:
    done = fftrain(*RUN, *how, "--accumulate", PARTS, "--out", net)
    if not tap.ok(done.returncode == 0, "%s alone, in %d micro-batches" % (net, PARTS), done.stderr):
        continue
    whole = result(net)
    for name, split, before in splits:
        done = fftrain(*RUN, *how, *split, "--out", "split", before=before)
        check(whole, "split", done, "%s, %s" % (net, name))
        if name == "--ranks 2":
            done = fftrain("--resume", "split/checkpoints/step-3", "--ranks", 4)
            check(whole, "split", done, "%s, continues on 4 ranks from the third step of 2" % net)
        shutil.rmtree("split", ignore_errors=True)

# ranks that are not a power of two, and a step that is one part on each

TWELVE = ["--data", "set", "--model", "smallnet", "--batch", 24, "--epochs", 1, "--lr", 0.01, "--last-batch", "keep",
         "--hash-every", 1, "--reproducible", "--parts", 12]
done = fftrain(*TWELVE, "--out", "twelve")
whole = result("twelve") if tap.ok(done.returncode == 0, "12 micro-batches", done.stderr) else []
for name, split in ("3 ranks", ["--dp", cpus(3)]), ("6 ranks", ["--dp", cpus(6)]):
    check(whole, "split", fftrain(*TWELVE, *split, "--out", "split"), name)
    shutil.rmtree("split", ignore_errors=True)

# of equal parts the running means are, at the first norm, those of the whole batch

make("step", "--count", 16, "--height", 16, "--width", 16, "--statistics")
STEP = ["--data", "step", "--model", "smallnet", "--batch", 16, "--epochs", 1, "--seed", 3, "--lr", 0.01, "--augment", "none"]
runs = [fftrain(*STEP, "--out", "batch"), fftrain(*STEP, "--reproducible", "--accumulate", 4, "--out", "parts")]
if tap.ok([done.returncode for done in runs] == [0, 0], "a step, and one of 4 parts", [done.stderr for done in runs]):
    batch, parts = ({"mean": tensors(run)["bn1.running_mean"]} for run in ("batch", "parts"))
    tap.ok(distance(batch, parts) < 1e-6, "the parts' running means are those of the batch within 1e-6", distance(batch, parts))

# ---- what is refused

for name, how, says in [
        ("parts that are not equal", ["--accumulate", 3], "a batch of 16 samples is not 3 equal parts (ranks times micro-batches)"),
        ("parts that break pairs", ["--accumulate", 16, "--augment", "mixup"], "is not 16 equal parts, in pairs"),
        ("a tree that ranks cut", ["--dp", cpus(2), "--accumulate", 6, "--batch", 24], "6 micro-batches on each of several ranks are not a power"),
        ("parts and ranks", ["--dp", cpus(3), "--parts", 8], "8 parts (--parts), which are not 3 ranks times 2 micro-batches"),
        ("parts and micro-batches", ["--accumulate", 4, "--parts", 8], "8 parts (--parts), which are not 1 ranks times 4 micro-batches"),
        ("uneven shares", ["--dp", cpus(2), "--dp-balance", "1,3"], "all ranks have equal shares of a batch; leave out --dp-balance"),
        ("statistics of all ranks", ["--dp", cpus(2), "--sync-bn"], "leave one of the two out"),
        ("a batch by the machine", ["--batch", "auto"], "--batch auto depends on the machine")]:
    done = fftrain(*RUN, *MOBILENET, *how, "--out", "none")
    tap.ok(done.returncode == 2 and says in done.stderr, name, (done.returncode, done.stderr))
done = fftrain(*RUN[:-1], *MOBILENET, "--parts", 8, "--out", "none")
tap.ok(done.returncode == 2 and "--parts needs --reproducible" in done.stderr, "--parts alone", done.stderr)

shutil.rmtree(PLACE)
tap.finish()
