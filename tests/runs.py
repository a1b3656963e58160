"""Shared by tests of fftrain: sets for its runs, the runs, and what their folders hold."""
import json
import os
import subprocess

import numpy
import tap

FFTRAIN = os.path.join(tap.BUILD, "fftrain")
SIMULATED = tap.program("fftrain_sim")  # on a GPU that is simulated
# A test adds to it what all its runs need.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}


def make(name, *arguments):
    subprocess.run([tap.program("make_set"), name, *map(str, arguments)], check=True, capture_output=True)


def fftrain(*arguments, program=FFTRAIN, before=(), limit=None, **environment):
    """A run that has ended: returncode, stdout, stderr. before: what starts it; limit: is called in its process."""
    return subprocess.run([*map(str, before), program, *map(str, arguments)], capture_output=True, text=True, timeout=300, preexec_fn=limit,
                          env={**os.environ, **ENVIRONMENT, **environment})


def refused(name, code, words, *arguments):
    """Passes where the run ends with this code and its last line has all the words."""
    done = fftrain(*arguments)
    lines = done.stderr.splitlines()
    tap.ok(done.returncode == code and lines and all(word in lines[-1] for word in words), name,
           "exit code %d\n%s" % (done.returncode, done.stderr))


def recipe(run):
    """{option: value} of the recipe that a run has kept."""
    with open(run + "/recipe.txt", encoding="utf-8") as file:
        return dict(line.split(" = ", 1) for line in file.read().splitlines() if not line.startswith("#"))


def stored(path):
    """Of a file of safetensors: {name: (dtype, shape, bytes)} in its order, and its texts."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    texts = header.pop("__metadata__", {})
    return {name: (one["dtype"], one["shape"], data[begin:][slice(*one["data_offsets"])]) for name, one in header.items()}, texts


def stored_bytes(path):
    """{name: bytes}"""
    return {name: data for name, (_, _, data) in stored(path)[0].items()}


def tensors(run):
    """{name: array} of the parameters and running statistics."""
    found, _ = stored(run + "/checkpoints/last/model.safetensors")
    return {name: numpy.frombuffer(data, "float32").astype("float64").reshape(shape)
            for name, (dtype, shape, data) in found.items() if dtype == "F32"}


def distance(a, b):
    """Of two dictionaries of arrays, relative to their norm."""
    return (sum(((a[k] - b[k]) ** 2).sum() for k in a) / sum((a[k] ** 2).sum() for k in a)) ** 0.5


def apart(a, b):
    """Of two runs' parameters."""
    return distance(tensors(a), tensors(b))


def same(a, b):
    a, b = tensors(a), tensors(b)
    return all(numpy.array_equal(a[k], b[k]) for k in a)


def losses(run):
    with open(run + "/hashes.jsonl", encoding="utf-8") as file:
        return [line["loss"] for line in map(json.loads, file) if "loss" in line]


def events(run, kind):
    with open(run + "/log.jsonl", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["event"] == kind]


def epochs(run):
    return events(run, "epoch")


def starts(run):
    return events(run, "start")
