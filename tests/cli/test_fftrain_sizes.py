#!/usr/bin/python3
"""Batches that fit the memory, chosen or advised, and nets that are trained at several sizes. Prints TAP."""
import array
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import FFTRAIN, SIMULATED, make  # noqa: E402

os.chdir(tempfile.mkdtemp())
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "2"


def fftrain(*arguments, program=FFTRAIN, addresses=None, memory=None):
    """addresses: MiB of the process; memory: KiB of the simulated GPU."""
    def limit():
        if addresses:
            resource.setrlimit(resource.RLIMIT_AS, (addresses << 20, addresses << 20))
    return runs.fftrain(*arguments, program=program, limit=limit, **({"FF_SIM_MEMORY": str(memory)} if memory else {}))


def plan(*arguments, **how):
    """What --json says, and the exit code."""
    done = fftrain(*arguments, "-n", "--json", **how)
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr}, done.returncode


make("many", "--count", 4096, "--height", 12, "--width", 12, "--statistics")
make("small", "--count", 200, "--height", 12, "--width", 12, "--statistics")

# ---- what does not fit is answered with what does

GPU = dict(program=SIMULATED)
CPU_RUN = ["--data", "many", "--device", "cpu", "--model", "resnet18", "--epochs", 1, "--threads", 1]
GPU_RUN = ["--data", "small", "--device", "cuda", "--model", "smallnet", "--placement", "stream", "--epochs", 1,
           "--tune", 0, "--no-warm-up", "--augment", "none", "--threads", 1]
for name, run, how, batch in [("CPU", CPU_RUN + ["--augment", "rrc=64"], dict(addresses=3000), 1024),
                              ("GPU", GPU_RUN, dict(memory=3000, **GPU), 64)]:
    if how.get("addresses") and tap.SANITIZE:
        continue
    done = fftrain(*run, "--batch", batch, "-n", **how)
    said = re.search(r"; --batch (\d+) would fit, or --accumulate (\d+) with the same batch$", done.stderr, re.M)
    tap.ok(done.returncode == 1 and said, name + ": a net that does not fit is answered with --batch and --accumulate", done.stderr)
    smaller, parts = said.groups() if said else (batch, 1)
    tap.ok(batch % int(parts) == 0 and int(parts) > 1, name + ": micro-batches of one size", parts)
    told, code = plan(*run, "--batch", batch, "--accumulate", parts, **how)
    tap.ok(code == 0 and told["batch"] == batch, name + ": with --accumulate %s the same batch fits" % parts, told)
    before = [n for n in range(1, int(parts)) if batch % n == 0][-1]
    tap.ok(plan(*run, "--batch", batch, "--accumulate", before, **how)[1] == 1, name + ": with %d it does not" % before)
    tap.ok(plan(*run, "--batch", smaller, **how)[1] == 0, name + ": --batch %s fits" % smaller)
    for advice in [["--batch", smaller], ["--batch", batch, "--accumulate", parts]] if name == "GPU" else []:
        done = fftrain(*run, *advice, "--out", "none", "--quiet", **how)
        tap.ok(done.returncode == 0, "%s: a run with %s" % (name, " ".join(map(str, advice))), done.stderr)
done = fftrain(*GPU_RUN, "--batch", 64, "-n", memory=100, **GPU)
tap.ok(done.returncode == 1 and "; not even the smallest batch fits; use a smaller model or smaller samples" in done.stderr,
       "where no batch fits it reports it", done.stderr)

# ---- --batch auto

told, code = plan(*GPU_RUN, "--batch", "auto", **GPU)
tap.ok(code == 0 and told["batch"] == 128 and told["batch_reason"].startswith("the recipe's; with a larger one"),
       "--batch auto: a small set gets the recipe's batch", told)
