#!/usr/bin/python3
"""TFRecords as a source, compared with torchvision's values: gzip, folders and patterns with splits, features, labels, damaged
records with and without --on-error skip, every refusal. Prints TAP."""
# Needs: ffpack
import os
import random
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import both, fresh, keys, named, number, out, pictures, place, png, finish  # noqa: E402
import packing  # noqa: E402
from packing import compare, ffpack, image, pack, refuses, tap  # noqa: E402
import writers  # noqa: E402
from writers import example, record, write_tfrecord  # noqa: E402

inception = [{"image/height": 3, "image/colorspace": "RGB", "image/class/label": i, "image/class/text": "kind %d" % (i % 3), "image/object/bbox/xmin": [0.5, 0.25],
              "image/encoded": data, "image/filename": "x%d" % i, "image/class/synset": ["zebra", "ant", "bee"][i % 3]} for i, data in enumerate(pictures)]
write_tfrecord("train.tfrecord", inception)
both("a file of TFRecords", "train.tfrecord", keys("train.tfrecord", pictures), number(list(range(9))))
fresh()
write_tfrecord("train.tfrecord.gz", inception, packed=False)
both("gzip, numbers that are not packed", "train.tfrecord.gz", keys("train.tfrecord.gz", pictures), number(list(range(9))))
fresh()
write_tfrecord("x", inception)
if pack("--label", out, "x", "--label", "image/class/synset"):
    compare("--label names a feature of texts", out, keys("x", pictures), named(["ant", "bee", "zebra"], [2, 0, 1] * 3, "image/class/synset"))
with open("classes", "w") as file:
    file.write("zebra\nant\nbee\ncat\n")
if pack("--classes", "second", "x", "--label", "image/class/synset", "--classes", "classes"):
    compare("--classes gives texts their numbers", "second", keys("x", pictures), named(["zebra", "ant", "bee", "cat"], [0, 1, 2] * 3, "image/class/synset"))
with open("nine", "w") as file:
    file.write("".join("class %d\n" % i for i in range(9)))
if pack("--classes names numbers", "third", "x", "--classes", "nine"):
    compare("--classes names numbers", "third", keys("x", pictures), named(["class %d" % i for i in range(9)], list(range(9))))
refuses("a label beyond --classes is not moved", 65, ["x: record 4 at byte ", "has label 4, wanted -1 to 3 as in classes"], "x", "--classes", "classes", out=os.path.join(place, "no"))
done = ffpack("x", "-o", "split", "--split", "train=0.5,val=0.5", *packing.FIXED)
found = {s: packing.Packed("split/" + s) for s in ("train", "val")} if done.returncode == 0 else {}
tap.ok(found and sorted(k for s in found.values() for k in s.keys) == sorted(k for k, _ in keys("x", pictures))
       and all(s.labels["label"] == [int(k.split(":")[1]) for k in s.keys] for s in found.values()), "--split divides the records", done.stderr.decode())
fresh()
os.makedirs("set")
for i, name in enumerate(["set/imagenet-train-00000-of-00002", "set/imagenet-train-00001-of-00002", "set/imagenet-validation-00000-of-00001"]):
    write_tfrecord(name, [{"image": p, "label": i} for p in pictures[3 * i:3 * i + 3]])
shutil.copy("set/imagenet-train-00000-of-00002", "set/notes.txt")
done = pack("a folder with splits", out, "set")
if done:
    compare("train of a folder", out + "/train", keys("imagenet-train-00000-of-00002", pictures[:3]) + keys("imagenet-train-00001-of-00002", pictures[3:6]), number([0, 0, 0, 1, 1, 1]))
    compare("val of a folder", out + "/val", keys("imagenet-validation-00000-of-00001", pictures[6:]), number([2, 2, 2]))
    tap.ok(b"left out: 1 file in .txt" in done.stdout and b"images from column image; labels from label" in done.stdout, "other files are counted", done.stdout.decode())
if pack("a pattern", "second", "set/imagenet-train-{00000..00001}-of-00002"):
    tap.ok(packing.Packed("second").labels["label"] == [0, 0, 0, 1, 1, 1], "a pattern of TFRecords")
os.remove("set/imagenet-train-00001-of-00002")
refuses("a shard that is missing", 65, ["set: 1 TFRecord file is there of the 2 that their names count"], "set", out=os.path.join(place, "no"))
fresh()
write_tfrecord("none", [{"image": p, "caption": "text", "boxes": [1, 2]} for p in pictures])
if pack("no labels", out, "none"):
    compare("TFRecords without labels", out, keys("none", pictures), {"label": ("none", "i32", 0, [], [[]] * 9)})
fresh()


def bad(name, data, *pieces, code=65, options=()):
    with open("bad.tfrecord", "wb") as file:
        file.write(data)
    refuses(name, code, pieces, "bad.tfrecord", *options, out=out)


