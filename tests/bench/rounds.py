"""Processes that measure themselves on request, in rounds that alternate; rounds in which other processes used the processors are
repeated. A process reads lines of seconds and answers each with a number (sides.py, tests/programs/bench_library.c)."""
import os
import statistics
import subprocess
import tempfile

TICK = os.sysconf("SC_CLK_TCK")
QUIET = float(os.environ.get("QUIET", "0.1")) # processors that others may use
TRIES = 3                                      # the most rounds, as a multiple of the wanted number


class Side:
    """A process that has started and answered once, so that its first compilation and memory accesses are done."""

    def __init__(self, command, seconds, environment=None):
        self.seconds, self.errors = seconds, tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1,
                                        start_new_session=True, env=dict(os.environ, **(environment or {})))
        self.first = self.round(0.2)

    def round(self, seconds=None):
        try:
            self.process.stdin.write(f"{seconds or self.seconds}\n")
            return float(self.process.stdout.readline())
        except (OSError, ValueError):
            self.errors.seek(0)
            lines = self.errors.read().strip().splitlines()
            self.close()
            raise RuntimeError((lines or ["ended without reporting why"])[-1][:200]) from None

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

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def machine_time():
    """Seconds for which all processors of this machine were busy, or taken away from it."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def one_round(sides):
    """({name: rate}, processors that others used meanwhile)."""
    before = machine_time() - sum(side.processor_time() for side in sides.values())
    rates = {name: side.round() for name, side in sides.items()}
    others = machine_time() - sum(side.processor_time() for side in sides.values()) - before
    return rates, others / sum(side.seconds for side in sides.values())


def alternate(sides, count):
    """({name: [rate of each round]}, processors that others used): the `count` quietest rounds."""
    rounds = []
    while len(rounds) < count * TRIES and sum(others < QUIET for _, others in rounds) < count:
        rounds.append(one_round(sides))
    rounds = sorted(rounds, key=lambda one: one[1])[:count]
    return {name: [rates[name] for rates, _ in rounds] for name in sides}, max(others for _, others in rounds)


def ratio(rates, of, to):
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(rates[of], rates[to]))
