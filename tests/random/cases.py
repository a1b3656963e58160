"""Draws cases, runs them, and shrinks a case that is wrong to the shortest one that is wrong in the same way.

A kind of case is a module with
    CHOICES     {name: [value, ...]}, the plainest value first
    EVEN        names whose values are drawn equally often; of the other names the plainest value is drawn most often
    run(case)   runs {name: value, ..., "seed": N} in the current folder, which is empty, and raises Wrong where something is wrong;
                shell() runs the commands, so that a report can show them
"""
import errno
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", CUDA_VISIBLE_DEVICES="", LC_ALL="C.UTF-8")
PLAIN = 0.85  # the probability of the plainest value
SPACE = 200 << 20  # bytes that a case may need on the disk
commands = []


class NoSpace(Exception):
    """The machine's disk is full: no fault of a program."""


class Wrong(Exception):
    """What is wrong: `word` stays the same while a case shrinks, `details` are of one case."""

    def __init__(self, word, *details):
        super().__init__(word, *details)
        self.word = word

    def __str__(self):
        return "%s: %s" % (self.word, "; ".join(map(str, self.args[1:])))


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return "exit %d, %r %r" % (self.code, self.out[-300:], self.err[-600:])

    def says(self, *words):
        """Whether one of the words is in the answer."""
        answer = (self.out + self.err).lower()
        return any(word.lower() in answer for word in words)


def shell(program, *arguments, stop=None, full=False, largest=None, preload=None):
    """Runs a program of the build. stop: seconds until the program gets a SIGTERM; full: its output goes to a full device; largest: bytes that
    a file may have; preload: a library of the build's tests."""
    words = [str(word) for word in arguments]
    more = {"LD_PRELOAD": tap.program(preload)} if preload else {}
    commands.append("".join("%s=%s " % one for one in more.items()) + " ".join(map(shlex.quote, [program, *words])) +
                    (" > /dev/full" if full else "") + (" & sleep %.2f; kill $!" % stop if stop is not None else ""))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    with open("/dev/full", "w", encoding="utf-8") as device:
        process = subprocess.Popen([os.path.join(tap.BUILD, program), *words], text=True, errors="surrogateescape",
                                   stdout=device if full else subprocess.PIPE, stderr=subprocess.PIPE, env=dict(ENVIRONMENT, **more),
                                   preexec_fn=limit if largest else None)
    try:
        out, err = process.communicate(timeout=120 if stop is None else stop)
    except subprocess.TimeoutExpired:
        if stop is None:
            process.kill()
            process.communicate()
            raise Wrong("hangs", commands[-1]) from None
        process.terminate()
        out, err = process.communicate(timeout=60)
    if "No space left" in err and not full and shutil.disk_usage(".").free < SPACE:
        raise NoSpace(err.strip())
    before_it_listened = stop is not None and process.returncode == -signal.SIGTERM and not err
    if process.returncode < 0 and not before_it_listened or "Sanitizer" in err:
        raise Wrong("crashes", commands[-1], process.returncode, err[-600:])
    return Ended(process.returncode, out or "", err)


def refused(done, program):
    """Raises Wrong unless the command that failed said why in one sentence."""
    lines = [line for line in done.err.splitlines() if line]
    if done.code not in (2, 65, 74) or not lines or not lines[-1].startswith(program + ": ") or len(lines[-1]) < 20:
        raise Wrong("a refusal that is not a sentence", done)


def draw(kind, seed):
    dice = random.Random(seed)
    case = {name: values[0] if dice.random() < PLAIN and name not in kind.EVEN else dice.choice(values) for name, values in kind.CHOICES.items()}
    return dict(case, seed=seed)


def attempt(kind, case):
    """What is wrong with a case, or None."""
    del commands[:]
    before, folder = os.getcwd(), tempfile.mkdtemp()
    os.chdir(folder)
    try:
        kind.run(case)
    except Wrong as wrong:
        return wrong
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise NoSpace(str(error)) from None
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
    return None


def shrink(kind, case, wrong, until=float("inf")):
    """Replaces values by plainer ones as long as the case stays wrong with the same word."""
    changed = True
    while changed and time.monotonic() < until:
        changed = False
        for name, values in kind.CHOICES.items():
            for value in values[:values.index(case[name])]:
                again = attempt(kind, dict(case, **{name: value}))
                if again and again.word == wrong.word:
                    case, wrong, changed = dict(case, **{name: value}), again, True
                    break
    attempt(kind, case)
    return case, wrong


def told(kind, case):
    """The values of a case that are not plain, and its seed."""
    return {name: value for name, value in case.items() if name == "seed" or value != kind.CHOICES[name][0]}


def search(kind, seconds, first, most):
    """Draws at most `most` cases, with the seeds from `first` on. Returns how many, and [(case, Wrong, commands)] with one case for each word."""
    began, found, count = time.monotonic(), {}, 0
    while time.monotonic() - began < seconds and count < most:
        case = draw(kind, first + count)
        count += 1
        wrong = attempt(kind, case)
        if wrong and wrong.word not in found:
            case, wrong = shrink(kind, case, wrong, began + 2 * seconds)
            found[wrong.word] = (told(kind, case), wrong, list(commands))
    return count, list(found.values())
