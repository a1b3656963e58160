"""Jobs of several ranks: --ranks, torchrun and mpirun; how they find each other, and how they end when one is lost,
with tests/programs/rank_job.c. FF_KILLS: how many ranks are killed at random (6). Arguments: the tests to run."""
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import HOST, MPIRUN, Job, find, free_port, has_torchrun, side_by_side, torchrun, variables_of  # noqa: E402

JOB = tap.program("rank_job")
SLOW = 10 if tap.SANITIZE else 1
BOUND = 8 * SLOW  # seconds to end, beyond the time in which a silent rank is lost


def start(*arguments, before=(), variables=None):
    return Job(*before, JOB, *arguments, variables=variables)


def alone(rank, size, port, *arguments, **where):
    """One rank, with the variables of a torchrun."""
    return start(*arguments, variables=variables_of(rank, size, port, **where))


def met(job):
    """Waits until rank 0 reports that all ranks have met."""
    while not re.search("ranks after|^$", job.process.stdout.readline()):
        pass


def connect(port):
    """To rank 0, once it waits there."""
    for _ in range(500 * SLOW):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise TimeoutError("nobody waits at port %d" % port)


def check(job, name, code, seconds, *patterns, where="err"):
    """Ended in time with this exit code, each pattern in what it said, and nothing left."""
    said = getattr(job.end(), where)
    missing = [pattern for pattern in patterns if not re.search(pattern, said, re.M)]
    tap.ok(job.code in (code if isinstance(code, tuple) else (code,)) and job.seconds < seconds and not job.left and
           not missing, name, "%s\nnot said: %s" % (job, missing))


def test_starts():
    for count in 1, 2, 4, 8:
        job = start("--ranks", count)
        check(job, "%d ranks start and end" % count, 0, 30 * SLOW,
              r"\Arank 0 is here\nfftrain: %d ranks after [0-4]\.\d+ s\ndone\n\Z" % count, where="out")
    for address in "localhost", "::1", "127.0.0.1", socket.gethostname():
        port = free_port()
        jobs = [alone(rank, 2, port, address=address) for rank in range(2)]
        tap.ok([job.end().code for job in jobs] == [0, 0], "rank 0 is found at %s" % address,
               "\n".join(map(str, jobs)))


def test_faults():
    """Every kind of end, of rank 0 and of another."""
    said = {"kill": (1, "was lost: it ended without reporting why"), "exit": (1, "was lost: it ended without reporting why"),
            "report": (1, "failed: out of memory"), "leave": (1, "ended before the others"),
            "stop": (1, "was lost: it was silent for 2 s")}
    for kind, (code, sentence) in said.items():
        for rank, count in (0, 2), (3, 4), (0, 4):
            job = start("--ranks", count, "--timeout", 2 * SLOW, "--fault", "%d:%s:5" % (rank, kind))
            sentence = sentence.replace("2 s", "%g s" % (2 * SLOW))
            name = r"rank %d \(host %s, process \d+\) %s$" % (rank, HOST, re.escape(sentence))
            heard = ["rank_job: " + name] if rank else []
            heard += [r"^rank %d: rank_job: %s" % (other, name) for other in range(1, count) if other != rank]
            # A stopped rank is silent once, and ended when all others have.
            check(job, "%s of rank %d of %d is told by all others" % (kind, rank, count), code, 3.9 * SLOW, *heard)
    job = start("--ranks", 3, "--steps", 2, "--pause", 3500 * SLOW, "--timeout", 2 * SLOW)
    check(job, "ranks that have long nothing to say are not lost", 0, 20 * SLOW)


def test_comings():
    """Ranks that do not fit together, each with a sentence on both sides."""
    def both(name, first, second, wanted_first, wanted_second, codes=(1, 1)):
        # The second may be known to the first only when it is reported.
        for job, wanted, code, which in ((first, wanted_first, codes[0], "the first"),
                                         (second, wanted_second, codes[1], "the other")):
            check(job, "%s: %s" % (name, which), code, 3 * SLOW + BOUND, wanted)

    short = ("--timeout", 2 * SLOW)
    port = free_port()
    other = r"rank 1 \(host %s, process \d+\) was started as one of 3 ranks, rank 0 \(.*\) as one of 2" % HOST
    both("sizes disagree", alone(0, 2, port, *short), alone(1, 3, port, *short), other, other)

    port = free_port()
    first, one = alone(0, 3, port, *short), alone(1, 3, port, *short)
    time.sleep(0.3 * SLOW)
    twice = r"rank 1 comes twice: as rank 1 \(.*process \d+\) and as rank 1 \(.*process \d+\)$"
    both("a rank comes twice", first, alone(1, 3, port, *short), twice, twice)
    check(one, "a rank comes twice: the one that was there", 1, 3 * SLOW + BOUND, twice)

    port = free_port()
    both("two ranks 0", alone(0, 2, port, *short), alone(0, 2, port, *short),
         "(rank 1 of 2 did not come within|port %d of this machine.* is in use)" % port,
         "(rank 1 of 2 did not come within|port %d of this machine.* is in use)" % port)

    port = free_port()
    jobs = [alone(rank, 2, port, "--steps", 400, *short) for rank in range(2)]
    met(jobs[0])
    check(alone(1, 2, port, *short), "a rank that comes twice when the job has begun is refused", 1, BOUND,
          "rank 1 comes twice: .*; the job has begun")
    for job in jobs:
        check(job, "and the job continues", 0, 60 * SLOW)

    port = free_port()
    stranger = "rank 1 .* belongs to job 'torchrun y %d', rank 0 .* to 'torchrun x %d'" % (port - 1, port - 1)
    both("a rank of another job", alone(0, 2, port, *short), alone(1, 2, port, *short, run="y"),
         "rank 1 of 2 did not come within .* s; refused: " + stranger, stranger)

    port = free_port()
    both("a rank that comes late", alone(0, 3, port, *short),
         alone(2, 3, port, *short, "--fault", "2:late:%d" % (3000 * SLOW)), "ranks 1, 2 of 3 did not come within 2",
         "rank 0 does not answer at 127.0.0.1, port %d: Connection refused" % port)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        check(alone(0, 2, port, *short), "a port in use", 1, BOUND, "port %d of this machine.* is in use" % port)


