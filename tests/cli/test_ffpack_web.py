#!/usr/bin/python3
"""WebDatasets: tars written by Python's tarfile, compared with the test's own grouping and torchvision's
values; splits, patterns, labels, every refusal. Prints TAP."""
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import compare, ffpack, image, pack, refuses, same_files, tap  # noqa: E402

rng = random.Random(3)
place = tempfile.mkdtemp()
os.chdir(place)
out = os.path.join(place, "out")


def write_tar(path, members, compress=""):
    """members: [(name, bytes)], or TarInfos of members without bytes"""
    with tarfile.open(path, "w:" + compress, format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def fresh():
    for name in os.listdir(place):
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)


def number(values):
    return {"label": ("class", "i32", 1, [], values)}


def reference(tars):
    """WebDataset's own rules (tariterators.py): [(key, {extension: bytes})]"""
    samples = []
    for path in tars:
        current = None
        with tarfile.open(path) as tar:
            for info in tar:
                if not info.isreg() or re.match(r"__[^/]*__($|/)", info.name):
                    continue
                if "/" not in info.name and info.name.startswith("__") and info.name.endswith("__"):
                    continue
                match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", info.name)
                if not match:
                    continue
                key, extension = match.group(1), match.group(2).lower()
                if current is None or current[0] != key:
                    current = (key, {})
                    samples.append(current)
                assert extension not in current[1]
                current[1][extension] = tar.extractfile(info).read()
    return samples


# ---- a pattern of tars, every kind of image, odd names -------------------------------------------
forms = [("jpg", "JPEG", "RGB"), ("png", "PNG", "RGBA"), ("JPEG", "JPEG", "L"), ("PNG", "PNG", "L")]
for tar in range(8, 11):
    members = [("__meta__", b"x"), ("__skip__/a.jpg", b"no image"), ("README", b"no key")]
    for i in range(7):
        extension, form, mode = rng.choice(forms)
        key = rng.choice(["%04d", "sub/%04d", "a.b/c%04d", "deep/er/%04d", "über %04d", "dots/%04d/"]) % i
        parts = [("." + extension, image(rng, form, mode)), (".cls", b"%d\n" % rng.randrange(1000)),
                 (".txt", b"a caption"), (".seg.png", b"not looked at"), (".", b"an empty extension")]
        rng.shuffle(parts)
        members += [(key + name, data) for name, data in parts]
        if i == 3:
            folder = tarfile.TarInfo("dots")
            folder.type = tarfile.DIRTYPE
            members.append((folder, b""))
    write_tar("train-%03d.tar" % tar, members)
    write_tar("zip-%03d.tar.gz" % tar, members, "gz")
    write_tar("mix-%03d.tar" % tar, members, "xz" if tar == 9 else "")
names = ["train-%03d.tar" % i for i in range(8, 11)]
samples = reference(names)
items = [(key, next(data for e, data in parts.items() if e in ("jpg", "png", "jpeg"))) for key, parts in samples]
labels = [int(parts["cls"]) for _, parts in samples]
assert len(items) == 21
if pack("a pattern of tars", out, "train-{008..010}.tar", "-j", 1):
    compare("a pattern of tars: WebDataset's samples, torchvision's values", out, items, number(labels))
for name, source in (("tar.gz", "zip-{008..010}.tar.gz"), ("mixed with tar.xz", "mix-{008,009,010}.tar")):
    if pack(name, "second", source, "-j", 3):
        tap.ok(not same_files(out, "second"), "%s, other jobs: the same bytes" % name, same_files(out, "second"))
        shutil.rmtree("second")
if pack("shuffled", "second", "train-{008..010}.tar", "--shuffle", 5):
    compare("shuffled: the same numbers", "second", items, number(labels))
os.mkdir("folder")
for name in names:
    shutil.copy(name, "folder")
shutil.copy("train-008.tar", "folder/notes.txt")
if pack("a folder", "third", "folder"):
    tap.ok(not same_files(out, "third"), "a folder of tars is the same set", same_files(out, "third"))
