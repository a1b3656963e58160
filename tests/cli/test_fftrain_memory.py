#!/usr/bin/python3
"""Sets beyond memory: --memory, --block and --group; that a run keeps its blocks wherever it continues, and on several ranks. Prints TAP."""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import runs  # noqa: E402
from runs import events, fftrain, make, refused, stored_bytes  # noqa: E402

os.chdir(tempfile.mkdtemp())
make("set", "--count", 400, "--height", 8, "--width", 8, "--statistics")
RUN = ["--data", "set", "--val", "none", "--model", "smallnet", "--batch", 20, "--epochs", 2, "--threads", 1, "--augment", "none",
       "--checkpoint-every", "10 steps", "--keep", 9]
BLOCKS = ["--order", "block", "--block", 2]


def weights(run):
    return stored_bytes(run + "/checkpoints/last/model.safetensors")


# ---- the choice is said ----
for order, memory, way in (("random", "1G", "mapped"), ("random", "64K", "read directly"), ("block", "64K", "read directly"),
                           ("block", "1G", "mapped")):
    done = fftrain(*RUN, "--order", order, "--memory", memory, "--dry-run")
    line = [line for line in done.stdout.splitlines() if line.startswith("reading ")]
    tap.ok(done.returncode == 0 and len(line) == 1 and line[0].split(None, 1)[1].startswith(way + ": the set has ") and
           ", by the option memory" in line[0] and
           line[0].endswith("are read in parts: smaller groups or blocks are read whole" if (order, memory) == ("block", "64K") else ", by the option memory"),
           "order %s in %s: %s" % (order, memory, way), done.stderr + "\n".join(line))
done = fftrain(*RUN, "--memory", "1G", "--dry-run", FFLOAD_MEMORY="64K")
tap.ok("reading        mapped" in done.stdout, "--memory comes before FFLOAD_MEMORY", done.stdout + done.stderr)
refused("no size", 2, ["--memory: '1 GB' is not a size"], *RUN, "--memory", "1 GB", "--dry-run")
for name in ("block", "group"):
    refused("--%s without --order block" % name, 2, ["--%s is of --order block, and the order is random" % name], *RUN, "--" + name, 5, "--dry-run")

# ---- what the order of storage takes is counted ----
make("shuffled", "--count", 400, "--height", 8, "--width", 8, "--statistics", "--shuffle", 1)


def needs(name, order):
    done = fftrain("--data", name, *RUN[2:], "--order", order, "--dry-run", "--json")
    return json.loads(done.stdout)["host_bytes"]


found = [needs(name, order) - needs("set", "random") for name in ("set", "shuffled") for order in ("random", "block")]
tap.ok(found == [0, 0, 0, 4 * 400], "4 bytes a sample of a shuffled set in block order", found)

# ---- sets beyond the address space ----
# two of 2 GiB, sparse
subprocess.run([tap.program("make_huge"), "wide", "--count", "700", "--side", "724"], check=True)
LARGE = ["--data", "wide", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--threads", 1, "--crop", 32, "--augment", "none", "--dry-run"]


def limited(gib, *more):
    return fftrain(*LARGE, *more, limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (int(gib * 2**30), int(gib * 2**30))))


if tap.SANITIZE:
    tap.skip("sets beyond the address space", "sanitizers need the address space")
else:
    done = limited(1.5, "--val", "none")
    tap.ok(done.returncode == 0 and "reading        read directly: the set has 2." in done.stdout, "one set: it is read directly", done.stdout + done.stderr)
    done = limited(3.5, "--val", "wide")
    tap.ok(done.returncode == 1 and "the run maps 4.1" in done.stderr and "left of its address space (ulimit -v); a set larger than --memory" in done.stderr,
           "two sets, each of which fits: refused", done.stdout + done.stderr)
    done = limited(3.5, "--val", "wide", "--memory", "1G")
    tap.ok(done.returncode == 0, "and with --memory read directly", done.stderr)

# ---- a run keeps its blocks ----
# 200 blocks of 2: in a group of 64 or of 2048 the order is another
done = fftrain(*RUN, *BLOCKS, "--memory", "64K", "--out", "small")
found = runs.recipe("small") if done.returncode == 0 else {}
tap.ok((found.get("order"), found.get("block"), found.get("group"), found.get("memory")) == ("block", "2", "64", None),
       "the recipe has the block and the group", str(found) + done.stderr)
done = fftrain(*RUN, *BLOCKS, "--memory", "64K", "--dry-run")
line = r"order %s: \d+ samples/s, [0-9.]+ bytes read for each used, an epoch in [0-9.e+-]+ s\n +"
measured = re.search("^disk           " + "".join(line % order for order in ("random", "block", "sequential")) + "recommended: --order (block|random), ", done.stdout, re.M)
tap.ok(measured, "the summary has the disk's rates", done.stdout)
start = events("small", "start")[0]
tap.ok((start["block"], start["group"]) == (2, 64) and start["reading"].startswith("read directly: the set has "), "and so has the log", start)
done = fftrain(*RUN, *BLOCKS, "--group", 64, "--out", "given")
tap.ok(done.returncode == 0 and weights("given") == weights("small"), "the same weights with --group 64 and all memory", done.stderr)
done = fftrain(*RUN, *BLOCKS, "--out", "large")
tap.ok(done.returncode == 0 and runs.recipe("large")["group"] == "2048" and weights("large") != weights("small"), "where memory is enough a group has 2048",
       done.stderr)
first = "small/checkpoints/step-10"
tap.ok(os.path.isdir(first), "there is a checkpoint in the first epoch", os.listdir("small/checkpoints"))
want = weights("small")
shutil.copytree("small", "again", symlinks=True)
done = fftrain("--resume", first.replace("small", "again"), "--group", 32)
tap.ok(done.returncode == 2 and "--group: cannot change when a run resumes; it was 64, not 32" in done.stderr, "another group is refused", done.stderr)
done = fftrain("--resume", first.replace("small", "again"))
tap.ok(done.returncode == 0 and weights("again") == want and events("again", "start")[-1]["first_step"] == 10, "a run that continues with other memory has the same weights", done.stderr)
done = fftrain(*RUN, *BLOCKS, "--memory", "64K", "--ranks", 2, "--out", "ranks")
tap.ok(done.returncode == 0 and runs.recipe("ranks")["group"] == "64" and len(events("ranks", "start")) == 1, "on two ranks", done.stderr)
done = fftrain("--recipe", "small/recipe.txt", "--out", "repeated")
tap.ok(done.returncode == 0 and weights("repeated") == weights("small"), "its recipe makes the same run", done.stderr)

tap.finish()
