#!/usr/bin/python3
"""List files: tabs, CSV, headers, every kind of label, splits, paths, and every refusal; and --label. Values
are compared with torchvision's, labels with the same text as Python reads it."""
import csv
import gzip
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import compare, ffpack, image, pack, refuses, same_files, tap  # noqa: E402

numpy = packing.numpy
rng = random.Random(4)
place = tempfile.mkdtemp()
os.chdir(place)
out = os.path.join(place, "out")
os.makedirs("set/sub dir")
paths = ["a.png", "sub dir/b, \"c\".png", "../next.png", os.path.join(place, "absolute.png"), "é.jpg", "z.png"]
pictures = {}
for path in paths:
    if path not in pictures:
        pictures[path] = image(rng, "JPEG" if path.endswith("jpg") else "PNG")
        with open(os.path.join("set", path), "wb") as file:
            file.write(pictures[path])
items = [(path, pictures[path]) for path in paths]


def write(text, name="set/list"):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def tabs(*columns, header=None):
    rows = ([header] if header else []) + [[path, *cells] for path, *cells in zip(paths, *columns)]
    write("".join("\t".join(map(str, row)) + "\n" for row in rows))


def commas(*columns, header=None, end="\r\n"):
    with open("set/list", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=end)
        if header:
            writer.writerow(header)
        writer.writerows([path, *cells] for path, *cells in zip(paths, *columns))


def check(name, fields, *options, items=items):
    shutil.rmtree("out", ignore_errors=True)
    if pack(name, out, "set/list", *options):
        return compare(name, out, items, fields)


def klass(values, classes=(), dtype="i32"):
    return ("class", dtype, 1, list(classes), values)


def vector(rows):
    rows = [[float(numpy.float32(v)) for v in row] for row in rows]
    return ("vector", "f32", len(rows[0]), [], rows)


def multi(classes, rows):
    return ("multi-hot", "u8", len(classes), classes, [[int(c in row) for c in classes] for row in rows])


# ---- kinds ---------------------------------------------------------------------------------------
numbers = [3, 0, -1, 7, 7, 2]
words = ["cat", "dog", "Ärger", "ant", "cat", "zoo"]
tabs(numbers)
check("whole numbers", {"label": klass(numbers)})
tabs([-1, 2**31, 2**63 - 1, 0, 5, 5])
check("whole numbers of 64 bits", {"label": klass([-1, 2**31, 2**63 - 1, 0, 5, 5], dtype="i64")})
names = sorted(set(words), key=lambda w: w.encode())
tabs(words)
check("names", {"label": klass([names.index(w) for w in words], names)})
commas(words, numbers)
check("CSV with quotes and CRLF; two columns", {"label": klass([names.index(w) for w in words], names), "label2": klass(numbers)})
floats = [[rng.uniform(-1e3, 1e3) for _ in range(3)] for _ in paths]
tabs(*zip(*floats))
check("columns of numbers are one vector", {"target": vector(floats)})
tabs(words, *zip(*floats))
check("a class and a vector", {"label": klass([names.index(w) for w in words], names), "target": vector(floats)})
tabs([row[0] for row in floats], numbers, [row[1] for row in floats], [row[2] for row in floats])
check("two vectors", {"target": vector([row[:1] for row in floats]), "label": klass(numbers), "target2": vector([row[1:] for row in floats])})
tabs([" ".join(map(repr, row)) for row in floats])
check("a vector in one cell", {"target": vector(floats)})
boxes = [[rng.randrange(9) for _ in range(200)] for _ in paths]
tabs([";".join(map(str, row)) for row in boxes], header=["Path", "box"])
check("a wide vector of whole numbers", {"box": vector(boxes)})
odd = ["1.5e-3", "-.5", "+7.", "1e-50", "16777217", "0.1"]
commas(odd)
check("numbers as float32 rounds them", {"target": vector([[float(v)] for v in odd])})
tags = [["b", "a"], [], ["é é"], ["c"], ["a", "c", "b"], ["b"]]
kinds = sorted({t for row in tags for t in row}, key=lambda w: w.encode())
tabs([" ; ".join(row) for row in tags])
check("several names: multi-hot", {"label": multi(kinds, tags)})
many = [["t%d" % rng.randrange(500) for _ in range(40)] for _ in paths]
commas(["|".join(row) for row in many], header=["image", "tags"])
check("a wide multi-hot label", {"tags": multi(sorted({t for row in many for t in row}), many)})
forced = ["1", "2", "10", "1", "2;3", "2"]
tabs(forced, forced, words, ["3"] * 6, header=["filepath", "a:multi", "b:class", "c:multi", "d:vector"])
check("kinds that the header declares", {
    "a": multi(["1", "10", "2", "3"], [c.split(";") for c in forced]),
    "b": klass([["1", "10", "2", "2;3"].index(c) for c in forced], ["1", "10", "2", "2;3"]),
    "c": multi(names, [[w] for w in words]), "d": vector([[3]] * 6)})
