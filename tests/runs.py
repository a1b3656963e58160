"""Shared by tests that compare runs of fftrain: sets for them, and what their folders hold."""
import json
import subprocess

import numpy
import tap


def make(name, *arguments):
    subprocess.run([tap.program("make_set"), name, *map(str, arguments)], check=True, capture_output=True)


def tensors(run):
    with open(run + "/checkpoints/last/model.safetensors", "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    return {name: numpy.frombuffer(data[8 + size:][slice(*one["data_offsets"])], "float32").astype("float64").reshape(one["shape"])
            for name, one in header.items() if one["dtype"] == "F32"}


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
