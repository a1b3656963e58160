"""Processes that answer a line of input with a line of JSON, and neither hang nor outlive their caller: every
answer has a deadline, and each runs in its own process group, which is killed as a whole."""
import atexit
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading


class Failed(Exception):
    """A server ended, was silent for too long, or did not print JSON."""


def end_group(process, patience=2.0):
    """Ends a process started with start_new_session, and whatever it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()


ALIVE = set()
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def with_parent():
    """Called in a new process, which then dies with the process that started it."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **more):
    """A process in a separate group, which ends with this program at the latest."""
    process = subprocess.Popen(command, start_new_session=True, text=True, errors="replace", preexec_fn=with_parent, **more)
    ALIVE.add(process)
    return process


def end_all():
    for process in list(ALIVE):
        if process.poll() is None:
            end_group(process)


atexit.register(end_all)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


class Server:
    def __init__(self, name, command, seconds, env=None):
        """Starts the process and waits at most `seconds` for its first line, `ready`."""
        self.name, self.lines, self.said = name, queue.Queue(), tempfile.TemporaryFile("w+", errors="replace")
        try:
            self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, env=env)
        except OSError as error:
            raise Failed(f"{name}: {error}") from None
        threading.Thread(target=self._listen, daemon=True).start()
        self.ready = self._answer(seconds)

    def _listen(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _answer(self, seconds):
        try:
            line = self.lines.get(timeout=max(seconds, 0.1))
        except queue.Empty:
            self.fail(f"no answer for {seconds:.0f} s")
        if line is None:
            self.fail(f"ended with {self.ended()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.fail(f"printed no JSON: {line.strip()[:80]!r}")
        return answer

    def fail(self, what):
        """Ends the process; the message has the end of its standard error."""
        self.ended(0.1)
        self.said.seek(0)
        last = [line.strip() for line in self.said.read()[-4000:].splitlines() if line.strip()][-1:]
        raise Failed(f"{self.name}: {what}{'; ' + last[0][:200] if last else ''}")

    def ask(self, line, seconds, *fields):
        """The answer to a line; `fields` must be in it."""
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass  # it ended, as the answer shows
        answer = self._answer(seconds)
        for field in fields:
            if field not in answer:
                self.fail(f"no '{field}' in {str(answer)[:80]}")
        return answer

    def steps(self, count, seconds):
        """Milliseconds a step."""
        return float(self.ask(count, seconds, "ms")["ms"]) / count

    def ended(self, patience=5):
        """Asks the process to end, and returns its exit code; waits at most this number of seconds."""
        ALIVE.discard(self.process)
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return end_group(self.process)

    def close(self):
        self.ended()
