#!/usr/bin/python3
"""The folder of a run: checkpoints that PyTorch reads, runs that continue to the same bits after any end,
weights from files, recipes; and everything about them that can be wrong. Prints TAP."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import FFTRAIN, SIMULATED, events, fftrain, make, refused, stored  # noqa: E402

try:
    import xxhash
except ImportError as missing:
    tap.skip("the folder of a run", missing)
    tap.finish()

rng = random.Random(int(os.environ.get("FF_SEED", "5")))
place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "2"
environment = dict(os.environ, **runs.ENVIRONMENT)


make("set", "--count", 200, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics")
make("other", "--count", 200, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics", "--seed", 9)
COMMON = ["--data", "set", "--model", "smallnet", "--batch", 20, "--epochs", 4, "--augment", "crop=2,flip", "--threads", 2, "--quiet"]
LAST = "step-40"


def last_of(run, part="model"):
    return open("%s/checkpoints/%s/%s.safetensors" % (run, LAST, part), "rb").read()


# ---- a run's folder

done = fftrain(*COMMON, "--out", "whole", "--checkpoint-every", "epoch")
tap.ok(done.returncode == 0 and {"checkpoints", "log.jsonl", "recipe.txt"} <= set(os.listdir("whole")) and
       sorted(os.listdir("whole/checkpoints"))[:2] == ["best", "last"] and os.readlink("whole/checkpoints/last") == LAST,
       "a run's folder has recipe, log and checkpoints", done.stderr)
log = [json.loads(line) for line in open("whole/log.jsonl")]
tap.ok([line["event"] for line in log] == ["start"] + ["epoch"] * 4 + ["end"], "its log has every epoch", log)
best = max(log[1:5], key=lambda line: line["val_accuracy"])["epoch"]
tap.ok(os.readlink("whole/checkpoints/best") == "step-%d" % (10 * best), "best is the one of the best accuracy")
tap.ok(len([name for name in os.listdir("whole/checkpoints") if name.startswith("step-")]) <= 4,
       "three are kept, and the best", os.listdir("whole/checkpoints"))
fftrain(*COMMON, "--out", "loss", "--checkpoint-every", "epoch", "--best-by", "loss", "--keep", 1)
lowest = min((json.loads(line) for line in open("loss/log.jsonl") if '"epoch",' in line), key=lambda line: line["val_loss"])
steps = {name for name in os.listdir("loss/checkpoints") if name.startswith("step-")}
tap.ok(os.readlink("loss/checkpoints/best") == "step-%d" % (10 * lowest["epoch"]) and
       steps == {LAST, os.readlink("loss/checkpoints/best")}, "--best-by loss, --keep 1", steps)
fftrain(*COMMON, "--epochs", 1)
fftrain(*COMMON, "--epochs", 1)
tap.ok(sorted(os.listdir("runs")) == ["smallnet-1", "smallnet-2"], "without --out runs are numbered")
shutil.rmtree("runs")
fftrain(*COMMON, "--epochs", 1, "--out", "none")
fftrain(*COMMON, "-n")
fftrain(*COMMON, "--diagnose")
fftrain(*COMMON, "--lr", "wrong")
fftrain(*COMMON, "--label", "wrong")
tap.ok(not os.path.exists("runs") or not os.listdir("runs"), "--out none, dry runs and runs that are refused leave nothing")

# ---- the files

model, texts = stored("whole/checkpoints/last/model.safetensors")
state, facts = stored("whole/checkpoints/last/state.safetensors")
trained = [name for name in model if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))]
tap.ok(list(state) == ["momentum_buffer." + name for name in trained] and
       all(state["momentum_buffer." + name][:2] == model[name][:2] for name in trained),
       "the optimizer's state has the trained parameters, in their order", list(state))
tap.ok(texts["format"] == "pt" and texts["ffpack.model"] == "smallnet" and len(texts["ffpack.mean"].split()) == 3, "the texts of the weights", texts)
now = json.loads(facts["ffpack.state"])
tap.ok(now["totals.steps"] == now["control.step"] == now["control.updates"] == 40 and now["epoch.samples"] == 0,
       "the state of the run", now)
tracked = [struct.unpack("<q", model[name][2])[0] for name in model if name.endswith("num_batches_tracked")]
tap.ok(tracked and set(tracked) == {40}, "num_batches_tracked", tracked)
sums = [line.split() for line in open("whole/checkpoints/last/checksums.xxh128")]
tap.ok([name for _, name in sums] == ["model.safetensors", "state.safetensors"], "checksums of both files", sums)
tap.ok(all(xxhash.xxh3_128_hexdigest(open("whole/checkpoints/last/" + name, "rb").read()) == sum_ for sum_, name in sums),
       "which are XXH3-128, as xxh128sum -c reads them", sums)

# ---- continuing, to the same bits

reference = last_of("whole"), last_of("whole", "state")


def same(run):
    """The same weights and optimizer's state; times and epochs in progress are texts."""
    if not os.path.exists("%s/checkpoints/%s" % (run, LAST)):
        return False
    return last_of(run) == reference[0] and stored("%s/checkpoints/%s/state.safetensors" % (run, LAST))[0] == state


