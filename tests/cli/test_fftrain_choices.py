#!/usr/bin/python3
"""What is chosen with an option is what happens, or is refused: patterns of names, recipes and what replaces their lines, mixed pairs,
weights of other classes, damaged or without a description, resizing and precision in evaluation. Prints TAP. Environment: BUILD."""
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from runs import SIMULATED, epochs, fftrain, make, refused, same, starts, stored  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
rng = random.Random(int(os.environ.get("FF_SEED", "7")))
FFPACK = os.path.join(tap.BUILD, "ffpack")

# 5 steps an epoch.
make("set", "--count", 100, "--splits", "train,test", "--height", 8, "--width", 8, "--statistics")
make("larger", "--count", 80, "--splits", "train", "--height", 32, "--width", 32, "--statistics")
REST = ["--augment", "none", "--batch", 20, "--threads", 1, "--warmup", 0, "--quiet"]
COMMON = ["--data", "set", "--model", "smallnet", *REST]
DRY = ["--data", "set", "--model", "smallnet", "--epochs", 1, "--dry-run"]


def write(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)
    return path


def pack(name, train, val=None, classes=None):
    """A set of f32 arrays with these labels; classes: their names."""
    values = numpy.random.default_rng(3)
    os.mkdir(name + "-arrays")
    for split, labels in (("train", train), ("test", val)):
        if labels is not None:
            numpy.save("%s-arrays/x_%s.npy" % (name, split), values.standard_normal((len(labels), 3, 8, 8)).astype("float32"))
            numpy.save("%s-arrays/y_%s.npy" % (name, split), numpy.array(labels, "int64"))
    named = ["--classes", write(name + ".txt", "\n".join(classes) + "\n")] if classes else []
    subprocess.run([FFPACK, name + "-arrays", "-o", name, "--dtype", "f32", *named], check=True, capture_output=True)


def evaluated(*arguments, **how):
    done = fftrain("evaluate", *arguments, "--json", **how)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}


def numbers(*arguments, **how):
    found = evaluated(*arguments, **how)
    return found.get("loss", found), found.get("accuracy")


# ---- names of parameters

for option, value, name in (("--no-decay", "norms", "norms"), ("--no-decay", "norm;bias", "norm;bias"), ("--no-decay", "norm,biases", "biases"),
                            ("--no-decay", "norm,", "left out"), ("--freeze", "conv1.*,bnn1.*", "bnn1.*"), ("--freeze", "foo", "foo"),
                            ("--groups", "fc.*,bm1.*:lr=.01", "bm1.*"), ("--groups", "fc.*:lr=.01;bm1.*:lr=.1", "bm1.*")):
    refused("%s '%s' is refused" % (option, value), 2, [option, "smallnet", name], *DRY, option, value)
for one, other in ((["--no-decay", "norm, bias", "--weight-decay", 0.5], ["--no-decay", "norm,bias", "--weight-decay", 0.5]),
                   (["--freeze", " conv1.* , bn1.*"], ["--freeze", "conv1.*,bn1.*"]),
                   (["--groups", "fc.*, bn1.* :lr=0.01"], ["--groups", "fc.*,bn1.*:lr=0.01"])):
    done = {}
    for run, options in (("one", one), ("other", other)):
        shutil.rmtree(run, ignore_errors=True)
        done[run] = fftrain(*COMMON, *options, "--epochs", 1, "--out", run)
    tap.ok(not any(one.returncode for one in done.values()) and same("one", "other"), "blanks in %s '%s'" % tuple(one[:2]), done["one"].stderr)
tap.ok(fftrain("--data", "larger", "--model", "vgg11", "--epochs", 1, "--dry-run", "--no-decay", "norm").returncode == 0, "a net may have no norms")

# ---- the lines of a recipe, replaced

write("nesterov.txt", "model = smallnet\nepochs = 1\nlr = 0.1\nmomentum = 0.9\nnesterov = yes\nweight-decay = 0.001\n")
write("plain.txt", "model = smallnet\nepochs = 1\nlr = 0.1\nno-nesterov = yes\n")


