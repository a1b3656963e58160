#!/usr/bin/python3
"""Datasets of MosaicML Streaming as a source, compared with torchvision's values: encodings, compressed shards, splits, labels, every
refusal. Prints TAP."""
# Needs: ffpack
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import as_png, both, fresh, keys, le, named, number, out, pictures, png, raw, write_png, finish  # noqa: E402
import packing  # noqa: E402
from packing import compare, ffpack, image, pack, refuses, same_files, tap  # noqa: E402
import writers  # noqa: E402
from writers import record, write_mds  # noqa: E402

samples = [{"image": data, "label": le.pack(i - 1), "name": b"text", "size": struct.pack("<f", 1)} for i, data in enumerate(pictures)]
columns = {"image": "bytes", "label": "int", "name": "str", "size": "float32"}
items = keys("shard.00000.mds", pictures[:4]) + keys("shard.00001.mds", pictures[4:])
write_mds("mds", columns, [samples[:4], samples[4:]])
both("MDS", "mds", items, number(list(range(-1, 8))))
if pack("the index itself", "third", "mds/index.json"):
    tap.ok(not same_files(out, "third"), "index.json as SOURCE is the same", same_files(out, "third"))
if pack("MDS by names", "fourth", "mds", "--label", "name"):
    compare("--label names a column of texts", "fourth", items, named(["text"], [0] * 9, "name"))
fresh()
for compression, ending in (("zstd:7", "zstd"), ("gz", "gz")):
    write_mds("mds", columns, [samples[:4], samples[4:]], compression)
    both("MDS, " + compression, "mds", [(k.replace("mds:", "mds.%s:" % ending), data) for k, data in items], number(list(range(-1, 8))))
    fresh()
write_mds("zip", columns, [samples], "zstd")
write_mds("plain", columns, [samples])
shutil.copy("plain/shard.00000.mds", "zip")
if pack("both", out, "zip"):
    tap.ok(packing.Packed(out).keys[0] == "shard.00000.mds:0", "the shard that is not compressed is read, if both are there")
fresh()
for encoding, pack_as, values in (("int8", "<b", [-1, 0, 127]), ("uint8", "<B", [0, 200, 255]), ("int16", "<h", [-1, 0, 300]), ("uint16", "<H", [0, 1, 65535]), ("int32", "<i", [-1, 70000, 5]),
                                  ("uint32", "<I", [0, 1, 70000]), ("int64", "<q", [-1, 0, 70000]), ("uint64", "<Q", [0, 1, 2])):
    write_mds("mds", {"x": "png", "y": encoding}, [[{"x": png[i], "y": struct.pack(pack_as, v)} for i, v in enumerate(values)]])
    if pack(encoding, out, "mds"):
        compare("labels of " + encoding, out, keys("shard.00000.mds", png[:3]), number(values))
    fresh()
write_mds("mds", {"x": "png", "y": "str_int"}, [[{"x": png[0], "y": b"12"}, {"x": png[1], "y": b"-1"}]])
if pack("str_int", out, "mds"):
    compare("labels of str_int", out, keys("shard.00000.mds", png[:2]), number([12, -1]))
fresh()
write_mds("mds", {"x": "pil", "y": "int"}, [[{"x": data, "y": le.pack(i)} for i, data in enumerate(raw)]])
both("images of Pillow's pixels", "mds", keys("shard.00000.mds", as_png), number([0, 1, 2, 3]))
fresh()
# NumPy's arrays: what the encoding does not state, each value begins with. The same pixels as PNGs.
width, height, values = 7, 5, bytes(i * 37 % 251 for i in range(7 * 5 * 3))
planes, grey = bytes(v for c in range(3) for v in values[c::3]), values[::3]
colour_png, grey_png = write_png("RGB", (width, height), values), write_png("L", (width, height), grey)
for called, encoding, value, data in (
        ("a shape in the encoding", "ndarray:uint8:%d,%d,3" % (height, width), values, colour_png),
        ("channels first", "ndarray:uint8:3,%d,%d" % (height, width), planes, colour_png),
        ("no axis of channels", "ndarray:uint8:%d,%d" % (height, width), grey, grey_png),
        ("one channel", "ndarray:uint8:1,%d,%d" % (height, width), grey, grey_png),
        ("a dtype in the encoding", "ndarray:uint8", struct.pack("<BHHH", 3 << 2 | 1, height, width, 3) + values, colour_png),
        ("lengths of 8 bytes", "ndarray", struct.pack("<BBQQQ", 8, 3 << 2 | 3, height, width, 1) + grey, grey_png),
        ("nothing in the encoding", "ndarray", struct.pack("<BBIII", 8, 3 << 2 | 2, 3, height, width) + planes, colour_png)):
    write_mds("mds", {"image": encoding, "label": "int"}, [[{"image": value, "label": le.pack(3)}]])
    both("an array, " + called, "mds", keys("shard.00000.mds", [data]), number([3]))
    fresh()