few = (resource.RLIMIT_NOFILE, (24, 24))
for i in range(60):
    write_tar("many-%d.tar" % i, [("k.png", image(rng)), ("k.cls", b"%d" % i)])
done = subprocess.run([packing.FFPACK, "many-{0..59}.tar", "-o", "many", "-j", "2", *packing.FIXED],
                      stderr=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: resource.setrlimit(*few))
if tap.ok(done.returncode == 0, "more tars than files may be open", done.stderr.decode()):
    tap.ok(packing.Packed("many").labels["label"] == list(range(60)), "in the pattern's order, one key for all")
fresh()

# ---- labels --------------------------------------------------------------------------------------
pictures = [image(rng) for _ in range(4)]


def with_json(values, path="set.tar"):
    write_tar(path, [m for i, v in enumerate(values)
                     for m in (("k%d.png" % i, pictures[i]), ("k%d.json" % i, v.encode()))])
    return [("k%d" % i, pictures[i]) for i in range(len(values))]


def named(classes, values, field="label"):
    return {field: ("class", "i32", 1, classes, values)}


rows = [json.dumps({"other": i, "class": name, "n": i * 3, "at": float("nan"), "id": 2**70, "text": 'NaN "x" -Infinity\\'})
        for i, name in enumerate(["zebra", "Ärmel", "ant", "zebra"])]
items = with_json(rows)
if pack("names", out, "set.tar"):
    compare("names from .json, numbered in the order of their bytes", out, items,
            named(["ant", "zebra", "Ärmel"], [1, 2, 0, 1]))
if pack("--label", "second", "set.tar", "--label", "n"):
    compare("--label names the key of the .json", "second", items, named([], [0, 3, 6, 9], "n"))
with open("classes", "w") as file:
    file.write("zebra\nant\nbee\nÄrmel\n")
if pack("--classes", "third", "set.tar", "--classes", "classes"):
    compare("--classes gives names their numbers", "third", items, named(["zebra", "ant", "bee", "Ärmel"], [0, 3, 1, 0]))
write_tar("numbers.tar", [m for i in range(4) for m in (("k%d.cls" % i, b" %+d " % (i - 1)), ("k%d.json" % i, b"[]"),
                                                        ("k%d.png" % i, pictures[i]))])
if pack("--classes", "fourth", "numbers.tar", "--classes", "classes"):
    compare("a .cls comes before a .json; --classes names its numbers; -1 is not a label", "fourth", items,
            named(["zebra", "ant", "bee", "Ärmel"], [-1, 0, 1, 2]))
write_tar("none.tar", [m for i in range(4) for m in (("k%d.png" % i, pictures[i]), ("k%d.json" % i, b'{"caption": "x"}'))])
if pack("no labels", "fifth", "none.tar"):
    compare("a set without labels", "fifth", items, {"label": ("none", "i32", 0, [], [[]] * 4)})
fresh()

# ---- splits --------------------------------------------------------------------------------------
write_tar("val-0.tar", [("a.png", pictures[0]), ("a.json", b'{"label": "x"}')])
write_tar("train-1.tar", [("b.png", pictures[1]), ("b.json", b'{"label": "w"}')])
write_tar("train-0.tar.zst.tar", [("a.png", pictures[2]), ("a.json", b'{"label": "y"}')])
os.makedirs("names")
for name in ("val-0.tar", "train-1.tar", "train-0.tar.zst.tar"):
    shutil.copy(name, "names")
os.makedirs("folders/train"), os.makedirs("folders/val")
shutil.copy("train-0.tar.zst.tar", "folders/train/00.tar")
shutil.copy("train-1.tar", "folders/train/01.tar")
shutil.copy("val-0.tar", "folders/val/00.tar")
for i, source in enumerate(["names", "folders", "{val-0,train-{0.tar.zst,1}}.tar"]):
    if pack(source, "out%d" % i, source):
        compare("train of " + source, "out%d/train" % i, [("a", pictures[2]), ("b", pictures[1])], named(["w", "x", "y"], [2, 0]))
        compare("val of " + source, "out%d/val" % i, [("a", pictures[0])], named(["w", "x", "y"], [1]))
