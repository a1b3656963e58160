"""Processes that measure themselves on request, in rounds that alternate; rounds in which other processes used the processors are
repeated. A process reads lines with a number, and answers each with a line: seconds, and the rate (sides.py,
tests/programs/bench_library.c), or steps, and their times (train_step_peer.py, tests/programs/bench_train_step.c)."""
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
QUIET = float(os.environ.get("QUIET", "0.1")) # processors that others may use
DISTURBED = 0.3                                # more than that, and a result is not to be compared
TRIES = 3                                      # the most rounds, as a multiple of the wanted number


class Ended(RuntimeError):
    """A process that did not answer: its last line of errors, and its exit code."""

    def __init__(self, reason, code):
        super().__init__(reason)
        self.code = code


class Side:
    """A process that has started and answered once, so that its first compilation and memory accesses are done."""

    def __init__(self, command, amount, environment=None, first=0.2, read=float, patience=None):
        """amount: the number that each round passes on; first: that of the first round; read: makes a value of the answer; patience: the
        most seconds of a round."""
        self.amount, self.read, self.patience, self.errors = amount, read, patience, tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1,
                                        start_new_session=True, env=dict(os.environ, **(environment or {})))
        self.first = self.round(first)

    def round(self, amount=None):
        late = None
        try:
            self.process.stdin.write(f"{amount or self.amount}\n")
            if not select.select([self.process.stdout], [], [], self.patience)[0]:
                late = f"took more than {self.patience:g} seconds"
                raise ValueError
            return self.read(self.process.stdout.readline())
        except (OSError, ValueError):
            self.errors.seek(0)
            lines = self.errors.read().strip().splitlines()
            self.close(at_once=bool(late))
            raise Ended(late or (lines or ["ended without reporting why"])[-1][:200], self.process.returncode) from None

    def prioritize(self):
        """Real-time priority for all threads, so that a busy machine does not hold the rounds up. Needs root."""
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(50))

    def processor_time(self):
        """Processor seconds, workers included."""
        ticks = 0
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    words = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[2]) == self.process.pid:
                ticks += sum(map(int, words[11:15]))
        return ticks / TICK

    def close(self, at_once=False):
        """Ends the process, and what it started."""
        try:
            self.process.stdin.close()
            self.process.wait(0 if at_once else 10)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.errors.close()


def machine_time():
    """Seconds for which all processors of this machine were busy, or taken away from it."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def others_during(sides, act):
    """(what act() returns, processors that others than the sides used meanwhile)."""
    def others():
        return machine_time() - sum(side.processor_time() for side in sides.values())
    began, before = time.perf_counter(), others()
    result = act()
    return result, (others() - before) / (time.perf_counter() - began)


def one_round(sides):
    """({name: answer}, processors that others used meanwhile)."""
    return others_during(sides, lambda: {name: side.round() for name, side in sides.items()})


def alternate(sides, count, tries=TRIES):
    """({name: [answer of each round]}, processors that others used): the `count` quietest rounds."""
    rounds = []
    while len(rounds) < count * tries and sum(others < QUIET for _, others in rounds) < count:
        rounds.append(one_round(sides))
    rounds = sorted(rounds, key=lambda one: one[1])[:count]
    return {name: [rates[name] for rates, _ in rounds] for name in sides}, max(others for _, others in rounds)


def ratio(rates, of, to):
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(rates[of], rates[to]))