def message(kind, body=b""):
    return struct.pack("<IIQ", 0x31636666, kind, len(body)) + body


def test_strangers():
    """What connects to rank 0 and is not a rank."""
    port = free_port()
    jobs = [alone(0, 2, port, "--timeout", 5 * SLOW)]
    strangers = []
    for data in (b"GET / HTTP/1.0\r\n\r\n", b"", message(5, b"not a greeting"), message(1, b"short"),
                 struct.pack("<IIQ", 0x31636666, 1, 1 << 62), os.urandom(4000)):
        stranger = connect(port)
        stranger.sendall(data)
        strangers.append(stranger)
    time.sleep(0.2 * SLOW)
    jobs.append(alone(1, 2, port, "--timeout", 5 * SLOW))
    codes = [job.end().code for job in jobs]
    tap.ok(codes == [0, 0], "strangers and their bytes do not disturb a job", "\n".join(map(str, jobs)))
    for stranger in strangers:
        stranger.close()

    port = free_port()
    job = alone(0, 2, port, "--timeout", 5 * SLOW)
    with connect(port) as rank:
        rank.settimeout(10)
        rank.sendall(message(1, struct.pack("<III", 1, 2, 77) + b"h\0" b"9.9\0" b"torchrun x %d\0" % (port - 1)))
        answer = rank.recv(4096)
    version = r"rank 1 \(host h, process 77\) is fftrain 9\.9, rank 0 \(.*\) is fftrain \d"
    check(job, "another version is refused", 1, BOUND, version)
    tap.ok(answer[4] in (3, 8) and re.search(version, answer[16:].decode()), "and told why", repr(answer))


def test_signals():
    names = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "SIGINT", signal.SIGUSR1: "SIGUSR1"}
    for number, name in names.items():
        job = start("--ranks", 3, "--steps", 100000, "--pause", 10)
        job.ranks(3)
        time.sleep(0.3 * SLOW)
        job.process.send_signal(number)
        check(job, "%s stops all ranks at one step" % name, 75, 30 * SLOW,
              r"^rank_job: stopped by %s at step (\d+)\n(.*\n)*rank 1: rank_job: stopped by %s at step \1$|"
              r"rank 1: rank_job: stopped by %s at step (\d+)\n(.*\n)*rank_job: stopped by %s at step \3$"
              % (name, name, name, name), "the ranks stopped after a checkpoint")
    job = start("--ranks", 3, "--steps", 100000)
    job.ranks(3)
    time.sleep(0.3 * SLOW)
    os.killpg(job.process.pid, signal.SIGTERM)  # as timeout(1) and a terminal's Ctrl-C do
    check(job, "a signal to the launcher's process group comes once", 75, 30 * SLOW, "stopped by SIGTERM at step")
    job = start("--ranks", 3, "--steps", 100000)
    ranks = job.ranks(3)
    time.sleep(0.3 * SLOW)
    os.kill(ranks[2], signal.SIGTERM)
    check(job, "a signal to one rank stops all", 75, 30 * SLOW, "stopped by SIGTERM at step")
    job = start("--ranks", 4, "--steps", 100000)
    job.ranks(4)
    job.process.kill()
    for _ in range(100 * SLOW):
        left = find(job.tag)
        time.sleep(0.02)
    tap.ok(not left, "no rank outlives a launcher that was killed", left)
    for process in left:
        os.kill(process, signal.SIGKILL)
    job.end()
    job = start("--ranks", 3, "--steps", 200, "--timeout", 2 * SLOW)
    ranks = job.ranks(3)
    time.sleep(0.2 * SLOW)
    job.process.send_signal(signal.SIGTSTP)
    time.sleep(3 * SLOW)
    states = [open("/proc/%d/stat" % process).read().rsplit(")", 1)[1].split()[0] for process in ranks]
    tap.ok(states == ["T"] * 3, "a terminal's stop stops all", states)
    job.process.send_signal(signal.SIGCONT)
    check(job, "and they continue, though the time in which a silent rank is lost has passed", 0, 30 * SLOW)


