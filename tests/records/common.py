"""Shared by the tests of the files of other loaders: a scratch folder, images, comparing. The files are written by the plain writers of
writers.py; what the loaders themselves wrote is in peers/ (test_peers.py)."""
import io
import os
import random
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import packing  # noqa: E402
import writers  # noqa: E402
from packing import Image, compare, image, pack, same_files, tap  # noqa: E402

rng = random.Random(5)
place = tempfile.mkdtemp()
os.chdir(place)
out = os.path.join(place, "out")
le = struct.Struct("<q")
pictures = [image(rng, *rng.choice([("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "L"), ("JPEG", "RGB")])) for _ in range(9)]
png = [image(rng) for _ in range(9)]


def fresh():
    for name in os.listdir(place):
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)


def named(classes, values, field="label"):
    return {field: ("class", "i32", 1, classes, values)}


def number(values):
    return named([], values)


def pixels(data, mode="RGB"):
    with Image.open(io.BytesIO(data)) as opened:
        converted = opened.convert(mode)
        return converted.size[0], converted.size[1], converted.tobytes()


def keys(name, images):
    return [("%s:%d" % (name, i), data) for i, data in enumerate(images)]


def both(name, source, items, fields, *options):
    """Packs with one job and with three."""
    if pack(name, out, source, "-j", 1, *options):
        compare(name, out, items, fields)
        if pack(name + ", three jobs", "second", source, "-j", 3, *options):
            tap.ok(not same_files(out, "second"), name + ", three jobs: the same bytes", same_files(out, "second"))


def finish():
    os.chdir("/")
    shutil.rmtree(place)
    tap.finish()


def write_png(mode, size, values):
    saved = io.BytesIO()
    Image.frombytes(mode, size, values).save(saved, "PNG")
    return saved.getvalue()


# Pixels as Pillow has them, written as MDS and LitData do, and the same images as PNGs.
modes = ["RGB", "L", "RGBA", "RGB"]
raw = [writers.pil(mode, *pixels(data, mode)) for mode, data in zip(modes, pictures)]
as_png = []
for mode, data in zip(modes, pictures):
    width, height, values = pixels(data, mode)
    as_png.append(write_png(mode, (width, height), values))
