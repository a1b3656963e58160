"""A memory cgroup for tests, of version 1 or 2: commands run in it under its limit, and it reports what they took."""
import os
import signal
import tempfile
import threading
import time

VERSION_1, VERSION_2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def text(*path):
    try:
        with open(os.path.join(*path), encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def put(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(str(value))


def number(lines, word):
    """The number after this word at the start of a line; 0 if there is none."""
    return next((int(line.split()[1]) for line in lines.splitlines() if line.split()[:1] == [word]), 0)


def read_bytes(process="self"):
    """What a process, and those that it has waited for, read from disks."""
    return number(text("/proc", str(process), "io"), "read_bytes:")


class MemoryGroup:
    """Raises OSError, with the reason, where this process may not make one. `with` it, the peak of its memory is watched, and its processes
    end with it."""

    def __init__(self, limit):
        self.v2 = not os.path.exists(VERSION_1 + "/memory.limit_in_bytes")
        if self.v2:
            put(VERSION_2, "cgroup.subtree_control", "+memory")
        self.path = tempfile.mkdtemp(prefix="ff_test_", dir=VERSION_2 if self.v2 else VERSION_1)
        self.peak, self.ends, self.watcher = 0, threading.Event(), None
        try:
            put(self.path, "memory.max" if self.v2 else "memory.limit_in_bytes", limit)
            for name, value in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit)):
                if os.path.exists(os.path.join(self.path, name)):
                    put(self.path, name, value)
        except OSError:
            self.remove()
            raise

    def enter(self):
        """For preexec_fn: the process and its children belong to the group."""
        put(self.path, "cgroup.procs", 0)

    def watch(self):
        """The peak of the memory that is not page cache: what its processes wrote, and what they share."""
        names = ("anon", "shmem") if self.v2 else ("total_rss", "total_shmem")
        while not self.ends.wait(0.05):
            lines = text(self.path, "memory.stat")
            self.peak = max(self.peak, sum(number(lines, name) for name in names))

    def inside(self, command):
        """The command that runs this one in the group."""
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.path, *map(str, command)]

    def processes(self):
        return [int(word) for word in text(self.path, "cgroup.procs").split()]

    def read_bytes(self):
        """What its processes have read from disks."""
        return sum(map(read_bytes, self.processes()))

    def killed(self):
        """How many processes the limit has killed."""
        return number(text(self.path, "memory.events" if self.v2 else "memory.oom_control"), "oom_kill")

    def kill(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def remove(self):
        """Ends its processes. They vanish from the group some time after their end."""
        for _ in range(200):
            self.kill()
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)

    def __enter__(self):
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.watcher.join()
        self.remove()


def files_of(path):
    """A file, or those of a folder."""
    return [path] if os.path.isfile(path) else [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]


def sync(path):
    """Writes a file, or those of a folder, to the disk, so that drop() can drop them."""
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def drop(path):
    """Takes a file, or those of a folder, out of the page cache; what is in no other process's memory."""
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