told, code = plan(*CPU_RUN[2:], "--data", "many", "--batch", "auto")
tap.ok(code == 0 and told["batch"] == 128 and "with 32 steps" in told["batch_reason"], "a set of 4096: 32 steps", told)
for name, run, how in [("CPU", CPU_RUN + ["--augment", "rrc=64"], dict(addresses=1200)), ("GPU", GPU_RUN, dict(memory=3000, **GPU))]:
    if how.get("addresses") and tap.SANITIZE:
        continue
    for parts in 1, 2:
        told, code = plan(*run, "--batch", "auto", "--accumulate", parts, **how)
        batch = told["batch"]
        tap.ok(code == 0 and batch % (8 * parts) == 0 and "90 %" in told["batch_reason"],
               "%s: %d x %d samples fit the memory" % (name, parts, batch / parts), told)
        used = told["device_bytes"] / 1024 / 3000 if name == "GPU" else None
        tap.ok(used is None or 0.6 < used <= 0.9, "and need most of it, but not all", used)
        more, code = plan(*run, "--batch", batch * 3 // 2 + 8 * parts if used is None else batch + 8 * parts, "--accumulate", parts, **how)
        tap.ok(code == 1 or used is not None and more["device_bytes"] / 1024 / 3000 > 0.9, "a larger one needs more", more)
done = fftrain(*GPU_RUN, "--batch", "auto", "--out", "chosen", memory=3000, **GPU)
chosen = int(re.search(r"^               --batch auto chose (\d+): the largest whose run needs at most 90 % of the memory; "
                       r"the learning rate is the recipe's in proportion to it$", done.stdout, re.M).group(1))
rate = 0.4 * chosen / 128
tap.ok(done.returncode == 0 and "peak %g\n" % rate in done.stdout.replace(", ", "\n") + "\n", "the learning rate follows the batch", done.stdout)
recipe = open("chosen/recipe.txt").read().splitlines()
tap.ok("batch = %d" % chosen in recipe, "the run's recipe has the batch that was chosen", recipe)
done = fftrain("--resume", "chosen", "--epochs", 2, **GPU)
tap.ok(done.returncode == 0 and "an epoch of %d samples" % chosen in done.stdout, "with which it continues, with more memory, too",
       done.stdout + done.stderr)
for wrong in "autos", "0", "8.5":
    done = fftrain(*CPU_RUN, "--batch", wrong)
    tap.ok(done.returncode == 2 and "--batch: " in done.stderr, "--batch %s is refused" % wrong, done.stderr)
with open("auto.txt", "w") as file:
    file.write("data = small\nmodel = smallnet\nbatch = auto\n")
done = fftrain("--recipe", "auto.txt", "-n", "--device", "cpu")
tap.ok(done.returncode == 0 and "--batch auto chose 128" in done.stdout, "a recipe may say it", done.stderr)

# ---- sizes by epoch: training is that of runs of one size, one after the other


def lines(run):
    """The epochs of the last part of a run."""
    log = [json.loads(line) for line in open(run + "/log.jsonl")]
    start = max(i for i, line in enumerate(log) if line["event"] == "start")
    return [line for line in log[start:] if line["event"] == "epoch"]


def steps_of(run):
    return json.loads(open(run + "/log.jsonl").readline())["steps"]


def values(run):
    """The parameters after the last step."""
    data = open("%s/checkpoints/step-%d/model.safetensors" % (run, steps_of(run)), "rb").read()
    return array.array("f", data[8 + struct.unpack("<Q", data[:8])[0]:][:len(data) // 8 * 4])


def by_epoch(sides):
    return ",".join("%d:%d" % pair for pair in enumerate(sides))


def by_hand(name, sides, run, augment):
    """A run of sides[0], that resumes from the end of each epoch with the next size; its epochs, one of each part."""
    fftrain(*run, "--augment", augment % sides[0], "--out", name)
    found = [lines(name)[0]]
    for epoch in range(1, len(sides)):
        at = "%s/checkpoints/step-%d" % (name, epoch * steps_of(name) // len(sides))
        done = fftrain("--resume", at, "--augment", augment % sides[epoch], "--quiet")
        assert done.returncode == 0, done.stderr
        found.append(lines(name)[0])
    return found


os.mkdir("few")
make("big", "--count", 160, "--splits", "train,test", "--height", 36, "--width", 40, "--statistics")
for split, count in ("train", 20), ("test", 10):
    make("few/" + split, "--count", count, "--height", 36, "--width", 40, "--statistics")
RUN = ["--device", "cpu", "--threads", 1, "--epochs", 4, "--warmup", 0, "--checkpoint-every", "epoch", "--keep", 10, "--quiet",
       "--accumulate", 2, "--last-batch", "keep"]
FEW = ["--data", "few", "--batch", 12]
for model, sides, run in [("smallnet", [16, 24, 16, 32], ["--data", "big", "--batch", 24, "--lr", 0.01, "--label-smoothing", 0.1]),
                          ("resnet18", [24, 20, 32, 24], [*FEW, "--freeze", "layer1.*", "--ema", 0.9]),
                          ("mobilenet_v2", [16, 32, 24, 32], [*FEW, "--optimizer", "adamw"])]:
    run = [*RUN, *run, "--model", model]
    augment = "rrc=%d,flip,mixup=0.2"
    done = fftrain(*run, "--augment", augment % max(sides), "--sizes", by_epoch(sides), "--out", model)
    if not tap.ok(done.returncode == 0, model + ": a run of sizes by epoch", done.stderr):
        continue
    plain = by_hand(model + "-by-hand", sides, run, augment)
    apart = [abs(a["train_loss"] - b["train_loss"]) / b["train_loss"] for a, b in zip(lines(model), plain)]
    tap.ok(len(plain) == 4 and max(apart) < 1e-5, model + ": its losses are those of runs of one size that continue", apart)
    a, b = values(model), values(model + "-by-hand")
    norm = sum(x * x for x in b) ** 0.5
    tap.ok(len(a) == len(b) and sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5 < 1e-4 * norm, "and the parameters at the end")
    for folder in model, model + "-by-hand":
        shutil.rmtree(folder)

# Outputs of one pixel have no gradient for the taps beside it, also where the step before had larger images.
os.mkdir("tiny")
for split, count in ("train", 20), ("test", 10):
    make("tiny/" + split, "--count", count, "--height", 20, "--width", 20, "--statistics")
for model, data, sizes, epochs in [("smallnet", "tiny", "1:12", 1), ("smallnet", "tiny", "0:12,1:20,2:12", 2), ("resnet18", "few", "0:32,1:8", 1)]:
    done = fftrain(*RUN, "--data", data, "--batch", 12, "--lr", 0.01, "--model", model, "--augment", "none", "--sizes", sizes, "--out", "shrinks")
    whole = values("shrinks")
    again = fftrain("--resume", "shrinks/checkpoints/step-%d" % (epochs * steps_of("shrinks") // 4), "--quiet")
    tap.ok(done.returncode == again.returncode == 0 and values("shrinks") == whole, "%s --sizes %s: resumed at the smaller size it ends in the same bits" % (model, sizes),
           done.stderr + again.stderr)
    shutil.rmtree("shrinks")


# ---- what is counted, said and refused

SIZED = ["--data", "big", "--device", "cpu", "--batch", 20, "--epochs", 4, "--model"]
alone = [plan(*SIZED, "resnet18", "--augment", "rrc=%d" % side)[0] for side in (24, 32)]
told, code = plan(*SIZED, "resnet18", "--augment", "rrc=32", "--sizes", "0:16,1:24,3:32")
tap.ok(code == 0 and told["sizes"] == [{"epoch": 1, "height": 16, "width": 16}, {"epoch": 2, "height": 24, "width": 24},
                                       {"epoch": 4, "height": 32, "width": 32}], "--json lists the sizes", told)
tap.ok(0 <= told["host_bytes"] - alone[1]["host_bytes"] < 2 << 20 and
       told["memory_bytes"]["activations"] == alone[1]["memory_bytes"]["activations"], "memory is that of the largest",
       (told["host_bytes"], alone[1]["host_bytes"]))
told, code = plan(*SIZED, "resnet18", "--augment", "rrc=32", "--sizes", "0:16,1:24")
tap.ok(alone[0]["memory_bytes"]["activations"] <= told["memory_bytes"]["activations"] < alone[1]["memory_bytes"]["activations"],
       "that is trained on, not evaluated", told["memory_bytes"])
for sizes, want in [("0:16,2-8:32", [(1, 16), (4, 20)]), ("1-3:24", [(1, 32), (3, 28), (4, 24)]), ("0:32,2:32", [(1, 32)]),
                    ("3:20,70:24", [(1, 32), (4, 20)])]:
    told, code = plan(*SIZED, "smallnet", "--augment", "rrc=32", "--sizes", sizes)
    tap.ok(code == 0 and [(one["epoch"], one["height"]) for one in told["sizes"]] == want, "--sizes " + sizes, told)
told, code = plan("--data", "big", "--device", "cpu", "--model", "smallnet", "--epochs", 60, "--augment", "rrc=224", "--sizes", "0:128,10-40:224")
tap.ok([(one["epoch"], one["height"]) for one in told["sizes"]] == [(1, 128), (16, 160), (26, 192), (36, 224)],
       "large images grow in steps of 32", told.get("sizes"))
done = fftrain(*SIZED, "smallnet", "--sizes", "0:20,2:40", "-n")
tap.ok("\nsizes          20x22 from epoch 1, 40x44 from epoch 3; evaluation 36x40\n" in done.stdout, "whole images keep their shape", done.stdout)
told, code = plan(*SIZED, "vgg11", "--stem", "imagenet", "--augment", "rrc=64", "--batch", 2, "--sizes", "0:32,1:224")
tap.ok(code == 0, "a head of its own size takes any size of images", told)
for name, sizes, words, more in [
        ("another net for other sizes", "0:64", "head.weight depends on the size of the images, 64x64 and 32x32: this net is trained at one size only", ["cifarnet"]),
        ("a net without pixels", "0:8", "the images (8x8) are too small for this net", ["vgg11_bn"]),
        *[("'%s'" % wrong, wrong, "--sizes: '%s' is not as in 0:160" % wrong.split(",")[-1], ["smallnet"])
          for wrong in ("", "16", "0:", "a:16", "0:16x", "0:0", "-1:16", "3-3:16", "2:16,1:24", "1:16,1:24", "0:16,", "0:99999999")]]:
    done = fftrain(*SIZED, *more, "--augment", "rrc=32", "--sizes", sizes, "--out", "none")
    tap.ok(done.returncode == 2 and len(done.stderr.splitlines()) == 1 and words in done.stderr, name + " is refused", done.stderr)

# ---- what is resized: padded crops, resizes, crops of larger samples

for augment, more in [("crop=4,flip,cutout=8", []), ("crop,resize=34", ["--crop", 32]), ("crop", ["--crop", 24]), ("flip", [])]:
    done = fftrain(*SIZED, "smallnet", "--threads", 1, "--augment", augment, *more, "--sizes", "0:16,1:20", "--out", "none", "--quiet")
    tap.ok(done.returncode == 0, "--augment %s at other sizes" % augment, done.stderr)

# ---- runs continue to the same bits, wherever they were stopped

KILLED = ["--data", "big", "--device", "cpu", "--threads", 2, "--model", "smallnet", "--epochs", 4, "--batch", 16, "--augment", "crop=4,flip",
          "--sizes", "0:16,1:24,2:16,3:36", "--checkpoint-every", "1 steps", "--keep", 100, "--quiet"]  # the last step of an epoch is not its own checkpoint
fftrain(*KILLED, "--out", "kept")
steps = steps_of("kept")
whole = open("kept/checkpoints/step-%d/model.safetensors" % steps, "rb").read()
for step in 1, steps // 4 - 1, steps // 4 + 1, steps // 2 - 1, steps - 2:
    done = fftrain("--resume", "kept/checkpoints/step-%d" % step, "--quiet")
    tap.ok(done.returncode == 0 and open("kept/checkpoints/step-%d/model.safetensors" % steps, "rb").read() == whole,
           "a run continues after step %d of %d to the same bits" % (step, steps), done.stderr)

# ---- on a GPU that is simulated

SIM = [*FEW, "--model", "smallnet", "--threads", 1, "--epochs", 3, "--last-batch", "keep", "--augment", "crop=2,flip,cutout=4",
       "--sizes", "0:16,1:24,2:36", "--warmup", 0, "--lr", 0.004, "--quiet"]
found = {}
for name, more in [("cpu", ["--device", "cpu"]), ("resident", ["--placement", "resident"]), ("stream", ["--placement", "stream"]),
                   ("host", ["--placement", "host"]), ("no graphs", ["--no-graph"]), ("no warm-up", ["--no-warm-up"]),
                   ("micro-batches", ["--accumulate", 2])]:
    done = fftrain(*SIM, *(["--device", "cuda", "--precision", "f32"] if name != "cpu" else []), *more, "--out", name, **GPU)
    if tap.ok(done.returncode == 0, "sizes by epoch: " + name, done.stderr):
        found[name] = [(line["train_loss"], line["val_loss"]) for line in lines(name)]
apart = [abs(x - y) / y for a, b in zip(found["resident"], found["cpu"]) for x, y in zip(a, b)]
tap.ok(max(apart) < 1e-3, "the GPU's losses are the CPU's", apart)
for name in "stream", "host", "no graphs", "no warm-up":
    tap.ok(found[name] == found["resident"], "%s: the same bits" % name, (found[name], found["resident"]))
tap.finish()
