"""Kills ffpack at every write, fsync and rename of a tiny run, and replays each record on a disk that loses
what was not synced. Each state must be: no set, a whole set, or one that the same command completes to the
same bytes; a shard that was committed stays; after exit 0 the set is there. Then each fsync is removed from
the record in turn, and the same check must find a wrong state. TAP."""
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..")]
import tap  # noqa: E402
from disk_model import Disk, read_trace  # noqa: E402
from tap import files_of, ok  # noqa: E402

FFPACK, FFINSPECT = f"{tap.BUILD}/ffpack", f"{tap.BUILD}/ffinspect"
SHIM = tap.program("crash.so")


def make_source(path, train=5):
    os.makedirs(path)
    drawn = random.Random(5)
    for prefix, count in (("train", train), ("t10k", 3)):
        pixels = bytes(drawn.randrange(256) for _ in range(count * 400))
        with open(f"{path}/{prefix}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 20, 20) + pixels)
        with open(f"{path}/{prefix}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 3 for i in range(count)))


def write_tree(root, tree):
    for path in sorted(tree):
        full = os.path.join(root, path)
        if tree[path] is None:
            os.makedirs(full, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(tree[path])


def commands_of(folder):
    """{split: the commands in its history, None for a line that is none}."""
    found = {}
    for split in ("train", "test"):
        path = f"{folder}/{split}/history.jsonl"
        if os.path.exists(path):
            with open(path, "rb") as file:
                found[split] = [command_of(line) for line in file.read().split(b"\n")[:-1]]
    return found


def command_of(line):
    try:
        return json.loads(line)["command"]
    except (ValueError, KeyError):
        return None


class Scenario:
    """A command on a root folder with a state before it. `expected`: OUT afterwards; `before`: what
    OUT may hold instead at any moment (the old set of --force)."""

    def __init__(self, name, source, prepare, options):
        self.name, self.source, self.prepare, self.options = name, source, prepare, options
        self.work = tempfile.mkdtemp(prefix="ffcrash")
        self.verdicts = {}
        root = self.fresh()
        self.before = files_of(f"{root}/out") if os.path.exists(f"{root}/out") else None
        result = self.run(root)
        assert result.returncode == 0, result.stderr
        self.expected = files_of(f"{root}/out")
        assert self.expected and self.expected != self.before

    def fresh(self):
        root = tempfile.mkdtemp(dir=self.work)
        self.prepare(root)
        return root

    def command(self, root):
        return [FFPACK, self.source, "-o", f"{root}/out"] + self.options

    def run(self, root, **environment):
        return subprocess.run(self.command(root), capture_output=True, text=True,
                              env={**os.environ, **environment})

    def traced(self, root, at=0, torn=False):
        trace = f"{root}.trace"
        environment = {"LD_PRELOAD": SHIM, "FF_CRASH_ROOT": root, "FF_CRASH_TRACE": trace,
                       "FF_CRASH_AT": str(at)}
        if torn:
            environment["FF_CRASH_TORN"] = "1"
        result = self.run(root, **environment)
        return result, read_trace(trace)

    def judge(self, root, finished):
        """None where the state below root is correct, else what is wrong."""
        out = f"{root}/out"
        if os.path.exists(out):
            found = files_of(out)
            if found != self.expected and found != self.before:
                return "OUT is neither the old set nor the new one"
            if subprocess.run([FFINSPECT, out, "--verify"], capture_output=True).returncode:
                return "OUT does not verify"
            if finished and found != self.expected:
                return "exit 0, but the old set is there"
        elif finished:
            return "exit 0, but no set is there"
        elif self.before is not None:
            return "the old set is gone"
        if finished:
            left = [name for name in os.listdir(root) if name.endswith(".partial")]
            return f"exit 0, but {left[0]} is there" if left else None
        if os.path.exists(out) and files_of(out) == self.expected and "--force" not in self.options:
            return None
        again = self.run(root)
        if again.returncode:
            return f"the same command fails: {again.stderr.strip()}"
        if files_of(out) != self.expected:
            return "the same command gives other bytes"
        return None

    def synced_before(self, name):
        """Whether a file from before the command is synced."""
        return True

    def is_needed(self, path):
        """Whether leaving out a sync of this path must be found."""
        return True

    def judge_tree(self, tree, finished):
        key = hashlib.sha256(repr((sorted(tree.items()), finished)).encode()).digest()
        if key not in self.verdicts:
            root = tempfile.mkdtemp(dir=self.work)
            write_tree(root, tree)
            self.verdicts[key] = self.judge(root, finished)
            shutil.rmtree(root)
        return self.verdicts[key]

    def disk_before(self, root):
        disk = Disk(root)
        clean = tempfile.mkdtemp(dir=self.work)
        self.prepare(clean)
        for folder, _, files in os.walk(clean):
            here = root + folder[len(clean):]
            if folder != clean:
                disk.apply("M", here, b"", 0)
            for name in files:
                disk.apply("O", f"{here}/{name}", b"c", 0)
                disk.apply("W", f"{here}/{name}", open(f"{folder}/{name}", "rb").read(), 0)
                if self.synced_before(name):
                    disk.apply("S", f"{here}/{name}", b"", 0)
        for changes in disk.pending:
            disk.last(changes)
        disk.pending, disk.commits, disk.promised = [], [], []
        return disk

    def replay(self, root, operations, left_out=None, all_points=True, finished=True):
        """The first wrong state as a message, or None; and how many states were judged."""
        disk, states = self.disk_before(root), 0
        for number, operation in enumerate(operations):
            if number == left_out:
                continue
            disk.apply(*operation)
            last = number == len(operations) - 1
            if not all_points and not last:
                continue
            for description, tree, missing in disk.crash_states():
                states += 1
                ended = finished and last
                why = self.judge_tree(tree, ended)
                if not why and missing and not ended:
                    why = f"{missing} committed file(s) would be lost"
                if why:
                    return (f"after operation {number + 1} ({operation[0]} {operation[1]}), "
                            f"{description}: {why}"), states
        if finished and left_out is not None and left_out == len(operations) - 1:
            for description, tree, _ in disk.crash_states():
                why = self.judge_tree(tree, True)
                if why:
                    return f"at the end, {description}: {why}", states
        return None, states

    def test(self):
        root = self.fresh()
        result, operations = self.traced(root)
        ok(result.returncode == 0 and len(operations) > 10, f"{self.name}: a recorded run succeeds",
           result.stderr)
        kinds = {kind: sum(op[0] == kind for op in operations) for kind in "WSR"}
        wrong = []
        for at in range(1, len(operations) + 1):
            for torn in (False, True):
                if torn and operations[at - 1][0] != "W":
                    continue
                killed = self.fresh()
                result, _ = self.traced(killed, at, torn)
                assert result.returncode == -signal.SIGKILL, (at, result)
                why = self.judge(killed, False)
                if why:
                    wrong.append(f"killed at {at}: {why}")
                shutil.rmtree(killed)
        ok(not wrong, f"{self.name}: killed at each of {len(operations)} operations {kinds}",
           "; ".join(wrong[:3]))
        why, states = self.replay(root, operations)
        ok(why is None, f"{self.name}: {states} crash states of a disk that drops unsynced writes", why)
        syncs = [i for i, operation in enumerate(operations) if operation[0] == "S" and self.is_needed(operation[1])]
        blind = [f"{i + 1} ({operations[i][1][len(root):] or '/'})" for i in syncs
                 if self.replay(root, operations, left_out=i)[0] is None]
        ok(not blind, f"{self.name}: leaving out any one of {len(syncs)} fsyncs is found",
           "not needed, it seems: " + ", ".join(blind))
        shutil.rmtree(self.work)


class Merge(Scenario):
    """Parts next to OUT that have just been copied: their bytes are not on the disk yet. They are copied again
    before the same command is repeated."""

    def command(self, root):
        return [FFPACK, "merge", f"{root}/out", f"{root}/part2", f"{root}/part1"] + self.options

    def synced_before(self, name):
        return False

    def judge(self, root, finished):
        clean = self.fresh()
        for part in ("part1", "part2"):
            shutil.rmtree(f"{root}/{part}", ignore_errors=True)
            shutil.move(f"{clean}/{part}", f"{root}/{part}")
        return super().judge(root, finished)


class Complete(Merge):
    """Parts next to OUT that counted while they were packed: their shards are completed where they are. The same command is repeated with
    what a crash left of them."""

    def synced_before(self, name):
        return True

    def is_needed(self, path):
        return not ("/part" in path and path.endswith(".ffs")) # was synced before its last rename

    def judge(self, root, finished):
        return Scenario.judge(self, root, finished)


class Copy(Scenario):
    """A new set from a packed one, which is the source."""

    def command(self, root):
        return [FFPACK, "copy", self.source, "-o", f"{root}/out", "--jobs", "1"] + self.options


class Append(Scenario):
    """OUT exists: each split is as before, perhaps with shards that no index names, or as after the append."""

    def command(self, root):
        return [FFPACK, "append", f"{root}/out", self.source, "--jobs", "1", "--allow-duplicates"] + self.options

    def judge(self, root, finished):
        found = files_of(f"{root}/out") if os.path.exists(f"{root}/out") else {}
        for split, commands in commands_of(f"{root}/out").items():
            if commands != ["pack", "append"] and (finished or commands != ["pack"]):
                return f"the history of {split} has {commands}"
        if found == self.expected:
            return None
        if finished:
            return "exit 0, but OUT is not the new generation"
        for split in ("train", "test"):
            own = {name: data for name, data in found.items() if name.startswith(split + "/")}
            new = {name: data for name, data in self.expected.items() if name.startswith(split + "/")}
            old = {name: data for name, data in self.before.items() if name.startswith(split + "/")}
            if own != new and {name: own.get(name) for name in old} != old:
                return f"{split} is neither the old generation nor the new one"
        if subprocess.run([FFINSPECT, f"{root}/out", "--verify"], capture_output=True).returncode:
            return "OUT does not verify"
        again = self.run(root)
        if again.returncode:
            return f"the same command fails: {again.stderr.strip()}"
        return None if files_of(f"{root}/out") == self.expected else "the same command gives other bytes"


def main():
    if not os.path.exists(SHIM):
        ok(False, "the crash shim is built", SHIM)
        tap.finish()
    if tap.SANITIZE:
        tap.skip("a killed disk", "a preloaded shim and a sanitizer do not go together")
        tap.finish()
    work = tempfile.mkdtemp(prefix="ffcrash")
    source = f"{work}/source"
    make_source(source)
    options = ["--jobs", "1", "--shard-size", "4096"]

    def old_set(root):
        done = subprocess.run([FFPACK, source, "-o", f"{root}/out", "--dtype", "u8"] + options,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    if tap.SHORT:
        Scenario("new set", source, lambda root: None, options).test()
    if tap.LONG:
        Scenario("zstd", source, lambda root: None, options + ["--compress", "zstd"]).test()
    # Two shards of train: they must be completed in order.
    longer = f"{work}/longer"
    make_source(longer, 12)
    raw = options + ["--dtype", "u8"]
    if tap.LONG:
        Scenario("u8, counted while it is packed", longer, lambda root: None, raw).test()
        Scenario("u8 and zstd", longer, lambda root: None, raw + ["--compress", "zstd"]).test()
    if tap.SHORT:
        Scenario("--force over an old set", source, old_set, options + ["--force"]).test()

    def parts(root, source=source, options=options):
        for i in (1, 2):
            done = subprocess.run([FFPACK, source, "-o", f"{root}/part{i}", "--part", f"{i}/2"] + options,
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def first_generation(root):
        done = subprocess.run([FFPACK, source, "-o", f"{root}/out"] + options, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    if tap.SHORT:
        Append("append", source, first_generation, []).test()
    if tap.LONG:
        Merge("merge", source, parts, []).test()
        Complete("merge of parts that counted", longer, lambda root: parts(root, longer, raw), []).test()
        packed = f"{work}/packed"
        subprocess.run([FFPACK, source, "-o", packed, *raw], capture_output=True, check=True)
        Copy("copy", packed, lambda root: None, ["--dtype", "f16"]).test()
        Copy("copy with --force over an old set", packed, old_set, ["--dtype", "f32", "--force"]).test()
    shutil.rmtree(work)
    tap.finish()


main()
