"""Shared by the tests of array sources: packing with ffpack, and reading back what it packed with the second
reader, which shares no code with it."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from tap import ok  # noqa: E402

reader = tap.second_reader()
import numpy  # noqa: E402

FFPACK = os.path.join(tap.BUILD, "ffpack")
scratch = tempfile.mkdtemp(prefix="array-")
os.chdir(scratch)


def finish():
    os.chdir("/")
    shutil.rmtree(scratch)
    tap.finish()


def run(*arguments):
    done = subprocess.run([FFPACK, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")


def decoded(field, data):
    if field.kind == "none":
        return None
    values = numpy.frombuffer(data, {"u8": "<u1", "u16": "<u2", "f16": "<f2", "f32": "<f4", "i32": "<i4",
                                     "i64": "<i8"}[field.dtype])
    return values[0] if field.kind == "class" else values


class Packed:
    """A packed split: array (n, ...), labels {field: array}, keys, and the metadata."""

    def __init__(self, folder):
        split = reader.Split(folder)
        split.read_index(folder)
        self.metadata = split.metadata
        self.array = split.array()
        samples = [split.sample(i) for i in range(len(split.order))]
        self.keys = [sample[1].decode() for sample in samples]
        self.fields = {field.name.decode(): field for field in self.metadata.fields}
        self.labels = {field.name.decode(): numpy.array([decoded(field, sample[2][i]) for sample in samples])
                       for i, field in enumerate(self.metadata.fields)}
        self.transforms = [line.decode() for line in self.metadata.transforms]
        self.provenance = {key.decode(): value.decode() for key, value in self.metadata.provenance}
        self.classes = [name.decode() for name in self.metadata.fields[0].classes]


def pack(source, *options):
    """{split name: Packed}, "" where the source has one split only."""
    shutil.rmtree("packed", ignore_errors=True)
    code, _, error = run(source, "-o", "packed", *options)
    if code != 0:
        raise SystemExit("not ok - ffpack %s %s: %s" % (source, " ".join(map(str, options)), error))
    if os.path.exists("packed/index.ffx"):
        return {"": Packed("packed")}
    return {name: Packed(os.path.join("packed", name)) for name in sorted(os.listdir("packed"))}


def refuses(name, code, words, source, *options):
    """One message with all the words, the exit code, and nothing left behind."""
    shutil.rmtree("place", ignore_errors=True)
    os.mkdir("place")
    got, out, error = run(source, "-o", "place/out", *options)
    good = (got == code and error.count("\n") == 1 and error.startswith("ffpack: ") and not out
            and all(word in error for word in words) and not os.listdir("place"))
    ok(good, name, "exit code %d, wanted %d; %r; left %s" % (got, code, error, os.listdir("place")))


def write(path, data):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path
