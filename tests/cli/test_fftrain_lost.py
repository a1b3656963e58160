#!/usr/bin/python3
"""fftrain as a job of ranks, one of which is killed, stopped, out of memory, late or does not fit the others: how the job ends, and that it
continues to the same bits. FF_KILLS: how many are killed at random moments (4). Arguments: the tests to run. Prints TAP."""
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import HOST, MPIRUN, Job, free_port, has_torchrun, side_by_side, torchrun, variables_of  # noqa: E402
from runs import ENVIRONMENT, FFTRAIN, make  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)
SLOW = 10 if tap.SANITIZE else 1
TIMEOUT = 3 * SLOW  # of a silent rank
BOUND = TIMEOUT + 10 * SLOW
SEED = int(os.environ.get("FF_SEED", "0")) or random.randrange(1 << 30)
print("# FF_SEED=%d" % SEED)
RUN = ["--model", "smallnet", "--batch", 20, "--epochs", 5, "--augment", "crop=2,flip", "--threads", 1, "--quiet", "--checkpoint-every", "2 steps",
       "--keep", 2, "--rank-timeout", TIMEOUT]
SHARED = ("/dev/shm", "/run/lock")


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
LOCK = threading.Lock()


def whole(count):
    """The bits of a run of this number of ranks that was not stopped, and how long it takes once all have begun."""
    with LOCK:
        return WHOLE.get(count) or run_whole(count)


def run_whole(count):
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
    """What is wrong with a run that resumes from what was left of it; "" where nothing is."""
    if not os.path.exists(run + "/recipe.txt"):
        return ""  # it was lost before it began
    job = start("--resume", run, "--ranks", count).end()
    if job.code == 2 and "the run is complete" in job.err:
        job.code = 0
    if job.code or bits(run) != whole(count)[0]:
        return "--resume: other bits\n%s" % job
    return "--resume leaves %s" % names_of(run) if names_of(run) else ""


def lost(rank, process, how):
    """The sentences that name a lost rank: of a survivor that knew it, of one that never met it, of the starter, which is the only one that
    tells where the others had done all."""
    return r"fftrain: rank %d \(host %s, process %d\) was lost: it %s|" % (rank, HOST, process, how) + \
        r"fftrain: ranks? (\d+, )*%d(, \d+)* of \d+ did not come|" % rank + \
        (r"fftrain: rank 0 does not answer|" if rank == 0 else "") + \
        r"rank %d was ended by signal|process rank %d with PID .* on\s+signal|" % (rank, rank) + \
        r"<NO_OTHER_FAILURES>\n(?:.*\n)+.*rank +: %d \(local_rank: \d+\)\n.*exitcode +: -9 " % rank


