"""What tests of sets behind URLs share: sets, and what loaders and programs make of them."""
import json
import os
import shutil
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("sets behind URLs", "Python lacks a module: %s" % missing)
    tap.finish()
sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402
FFPACK, FFTRAIN, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "fftrain", "ffinspect"))
MIB = 1 << 20


def run(*command, env=None, timeout=300):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env=env)


def fresh(server):
    """An empty cache, and a server without faults that has forgotten what was asked."""
    shutil.rmtree("cache", ignore_errors=True)
    server.fault = None
    server.forget()


def make_set(name, samples, side, *options):
    """sets/NAME/train: f32 images of noise with ten classes."""
    numpy.save("x.npy", numpy.random.RandomState(len(name)).randint(0, 256, (samples, side, side, 3), dtype=numpy.uint8))
    numpy.save("y.npy", numpy.arange(samples) % 10)
    done = run(FFPACK, "x.npy", "-o", "sets/%s/train" % name, "--dtype", "f32", "--stats", "compute", *options)
    assert done.returncode == 0, done.stderr


def sums(loader):
    """For each batch of a loader the numbers of its samples, and a checksum of its images."""
    return [([int(number) for number in batch[-1]], zlib.crc32(numpy.asarray(batch[0]).tobytes())) for batch in loader]


def loader_of(url, **options):
    options = {"batch_size": 20, "seed": 1, "return_indices": True, "last_batch": "keep", "workers": 2, "as_": "numpy", **options}
    return ffload.Loader(url, **options)


def batches(url, **options):
    return sums(loader_of(url, **options))


def batches_or_words(url, **options):
    """The batches, or the sentence of the failure."""
    try:
        return batches(url, **options)
    except (OSError, RuntimeError, ValueError) as error:
        return "%s: %s" % (type(error).__name__, error)


def losses(data, *options, env=None, log="log.jsonl"):
    """The losses of a run's epochs, or what it said."""
    if os.path.exists(log):
        os.remove(log)
    done = run(FFTRAIN, "--data", data, "--model", "smallnet", "--batch", 32, "--seed", 1, "--val", "none", "--quiet", "--threads", 1, *options,
               "--log-json", log, env=env)
    if done.returncode:
        return "exit %d: %s" % (done.returncode, done.stderr[-600:])
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    return [line["train_loss"] for line in lines if line["event"] == "epoch"]
