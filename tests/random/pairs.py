"""Random pairs of runs: two commands that say the same make the same net, two that differ make different ones, or one of them is refused, or a
word is said."""
import json
import os
import re
import shutil

import numpy

from cases import Wrong, refused, shell

CHOICES = {
    "relation": ["effect", "near", "recipe", "recipe bytes", "edited recipe", "scaled", "scaled groups", "other ranks", "edited weights", "unused",
                 "no validation", "exported", "other names", "wider", "ignored ranks", "diff", "replay", "full disk", "damaged validation",
                 "appended", "nan", "late"],
    "optimizer": ["sgd", "adamw", "lamb", "lars"],
    "batch": [8, 4, 1, 9],
    "accumulate": [1, 2, 8],
    "ranks": [1, 2],
    "augment": ["none", "flip", "mixup=1", "cutmix=1", "crop=1", "rrc=16", "cutout=2", "erase=1"],
    "number": [("--beta2", "0"), ("--beta1", "0"), ("--label-smoothing", "0"), ("--weight-decay", "0"), ("--momentum", "0"), ("--clip-norm", "1e9"),
               ("--lr", "0.02"), ("--eps", "1e-3")],
    "line": ["optimizer = adamw", "momentum = 0", "no-nesterov = yes", "lr = 0.01", "weight-decay = 0.1", "schedule = linear", "ema = 0.9"],
    "set": [False, True],       # --set NAME=VALUE in place of an option
    "byte": ["\0", "#", "\r", "\ufeff", "=", " "],
    "instead": ["--dry-run", "--overfit", "--check-gradients", "--diagnose", "lr-find"],
    "best": ["accuracy", "loss"],
    # Options for epochs or steps that a run of 2 epochs of 3 steps does not come to.
    "late": [("--sizes", "7:16"), ("--sizes", "3-9:16"), ("--schedule", "step"), ("--schedule", "multi-step=2,5"), ("--warmup", "0.1"),
             ("--checkpoint-every", "9 steps"), ("--checkpoint-every", "3 epochs")],
}
EVEN = {"relation", "best", "optimizer", "batch", "accumulate", "augment", "number", "line", "byte", "instead", "late"}
PLAIN = ["--model", "smallnet", "--augment", "none", "--threads", 1, "--warmup", 0, "--schedule", "constant", "--val-every", 0]
NUMBERS = ["--batch", 8, "--epochs", 2, "--lr", "0.05"]
CLASSES = ["cat", "dog", "eel"]


def write_set(name, classes=CLASSES, seed=0, wide=False, nan=False):
    """Arrays of a training and a test split, packed; wide: a class that only the test split has."""
    dice = numpy.random.default_rng(seed)
    os.mkdir(name + ".arrays")
    for split, count in (("train", 24), ("test", 9)):
        labels = numpy.arange(count) % 3 + (wide and split == "test")
        images = dice.standard_normal((count, 3, 20, 20)).astype("float32") + labels[:, None, None, None].astype("float32")
        if nan and split == "test":
            images[1, 0, 0, 0] = numpy.nan
        numpy.save("%s.arrays/x_%s.npy" % (name, split), images)
        numpy.save("%s.arrays/y_%s.npy" % (name, split), labels)
    with open(name + ".classes", "w", encoding="utf-8") as file:
        file.write("".join(one + "\n" for one in classes))
    names = [] if wide else ["--classes", name + ".classes"]
    done = shell("ffpack", name + ".arrays", "-o", name, "--dtype", "f32", *names)
    if done.code:
        raise Wrong("arrays are not packed", done)


def train(out, *options, data="set", quiet=True):
    return shell("fftrain", "--data", data, *PLAIN, *NUMBERS, *options, "--out", out, *["--quiet"] * quiet)


def weights(out, name="last"):
    with open("%s/checkpoints/%s/model.safetensors" % (out, name), "rb") as file:
        return file.read()


def tensors(out):
    data = weights(out)
    size = int.from_bytes(data[:8], "little")
    return {name: numpy.frombuffer(data[8 + size:][slice(*one["data_offsets"])], "<f4") for name, one in json.loads(data[8:8 + size]).items()
            if name != "__metadata__" and one["dtype"] == "F32"}


def farthest(one, other):
    """The largest difference of a tensor's values, in proportion to its largest."""
    one, other = tensors(one), tensors(other)
    return max(float(numpy.abs(one[name] - other[name]).max() / (numpy.abs(one[name]).max() + 1e-9)) for name in one)


def fine(done):
    """Whether a command was done; one that was not said why."""
    if done.code:
        refused(done, "fftrain")
    return done.code == 0