write_mds("mds", {"a": "png", "b": "ndarray:uint8:7", "c": "ndarray", "d": "ndarray:float32:2,2,3", "label": "int"},
          [[{"a": png[0], "b": b"1234567", "c": b"\x08\x04\x01x", "d": b"1" * 48, "label": le.pack(2)}]])
if pack("arrays next to an image", out, "mds"):
    compare("arrays that cannot be images next to one are passed over", out, keys("shard.00000.mds", png[:1]), number([2]))
fresh()
os.makedirs("mds")
write_mds("mds/train", {"x": "png", "y": "str"}, [[{"x": png[0], "y": b"dog"}, {"x": png[1], "y": b"cat"}]])
write_mds("mds/val", {"x": "png", "y": "str"}, [[{"x": png[2], "y": b"dog"}]])
if pack("MDS with splits", out, "mds"):
    compare("train of MDS", out + "/train", keys("shard.00000.mds", png[:2]), named(["cat", "dog"], [1, 0]))
    compare("val of MDS", out + "/val", keys("shard.00000.mds", png[2:3]), named(["cat", "dog"], [1]))
fresh()
two = [[{"x": png[0], "y": le.pack(1)}, {"x": png[1], "y": le.pack(2)}]]


def bad_mds(name, *pieces, data=None, change=None, code=65, shards=two, columns={"x": "png", "y": "int"}, compression=None, options=()):
    write_mds("mds", columns, shards, compression, change)
    if data:
        path = "mds/shard.00000.mds" + (".zstd" if compression else "")
        with open(path, "rb") as file:
            content = bytearray(file.read())
        with open(path, "wb") as file:
            file.write(data(content))
    refuses(name, code, pieces, "mds", *options, out=out)
    shutil.rmtree("mds")


def put(at, value):
    return lambda content: content[:at] + struct.pack("<I", value) + content[at + 4:]


shard = "mds/shard.00000.mds"
bad_mds("another number of samples", shard + ": has 3 samples, its index.json states 2", data=put(0, 3))
bad_mds("an offset before the samples", shard + ": the offset of record 0 is 3, wanted at least 16", data=put(4, 3))
bad_mds("an offset below the one before", shard + ": the offset of record 1 is 5, wanted at least ", data=put(8, 5))
bad_mds("an offset beyond the file", shard + ": record 1 at byte ", "wanted the 10737", data=put(12, 1 << 30))
bad_mds("a size beyond the sample", shard + ": record 0 at byte 33: its columns have 1000012 bytes, wanted the %d that it has" % (len(png[0]) + 12), data=put(33, 1000000))
bad_mds("a shard cut off", shard + ": ends at byte ", data=lambda content: content[:-9])
bad_mds("a shard with more", shard + ": has bytes after its last record", data=lambda content: content + b"x")
bad_mds("a shard of nothing", shard + ": ends at byte 0, inside its number of samples", data=lambda content: b"", options=["--format", "mds"])
bad_mds("broken zstd", shard + ".zstd: broken zstd data before byte", compression="zstd", data=lambda content: content[:9] + b"\xff" * 8 + content[17:])
bad_mds("zstd cut off", shard + ".zstd: the zstd data ends at byte ", compression="zstd", data=lambda content: content[:-20])
bad_mds("not compressed as stated", shard + ".zstd: is not compressed, its index.json states that it is", compression="zstd", data=lambda content: b"\2" + content[1:])
bad_mds("another compression", "mds/index.json: shard shard.00000.mds.zstd is compressed with br, wanted zstd or gz", compression="zstd",
        change=lambda index: index["shards"][0].update(compression="br"))
bad_mds("a name that leads out", "mds/index.json: 'basename' is '../shard.00000.mds', wanted the name of a file in its folder",
        change=lambda index: index["shards"][0]["raw_data"].update(basename="../shard.00000.mds"))
bad_mds("an absolute name", "'basename' is '/etc/passwd'", change=lambda index: index["shards"][0]["raw_data"].update(basename="/etc/passwd"))
bad_mds("no sizes", "mds/index.json: 'column_sizes' is missing, wanted a list", change=lambda index: index["shards"][0].pop("column_sizes"))
bad_mds("other lists of columns", "has 2 column_names, 1 column_encodings and 2 column_sizes", change=lambda index: index["shards"][0]["column_encodings"].pop())
bad_mds("a size below 0", "column 1 of a shard has no name, encoding or size", change=lambda index: index["shards"][0].update(column_sizes=[None, -8]))
bad_mds("samples that are no number", "'samples' is something else, wanted a whole number from 0 on", change=lambda index: index["shards"][0].update(samples="2"))
bad_mds("two columns of images", "mds/index.json: several columns may be the image: a, b", columns={"a": "png", "b": "jpeg"}, shards=[[{"a": png[0], "b": png[1]}]])
for called in ("label", "labels.list.element"):
    bad_mds("another number next to %s" % called, "mds/index.json: column '%s' is called as a label, but does not hold one whole number or one text" % called,
            columns={"x": "png", called: "json", "width": "int"}, shards=[[{"x": png[0], called: b"[2]", "width": le.pack(9)}]])
