"""Processes that have less memory (memory_group.py), or a slower disk, than the machine; the disk by a control group of version 1. Needs root."""
import os
import subprocess
import sys
import tempfile

import memory_group

DISKS = "/sys/fs/cgroup/blkio"


class Limits:
    """With it, subprocess.Popen(..., preexec_fn=limits.enter). memory: bytes; read: bytes a second of the disk that `folder` is on."""

    def __init__(self, memory=None, read=None, folder="."):
        self.memory, self.disk, self.takers = memory and memory_group.MemoryGroup(memory), None, []
        if not read:
            return
        try:
            self.disk = tempfile.mkdtemp(prefix="ff_test_", dir=DISKS)
            device = os.stat(folder).st_dev
            memory_group.put(self.disk, "blkio.throttle.read_bps_device", "%d:%d %d" % (os.major(device), os.minor(device), read))
        except OSError:
            self.close()
            raise

    def take(self, size):
        """Starts a process of the group that takes this number of bytes of its memory; returns when it has them."""
        taker = subprocess.Popen([sys.executable, "-c", "import sys; taken = bytearray(int(sys.argv[1])); print(flush=True); sys.stdin.read()", str(size)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=self.enter)
        taker.stdout.readline()
        self.takers.append(taker)

    def enter(self):
        if self.memory:
            self.memory.enter()
        if self.disk:
            memory_group.put(self.disk, "cgroup.procs", 0)

    def close(self):
        for taker in self.takers:
            taker.communicate()
        if self.memory:
            self.memory.remove()
        if self.disk:
            os.rmdir(self.disk)

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
        return "no control group: %s" % error
    return None


def drop(folder):
    """The files of a folder leave the page cache, where nothing maps them."""
    memory_group.sync(folder)
    memory_group.drop(folder)
