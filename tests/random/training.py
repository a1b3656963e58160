"""Random runs of tiny nets, cut, resumed and branched: `best` is the best evaluation of the log, `last` the newest checkpoint, and a run that
was cut ends in the uninterrupted run's bits."""
import json
import os
import re
import shutil

import numpy

from cases import Wrong, refused, shell

CHOICES = {
    "epochs": [3, 2, 5],
    "lr": ["0.1", "0.5", "3", "1e-5"],
    "best": ["accuracy", "loss"],
    "every": ["1 epochs", None, "2 epochs", "4 epochs", "1 steps", "3 steps", "5 steps", "60 minutes"],
    "keep": [3, 1, 2, 9],
    "val_every": [1, 2, 0],
    "views": [1, 2],
    "val": ["good", "none", "nan", "unlabeled"],
    "augment": ["none", "flip", "mixup", "crop=1,flip,cutmix"],
    "optimizer": ["sgd", "adamw", "lamb"],
    "ema": [None, "0.9"],
    "accumulate": [1, 2, 4],
    "last_batch": ["drop", "keep"],
    "smoothing": [None, "0.1"],
    "clip": [None, "0.5"],
    "ranks": [1, 2],
    "reproducible": [False, True],
    "cuts": [0, 1, 2],             # SIGTERM after some time, then --resume
    "then": [None, "older", "best", "other measure", "longer", "damaged", "again"],
    "loss": [None, "bce", "bce-sum=0.2"],
}
EVEN = {"every", "keep", "best", "then"}
SAMPLES, VAL, BATCH = 44, 13, 8
STEPS = {"drop": SAMPLES // BATCH, "keep": -(-SAMPLES // BATCH)}


def arrays(case):
    """A set whose classes can be learned, and a validation set that is good or not."""
    dice = numpy.random.default_rng(case["seed"])
    os.mkdir("arrays")
    for split, count in (("train", SAMPLES), ("test", VAL)):
        labels = numpy.arange(count) % 4
        images = dice.standard_normal((count, 3, 8, 8)).astype("float32") + labels[:, None, None, None].astype("float32")
        if split == "test" and case["val"] == "nan":
            images[2, 0, 0, 0] = numpy.nan
        if split == "test" and case["val"] == "unlabeled":
            labels = labels * 0 - 1
        numpy.save("arrays/x_%s.npy" % split, images)
        numpy.save("arrays/y_%s.npy" % split, labels.astype("int64"))
    done = shell("ffpack", "arrays", "-o", "set", "--dtype", "f32")
    if done.code:
        raise Wrong("arrays are not packed", done)


def options_of(case):
    options = ["--data", "set", "--model", "smallnet", "--epochs", case["epochs"], "--batch", BATCH, "--lr", case["lr"], "--schedule", "constant",
               "--warmup", 0, "--best-by", case["best"], "--keep", case["keep"], "--val-every", case["val_every"], "--views", case["views"],
               "--augment", case["augment"], "--optimizer", case["optimizer"], "--accumulate", case["accumulate"],
               "--last-batch", case["last_batch"], "--seed", case["seed"] % 1000, "--threads", 1, "--quiet"]
    for name, value in (("--checkpoint-every", case["every"]), ("--ema", case["ema"]), ("--label-smoothing", case["smoothing"]),
                        ("--loss", case["loss"]), ("--clip-norm", case["clip"]),
                        ("--ranks", case["ranks"] if case["ranks"] > 1 else None)):
        if value is not None:
            options += [name, value]
    return options + (["--val", "none"] if case["val"] == "none" else []) + (["--reproducible"] if case["reproducible"] else [])


def log_of(run):
    with open(run + "/log.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def line_of(run, per_epoch):
    """The evaluations of the run's line {steps: epoch event}: those after a checkpoint that it resumed from are left."""
    found = {}
    for event in log_of(run):
        if event["event"] == "start":
            found = {steps: one for steps, one in found.items() if steps <= event.get("first_step", steps)}
        elif event["event"] == "epoch":
            found[event["epoch"] * per_epoch] = event
    return found


def steps_of(run):
    return sorted(int(name[5:]) for name in os.listdir(run + "/checkpoints") if re.fullmatch(r"step-\d+", name))


def link(run, name):
    path = "%s/checkpoints/%s" % (run, name)
    if os.path.islink(path) and not os.path.exists(path):
        raise Wrong("a link to nothing", name, os.readlink(path), os.listdir(run + "/checkpoints"))
    return int(os.readlink(path)[5:]) if os.path.islink(path) else None


def weights(run, name="last"):
    with open("%s/checkpoints/%s/model.safetensors" % (run, name), "rb") as file:
        return file.read()


def number(value):
    return float(value) if value is not None else float("nan")


def check_links(case, run, by, resumed_at=0):
    """`best` and `last`, against the log."""
    steps, line = steps_of(run), line_of(run, STEPS[case["last_batch"]])
    if not steps:
        return
    if link(run, "last") != steps[-1]:
        raise Wrong("last is not the newest", link(run, "last"), steps)
    known = {}
    for at, event in line.items():
        if event["val_loss"] is None or not abs(number(event["val_loss"])) < float("inf"):
            continue
        if at <= steps[-1]:
            known[at] = number(event["val_accuracy"]) if by == "accuracy" else -number(event["val_loss"])
    there = {at: score for at, score in known.items() if at in steps}
    candidates = there if resumed_at else known
    wanted = min((at for at in candidates if candidates[at] == max(candidates.values())), default=None)
    if link(run, "best") != wanted:
        raise Wrong("best is not the best", "best is %s" % link(run, "best"), "wanted %s" % wanted, known, steps)
    if len([at for at in steps if at != wanted]) > case["keep"]:
        raise Wrong("more is kept than --keep", steps)
    if len(steps) < min(case["keep"], 1):
        raise Wrong("less is kept than --keep", steps)


def check_evaluate(case, run):
    """evaluate of best and last prints what the log has."""
    line = line_of(run, STEPS[case["last_batch"]])
    for name in ("best", "last"):
        at = link(run, name)
        if at is None or at not in line or line[at]["val_loss"] is None or not abs(number(line[at]["val_loss"])) < float("inf"):
            continue
        done = shell("fftrain", "evaluate", "set", "-c", "%s/checkpoints/%s" % (run, name), "--views", case["views"], "--json")
        if done.code:
            raise Wrong("a checkpoint cannot be evaluated", done)
        found = json.loads(done.out)
        accuracy = found.get("accuracy", found.get("val_accuracy"))
        if abs(accuracy - line[at]["val_accuracy"]) > 1e-9:
            raise Wrong("evaluate is not the log's", name, accuracy, line[at]["val_accuracy"])


def resume(case, run, *options, allowed=(0,)):
    done = shell("fftrain", "--resume", run, *options, "--quiet", *(["--ranks", case["ranks"]] if case["ranks"] > 1 else []))
    if done.code not in allowed:
        if done.code in (2, 65):
            refused(done, "fftrain")
        else:
            raise Wrong("a resume fails", done)
    return done


def run(case):
    arrays(case)
    options = options_of(case)
    whole = shell("fftrain", *options, "--out", "whole")
    if whole.code:
        refused(whole, "fftrain") if whole.code != 1 else None
        known = case["val"] == "unlabeled" or case["lr"] in ("3", "0.5") or case["accumulate"] > 1 or case["ranks"] > 1 or case["reproducible"] \
            or case["val"] == "nan" or (case["val"] == "none" and case["best"] != "accuracy")
        if not known:
            raise Wrong("a plain run is refused", whole)
        if os.path.isdir("whole") and case["val"] == "unlabeled" and steps_of("whole"):
            raise Wrong("refused after it trained", whole)
        return
    if case["val"] == "unlabeled":
        raise Wrong("a validation set without labels is taken", whole)
    per_epoch = STEPS[case["last_batch"]]
    if steps_of("whole")[-1:] != [case["epochs"] * per_epoch]:
        raise Wrong("the end is not saved", steps_of("whole"), whole)
    check_links(case, "whole", case["best"])
    check_evaluate(case, "whole")
    bits = weights("whole")
    if case["cuts"]:
        cut_short(case, options, bits)
    history(case, per_epoch)


def cut_short(case, options, bits):
    """Stopped at any time and resumed, as often as the case says: the same bits."""
    done = shell("fftrain", *options, "--out", "cut", stop=0.1 + case["seed"] % 10 * 0.03)
    for i in range(case["cuts"]):
        if done.code == 0 or not os.path.exists("cut/recipe.txt"):
            break
        if done.code not in (75, 143, -15):
            raise Wrong("SIGTERM ends a run otherwise", done)
        last = i + 1 == case["cuts"]
        words = ["--resume", "cut", "--quiet", *(["--ranks", case["ranks"]] if case["ranks"] > 1 else [])]
        done = shell("fftrain", *words) if last else shell("fftrain", *words, stop=0.15 + case["seed"] % 7 * 0.03)
    if done.code == 0:
        check_links(case, "cut", case["best"])
        if weights("cut") != bits:
            raise Wrong("a resumed run has other bits", done)


def history(case, per_epoch):
    """What comes after: a branch, another measure, a damaged checkpoint."""
    steps, then = steps_of("whole"), case["then"]
    if then in ("older", "best") and len(steps) > 1:
        at = steps[0] if then == "older" else link("whole", "best")
        if at is None or at == steps[-1]:
            return
        newer = {step: weights("whole", "step-%d" % step) for step in steps if step > at}
        done = resume(case, "whole/checkpoints/step-%d" % at, "--lr", "0.01")
        if done.code:
            return
        check_links(case, "whole", case["best"], at)
        left = [os.path.join(root, name) for root, folders, _ in os.walk("whole/checkpoints") for name in folders if name.startswith("step-")]
        for step, bytes_ in newer.items():
            if not any(weights("whole", os.path.relpath(path, "whole/checkpoints")) == bytes_ for path in left if path.endswith("step-%d" % step)):
                raise Wrong("a resume from an older checkpoint removes newer ones", step, left)
        before = weights("whole")
        again = resume(case, "whole", "--epochs", case["epochs"] + 1)
        if again.code == 0 and steps_of("whole")[-1] != (case["epochs"] + 1) * per_epoch:
            raise Wrong("the next resume continues another line", again, steps_of("whole"), len(before))
    elif then == "other measure":
        other = "loss" if case["best"] == "accuracy" else "accuracy"
        if resume(case, "whole", "--best-by", other, "--epochs", case["epochs"] + 2).code == 0:
            check_links(case, "whole", other, 1)
    elif then == "longer":
        if resume(case, "whole", "--epochs", case["epochs"] + 2).code == 0:
            check_links(case, "whole", case["best"])
    elif then == "damaged" and len(steps) > 1:
        with open("whole/checkpoints/step-%d/model.safetensors" % steps[-1], "r+b") as file:
            file.seek(-9, os.SEEK_END)
            byte = file.read(1)
            file.seek(-9, os.SEEK_END)
            file.write(bytes([byte[0] ^ 32]))
        done = shell("fftrain", "evaluate", "set", "-c", "whole/checkpoints/step-%d" % steps[-1])
        if done.code == 0:
            raise Wrong("evaluate takes a damaged checkpoint", done)
        bits_wanted = case["epochs"] * per_epoch
        if resume(case, "whole").code == 0 and steps_of("whole")[-1] != bits_wanted:
            raise Wrong("a damaged checkpoint holds its place", steps_of("whole"))
    elif then == "again":
        shutil.copytree("whole", "copy", symlinks=True)
        done = resume(case, "copy", allowed=(0, 2))
        if done.code == 0 or "complete" not in done.err:
            raise Wrong("a complete run is not said to be complete", done)