bad_mds("no image", "mds/index.json: no column holds images", columns={"y": "int"}, shards=[[{"y": le.pack(1)}]])
bad_mds("a label in one shard alone", "has no label, as the chunks before have one", shards=two + [[{"x": png[0], "y": le.pack(1)}]],
        change=lambda index: index["shards"][1].update(column_encodings=["png", "json"], column_names=["x", "z"]))
bad_mds("a label out of range", shard + ": record 1 at byte ", "has label 4294967296, wanted -1 to 2147483647", shards=[[two[0][0], {"x": png[1], "y": le.pack(1 << 32)}]])
bad_mds("a number of letters", "its label 'x1' is not a whole number", columns={"x": "png", "y": "str_int"}, shards=[[{"x": png[1], "y": b"x1"}]])
for mode, size, piece in (("P", 6, "its image's mode is 'P', wanted L, RGB, RGBA or RGBX"), ("RGB", 7, "has 7 bytes of pixels, wanted those of 2 x 1 pixels of mode RGB"),
                          ("RGB" * 4, 6, "its image's mode has 12 bytes")):
    bad_mds("pixels of mode %s" % mode, shard + ": record 0 at byte 33: " + piece, columns={"x": "pil"}, shards=[[{"x": writers.pil(mode, 2, 1, b"1" * size)}]])
bad_mds("pixels without a header", "has 5 bytes, fewer than the header of an image", columns={"x": "pil"}, shards=[[{"x": b"12345"}]])
for encoding, value, piece in (("ndarray", b"\x22\x08\x02\x01" + b"1" * 8, "its array is not of dtype uint8"), ("ndarray", b"\x08\x04\x02ab", "its array has 1 axes, wanted the 2 or 3"),
                               ("ndarray", b"\x08", "its array has 0 axes"), ("ndarray", b"", "its array is not of dtype uint8"), ("ndarray", b"\x08\x0b\x01\x01\x01", "has 5 bytes, fewer than an array's shape"),
                               ("ndarray", b"\x08\x0c\x02\x02\x04" + b"1" * 16, "its array has the shape 2,2,4, wanted an image's"), ("ndarray:uint8", b"\x0c\x02\x02\x03" + b"1" * 11, "has 11 bytes of pixels"),
                               ("ndarray:uint8", b"\x08\x00\x02", "its array has the shape 0,2,0, wanted an image's"), ("ndarray:uint8:2,2,3", b"1" * 13, "has 13 bytes of pixels, wanted those of 2 x 2 pixels of 3 channels")):
    bad_mds("an array, " + piece, shard + ": record 0 at byte 33: " + piece, columns={"image": encoding}, shards=[[{"image": value}]])
for encoding in ("ndarray:uint8:4", "ndarray:uint8:4,4,4", "ndarray:float32:4,4,3", "ndarray:uint8:0,4,3", "ndarray:uint8:4,4,3,", "ndarray:uint8:4,4,3,3,3", "ndarray:uint8:", "ndarrays", "ndarray:uint88"):
    bad_mds("no image, " + encoding, "mds/index.json: no column holds images", columns={"image": encoding}, shards=[[{"image": b"1"}]])
os.makedirs("mds")
with open("mds/index.json", "w") as file:
    file.write('{"shards": [')
refuses("a broken index", 65, ["mds/index.json: is broken JSON at byte 12"], "mds", "--format", "mds", out=out)
fresh()
write_mds("mds", {"x": "png", "y": "int"}, [[{"x": png[0], "y": le.pack(1)}, {"x": b"no image", "y": le.pack(2)}]])
done = ffpack("mds", "-o", out, "--on-error", "skip", "--max-skip", "100%", *packing.FIXED)
found = packing.Packed(out) if done.returncode == 0 else None
tap.ok(found and found.keys == ["shard.00000.mds:0"], "MDS: --on-error skip", done.stderr.decode())
with open("out.skipped.tsv") as file:
    text = file.read()
tap.ok("mds/shard.00000.mds: record 1 at byte " in text, "MDS: OUT.skipped.tsv names the record", text)
fresh()
finish()
