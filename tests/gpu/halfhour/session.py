"""One phase's clock, processes and results.

Every process is a group of its own with a time limit: the one it was given, or what is left of the phase. A
failure of our own programs makes the phase fail; being cut off at the phase's end does not, and a peer's
failure never does. Results are lines of JSON in OUT/results.jsonl, written as they come; processes' output
is in OUT/PHASE.log. OUT has at most eight files of at most 16 MiB, for all phases together."""
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time

import servers

SECONDS = {"first": 60, "probe": 240, "tune": 480, "cifar": 300, "steps": 480}
LOG_BYTES = 12 << 20    # of a phase's log
GROUP_BYTES = 1 << 20   # of one process in it
PLAN_BYTES = 15 << 20   # of plans.tar.gz
CLOSING = 3             # seconds kept for the table and the plans


class Result:
    """A process's output and how it ended. code: None where it did not start."""

    def __init__(self, name):
        self.name, self.code, self.lines, self.seconds, self.timed_out, self.cut = name, None, [], 0.0, False, False

    @property
    def good(self):
        return self.code == 0 and not self.timed_out

    def json_lines(self):
        found = []
        for line in self.lines:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found

    def last_line(self):
        return next((line.strip()[:300] for line in reversed(self.lines) if line.strip()), "")


class Session:
    def __init__(self, phase, options):
        self.phase, self.options = phase, options
        self.began = time.monotonic()
        self.limit = min(SECONDS[phase] * options.scale, options.minutes * 60) - CLOSING * min(options.scale * 4, 1)
        self.failures, self.measured, self.table, self.verdict = [], 0, [], None
        self.out, self.work, self.programs = (os.path.abspath(path) for path in (options.out, options.work, options.programs))
        for folder in (self.out, self.work):
            os.makedirs(folder, exist_ok=True)
        self.results_path = os.path.join(self.out, "results.jsonl")
        self.results = open(self.results_path, "a")
        self.log_file = open(os.path.join(self.out, f"{phase}.log"), "a", errors="replace")
        self.cache = os.path.join(self.work, "plan-cache")
        self.fill_cache()
        self.environment = {**os.environ, "FFPACK_PLAN_CACHE": self.cache, "TMPDIR": self.work}
        self.log({"begins": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "limit_seconds": round(self.limit, 1), "argv": sys.argv[1:]})

    # ---- the clock, the results ----

    def left(self):
        return self.limit - (time.monotonic() - self.began)

    def log(self, event):
        self.results.write(json.dumps({"phase": self.phase, "at": round(time.monotonic() - self.began, 1), **event}) + "\n")
        self.results.flush()

    def tag(self):
        """For scripts that write into the same results."""
        return json.dumps({"phase": self.phase})

    def say(self, text):
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def row(self, text):
        """A row of the table that is printed last; it is in the results at once."""
        self.table.append(text[:300])
        self.log({"row": text[:300]})

    def fail(self, what):
        self.failures.append(what)
        self.row(f"FAILED: {what}")
        self.log({"failed": what})

    def skip(self, what):
        self.row(f"skipped: {what}")
        self.log({"skipped": what})
        self.say(f"skipped: {what}")

    # ---- processes ----

    def program(self, name):
        """Its path, or None where it is missing."""
        path = os.path.join(self.programs, name)
        return path if os.access(path, os.X_OK) else None

    def write_log(self, text):
        if self.log_file.tell() < LOG_BYTES:
            self.log_file.write(text)
            self.log_file.flush()

    def run(self, name, command, seconds, ours=True, show=False, good_codes=(0,)):
        """Runs a process for at most `seconds` (scaled) and no longer than the phase. `show`: its
        lines are printed as they come."""
        result, asked = Result(name), seconds * self.options.scale
        limit = min(asked, self.left())
        if limit <= 0.2:
            result.cut = True
            self.skip(f"{name}: no time left")
            return result
        self.write_log(f"==== {name}: {' '.join(map(str, command))}\n")
        began, lines, written = time.monotonic(), queue.Queue(), 0
        try:
            process = servers.start([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    env=self.environment, cwd=self.work)
        except OSError as error:
            self.write_log(f"{error}\n")
            if ours:
                self.fail(f"{name}: {error}")
            return result
        threading.Thread(target=listen, args=(process, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=max(limit - (time.monotonic() - began), 0.01))
            except queue.Empty:
                result.timed_out = True
                break
            if line is None:
                break
            written += len(line)
            if written < GROUP_BYTES:
                result.lines.append(line.rstrip("\n"))
                self.write_log(line)
            if show:
                print(line, end="", flush=True)
        result.code = servers.end_group(process) if result.timed_out else process.wait()
        servers.ALIVE.discard(process)
        result.seconds = time.monotonic() - began
        result.cut = result.timed_out and limit < asked
        self.log({"group": name, "ours": ours, "code": result.code, "process_seconds": round(result.seconds, 2), "timed_out": result.timed_out, "cut": result.cut})
        self.judge(result, ours, good_codes)
        return result

    def judge(self, result, ours, good_codes):
        state = "was cut off, the phase ends" if result.cut else f"was stopped after {result.seconds:.0f} s" if result.timed_out else \
            "ok" if result.code in good_codes else f"exit code {result.code}: {result.last_line()}"
        self.say(f"{result.name}: {state} ({result.seconds:.1f} s)")
        if result.code in good_codes and not result.timed_out:
            self.measured += ours
        elif result.cut:
            self.row(f"cut off: {result.name}")
        elif ours:
            self.fail(f"{result.name}: {state}")
        else:
            self.row(f"peer: {result.name}: {state}")

    # ---- plans ----

    def fill_cache(self):
        """Engines compiled in advance, and those that an earlier phase saved."""
        os.makedirs(self.cache, exist_ok=True)
        ahead = os.path.join(os.path.dirname(self.programs), "plans")
        for name in sorted(os.listdir(ahead)) if os.path.isdir(ahead) else []:
            self.unpack(os.path.join(ahead, name), keep=True)
        self.carried = {name: os.path.getmtime(os.path.join(self.cache, name)) for name in os.listdir(self.cache)}
        for archive in self.options.plans or []:
            self.unpack(archive, keep=False)

    def unpack(self, archive, keep):
        """Engines of an archive into the cache; `keep`: those that are there stay."""
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    name = os.path.basename(member.name)
                    path = os.path.join(self.cache, name)
                    if member.isfile() and re.fullmatch(r"[A-Za-z0-9._-]+", name) and not (keep and os.path.exists(path)):
                        with open(path, "wb") as to:
                            shutil.copyfileobj(tar.extractfile(member), to)
        except (OSError, tarfile.TarError, EOFError) as error:  # they are chosen again
            self.skip(f"engines of {archive}: {error}")

    def keep_plans(self):
        """The cache as OUT/plans.tar.gz; what came with the bundle is left out."""
        names = sorted(name for name in os.listdir(self.cache) if self.carried.get(name) != os.path.getmtime(os.path.join(self.cache, name)))
        path = os.path.join(self.out, "plans.tar.gz")
        if not names:
            return
        with tarfile.open(path + ".partial", "w:gz") as tar:
            for name in names:
                if os.path.getsize(path + ".partial") > PLAN_BYTES:
                    self.skip(f"plans from {name} on: plans.tar.gz would be too large")
                    break
                tar.add(os.path.join(self.cache, name), arcname=name)
        os.replace(path + ".partial", path)

    def close(self):
        """Prints the table; the exit code: 0 measured, 1 something of ours failed, 3 nothing ran."""
        try:
            self.keep_plans()
        except OSError as error:
            self.fail(f"plans.tar.gz: {error}")
        code = 1 if self.failures else 0 if self.measured else 3
        if code == 3:
            self.row("nothing was measured")
        if self.verdict:
            self.row(f"verdict: {self.verdict}")
        self.log({"ends": code, "measured": self.measured, "failures": self.failures})
        text = "\n".join(self.table)
        print(f"\n==== {self.phase}: {time.monotonic() - self.began:.0f} s, {self.measured} of ours ran, {len(self.failures)} failed")
        print(text if len(text) < 11000 else text[:4000] + "\n...\n" + text[-6900:], flush=True)
        return code


def listen(process, lines):
    for line in process.stdout:
        lines.put(line)
    lines.put(None)
