#!/usr/bin/python3
"""--precision bf16 and auto on the CPU: losses beside f32's, a resumed run's bits, micro-batches, ranks, the average, evaluation and
prediction, what auto chooses and records, what is refused. Prints TAP. Environment: BUILD."""
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from runs import apart, epochs, fftrain, losses, make, recipe, refused, same, starts, stored  # noqa: E402

os.chdir(tempfile.mkdtemp())
OLD = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "DNNL_MAX_CPU_ISA": "AVX512_CORE"}  # a CPU without the instructions
# 4 steps an epoch
make("set", "--count", 68, "--splits", "train,test", "--height", 8, "--width", 8, "--statistics")
REST = ["--data", "set", "--augment", "crop,flip", "--batch", 16, "--threads", 1, "--warmup", 0, "--schedule", "constant", "--lr", 0.02, "--quiet",
        "--hash-every", 1, "--device", "cpu"]
make("large", "--count", 68, "--splits", "train,test", "--height", 32, "--width", 32, "--statistics")
NETS = {"smallnet": ["--model", "smallnet"], "resnet18": ["--model", "resnet18"], "vgg11": ["--model", "vgg11", "--data", "large"],
        "mobilenet_v2": ["--model", "mobilenet_v2"]}


def train(run, *options, compute=None, **environment):
    compute = COMPUTE if compute is None else compute
    shutil.rmtree(run, ignore_errors=True)
    return fftrain(*REST, *compute, "--out", run, *options, **environment)


def bf16(run, *options, **how):
    return train(run, "--precision", "bf16", *options, **how)


def fails(*done):
    return "\n".join(one.stderr for one in done if one.returncode)


def evaluated(*arguments, **environment):
    done = fftrain("evaluate", "--device", "cpu", "--threads", 1, *arguments, "--json", **environment)
    return json.loads(done.stdout)["loss"] if done.returncode == 0 else done.stderr


PARTS = ["--reproducible", "--parts", 4]
WIDE = [("wide", []), ("cut-wide", ["--accumulate", 2]), ("two-wide", ["--ranks", 2])]
RUNS = [("again", []), ("cut", ["--accumulate", 2, "--ema", 0.9]), ("two", ["--ranks", 2]), ("two-again", ["--ranks", 2]), ("parts", PARTS),
        ("ranks", [*PARTS, "--ranks", 2])]
# Whether oneDNN is in this build, and whether the CPU has what it needs for bf16.
dry = [fftrain("--data", "set", *NETS["smallnet"], "--device", "cpu", "--precision", precision, "--dry-run") for precision in ("f32", "bf16")]
ONEDNN = "onednn" in dry[0].stdout
HERE = ONEDNN and dry[1].returncode == 0
COMPUTE = [] if HERE else ["--compute", "reference"]
if not HERE:
    tap.skip("bf16 by oneDNN", "this CPU has neither AMX nor avx512_bf16, or this build has no oneDNN")

# ---- each net: losses beside f32's, and a resumed run

for name, net in NETS.items():
    if not (tap.SHORT if name == "smallnet" else tap.LONG and HERE):
        continue
    # 32 x 32 pixels: norms over the few values that 8 x 8 leave make of any rounding other losses
    near = [*net, "--data", "large", "--epochs", 1]
    done = [bf16("whole", *net, "--epochs", 2), bf16("parts", *net, "--epochs", 1), bf16("narrow", *near), train("wide", *near)]
    done.append(fftrain("--resume", "parts", "--epochs", 2, "--quiet"))
    tap.ok(not fails(*done), name + " trains in bf16", fails(*done))
    if fails(*done):
        continue
    a, b = losses("narrow"), losses("wide")
    tap.ok(a != b and all(abs(x - y) < 0.1 * y for x, y in zip(a, b)), name + ": the first losses are near f32's, not the same", [a, b])
    tap.ok(same("whole", "parts"), name + ": a resumed run has the same bits", apart("whole", "parts"))

# ---- micro-batches, ranks and the average, of smallnet

SMALL = [*NETS["smallnet"], "--epochs", 2]
done = [bf16("whole", *SMALL)]
if tap.LONG:
    done += [bf16(run, *SMALL, *options) for run, options in RUNS] + [train(run, *SMALL, *options) for run, options in WIDE]
    tap.ok(not fails(*done), "micro-batches, an average, two ranks and --reproducible", fails(*done))
    tap.ok(same("whole", "again") and same("two", "two-again"), "the same command, the same bits")
    far = [apart("whole", "wide"), apart("cut", "cut-wide"), apart("two", "two-wide")]
    tap.ok(far[1] < 2 * far[0] and far[2] < 2 * far[0], "with micro-batches and ranks a run is no farther from f32's", far)
    average, again = epochs("cut")[-1]["val_ema_loss"], evaluated("set", "-c", "cut/checkpoints/last", "--ema")
    tap.ok(average == again if HERE else 0 < abs(average - again) < 0.01, "the average is evaluated in bf16", [average, again])
    tap.ok(same("parts", "ranks"), "--reproducible: one rank and two end in the same bits", apart("parts", "ranks"))

# ---- evaluation and prediction in the precision of the training

LAST = "whole/checkpoints/last"
found = {how: evaluated("set", "-c", LAST, *options) for how, options in
         (("as trained", []), ("auto", ["--precision", "auto"]), ("bf16", ["--precision", "bf16"]), ("f32", ["--precision", "f32"]))}
