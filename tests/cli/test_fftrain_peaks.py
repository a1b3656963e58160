#!/usr/bin/python3
"""The peak of a run's memory, with its checkpoints, is within 3 % of what the dry run said. Prints TAP."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from runs import FFTRAIN, fftrain, make  # noqa: E402

if tap.SANITIZE:
    tap.skip("peaks of memory", "not under sanitizers")
    tap.finish()
os.chdir(tempfile.mkdtemp())


def peak(*arguments):
    """The most bytes that the run had in memory."""
    process = subprocess.Popen([FFTRAIN, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return usage.ru_maxrss << 10 if status == 0 else None


# Enough batches to use all slots of a loader.
make("album", "--count", 512, "--splits", "train,test", "--height", 64, "--width", 64, "--statistics")
make("pictures", "--count", 24, "--splits", "train,test", "--height", 64, "--width", 64, "--statistics")
NETS = [("smallnet", "album", 64), ("mobilenet_v2", "pictures", 8)] * tap.SHORT + [
    ("cifarnet", "pictures", 8), ("resnet18", "pictures", 8), ("resnet50", "pictures", 4), ("vgg11_bn", "pictures", 8)] * tap.LONG
for model, data, batch in NETS:
    for precision in ("f32", "bf16"):
        run = ["--data", data, "--model", model, "--batch", batch, "--threads", 2, "--augment", "none", "--device", "cpu", "--epochs", 2,
               "--precision", precision]
        dry = fftrain(*run, "--dry-run", "--json")
        if dry.returncode == 2 and precision == "bf16":
            continue  # not on this CPU
        told = json.loads(dry.stdout)
        mapped = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(data) for name in names)
        said = told["host_bytes"] + mapped
        took = peak(*run, "--out", "peak-" + model + precision)
        tap.ok(took and abs(took - said) <= .03 * took, "%s in %s: the peak is within 3 %% of what the run needs" % (model, precision),
               (took, said, told))
tap.finish()