tabs(words, numbers, [row[0] for row in floats], header=["path", "w", "n", "f"])
check("--label of a list", {"n": klass(numbers)}, "--label", "n")
write("".join("%s\t%d\n" % line for line in zip(paths + paths[:2], numbers + numbers[:2])))
check("two images once more", {"label": klass(numbers + numbers[:2])}, items=items + items[:2])
tabs(words, numbers)
check("--label without a header", {"label2": klass(numbers)}, "--label", "label2")
write("zoo\ncat\ndog\nbee\nant\nÄrger\n", "classes")
order = ["zoo", "cat", "dog", "bee", "ant", "Ärger"]
tabs(words)
check("--classes for names", {"label": klass([order.index(w) for w in words], order)}, "--classes", "classes")
tabs([3, 0, -1, 5, 5, 2])
check("--classes for numbers", {"label": klass([3, 0, -1, 5, 5, 2], order)}, "--classes", "classes")
tabs([";".join(pair) for pair in zip(words, words[1:] + words[:1])])
check("--classes for several names", {"label": multi(order, list(zip(words, words[1:] + words[:1])))}, "--classes", "classes")
write("\n".join(paths))
check("paths alone: no labels, no end of the last line", {"label": ("none", "i32", 0, [], [[]] * 6)})
write(b"\xef\xbb\xbfIMAGE\tlabel\r\n\r\n" + b"".join(b"%s\t%d\r\n\r\n" % (p.encode(), n) for p, n in zip(paths, numbers)))
check("a byte order mark, empty lines, CRLF", {"label": klass(numbers)})
commas(["two\nlines, and \"quotes\"", "b", "b", "b", "b", "b"], header=["file", "text"])
check("a cell of two lines", {"text": klass([1, 0, 0, 0, 0, 0], ["b", "two\nlines, and \"quotes\""])})
title, text = "t", ""
while text.encode()[:512].count(b'"') % 2 == 0:  # until byte 512 is within a quoted cell
    title += "t"
    rows = [["file", title]] + 5 * list(zip(paths, words))
    text = "".join("\t".join('"%s"' % cell.replace('"', '""') for cell in row) + "\r\n" for row in rows)
write(text)
check("a first part that ends within quotes", {title: klass(5 * [names.index(w) for w in words], names)}, items=5 * items)
tabs(numbers)
with open("set/list", "rb") as file:
    data = file.read()
write(gzip.compress(data), "set/list.gz")
if pack("gzip", "packed", "set/list.gz"):
    compare("a list in gzip", "packed", items, {"label": klass(numbers)})
os.chdir("set")
if pack("beside it", "../beside", "list", "-j", "3"):
    tap.ok(not same_files("../packed", "../beside"), "a list in the current folder, other jobs: the same bytes", same_files("../packed", "../beside"))
os.chdir(place)
if pack("shuffled", "shuffled", "set/list", "--shuffle", 5, "--compress", "zstd"):
    compare("shuffled and compressed", "shuffled", items, {"label": klass(numbers)})