count = int(os.environ.get("FF_KILLS", "6"))
good, told = 0, []
for i in range(count):
    run = "killed-%d" % i
    process = subprocess.Popen([FFTRAIN, *map(str, COMMON), "--out", run, "--checkpoint-every", "%d steps" % rng.randint(1, 9)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    # Anywhere from before the first step to after the last.
    began, wait = time.monotonic(), rng.uniform(0.02, 0.5)
    while process.poll() is None and (time.monotonic() - began < wait or not os.path.exists(run + "/recipe.txt")):
        time.sleep(0.002)
    process.kill()
    process.wait()
    if not os.path.exists(run + "/checkpoints/" + LAST):
        done = fftrain("--resume", run, "--quiet")
        left = [name for name in os.listdir(run + "/checkpoints") if "." in name]
        told.append((round(wait, 3), done.returncode, done.stderr.strip(), left))
        good -= bool(left)
    good += same(run)
    shutil.rmtree(run)
tap.ok(good == count, "%d runs killed with -9 at any time continue to the same bits" % count, told)


def stopped(run, *arguments, program=FFTRAIN, after=3):
    """A run that SIGTERM stops after some steps, in the middle of an epoch."""
    process = subprocess.Popen([program, *map(str, arguments), "--out", run, "--checkpoint-every", "1 step"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    folder = run + "/checkpoints"
    while process.poll() is None and not (os.path.exists(folder) and any(
            name[5:].isdigit() and int(name[5:]) >= after for name in os.listdir(folder))):
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    return process.wait(), process.stderr.read()


code, said = stopped("stopped", *COMMON)
tap.ok(code == 75 and "; --resume continues from stopped/checkpoints/step-" in said, "SIGTERM saves a checkpoint and exits with 75", said)
shutil.copytree("stopped", "copy", symlinks=True)
# Every kind of state: two blocks of an optimizer, an average, gradients added up, clipping.
MORE = ["--optimizer", "lamb", "--ema", 0.9, "--accumulate", 2, "--clip-norm", 1, "--groups", "*.bias:optimizer=sgd,lr=0.01"]
fftrain(*COMMON, *MORE, "--out", "more")
code, said = stopped("more-stopped", *COMMON, *MORE, after=7)
done = fftrain("--resume", "more-stopped", "--quiet")
files = [stored("%s/checkpoints/%s/%s.safetensors" % (run, LAST, part))[0] for part in ("model", "state") for run in ("more", "more-stopped")]
names = {name.split(".")[0] for name in files[2]}
tap.ok(code == 75 and files[0] == files[1] and files[2] == files[3] and names == {"exp_avg", "exp_avg_sq", "momentum_buffer", "ema"},
       "with LAMB and SGD, an average, micro-batches and clipping, too", (said, done.stderr, names))
done = fftrain("--resume", "stopped", "--quiet")
tap.ok(done.returncode == 0 and same("stopped"), "and the run continues to the same bits", done.stderr)
log = [json.loads(line) for line in open("stopped/log.jsonl")]
epochs = [line for line in log if line["event"] == "epoch"]
whole = [json.loads(line) for line in open("whole/log.jsonl") if '"event":"epoch"' in line]
timeless = [{key: value for key, value in line.items() if "second" not in key and "wait" not in key} for line in epochs]
tap.ok([line["epoch"] for line in epochs] == [1, 2, 3, 4] and timeless == [
    {key: value for key, value in line.items() if "second" not in key and "wait" not in key} for line in whole],
    "its log has each epoch once, with the numbers of the run that was not stopped", [line["event"] for line in log])
shutil.move("copy", "elsewhere")
done = fftrain("--resume", "elsewhere/checkpoints/last", "--quiet", "--threads", 1)
tap.ok(done.returncode == 0 and os.path.exists("elsewhere/checkpoints/" + LAST) and "fftrain: changed: threads is 1 now, it was 2" in done.stderr,
       "a folder that was moved, one of its checkpoints, and another number of threads, which is told", done.stderr)
done = fftrain("--resume", "stopped", "--quiet")
tap.ok(done.returncode == 2 and "the run is complete" in done.stderr, "a run that is complete", done.stderr)
os.makedirs("automatic/checkpoints")  # as of a run that was killed before it started
open("automatic/log.jsonl", "w").close()
with open("automatic/recipe.txt.tmp", "w") as file:  # and while it wrote the recipe
    file.write("data = ")
automatic = [*COMMON, "--out", "automatic", "--resume", "auto"]
done = fftrain(*automatic, "--epochs", 2)
tap.ok(done.returncode == 0 and "resumes" not in done.stderr, "--resume auto begins a run if there is none", done.stderr)
done = fftrain(*automatic)
tap.ok(done.returncode == 0 and "after step 20 of 40" in done.stderr, "and continues with one", done.stderr)
done = fftrain(*automatic)
tap.ok(done.returncode == 0 and "note: the run is complete" in done.stderr, "one that is complete is not an error", done.stdout + done.stderr)
refused("--resume auto without a folder", 2, ["--resume auto needs --out or --name, the folder of the run"], *COMMON, "--resume", "auto")
# The newest run is the one whose last checkpoint was written last, whatever else changed since.
os.makedirs("here/runs/no run")
os.chdir("here")
refused("--resume alone, without a run", 2, ["--resume: there is no run in runs/ here; wanted the folder of a run, as in --resume runs/"], "--resume")
for seed in range(3):
    fftrain(*COMMON, "--data", "../set", "--epochs", 1, "--seed", seed)
for run, age in (("1", 300), ("2", 100), ("3", 200)):
    for path, _, names in os.walk("runs/smallnet-" + run):
        for name in names:
            os.utime(os.path.join(path, name), (time.time() - age,) * 2)
os.utime("runs/smallnet-1/recipe.txt")
os.utime("runs/smallnet-3/checkpoints")
done = fftrain("--resume", "--epochs", 2, "--quiet")
tap.ok(done.returncode == 0 and done.stderr.startswith("fftrain: the newest run is runs/smallnet-2\n") and
       "resumes from %s/runs/smallnet-2/checkpoints/step-10, after step 10 of 20" % os.getcwd() in done.stderr,
       "--resume alone continues with the newest run, and reports which", done.stderr)
done = fftrain("--dry-run", "--resume")
tap.ok(done.returncode == 0 and done.stderr == "fftrain: the newest run is runs/smallnet-2\n", "a dry run reports it, too", done.stderr)
done = fftrain("--resume=")
tap.ok(done.returncode == 2 and done.stderr == "fftrain: --resume= names no run; --resume alone takes the newest one in runs\n", "--resume= is not a name", done.stderr)
done = fftrain("--quiet", "--resume")
tap.ok(done.returncode == 2 and "runs/smallnet-2" in done.stderr and "the run is complete" in done.stderr, "one that is complete is refused", done.stderr)
shutil.rmtree("runs/smallnet-1/checkpoints")
os.mkdir("runs/smallnet-1/checkpoints")
os.utime("runs/smallnet-1/recipe.txt", (time.time() + 10,) * 2)
done = fftrain("--resume", "--quiet")
tap.ok(done.returncode == 0 and "the newest run is runs/smallnet-1\n" in done.stderr and "no checkpoint yet: it begins again" in done.stderr,
       "a run without a checkpoint counts from its start", done.stderr)
os.chdir("..")
done = fftrain("--resume", "stopped", "--epochs", 5, "--quiet")
tap.ok(done.returncode == 0 and os.path.exists("stopped/checkpoints/step-50") and "changed: epochs is 5 now, it was 4" in done.stderr,
       "continues with more --epochs", done.stderr)
# Stopped while it evaluates: the epoch is trained, and is evaluated when the run continues.
make("many", "--count", 30000, "--height", 12, "--width", 12, "--statistics")
SLOW = [*COMMON, "--val", "many", "--epochs", 2]
fftrain(*SLOW, "--out", "slow")
for attempt in range(50):
    run = "slow-%d" % attempt
    process = subprocess.Popen([FFTRAIN, *map(str, SLOW), "--out", run, "--checkpoint-every", "1 step"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    while process.poll() is None and not os.path.exists(run + "/checkpoints/step-9"):
        time.sleep(0.001)
    time.sleep(0.02 * attempt)
    process.send_signal(signal.SIGTERM)
    process.wait()
    at = json.loads(stored(run + "/checkpoints/last/state.safetensors")[1]["ffpack.state"])
    if at["totals.steps"] == 10 and at["epoch.samples"] > 0:
        break
done = fftrain("--resume", run, "--quiet")
lines = [[(line["epoch"], line["train_loss"], line["val_loss"]) for line in map(json.loads, open(name + "/log.jsonl")) if line["event"] == "epoch"]
         for name in ("slow", run)]
tap.ok(at["epoch.samples"] > 0 and at["totals.steps"] == 10 and lines[0] == lines[1] and len(lines[0]) == 2,
       "a run that is stopped while it evaluates evaluates again", (at, lines, done.stderr))
if os.path.exists(SIMULATED):
    gpu = ["--data", "set", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--deterministic", "--device", "cuda", "--quiet",
           "--val", "set/test", "--precision", "f16", "--placement"]
    for placement in ("stream", "resident"):
        fftrain(*gpu, placement, "--out", "gpu-" + placement, program=SIMULATED)
        code, said = stopped("gpu-stopped-" + placement, *gpu, placement, program=SIMULATED, after=4)
        done = fftrain("--resume", "gpu-stopped-" + placement, "--quiet", program=SIMULATED)
        files = [stored("%s-%s/checkpoints/step-10/%s.safetensors" % (name, placement, part))[0]
                 if os.path.exists("%s-%s/checkpoints/step-10" % (name, placement)) else name
                 for part in ("model", "state") for name in ("gpu", "gpu-stopped")]
        tap.ok(code == 75 and done.returncode == 0 and files[0] == files[1] and files[2] == files[3],
               "on the simulated GPU, %s, f16: to the same bits" % placement, said + done.stderr)
else:
    tap.skip("on the simulated GPU", "it is not built")

# ---- what can be wrong

refused("--resume of nothing", 74, ["--resume nothing: No such file"], "--resume", "nothing")
refused("--resume of another folder", 2, ["--resume set: there is no run"], "--resume", "set")
refused("--out of another run", 2, ["--out whole: holds another run; --resume whole continues it"], *COMMON, "--out", "whole")
refused("--out of another folder", 2, ["--out set: is not empty"], *COMMON, "--out", "set")
refused("--out below a file", 74, ["--out whole/log.jsonl/x: cannot create"], *COMMON, "--out", "whole/log.jsonl/x")
refused("--resume with --out", 2, ["leave out --out"], "--resume", "whole", "--out", "x")
refused("other data", 65, ["other data: its --data has content id", "other/train has"], "--resume", "whole", "--epochs", 9, "--data", "other")
refused("other validation data", 65, ["other data: its --val has"], "--resume", "whole", "--epochs", 9, "--val", "other/test")
for option, value in (("--seed", 3), ("--batch", 10), ("--order", "sequential"), ("--model", "resnet18"), ("--last-batch", "keep")):
    done = fftrain("--resume", "whole", "--epochs", 9, option, value)
    tap.ok(done.returncode == 2 and option + ": cannot change when a run resumes" in done.stderr or
           (option == "--model" and done.returncode == 65), "%s cannot change" % option, done.stderr)
refused("--checkpoint-every of nonsense", 2, ["--checkpoint-every: 'often' is not N epochs"], *COMMON, "--checkpoint-every", "often")
stopped("busy", *COMMON)
holder = subprocess.Popen([FFTRAIN, "--resume", "busy", "--epochs", "100000", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while holder.poll() is None and not any(
        int(name[5:]) > 60 for name in os.listdir("busy/checkpoints") if name[5:].isdigit()):
    time.sleep(0.01)
refused("a folder in which another process trains", 2, ["busy: another fftrain is training there"], "--resume", "busy")
holder.terminate()
tap.ok(holder.wait() == 75, "which ends as usual")

shutil.copytree("loss", "damaged", symlinks=True)
stopped("damaged-2", *COMMON, "--keep", 50, after=6)
newest = os.readlink("damaged-2/checkpoints/last")
with open("damaged-2/checkpoints/%s/model.safetensors" % newest, "r+b") as file:
    file.seek(-5, 2)
    byte = file.read(1)[0]
    file.seek(-5, 2)
    file.write(bytes([byte ^ 1]))
before = "step-%d" % (int(newest[5:]) - 1)
done = fftrain("--resume", "damaged-2", "--quiet")
tap.ok(done.returncode == 0 and same("damaged-2") and "%s: is damaged" % newest in done.stderr and
       "; resuming from" in done.stderr and before in done.stderr, "a damaged newest checkpoint: the one before, and it is said", done.stderr)
for name in os.listdir("damaged/checkpoints"):
    if name.startswith("step-"):
        os.truncate("damaged/checkpoints/%s/state.safetensors" % name, 3000)
refused("all checkpoints damaged", 65, ["is damaged"], "--resume", "damaged", "--epochs", 9)

# A disk that is full while a checkpoint is written: training continues, the old one stays.
folder = os.path.join(place, "full")
os.mkdir(folder)
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", folder], capture_output=True).returncode == 0
if mounted:
    try:
        done = fftrain(*COMMON, "--out", "full/run", "--checkpoint-every", "epoch", "--keep", 5)
        kept = [name for name in os.listdir("full/run/checkpoints") if name.startswith("step-")]
        tap.ok(done.returncode == 74 and "the last checkpoint was not saved" in done.stderr and "No space left on device" in done.stderr and
               len(events("full/run", "epoch")) == 4 and kept and LAST not in kept and os.readlink("full/run/checkpoints/last") in kept,
               "a full disk: training runs to its end, the old checkpoints stay, and the exit code is 74",
               (done.returncode, done.stdout, done.stderr, kept))
        subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
        done = fftrain("--resume", "full/run", "--quiet")
        tap.ok(done.returncode == 0 and last_of("full/run") == reference[0], "with space again it continues to the same bits", done.stderr)
    finally:
        subprocess.run(["umount", folder], check=True)
else:
    tap.skip("a full disk: training continues", "a file system of limited size needs root")

# ---- weights

done = fftrain(*COMMON, "--out", "fresh", "--weights", "whole/checkpoints/best", "--lr", 0, "--epochs", 1)
start = stored("whole/checkpoints/best/model.safetensors")[0]
after = stored("fresh/checkpoints/last/model.safetensors")[0]
tap.ok(done.returncode == 0 and all(start[name] == after[name] for name in trained), "--weights of a checkpoint", done.stderr)
make("classes", "--count", 100, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics", "--classes", 3)
done = fftrain("--data", "classes", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--weights", "whole/checkpoints/best", "--any-normalization", "-n")
tap.ok(done.returncode == 0 and "the head keeps its initial values: " in done.stdout, "other classes: a new head", done.stdout + done.stderr)
refused("weights of another model", 65, ["these are not weights of this model but of smallnet"], *COMMON, "--model", "resnet18", "--weights", "whole/checkpoints/best")
refused("weights that are not there", 74, ["--weights: nothing: "], *COMMON, "--weights", "nothing")
refused("weights that are not a safetensors file", 65, ["is neither a safetensors file nor one that torch.save writes"], *COMMON, "--weights", os.path.join(tap.BUILD, "fftrain"))
make("plain", "--count", 100, "--splits", "train,test", "--height", 12, "--width", 12)
done = fftrain("--data", "plain", "--model", "smallnet", "--batch", 20, "--weights", "whole/checkpoints/best", "-n")
tap.ok(done.returncode == 65 and "images normalized with mean" in done.stderr, "images normalized otherwise", done.stderr)

# ---- frozen parameters

spent = []
for name, more in (("thawed", []), ("frozen", ["--freeze", "body"])):
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = fftrain("--data", "set", "--val", "set/test", "--val-every", 0, "--model", "resnet18", "--batch", 40, "--epochs", 6, "--out", name, *more)
    spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began)
fftrain("--data", "set", "--model", "resnet18", "--batch", 40, "--epochs", 1, "--lr", 0, "--weight-decay", 0, "--out", "initial", "--quiet")
one, other = (stored(name + "/checkpoints/last/model.safetensors")[0] for name in ("initial", "frozen"))
same_ones = {key for key in one if one[key] == other[key]}
tap.ok("body: frozen" in done.stdout and {key for key in one if not key.endswith(("running_mean", "running_var", "tracked"))} - same_ones ==
       {"fc.weight", "fc.bias"}, "--freeze body: all but the head stay as they are", done.stdout)
tap.ok(spent[1] < 0.75 * spent[0], "and their gradients cost nothing", spent)
refused("--freeze of nothing", 2, ["--freeze: no trained parameter of smallnet is called x.*"], *COMMON, "--freeze", "x.*")
refused("--freeze of everything", 2, ["--freeze *: leaves nothing of smallnet to learn"], *COMMON, "--freeze", "*")

# ---- recipes

done = fftrain("--recipe", "whole/recipe.txt", "--out", "folders/that are new/again", "--quiet")
tap.ok(done.returncode == 0 and last_of("folders/that are new/again") == reference[0], "a run's recipe makes the same run, in folders that were not there", done.stderr)
make("larger", "--count", 40, "--statistics")
with open("based.txt", "w") as file:
    file.write("recipe = cifar-speed\nepochs = 3\nbatch = 20\ndata = larger\n")
done = fftrain("--recipe", "based.txt", "-n")
tap.ok(done.returncode == 0 and "recipe         cifar-speed" in done.stdout and "3 epochs" in done.stdout, "a file based on a recipe of the table",
       done.stdout + done.stderr)
with open("recipe.txt", "w") as file:
    file.write("# a comment\n\n  model=smallnet  \nepochs = 3\r\nbatch=20\naugment = crop=2,flip\nno-graph = yes\ndata = set\n")
done = fftrain("--recipe", "recipe.txt", "-n")
tap.ok(done.returncode == 0 and "3 epochs" in done.stdout and "augment        crop=2,flip" in done.stdout, "a recipe's lines", done.stderr)
done = fftrain("--recipe", "recipe.txt", "-n", "--set", "epochs=7", "--set", "augment = none")
tap.ok("7 epochs" in done.stdout and "augment        none" in done.stdout, "--set replaces them", done.stdout)
done = fftrain("--recipe", "recipe.txt", "-n", "--set", "epochs=7", "--epochs", 9)
tap.ok("9 epochs" in done.stdout, "and an option replaces both", done.stdout)
for line, words in (("epoch = 3", ["recipe.txt: line 9: unknown option --epoch", "did you mean --epochs?"]),
                    ("epochs 3", ["line 9: 'epochs 3' is not `name = value`"]),
                    ("no-graph = true", ["no-graph: 'true' is neither yes nor no"]),
                    ("epochs = many", ["line 9: --epochs: 'many' is not a whole number"])):
    with open("bad.txt", "w") as file:
        file.write(open("recipe.txt").read() + line)
    refused("a recipe with '%s'" % line, 2, ["bad.txt: line 9"] + words[1:], "--recipe", "bad.txt", "-n")
refused("--set without a value", 2, ["--set: line 1: 'epochs' is not `name = value`"], *COMMON, "--set", "epochs")

# ---- nobody reads what is said: a failed write, as on a full disk

for words in (["--help"], ["report", "whole"], ["diff", "whole", "loss"], ["export", "whole", "-o", "-"], ["evaluate", "whole"], [*COMMON, "-n"],
              [*COMMON[:-1], "--epochs", 1, "--out", "unread"]):
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run([FFTRAIN, *map(str, words)], stdout=writes, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(writes)
    tap.ok(done.returncode == 74 and done.stderr.splitlines()[-1].startswith("fftrain: ") and
           "write" in done.stderr.splitlines()[-1] and "No such" not in done.stderr, "a closed pipe: %s" % words[0], (done.returncode, done.stderr))
tap.ok(os.readlink("unread/checkpoints/last") == "step-10", "and a run whose table nobody reads is kept")

os.chdir("/")
shutil.rmtree(place)
tap.finish()
