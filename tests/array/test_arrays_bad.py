#!/usr/bin/python3
"""Wrong arrays and options: one message with the place, the documented exit code, and no output."""
import gzip
import io
import os
import struct
import sys
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packed  # noqa: E402
from packed import numpy, refuses, write  # noqa: E402

images = numpy.arange(6 * 4 * 5, dtype="u1").reshape(6, 4, 5)
labels = numpy.array([0, 1, 2, 0, 1, 2])


def npy(array):
    out = io.BytesIO()
    numpy.save(out, array)
    return out.getvalue()


def header(text, version=1, magic=b"\x93NUMPY", length=None):
    text = text.encode("latin1")
    count = len(text) if length is None else length
    return magic + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", count) + text


def bad_npy(name, data, *words, code=65, options=()):
    write("one/x.npy", data)
    refuses(name, code, ("x.npy",) + words, "one/x.npy", *options)


def bad_npz(name, words, code=65, options=(), **arrays):
    numpy.savez("set.npz", **arrays)
    refuses(name, code, words, "set.npz", *options)


GOOD = "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5), }\n"
DATA = images.tobytes()
packed.pack(write("good.npy", header(GOOD) + DATA), "--dtype", "u8")

# ---- headers
bad_npy("an array of objects", npy(numpy.array([[["x", 1]]], dtype=object)), "holds Python's objects (type '|O'), which are never unpickled")
bad_npy("records", npy(numpy.zeros((2, 3, 4), "u1,f4")), "records of several fields")
bad_npy("strings", npy(numpy.zeros((2, 3, 4), "U3")), "elements are of type '<U3', wanted numbers")
bad_npy("complex numbers", npy(numpy.zeros((2, 3, 4), "c8")), "type '<c8'")
bad_npy("long doubles", npy(numpy.zeros((2, 3, 4), "f2")).replace(b"'<f2'", b"'<g' "), "type '<g'")
bad_npy("version 4", header(GOOD, 4) + DATA, "is of NPY version 4, wanted 1 to 3")
bad_npy("a header of 4 GB", header(GOOD, 2, length=0xffffffff) + DATA, "its NPY header has 4294967295 bytes")
bad_npy("a header longer than the file", header(GOOD, length=60000) + DATA, "its NPY header has 60000 bytes")
bad_npy("a header too long", header(GOOD + " " * 70000, 2) + DATA, "wanted at most 65536")
bad_npy("no dict", header("hello") + DATA, "at character 0: wanted {")
bad_npy("code for a dict", header("__import__('os').system('touch owned')"), "wanted {")
bad_npy("an unknown key", header(GOOD.replace("shape", "shade")) + DATA, "each of 'descr', 'fortran_order' and 'shape' once")
bad_npy("a key twice", header(GOOD.replace("shape", "descr").replace("(6, 4, 5)", "'u1'")) + DATA, "once")
bad_npy("a key too few", header("{'descr': '|u1', 'shape': (6, 4, 5)}") + DATA, "once")
bad_npy("a negative size", header(GOOD.replace("(6", "(-6")) + DATA, "wanted a size")
bad_npy("a size of 2^64", header(GOOD.replace("(6", "(18446744073709551616")) + DATA, "wanted a size below 2^64")
bad_npy("sizes that overflow", header(GOOD.replace("6, 4", "4294967296, 4294967296")) + DATA, "120 bytes after its header, but is 4294967296 x 4294967296")
bad_npy("a shape cut off", header("{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4") + DATA, "wanted , or )")
bad_npy("9 dimensions", header(GOOD.replace("6, 4, 5", "6, 4, 5, 1, 1, 1, 1, 1, 1")) + DATA, "at most 8 dimensions")
bad_npy("something after the dict", header(GOOD + "x") + DATA, "wanted the end")
bad_npy("a zero in the header", header(GOOD[:-1] + "\0") + DATA, "a zero byte")
bad_npy("data cut off", (header(GOOD) + DATA)[:-1], "has 119 bytes after its header, but is 6 x 4 x 5 u8")
bad_npy("data too long", header(GOOD) + DATA + b"x", "has 121 bytes after its header")
bad_npy("only the magic", b"\x93NUMPY\x01\x00", "too few for an NPY header")
bad_npy("a gzip cut off", gzip.compress(header(GOOD) + DATA)[:-9], "the gzip data ends")

# ---- shapes and types
bad_npy("2 dimensions", npy(numpy.zeros((4, 784), "u1")), "4 x 784 u8: wanted images of 3 dimensions")
bad_npy("5 dimensions", npy(numpy.zeros((2, 3, 4, 5, 6), "u1")), "wanted images of 3 dimensions")
bad_npy("one number", npy(numpy.uint8(3)), "one u8: wanted images")
bad_npy("no images", npy(numpy.zeros((0, 4, 5), "u1")), "dimension 0 is 0")
bad_npy("no columns", npy(numpy.zeros((4, 4, 0), "u1")), "dimension 2 is 0")
for shape in ((2, 5, 6, 7), (2, 3, 4, 4), (2, 1, 1, 1)):
    bad_npy("channels first or last of %s?" % (shape,), npy(numpy.zeros(shape, "u1")), "which axis is the channels? wanted --array-layout",
            code=2)
