"""Shared by the Python tests of ffpack's sources: images, running ffpack, reading what it packed with the
second reader, and the values from Pillow and torchvision."""
import io
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

FFPACK = os.path.join(tap.BUILD, "ffpack")
NORMALIZE = ["--mean", "0.4,0.5,0.6", "--std", "0.2,0.3,0.25"]
try:
    import numpy
    import torch
    from PIL import Image
    from torchvision import transforms
except ImportError as missing:
    tap.skip("packing", "Python lacks a module: %s" % missing)
    tap.finish()
torch.set_num_threads(1)
FIXED = ["--resize", "9x11", "--dtype", "f32"] + tap.pillow() + NORMALIZE
reader = tap.second_reader()


def image(random, form="PNG", mode="RGB", size=None):
    """An encoded image of smooth noise."""
    width, height = size or (random.randint(8, 20), random.randint(8, 20))
    channels = {"RGB": 3, "RGBA": 4, "L": 1}[mode]
    values = bytes(random.randrange(256) for _ in range(16 * channels))
    small = Image.fromarray(numpy.frombuffer(values, numpy.uint8).reshape(4, 4, channels).squeeze())
    out = io.BytesIO()
    small.resize((width, height)).save(out, form)
    return out.getvalue()


STEPS = transforms.Compose([transforms.Resize((9, 11)), transforms.ToTensor(),
                            transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.25))])


def photos(rng):
    """The folder photos, of two splits with three classes, in which some images are broken; and photos.tar.gz."""
    for split, count in (("train", 40), ("val", 9)):
        for i in range(count):
            os.makedirs("photos/%s/%s" % (split, "abc"[i % 3]), exist_ok=True)
            with open("photos/%s/%s/%d.png" % (split, "abc"[i % 3], i), "wb") as file:
                file.write(image(rng) if i % 13 != 5 else b"broken")
    subprocess.run(["tar", "czf", "photos.tar.gz", "photos"], check=True)


def expected(data):
    """The bytes that FIXED packs for an image."""
    with Image.open(io.BytesIO(data)) as opened:
        return STEPS(opened.convert("RGB")).numpy().tobytes()


def ffpack(*arguments):
    return tap.run([FFPACK, *map(str, arguments)])


class Packed:
    """.fields {name: (kind, dtype, width, classes)}, .keys, .labels {name: [value]}, .tensors"""

    def __init__(self, folder):
        split = reader.Split(folder)
        self.fields, self.keys, self.tensors, self.labels = {}, [], [], {}
        fields = split.metadata.fields
        for f in fields:
            self.fields[f.name.decode()] = (f.kind, f.dtype, f.width, [c.decode() for c in f.classes])
            self.labels[f.name.decode()] = []
        self.provenance = {k.decode(): v.decode() for k, v in split.metadata.provenance}
        for i in range(len(split.order)):
            _, key, labels, tensor = split.sample(i)
            self.keys.append(key.decode("utf-8", "surrogateescape"))
            self.tensors.append(bytes(tensor))
            for f, value in zip(fields, labels):
                values = numpy.frombuffer(value, {"i32": "<i4", "i64": "<i8", "u8": "u1", "f32": "<f4"}[f.dtype])
                self.labels[f.name.decode()].append(int(values[0]) if f.kind == "class" else values.tolist())


def pack(name, out, *arguments):
    """Packs with FIXED; None and a failed check where it fails."""
    done = ffpack(*arguments, "-o", out, *FIXED)
    if done.returncode == 0:
        return done
    tap.ok(False, name, done.stderr.decode("utf-8", "replace"))
    return None


def compare(name, folder, items, fields):
    """items: [(key, image bytes)]; fields: {name: (kind, dtype, width, classes, values)}"""
    try:
        found = Packed(folder)
    except (reader.Wrong, OSError) as error:
        return tap.ok(False, name, error)
    wrong = []
    if found.keys != [key for key, _ in items]:
        wrong.append("keys %s, wanted %s" % (found.keys, [key for key, _ in items]))
    if found.fields != {k: v[:4] for k, v in fields.items()}:
        wrong.append("fields %s, wanted %s" % (found.fields, {k: v[:4] for k, v in fields.items()}))
    for field, description in fields.items():
        if found.labels.get(field) != description[4]:
            wrong.append("labels %s: %s, wanted %s" % (field, found.labels.get(field), description[4]))
    for i, (key, data) in enumerate(items):
        if not wrong and found.tensors[i] != expected(data):
            wrong.append("sample %d (%s) differs from torchvision's" % (i, key))
    return tap.ok(not wrong, name, "\n".join(wrong))


def refuses(name, code, pieces, *arguments, out):
    """One message with all the pieces, this exit code, and nothing of OUT."""
    done = ffpack(*arguments, "-o", out, *FIXED)
    said = done.stderr.decode("utf-8", "replace")
    wrong = []
    if done.returncode != code:
        wrong.append("exit code %d, wanted %d" % (done.returncode, code))
    if said.count("\n") != 1 or not said.startswith("ffpack: ") or done.stdout:
        wrong.append("not one message on stderr alone")
    wrong += ["no '%s'" % piece for piece in pieces if piece not in said]
    left = [n for n in os.listdir(os.path.dirname(out)) if n.startswith(os.path.basename(out))]
    if left:
        wrong.append("left %s" % left)
    tap.ok(not wrong, name, "\n".join(wrong + [said]))


def same_files(first, second):
    """The names of files in which two folders differ."""
    ours, theirs = tap.files_of(first), tap.files_of(second)
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
