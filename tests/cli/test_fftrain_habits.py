#!/usr/bin/python3
"""What people do to find what is wrong, and to train well without knowing how: frozen norms, weights of
classes, recipes. Prints TAP."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import FFTRAIN, fftrain, make, refused, stored_bytes  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "2"


def tensors(run):
    """{name: bytes} of the newest checkpoint."""
    return stored_bytes(run + "/checkpoints/last/model.safetensors")


make("set", "--count", 200, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics")
COMMON = ["--data", "set", "--model", "smallnet", "--batch", 20, "--threads", 2]

# ---- frozen norms

fftrain(*COMMON, "--epochs", 1, "--lr", 0, "--weight-decay", 0, "--out", "initial", "--freeze", "body")
for how, moved in (("eval", False), ("train", True)):
    done = fftrain(*COMMON, "--epochs", 1, "--out", how, "--freeze", "body", "--frozen-norms", how)
    one, other = tensors("initial"), tensors(how)
    statistics = [key for key in one if key.endswith(("running_mean", "running_var", "tracked"))]
    tap.ok(statistics and all((one[key] != other[key]) == moved for key in statistics),
           "--frozen-norms %s: their statistics %s" % (how, "move" if moved else "stay"), done.stdout + done.stderr)
    tap.ok(("frozen-norms = train" in open(how + "/recipe.txt").read()) == moved, "and the run's recipe has it")
done = fftrain("--data", "set", "--model", "smallnet", "--batch", 20, "--freeze", "conv1.*,bn1.*", "--epochs", 2, "--out", "part")
one, other = tensors("initial"), tensors("part")
tap.ok({key for key in one if key.endswith("tracked") and one[key] == other[key]} == {"bn1.num_batches_tracked"},
       "a part is frozen: only its norms stay", done.stderr)

for name, options in (("eval", ["eval"]), ("train", ["train"]), ("other layers", ["train", "--freeze", "conv1.*"]),
                      ("half of a norm", ["eval", "--freeze", "bn1.weight"])):
    refused("--frozen-norms without frozen norms: " + name, 2, ["--frozen-norms: no batch norm of smallnet is frozen", "--freeze norm freezes all"],
            *COMMON, "--out", "none", "--frozen-norms", *options)
done = fftrain(*COMMON, "--epochs", 1, "--out", "held", "--freeze", "norm", "--frozen-norms", "eval")
one, other = tensors("initial"), tensors("held")
tap.ok(done.returncode == 0 and {key for key in one if key.startswith("bn") or ".bn" in key} == {key for key in one if one[key] == other[key]},
       "--freeze norm --frozen-norms eval: of batch norms nothing moves, all else does", done.stderr)
make("large", "--count", 8, "--splits", "train", "--height", 32, "--width", 32, "--statistics")
refused("--frozen-norms for a net without them", 2, ["--frozen-norms: vgg11 has no batch norms"], "--data", "large", "--model", "vgg11", "--batch", 4,
        "--freeze", "body", "--frozen-norms", "eval", "--dry-run")
make("tiny", "--count", 6, "--splits", "train", "--height", 8, "--width", 8, "--statistics")
ONE = ["--data", "tiny/train", "--model", "resnet18", "--batch", 1, "--epochs", 1, "--threads", 1, "--out", "none", "--quiet"]
for title, options in (("", []), (" that trains", ["--freeze", "conv1.*,bn1.*"]), (" that averages", ["--freeze", "body", "--frozen-norms", "train"])):
    refused("a batch norm over one value%s is refused" % title, 2, ["layer4.0.bn1: a batch norm over one value"], *ONE, *options)
done = fftrain(*ONE, "--freeze", "body")
tap.ok(done.returncode == 0, "one that is held is not", done.stderr)

# ---- without evaluation, though a split to evaluate on stands beside

def log_of(run):
    return [json.loads(line) for line in open(run + "/log.jsonl")]


done = fftrain(*COMMON, "--epochs", 2, "--val", "none", "--out", "blind")
log = log_of("blind")
tap.ok(done.returncode == 0 and "\nvalidation     none (--val none)\n" in done.stdout and "val loss" not in done.stdout and log[0]["val"] is None and
       all(line["val_loss"] is None for line in log if line["event"] == "epoch"), "--val none evaluates nothing, and reports it", done.stdout + done.stderr)
fftrain(*COMMON[2:], "--data", "set/train", "--epochs", 2, "--out", "alone")
tap.ok(tensors("blind") == tensors("alone") and sorted(os.listdir("blind/checkpoints")) == sorted(os.listdir("alone/checkpoints")) and
       not os.path.lexists("blind/checkpoints/best"), "the run is one of a training set alone", os.listdir("blind/checkpoints"))
done = fftrain("--resume", "blind", "--epochs", 3)
tap.ok(done.returncode == 0 and "none (--val none)" in done.stdout and "\nval = none\n" in open("blind/recipe.txt").read(), "a run that continues keeps it",
       done.stdout + done.stderr)
refused("it cannot continue with a set to evaluate on", 65, ["the run has other data: its --val has content id none, set/test has"],
        "--resume", "blind", "--epochs", 4, "--val", "set/test")
refused("nor a run with one without it", 65, ["other data: its --val has content id ", "this run has none"], "--resume", "eval", "--epochs", 4, "--val", "none")
with open("blind.txt", "w") as file:
    file.write("data = set\nmodel = smallnet\nbatch = 20\nval = none\n")
done = fftrain("--recipe", "blind.txt", "--dry-run")
tap.ok(done.returncode == 0 and "none (--val none)" in done.stdout, "a line of a recipe", done.stdout + done.stderr)
done = fftrain("--recipe", "blind.txt", "--dry-run", "--val", "set/test")
tap.ok(done.returncode == 0 and "validation     set/test: " in done.stdout, "which an option replaces", done.stdout + done.stderr)
os.rename("set/test", "none")
os.rename("set", "kept")
done = fftrain("--data", "kept/train", *COMMON[2:], "--epochs", 1, "--val", "none", "--out", "blind-2"), \
    fftrain("--data", "kept/train", *COMMON[2:], "--epochs", 1, "--val", "./none", "--out", "seeing")
tap.ok("\nval = none\n" in open("blind-2/recipe.txt").read() and "\nval = %s/none\n" % os.path.realpath(place) in open("seeing/recipe.txt").read() and
       log_of("seeing")[1]["val_loss"] is not None, "a folder of that name is ./none", done[1].stdout + done[1].stderr)
os.rename("kept", "set")
os.rename("none", "set/test")
for name, more in (("two ranks", ["--ranks", 2]), ("what only evaluation reads", ["--val-every", 0, "--best-by", "loss", "--views", 2, "--val-resize", 14, "--top5"]),
                   ("an average", ["--ema", 0.9]), ("sizes that grow", ["--sizes", "0:10,1:12"])):
    done = fftrain(*COMMON, "--epochs", 2, "--val", "none", "--out", "none", "--log-json", "blind.log", *more)
    log = [json.loads(line) for line in open("blind.log")]
    os.remove("blind.log")
    tap.ok(done.returncode == 0 and log[-1]["event"] == "end" and log[-1]["val_accuracy"] is None, "--val none with " + name, done.stdout + done.stderr)
make("pictures", "--count", 60, "--splits", "train,test", "--height", 32, "--width", 32, "--statistics")
done = fftrain("--data", "pictures", "--recipe", "cifar-speed", "--batch", 20, "--epochs", 1, "--val", "none", "--out", "none")
tap.ok(done.returncode == 0 and "none (--val none)" in done.stdout, "--val none with cifar-speed, which evaluates once", done.stdout + done.stderr)
# A test set that does not fit is not an obstacle, also where a step is made again.
make("other", "--count", 40, "--height", 14, "--width", 14, "--statistics")
os.makedirs("unlike")
os.rename("other", "unlike/test")
os.symlink("../set/train", "unlike/train")
refused("a test set that does not fit", 65, ["unlike/test"], "--data", "unlike", *COMMON[2:], "--epochs", 1)
done = fftrain("--data", "unlike", *COMMON[2:], "--epochs", 1, "--val", "none", "--out", "blind-3")
tap.ok(done.returncode == 0, "is left alone", done.stderr)
done = fftrain("replay", "blind-3", "--step", 1, "--data", "unlike")
tap.ok(done.returncode == 0, "and by fftrain replay, too", done.stderr)
refused("--no-val", 2, ["unknown option --no-val: here it is --val none"], "--no-val")
# What the checkpoint says of samples of many sizes, without a set to evaluate on.
make("sizes", "--count", 40, "--height", 40, "--width", 48, "--splits", "train,test", "--variable", "--statistics")
found = []
for run, more in (("with", []), ("without", ["--val", "none"])):
    fftrain("--data", "sizes", *COMMON[2:], "--epochs", 1, "--augment", "rrc=16,flip", "--out", run, *more)
    done = fftrain("evaluate", "-c", run, "sizes")
    found.append(done.stdout.split("; ")[0].splitlines()[-1:] or done.stderr)
tap.ok(found[0] == found[1] and "Accuracy on sizes/test" in str(found[0]), "a net that was trained without evaluation evaluates as one that was not", found)

# ---- weights of classes

make("uneven", "--count", 120, "--splits", "train,test", "--height", 8, "--width", 8, "--classes", 3, "--statistics")
SMALL = ["--data", "uneven", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--threads", 2, "--augment", "none"]
info = json.loads(subprocess.run([os.path.join(tap.BUILD, "ffinspect"), "uneven/train", "--json"], capture_output=True, text=True).stdout)
field = info["splits"][0]["fields"][0]
balanced = [sum(field["counts"]) / (len(field["counts"]) * count) for count in field["counts"]]


def weigh(name, text):
    with open(name, "w") as file:
        file.write(text)
    return name


def loss_of(*more):
    done = fftrain(*SMALL, "--out", "none", "--log-json", "log", *more)
    lines = [json.loads(line) for line in open("log")] if os.path.exists("log") else []
    if os.path.exists("log"):
        os.remove("log")
    return [line["train_loss"] for line in lines if line["event"] == "epoch"] or done.stderr


done = fftrain(*SMALL, "--class-weights", "balanced", "-n")
tap.ok("class weights %.4g to %.4g" % (min(balanced), max(balanced)) in done.stdout, "--class-weights balanced: samples / (classes * samples of the class)",
       done.stdout + done.stderr)
weigh("same.csv", "# as scikit-learn's\n\n%s,%.9g\n1, %.9g\r\n%s,%.9g" % (
    field["classes"][0], balanced[0], balanced[1], field["classes"][2], balanced[2]))
tap.ok(loss_of("--class-weights", "balanced") == loss_of("--class-weights", "same.csv"), "a file with the same numbers: the same losses")
plain, twos, fives = loss_of(), loss_of("--class-weights", weigh("twos.csv", "0,2\n1,2\n2,2\n")), loss_of("--class-weights", weigh("fives.csv", "0,5\n1,1\n2,1\n"))
tap.ok(plain == twos and plain != fives, "equal weights change nothing, others do", [plain, twos, fives])
done = fftrain(*SMALL, "--class-weights", "fives.csv", "--out", "weighted")
recipe = open("weighted/recipe.txt").read() if os.path.exists("weighted/recipe.txt") else done.stderr
tap.ok("class-weights = %s/fives.csv" % os.path.realpath(place) in recipe, "a run's recipe has the file from the root", recipe)
for name, words, text in (
        ("an unknown class", ["bad.csv: line 2: 'rings' is not one of the 3 classes of 'label'; did you mean ring?"], "disk,1\nrings,1\n"),
        ("a number that is not a class", ["line 1: '3' is not one of the 3 classes"], "3,1\n"),
        ("a number with a 0 before it, which may be a name", ["line 2: '01' is not one of the 3 classes"], "0,1\n01,3\n2,2\n"),
        ("a class twice", ["line 3: class '0' has a weight already"], "disk,1\nring,1\n0,1\n"),
        ("a class without", ["class 'square' has no weight"], "disk,1\nring,1\n"),
        ("a line without a comma", ["line 1: 'disk 1' is not CLASS,WEIGHT"], "disk 1\n"),
        ("a weight below 0", ["line 1: 'disk,-1' is not CLASS,WEIGHT"], "disk,-1\n"),
        ("a weight that is not a number", ["line 1: 'disk,nan' is not CLASS,WEIGHT"], "disk,nan\n"),
        ("all 0", ["every class has weight 0"], "0,0\n1,0\n2,0\n")):
    refused("--class-weights: " + name, 2, ["--class-weights", *words], *SMALL, "--class-weights", weigh("bad.csv", text))
refused("--class-weights: no such file", 74, ["--class-weights: missing.csv"], *SMALL, "--class-weights", "missing.csv")
make("lacking", "--count", 2, "--splits", "train,test", "--height", 8, "--width", 8, "--classes", 9, "--statistics")
refused("--class-weights balanced: a class without samples", 2, ["--class-weights balanced: lacking/train has no sample of class "],
        "--data", "lacking", "--model", "smallnet", "--class-weights", "balanced")

# ---- shipped recipes

def lines_of(path):
    pairs = (line.split("=", 1) for line in open(path) if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


# ---- a set that was appended to

make("grown", "--count", 40, "--height", 12, "--width", 12, "--statistics")
fftrain("--data", "grown", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--out", "before")
shutil.rmtree("grown")
make("grown", "--count", 40, "--append", 20, "--height", 12, "--width", 12, "--statistics")
done = fftrain("--resume", "before", "--epochs", 2)
tap.ok(done.returncode == 0 and "grown was appended to: the run continues with the 40 of its 60 samples with which it began" in done.stderr,
       "a run whose set was appended to continues with what it began with", done.stdout + done.stderr)
done = fftrain("--data", "grown", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--weights", "before", "--out", "after")
tap.ok(done.returncode == 0 and "60 samples" in done.stdout, "which works", done.stdout + done.stderr)

SHIPPED = os.path.join(tap.ROOT, "train", "recipes")
make("photos", "--count", 24, "--splits", "train,test", "--height", 40, "--width", 40, "--classes", 5, "--statistics")
subprocess.run([FFTRAIN, "--data", "uneven", "--model", "resnet18", "--stem", "imagenet", "--epochs", "1", "--batch", "40", "--out", "old"], check=True,
               capture_output=True)
SMALLER = {"imagenet-resnet50-short": ["--augment", "rrc=48,flip", "--sizes", "0:32,1:48"], "imagenet-resnet50-long": ["--augment", "rrc=32,flip", "--val-resize", 36],
           "imagenet-resnet50-v2": ["--augment", "rrc=48,flip,trivialaugment=bilinear,erase=0.1,mixup=0.2,cutmix=1", "--sizes", "0:32", "--val-resize", 50, "--warmup", 1],
           "imagenet-resnet50-a3": ["--augment", "rrc=48,flip,randaugment=1:18:bilinear,mixup=0.1,cutmix=1", "--sizes", "0:32", "--val-resize", 50, "--warmup", 1],
           "finetune": ["--augment", "rrc=32,flip", "--weights", "old", "--any-normalization"]}
names = sorted(name[:-4] for name in os.listdir(SHIPPED) if name.endswith(".txt"))
tap.ok(names == ["cifar10-resnet18", "finetune", "imagenet-resnet50-a3", "imagenet-resnet50-long", "imagenet-resnet50-short", "imagenet-resnet50-v2", "quickstart"], "the shipped recipes", names)
for name in names:
    done = fftrain("--recipe", name, "--data", "photos", "--batch", 2, "--threads", 2, "-n")
    tap.ok(done.returncode == 0, name + ": planned as it is except for the batch", done.stdout[-500:] + done.stderr)
    done = fftrain("--recipe", name, "--data", "photos", "--batch", 8, "--epochs", 2, "--threads", 2, "--out", "of-" + name, *SMALLER.get(name, []))
    tap.ok(done.returncode == 0 and "6 steps" in done.stdout, name + ": a few steps", done.stdout[-500:] + done.stderr)
    want, got = lines_of(os.path.join(SHIPPED, name + ".txt")), lines_of("of-%s/recipe.txt" % name) if done.returncode == 0 else {}
    wrong = [key for key in ("model", "lr", "momentum", "weight-decay", "schedule", "label-smoothing", "no-decay", "groups", "views", "loss", "repeats",
                             "clip-norm", "optimizer")
             if key in want and want[key] != got.get(key)]
    tap.ok(not wrong, name + ": its numbers are the run's", [(key, want[key], got.get(key)) for key in wrong])
    shutil.rmtree("of-%s/checkpoints" % name, ignore_errors=True)
for more, wanted in (([], True), (["--weights", "old", "--any-normalization"], False)):
    done = fftrain("--recipe", "finetune", "--data", "photos", "--batch", 2, "--threads", 2, "-n", *more)
    tap.ok(done.returncode == 0 and ("without --weights FILE starts from random values" in done.stderr) == wanted, "finetune %s weights: said at the start" %
           ("without" if wanted else "with"), done.stderr)
    tap.ok("the samples (40x40) are smaller than the crops (224x224), which enlarges them at 31.4 times the cost of rrc=40" in done.stdout,
           "so are crops larger than the samples", done.stdout)
done = fftrain("--recipe", "quickstart", "--data", "photos", "--batch", 2, "--augment", "rrc=40,flip", "-n")
tap.ok(done.returncode == 0 and "smaller than the crops" not in done.stdout and "best is chosen by this test split" in done.stdout,
       "crops of the samples' size are not, and a test split that chooses the best is", done.stdout + done.stderr)
done = fftrain("--recipe", "quickstart", "--data", "photos/train", "--batch", 2, "-n")
tap.ok(done.returncode == 0 and "without one no checkpoint is best" in done.stdout, "so is a run without validation", done.stdout + done.stderr)
tap.ok(lines_of("of-finetune/recipe.txt").get("weights", "").endswith("/old"), "finetune has its weights")
row, shipped = (fftrain("--data", "uneven", *how, "--batch", 20, "--threads", 2, "--log-json", "row.log", "--out", "none")
                for how in (["--model", "smallnet", "--lr", 0.4], ["--recipe", "quickstart"]))
losses = [json.loads(line)["train_loss"] for line in open("row.log") if '"epoch"' in line and "train_loss" in line]
tap.ok(len(losses) == 16 and losses[:8] == losses[8:], "quickstart is smallnet's own", losses)
refused("an unknown recipe", 2, ["--recipe: 'quikstart' is unknown; did you mean quickstart? The recipes are cifar10-resnet18, ", ", cifar-speed"],
        "--recipe", "quikstart", "--data", "uneven")
refused("a recipe's model is another's name", 2, ["--recipe: 'nothing/quickstart' is unknown"], "--recipe", "nothing/quickstart", "--data", "uneven")
refused("--recipe and --resume", 2, ["--resume continues with the run's recipe; leave out --recipe"], "--recipe", "quickstart", "--resume", "of-quickstart")
os.mkdir("quickstart")
done = fftrain("--recipe", "quickstart", "--data", "uneven", "-n")
tap.ok(done.returncode == 0, "a folder of a recipe's name is not taken for it", done.stderr)

# ---- lr-find

def valley(rates, means, asked):
    """fastai's callback/schedule.py, valley() and what lr_find() gives it, in other words."""
    rates, means = rates[asked // 10:-5], means[asked // 10:-5]
    lengths, end, start = [1] * len(means), 0, 0
    for i in range(1, len(means)):
        for j in range(i):
            if means[i] < means[j] and lengths[i] < lengths[j] + 1:
                lengths[i] = lengths[j] + 1
            if lengths[end] < lengths[i]:
                end = i
                start = end - lengths[end]
    third = (end - start) / 3
    return rates[max(start, 0) + int(third) + int(third / 2)]


make("many", "--count", 2000, "--splits", "train,test", "--height", 16, "--width", 16, "--classes", 5, "--statistics")
FIND = ["--data", "many", "--model", "smallnet", "--batch", 50, "--threads", 2]
before = set(os.listdir("."))
done = fftrain("lr-find", *FIND, "--png", "rates.png", "--log-json", "rates.log")
found = json.loads(open("rates.log").read()) if os.path.exists("rates.log") else {}
tap.ok(done.returncode == 0 and found.get("event") == "lr-find", "lr-find: a rate is found", done.stdout[-300:] + done.stderr)
rates = found["rate"]
tap.ok(all(abs(b / a - 1e7 ** (1 / 199)) < 1e-6 for a, b in zip(rates, rates[1:])) and abs(rates[0] - 1e-6) < 1e-12,
       "rates rise from 1e-6 by the same factor", rates[:5])
mean, good = 0, []
for k, loss in enumerate(found["loss"]):
    mean = 0.98 * mean + 0.02 * loss
    good.append(abs(mean / (1 - 0.98 ** (k + 1)) - found["smoothed_loss"][k]) < 1e-7)
tap.ok(all(good), "the loss is smoothed as fastai's")
tap.ok(abs(found["suggested"] - valley(rates, found["smoothed_loss"], 200)) < 1e-9 * found["suggested"], "the suggestion is fastai's valley", found["suggested"])
tap.ok(done.stdout.splitlines()[-1] == "suggested: --lr %.2g" % found["suggested"] and "####" in done.stdout, "it is printed, after the curve", done.stdout[-300:])
part_rates, part = rates[20:-5], found["smoothed_loss"][20:-5]
slopes = [(b - a) / math.log(r / q) for a, b, q, r in zip(part, part[1:], part_rates, part_rates[1:])]
wanted = part_rates[slopes.index(min(slopes))], part_rates[part.index(min(part))] / 10
tap.ok(all(abs(a - b) < 1e-9 * b for a, b in zip((found.get("steep", 0), found.get("minimum", 0)), wanted)) and
       "by fastai's rules: valley %.2g, steep %.2g, minimum %.2g" % (found["suggested"], *wanted) == done.stdout.splitlines()[-2],
       "fastai's steep and minimum stand next to it", [found.get("steep"), found.get("minimum"), wanted, done.stdout[-300:]])
tap.ok("smoothed loss\n" in done.stdout and "\n%9.2e  %13.4g " % (rates[-1], found["smoothed_loss"][-1]) in done.stdout,
       "the column is headed by what it is, and the last step is shown", done.stdout)
picture = open("rates.png", "rb").read() if os.path.exists("rates.png") else b""
tap.ok(picture[:4] == b"\x89PNG" and struct.unpack(">II", picture[16:24]) == (720, 440), "the curve is drawn")
tap.ok(set(os.listdir(".")) - before == {"rates.png", "rates.log"}, "nothing of the run is kept", set(os.listdir(".")) - before)
good = fftrain(*FIND, "--epochs", 3, "--lr", "%.2g" % found["suggested"], "--quiet", "--out", "none")
tap.ok(good.returncode == 0, "the suggested rate trains", good.stderr)
os.remove("rates.log")
sim = fftrain("lr-find", *FIND[:-2], "--device", "cuda", "--precision", "f32", "--steps", 40, "--from", 1e-4, "--to", 1, "--log-json", "rates.log", program=tap.program("fftrain_sim"))
cpu = fftrain("lr-find", *FIND, "--steps", 40, "--from", 1e-4, "--to", 1, "--log-json", "rates.log", "--accumulate", 2)
both = [json.loads(line) for line in open("rates.log")]
tap.ok(sim.returncode == 0 and len(both) == 2 and len(both[0]["loss"]) == 40 and abs(both[0]["loss"][0] - both[1]["loss"][0]) < 0.1,
       "on a GPU, and with micro-batches", sim.stderr + cpu.stderr)
done = fftrain("lr-find", *FIND, "--steps", 40, "--from", 20, "--to", 1e4)
tap.ok(done.returncode == 1 and "the loss never falls for long between the rates 20 and 10000" in done.stderr, "rates that are too large", done.stderr)
refused("--from above --to", 2, ["--from 1: is not below --to 0.5"], "lr-find", *FIND, "--from", 1, "--to", 0.5)
refused("lr-find --resume", 2, ["lr-find starts from the beginning; leave out --resume"], "lr-find", "--resume", "weighted")
refused("--steps without lr-find", 2, ["unknown option --steps"], *FIND, "--steps", 40)
groups = fftrain("lr-find", *FIND, "--groups", "fc.*:lr=0.8", "--steps", 40, "--quiet")
tap.ok(groups.returncode == 0, "with groups of other rates", groups.stderr)

# ---- overfitting a few batches

LEARN = ["--data", "many", "--model", "smallnet", "--batch", 20, "--threads", 2]
before = set(os.listdir("."))


def learned(*more, program=FFTRAIN):
    done = fftrain(*more, program=program)
    last = [line for line in done.stdout.splitlines() if line.startswith("pass ")][-1:]
    return (float(last[0].split()[3]) if last else None), done


for name, more in (("smallnet", []), ("with what hinders it left out", ["--augment", "crop=3,flip,mixup=0.4,jitter=0.4:0.4:0.4,erase=0.5",
                                                                         "--label-smoothing", 0.2, "--weight-decay", 0.1]),
                   ("random resized crops, taken once", ["--augment", "rrc=16,flip"]),
                   ("a net with dropout", ["--model", "mobilenet_v2", "--dropout", 0.5]),
                   ("micro-batches", ["--accumulate", 2, "--last-batch", "keep"])):
    loss, done = learned(*LEARN, "--overfit", 2, *more)
    tap.ok(done.returncode == 0 and loss is not None and loss < 0.01 and "The loss is below 0.01 after " in done.stdout, "--overfit: " + name,
           done.stdout[-400:] + done.stderr)
loss, done = learned(*LEARN[:-2], "--overfit", 3, "--device", "cuda", "--precision", "f32", program=tap.program("fftrain_sim"))
cpu, other = learned(*LEARN, "--overfit", 3)
tap.ok(done.returncode == 0 and abs(loss - cpu) < 1e-4, "--overfit: on a GPU with the same losses", "%s %s %s" % (loss, cpu, done.stderr))
loss, done = learned(*LEARN, "--overfit", 2, "--lr", 1e-7, "--epochs", 3)
tap.ok(done.returncode == 1 and "--overfit: the loss is still %.4g (accuracy " % loss in done.stderr and "after 6 steps, above 0.01" in done.stderr,
       "a net that does not learn is told with its loss", done.stderr)
tap.ok(set(os.listdir(".")) == before, "nothing of it is kept", set(os.listdir(".")) - before)
refused("--overfit with too many batches", 2, ["--overfit 101: the training set has only 100 batches"], *LEARN, "--overfit", 101)
refused("--overfit and --resume", 2, ["--overfit starts from the beginning; leave out --resume"], "--overfit", 1, "--resume", "weighted")

# ---- gradients against differences of the loss; wrong ones: unit/test_check_gradients

for name, program, more in (("smallnet", FFTRAIN, ["--label-smoothing", 0.1, "--class-weights", "balanced"]),
                            ("frozen norms", FFTRAIN, ["--freeze", "norm"]), ("mixed labels", FFTRAIN, ["--augment", "mixup=0.5"]),
                            ("a GPU", tap.program("fftrain_sim"), ["--device", "cuda", "--precision", "f32"])):
    done = fftrain(*LEARN, "--check-gradients", *more, program=program)
    lines = [line.split() for line in done.stdout.splitlines() if ".weight " in line or ".bias " in line]
    tap.ok(done.returncode == 0 and len(lines) == (6 if name == "frozen norms" else 14) and all(float(line[3]) <= 0.05 for line in lines if len(line) == 4),
           "--check-gradients: " + name, done.stdout[-1500:] + done.stderr)
done = fftrain(*LEARN[:-2], "--check-gradients", "--device", "cuda", "--precision", "f16", program=tap.program("fftrain_sim"))
tap.ok(done.returncode == 2 and "need --precision f32, not f16" in done.stderr, "--check-gradients: needs f32", done.stderr)
tap.ok(set(os.listdir(".")) == before, "nothing of it is kept", set(os.listdir(".")) - before)

tap.finish()