def test_kills():
    kills, dice = int(os.environ.get("FF_KILLS", "4")), random.Random(SEED)
    before = shared()
    bad, late, slowest, said, stuck = [], 0, 0, 0, 0
    for i in range(kills):
        launcher, count = dice.choice(sorted(LAUNCHERS)), dice.choice((2, 3))
        rank, at = dice.randrange(count), dice.random()
        run = "kill-%d" % i
        first, after = LAUNCHERS[launcher](count)
        seconds = whole(count)[1]
        job = start("--data", "set", *RUN, *after, "--out", run, before=first)
        ranks = job.ranks(count)
        time.sleep(at * 1.1 * seconds)
        try:
            os.kill(ranks[rank], signal.SIGKILL)
        except (IndexError, ProcessLookupError):  # it has ended, or never began, as the code then tells
            pass
        job.began = time.monotonic()
        job.end()
        if launcher == "mpirun" and job.stuck:  # about one in 300: Open MPI 4.1's own, in PMIx_server_finalize, when all ranks have ended
            stuck, job.code, job.seconds = stuck + 1, 1, 0
        slowest = max(slowest, job.seconds)
        what = "%d: rank %d of %d of %s after %.0f %%" % (i, rank, count, launcher, 110 * at)
        if job.code == 0:
            late += 1  # it had done all
        elif job.code not in ((1, 137) if launcher == "mpirun" else (1,)) or job.left or job.seconds > BOUND or \
                not ranks or not re.search(lost(rank, ranks[rank], "ended without reporting why"), job.err):
            bad.append("%s: %s" % (what, job))
        said += bool(re.search(r"was lost: it ended", job.err))
        wrong = goes_on(run, count) if os.path.exists(run) else ""
        if wrong:
            bad.append("%s: %s\n%s" % (what, wrong, job))
        shutil.rmtree(run, ignore_errors=True)
    left = shared() - before
    for _ in range(600):  # that of jobs at the same time is there until they end
        left &= shared()
        if not left:
            break
        time.sleep(0.1)
    if left:
        bad.append("left in shared memory: %s" % left)
    tap.ok(not bad and stuck <= 1 + kills // 50, "%d ranks killed at random moments" % kills, "\n".join(bad))
    print("# %d after the end, the slowest end after %.1f s, %d told by a survivor; mpirun itself was stuck %d times" % (late, slowest, said, stuck))


def check(job, name, code, seconds, *patterns):
    """Ended in time with this exit code, with each sentence, and nothing is left."""
    job.end()
    missing = [pattern for pattern in patterns if not re.search(pattern, job.err, re.M)]
    return tap.ok(job.code in (code if isinstance(code, tuple) else (code,)) and job.seconds < seconds and not job.left and not missing, name,
                  "%s\nnot said: %s" % (job, missing))


def wait_for(run, job):
    """Until the run has a checkpoint."""
    for _ in range(600 * SLOW):
        if os.path.exists(run + "/checkpoints/last") or job.process.poll() is not None:
            return
        time.sleep(0.02)


def test_stop():
    for launcher in sorted(set(LAUNCHERS) - {"torchrun"}):  # that waits 30 s before it ends one that is stopped
        for rank in 0, 2:
            run = "stop-%s-%d" % (launcher.strip("-"), rank)
            first, after = LAUNCHERS[launcher](3)
            job = start("--data", "set", *RUN, *after, "--out", run, before=first)
            ranks = job.ranks(3)
            wait_for(run, job)
            os.kill(ranks[rank], signal.SIGSTOP)
            job.began = time.monotonic()
            check(job, "%s: rank %d is stopped" % (launcher, rank), (1, 137), BOUND,
                  r"fftrain: rank %d \(host %s, process %d\) was lost: it was silent for %d s" % (rank, HOST, ranks[rank], TIMEOUT))
            wrong = goes_on(run, 3)
            tap.ok(not wrong, "%s: and the run continues to the same bits" % launcher, wrong)


def test_terminated():
    """As launchers do that end the other ranks after a loss."""
    for rank in 0, 1:
        port, run = free_port(), "terminated-%d" % rank
        jobs = [alone(i, 2, port, "--data", "set", *RUN, "--out", run) for i in range(2)]
        wait_for(run, jobs[0])
        jobs[rank].process.kill()
        jobs[1 - rank].process.terminate()
        jobs[rank].end()
        check(jobs[1 - rank], "a rank that gets SIGTERM after the loss of rank %d names that" % rank, 1, BOUND,
              lost(rank, jobs[rank].process.pid, "ended without reporting why"))


def test_memory():
    """An allocation fails in one rank, which tells it."""
    faults = os.path.join(tap.BUILD, "tests", "faults.so")
    if tap.SANITIZE:
        tap.skip("a rank out of memory", "the sanitizer's allocator")
        return
    run, dice = ["--data", "set", *RUN], random.Random(SEED)

    def pair(rank, run_to, **variables):
        port = free_port()
        return [alone(i, 2, port, *run, "--out", run_to, **(variables if i == rank else {})) for i in range(2)]

    for rank in 0, 1:
        for job in pair(rank, "counted-%d" % rank, LD_PRELOAD=faults, FF_FAULT="alloc", FF_FAULT_COUNT=os.path.join(PLACE, "count")):
            job.end()
        count = int(open("count").read())
        for i in range(2):
            at = dice.randrange(count // 20, count // 2)
            jobs = pair(rank, "memory-%d-%d" % (rank, i), LD_PRELOAD=faults, FF_FAULT="alloc", FF_FAULT_AT=str(at))
            name = "rank %d has no memory at allocation %d of %d" % (rank, at, count)
            job = jobs[rank].end()
            if job.code == 0:  # of a report
                tap.ok(jobs[1 - rank].end().code == 0, name + ", does without", jobs[1 - rank])
                continue
            check(jobs[1 - rank], name, 1, BOUND,
                  r"fftrain: rank %d \(host %s, process %d\) failed: .*(memory|alloc)|" % (rank, HOST, job.process.pid) +
                  lost(rank, job.process.pid, "ended without reporting why"))


def test_others():
    """A rank that is not like the others."""
    make("other", "--count", 400, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics", "--seed", 9)
    with open(FFTRAIN, "rb") as program, open("fftrain-of-another-version", "wb") as file:
        file.write(program.read().replace(b"0.1.0\0", b"0.1.9\0"))
        program.seek(0)
        with open("fftrain-of-another-build", "wb") as other:
            other.write(program.read() + b"built elsewhere")
    os.chmod("fftrain-of-another-version", 0o755)
    os.chmod("fftrain-of-another-build", 0o755)
    run, data = [*RUN, "--out", "none"], ["--data", "set"]
    named = r"fftrain: rank 1 \(host %s, process \d+\) failed: " % HOST
    for name, words, program, sentences, codes in [
            ("another training set", ["--data", "other", "--val", "set/test"], FFTRAIN, [named + "it has another training set than rank 0$"], (1, 1)),
            ("another validation set", [*data, "--val", "other/test"], FFTRAIN, [named + "it has another validation set than rank 0$"], (1, 1)),
            ("other options", [*data, "--lr", 0.1], FFTRAIN, [named + "it has other options than rank 0: lr = 0.1, not lr = 0.0625$"], (1, 1)),
            ("an option that is none", [*data, "--bacth", 3], FFTRAIN, [named + "unknown option --bacth"], (1, 2)),
            ("a set that is not there", ["--data", "nowhere"], FFTRAIN, [named + "nowhere: no such folder; every rank opens it at this path$"], (1, 74)),
            ("a run that is not there", ["--resume", "nowhere"], FFTRAIN, [named + "--resume nowhere: No such.*; every rank opens it at this path$"],
             (1, 74)),
            ("another build", data, os.path.join(PLACE, "fftrain-of-another-build"), [named + "it has another build of fftrain than rank 0$"],
             (1, 1)),
            ("another version", data, os.path.join(PLACE, "fftrain-of-another-version"),
             [r"rank 1 \(host %s, process \d+\) is fftrain 0.1.9, rank 0 \(.*\) is fftrain 0.1.0" % HOST], (1, 1))]:
        port = free_port()
        jobs = [alone(0, 2, port, *data, *run), alone(1, 2, port, *words, *(RUN if "--resume" in words else run), program=program)]
        check(jobs[0], "a rank with %s: rank 0" % name, codes[0], BOUND, *sentences)
        check(jobs[1], "a rank with %s: that rank" % name, codes[1], BOUND, sentences[0].replace(named, "") if codes[1] == 2 else "fftrain: ")


def test_other_weights():
    """What only the checksums of the parameters tell."""
    whole(2)
    steps = sorted(name for name in os.listdir("whole-2/checkpoints") if name.startswith("step-"))
    port = free_port()
    jobs = [alone(i, 2, port, "--data", "set", *RUN, "--out", "none", "--weights", "whole-2/checkpoints/" + steps[i]) for i in range(2)]
    for i in range(2):
        check(jobs[i], "a rank with other weights: rank %d" % i, 1, BOUND,
              r"fftrain: rank 1 \(host %s, process %d\) failed: it has other parameters after step 0 than rank 0$" % (HOST, jobs[1].process.pid))


def test_evaluation():
    """A signal to one rank while all evaluate."""
    os.mkdir("long")
    for split, count in ("train", 40), ("test", 20000):
        make("long/" + split, "--count", count, "--height", 12, "--width", 12, "--statistics")
    for how in ["--ranks", 2], ["--dp", "cpu,cpu"]:
        run = "evaluated-" + how[0].strip("-")
        job = start("--data", "long", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--threads", 1, "--quiet", "--views", 6,
                    "--hash-every", 1, "--out", run, *how)
        process = job.ranks(2)[1] if how[0] == "--ranks" else job.process.pid
        while job.process.poll() is None and not (os.path.exists(run + "/hashes.jsonl") and '"step":2' in open(run + "/hashes.jsonl").read()):
            time.sleep(0.01)
        os.kill(process, signal.SIGTERM)
        check(job, "%s: SIGTERM while ranks evaluate" % how[0], 75, 60 * SLOW, "fftrain: stopped by SIGTERM after step 2 of 2 .*--resume continues from")
        tap.ok('"event":"epoch"' not in open(run + "/log.jsonl").read(), "%s: it is not finished before" % how[0], job)
        job = start("--resume", run, "--views", 1, *how)
        check(job, "%s: and evaluate again" % how[0], 0, 60 * SLOW, "resumes from .* after step 2 of 2")
        tap.ok(open(run + "/log.jsonl").read().count('"event":"epoch"') == 1, "%s: once" % how[0])


def test_fails_alone():
    """Rank 0 alone writes; the others, which wait for it, hear that it cannot."""
    open("file", "w").close()
    for launcher in [*sorted(LAUNCHERS), "--dp"]:
        first, after = LAUNCHERS[launcher](2) if launcher in LAUNCHERS else ([], ["--dp", "cpu,cpu"])
        job = start("--data", "set", *RUN, *after, "--out", "none", "--tensorboard", "file/events", before=first)
        check(job, "%s: rank 0 alone fails" % launcher, (1, 74), 60 * SLOW, "fftrain: file/events: cannot create: Not a directory",
              *([] if launcher == "--dp" else [r"fftrain: rank 0 \(host %s, process \d+\) failed: file/events: cannot create" % HOST]))


def test_comings():
    """Ranks that do not meet."""
    run = ["--data", "set", *RUN, "--out", "none"]
    port = free_port()
    jobs = [alone(0, 2, port, *run), alone(1, 3, port, *run)]
    for i in range(2):
        check(jobs[i], "world sizes disagree: rank %d" % i, 1, BOUND,
              r"rank 1 \(host %s, process \d+\) was started as one of 3 ranks, rank 0 \(.*\) as one of 2" % HOST)

    port = free_port()
    jobs = [alone(rank, 3, port, *run) for rank in (0, 1, 1)]
    for i in range(3):
        check(jobs[i], "rank 1 comes twice: process %d" % i, 1, BOUND, r"rank 1 comes twice: as rank 1 \(.*process \d+\) and as rank 1 \(")

    port = free_port()
    check(alone(0, 2, port, *run), "rank 1 comes too late: rank 0", 1, BOUND, "fftrain: rank 1 of 2 did not come within %d s" % TIMEOUT)
    check(alone(1, 2, port, *run), "rank 1 comes too late: rank 1", 1, BOUND, "fftrain: rank 0 does not answer at 127.0.0.1, port %d" % port)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        check(alone(0, 2, port, *run), "a port in use", 1, BOUND,
              "port %d of this machine, at which rank 0 waits for the others, is in use: end the program that has it" % port)

    check(alone(1, 2, port, *run, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_RANK="0",
                OMPI_COMM_WORLD_LOCAL_SIZE="4"), "variables of two launchers", 2, BOUND,
          "torchrun has rank 1 of 2 .* Open MPI has rank 0 of 4 .*: unset the variables of one launcher")


def test_gpus():
    """On simulated GPUs, with NCCL's stand-in."""
    simulated, run = tap.program("fftrain_sim"), ["--data", "set", "--model", "smallnet", "--batch", 20, "--epochs", 1, "--quiet", "--out", "none"]
    old = {"LD_LIBRARY_PATH": os.path.join(tap.BUILD, "tests"), "FF_NCCL_SIM_VERSION": "21306"}
    for how in ["--dp", "0,1"], ["--ranks", 2]:
        check(Job(simulated, *run, *how, variables=old), "%s: an NCCL that is too old" % how[0], 1, 60 * SLOW,
              r"^fftrain: .*rank 0: NCCL 2\.13\.6 is too old; 2\.14 or newer is needed: install libnccl2")
    check(Job(simulated, *run, "--dp", "0,7"), "--dp with a GPU that is not there", 1, 60 * SLOW, "^fftrain: .*cuda:7: there are 2 simulated GPUs")


def test_restarts():
    """torchrun starts the same command again. The run is long enough that it is not at its end before it is killed twice."""
    if "torchrun" not in LAUNCHERS:
        return
    run, dice = ["--data", "set", *RUN, "--epochs", 40], random.Random(SEED)
    straight = start(*run, "--ranks", 2, "--out", "straight").end()
    job = start(*run, "--resume", "auto", "--out", "again", before=torchrun(2, restarts=2))
    for _ in range(2):
        ranks = job.ranks(2)
        wait_for("again", job)
        time.sleep(0.3)
        if not ranks:
            tap.ok(False, "torchrun starts the ranks", job.end())
            return
        os.kill(dice.choice(ranks), signal.SIGKILL)
        while any(os.path.exists("/proc/%d/maps" % process) and open("/proc/%d/maps" % process).read() for process in ranks):
            time.sleep(0.1)
    check(job, "torchrun starts a job again, which continues", 0, 60, "fftrain: resumes from .*, after step")
    tap.ok(straight.code == job.code == 0 and bits("again") == bits("straight"), "to the same bits", job)


TESTS = [test_restarts, test_kills, test_stop, test_fails_alone, test_memory, test_others, test_comings, test_evaluation, test_terminated,
         test_other_weights, test_gpus]  # the longest first
side_by_side(test for test in TESTS if len(sys.argv) < 2 or test.__name__ in sys.argv[1:])
os.chdir("/")
shutil.rmtree(PLACE)
tap.finish()
