#!/usr/bin/python3
"""Every allocation and every call to the system that ffpack makes, failed one at a time
(tests/shims/faults.c): it ends with one message and the right exit code, OUT is absent or whole, and the
same command then gives the bytes of an undisturbed run. Transfers cut short or interrupted change nothing.
FF_FAULTS=all tries every point, otherwise every nth, from a random one on; FF_CASES=append,repair only
these cases."""
import concurrent.futures
import errno
import gzip
import io
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, ".."))
import tap  # noqa: E402
from tap import files_of, ok  # noqa: E402

if tap.SANITIZE:
    tap.skip("faults", "the sanitizers have their own malloc")
    tap.finish()
try:
    import numpy
    from PIL import Image
except ImportError as missing:
    tap.skip("faults", "this Python has no %s" % missing.name)
    tap.finish()

FFPACK = os.path.join(tap.BUILD, "ffpack")
FFINSPECT = os.path.join(tap.BUILD, "ffinspect")
SHIM = os.path.join(tap.BUILD, "tests", "faults.so")
ALL = os.environ.get("FF_FAULTS") == "all"
ONLY = os.environ.get("FF_CASES", "").split(",")
SEED = int(os.environ.get("FF_SEED", random.randrange(1 << 30)))
print("# seed %d (FF_SEED)" % SEED)
random.seed(SEED)
scratch = tempfile.mkdtemp(prefix="faults-")
os.chdir(scratch)


