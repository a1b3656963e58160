"""Processes that have less memory, or a slower disk, than the machine: in control groups (v1) of their own. Needs root."""
import os
import subprocess
import sys
import tempfile

FOLDERS = {"memory": "/sys/fs/cgroup/memory", "blkio": "/sys/fs/cgroup/blkio"}


class Limits:
    """With it, subprocess.Popen(..., preexec_fn=limits.enter). memory: bytes; read: bytes a second of the disk that `folder` is on."""

    def __init__(self, memory=None, read=None, folder="."):
        self.groups, self.takers = {}, []
        device = os.stat(folder).st_dev
        self.disk = "%d:%d" % (os.major(device), os.minor(device))
        try:
            if memory:
                self.write("memory", "memory.limit_in_bytes", str(memory))
            if read:
                self.write("blkio", "blkio.throttle.read_bps_device", "%s %d" % (self.disk, read))
        except OSError:
            self.close()
            raise

    def write(self, kind, name, value):
        if kind not in self.groups:
            self.groups[kind] = tempfile.mkdtemp(prefix="ff_test_", dir=FOLDERS[kind])
        with open(os.path.join(self.groups[kind], name), "w", encoding="ascii") as file:
            file.write(value)

    def take(self, size):
        """Starts a process of the group that takes so many bytes of its memory; returns when it has them."""
        taker = subprocess.Popen([sys.executable, "-c", "import sys; taken = bytearray(int(sys.argv[1])); print(flush=True); sys.stdin.read()", str(size)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=self.enter)
        taker.stdout.readline()
        self.takers.append(taker)

    def enter(self):
        for group in self.groups.values():
            with open(group + "/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")

    def close(self):
        for taker in self.takers:
            taker.communicate()
        for group in self.groups.values():
            os.rmdir(group)
        self.groups = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def missing(folder=".", **limits):
    """Why processes cannot be limited so here; None where they can."""
    if os.geteuid():
        return "control groups need root"
    try:
        Limits(folder=folder, **limits).close()
    except OSError as error:
        return "no control group (v1): %s" % error
    return None


def drop(folder):
    """The files of a folder leave the page cache, where nothing maps them."""
    for name in os.listdir(folder):
        file = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
