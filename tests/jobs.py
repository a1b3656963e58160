"""Shared by the tests of ranks: jobs and single ranks as processes, what they said and what is left of them."""
import atexit
import concurrent.futures
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

HOST = re.escape(socket.gethostname())
LAUNCHERS = re.compile("^(FFTRAIN|OMPI|PMI|PMIX|SLURM|MPI|TORCHELASTIC|MASTER|RANK|WORLD|LOCAL|GROUP|ROLE)(_|$)")
CLEAN = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
CLEAN["USE_LIBUV"] = "0"  # Debian 13's PyTorch is built without libuv, and its torchrun asks for it
RANK = (b"FFTRAIN_RANK", b"OMPI_COMM_WORLD_RANK", b"RANK")
# A temporary folder for each: of two that start at once, Open MPI 4.1 may fail to make the one that they share.
FOLDERS = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDERS, ignore_errors=True)
MPIRUN = ["sh", "-c", 'TMPDIR=$(mktemp -d -p "%s") exec mpirun "$@"' % FOLDERS, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
PORTS = set()  # that free_port has returned


def find(tag):
    """{process: its environment} of the processes that have this tag and are no zombies."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % process, "rb") as file:
                variables = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
        except OSError:
            continue
        if variables.get(b"FF_TAG") == tag.encode():
            found[int(process)] = variables
    return found


class Job:
    """A started job or rank; end() waits for it: code, out, err, seconds, and left, what is left of it. stuck: only its launcher was."""

    def __init__(self, *command, variables=None, cwd=None):
        self.tag = uuid.uuid4().hex
        self.began = time.monotonic()
        self.process = subprocess.Popen([str(word) for word in command], text=True, cwd=cwd, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True,
                                        env={**CLEAN, "FF_TAG": self.tag, **(variables or {})})

    def end(self, timeout=120, ends_by=signal.SIGKILL):
        self.stuck = False
        try:
            self.out, self.err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.stuck = list(find(self.tag)) == [self.process.pid]
            for process in find(self.tag):
                os.kill(process, ends_by)
            self.out, self.err = self.process.communicate()
        self.code = self.process.returncode
        self.seconds = time.monotonic() - self.began
        self.left = []
        for _ in range(400):  # a launcher may end a moment before its ranks
            self.left = list(find(self.tag))
            if not self.left:
                break
            time.sleep(0.05)
        for process in self.left:
            os.kill(process, signal.SIGKILL)
        return self

    def ranks(self, count):
        """[process of each rank], once they run."""
        for _ in range(6000):
            found = {}
            for process, variables in find(self.tag).items():
                for name in RANK:
                    if name in variables:
                        found[int(variables[name])] = process
            if len(found) == count:
                return [found[rank] for rank in range(count)]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        return []

    def __str__(self):
        return "exit %s after %.2f s, left %s\n%s%s" % (self.code, self.seconds, self.left, self.out, self.err)


def is_free(port):
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    """A port at which nobody waits, nor at the next one, which ranks under torchrun take; another one each time, and none that the system
    gives to connections of its own choice."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000, 2)
        if port not in PORTS and is_free(port) and is_free(port + 1):
            PORTS.add(port)
            return port


def side_by_side(tests):
    """Runs functions whose jobs mostly wait, some at a time."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for running in [pool.submit(test) for test in tests]:
            running.result()


def variables_of(rank, size, port, address="127.0.0.1", run="x"):
    """Of one rank, as of torchrun; rank 0 waits at `port`."""
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": address, "MASTER_PORT": str(port - 1), "TORCHELASTIC_RUN_ID": run}


def torchrun(count, restarts=0):
    # -r and -t: torch 1.13 takes their default for nothing in Python 3.11.
    return [*TORCHRUN, "--no_python", "-r", "9:1", "-t", "9:1", "--nproc_per_node", str(count), "--master_port", str(free_port()),
            "--max_restarts", str(restarts)]


def has_torchrun():
    """Debian 13's cannot start anything: its store wants libuv, without which its PyTorch was built."""
    probe = "import torch.distributed as d; d.TCPStore('127.0.0.1', 0, 1, True, wait_for_workers=False)"
    return subprocess.run([TORCHRUN[0], "-c", probe], env=CLEAN, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
