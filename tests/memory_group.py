"""A memory cgroup for tests, of version 1 or 2."""
import os
import tempfile

VERSION_1, VERSION_2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class MemoryGroup:
    """Raises OSError, with the reason, where this process may not make one."""

    def __init__(self, limit):
        if os.path.exists(VERSION_1 + "/memory.limit_in_bytes"):
            root, name, self.events = VERSION_1, "memory.limit_in_bytes", "memory.oom_control"
        elif os.path.exists(VERSION_2 + "/cgroup.controllers"):
            root, name, self.events = VERSION_2, "memory.max", "memory.events"
            with open(root + "/cgroup.subtree_control", "w", encoding="ascii") as file:
                file.write("+memory")
        else:
            raise OSError("there are no memory cgroups")
        self.path = tempfile.mkdtemp(prefix="ff_test_", dir=root)
        try:
            self._write(name, limit)
            if os.path.exists(self.path + "/memory.swap.max"):
                self._write("memory.swap.max", 0)
        except OSError:
            self.remove()
            raise

    def _write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def enter(self):
        """For preexec_fn: the process and its children belong to the group."""
        self._write("cgroup.procs", 0)

    def killed(self):
        """How many processes the kernel has killed as the group had no memory left."""
        with open(os.path.join(self.path, self.events), encoding="ascii") as file:
            return int(dict(line.split() for line in file)["oom_kill"])

    def remove(self):
        """After all its processes have ended."""
        os.rmdir(self.path)
