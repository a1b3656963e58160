#!/usr/bin/python3
"""fftrain while the shards of its set are removed, cut, replaced by ffpack --force, or fail: the run of the old data, or one sentence that
names a shard, in each way of reading. Prints TAP."""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import runs  # noqa: E402
import numpy  # noqa: E402
import slow_disk  # noqa: E402
from runs import events, stored_bytes  # noqa: E402

os.chdir(tempfile.mkdtemp())
for seed in (1, 2):
    values = numpy.random.default_rng(seed).integers(0, 256, (1600, 16, 16, 3), dtype="uint8")
    numpy.savez("source%d.npz" % seed, x=values, y=numpy.arange(1600) % 4)
WAYS = {"mapped": [], "read ahead": ["--memory", "300K"], "read ahead, block": ["--memory", "300K", "--order", "block", "--block", 10, "--group", 8],
        "read ahead, sequential": ["--memory", "300K", "--order", "sequential"]}


def pack(seed, kind, *more):
    subprocess.run([os.path.join(tap.BUILD, "ffpack"), "source%d.npz" % seed, "-o", "set", "--shard-size", "16K", "--dtype", "u8", "--mean", ".5,.5,.5",
                    "--std", ".3,.3,.3", *(["--compress", "zstd:1"] if kind == "zstd" else []), *more], check=True, capture_output=True)


def shards():
    return [os.path.join("set", name) for name in sorted(os.listdir("set")) if name.endswith(".ffs")]


def remove(kind):
    for shard in shards():
        os.unlink(shard)


def cut(kind):
    for shard in shards()[::20]:
        os.truncate(shard, os.path.getsize(shard) // 4)


def replace(kind):
    pack(2, kind, "--force")


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def run(data, out, *options, enter=None):
    return subprocess.Popen([runs.FFTRAIN, "--data", data, "--val", "none", "--model", "smallnet", "--batch", "20", "--epochs", "6", "--threads", "1",
                             "--augment", "none", "--quiet", "--out", out, *map(str, options)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **runs.ENVIRONMENT}, preexec_fn=enter)


def judge(name, job, out, fails, wanted):
    said = job.communicate(timeout=300)[1].splitlines()
    last = said[-1] if said else ""
    if job.returncode == 0:
        good = not fails and stored_bytes(out + "/checkpoints/last/model.safetensors") == wanted
    else:
        good = fails and job.returncode in (65, 74) and re.match(r"fftrain: \w+/shard-0000\d\d\.ffs: ", last)
    tap.ok(good, name, "exit code %s\n%s" % (job.returncode, "\n".join(said)))


def harmed(name, options, harm, kind, fails, wanted):
    """A run whose set is harmed after its first epoch, while it stands still."""
    shutil.rmtree("run", ignore_errors=True)
    job = run("set", "run", *options)
    while job.poll() is None and not (os.path.exists("run/log.jsonl") and events("run", "epoch")):
        time.sleep(0.01)
    job.send_signal(signal.SIGSTOP)
    harm(kind)
    job.send_signal(signal.SIGCONT)
    judge("%s, %s: %s" % (kind, name, harm.__name__), job, "run", fails, wanted)


def fails_from_start(name, options, kind):
    """A run whose disk fails at one place."""
    shutil.rmtree("run", ignore_errors=True)
    shard = shards()[41]
    with open("fails", "w", encoding="ascii") as file:
        file.write("%s %d\n" % (os.path.basename(shard), os.path.getsize(shard) // 2))
    with slow_disk.Mounted("set", "disk", 0, 1e6, os.path.abspath("fails")):
        judge("%s, %s: a disk that fails" % (kind, name), run("disk", "run", *options), "run", True, None)


why = slow_disk.possible()
for kind in ["raw"] * tap.SHORT + ["zstd"] * tap.LONG:
    pack(1, kind, "--force")
    shutil.copytree("set", "kept")
    tap.ok(len(shards()) > 64, "%s: more shards than are open at a time" % kind, len(shards()))
    wanted = {}
    for name, options in WAYS.items():
        order = tuple(options[2:])
        if order not in wanted:
            job = run("kept", "right", *order)
            job.communicate(timeout=300)
            wanted[order] = stored_bytes("right/checkpoints/last/model.safetensors")
            shutil.rmtree("right")
        for harm, ends_mapped in ((remove, False), (cut, True), (replace, False)):
            shutil.rmtree("set")
            shutil.copytree("kept", "set")
            harmed(name, options, harm, kind, ends_mapped or bool(options), wanted[order])
        shutil.rmtree("run", ignore_errors=True)
        judge("%s, %s: 40 descriptors" % (kind, name), run("kept", "run", "--workers", 8, *options, enter=few_descriptors), "run", False, wanted[order])
        shutil.rmtree("set")
        shutil.copytree("kept", "set")
        if why:
            tap.skip("%s, %s: a disk that fails" % (kind, name), why)
        else:
            fails_from_start(name, options, kind)
    run("kept", "right", "--ranks", 2).communicate(timeout=300)
    shutil.rmtree("run", ignore_errors=True)
    judge("%s: 40 descriptors for each of two ranks" % kind, run("kept", "run", "--ranks", 2, "--memory", "300K", enter=few_descriptors), "run", False,
          stored_bytes("right/checkpoints/last/model.safetensors"))
    shutil.rmtree("right")
    shutil.rmtree("kept")
tap.finish()
