#!/usr/bin/python3
"""A run that is killed at any time, by SIGKILL or by the kernel as its cgroup has no memory left, has a checkpoint of an epoch that was
finished, and resumes from there to the bits of a run that was not killed. The same before each call that changes a file or a folder, with
the same links `last` and `best`, and nothing left of what was half done. Prints TAP. Environment: BUILD; FF_KILLS: before how many calls
(60, chosen at random)."""
# Needs: fftrain tests/make_set tests/faults.so
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from memory_group import MemoryGroup  # noqa: E402
from runs import epochs, fftrain, make, stored_bytes  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"
STEPS, EPOCHS = 50, 30
make("set", "--count", 20 * STEPS, "--height", 16, "--width", 16, "--statistics")
# Without evaluations none is the best, whose epoch would be saved anyway.
COMMON = ["--data", "set", "--model", "smallnet", "--augment", "flip", "--batch", 20, "--threads", 1, "--val", "none", "--epochs", EPOCHS, "--quiet"]


def last(run):
    """The steps of the run's newest checkpoint; 0 if there is none."""
    try:
        return int(os.readlink(run + "/checkpoints/last")[len("step-"):])
    except FileNotFoundError:
        return 0


def start(run, *options, enter=None):
    return subprocess.Popen([runs.FFTRAIN, *map(str, COMMON), "--out", run, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **runs.ENVIRONMENT}, preexec_fn=enter)


def wait_for(process, run, steps):
    while process.poll() is None and last(run) < steps:
        time.sleep(0.002)


def weights(run):
    return stored_bytes(run + "/checkpoints/last/model.safetensors")


def goes_on(name, run, process):
    """After the kill: where the run continues, and how it ends."""
    said = process.communicate()[1]
    finished, newest = len(epochs(run)), last(run)
    tap.ok(process.returncode == -signal.SIGKILL and newest % STEPS == 0 and 0 < newest < EPOCHS * STEPS, "%s: the newest checkpoint is the end of an epoch" % name,
           (process.returncode, newest, finished, said))
    done = fftrain("--resume", run, "--quiet")
    tap.ok(done.returncode == 0 and "step-%d, after" % newest in done.stderr and len(epochs(run)) == finished + EPOCHS - newest // STEPS and
           last(run) == EPOCHS * STEPS and weights(run) == weights("whole"), "%s: the run resumes from there, to the bits of one that was not killed" % name, done.stderr)
    return finished, newest


def by_signal():
    # Once the first checkpoint is there, in the middle of the next epoch.
    process = start("default", "--keep", str(EPOCHS))
    wait_for(process, "default", 1)
    process.kill()
    goes_on("kill -9", "default", process)
    tap.ok(os.path.exists("default/checkpoints/step-%d" % STEPS), "by itself a run saves the end of its first epoch", os.listdir("default/checkpoints"))
    process = start("each", "--checkpoint-every", "epoch")
    wait_for(process, "each", 3 * STEPS)
    process.kill()
    finished, newest = goes_on("kill -9, --checkpoint-every epoch", "each", process)
    # That of the last epoch may still have been written.
    tap.ok(finished - 1 <= newest // STEPS <= finished, "the newest checkpoint is of the last epoch that was written before the kill", (finished, newest))


def by_the_kernel():
    """Another process of the group takes all of its memory."""
    try:
        group = MemoryGroup(512 << 20)
    except OSError as error:
        tap.skip("killed by the kernel", "no memory cgroup can be made: %s" % error)
        return

    def enter():
        group.enter()
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # the one that the kernel kills

    takes = "import sys\nkept = []\nwhile sys.stdin.read(1): kept.append(b'x' * (16 << 20)); print(flush=True)"
    taker = subprocess.Popen([sys.executable, "-c", takes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter)
    process = start("group", enter=enter)
    try:
        wait_for(process, "group", 1)
        for _ in range(64):
            if process.poll() is not None:
                break
            taker.stdin.write(b"x")
            taker.stdin.flush()
            if not taker.stdout.readline():
                break  # it was killed, too
        process.wait(60)
        tap.ok(group.killed() >= 1, "the kernel kills a run in a group of 512 MiB", group.killed())
        goes_on("killed by the kernel", "group", process)
    finally:
        process.kill()
        process.wait()
        taker.kill()
        taker.wait()
        group.remove()


def links(run):
    return [os.path.islink(link) and os.readlink(link) for link in (run + "/checkpoints/last", run + "/checkpoints/best")]


def killed_before(call, run, *options):
    """A run with checkpoints that are written, removed and chosen as best in all its steps; how many such calls it makes where call is 0."""
    done = subprocess.run([runs.FFTRAIN, *map(str, CHANGES), "--out", run, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **runs.ENVIRONMENT, "LD_PRELOAD": os.path.join(tap.BUILD, "tests", "faults.so"), "FF_FAULT": "kill",
                               "FF_FAULT_AT": str(call), "FF_FAULT_COUNT": os.path.join(place, "count")})
    return done if call else int(open("count").read())


def at_each_change():
    if tap.SANITIZE:
        tap.skip("killed before a change", "the sanitizer's allocator")
        return
    make("few", "--count", 60, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics")
    count, bad = killed_before(0, "unharmed"), []
    kills = min(int(os.environ.get("FF_KILLS", "60")), count)
    result = {epoch["epoch"]: (epoch["val_loss"], epoch["train_loss"]) for epoch in epochs("unharmed")}
    for call in sorted(random.sample(range(1, count + 1), kills)):
        run = "before-%d" % call
        code = killed_before(call, run).returncode
        # Without a recipe the run has not begun, and the same command begins it.
        automatic = call % 2 or not os.path.exists(run + "/recipe.txt")
        done = fftrain(*CHANGES, "--out", run, "--resume", "auto") if automatic else fftrain("--resume", run)
        left = [name for name in os.listdir(run + "/checkpoints") if not (name in ("last", "best") or name[5:].isdigit())] if done.returncode in (0, 2) else []
        if code not in (0, -signal.SIGKILL) or (done.returncode and "the run is complete" not in done.stderr) or left or links(run) != links("unharmed") or \
                weights(run) != weights("unharmed") or {e["epoch"]: (e["val_loss"], e["train_loss"]) for e in epochs(run)} != result:
            bad.append((call, code, done.returncode, left, links(run), done.stderr[-300:]))
        shutil.rmtree(run)
    tap.ok(not bad, "killed before %d of %d calls that change something" % (kills, count), bad)


CHANGES = ["--data", "few", "--model", "smallnet", "--augment", "flip", "--batch", 20, "--threads", 1, "--epochs", 3, "--lr", 0.05, "--quiet",
           "--checkpoint-every", "1 step", "--keep", 2, "--hash-every", 1]
at_each_change()
done = fftrain(*COMMON, "--out", "whole")
if tap.ok(done.returncode == 0, "a run that is not killed", done.stderr):
    by_signal()
    by_the_kernel()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
