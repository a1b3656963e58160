#!/usr/bin/python3
"""FFCV's .beton as a source, compared with torchvision's values: JPEGs and pixels, tables in any order, every refusal. Prints TAP."""
# Needs: ffpack
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import both, fresh, keys, number, out, pixels, png, raw, rng, finish  # noqa: E402
from packing import compare, image, pack, refuses  # noqa: E402
from writers import record, write_beton  # noqa: E402

jpegs = [image(rng, "JPEG") for _ in range(6)]


def beton_rows(count=6):
    """JPEGs and pixels in turn, as "smart" writes them."""
    return [{"image": ("raw", *pixels(png[i])) if i % 2 else ("jpg", jpegs[i]), "label": i - 1, "extra": 0.5, "note": b"x" * i} for i in range(count)]


fields = {"extra": "float", "image": "image", "label": "int", "note": "bytes"}
beton_items = keys("train.beton", [png[i] if i % 2 else jpegs[i] for i in range(6)])
for title, shuffle in (("in order", None), ("in another order", rng.shuffle)):
    write_beton("train.beton", fields, beton_rows(), shuffle)
    both(".beton, table " + title, "train.beton", beton_items, number([-1, 0, 1, 2, 3, 4]))
    fresh()
os.makedirs("set")
write_beton("set/train.beton", {"x": "image", "y": "int"}, [{"x": ("jpg", jpegs[i]), "y": i} for i in range(3)])
write_beton("set/val.beton", {"x": "image", "y": "int"}, [{"x": ("raw", *pixels(png[0])), "y": 2}])
if pack("two files", out, "set"):
    compare("train of .beton files", out + "/train", keys("train.beton", jpegs[:3]), number([0, 1, 2]))
    compare("val of .beton files", out + "/val", keys("val.beton", png[:1]), number([2]))
fresh()


def bad_beton(name, piece, code=65, data=None, rows=None, fields={"x": "image", "y": "int"}, **more):
    write_beton("bad.beton", fields, rows or [{"x": ("jpg", jpegs[0]), "y": 1}, {"x": ("raw", *pixels(png[0])), "y": 2}], **more)
    if data:
        with open("bad.beton", "rb") as file:
            content = file.read()
        with open("bad.beton", "wb") as file:
            file.write(data(content))
    refuses(".beton: " + name, code, [piece], "bad.beton", "--format", "beton", out=out)


start = 24 + 2 * 1041


def patch(at, layout, value):
    return lambda content: content[:at] + struct.pack(layout, value) + content[at + struct.calcsize(layout):]


bad_beton("another version", "bad.beton: is of version 1 with 2 fields, wanted a .beton of version 2", version=1)
bad_beton("cut off", "bad.beton: its allocation table begins at byte ", cut=5)
bad_beton("cut off in the pages", "bad.beton: its allocation table begins at byte ", data=lambda content: content[:1 << 21])
bad_beton("a writer that was stopped", "bad.beton: its allocation table begins at byte 0 of ", data=patch(16, "<Q", 0))
bad_beton("too many samples", "too few for the 99999999999 samples of its header", data=patch(8, "<Q", 99999999999))
bad_beton("a field of the user's", "field 1 ('y') is of type 255, wanted FFCV's own fields", data=patch(24 + 1041, "<B", 255))
bad_beton("an image that is not in the table", "record 0 at byte %d: its image at byte 77 is not in the allocation table" % start, data=patch(start + 5, "<Q", 77))
bad_beton("another mode", "record 0 at byte %d: its image is of mode 3, wanted 0 (JPEG) or 1 (pixels)" % start, data=patch(start, "<B", 3))
bad_beton("pixels of another size", "record 1 at byte %d: its image has " % (start + 24), data=patch(start + 24 + 1, "<H", 3))
bad_beton("a size beyond the file", "the file has ", data=lambda content: patch(len(content) - 48 + 16, "<Q", 1 << 30)(content))
bad_beton("a label out of range", "has label 2147483648, wanted -1 to 2147483647", rows=[{"x": ("jpg", jpegs[0]), "y": 1 << 31}])
bad_beton("no image", "no column holds images", fields={"y": "int"}, rows=[{"y": 1}])
bad_beton("a broken image", "bad.beton: record 0 at byte ", rows=[{"x": ("jpg", jpegs[0][:50]), "y": 1}])
finish()