bad_npy("5000 channels", npy(numpy.zeros((1, 5000, 3, 3), "u1")), "5000 channels, wanted at most 4096", options=("--array-layout", "chw"))
for code in ("i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"):
    name = {"i": "i", "u": "u"}[code[-2]] + str(8 * int(code[-1]))
    bad_npy("%s without --range" % name, npy(images.astype(code)), "holds %s values: wanted --range LO,HI" % name, code=2)
bad_npy("--range of floats", npy(images.astype("f4")), "--range:", "holds f32 values, which are used as they are", code=2,
        options=("--range", "0,1"))
bad_npy("--range of truth values", npy(images > 3), "--range:", "holds bool values", code=2, options=("--range", "0,1"))
for text in ("1,0", "0", "0,", ",1", "a,b", "0,inf", "0,1,2", "nan,1", "3,3"):
    refuses("--range %s" % text, 2, ("--range: '%s' is not a range of values" % text,), "good.npy", "--range", text)
bad_npy("--dtype u8 of floats", npy(images.astype("f4")), "--dtype u8: stores raw u8 values", "holds f32", code=2, options=("--dtype", "u8"))
bad_npy("--dtype u16 of u8", npy(images), "--dtype u16: stores raw u16 values", code=2, options=("--dtype", "u16"))
bad_npy("--dtype u16 of i16", npy(images.astype("i2")), "--dtype u16: stores raw u16 values", "holds i16", code=2,
        options=("--dtype", "u16", "--range", "0,9"))
bad_npy("--resize of u16", npy(images.astype("u2")), "--resize: is for u8 values", code=2, options=("--resize", "8", "--range", "0,9"))
bad_npy("--resize of floats", npy(images.astype("f4")), "--resize: is for u8 values", code=2, options=("--resize", "8"))
bad_npy("--stats compute of floats", npy(images.astype("f2")), "--stats compute: counts u8 and u16 values", code=2, options=("--stats", "compute"))
bad_npy("--mode rgb of 2 channels", npy(numpy.zeros((2, 2, 8, 8), "u1")), "--mode rgb: wanted 1 or 3 channels", code=2, options=("--mode", "rgb"))
bad_npy("--mode gray of 4 channels", npy(numpy.zeros((2, 8, 8, 4), "u1")), "--mode gray: wanted 1 or 3 channels", code=2, options=("--mode", "gray"))
bad_npy("--mode rgb of floats", npy(images.astype("f4")), "--mode rgb: is for u8 values", code=2, options=("--mode", "rgb"))
bad_npy("u16 of one value throughout", npy(numpy.full((2, 4, 4), 700, "u2")), "channel 0 has the value 700 in every pixel",
        options=("--range", "0,1000", "--stats", "compute"))

# ---- names
bad_npz("names that say nothing", ("holds no arrays with names of images and labels, only left.npy, right.npy",), left=images, right=images)
bad_npz("labels without images", ("y_test.npy holds labels, but their images are missing",), x_train=images, y_test=labels)
bad_npz("images twice", ("images.npy and x.npy both hold images, wanted one",), images=images, x=images)
bad_npz("images of a split twice", ("both hold images of split test",), x_test=images, test_images=images)
bad_npz("images with and without a split", ("x.npy has no split in its name, but x_test.npy is in split test",), x=images, x_test=images)
os.makedirs("none", exist_ok=True)
write("none/a.txt", b"")
refuses("a folder without arrays", 65, ("none: holds no arrays with names of images and labels, only none",), "none", "--format", "npy")
write("y_train.npy", npy(labels))
refuses("labels given as the source", 65, ("6 i64: wanted images of 3 dimensions",), "y_train.npy")

# ---- sets
bad_npz("splits of other shapes", ("x_test.npy: 6 x 5 x 4 u8, but", "x_train.npy has 6 x 4 x 5 u8"), x_train=images,
        x_test=images.transpose(0, 2, 1).copy())
bad_npz("splits of other types", ("6 x 4 x 5 u16, but",), x_train=images, x_test=images.astype("u2"), options=("--range", "0,1"))
bad_npz("labels too few", ("y.npy: has 5 labels for 6 images in set.npz: x.npy",), x=images, y=labels[:5])
bad_npz("labels of 3 dimensions", ("wanted labels of 1 dimension",), x=images, y=numpy.zeros((6, 2, 2)))
bad_npz("labels without width", ("wanted labels of 1 dimension",), x=images, y=numpy.zeros((6, 0)))
bad_npz("a class below -1", ("label -2 of item 3 at byte", "wanted a class from 0 on"), x=images, y=numpy.array([0, 1, 2, -2, 0, 0]))
bad_npz("a class of 2^64 - 1, which is no -1", ("of item 3 at byte",), x=images, y=numpy.array([0, 1, 2, 2**64 - 1, 0, 0], "u8"))
bad_npz("a class of 2^40", ("label 1099511627776 of item 1",), x=images, y=numpy.array([0, 1 << 40, 2, 0, 0, 0]))
bad_npz("a class beyond int64", ("of item 5",), x=images, y=numpy.array([0, 1, 2, 0, 0, 1 << 63], "u8"))
bad_npz("labels of other widths", ("y_test.npy: 6 x 3 u8, but", "y_train.npy has 6 x 4 u8"), x_train=images, y_train=numpy.zeros((6, 4), "u1"),
        x_test=images, y_test=numpy.zeros((6, 3), "u1"))