def effect(case):
    """An augmentation changes the net, whatever the batches are cut into."""
    cut = ["--batch", case["batch"], "--accumulate", case["accumulate"]]
    done = train("with", "--augment", case["augment"], *cut)
    if case["augment"] != "none" and fine(done) and fine(train("without", *cut)) and weights("with") == weights("without") and not done.err:
        raise Wrong("an augmentation without effect", done)


def near(case):
    """A number that is almost another has almost the other's effect."""
    name, value = case["number"]
    options = ["--optimizer", case["optimizer"], "--epochs", 1, "--eps", "1e-2"] if case["optimizer"] != "sgd" else ["--epochs", 1]
    first = train("first", *options, name, value, "--compute", "reference")
    if first.code == 0 and fine(train("second", *options, name, repr(float(value) + 1e-9), "--compute", "reference")):
        if farthest("first", "second") > 1e-3:
            raise Wrong("a step between two numbers that are almost the same", name, value, farthest("first", "second"))


def with_recipe(case, out, text, *options):
    with open("recipe", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    ranks = ["--ranks", case["ranks"]] if case["ranks"] > 1 else []
    return shell("fftrain", "--data", "set", "--recipe", "recipe", "--threads", 1, "--out", out, "--quiet", *ranks, *options)


def late(case):
    """An option that changes nothing because the run is too short is reported."""
    name, value = case["late"]
    done = train("late", name, value)
    if fine(done) and fine(train("plain")) and weights("late") == weights("plain") and not done.says(name):
        raise Wrong("an option that comes too late, without a word", done)


def recipe_text(*more):
    values = [str(value).lstrip("-") for value in PLAIN + NUMBERS]
    lines = ["%s = %s" % pair for pair in zip(values[::2], values[1::2]) if pair[0] not in {line.split(" = ")[0] for line in more} | {"threads"}]
    return "".join(line + "\n" for line in [*lines, *more])


def recipe(case):
    """An option next to a recipe replaces its line."""
    name, value = case["line"].split(" = ")
    option = ["--set", "%s=%s" % (name, value)] if case["set"] else ["--" + name] if value == "yes" else ["--" + name, value]
    if name == "optimizer":
        option += ["--lr", "0.05"]  # the recipe's rate is the other optimizer's, and goes with its line
    text = recipe_text() + ("optimizer = sgd\nmomentum = 0.9\nnesterov = yes\n" if case["optimizer"] == "sgd" else "")
    done = with_recipe(case, "beside", text, *option)
    if fine(with_recipe(case, "inside", recipe_text(case["line"]))):
        if done.code:
            raise Wrong("an option cannot replace a recipe's line", done)
        if weights("beside") != weights("inside"):
            raise Wrong("an option next to a recipe is not the line in it", option)


def recipe_bytes(case):
    """A byte too much in a recipe is refused, or changes nothing but what it says."""
    text, at = recipe_text("lr = 0.3", "ema = 0.9"), case["seed"]
    at %= len(text)
    done = with_recipe(dict(case, ranks=1), "odd", text[:at] + case["byte"] + text[at:])
    if fine(done) and fine(with_recipe(dict(case, ranks=1), "plain", text)) and weights("odd") != weights("plain"):
        line = text[:at].count("\n")
        left = [one for i, one in enumerate(text.split("\n")) if i != line]
        if case["byte"] == "#" and fine(with_recipe(dict(case, ranks=1), "less", "\n".join(left))) and weights("odd") == weights("less"):
            return
        if case["byte"] not in "= ":
            raise Wrong("a recipe's byte that is read otherwise", repr(text[max(0, at - 9):at] + case["byte"] + text[at:at + 9]), done)


def edited_recipe(case):
    """--resume auto with a recipe that was edited reports it."""
    if fine(with_recipe(case, "run", recipe_text())):
        done = with_recipe(case, "run", recipe_text("lr = 0.7"), "--resume", "auto")
        if done.code == 0 and not done.says("recipe", "lr is"):
            raise Wrong("an edited recipe is not noticed", done)


def cut(run, copy, step):
    """A copy of a run as it was after a step."""
    shutil.copytree(run, copy, symlinks=True)
    for name in os.listdir(copy + "/checkpoints"):
        path = "%s/checkpoints/%s" % (copy, name)
        if os.path.islink(path):
            os.remove(path)
        elif name.startswith("step-") and int(name[5:]) > step:
            shutil.rmtree(path)
    if os.path.isdir("%s/checkpoints/step-%d" % (copy, step)):
        os.symlink("step-%d" % step, copy + "/checkpoints/last")
    return copy


EVERY = ["--checkpoint-every", "1 epochs", "--keep", 9]


def scaled(case):
    """--scale-lr of a recipe's rate is the same after a restart."""
    ranks = dict(case, ranks=2)
    more = [*EVERY, "--scale-lr", "--resume", "auto"]
    if fine(with_recipe(ranks, "run", recipe_text(), *more)):
        bits = weights("run")
        os.rename(cut("run", "copy", 3), "again")
        done = with_recipe(ranks, "again", recipe_text(), *more)
        if fine(done) and weights("again") != bits:
            raise Wrong("--scale-lr is another rate after a restart", done)


def scaled_groups(case):
    """--scale-lr scales all rates, or reports which it does not."""
    one = train("one", "--ranks", 2, "--scale-lr", "--groups", "fc.*:lr=0.01")
    if fine(one) and fine(train("other", "--ranks", 2, "--lr", "0.1", "--groups", "fc.*:lr=0.02")) and weights("one") != weights("other") and \
            not one.says("groups"):
        raise Wrong("--scale-lr leaves a group's rate", one)


def other_ranks(case):
    """A run that continues on other ranks ends in the same bits, or reports that it does not."""
    if fine(train("run", *EVERY, "--ranks", 2)):
        cut("run", "again", 3)
        done = shell("fftrain", "--resume", "again", "--quiet")
        if fine(done) and weights("again") != weights("run") and not done.says("rank"):
            raise Wrong("other ranks without a word", done)


def edited_weights(case):
    """A file of class weights that was edited is noticed."""
    for text in ("cat,1\ndog,1\neel,1\n", "cat,1\ndog,9\neel,1\n"):
        with open("class.csv", "w", encoding="utf-8") as file:
            file.write(text)
        if not os.path.exists("run") and not fine(train("run", *EVERY, "--class-weights", "class.csv")):
            return
    cut("run", "again", 3)
    done = shell("fftrain", "--resume", "again", "--quiet")
    if fine(done) and weights("again") != weights("run") and not done.says("class"):
        raise Wrong("edited class weights without a word", done)


def unused(case):
    """An option beside --resume changes the run, or is refused."""
    if fine(train("run", *EVERY)):
        for copy, options in (("again", ["--weights", "run/checkpoints/last"]), ("label", ["--label", "label"])):
            cut("run", copy, 3)
            done = shell("fftrain", "--resume", copy, *options, "--quiet")
            if copy == "label" and done.code:
                raise Wrong("the label that the run has is refused", done)
            if copy == "again" and fine(done) and weights(copy) == weights("run") and not done.says("without effect", "not used", "has no effect"):
                raise Wrong("--weights beside --resume without effect", done)


def evaluated(checkpoint, *options, data="set/train"):
    done = shell("fftrain", "evaluate", data, "-c", checkpoint, *options, "--json")
    return (done, json.loads(done.out)) if done.code == 0 else (done, None)


def no_validation(case):
    """What evaluates a net does not depend on whether it was evaluated in training."""
    options = ["--augment", case["augment"]]
    if fine(train("with", *options, "--val", "set/train", data="set/train")) and fine(train("without", *options, "--val", "none", data="set/train")):
        one, other = evaluated("with")[1], evaluated("without")
        if one and (not other[1] or abs(one["loss"] - other[1]["loss"]) > 1e-9):
            raise Wrong("a run without validation is evaluated otherwise", one, other)


def exported(case):
    """Exported weights are evaluated as the checkpoint is."""
    options = ["--crop", 16] if case["augment"] in ("none", "crop=1", "flip") else []
    if fine(train("run", *options)) and fine(shell("fftrain", "export", "run", "-o", "net.safetensors")):
        data = numpy.fromfile("net.safetensors", "u1").tobytes()
        size = int.from_bytes(data[:8], "little")
        head = json.loads(data[8:8 + size])
        head.pop("__metadata__", None)  # as of PyTorch
        text = json.dumps(head).encode()
        with open("net.safetensors", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data[8 + size:])
        one, other = evaluated("run", *options), evaluated("net.safetensors", "-m", "smallnet", *options)
        if one[1] and (not other[1] or abs(one[1]["loss"] - other[1]["loss"]) > 1e-6):
            raise Wrong("exported weights are evaluated otherwise", one, other)


def other_names(case):
    """The head of other classes is not taken in silence, nor is a run's set with other names."""
    write_set("other", CLASSES[::-1] if case["set"] else ["ant", "bee", "cow"])
    if not fine(train("run", *EVERY)):
        return
    done = train("new", "--weights", "run/checkpoints/last", data="other", quiet=False)
    if fine(done) and not done.says("head"):
        raise Wrong("a head of other classes without a word", done)
    cut("run", "again", 3)
    done = shell("fftrain", "--resume", "again", "--data", "other", "--quiet")
    if fine(done) and not done.says("class"):
        raise Wrong("a run continues with other classes' names", done)


def wider(case):
    """Labels of a validation set do not widen the net in silence."""
    write_set("wide", wide=True)
    done = train("run", data="wide")
    if fine(done) and len(tensors("run")["fc.bias"]) != 3 and not done.says("class"):
        raise Wrong("a validation set widens the net", done)


def ignored_ranks(case):
    """--ranks counts, or is refused."""
    instead = case["instead"]
    more = {"--overfit": [1], "--check-gradients": []}.get(instead, [])
    words = [*([instead] if instead == "lr-find" else [instead, *more, "--out", "none"]), "--data", "set", *PLAIN[:6], *NUMBERS]
    done = shell("fftrain", *words, "--ranks", 2)
    if done.code == 0 and not done.says("rank") and done.out.split("layer ")[0] == shell("fftrain", *words).out.split("layer ")[0]:
        raise Wrong("--ranks is ignored", done)


def diff(case):
    """Runs of the same bits do not differ."""
    options = ["--reproducible", "--parts", 2, "--hash-every", 1, "--epochs", 1]
    if fine(train("one", *options)) and fine(train("two", *options, "--ranks", 2)) and weights("one") == weights("two"):
        done = shell("fftrain", "diff", "one", "two")
        if done.says("inputs differ", "is the first that differs"):
            raise Wrong("diff tells a difference of equal runs", done)


def replay(case):
    """A step that is replayed has the run's loss, or why it has not is said."""
    if fine(train("run", *EVERY, "--ranks", case["ranks"], "--hash-every", 1)):
        done = shell("fftrain", "replay", "run", "--step", 4)
        if done.code == 0 and re.search(r"in the run it was", done.out + done.err) and not done.says("rank"):
            raise Wrong("replay of another loss without a reason", done)


def full_disk(case):
    """A run whose weights could not be written fails."""
    done = shell("fftrain", "--data", "set", *PLAIN, *NUMBERS, "--out", "run", "--quiet", largest=4096 << case["seed"] % 4)
    if done.code == 0 and not os.path.exists("run/checkpoints/last/model.safetensors"):
        raise Wrong("exit 0, and the weights are not on the disk", done)


def damaged_validation(case):
    """What was trained stays where the evaluation fails."""
    shards = [os.path.join("set/test", name) for name in os.listdir("set/test") if name.endswith(".ffs")]
    with open(shards[0], "r+b") as file:
        file.seek(4096 + case["seed"] * 64 % 4096)
        bits = file.read(64)
        file.seek(-len(bits), os.SEEK_CUR)
        file.write(bytes(255 - bit for bit in bits))
    done = train("run", "--epochs", 2)
    if done.code and os.path.exists("run/log.jsonl") and not os.path.exists("run/checkpoints/last"):
        with open("run/log.jsonl", encoding="utf-8") as file:
            if len(file.readlines()) > 1 or "sample" in done.err:
                raise Wrong("a failing evaluation loses the epoch", done)


def appended(case):
    """A run whose set was appended to continues, or a way to continue is reported."""
    if fine(train("run", *EVERY, data="set/train", *["--val", "set/test"])):
        write_set("more", seed=1)
        numpy.savez("more.npz", x=numpy.load("more.arrays/x_train.npy"), y=numpy.load("more.arrays/y_train.npy"))
        done = shell("ffpack", "append", "set/train", "more.npz", "--classes", "more.classes")
        if done.code:
            raise Wrong("arrays are not appended", done)
        cut("run", "again", 3)
        done = shell("fftrain", "--resume", "again", "--quiet")
        if done.code and not done.says("--weights", "generation"):
            raise Wrong("a set that was appended to, and no way to continue", done)


def nan(case):
    """An evaluation that is not a number is reported, and the run can continue."""
    write_set("nan", nan=True)
    done = train("run", *EVERY, "--best-by", case["best"], "--val-every", 1, data="nan")
    if fine(done):
        if not done.says("NaN", "infinite", "not finite"):
            raise Wrong("an evaluation of NaN without a word", done)
        done = shell("fftrain", "--resume", "run", "--epochs", 3, "--quiet")
        if done.code:
            raise Wrong("a run with a NaN cannot continue", done)


def run(case):
    write_set("set")
    globals()[case["relation"].replace(" ", "_")](case)
