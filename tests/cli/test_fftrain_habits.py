#!/usr/bin/python3
"""What people do to find what is wrong, and to train well without knowing how: frozen norms, weights of
classes, recipes. Prints TAP."""
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
FFTRAIN = os.path.join(tap.BUILD, "fftrain")
environment = dict(os.environ, OMP_NUM_THREADS="2")


def fftrain(*arguments, program=FFTRAIN):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=environment)


def make(name, *arguments):
    subprocess.run([tap.program("make_set"), name, *map(str, arguments)], check=True, capture_output=True)


def refused(name, code, words, *arguments):
    done = fftrain(*arguments)
    lines = done.stderr.splitlines()
    tap.ok(done.returncode == code and lines and all(word in lines[-1] for word in words), name,
           "exit code %d\n%s" % (done.returncode, done.stderr))


def tensors(run):
    """{name: bytes} of the newest checkpoint."""
    data = open(run + "/checkpoints/last/model.safetensors", "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + one["data_offsets"][0]:8 + length + one["data_offsets"][1]]
            for name, one in header.items() if name != "__metadata__"}


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

tap.finish()