good = record(example({"image": png[0], "label": 1}))
at = len(good)
bad("a length that is damaged", good + b"\x01" + good[1:], "bad.tfrecord: record 1 at byte %d: the CRC32C of its length is wrong" % at)
broken = bytearray(good)
broken[40] ^= 4
bad("data that is damaged", good + bytes(broken), "bad.tfrecord: record 1 at byte %d: the CRC32C of its data is wrong" % at)
bad("a header cut off", good + good[:7], "record 1 at byte %d: ends after 7 of the 12 bytes of its header" % at)
bad("data cut off", good + good[:50], "record 1 at byte %d: ends after 38 of its %d bytes" % (at, len(good) - 12))
length = struct.pack("<Q", 1 << 40)
bad("a length of a terabyte", good + length + struct.pack("<I", writers.masked_crc(length)), "record 1 at byte %d: has 1099511627776 bytes, more than" % at)
bad("not an Example", record(b"\x0a\xff\xff\xff\xff\x0f"), "record 0 at byte 0: is not a tf.train.Example (its protobuf message is broken before byte ")
bad("no image", record(example({"label": 1, "text": "x"})), "record 0 at byte 0: its features: no column holds images", "the columns: label, text")
bad("two images", record(example({"left": png[0], "right": png[1]})), "several columns may be the image: left, right")
bad("several numbers", record(example({"image": png[0], "height": 1, "width": 1})), "several columns may be the label: height, width; wanted --label NAME", code=2)
bad("--label that is not there", good, "--label: its features has no column 'x' of whole numbers or texts, only label", code=2, options=["--label", "x"])
bad("a record without an image", good + record(example({"label": 1})), "record 1 at byte %d: has no feature 'image', wanted one image file" % at)
bad("a record with two images", good + record(example({"image": [png[0], png[1]], "label": 1})), "its feature 'image' has 2 byte strings")
bad("a record without a label", good + record(example({"image": png[0]})), "record 1 at byte %d: has no feature 'label', wanted one whole number or text" % at)
bad("a record with two labels", good + record(example({"image": png[0], "label": [1, 2]})), "its feature 'label' has 2 whole numbers")
bad("a label that is a float", good + record(example({"image": png[0], "label": 1.5})), "its feature 'label' has 1 floats")
bad("a first label that is a float", record(example({"image": png[0], "label": 1.5})), "record 0 at byte 0: its features: column 'label' is called as a label, but does not hold")
bad("a label only later", record(example({"image": png[0]})) + good, "record 1 at byte ", "has a label 'label', which the first record lacks")
bad("numbers, then names", good + record(example({"image": png[0], "label": "cat"})), "has a name as its label, wanted a number")
bad("a label below -1", record(example({"image": png[0], "label": -2})), "has label -2, wanted -1 to 2147483647")
bad("a broken image", good + record(example({"image": png[0][:60], "label": 2})), "bad.tfrecord: record 1 at byte %d: " % at)
bad("a file without records", b"", "bad.tfrecord: is empty")
for compressed in (False, True):
    name = "bad.tfrecord" + ".gz" * compressed
    data = good + bytes(broken) + record(example({"image": png[1], "label": 3})) + record(example({"image": b"no image", "label": 4}))
    with writers.gzip.open(name, "wb") if compressed else open(name, "wb") as file:
        file.write(data)
    done = ffpack(name, "-o", out, "--on-error", "skip", "--max-skip", "100%", *packing.FIXED)
    found = packing.Packed(out) if done.returncode == 0 else None
    tap.ok(found and found.keys == [name + ":0", name + ":2"] and found.labels["label"] == [1, 3], "--on-error skip, " + name, done.stderr.decode())
    with open("out.skipped.tsv") as file:
        lines = [line.rstrip("\n").split("\t")[2:] for line in file]
    where = "unpacked byte" if compressed else "byte"
    tap.ok(lines[1][1] == "%s: record 1 at %s %d" % (name, where, at) and "CRC32C" in lines[1][2] and len(lines) == 3, "both are listed in OUT.skipped.tsv", lines)
    done = tap.run([packing.FFPACK, "check", name])
    said = done.stdout.decode() + done.stderr.decode()
    tap.ok(done.returncode == 65 and said.count("record ") == 2 and "2 of 4" in said, "ffpack check lists both, " + name, said)
    fresh()
write_tfrecord("x", inception)
tail = random.Random(1)
with open("x", "rb") as file:
    data = file.read()
for _ in range(40):
    where = tail.randrange(len(data))
    with open("flipped", "wb") as file:
        file.write(data[:where] + bytes([data[where] ^ 1 << tail.randrange(8)]) + data[where + 1:])
    done = ffpack("flipped", "-o", out, "--format", "tfrecord", *packing.FIXED)
    if done.returncode != 65 or b"CRC32C" not in done.stderr or done.stderr.count(b"\n") != 1:
        tap.ok(False, "a flipped bit at byte %d is noticed" % where, done.stderr.decode())
        break
else:
    tap.ok(True, "40 flipped bits are noticed")
fresh()
finish()