# ---- splits --------------------------------------------------------------------------------------
parts = ["val", "train", "val", "test-2", "train", "val"]
tabs(words, parts, header=["path", "label", "Split"])
shutil.rmtree("out", ignore_errors=True)
if pack("splits", out, "set/list"):
    for part in ("train", "val", "test-2"):
        chosen = [i for i, p in enumerate(parts) if p == part]
        compare("split " + part, os.path.join(out, part), [items[i] for i in chosen],
                {"label": klass([names.index(words[i]) for i in chosen], names)})
    tap.ok(sorted(os.listdir(out)) == ["test-2", "train", "val"], "a folder for each split", os.listdir(out))
tabs(words, ["all"] * 6, header=["path", "label", "split"])
check("one split is none", {"label": klass([names.index(w) for w in words], names)})

# ---- left out ------------------------------------------------------------------------------------
shutil.rmtree("out")
write(b"not an image", "set/bad.png")
write("a.png\t1\nmissing.png\t2\nbad.png\t3\nsub dir\t4\né.jpg\t5\n")
done = ffpack("set/list", "-o", out, "--on-error", "skip", "--max-skip", "100%", *packing.FIXED)
if tap.ok(done.returncode == 0, "--on-error skip", done.stderr.decode()):
    found = packing.Packed(out)
    tap.ok((found.keys, found.labels["label"]) == (["a.png", "é.jpg"], [1, 5]), "the rest is there", found.keys)
    with open("out.skipped.tsv") as file:
        left = [line.split("\t")[2:4] for line in file]
    tap.ok(left == [["item", "name"], ["1", "set/missing.png"], ["2", "set/bad.png"], ["3", "set/sub dir"]], "what was left out is listed", left)
    os.remove("out.skipped.tsv")
    shutil.rmtree("out")


# ---- refused -------------------------------------------------------------------------------------
def bad(name, text, *pieces, options=(), code=65):
    write(text)
    refuses(name, code, pieces, "set/list", "--format", "list", *options, out=out)


