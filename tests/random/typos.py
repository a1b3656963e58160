"""Random typos: a value with one letter more, less or another, a blank or a sign, is refused, or has the effect of what it says."""
import os
import random
import re
import subprocess

import numpy

from cases import Wrong, refused, shell, tap

# An option of fftrain, a value of it that has an effect, and its plain value.
TRAIN = [("--lr", "0.05"), ("--momentum", "0.8"), ("--weight-decay", "0.01"), ("--label-smoothing", "0.2"), ("--clip-norm", "0.1"), ("--epochs", "2"),
         ("--batch", "8"), ("--seed", "3"), ("--schedule", "linear"), ("--schedule", "step=1:0.1"), ("--schedule", "cosine=0.1"), ("--warmup", "1"),
         ("--augment", "flip"), ("--augment", "crop=1,flip"), ("--augment", "mixup=0.5"), ("--optimizer", "adamw"), ("--optimizer", "lars"),
         ("--order", "sequential"), ("--last-batch", "keep"), ("--accumulate", "2"), ("--no-decay", "norm,bias"), ("--freeze", "conv1.*"),
         ("--groups", "fc.*:lr=0.01"), ("--ema", "0.9"), ("--class-weights", "balanced"), ("--views", "2"), ("--best-by", "loss"), ("--val-every", "2"),
         ("--checkpoint-every", "2 steps"), ("--keep", "2"), ("--crop", "6"), ("--compute", "reference"), ("--sizes", "0:9"),
         ("--loss", "bce")]
PACK = [("--dtype", "f32"), ("--mean", "0.5,0.5,0.5"), ("--std", "0.2,0.2,0.2"), ("--range", "0,255"), ("--shuffle", "3"), ("--layout", "hwc"),
        ("--align", "4096"), ("--compress", "zstd:3"), ("--shard-size", "1M"), ("--array-layout", "chw"), ("--part", "1/2"), ("--splits", "train"),
        ("--on-error", "skip"), ("--mode", "gray"), ("--center-crop", "4"), ("--resize", "6x6"), ("--interpolation", "bicubic")]
CHOICES = {
    "program": ["fftrain", "ffpack"],
    "option": list(range(len(TRAIN))),
    "change": ["drop", "double", "swap", "letter", "blank before", "blank after", "blank inside", "sign", "upper", "empty", "dot"],
}
EVEN = {"program", "option", "change"}


def typed(value, change, dice):
    at = dice.randrange(len(value))
    letter = dice.choice("abcdefghijklmnopqrstuvwxyz0123456789.,:=-*")
    return {"drop": value[:at] + value[at + 1:], "double": value[:at] + value[at] + value[at:], "letter": value[:at] + letter + value[at + 1:],
            "swap": value[:at] + value[at:at + 2][::-1] + value[at + 2:], "blank before": " " + value, "blank after": value + " ",
            "blank inside": value[:at] + " " + value[at:], "sign": "-" + value, "upper": value.upper(), "empty": "", "dot": value + "."}[change]


def number_in(text):
    """The plain way to write the number that this is; None: it is none."""
    try:
        return str(int(text)) if text.strip().lstrip("-").isdigit() else str(float(text))
    except ValueError:
        return None


def result(program, options, out):
    """What a command makes: its files, without times."""
    if program == "fftrain":
        done = shell("fftrain", "--data", "set", "--model", "smallnet", "--epochs", 1, "--batch", 4, "--threads", 1, "--augment", "none", "--quiet",
                     "--out", out, *options)
        if done.code:
            return done, None
        with open(out + "/checkpoints/last/model.safetensors", "rb") as file:
            weights = file.read()
        return done, (weights, sorted(os.listdir(out + "/checkpoints")))
    done = shell("ffpack", "arrays", "-o", out, *options)
    if done.code:
        return done, None
    return done, tap.files_of(out)


def run(case):
    dice = random.Random(case["seed"])
    options = TRAIN if case["program"] == "fftrain" else PACK
    name, value = options[case["option"] % len(options)]
    other = typed(value, case["change"], dice)
    if other == value:
        return
    images = numpy.random.default_rng(0).integers(0, 256, (24, 8, 8, 3)).astype("uint8")
    os.mkdir("arrays")
    numpy.save("arrays/x_train.npy", images)
    numpy.save("arrays/y_train.npy", numpy.arange(24) % 3)
    if case["program"] == "fftrain":
        subprocess.run([os.path.join(tap.BUILD, "ffpack"), "arrays", "-o", "set", "--dtype", "f32"], check=True, capture_output=True)
    done, wrong = result(case["program"], [name, other], "typo")
    if done.code:
        if done.code not in (1, 75):
            refused(done, case["program"])
        return
    if (name, other) == ("--groups", ""):
        return  # is how a recipe's are left out
    if name == "--sizes" and re.fullmatch("0+:0*8", other):
        return  # is the size of the images
    head, sign, tail = other.rpartition("=")
    number = number_in(tail)
    if number:
        number = head + sign + number
        if result(case["program"], [name, number], "number")[1] != wrong:
            raise Wrong("a number that is read as another", name, repr(other), number)
        return
    _, right = result(case["program"], [name, value], "right")
    _, without = result(case["program"], [], "without")
    if wrong == without and right != without and not done.err:
        raise Wrong("a typo without effect and without a word", name, repr(other))