def optimizer(*options):
    """Of the run that these options make: name, rate, momentum, whether Nesterov's, weight decay."""
    shutil.rmtree("chosen", ignore_errors=True)
    done = fftrain("--data", "set", *REST, "--schedule", "constant", *options, "--out", "chosen")
    if done.returncode:
        return done.stderr
    line = starts("chosen")[0]
    return line["optimizer"], line["learning_rate"], line["momentum"], line["nesterov"], line["weight_decay"]


for options, wanted in (([], ("sgd", 0.1, 0.9, True, 0.001)), (["--no-nesterov"], ("sgd", 0.1, 0.9, False, 0.001)), (["--momentum", 0], ("sgd", 0.1, 0, False, 0.001)),
                        (["--optimizer", "sgd", "--lr", 1], ("sgd", 1, 0.9, True, 0.001)), (["--optimizer", "adamw"], ("adamw", 0.001, 0, False, 0.01)),
                        (["--optimizer", "adamw", "--lr", 0.5, "--weight-decay", 0], ("adamw", 0.5, 0, False, 0)),
                        (["--optimizer", "lars"], optimizer("--model", "smallnet", "--epochs", 1, "--optimizer", "lars"))):
    tap.ok(optimizer("--recipe", "nesterov.txt", *options) == wanted, "a recipe with Nesterov momentum and %s" % options,
           (optimizer("--recipe", "nesterov.txt", *options), wanted))
    sets = [word for name, value in zip(options[::2], options[1::2]) for word in ("--set", "%s=%s" % (name[2:], value))]
    if options and not options[0].startswith("--no"):
        tap.ok(optimizer("--recipe", "nesterov.txt", *sets) == wanted, "the same by --set", optimizer("--recipe", "nesterov.txt", *sets))
tap.ok(optimizer("--recipe", "nesterov.txt", "--set", "no-nesterov=yes") == ("sgd", 0.1, 0.9, False, 0.001), "--set no-nesterov=yes")
tap.ok(optimizer("--recipe", "plain.txt", "--nesterov") == optimizer("--recipe", "plain.txt", "--set", "nesterov=yes") ==
       ("sgd", 0.1, optimizer("--recipe", "plain.txt")[2], True, optimizer("--recipe", "plain.txt")[4]), "a recipe without, and --nesterov")
for options, left, now in ((["--optimizer", "adamw"], "lr 0.1, momentum 0.9, weight-decay 0.001, nesterov", "adamw has lr 0.001, weight-decay 0.01, beta1 0.9, "),
                           (["--optimizer", "adamw", "--lr", 0.5], "momentum 0.9, weight-decay 0.001, nesterov", "adamw has lr 0.5, weight-decay 0.01, "),
                           (["--set", "optimizer=lars"], "lr 0.1, momentum 0.9, weight-decay 0.001, nesterov", "lars has lr 1, momentum 0.9, "),
                           (["--optimizer", "sgd", "--lr", 1], None, None), (["--lr", 1], None, None)):
    for more in [], ["--dry-run"], ["--ranks", 2]:
        done = fftrain("--data", "set", *REST, "--recipe", "nesterov.txt", *options, *more, "--out", "none")
        told = [line for line in done.stderr.splitlines() if "not used" in line]
        wanted = "fftrain: the recipe's %s are for another optimizer and not used; %s" % (left, now)
        tap.ok(done.returncode == 0 and (len(told) == 1 and told[0].startswith(wanted) if left else not told),
               "a recipe and %s: what is left out is said" % [*options, *more], done.stderr)
done = fftrain("--data", "set", *REST, "--recipe", "smallnet", "--optimizer", "lamb", "--dry-run")
tap.ok("the recipe's lr 0.4, momentum 0.9, weight-decay 0.0002, nesterov are for another" in done.stderr and "lamb has lr 0.001" in done.stderr,
       "and of a built-in recipe", done.stderr)
