#!/usr/bin/python3
"""Parquet files of images as a source, compared with torchvision's values: the classes of Hugging Face's metadata, folders and patterns with
splits, labels, every refusal. test_peers.py has the files of pyarrow, with all codecs, page versions and dictionaries. Prints TAP."""
# Needs: ffpack
import os
import random
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import both, fresh, keys, named, number, out, pictures, place, png, finish  # noqa: E402
import packing  # noqa: E402
from packing import compare, ffpack, pack, refuses, tap  # noqa: E402
from writers import gzip, write_parquet  # noqa: E402

no = os.path.join(place, "no")
rows = [(data, i % 4 - 1) for i, data in enumerate(pictures)]
write_parquet("train.parquet", rows)
both("a parquet file", "train.parquet", keys("train.parquet", pictures), number([i % 4 - 1 for i in range(9)]))
fresh()
write_parquet("train.parquet", rows, ["zebra", "ant", "10"])
both("classes of Hugging Face's metadata", "train.parquet", keys("train.parquet", pictures), named(["zebra", "ant", "10"], [i % 4 - 1 for i in range(9)]))
with open("classes", "w") as file:
    file.write("a\nb\nc\n")
refuses("--classes next to them", 2, ["--classes: train.parquet names the classes already"], "train.parquet", "--classes", "classes", out=no)
fresh()
write_parquet("digits.parquet", [(png[0], 2), (png[1], 0)], ["2", "1", "0"])
if pack("names that are numbers", out, "digits.parquet"):
    compare("names that are numbers: labels count", out, keys("digits.parquet", png[:2]), named(["2", "1", "0"], [2, 0]))
fresh()
write_parquet("names.parquet", [(png[0], b"dog"), (png[1], b"cat")], label_type=6)
if pack("labels of text", out, "names.parquet"):
    compare("labels of text", out, keys("names.parquet", png[:2]), named(["cat", "dog"], [1, 0]))
fresh()
os.makedirs("data")
write_parquet("data/train-00000-of-00002.parquet", rows[:3], ["a", "b", "c"])
write_parquet("data/train-00001-of-00002.parquet", rows[3:6], ["a", "b", "c"])
write_parquet("data/test-00000-of-00001.parquet", rows[6:], ["a", "b", "c"])
if pack("a folder with splits", out, "data"):
    compare("train of a folder", out + "/train", keys("train-00000-of-00002.parquet", pictures[:3]) + keys("train-00001-of-00002.parquet", pictures[3:6]),
            named(["a", "b", "c"], [-1, 0, 1, 2, -1, 0]))
    compare("test of a folder", out + "/test", keys("test-00000-of-00001.parquet", pictures[6:]), named(["a", "b", "c"], [1, 2, -1]))
write_parquet("data/test-00000-of-00001.parquet", rows[6:], ["a", "c", "b"])
refuses("other classes in another file", 65, ["data/test-00000-of-00001.parquet: has other classes than the files before"], "data", out=no)
write_parquet("data/test-00000-of-00001.parquet", rows[6:])
refuses("no classes in another file", 65, ["data/test-00000-of-00001.parquet: has other classes than the files before"], "data", out=no)
fresh()
write_parquet("bad.parquet", [(png[0], 1), (b"no image", 2), (png[1], 3)], codec=2, compress=gzip.compress)
done = ffpack("bad.parquet", "-o", out, "--on-error", "skip", "--max-skip", "100%", *packing.FIXED)
found = packing.Packed(out) if done.returncode == 0 else None
tap.ok(found and found.labels["label"] == [1, 3], "--on-error skip", done.stderr.decode())
with open("out.skipped.tsv") as file:
    text = file.read()
tap.ok("\tbad.parquet: row 1\t" in text, "OUT.skipped.tsv names the row", text)
fresh()


def bad(name, *pieces, data=((png[0], 1), (png[1], 2)), code=65, change=None, **more):
    write_parquet("bad.parquet", list(data), **more)
    if change:
        with open("bad.parquet", "rb") as file:
            content = file.read()
        with open("bad.parquet", "wb") as file:
            file.write(change(content))
    refuses(name, code, pieces, "bad.parquet", "--format", "parquet", out=out)


