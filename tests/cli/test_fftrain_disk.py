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
from limits import Limits, drop, missing  # noqa: E402
from runs import events, fftrain, make, stored_bytes  # noqa: E402

os.chdir(tempfile.mkdtemp())
MB = 10**6
# Of 3 KiB: 16 MB. Steps are short: the disk is what a run waits for, however busy the machine is.
COUNT = 5000
make("set", "--count", COUNT, "--height", 32, "--width", 32, "--channels", 3, "--dtype", "u8", "--statistics", "--shard-size", "4M")
RUN = ["--data", "set", "--val", "none", "--model", "smallnet", "--batch", 50, "--epochs", 1, "--threads", 1, "--workers", 1, "--crop", 8, "--augment", "none"]
RATE = r"([0-9.]+) samples/s"


def near(*rates):
    return min(rates) > 0 and max(rates) <= 1.15 * min(rates)


def number(pattern, text):
    found = re.search(pattern, text, re.M)
    return float(found[1]) if found else 0


def agrees(name, order, run, read, once=False):
    """A run and --diagnose say the same of a disk that reads so many bytes a second."""
    with Limits(read=read) as limits:
        if once:
            drop("set")
        done = fftrain(*RUN, *run, "--order", order, "--out", name, limit=limits.enter)
        if once:
            drop("set")
        found = fftrain(*RUN, *run, "--order", order, "--diagnose", limit=limits.enter)
    told = done.stdout + done.stderr + found.stdout + found.stderr
    if done.returncode or found.returncode:
        tap.ok(False, name, told)
        return
    disk = events(name, "start")[0]["disk"]
    logged = disk[order]
    promised = number(r"^disk +" + RATE + " in the first epoch" if once else r"^ *(?:disk)? +order %s: %s," % (order, RATE), done.stdout)
    epoch = events(name, "epoch")[0]
    last = number(r"waiting for the storage, which had " + RATE, done.stdout)
    diagnosed = number(r"^storage +" + RATE, found.stdout)
    tap.ok(near(promised, logged["samples_per_second"], epoch["samples_per_second"], last, diagnosed), "%s: the same in all places" % name,
           "%s\n%s" % ([promised, logged, epoch["samples_per_second"], last, diagnosed], told))
    tap.ok(abs(logged["epoch_seconds"] * logged["samples_per_second"] / COUNT - 1) < 1e-3 and logged["first_epoch_alone"] == once and
           list(disk) == ([order] if once else ["random", "block", "sequential"]), "%s: in the log" % name, disk)
    tap.ok(found.stdout.splitlines()[-1].startswith("Bottleneck: storage; "), "%s: --diagnose names the storage" % name, found.stdout)
    notes = [event["text"] for event in events(name, "note")]
    warning = re.compile(r"the steps will spend [0-9]+ % of %s waiting for data: the disk reads " % ("the first epoch" if once else "their time"))
    tap.ok(sum(warning.match(note) is not None for note in notes) == 1, "%s: a warning, once" % name, notes)
    tap.ok(done.stdout.index("note: the steps will") < done.stdout.index("Bottleneck: data"), "%s: long before the end" % name, told)
    # What a block device's bytes allow.
    used = logged["samples_per_second"] * 3072 * logged["read_per_used"]
    tap.ok(0.8 * read < used < 1.2 * read, "%s: it is the disk's rate" % name, "%g of %g" % (used, read))


why = missing(read=MB)
if why:
    tap.skip("what is promised of slow disks", why)
else:
    for order in ("random", "block", "sequential"):
        agrees(order, order, ["--memory", "4M"], 4 * MB)
    agrees("mapped", "random", [], 4 * MB, once=True)

# ---- nothing is said where there is nothing to wait for ----
with open("set/index.ffx", "rb") as file:
    file.read()
for name in os.listdir("set"):
    with open("set/" + name, "rb") as file:
        file.read()
done = fftrain(*RUN, "--out", "warm")
tap.ok(done.returncode == 0 and "\ndisk " not in done.stdout and events("warm", "start")[0]["disk"] is None and not events("warm", "note"),
       "a set in memory: no word of the disk", done.stdout + done.stderr)

tap.finish()