done = fftrain("--data", "set", *REST, "--model", "smallnet", "--optimizer", "lamb", "--dry-run")
tap.ok(done.returncode == 0 and not done.stderr, "nothing of a model alone", done.stderr)
refused("both at once are still refused", 2, ["--nesterov", "--no-nesterov"], *COMMON, "--epochs", 1, "--nesterov", "--no-nesterov", "--out", "none")
refused("and so is what an optimizer lacks", 2, ["--momentum", "AdamW"], *COMMON, "--epochs", 1, "--optimizer", "adamw", "--momentum", 0.9, "--out", "none")
shipped = [name[:-4] for name in sorted(os.listdir(os.path.join(tap.BUILD, "share", "ffpack", "recipes"))) if name.endswith(".txt")]
dry = ["--data", "set", "--optimizer", "adamw", "--augment", "none", "--crop", 8, "--dry-run"]
wrong = [name for name in shipped if "AdamW" not in fftrain(*dry, "--recipe", name).stdout]
tap.ok(len(shipped) >= 3 and wrong == ["finetune"], "--optimizer adamw with each of %d shipped recipes" % len(shipped), wrong)
refused("but not with rates of groups for another one", 2, ["head:lr=0.1", "sgd", "--groups"], *dry, "--recipe", "finetune")
for groups, words in (("head:lr=0.002", ["head: AdamW at 0.002", "*: AdamW at 0.001"]), ("", ["AdamW, weight decay 0.01"])):
    done = fftrain(*dry, "--recipe", "finetune", "--groups", groups)
    tap.ok(all(word in done.stdout for word in words), "--groups '%s' replaces these" % groups, done.stderr)

# ---- --val-every 0: after the last epoch, however many a recipe or a resume makes of them

def evaluated_after(run):
    return [event["epoch"] for event in epochs(run) if event["val_loss"] is not None]


fftrain(*COMMON, "--epochs", 2, "--val-every", 0, "--out", "once")
tap.ok(evaluated_after("once") == [2] and "\nval-every = 0\n" in "\n" + open("once/recipe.txt").read(), "the recipe keeps --val-every 0",
       open("once/recipe.txt").read())
fftrain("--recipe", "once/recipe.txt", "--epochs", 5, "--out", "once-more", "--quiet")
tap.ok(evaluated_after("once-more") == [5], "more epochs are evaluated after the last one only", evaluated_after("once-more"))
fftrain("--resume", "once", "--epochs", 5, "--quiet")
tap.ok(evaluated_after("once") == [2, 5], "in a run that continues, too", evaluated_after("once"))
done = fftrain("--data", "larger", "--recipe", "cifar-speed", "--batch", 20, "--epochs", 2, "--val", "larger/train", "--out", "speed", "--quiet")
tap.ok("\nval-every = 0\n" in "\n" + open("speed/recipe.txt").read(), "cifar-speed's own, too", done.stderr)

# ---- what a run is too short for

for count, options, word in (
        (1, ["--sizes", "7:6"], "--sizes 7:6: the run has 1 epoch, so the sizes from epoch 8 on have no effect"),
        (3, ["--sizes", "0:12,3:8"], "--sizes 0:12,3:8: the run has 3 epochs, so the sizes from epoch 4 on have no effect"),
        (4, ["--sizes", "0:12,3:8"], None),
        (2, ["--sizes", "0:12,1-3:20"], "--sizes 0:12,1-3:20: the run has 2 epochs, so the sizes from epoch 3 on have no effect"),
        (1, ["--schedule", "step"], "--schedule step: the run has 1 epoch, so the learning rate does not fall after epoch 30"),
        (3, ["--schedule", "multi-step=1,3"], "--schedule multi-step=1,3: the run has 3 epochs, so the learning rate does not fall after epoch 3"),
        (3, ["--schedule", "multi-step=1,2.8"], None),
        (2, ["--warmup", 0.05], "--warmup 0.05: an epoch has 5 steps, so there is no warm-up"),
        (2, ["--warmup", 0.2], None),
        (2, ["--warmup", 1.8], None),
        (2, ["--warmup", 2], "--warmup 2: the run has 2 epochs, so the learning rate rises until its end and the schedule cosine has no effect")):
    for how in (["--out", "none"], ["--dry-run"]):
        done = fftrain(*COMMON, "--epochs", count, *options, *how)
        tap.ok(done.returncode == 0 and done.stderr == ("fftrain: %s\n" % word if word else ""),
               "%s in %d epochs, %s" % (" ".join(map(str, options)), count, how[0]), done.stderr)