def run(arguments, **fault):
    environment = dict(os.environ)
    if fault:
        environment.update({"FF_" + name: str(value) for name, value in fault.items()}, LD_PRELOAD=SHIM)
    done = subprocess.run([FFPACK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    return done.returncode, done.stderr.decode(errors="replace")


# ---- sources, as small as possible ---------------------------------------------------------------

values = numpy.random.RandomState(1).randint(0, 256, (4, 20, 17, 3), dtype=numpy.uint8)
for i, name in enumerate(["a/1.jpg", "a/2.png", "b/1.png", "b/x.jpg"]):
    os.makedirs(os.path.dirname("folder/" + name), exist_ok=True)
    Image.fromarray(values[i]).save("folder/" + name)
for name, mode in [("folder.tar", "w"), ("folder.tar.gz", "w:gz")]:
    with tarfile.open(name, mode) as tar:
        tar.add("folder", "top")
os.mkdir("idx")
for name in ["train", "t10k"]:  # the end of train is committed while t10k is packed
    with gzip.open("idx/%s-images-idx3-ubyte.gz" % name, "wb") as out:
        out.write(struct.pack(">IIII", 0x803, 4, 6, 5) + values[0].tobytes()[:120])
    with gzip.open("idx/%s-labels-idx1-ubyte.gz" % name, "wb") as out:
        out.write(struct.pack(">II", 0x801, 4) + bytes([0, 1, 2, 1]))
with tarfile.open("cifar.tar.gz", "w:gz") as tar:
    for name in [*("cifar-10-batches-bin/data_batch_%d.bin" % i for i in range(1, 6)), "cifar-10-batches-bin/test_batch.bin"]:
        entry = tarfile.TarInfo(name)
        data = b"".join(bytes([i]) + numpy.random.RandomState(i).bytes(3072) for i in range(1))
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
for number in range(2):
    with tarfile.open("web-%d.tar" % number, "w") as tar:
        for name in ["a/1.jpg", "a/2.png"]:
            for extension, data in [(name[3:], open("folder/" + name, "rb").read()), (".json", b'{"label": "%d"}' % number)]:
                entry = tarfile.TarInfo(name[2] + extension)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
with open("list.csv", "w") as out:
    out.write("path,name,tags:multi-hot,box,split\nfolder/a/1.jpg,x,a;b,1 2 3 4 5,val\nfolder/b/1.png,y,c,5 6 7 8 9,train\n")

pickled = {"labels": [0, 1, 2, 1], "data": numpy.random.RandomState(5).randint(0, 256, (4, 3072), dtype=numpy.uint8)}
with tarfile.open("python.tar.gz", "w:gz") as tar:
    for name, value in [*(("data_batch_%d" % i, pickled) for i in range(1, 6)), ("test_batch", pickled), ("batches.meta", {"label_names": list("abc")})]:
        data = pickle.dumps(value, protocol=2)
        entry = tarfile.TarInfo("cifar-10-batches-py/" + name)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
numpy.savez_compressed("arrays.npz", x_train=numpy.asfortranarray(values.astype(">u2")), y_train=numpy.eye(4, dtype="f4"))
numpy.save("mine.npy", values)
numpy.save("mine_labels.npy", numpy.arange(4))

with tarfile.open("web.tar.gz", "w:gz") as tar:
    for i in range(3):
        data = io.BytesIO()
        Image.fromarray(values[i]).save(data, "PNG")
        for name, data in [("class/%d.png" % i, data.getvalue()), ("class/%d.cls" % i, b"%d" % (i % 2))]:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

IMAGES = ["--resize", "16x16"]
FIRST = ("a folder", "a .tar.gz", "IDX", "append", "repair")  # in the short part
CASES = [
    ("a folder", ["folder", *IMAGES, "--shard-size", "4K"]),
    ("a folder, zstd", ["folder", *IMAGES, "--compress", "zstd", "--shuffle", "3"]),
    ("a folder as u8", ["folder", *IMAGES, "--dtype", "u8", "--compress", "zstd", "--shard-size", "4K"]),
    ("a tar", ["folder.tar", *IMAGES]),
    ("a .tar.gz", ["folder.tar.gz", *IMAGES, "--shard-size", "4K"]),
    ("a WebDataset", ["web-{0..1}.tar", *IMAGES]),
    ("a WebDataset .tar.gz", ["web.tar.gz", *IMAGES]),
    ("a list", ["list.csv", *IMAGES]),
    ("IDX", ["idx"]),
    ("CIFAR in a .tar.gz", ["cifar.tar.gz", "--dtype", "u8"]),
    ("CIFAR's pickles in a .tar.gz", ["python.tar.gz"]),
    ("an .npz", ["arrays.npz", "--range", "0,255", "--stats", "compute"]),
    ("an .npy", ["mine.npy"]),
]


def points(total, each):
    if ALL or total <= each:
        return list(range(1, total + 1))
    step = -(-total // each)
    return list(range(1 + random.randrange(step), total + 1, step))


class Pack:
    """A new set."""

    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments

    def prepare(self, out):
        pass

    def command(self, out):
        return [*self.arguments, "-o", out, "-j1"]

    def wrong_after(self, out, said, wanted):
        """What is wrong after a command that failed."""
        if os.path.exists(out):  # only the sync can fail after the last rename
            return None if files_of(out) == wanted and "the folder" in said else "OUT is there"
        left = [name for name in os.listdir(os.path.dirname(out)) if name not in ("out.partial", "out.skipped.tsv")]
        return "left %s" % left if left else None

    def is_done(self, out, wanted):
        """Whether the work is complete, so that the same command would be refused."""
        return os.path.exists(out)


class Merge(Pack):
    """Parts that become a set; they stay unchanged."""

    def command(self, out):
        return ["merge", out, *self.arguments]


class Change(Pack):
    """A command that changes the set `base`: after a failure it is whole, with its old index or its new one
    (repair: with or without one), and its shards are unchanged."""

    def __init__(self, name, arguments, base, lose=None):
        Pack.__init__(self, name, arguments)
        self.base, self.lose = base, lose

    def prepare(self, out):
        shutil.copytree(self.base, out)
        if self.lose:
            os.remove(os.path.join(out, self.lose))

    def command(self, out):
        return [self.arguments[0], out, *self.arguments[1:], "-j1"]

    def wrong_after(self, out, said, wanted):
        found, old = files_of(out), files_of(self.base)
        if [name for name in old if name.endswith(".ffs") and found.get(name) != old[name]]:
            return "an old shard was changed"
        index = found.get("index.ffx")
        if index is None:
            return None if self.lose else "the index is missing"
        if index not in (old["index.ffx"], wanted["index.ffx"]):
            return "another index"
        done = subprocess.run([FFINSPECT, out, "--verify"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return "not whole: %r" % done.stderr if done.returncode else None

    def is_done(self, out, wanted):
        return files_of(out).get("index.ffx") == wanted["index.ffx"]


for part in ["1/2", "2/2"]:
    run(["folder", *IMAGES, "--shard-size", "4K", "-o", "part" + part[0], "--part", part])
run(["folder", *IMAGES, "--shard-size", "4K", "-o", "base"])
run(["folder", *IMAGES, "--dtype", "u8", "--compress", "zstd", "-o", "squeezed"])
with open("one.txt", "w") as file:
    file.write("b/x.jpg")
CASES = [Pack(*case) for case in CASES] + [
    Merge("merge", ["part1", "part2"]),
    Pack("copy", ["copy", "base", "--not-keys", "one.txt"]),
    Pack("copy of zstd", ["copy", "squeezed", "--dtype", "f16"]),
    Change("append", ["append", "--allow-duplicates", "folder.tar"], "base"),
    Change("repair", ["repair"], "base", "index.ffx"),
]


def try_point(case, wanted, fault, at, fails):
    """One failed call. Returns what was wrong, or None."""
    folder = tempfile.mkdtemp(dir=scratch)
    out = os.path.join(folder, "out")
    try:
        case.prepare(out)
        code, said = run(case.command(out), FAULT=fault[0], FAULT_AT=at, FAULT_ERRNO=fault[1])
        where = "%s at %s %d (errno %d): exit code %d, %r; " % (case.name, fault[0], at, fault[1], code, said)
        if code == 0:
            return None if files_of(out) == wanted else where + "other bytes"
        if not fails:
            return where + "it has to succeed"
        # libarchive ends the process itself where it cannot get memory for a string.
        own = said.startswith("ffpack: ") or (fault[0] == "alloc" and said.startswith("Fatal Internal Error in libarchive"))
        if code not in (1, 65, 74) or not own or len(said.splitlines()) != 1:
            return where + "wanted one message"
        wrong = case.wrong_after(out, said, wanted)
        if wrong:
            return where + wrong
        if not case.is_done(out, wanted):
            code, said = run(case.command(out))
            if code != 0 or files_of(out) != wanted:
                return where + "again: %d, %r" % (code, said)
        return None
    finally:
        shutil.rmtree(folder)


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for case in CASES:
        if case.name not in ONLY if ONLY != [""] else not (tap.SHORT if case.name in FIRST else tap.LONG):
            continue
        case.prepare("undisturbed")
        code, said = run(case.command("undisturbed"))
        wanted = files_of("undisturbed")
        if not ok(code == 0, "%s: undisturbed" % case.name, said):
            continue
        shutil.rmtree("undisturbed")
        for fault, fails, each in [(("alloc", 0), True, 60), (("io", errno.EIO), True, 30), (("io", errno.ENOSPC), True, 30),
                                   (("eintr", 0), False, 15)]:
            case.prepare("counted")
            run(case.command("counted"), FAULT=fault[0], FAULT_COUNT=os.path.join(scratch, "count"))
            shutil.rmtree("counted")
            total = int(open("count").read())
            tried = points(total, each)
            wrong = [said for said in pool.map(lambda at: try_point(case, wanted, fault, at, fails), tried) if said]
            name = fault[0] if not fault[1] else errno.errorcode[fault[1]]
            ok(total > 10 and not wrong, "%s: %d of %d points of %s" % (case.name, len(tried), total, name), "\n".join(wrong))
        said = try_point(case, wanted, ("short", 0), 1, False)
        ok(not said, "%s: every transfer cut short" % case.name, said)

os.chdir("/")
shutil.rmtree(scratch)
tap.finish()