one = "a.png\t1\n"
bad("a missing image", one + "none.png\t2\n", "set/list: line 2: none.png is missing, wanted an image file")
bad("an image that is a folder", one + "sub dir\t2\n", "set/list: line 2: sub dir is a folder")
bad("an image below a file", one + "a.png/x\t2\n", "line 2: a.png/x is missing")
bad("a file that is not an image", one + "bad.png\t2\n", "set/bad.png: ")
bad("no path", one + "\t2\n", "line 2 has no path")
bad("a path of 64 KiB", one + "x/" * 32768 + "\t2\n", "line 2 has a path of 65536 bytes, at most 4096 are allowed")
bad("other cells", one + "a.png\t1\t2\n", "set/list: line 2 has 3 cells, the first one has 2")
bad("a cell too few", "a.png\t1\t2\na.png\t1\n", "set/list: line 2 has 2 cells, the first one has 3")
bad("a zero byte", one + "a.png\t\0\n", "set/list: line 2 has a zero byte")
bad("a row too long", one + "a.png\t" + "x" * (1 << 20), "line 2 has a row of more than 1048576 bytes")
bad("too many cells", "\t" * 70000 + "\n", "line 1 has more than 65536 cells")
bad("too many columns", "a.png" + "\t1" * 300 + "\n", "has 300 label columns, at most 256")
bad("a header of too many columns", "path" + "".join("\tc%d" % i for i in range(300)) + "\n", "has 300 label columns, at most 256")
bad("an open quote", 'a.png,1\n"a.png,1\n', "the quote that line 2 opens does not end")
bad("text after a quote", '"a.png"x,1\n', "line 1 has 'x' after a closing quote")
bad("a number among names", "a.png\tcat\na.png\t3\n", "column 2: line 2 has a number and line 1 a name")
bad("a name among numbers", one + "a.png\t3x\n", "column 2: line 1 has a number and line 2 a name")
bad("nan among numbers", "a.png\t0.5\na.png\tnan\n", "line 1 has a number and line 2 a name")
bad("a class below -1", one + "a.png\t-2\n", "has the class -2, wanted -1 or above, or --label-kind value (a header like NAME:value)")
bad("a class beyond 64 bits", one + "a.png\t9223372036854775808\n", "line 2: '9223372036854775808' is a whole number beyond 64 bits")
bad("an empty class", one + "a.png\t\n", "column 2: line 2 is empty, wanted a class, or -1")
bad("an empty name", "a.png\tx\na.png\t\n", "column 2: line 2 is empty, wanted a class\n")
bad("an empty vector", "a.png\t0.5\na.png\t \n", "line 2 is empty, wanted numbers")
bad("vectors of two lengths", "a.png\t1 2\na.png\t1 2 3\n", "line 2 has 3 numbers, others have 2")
bad("a name in a vector", "path\tv:vector\na.png\t1\na.png\tx\n", "column v: line 3 is not a number")
bad("an infinite number", "path\tv:vector\na.png\t1e39\n", "column v: line 2 is not a number")
bad("no names at all", "path\tv:multi\na.png\t\n", "column v: has 0 names")
bad("an unknown kind", "path\tv:mutli\na.png\t1\n", "column 2: the header has 'v:mutli', wanted class, names, numbers, multi-hot or value after ':'")
bad("two columns of a name", "path\tv\tv:multi\na.png\t1\t1\n", "columns 2 and 3 are both called v")
bad("a column without a name", "path\t\na.png\t1\n", "column 2: the header has no name")
bad("a header alone", "path\tv\n", "has no items")
bad("a split that leads out", "path\tsplit\na.png\t../x\n", "line 2 names the split '../x'")
bad("an empty split", "path\tsplit\na.png\t\n", "line 2 names the split ''")
bad("too many splits", "path\tsplit\n" + "".join("a.png\ts%d\n" % i for i in range(65)), "line 66 names a split beyond 64")
bad("--label of no column", "path\tv\na.png\t1\n", "--label: the header of set/list names no column 'w'", options=["--label", "w"], code=2)
bad("--label of no field", one, "--label: set/list has no label field 'w', only label", options=["--label", "w"], code=2)
bad("--classes of several columns", "a.png\t1\t2\n", "--classes: set/list has several columns of classes", options=["--classes", "classes"], code=2)
bad("--classes of none", "a.png\t.5\n", "--classes: set/list has no column of classes", options=["--classes", "classes"], code=2)
bad("a class beyond --classes", "a.png\t6\n", "line 1 has the class 6, wanted -1 to 5 as in classes", options=["--classes", "classes"])
bad("a name beyond --classes", "a.png\tcow\n", "line 1: 'cow' is not a class of classes", options=["--classes", "classes"])
for name, text in [("another header", "picture,kind\na.png,1\n"), ("pandas' index and another header", ",picture,kind\n0,a.png,1\n"), ("a first image that is missing", "none.png\tcat\n")]:
    write(text, "set/table.csv")
    refuses(name, 65, ["set/table.csv: its first line '%s' neither begins" % text.split("\n")[0].replace("\t", "?")], "set/table.csv", out=out)
write("\1\2, binary\n", "set/binary")
refuses("what is not a text", 65, ["set/binary: starts with bytes 01 02 2c 20", "the nearest are a folder with one folder of images per class; a list of image files", "; ffpack --help lists all"], "set/binary", out=out)
write("some text\tof no file\n", "set/text")
refuses("text that is not a list", 65, ["set/text: its first line 'some text?of no file' neither begins with the path", "path, file, filename or image"], "set/text", out=out)

# ---- --label of other sources --------------------------------------------------------------------
here = os.path.dirname(os.path.abspath(__file__))
os.mkdir("cifar")
subprocess.run([sys.executable, os.path.join(here, "make_inputs.py"), "cifar100", "cifar", "12"], check=True)
done = [ffpack("cifar", "-o", "both").returncode, ffpack("cifar", "-o", "one", "--label", "coarse").returncode]
if tap.ok(done == [0, 0], "--label coarse of CIFAR-100", done):
    both, one = packing.Packed("both/train"), packing.Packed("one/train")
    tap.ok(list(one.fields) == ["coarse"] and one.fields["coarse"] == both.fields["coarse"]
           and one.labels["coarse"] == both.labels["coarse"] and one.tensors == both.tensors
           and both.labels["coarse"] != both.labels["fine"], "is the field alone")
refuses("--label that CIFAR-100 has not", 2, ["--label: cifar has no label field 'x', only fine, coarse"],
        "cifar", "--label", "x", out=out)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