done = fftrain(*COMMON, "--epochs", 2, "--sizes", "0:12,2:8", "--out", "short")
again = [fftrain("--resume", "short", "--epochs", count, "--quiet") for count in (3, 4)]
tap.ok("epoch 3" in done.stderr and not any(one.returncode or "--sizes" in one.stderr for one in again), "a resumed run of more epochs comes to the sizes",
       [one.stderr for one in (done, *again)])
done = fftrain("lr-find", *COMMON[:-1], "--sizes", "99:6", "--schedule", "step", "--checkpoint-every", "99 epochs", "--steps", 20)
tap.ok("--" not in done.stderr, "a search for a rate is not a run", done.stderr)

# ---- what a run without a folder or without a validation set does not heed

NOTHING_KEPT = "fftrain: --out none: nothing is kept, so these have no effect: %s\n"
NO_VALIDATION = "fftrain: the run has no validation set, so these have no effect: %s\n"
for options, said in (
        (["--out", "none", "--hash-every", 2, "--checkpoint-every", "9 epochs", "--keep", 2], NOTHING_KEPT % "--checkpoint-every, --keep, --hash-every"),
        (["--out", "none", "--keep", 3, "--hash-every", 0], ""),
        (["--out", "none", "--val", "none", "--set", "keep=2", "--set", "val-every=2"], NOTHING_KEPT % "--keep" + NO_VALIDATION % "--val-every"),
        (["--out", "none", "--val", "set/train", "--val-every", 2, "--best-by", "loss", "--top5"], ""),
        (["--out", "none", "--val", "none", "--top5", "--best-by", "loss", "--val-every", 0], NO_VALIDATION % "--val-every, --best-by, --top5"),
        (["--out", "none", "--val", "none", "--keep", 2, "--val-every", 2], NOTHING_KEPT % "--keep" + NO_VALIDATION % "--val-every"),
        (["--out", "none", "--val", "none", "--views", 2], ""),
        (["--out", "kept", "--val", "set/train", "--keep", 2, "--best-by", "loss"], ""),
        (["--out", "none", "--val", "none", "--recipe", "once/recipe.txt"], "")):
    model = [] if "--recipe" in options else ["--model", "smallnet"]
    done = fftrain("--data", "set/train", *model, *REST, "--epochs", 1, *options)
    tap.ok(done.returncode == 0 and done.stderr == said, " ".join(map(str, options)), done.stderr)
done = fftrain("--resume", "kept", "--epochs", 2, "--keep", 1, "--quiet")
tap.ok(done.returncode == 0 and not done.stderr.count("effect"), "a run with a folder heeds --keep when it continues", done.stderr)

# ---- a recipe with a zero byte

for name, text in (("inside", b"model = smallnet\nepochs = 1\n\0lr = 7\nfoo = 3\n"), ("first", b"\0model = smallnet\n"), ("last", b"model = smallnet\nepochs = 1\n\0")):
    refused("a recipe with a zero byte, %s" % name, 65, [name + ".zero", "zero byte"], "--data", "set", *REST, "--recipe", write(name + ".zero", text, "wb"), "--out", "none")

# ---- mixed pairs of micro-batches

