#!/usr/bin/python3
"""Batches that fit the memory, chosen or advised, and nets that are trained at several sizes. Prints TAP."""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

os.chdir(tempfile.mkdtemp())
FFTRAIN = os.path.join(tap.BUILD, "fftrain")
SIMULATED = tap.program("fftrain_sim")


def fftrain(*arguments, program=FFTRAIN, addresses=None, memory=None):
    """addresses: MiB of the process; memory: KiB of the simulated GPU."""
    def limit():
        if addresses:
            resource.setrlimit(resource.RLIMIT_AS, (addresses << 20, addresses << 20))
    environment = dict(os.environ, OMP_NUM_THREADS="2", **({"FF_SIM_MEMORY": str(memory)} if memory else {}))
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env=environment, preexec_fn=limit)


def make(name, *arguments):
    subprocess.run([tap.program("make_set"), name, *map(str, arguments)], check=True, capture_output=True)


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
       "where no batch fits it says so", done.stderr)

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
done = fftrain(*GPU_RUN, "--batch", "auto", "--out", "auto", memory=3000, **GPU)
chosen = int(re.search(r"^               --batch auto chose (\d+): the largest whose run needs at most 90 % of the memory; "
                       r"the learning rate is the recipe's in proportion to it$", done.stdout, re.M).group(1))
rate = 0.4 * chosen / 128
tap.ok(done.returncode == 0 and "peak %g\n" % rate in done.stdout.replace(", ", "\n") + "\n", "the learning rate follows the batch", done.stdout)
recipe = open("auto/recipe.txt").read().splitlines()
tap.ok("batch = %d" % chosen in recipe, "the run's recipe has the batch that was chosen", recipe)
done = fftrain("--resume", "auto", "--epochs", 2, **GPU)
tap.ok(done.returncode == 0 and "an epoch of %d samples" % chosen in done.stdout, "with which it goes on, with more memory, too",
       done.stdout + done.stderr)
for wrong in "autos", "0", "8.5":
    done = fftrain(*CPU_RUN, "--batch", wrong)
    tap.ok(done.returncode == 2 and "--batch: " in done.stderr, "--batch %s is refused" % wrong, done.stderr)
with open("auto.txt", "w") as file:
    file.write("data = small\nmodel = smallnet\nbatch = auto\n")
done = fftrain("--recipe", "auto.txt", "-n", "--device", "cpu")
tap.ok(done.returncode == 0 and "--batch auto chose 128" in done.stdout, "a recipe may say it", done.stderr)
tap.finish()