def test_own_pause():
    """All are stopped for longer than a silent rank is waited for; one continues first, and has heard nothing in that time."""
    for alone_first in 0, 1:
        job = start("--ranks", 3, "--steps", 300, "--timeout", 2 * SLOW)
        ranks = job.ranks(3)
        met(job)
        one, others = ranks[alone_first], [process for rank, process in enumerate(ranks) if rank != alone_first]
        for wait, number, which in ((0.1, signal.SIGSTOP, others), (3, signal.SIGSTOP, [one]), (0.3, signal.SIGCONT, [one]),
                                    (0, signal.SIGCONT, others)):
            for process in which:
                with contextlib.suppress(ProcessLookupError):  # one that was lost
                    os.kill(process, number)
            time.sleep(wait * SLOW)
        check(job, "rank %d does not take its own pause for the others' silence" % alone_first, 0, 30 * SLOW)


def test_kills():
    """Ranks killed or stopped at random moments, once all have met."""
    kills = int(os.environ.get("FF_KILLS", "6"))
    seed = int(os.environ.get("FF_SEED", "0")) or random.randrange(1 << 30)
    dice = random.Random(seed)
    bad = []
    for i in range(kills):
        count = dice.choice((2, 3, 4, 8))
        rank = dice.randrange(count)
        number = dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
        job = start("--ranks", count, "--steps", 100000, "--timeout", 2 * SLOW, "--pause", dice.choice((0, 1, 20)))
        ranks = job.ranks(count)
        if ranks:
            met(job)
        time.sleep(dice.random() * 0.3)
        if not ranks:
            bad.append("%d: no ranks" % i)
            continue
        os.kill(ranks[rank], number)
        job.began = time.monotonic()
        job.end()
        name = r"^%srank_job: rank %d \(host %s, process %d\) was lost: it (ended without reporting why|was silent)" % (
            "" if rank else "rank 1: ", rank, HOST, ranks[rank])
        others = len(re.findall(r"rank_job: rank %d .* was lost" % rank, job.err))
        if job.code != 1 or job.left or job.seconds > 2 * SLOW + BOUND or others != count - 1 or \
                not re.search(name, job.err, re.M):
            bad.append("%d: signal %d to rank %d of %d: %s" % (i, number, rank, count, job))
    tap.ok(not bad, "%d ranks killed or stopped at random moments (FF_SEED=%d)" % (kills, seed), "\n".join(bad))


def test_launcher(name, before, skip_reason):
    if skip_reason:
        for what in "starts 3 ranks", "kill", "stop", "report":
            tap.skip("%s: %s" % (name, what), skip_reason)
        return
    family = {"torchrun": "torchrun", "mpirun": "Open MPI"}[name]
    said = {"kill": "was lost: it ended without reporting why", "report": "failed: out of memory", "stop": "was lost: it was silent for"}
    whole = start("--timeout", 20, before=before())
    # A launcher that sees the end of a killed rank first ends the others, and names the rank itself.
    launcher = {"kill": r"|noticed that process rank 2 with PID \d+"}
    jobs = {kind: start("--timeout", 2 * SLOW, "--fault", "2:%s:5" % kind, before=before()) for kind in said}
    check(whole, "%s: starts 3 ranks" % name, 0, 60 * SLOW, "%s: 3 ranks after" % family, "done", where="out")
    for kind, job in jobs.items():
        check(job, "%s: %s of a rank is told by the others" % (name, kind), (1, 137), 60 * SLOW,
              r"rank_job: rank 2 \(host %s, process \d+\) %s%s" % (HOST, said[kind], launcher.get(kind, "")))


def test_torchrun():
    test_launcher("torchrun", lambda: torchrun(3), "" if has_torchrun() else "torch is not installed, or its torchrun starts nothing")


def test_mpirun():
    test_launcher("mpirun", lambda: [*MPIRUN, "3"], "" if shutil.which("mpirun") else "mpirun is not installed")


def test_no_network():
    job = start("--ranks", 3, variables={"LD_PRELOAD": tap.program("no_network.so")})
    check(job, "ranks that --ranks starts need no network", 0, 30 * SLOW, "^fftrain: 3 ranks after", where="out")


def test_two_launchers():
    variables = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "h",
                 "MASTER_PORT": "9"}
    check(start("--ranks", 2, variables=variables), "--ranks within another launcher's job is refused", 2, BOUND,
          "--ranks 2: torchrun has started this process as rank 1 of 2")


TESTS = [test_torchrun, test_faults, test_signals, test_own_pause, test_comings, test_kills, test_starts, test_strangers,
         test_mpirun, test_two_launchers, test_no_network]  # the longest first
side_by_side(test for test in TESTS if len(sys.argv) < 2 or test.__name__ in sys.argv[1:])
tap.finish()