for augment in ("mixup=1", "cutmix=1"):
    for batch, parts, good in ((8, 8, False), (1, 1, False), (9, 3, False), (8, 4, True), (8, 1, True), (7, 1, True)):
        how = [*COMMON[:4], "--augment", augment, "--batch", batch, "--accumulate", parts, "--epochs", 1, "--threads", 1, "--quiet", "--freeze", "norm", "--out"]
        if good:
            shutil.rmtree("mixed", ignore_errors=True)
            done = fftrain(*how, "mixed")
            shutil.rmtree("unmixed", ignore_errors=True)
            fftrain(*[word if word != augment else "none" for word in how], "unmixed")
            tap.ok(done.returncode == 0 and not same("mixed", "unmixed"), "%s in %d micro-batches of %d" % (augment, parts, batch // parts), done.stderr)
        else:
            refused("%s in %d micro-batches of %d is refused" % (augment, parts, batch // parts), 2, ["--augment", "pairs", "even"], *how, "none")

# ---- labels of a validation set that training does not have

pack("wide", [0, 1, 2] * 20, [0, 5, 7, 1])
refused("labels of the validation set beyond those of training", 65, ["wide/test", "7", "end at 2"], "--data", "wide", "--model", "smallnet", *REST, "--epochs", 1, "--out", "none")
done = fftrain("--data", "wide", "--val", "none", "--model", "smallnet", *REST, "--epochs", 1, "--out", "narrow")
tap.ok(done.returncode == 0 and starts("narrow")[0]["classes"] == 3, "training has its own classes", done.stderr)

# ---- a head for other classes

pack("abc", [0, 1, 2] * 20, classes="abc")
pack("bac", [0, 1, 2] * 20, classes="bac")
head = ["fc.weight", "fc.bias"]
still = ["--model", "smallnet", *REST, "--epochs", 1, "--lr", 0]
fftrain("--data", "abc", *still, "--lr", 0.1, "--out", "letters")
fftrain("export", "letters", "-o", "letters.safetensors")
fftrain("--data", "bac", *still, "--out", "fresh")


def parts(run):
    found = stored(run + "/checkpoints/last/model.safetensors")[0]
    return {name: found[name][2] for name in head}, {name: found[name][2] for name in found if name.endswith("conv.weight") or name == "conv2.weight"}


for source in ("letters", "letters/checkpoints/last", "letters.safetensors"):
    for data, kept in (("bac", "fresh"), ("abc", "letters")):
        shutil.rmtree("tuned", ignore_errors=True)
        done = fftrain("--data", data, *[word for word in still if word != "--quiet"], "--weights", source, "--out", "tuned")
        said = "head keeps its initial values" in done.stdout + done.stderr and "class 0 is 'a' there and 'b' here" in done.stdout + done.stderr
        tap.ok(parts("tuned") == (parts(kept)[0], parts("letters")[1]) and said == (data == "bac"), "--weights %s for the classes of %s" % (source, data),
               done.stdout[:500] + done.stderr)

# ---- damaged checkpoints

fftrain(*COMMON, "--epochs", 2, "--ema", 0.5, "--out", "whole")
STEP = "damaged/checkpoints/" + os.readlink("whole/checkpoints/last")
clean = {average: numbers("set", "-c", "whole", *average) for average in ((), ("--ema",))}
wrong, caught = [], 0
for file in ("model.safetensors", "state.safetensors", "checksums.xxh128"):
    for k in range(8):
        shutil.rmtree("damaged", ignore_errors=True)
        shutil.copytree("whole", "damaged", symlinks=True)
        data = bytearray(open(STEP + "/" + file, "rb").read())
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        write(STEP + "/" + file, data, "wb")
        for path in ("damaged", STEP, STEP + "/model.safetensors"):
            for average in ((), ("--ema",)) if path != STEP + "/model.safetensors" else ((),):
                found = fftrain("evaluate", "set", "-c", path, "--json", *average)
                reads = file == "model.safetensors" or (average and file == "state.safetensors")
                good = found.returncode == 65 and "is damaged" in found.stderr
                caught += good
                if not good and (reads or found.returncode != 0 or (json.loads(found.stdout)["loss"], json.loads(found.stdout)["accuracy"]) != clean[average]):
                    wrong.append((file, at, path, average, found.returncode, found.stderr))
        done = fftrain(*COMMON, "--epochs", 1, "--weights", STEP, "--out", "none"), fftrain("predict", "set", "-c", "damaged")
        if file == "model.safetensors" and any(one.returncode != 65 for one in done):
            wrong.append((file, at, [one.stderr for one in done]))
tap.ok(not wrong and caught >= 8 * 7, "a flipped bit of a checkpoint is found by evaluate, predict and --weights, or changes nothing", wrong)

# ---- the resize of an evaluation, without a validation set

make("sizes", "--count", 80, "--splits", "train", "--height", 40, "--width", 40, "--variable", "--dtype", "u8", "--statistics")
for data, crop in (("sizes", 16), ("sizes", 24), ("larger", 24), ("larger", 36)):
    for run, val in (("without", ["--val", "none"]), ("with", ["--val", data + "/train"])):
        shutil.rmtree(run, ignore_errors=True)
        done = fftrain("--data", data + "/train", *val, "--model", "smallnet", "--augment", "rrc=%d,flip" % crop, *REST[2:], "--epochs", 2, "--out", run)
    found = [numbers(data + "/train", "-c", run + "/checkpoints/last") for run in ("without", "with")]
    resize = [starts(run)[0]["val_resize"] for run in ("without", "with")]
    tap.ok(found[0] == found[1] and found[0][1] == epochs("with")[-1]["val_accuracy"] and resize == [crop * 8 // 7] * 2,
           "rrc=%d of %s: evaluated alike, with a validation set or without" % (crop, data), (found, resize, done.stderr))

# ---- weights that do not say of which net they are

fftrain(*COMMON, "--epochs", 2, "--out", "net")


def plain(path, source, change=lambda name, array: array):
    """A file as safetensors' own library writes it: no texts."""
    tensors = stored(source + "/checkpoints/last/model.safetensors")[0]
    kinds = {"F32": "float32", "I64": "int64"}
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        raw = change(name, numpy.frombuffer(raw, kinds[dtype])).astype(kinds[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return write(path, struct.pack("<Q", len(text)) + text + data, "wb")


fftrain("--data", "larger", "--val", "larger/train", "--model", "smallnet", *REST, "--epochs", 2, "--out", "large-net")
plain("large.safetensors", "large-net")
for more in ([], ["--crop", 32], ["--crop", 24], ["--resize", 36, "--crop", 32], ["--resize", 40]):
    one, other = (numbers("larger/train", "-c", *which, *more) for which in (["large-net"], ["large.safetensors", "-m", "smallnet"]))
    tap.ok(one == other and one[1] is not None, "evaluate with plain weights and %s" % " ".join(map(str, more)), (one, other))
one, other = (fftrain("predict", "larger/train", "-c", *which, "--crop", 24).stdout for which in (["large-net"], ["large.safetensors", "-m", "smallnet"]))
tap.ok(one == other and len(one.splitlines()) == 80, "predict, too", (one[:300], other[:300]))

# ---- the precision of an evaluation

large = {"bn4.weight": 2e6, "bn4.bias": 2e6, "fc.weight": 1 / 2e6}
plain("large.safetensors", "net", lambda name, array: array * large.get(name, 1))
on = ["set", "-c", "large.safetensors", "-m", "smallnet"]
cpu, gpu = (evaluated(*on, "--device", device, program=SIMULATED) for device in ("cpu", "cuda"))
tap.ok(abs(gpu.get("loss", 9) / cpu["loss"] - 1) < 1e-4 and gpu["accuracy"] == cpu["accuracy"], "a GPU evaluates plain weights in f32", (cpu, gpu))
narrow = fftrain("evaluate", *on, "--device", "cuda", "--precision", "f16", program=SIMULATED)
tap.ok(narrow.returncode == 1 and "not finite" in narrow.stderr, "--precision f16 is that, and reports what overflows", narrow.stderr)
wide = evaluated(*on, "--device", "cuda", "--precision", "bf16", program=SIMULATED)
tap.ok(1e-6 < abs(wide.get("loss", 9) / cpu["loss"] - 1) < 0.1, "--precision bf16", wide)
found = {}
for precision in ("f32", "tf32", "f16", "bf16"):
    fftrain(*COMMON, "--epochs", 1, "--device", "cuda", "--precision", precision, "--out", "in-" + precision, program=SIMULATED)
    text = stored("in-%s/checkpoints/last/model.safetensors" % precision)[1]
    found[precision] = (numbers("set", "-c", "in-" + precision, "--device", "cuda", program=SIMULATED) ==
                        numbers("set", "-c", "in-" + precision, "--device", "cuda", "--precision", precision, program=SIMULATED),
                        any('"precision":"%s"' % precision in value.replace(" ", "") for value in text.values()),
                        evaluated("set", "-c", "in-" + precision, "--device", "cuda", program=SIMULATED).get("loss") ==
                        epochs("in-" + precision)[-1]["val_loss"])
tap.ok(all(all(one) for one in found.values()), "the precision of the training is that of its evaluations", found)
refused("the CPU computes in f32", 2, ["--precision f16", "f32"], "evaluate", "set", "-c", "net", "--precision", "f16", "--device", "cpu")
refused("a precision that there is not", 2, ["--precision", "bf15", "did you mean"], "evaluate", "set", "-c", "net", "--precision", "bf15")
# ---- the loss

TRAINED = [*COMMON, "--epochs", 2, "--lr", 0.1, "--seed", 3]
lines = {}
for name, more in (("plain", []), ("same", ["--loss", "cross-entropy"]), ("mean", ["--loss", "bce"]), ("sum", ["--loss", "bce-sum"]),
                   ("cut", ["--loss", "bce=0.2", "--augment", "mixup,cutmix", "--label-smoothing", 0.1])):
    done = fftrain(*TRAINED, *more, "--out", "loss-" + name)
    lines[name] = starts("loss-" + name)[0].get("loss"), epochs("loss-" + name)[0]["train_loss"] if done.returncode == 0 else done.stderr
tap.ok(lines["plain"] == lines["same"] and [lines[name][0] for name in ("plain", "mean", "sum", "cut")] == ["cross-entropy", "bce", "bce-sum", "bce=0.2"],
       "the log has the loss", lines)
recipes = [open("loss-%s/recipe.txt" % name).read().count("loss = ") for name in ("plain", "mean")]
tap.ok(recipes == [0, 1], "so has the run's recipe, if the loss was chosen", recipes)
for name in ("bce", "bce-sum"):
    fftrain(*TRAINED, "--loss", name, "--lr", 0, "--epochs", 1, "--out", "still-" + name)
mean, total = (epochs("still-" + name)[0]["train_loss"] for name in ("bce", "bce-sum"))
tap.ok(abs(mean * starts("still-bce")[0]["classes"] / total - 1) < 1e-8 and 0.4 < mean < 1.2, "bce-sum is bce times the classes", (mean, total))
one, other = epochs("loss-mean")[-1], evaluated("set", "-c", "loss-mean/checkpoints/last", "--batch", 20)
tap.ok(one["val_loss"] == other.get("loss"), "evaluation has cross-entropy, as fftrain evaluate", (one, other))
MIXED = [*TRAINED, "--loss", "bce=0.2", "--augment", "mixup,cutmix", "--label-smoothing", 0.1, "--schedule", "constant"]
fftrain(*MIXED, "--epochs", 1, "--out", "loss-short")
fftrain(*MIXED, "--out", "loss-whole")
done = fftrain("--resume", "loss-short", "--epochs", 2)
tap.ok(same("loss-short", "loss-whole"), "a resumed run keeps its loss: the same bits", done.stderr)
done = fftrain("--data", "set", "--model", "smallnet", "--batch", 8, "--augment", "mixup", "--label-smoothing", 0.1, "--loss", "bce", "--check-gradients")
tap.ok(done.returncode == 0 and "The gradients of 14 parameters are the loss's" in done.stdout, "--check-gradients of bce", done.stdout + done.stderr)
mean, total = (fftrain("--data", "set", "--model", "smallnet", "--batch", 8, "--lr", 0, "--epochs", 1, "--loss", name, "--overfit", 1) for name in ("bce", "bce-sum"))
shown = [re.findall(r"^pass +1 +loss +(\S+)", done.stdout, re.M) for done in (mean, total)]
tap.ok(mean.returncode == 1 and "loss is still" in mean.stderr and shown[0] == shown[1] != [], "--overfit looks at the sum over all classes", (mean.stderr, shown))
for device in ("cpu", "cuda"):
    fftrain(*MIXED, "--precision", "f32", "--device", device, "--out", "loss-" + device, program=SIMULATED)
cpu, gpu = (epochs("loss-" + device)[0]["train_loss"] for device in ("cpu", "cuda"))
tap.ok(abs(cpu / gpu - 1) < 1e-4, "the same loss on a GPU", (cpu, gpu))
for value, words in (("bces", "--loss: 'bces' is unknown; did you mean bce? There are cross-entropy, bce and bce-sum"),
                     ("huber", "'huber' is unknown; there are"), ("bce=1", "'bce=1' is not as in bce[=THRESHOLD]"), ("bce=", "'bce=' is not as in"),
                     ("bce-sum=0.2x", "bce-sum[=THRESHOLD]"), ("cross-entropy=0.2", "only bce and bce-sum have a threshold")):
    refused("--loss " + value, 2, [words], *DRY, "--loss", value)
refused("timm's word for it", 2, ["here it is --loss bce"], *DRY, "--bce-loss")
done = fftrain(*DRY, "--loss", "bce=0.2")
tap.ok("loss bce=0.2, label smoothing" in done.stdout, "the plan prints the loss", done.stdout)

# ---- the log's start line

KEYS = """event version model data val label classes samples val_samples shape device precision placement compute threads workers parameters
epochs batch first_step steps order augment val_resize seed learning_rate schedule warmup_steps momentum nesterov weight_decay label_smoothing
recipe views summed_loss whitening groups optimizer clip_norm ema accumulate block group reading disk best_by patience shares machines loss""".split()
GIVEN = {"epochs": 2, "batch": 25, "order": "sequential", "seed": 5, "label_smoothing": 0.25, "views": 2, "clip_norm": 1.5, "ema": 0.5,
         "best_by": "loss", "patience": 3, "momentum": 0.5, "weight_decay": 0.125, "schedule": "constant", "val_resize": 12, "workers": 2}
fftrain("--data", "set", "--model", "smallnet", "--threads", 1, "--augment", "none", "--accumulate", 5, "--lr", 0.0625, "--crop", 8, "--quiet",
        "--no-nesterov", "--out", "logged", *(word for key, value in GIVEN.items() for word in ("--" + key.replace("_", "-"), value)))
line = starts("logged")[0] if os.path.exists("logged") else {}
tap.ok(list(line) == KEYS, "the start line has its keys, in their order", list(line))
GIVEN.update(model="smallnet", data="set/train", val="set/test", label="label", device="cpu", precision="f32", placement=None, threads=1,
             augment="none", learning_rate=0.0625, warmup_steps=line.get("warmup_steps"), nesterov=False, recipe="smallnet", optimizer="sgd",
             accumulate=5, block=0, group=0, loss="cross-entropy")
found = {key: line.get(key, "missing") for key in GIVEN}
tap.ok(found == GIVEN, "with the options' values", {key: (found[key], GIVEN[key]) for key in GIVEN if found[key] != GIVEN[key]})
fftrain(*COMMON, "--epochs", 1, "--out", "plain")
line = starts("plain")[0]
tap.ok(line["val_resize"] is None and line["clip_norm"] is None and line["ema"] is None and line["views"] == 1 and line["patience"] == 0 and
       line["best_by"] == "accuracy" and line["nesterov"] and line["seed"] == 0, "and with what is chosen by default", line)

os.chdir("/")
shutil.rmtree(place)
tap.finish()