fresh()

# ---- left out ------------------------------------------------------------------------------------
write_tar("rest.tar", [("a.png", pictures[0]), ("a.cls", b"1"), ("a.json", b'{"label": 2}'), ("a.txt", b"a caption"),
                       ("a.seg.png", b"a mask"), (".b.png", pictures[1]), (".b.cls", b"3"), ("__meta__", b"x"),
                       ("c.seg.png", b"a mask"), ("c.png", pictures[2]), ("c.cls", b"4")])
for options in (("--dry-run",), ()):
    done = ffpack("rest.tar", "-o", out, *options, *packing.FIXED)
    said = done.stdout.decode()
    wanted = ["1 file in .json (a.json)\n", "1 file in .txt (a.txt)\n", "2 files in .png (a.seg.png, ...)\n",
              "3 members whose names have no key (.b.png, ...)\n"]
    tap.ok(done.returncode == 0 and all(piece in said for piece in wanted) and said.count("left out: ") == 4,
           "members that nobody reads are counted %s" % " ".join(options), said + done.stderr.decode())
tap.ok(packing.Packed(out).keys == ["a", "c"] and packing.Packed(out).labels["label"] == [1, 4], "and the rest is packed")
fresh()
for compress in ("", "gz"):
    write_tar("bad.tar", [("a.jpg", pictures[0]), ("a.cls", b"1"), ("b.jpg", b"no image at all"), ("b.cls", b"2"),
                          ("c.jpg", pictures[1][:60]), ("c.cls", b"3"), ("d.jpg", pictures[2]), ("d.cls", b"4")], compress)
    refuses("a broken image (%s)" % compress, 65, ["bad.tar: b: "], "bad.tar", out=out)
    done = ffpack("bad.tar", "-o", out, "--on-error", "skip", "--max-skip", "100%", *packing.FIXED)
    found = packing.Packed(out) if done.returncode == 0 else None
    tap.ok(found and found.keys == ["a", "d"] and found.labels["label"] == [1, 4], "--on-error skip (%s)" % compress, done.stderr.decode())
    with open("out.skipped.tsv") as file:
        lines = [line.split("\t") for line in file]
    tap.ok([line[2:4] for line in lines] == [["item", "name"], ["1", "bad.tar: b"], ["2", "bad.tar: c"]], "both are listed in OUT.skipped.tsv", lines)
    fresh()

# ---- refused -------------------------------------------------------------------------------------
png = pictures[0]


def bad(name, members, *pieces, options=(), code=65, compress=""):
    write_tar("bad.tar", members, compress)
    refuses(name, code, pieces, "bad.tar", "--format", "webdataset", *options, out=out)


