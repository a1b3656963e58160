#!/usr/bin/python3
"""Memory limits of control groups of version 2, of this machine or not: fftrain in a mount namespace whose /sys/fs/cgroup and
/proc/self/cgroup are files of this test, laid out as Documentation/admin-guide/cgroup-v2.rst of the kernel says; and the tests' own
memory_group.py on such a folder. Prints TAP."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import memory_group  # noqa: E402
import runs  # noqa: E402
from runs import make  # noqa: E402

os.chdir(tempfile.mkdtemp())
MIB = 1 << 20
ENTER = 'mount --bind "$1" /sys/fs/cgroup && mount --bind "$2" /proc/$$/cgroup && shift 2 && exec "$@"'
NONE = {"memory.max": "max", "memory.high": "max", "memory.current": 9 * MIB}
# 8 MiB of what is used are page cache, which leaves 63 MiB for files.
LIMIT = {"memory.max": 64 * MIB, "memory.high": "max", "memory.current": 9 * MIB,
         "memory.stat": "anon %d\ninactive_file %d\nactive_file %d\n" % (MIB, 3 * MIB, 5 * MIB)}
HIGH = {**LIMIT, "memory.max": 640 * MIB, "memory.high": 64 * MIB}
FULL = {**LIMIT, "memory.max": 9 * MIB, "memory.stat": "anon %d\ninactive_file 0\nactive_file 0\n" % (9 * MIB)}
OLD = {"memory.limit_in_bytes": 64 * MIB, "memory.usage_in_bytes": 9 * MIB, "memory.stat": "total_inactive_file %d\ntotal_active_file %d\n" % (3 * MIB, 5 * MIB)}
LEFT = "left of its cgroup's limit"
CASES = [
    # name, /proc/self/cgroup, the groups' files, what is left for files in MiB (None: no limit), and whether the set is read directly
    ("its own group", "0::/a/b\n", {"a": NONE, "a/b": LIMIT}, 63, False),
    ("the group above", "0::/a/b\n", {"a": LIMIT, "a/b": NONE}, 63, False),
    ("three levels, the least in the middle", "0::/a/b/c\n", {"a": {**LIMIT, "memory.max": 80 * MIB}, "a/b": LIMIT, "a/b/c": {**LIMIT, "memory.max": 99 * MIB}}, 63, False),
    ("the root of a container", "0::/\n", {"": LIMIT}, 63, False),
    ("a container that sees the host's path", "0::/kubepods/pod1/c1\n", {"": LIMIT}, 63, False),
    ("a group outside of the namespace", "0::/../other\n", {"": LIMIT}, 63, False),
    ("memory.high", "0::/a\n", {"a": HIGH}, 63, False),
    ("memory.high without memory.max", "0::/a\n", {"a": {**HIGH, "memory.max": "max"}}, 63, False),
    ("a smaller limit than the set", "0::/a\n", {"a": {**LIMIT, "memory.max": 17 * MIB}}, 16, True),
    ("a limit that is reached", "0::/a\n", {"a": FULL}, 0, True),
    ("no limit", "0::/a/b\n", {"a": NONE, "a/b": NONE}, None, False),
    ("the controller is not enabled", "0::/a/b\n", {"a": {"cgroup.procs": ""}, "a/b": {"cgroup.procs": ""}}, None, False),
    ("version 1 beside version 2 without memory", "4:cpu:/x\n3:memory:/a\n0::/a\n", {"memory": NONE, "memory/a": OLD, "unified/a": {"cgroup.procs": ""}}, 63, False),
]


def lay_out(groups):
    shutil.rmtree("cgroup", ignore_errors=True)
    for group, files in groups.items():
        os.makedirs(os.path.join("cgroup", group), exist_ok=True)
        for name, text in files.items():
            memory_group.put(os.path.join("cgroup", group), name, text)


def inside(line, *command):
    with open("line", "w", encoding="ascii") as file:
        file.write(line)
    return subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, "sh", os.path.abspath("cgroup"), os.path.abspath("line"), *map(str, command)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **runs.ENVIRONMENT})


lay_out({"a": NONE})
if inside("0::/a\n", "true").returncode:
    tap.skip("limits of groups of version 2", "there can be no mount namespace: needs root")
else:
    make("set", "--count", 700, "--height", 128, "--width", 128, "--channels", 3, "--dtype", "u8", "--statistics") # 32.9 MiB
    for name, line, groups, left, direct in CASES:
        lay_out(groups)
        done = inside(line, runs.FFTRAIN, "--data", "set", "--val", "none", "--model", "smallnet", "--batch", 20, "--crop", 8, "--augment", "none",
                      "--epochs", 1, "--out", "none", "--dry-run")
        found = re.search(r"^reading +(mapped|read directly)[^:]*: the set has 3[0-9.]+ MiB, memory for files is ([0-9.]+) (bytes|B|KiB|MiB|GiB), (.*)$", done.stdout, re.M)
        if left is None:
            good = found and found[4] == "available"
        else:
            size = found and float(found[2]) * {"B": 1, "bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[found[3]] / MIB
            good = found and found[4].startswith(LEFT) and left - 0.3 <= size <= left # the batches' slots are in memory next to it
        tap.ok(good and (found[1] == "read directly") == direct, "limit of version 2: " + name, done.stdout)

# memory_group.py itself, on a folder of ordinary files. A kernel's folder has its files from the start, and vanishes with them.
shutil.rmtree("cgroup")
os.makedirs("cgroup")
memory_group.VERSION_1, memory_group.VERSION_2 = "no such folder", os.path.abspath("cgroup")
group = memory_group.MemoryGroup(5 * MIB)
files = {name: memory_group.text(group.path, name) for name in os.listdir(group.path)}
tap.ok(group.v2 and memory_group.text("cgroup", "cgroup.subtree_control") == "+memory" and files == {"memory.max": str(5 * MIB)},
       "MemoryGroup: enables the controller and sets memory.max", files)
memory_group.put(group.path, "memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n")
memory_group.put(group.path, "memory.stat", "anon %d\nfile %d\nshmem %d\nanon_thp 4096\n" % (MIB, 9 * MIB, MIB))
done = subprocess.run(group.inside(["echo", "inside"]), stdout=subprocess.PIPE, text=True)
pid = memory_group.text(group.path, "cgroup.procs").strip()
tap.ok(done.stdout == "inside\n" and pid.isdigit() and int(pid) > 1, "MemoryGroup: a command enters by its own number", pid)
group.enter()
tap.ok(memory_group.text(group.path, "cgroup.procs") == "0", "MemoryGroup: a process enters itself")
tap.ok(group.killed() == 3, "MemoryGroup: counts what the limit has killed", group.killed())
group.ends.wait = lambda seconds, ends=[False, True]: ends.pop(0)
group.watch()
tap.ok(group.peak == 2 * MIB, "MemoryGroup: the peak is what was written and is shared", group.peak)
tap.finish()
