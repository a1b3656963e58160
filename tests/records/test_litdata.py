#!/usr/bin/python3
"""Datasets of LitData as a source, compared with torchvision's values: trees of leaves, compressed chunks, every refusal. Prints TAP."""
# Needs: ffpack
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import as_png, both, fresh, keys, le, named, number, out, pictures, pixels, place, png, raw, finish  # noqa: E402
from packing import compare, image, pack, refuses  # noqa: E402
import writers  # noqa: E402
from writers import write_litdata  # noqa: E402

rows = [[le.pack(i), data, b"text"] for i, data in enumerate(pictures)]
for compression in (None, "zstd"):
    write_litdata("lit", ["int", "bytes", "str"], [rows[:5], rows[5:]], ["class", "image", "caption"], compression)
    middle = "zstd." if compression else ""
    both("LitData, %s" % compression, "lit", keys("chunk-0-0.%sbin" % middle, pictures[:5]) + keys("chunk-0-1.%sbin" % middle, pictures[5:]), number(list(range(9))))
    fresh()
write_litdata("lit", ["pil", "int"], [[[raw[i], le.pack(i)] for i in range(4)]])
if pack("a tuple of Pillow's pixels", out, "lit"):
    compare("LitData: a tuple, pixels", out, keys("chunk-0-0.bin", as_png), number([0, 1, 2, 3]))
fresh()


def nested(index):
    inner = {"type": "builtins.dict", "context": '["label", "other"]', "children_spec": [writers.LEAF] * 2}
    outer = {"type": "builtins.dict", "context": ["image", "meta"], "children_spec": [writers.LEAF, inner]}
    index["config"]["data_spec"] = writers.json.dumps([1, outer])


write_litdata("lit", ["jpeg", "int", "int"], [[[png[i], le.pack(i), le.pack(7)] for i in range(3)]], change=nested)
if pack("a tree", out, "lit", "--label", "meta/label"):
    compare("LitData: --label names a leaf of a tree", out, keys("chunk-0-0.bin", png[:3]), named([], [0, 1, 2], "meta/label"))
refuses("LitData: several numbers", 2, ["several columns may be the label: meta/label, meta/other; wanted --label NAME"], "lit", out=os.path.join(place, "no"))
fresh()


def bad_lit(name, piece, change):
    write_litdata("lit", ["jpeg", "int"], [[[png[0], le.pack(1)]]], ["image", "label"], change=change)
    refuses("LitData: " + name, 65, [piece], "lit", out=out)
    shutil.rmtree("lit")


bad_lit("encrypted", "lit/index.json: its chunks are encrypted", lambda index: index["config"].update(encryption={"algorithm": "fernet"}))
bad_lit("another compression", "lit/index.json: its chunks are compressed with lz4, wanted zstd", lambda index: index["config"].update(compression="lz4"))
bad_lit("fewer formats", "data_spec has more leaves than data_format, which has 1", lambda index: index["config"].update(data_format=["jpeg"]))
bad_lit("more formats", "data_spec has 2 leaves, data_format 3", lambda index: index["config"].update(data_format=["jpeg", "int", "int"]))
bad_lit("a name that leads out", "'filename' is 'a/../../x'", lambda index: index["chunks"][0].update(filename="a/../../x"))
fresh()
finish()