def special(kind, name="b.cls", target="a.png"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


good = [("a.png", png), ("a.cls", b"1")]
bad("a .cls with letters", good + [("b.png", png), ("b.cls", b"cat")], "bad.tar: sample b: its .cls holds 'cat', wanted a whole number")
bad("an empty .cls", [("a.png", png), ("a.cls", b"")], "sample a: its .cls holds ''")
bad("a .cls with zero bytes", [("a.png", png), ("a.cls", b"1\0\n2")], "holds '1%00%0A2'")
bad("a .cls too long", [("a.png", png), ("a.cls", b"1" * 33)], "its .cls has 33 bytes")
bad("a label below -1", [("a.png", png), ("a.cls", b"-2")], "sample a: has label -2, wanted -1 to 2147483647")
bad("a label beyond 32 bits", [("a.png", png), ("a.cls", b"2147483648")], "has label 2147483648")
with open("classes", "w") as file:
    file.write("one\ntwo\n")
bad("a label beyond --classes", [("a.png", png), ("a.cls", b"2")], "has label 2, wanted -1 to 1 as in classes", options=["--classes", "classes"])
bad("a name beyond --classes", [("a.png", png), ("a.json", b'{"label": "six"}')], "has label 'six', which is not in classes", options=["--classes", "classes"])
bad("broken .json", [("a.png", png), ("a.json", b'{"label": 1')], "bad.tar: sample a: its .json is broken at byte 11")
bad("a .json that is not an object", [("a.png", png), ("a.json", b"[1]")], "its .json is not an object")
bad("a .json without end", [("a.png", png), ("a.json", b"[" * 100000)], "its .json is broken")
bad("a .json too long", [("a.png", png), ("a.json", b" " * ((1 << 20) + 1))], "its .json has 1048577 bytes")
for value in (b"1.5", b"[1]", b"true", b"NaN", b"1e300"):
    bad("a label " + value.decode(), [("a.png", png), ("a.json", b'{"label": %s}' % value)], "sample a: ")
bad("a name that is empty", [("a.png", png), ("a.json", b'{"label": ""}')], "sample a: the name of its class is empty")
bad("a name with a zero byte", [("a.png", png), ("a.json", b'{"label": "a\\u0000b"}')], "zero byte")
bad("numbers and names", [("a.png", png), ("a.json", b'{"label": 1}'), ("b.png", png), ("b.json", b'{"label": "x"}')], "sample b: has a name as its label")
bad("a sample without a label", good + [("b.png", png)], "bad.tar: sample b has no .cls, as other samples have")
bad("a first sample without a label", [("0.png", png), ("0.txt", b"")] + good, "bad.tar: sample 0 has no .cls")
bad("a .json without the label", [("a.png", png), ("a.json", b'{"cls": 1}'), ("b.png", png), ("b.json", b'{"label": 1}')], "sample b has no label, wanted 'cls' in its .json")
bad("--label that no sample has", good, "--label: no sample of bad.tar has 'x' in a .json", options=["--label", "x"], code=2)
bad("a sample without an image", good + [("b.txt", b"x"), ("b.cls", b"1")], "sample b: has no image")
bad("two images in a sample", [("a.png", png), ("a.jpg", png)], "sample a: has two images, 'png' and 'jpg'")
bad("two images of lower rank", [("a.l.png", png), ("a.r.png", png)], "sample a: has two images, 'l.png' and 'r.png'")
bad("an extension twice", good + [("a.CLS", b"1")], "sample a: has two members of extension 'cls'")
bad("a symbolic link", good + [(special(tarfile.SYMTYPE), b"")], "bad.tar: member b.cls is a link, wanted a regular file")
bad("a hard link", good + [(special(tarfile.LNKTYPE), b"")], "member b.cls is a link")
bad("a device", good + [(special(tarfile.CHRTYPE), b"")], "member b.cls is a device or pipe")
bad("a name that leads out", good + [("../../x.png", png)], "member ../../x.png leads out of the archive")
bad("an absolute name", good + [("/etc/x.png", png)], "member /etc/x.png has an absolute name")
bad("a name of 64 KiB", good + [("x" * 65536 + ".png", png)], "has a name of 65540 bytes, at most 4096")
bad("an archive without samples", [("README", b"x")], "bad.tar: has no items")
write_tar("cut.tar", [("a.png", png), ("a.cls", b"1"), ("b.cls", b"2"), ("b.png", png * 40)])
os.truncate("cut.tar", 3000)
refuses("a tar cut off", 65, ["cut.tar"], "cut.tar", out=out)
refuses("a pattern of missing tars", 74, ["no-00.tar: cannot open"], "no-{00..10}.tar", out=out)
write_tar("some-0.tar", good)
refuses("a pattern with one tar missing", 74, ["some-1.tar: cannot open"], "some-{0,1}.tar", out=out)
refuses("a pattern for another format", 2, ["--format cifar takes one file or folder"], "some-{0,0}.tar", "--format", "cifar", out=out)
refuses("a pattern of too many", 2, ["more than 1048576 files"], "some-{0..9999999}.tar", out=out)
os.mkdir("hollow")
refuses("a folder without tars", 65, ["hollow: holds no tars"], "hollow", "--format", "webdataset", out=out)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