bad_npz("labels of other kinds", ("6 f64, but",), x_train=images, y_train=labels, x_test=images, y_test=labels / 2)
bad_npz("vectors for one split only", ("x_test.npy: has no labels, but", "only classes may be missing"), x_train=images, y_train=labels / 2,
        x_test=images)
write("two.classes", b"a\nb\n")
classes = ("--classes", "two.classes")
bad_npz("a class beyond --classes", ("label 2 of item 2", "wanted 0 to 1 as two.classes names 2 classes"), options=classes, x=images, y=labels)
bad_npz("--classes of vectors", ("--classes: the labels of set.npz are numbers",), code=2, options=classes, x=images, y=labels / 2)
bad_npz("--classes without labels", ("--classes: the labels of set.npz are missing",), code=2, options=classes, x=images)
bad_npz("--classes of another count", ("two.classes: names 2 classes, but set.npz has 3",), options=classes, x=images, y=numpy.zeros((6, 3), "u1"))

# ---- archives
numpy.savez("set.npz", x=images, y=labels)
whole = open("set.npz", "rb").read()
at = whole.index(DATA) + 50
write("flipped.npz", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
refuses("an .npz with a flipped bit", 65, ("flipped.npz: broken archive", "CRC"), "flipped.npz")
write("cut.npz", whole[:200])
refuses("an .npz cut off", 65, ("cut.npz: ",), "cut.npz", "--format", "npy")
with zipfile.ZipFile("evil.npz", "w") as archive:
    archive.writestr("x.npy", npy(images))
    archive.writestr("../../y.npy", npy(labels))
refuses("an .npz that leads out", 65, ("leads out of the archive",), "evil.npz")
with zipfile.ZipFile("objects.npz", "w") as archive:
    archive.writestr("x.npy", npy(images))
    archive.writestr("y.npy", npy(numpy.array([{}] * 6, dtype=object)))
refuses("objects in an .npz", 65, ("objects.npz: y.npy: holds Python's objects",), "objects.npz")
with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    with archive.open("x.npy", "w") as file:
        text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1200, 1024, 1024), }"
        file.write(header(text))
        for _ in range(1200):
            file.write(bytes(1 << 20))
refuses("a bomb", 65, ("bomb.npz: member x.npy", "a compression bomb"), "bomb.npz")


# ---- IDX

def idx(kind, dimensions, data):
    return struct.pack(">HBB", 0, kind, len(dimensions)) + struct.pack(">%dI" % len(dimensions), *dimensions) + data


def bad_idx(name, images_bytes, labels_bytes, *words, code=65, options=()):
    write("idx/a-images-idx3-ubyte", images_bytes)
    write("idx/a-labels-idx1-ubyte", labels_bytes)
    refuses(name, code, words, "idx", *options)


good_images, good_labels = idx(8, (3, 2, 2), bytes(12)), idx(8, (3,), bytes(3))
bad_idx("IDX i16 without --range", idx(0x0b, (3, 2, 2), bytes(24)), good_labels, "holds i16 values: wanted --range", code=2)
bad_idx("IDX of a type that is none", idx(0x0a, (3, 2, 2), bytes(12)), good_labels, "its magic is 00 00 0a 03")
bad_idx("IDX images of 5 dimensions", idx(8, (3, 1, 1, 1, 2), bytes(6)), good_labels, "its magic is 00 00 08 05")
bad_idx("IDX images of 2 dimensions", idx(8, (3, 2), bytes(6)), good_labels, "its magic is 00 00 08 02")
bad_idx("IDX labels of 3 dimensions", good_images, idx(8, (3, 1, 1), bytes(3)), "its magic is 00 00 08 03, wanted 00 00 08 01 for labels")
bad_idx("IDX f64 cut off", idx(0x0e, (3, 2, 2), bytes(95)), good_labels, "has 111 bytes, wanted 112 (16 and 3 x 2 x 2 f64)")
bad_idx("IDX images of no rows", idx(8, (3, 0, 2), b""), good_labels, "dimension 1 at byte 8 is 0, wanted 1 to")
bad_idx("IDX sizes that overflow", idx(0x0e, (0xffffffff, 1 << 20, 1 << 20), bytes(8)), good_labels, "are too many")
bad_idx("an IDX label below -1", good_images, idx(0x0c, (3,), struct.pack(">3i", 1, 2, -7)), "label -7 of item 2 at byte 16, wanted a class")
bad_idx("IDX whose axes are a guess", idx(8, (3, 2, 2, 2), bytes(24)), good_labels, "which axis is the channels?", code=2)
packed.finish()
