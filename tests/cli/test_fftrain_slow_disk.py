#!/usr/bin/python3
"""Slow disks: what is promised before the first step is what --diagnose, the run's log and its last sentence say, within 15 %; and sets
whose pages memory no longer keeps in the course of a run. Prints TAP."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import runs  # noqa: E402
import slow_disk  # noqa: E402
from limits import Limits, drop, missing  # noqa: E402
from runs import events, fftrain, make, stored_bytes  # noqa: E402

os.chdir(tempfile.mkdtemp())
MB = 10**6
# Large samples in small crops: the disk is what a run waits for, also on a busy machine.
COUNT, SAMPLE = 700, 3 * 128 * 128
make("set", "--count", COUNT, "--height", 128, "--width", 128, "--channels", 3, "--dtype", "u8", "--statistics", "--shard-size", "8M")
RUN = ["--val", "none", "--model", "smallnet", "--batch", 20, "--threads", 1, "--workers", 1, "--crop", 8, "--augment", "none"]
RATE = r"([0-9.]+) samples/s"


def near(*rates):
    return min(rates) > 0 and max(rates) <= 1.15 * min(rates)


def number(pattern, text):
    found = re.search(pattern, text, re.M)
    return float(found[1]) if found else 0


def attempt(name, order, run, data, enter, once):
    """A run and --diagnose: (what they print and log, the rates of the disk by each). once: of the first epoch alone, in which there is
    no last sentence, and some of whose samples are read while the run makes itself ready."""
    shutil.rmtree(name, ignore_errors=True)
    if once:
        drop(data)
    done = fftrain("--data", data, *RUN, *run, "--order", order, "--out", name, limit=enter)
    if once:
        drop(data)
    found = fftrain("--data", data, *RUN, *run, "--order", order, "--diagnose", limit=enter)
    if done.returncode or found.returncode:
        raise RuntimeError(done.stderr + found.stderr)
    promised = number(r"^disk +" + RATE + " in the first epoch" if once else r"^ *(?:disk)? +order %s: %s," % (order, RATE), done.stdout)
    epoch = events(name, "epoch")[0 if once else -1]["samples_per_second"]
    last = number(r"waiting for the storage, which had " + RATE, done.stdout)
    diagnosed = number(r"^storage +" + RATE, found.stdout)
    return done, found, [promised, events(name, "start")[0]["disk"][order]["samples_per_second"], diagnosed, *([] if once else [epoch, last])], epoch


def agrees(name, order, run, least, most, data="set", enter=None, once=False):
    """A run and --diagnose say the same of a disk that reads between `least` and `most` bytes a second: in one of three attempts, since
    other work may take the processors while the disk is measured."""
    for _ in range(3):
        done, found, rates, epoch = attempt(name, order, run, data, enter, once)
        storage = found.stdout.splitlines()[-1].startswith("Bottleneck: storage; ")
        if near(*rates) and storage:
            break
    print("# %s: %s samples/s" % (name, rates), flush=True)
    told = done.stdout + found.stdout
    tap.ok(near(*rates) and epoch > max(rates) / 1.15, "%s: the same in all places" % name, "%s %s\n%s" % (rates, epoch, told))
    disk = events(name, "start")[0]["disk"]
    logged = disk[order]
    tap.ok(abs(logged["epoch_seconds"] * logged["samples_per_second"] / COUNT - 1) < 1e-3 and logged["first_epoch_alone"] == once and
           list(disk) == ([order] if once else ["random", "block", "sequential"]), "%s: in the log" % name, disk)
    tap.ok(storage, "%s: --diagnose names the storage" % name, found.stdout)
    notes = [event["text"] for event in events(name, "note")]
    warning = re.compile(r"the steps will spend [0-9]+ %% of %s waiting for data: the disk reads " % ("the first epoch" if once else "their time"))
    tap.ok(sum(warning.match(note) is not None for note in notes) == 1, "%s: a warning, once" % name, notes)
    tap.ok(done.stdout.find("note: the steps will") < done.stdout.find("\n    1 "), "%s: before the first epoch's end" % name, told)
    # What a block device's bytes allow.
    used = logged["samples_per_second"] * SAMPLE * logged["read_per_used"]
    tap.ok(least < used < most, "%s: it is the disk's rate" % name, "%g of %g to %g" % (used, least, most))


def ranks_wait(read):
    """While rank 0 measures the disk the other rank reads nothing: the rate is that of an epoch of both."""
    with Limits(read=read) as limits:
        for _ in range(3):
            shutil.rmtree("two", ignore_errors=True)
            done = fftrain("--data", "set", *RUN, "--epochs", 3, "--memory", "8M", "--ranks", 2, "--out", "two", limit=limits.enter)
            rates = [events("two", "start")[0]["disk"]["random"]["samples_per_second"], events("two", "epoch")[-1]["samples_per_second"]] if done.returncode == 0 else [0]
            if near(*rates):
                break
    tap.ok(near(*rates), "two ranks: rank 0 measures the disk alone", "%s\n%s" % (rates, done.stdout + done.stderr))


why = missing(read=MB)
if why:
    tap.skip("what is promised of slow disks", why)
else:
    for order in ("random", "block", "sequential"):
        with Limits(read=8 * MB) as limits:
            agrees(order, order, ["--epochs", 3, "--memory", "8M"], 6.4 * MB, 9.6 * MB, enter=limits.enter)
    ranks_wait(8 * MB)

# A disk that takes 1 ms to seek, and reads so slowly that a process may wait a while for a processor meanwhile.
why = slow_disk.possible()
if why:
    tap.skip("what is promised of a disk with seeks", why)
else:
    with slow_disk.Mounted("set", "seeks", 1, 5):
        for order in ("block", "sequential"):
            agrees("seeks-" + order, order, ["--epochs", 2, "--memory", "8M"], 3.5 * MB, 6 * MB, data="seeks")

# ---- processors that other work has ----


def on_one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=on_one_processor) for _ in range(24)]
done = fftrain("--data", "set", *RUN, "--epochs", 3, "--memory", "8M", "--out", "busy", limit=on_one_processor)
for process in busy:
    process.kill()
    process.wait()
tap.ok(done.returncode == 0 and re.match(r"Bottleneck: data; .* time waiting for a processor: end other work", done.stdout.splitlines()[-1]),
       "a busy machine is not taken for a slow disk", done.stdout + done.stderr)

# ---- memory that goes in the course of a run ----
MIB = 1 << 20
LARGE = ["--data", "large", "--val", "none", "--model", "smallnet", "--batch", 20, "--epochs", 25, "--threads", 1, "--workers", 2, "--crop", 8, "--augment", "none", "--order"]


def evicted(order):
    """From the second epoch on a neighbour has most of the memory: samples are read then, and the weights are the same."""
    name = "evicted-" + order
    drop("large") # so that its pages are the group's
    with Limits(memory=300 * MIB) as limits:
        run = subprocess.Popen([runs.FFTRAIN, *map(str, LARGE), order, "--out", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               preexec_fn=limits.enter, env={**os.environ, **runs.ENVIRONMENT})
        until = time.time() + 60
        while run.poll() is None and time.time() < until and not (os.path.exists(name + "/log.jsonl") and events(name, "epoch")):
            time.sleep(0.02)
        limits.take(230 * MIB)
        told = run.communicate()[0]
    notes = [event["text"] for event in events(name, "note") if event["text"].startswith("read directly since its mapping read ")]
    tap.ok(run.returncode == 0 and len(notes) == 1 and events(name, "start")[0]["reading"].startswith("mapped: ") and
           "left of its cgroup's limit" in notes[0],
           "order %s, set evicted: a note reports that it is read directly, once" % order, told)
    calm = fftrain(*LARGE, order, "--out", "calm-" + order)
    tap.ok(calm.returncode == 0 and not [event for event in events("calm-" + order, "note") if "read directly" in event["text"]],
           "order %s: a set that stays in memory is mapped to the end" % order, calm.stdout + calm.stderr)
    weights = [stored_bytes(folder + "/checkpoints/last/model.safetensors") for folder in (name, "calm-" + order)]
    tap.ok(weights[0] == weights[1], "order %s: the same weights" % order)


why = missing(memory=400 * MIB)
if why:
    tap.skip("sets that leave memory in the course of a run", why)
else:
    make("large", "--count", 3400, "--height", 128, "--width", 128, "--channels", 3, "--dtype", "u8", "--statistics", "--shard-size", "16M")
    for order in ("random", "block"):
        evicted(order)

# ---- nothing is said where there is nothing to wait for ----
with open("set/index.ffx", "rb") as file:
    file.read()
for name in os.listdir("set"):
    with open("set/" + name, "rb") as file:
        file.read()
done = fftrain("--data", "set", *RUN, "--epochs", 3, "--out", "warm")
tap.ok(done.returncode == 0 and "\ndisk " not in done.stdout and events("warm", "start")[0]["disk"] is None and not events("warm", "note"),
       "a set in memory: no word of the disk", done.stdout + done.stderr)

tap.finish()
