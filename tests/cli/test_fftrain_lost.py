#!/usr/bin/python3
"""fftrain as a job of ranks, one of which is killed, stopped, out of memory, late or does not fit the others: how the job ends, and that it
goes on to the same bits. FF_KILLS: how many are killed at random moments (4). Arguments: the tests to run. Prints TAP."""
import os
import random
import re
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import HOST, MPIRUN, Job, free_port, has_torchrun, torchrun, variables_of  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)
FFTRAIN = os.path.join(tap.BUILD, "fftrain")
SLOW = 10 if tap.SANITIZE else 1
TIMEOUT = 3 * SLOW  # of a silent rank
BOUND = TIMEOUT + 10 * SLOW
SEED = int(os.environ.get("FF_SEED", "0")) or random.randrange(1 << 30)
DICE = random.Random(SEED)
RUN = ["--model", "smallnet", "--batch", 20, "--epochs", 5, "--augment", "crop=2,flip", "--threads", 1, "--quiet", "--checkpoint-every", "2 steps",
       "--keep", 2, "--rank-timeout", TIMEOUT]
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
SHARED = ("/dev/shm", "/run/lock")


def make(name, *arguments):
    done = tap.run([tap.program("make_set"), name, *map(str, arguments)])
    assert done.returncode == 0, done.stderr


def bits(run):
    return [open("%s/checkpoints/last/%s.safetensors" % (run, part), "rb").read() for part in ("model",)]


def shared():
    return {os.path.join(place, name) for place in SHARED if os.path.isdir(place) for name in os.listdir(place)}


def start(*arguments, before=(), **variables):
    return Job(*before, FFTRAIN, *arguments, variables={**ENVIRONMENT, **variables})


def alone(rank, size, port, *arguments, program=FFTRAIN, before=(), run="x", **variables):
    """One rank, with the variables of a torchrun."""
    return Job(*before, program, *arguments, variables={**ENVIRONMENT, **variables_of(rank, size, port, run=run), **variables})


def launchers():
    """{name: count -> (what to write before fftrain, and after)}"""
    found = {"--ranks": lambda count: ([], ["--ranks", count])}
    if shutil.which("mpirun") and not tap.SANITIZE:
        found["mpirun"] = lambda count: ([*MPIRUN, count], [])
    if has_torchrun() and not tap.SANITIZE:
        found["torchrun"] = lambda count: (torchrun(count), [])
    return found


LAUNCHERS = launchers()
for name in {"mpirun", "torchrun"} - set(LAUNCHERS):
    tap.skip("ranks of " + name, "it is not installed, or lasts too long")
make("set", "--count", 400, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics")
WHOLE = {}


def whole(count):
    """The bits of a run of so many ranks that was not stopped, and how long it takes once all have begun."""
    if count not in WHOLE:
        job = start("--data", "set", *RUN, "--ranks", count, "--out", "whole-%d" % count)
        ranks = job.ranks(count)
        began = time.monotonic()
        job.end()
        seconds = time.monotonic() - began
        tap.ok(ranks and job.code == 0, "%d ranks that are not stopped" % count, job)
        WHOLE[count] = bits("whole-%d" % count), seconds
    return WHOLE[count]


def names_of(run):
    return sorted(name for name in os.listdir(run + "/checkpoints") if not re.fullmatch(r"last|best|step-\d+", name))


def goes_on(run, count):
    """What is wrong with a run that goes on from what was left of it; "" where nothing is."""
    if not os.path.exists(run + "/recipe.txt"):
        return ""  # it was lost before it began
    job = start("--resume", run, "--ranks", count).end()
    if job.code == 2 and "the run is complete" in job.err:
        job.code = 0
    if job.code or bits(run) != whole(count)[0]:
        return "--resume: other bits\n%s" % job
    return "--resume leaves %s" % names_of(run) if names_of(run) else ""


def lost(rank, process, how):
    """The sentences that name a lost rank: of a survivor that knew it, of one that never met it, of the starter."""
    return r"fftrain: rank %d \(host %s, process %d\) was lost: it %s|" % (rank, HOST, process, how) + \
        r"fftrain: ranks? (\d+, )*%d(, \d+)* of \d+ did not come|" % rank + \
        (r"fftrain: rank 0 does not answer|" if rank == 0 else "") + \
        r"rank %d was ended by signal|process rank %d with PID .* on signal" % (rank, rank)


def test_kills():
    kills = int(os.environ.get("FF_KILLS", "4"))
    before = shared()
    bad, late, slowest, said = [], 0, 0, 0
    for i in range(kills):
        launcher, count = DICE.choice(sorted(LAUNCHERS)), DICE.choice((2, 3))
        rank, at = DICE.randrange(count), DICE.random()
        run = "kill-%d" % i
        first, after = LAUNCHERS[launcher](count)
        seconds = whole(count)[1]
        job = start("--data", "set", *RUN, *after, "--out", run, before=first)
        ranks = job.ranks(count)
        time.sleep(at * 1.1 * seconds)
        if not ranks or job.process.poll() is not None:
            late += 1
            job.end()
            continue
        os.kill(ranks[rank], signal.SIGKILL)
        job.began = time.monotonic()
        job.end()
        slowest = max(slowest, job.seconds)
        what = "%d: rank %d of %d of %s after %.0f %%" % (i, rank, count, launcher, 110 * at)
        if job.code == 0:
            late += 1  # it had done all
        elif job.code not in ((1, 137) if launcher == "mpirun" else (1,)) or job.left or job.seconds > BOUND or \
                not re.search(lost(rank, ranks[rank], "ended without a word"), job.err):
            bad.append("%s: %s" % (what, job))
        said += bool(re.search(r"was lost: it ended", job.err))
        wrong = goes_on(run, count) if os.path.exists(run) else ""
        if wrong:
            bad.append("%s: %s\n%s" % (what, wrong, job))
        shutil.rmtree(run, ignore_errors=True)
    if shared() - before:
        bad.append("left in shared memory: %s" % (shared() - before))
    tap.ok(not bad, "%d ranks killed at random moments (FF_SEED=%d)" % (kills, SEED), "\n".join(bad))
    print("# %d after the end, the slowest end after %.1f s, %d told by a survivor" % (late, slowest, said))


TESTS = [test_kills]
for test in TESTS:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
os.chdir("/")
shutil.rmtree(PLACE)
tap.finish()