bad("an image that is null", "bad.parquet: row 1: its image is null, or a path alone", data=[(png[0], 1), (None, 2)])
bad("a path alone", "bad.parquet: row 1: its image is null, or a path alone", data=[(png[0], 1), ("", 2)])
bad("a label that is null", "bad.parquet: row 1: its label is null, wanted a label (-1 for none)", data=[(png[0], 1), (png[1], None)])
bad("a label beyond the classes", "bad.parquet: row 1: has label 2, wanted -1 to 1 as in its ClassLabel", names=["a", "b"])
bad("a label below -1", "bad.parquet: row 0: has label -2, wanted -1 to 1 as in its ClassLabel", names=["a", "b"], data=[(png[0], -2)])
bad("two classes of one name", "bad.parquet: class 1 is called 'a', as one before", names=["a", "a", "b"])
bad("a broken image", "bad.parquet: row 1: ", data=[(png[0], 1), (png[1][:60], 2)])
bad("an empty image", "bad.parquet: row 0: the file is empty", data=[(b"", 1)])
bad("several images a row", "no column holds images", repetition=2)
bad("another codec", "is compressed with brotli (codec 4), wanted snappy, zstd, gzip or none", codec=4)
bad("broken gzip", "bad.parquet: column image.bytes: the page at byte ", "do not unpack to the", codec=2, compress=lambda data: b"x" + gzip.compress(data)[1:])
bad("broken snappy", "do not unpack to the", codec=1, compress=lambda data: b"\xff\xff\xff\xff\xff" + data)
bad("broken zstd", "do not unpack to the", codec=6, compress=lambda data: data)
bad("more than stated", "do not unpack to the", codec=2, compress=lambda data: gzip.compress(data + b"x"))
bad("less than stated", "do not unpack to the", codec=2, compress=lambda data: gzip.compress(data[:-1]))
bad("another encoding", "has encoding 6, wanted plain (0) or a dictionary (2, 8)", encoding=6)
bad("a dictionary that is missing", "is broken: ", encoding=8)
bad("more values than rows", "is broken: its number of values", values=3)
bad("fewer values than rows", "is broken", values=1)
bad("a place beyond the file", "bad.parquet: its footer is wrong: the place of a group of column image.bytes", more=1 << 20)
bad("cut off", "bad.parquet: does not end with PAR1", change=lambda content: content[:-3])
bad("cut off at the front", "bad.parquet", change=lambda content: content[200:])
bad("a footer longer than the file", "bad.parquet: its footer has 4294967295 bytes", change=lambda content: content[:-8] + b"\xff\xff\xff\xffPAR1")
bad("a footer that ends", "bad.parquet: its footer is broken", footer=lambda end: end[:60])
bad("encrypted", "bad.parquet: is encrypted", change=lambda content: content[:-1] + b"E")
bad("a few bytes", "bad.parquet: has 5 bytes, too few for parquet", change=lambda content: b"PAR1x")
bad("a label of another type", "column 'label' is called as a label, but does not hold one whole number or one text", label_type=5, data=[(png[0], None)])
peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
with open(os.path.join(peers, "parquet-snappy-bmp.parquet"), "rb") as file:
    checked = file.read()
at = checked.index(b"BM") + 50
refused = "bad.parquet: column image.bytes: the page before byte "
bad("a page whose checksum is wrong", refused, "its checksum is wrong", change=lambda content: checked[:at] + bytes([checked[at] ^ 1]) + checked[at + 1:])
rng = random.Random(2)
with open(os.path.join(peers, "parquet-zstd-v2.parquet"), "rb") as file:
    whole = file.read()
for _ in range(40):  # one sentence, or the values of a file that still is one
    at = rng.randrange(len(whole))
    with open("flipped", "wb") as file:
        file.write(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:])
    done = ffpack("flipped", "-o", out, "--format", "parquet", *packing.FIXED)
    if done.returncode not in (0, 2, 65) or (done.returncode and done.stderr.count(b"\n") != 1):
        tap.ok(False, "a flipped bit at byte %d" % at, done.stderr.decode())
        break
    if not done.returncode:
        shutil.rmtree(out)
else:
    tap.ok(True, "40 flipped bits give one sentence or a set")
finish()