if HERE:
    tap.ok(found["as trained"] == found["auto"] == found["bf16"] == epochs("whole")[-1]["val_loss"] != found["f32"],
           "an evaluation has the run's loss", found)
    masked = evaluated("set", "-c", LAST, **OLD)
    tap.ok(abs(masked - found["f32"]) < 1e-5, "without the instructions it is in f32", [masked, found])
    refused_text = evaluated("set", "-c", LAST, "--precision", "bf16", **OLD)
    tap.ok("--precision bf16: bf16 needs a CPU with AMX or avx512_bf16" in str(refused_text), "and bf16 is refused", refused_text)
text = stored("whole/checkpoints/last/model.safetensors")[1]
tap.ok(any('"precision":"bf16"' in value.replace(" ", "") for value in text.values()), "the checkpoint records the precision")

# ---- auto

if HERE:
    said = fftrain(*[one for one in REST if one != "--quiet"], *SMALL, "--precision", "auto", "--out", "auto")
    line = re.search(r"^precision +(\w+): a step takes ([0-9.]+) ms in f32 and ([0-9.]+) ms in bf16$", said.stdout, re.M)
    start = starts("auto")[0] if said.returncode == 0 else {}
    tap.ok(line and (line[1] == "bf16") == (float(line[3]) < 0.95 * float(line[2])), "auto names both times and takes the shorter",
           said.stdout + said.stderr)
    tap.ok(line and start.get("precision") == line[1] == recipe("auto").get("precision") and start["precision_reason"] in line[0],
           "the log and the checkpoint record the choice", start)
    train("given", *SMALL, "--precision", line[1] if line else "f32")
    tap.ok(same("auto", "given"), "measuring changes no bit of the run")
    bf16("resumed", *NETS["smallnet"], "--epochs", 1)
    done = fftrain("--resume", "resumed", "--epochs", 2, "--precision", "auto")
    tap.ok(done.returncode == 0 and "precision  " not in done.stdout and same("resumed", "whole") and
           all(one["precision"] == "bf16" for one in starts("resumed")), "a resumed run keeps its precision, and measures nothing",
           done.stdout + done.stderr)
    bf16("resumed", *NETS["smallnet"], "--epochs", 1)
    done = fftrain("--resume", "resumed", "--epochs", 2, "--set", "precision=auto")
    tap.ok(done.returncode == 0 and "precision  " not in done.stdout and same("resumed", "whole"), "and so does one with --set precision=auto",
           done.stdout + done.stderr)
    if tap.LONG:  # the stem for large images, which the file has, is several times as fast
        deep = [*NETS["resnet18"], "--data", "large", "--epochs", 1]
        done = [train("file", *deep, "--stem", "imagenet"), train("own", *deep, "--precision", "auto"),
                train("auto", *deep, "--precision", "auto", "--weights", "file")]
        times = [float(re.search(r"takes ([\d.e+]+) ms", starts(run)[0]["precision_reason"])[1]) for run in ("own", "auto")] if not fails(*done) else []
        tap.ok(times and times[1] < times[0] / 2, "auto measures the net that the file of --weights has", [times, fails(*done)])
        done = train("slow", "--data", "large", "--val", "none", "--model", "smallnet", "--batch", 64, "--samples-per-epoch", 64, "--epochs", 1,
                     "--precision", "auto", compute=["--compute", "reference"])
        said = starts("slow")[0]["precision_reason"] if done.returncode == 0 else done.stderr
        tap.ok(re.fullmatch(r"a step takes [0-9.]+ ms in f32 and [0-9.]+ ms in bf16", said), "steps of seconds have plain numbers, too", said)
    done = train("auto", *SMALL, "--precision", "auto", "--ranks", 2)
    tap.ok(done.returncode == 0 and starts("auto")[0]["precision"] in ("f32", "bf16"), "two ranks choose the same", done.stderr)
if ONEDNN:
    done = train("auto", *NETS["smallnet"], "--epochs", 1, "--precision", "auto", compute=[], **OLD)
    start = starts("auto")[0] if done.returncode == 0 else {}
    tap.ok(start.get("precision") == "f32" and "neither AMX nor avx512_bf16" in start["precision_reason"],
           "auto takes f32 on a CPU without the instructions", done.stderr)
    done = train("refused", *SMALL, "--precision", "bf16", compute=[], **OLD)
    tap.ok(done.returncode == 2 and all(word in done.stderr for word in ("bf16 needs a CPU with AMX or avx512_bf16", "use f32")) and
           not os.path.exists("refused/checkpoints/last"), "bf16 is refused on a CPU without the instructions", done.stderr)
done = train("none", *SMALL, "--precision", "auto", "--dry-run")
tap.ok(done.returncode == 0, "a dry run measures nothing", done.stderr)
done = fftrain(*[one for one in REST if one != "--quiet"], *SMALL, "--precision", "auto", "--check-gradients", "--out", "none")
tap.ok(done.returncode == 0 and "precision  " not in done.stdout, "gradients are compared in f32 at auto",
       done.stdout + done.stderr)

# ---- what is refused

done = bf16("loops", *NETS["smallnet"], "--epochs", 1, compute=["--compute", "reference"], **OLD)
tap.ok(done.returncode == 0, "the plain loops compute in bf16 anywhere", done.stderr)
refused("f16", 2, ["--precision f16", "the CPU computes in f32 and bf16"], *REST, *SMALL, "--precision", "f16", "--out", "none")
refused("gradients are compared in f32", 2, ["--check-gradients", "f32"], *REST, *SMALL, *COMPUTE, "--precision", "bf16", "--check-gradients", "--out", "none")
tap.finish()
