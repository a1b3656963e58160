#!/usr/bin/python3
"""Image folders inside archives: the same set as from the unpacked folder, for every kind of archive; and
malicious archives."""
# Needs: ffpack ffinspect
import gzip
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import archives  # noqa: E402
from archives import FFINSPECT, Image, ids, numpy, run  # noqa: E402
from tap import files_of, ok  # noqa: E402

random.seed(7)
OPTIONS = ["--resize", "24x20", "--mean", ".5,.5,.5", "--std", ".2,.2,.2", "--shard-size", "64K"]


def npy(folder, name):
    subprocess.run([FFINSPECT, folder, "--npy", name], check=True, stdout=subprocess.DEVNULL)
    return numpy.load(name)


def picture(path, index):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    side = 16 + index % 23
    values = numpy.random.RandomState(index).randint(0, 256, (side, side + index % 5, 3), dtype=numpy.uint8)
    Image.fromarray(values).save(path)


def make_folder(root, splits):
    index = 0
    for split in splits:
        for name in ["b", "a", "a-b", "Z", ".hidden", "\xe4 \xf6"]:
            for at in ["1.png", "10.jpg", "2.PNG", "sub/x.jpeg", "sub-1/x.jpg", "sub/deep/y.png", "notes.txt"]:
                path = os.path.join(root, split, name, at)
                index += 1
                if at.endswith("txt"):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    open(path, "w").write("no image")
                else:
                    picture(path, index)


def add_all(tar, folder, inside, order):
    paths = []
    for root, _, names in os.walk(folder):
        paths += [os.path.join(root, name) for name in names]
    paths.sort()
    if order:
        random.shuffle(paths)
    for path in paths:
        tar.add(path, os.path.join(inside, os.path.relpath(path, folder)))


def make_tar(name, folder, inside="", mode="w", order=True, form=tarfile.PAX_FORMAT):
    with tarfile.open(name, mode, format=form) as tar:
        add_all(tar, folder, inside, order)


make_folder("plain", [""])
make_folder("splits", ["train", "test"])

# ---- the same set as from the folder -------------------------------------------------------------

code, said = run("plain", "-o", "folder", *OPTIONS)
ok(code == 0, "packs the folder", said)
code, said = run("splits", "-o", "folders", *OPTIONS)
ok(code == 0, "packs the folder of splits", said)

make_tar("a.tar", "plain", "top/inner")
make_tar("a.gnu.tar", "plain", form=tarfile.GNU_FORMAT)
make_tar("a.tar.gz", "plain", "top", "w:gz")
make_tar("a.tar.bz2", "plain", "./", "w:bz2")
make_tar("a.tar.xz", "plain", "x", "w:xz")
make_tar("plain-for-zstd.tar", "plain", "x")
subprocess.run(["zstd", "-q", "plain-for-zstd.tar", "-o", "a.tar.zst"], check=True)
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
    for path, data in files_of("plain").items():
        packed.writestr("top/" + path, data)
with zipfile.ZipFile("stored.zip", "w", zipfile.ZIP_STORED) as packed:
    for path, data in sorted(files_of("plain").items(), reverse=True):
        packed.writestr(path, data)
wanted = ids("folder")
values = npy("folder", "folder.npy")
for name in ["a.tar", "a.gnu.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.tar.zst", "a.zip", "stored.zip"]:
    code, said = run(name, "-o", name + ".out", *OPTIONS)
    ok(code == 0, "packs %s" % name, said)
    ok(ids(name + ".out") == wanted, "%s: the ids of the folder's set, every byte verified" % name,
       "%s, wanted %s" % (ids(name + ".out"), wanted))
    ok(numpy.array_equal(npy(name + ".out", "got.npy"), values), "%s: the values, in the order of numbers" % name)

make_tar("s.tar.gz", "splits", "dataset-1.0", "w:gz")
make_tar("s.tar", "splits")
for name in ["s.tar.gz", "s.tar"]:
    code, said = run(name, "-o", name + ".out", *OPTIONS)
    ok(code == 0, "packs %s" % name, said)
    for split in ["train", "test"]:
        ok(ids("%s.out/%s" % (name, split)) == ids("folders/" + split), "%s: split %s as the folder's" % (name, split))

# Statistics, several jobs, several blocks a shard, zstd: nothing depends on the number of threads.
for name in ["s.tar.gz", "s.tar"]:
    made = []
    for jobs in ["1", "2", "5"]:
        code, said = run(name, "-o", "jobs" + jobs, "--force", "--resize", "24x20", "--shard-size", "20K",
                         "--compress", "zstd", "--jobs", jobs)
        made.append(files_of("jobs" + jobs) if code == 0 else said)
    ok(made[0] == made[1] == made[2] and isinstance(made[0], dict), "%s: the same bytes for 1, 2 and 5 jobs" % name,
       made if not isinstance(made[0], dict) else "")

open("order.classes", "w").write("b\nunused\nZ\na\na-b\n\xe4 \xf6\n")
for name in ["plain", "a.tar.gz"]:
    code, said = run(name, "-o", "classes", "--force", "--classes", "order.classes", *OPTIONS)
    ok(code == 0, "%s: class order from a file" % name, said)
    done = subprocess.run([FFINSPECT, "classes", "--sample", "0"], stdout=subprocess.PIPE).stdout.decode()
    ok("label: 2 Z" in done, "%s: the first item's folder Z is class 2 of the file" % name, done)

code, said = run("a.tar.gz", "-o", "shuffled", "--shuffle", "1", *OPTIONS)
ok(code == 2 and "front to back" in said, "--shuffle of a compressed archive is refused", said)
code, said = run("a.tar", "-o", "shuffled", "--shuffle", "1", *OPTIONS)
ok(code == 0 and ids("shuffled") == wanted, "--shuffle of a plain tar", said)

# Items of an archive that can only be read from its beginning are found by their order, also after the 256th.
os.makedirs("many/a")
Image.new("RGB", (1, 1), (1, 2, 3)).save("many/a/0.png")
for index in range(1, 300):
    shutil.copy("many/a/0.png", "many/a/%d.png" % index)
make_tar("many.tar.gz", "many", mode="w:gz")
for name in ["many", "many.tar.gz"]:
    code, said = run(name, "-o", name + ".out", "--mean", ".5,.5,.5", "--std", ".2,.2,.2")
    ok(code == 0, "packs 300 images of %s" % name, said)
ok(ids("many.out") == ids("many.tar.gz.out"), "the same set")

# Names whose Unicode is not composed, as a Mac's: their bytes, which number the classes, are the folder's.
ODD = ["cafe\u0301/e\u0301.png", "caff/b.png", "caf\xe9/c.png", "\u1112\u1161\u11ab/d.png", "caff/" + "e\u0301" * 80 + ".png"]
for index, name in enumerate(ODD):
    picture("odd/" + name, index)
code, said = run("odd", "-o", "odd.out", *OPTIONS)
ok(code == 0, "packs the folder with odd names", said)
for form, name in [(tarfile.PAX_FORMAT, "odd.pax.tar"), (tarfile.GNU_FORMAT, "odd.gnu.tar")]:
    make_tar(name, "odd", form=form)
make_tar("odd.tar.gz", "odd", mode="w:gz")


def odd_zip(name, prefix=b"", extra=False):
    """With `extra`, names in ASCII, and the right ones in Info-ZIP's field 0x7075."""
    with open(name, "wb") as file:
        file.write(prefix)
    with zipfile.ZipFile(name, "a", zipfile.ZIP_DEFLATED) as packed:
        for index, path in enumerate(reversed(ODD)):
            member = zipfile.ZipInfo("%d/%d.png" % (index, index) if extra else path)
            if extra:
                text = b"\1" + struct.pack("<I", zlib.crc32(member.filename.encode())) + path.encode()
                member.extra = struct.pack("<HHB", 0x5555, 1, 0) + struct.pack("<HH", 0x7075, len(text)) + text
            packed.writestr(member, open("odd/" + path, "rb").read())


odd_zip("odd.zip")
odd_zip("odd.prefixed.zip", b"#!/bin/sh\nexit 1\n")
odd_zip("odd.extra.zip", extra=True)
for name in ["odd.pax.tar", "odd.gnu.tar", "odd.tar.gz", "odd.zip", "odd.prefixed.zip", "odd.extra.zip"]:
    options = [*OPTIONS, "--format", "archive"]
    code, said = run(name, "-o", name + ".out", *options)
    ok(code == 0 and ids(name + ".out") == ids("odd.out"), "%s: the ids of the folder's set" % name, said)

# ---- bad images ----------------------------------------------------------------------------------

with tarfile.open("bad.tar.gz", "w:gz") as tar:
    add_all(tar, "plain", "", True)
    broken = tarfile.TarInfo("b/0.png")
    broken.size = 100
    tar.addfile(broken, io.BytesIO(b"x" * 100))
code, said = run("bad.tar.gz", "-o", "bad", *OPTIONS)
ok(code == 65 and "b/0.png" in said, "a bad image in an archive is named", said)
code, said = run("bad.tar.gz", "-o", "bad", "--on-error", "skip", "--max-skip", "100%", *OPTIONS)
ok(code == 0, "the same command with --on-error skip continues", said)
report = open("bad.skipped.tsv").read() if os.path.exists("bad.skipped.tsv") else ""
ok([line.split("\t")[3] for line in report.splitlines()] == ["name", "bad.tar.gz: b/0.png"], "and lists it by the name that the message has", report)
ok(numpy.array_equal(npy("bad", "got.npy"), values), "and packs the rest")

# ---- malicious archives --------------------------------------------------------------------------

image = open("plain/a/1.png", "rb").read()
huge = (b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0))
huge += struct.pack(">I", zlib.crc32(huge[12:29])) + bytes(64)


def evil(name, members):
    with tarfile.open(name, "w:gz" if name.endswith("gz") else "w") as tar:
        for member, kind, data in members:
            entry = tarfile.TarInfo(member)
            entry.type = kind
            if kind == tarfile.REGTYPE:
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
            else:
                entry.linkname = data
                tar.addfile(entry)


good = ("a/1.png", tarfile.REGTYPE, image)
CASES = [
    ("../../x.png", [good, ("../../x.png", tarfile.REGTYPE, image)], "leads out of the archive"),
    ("a name with .. inside", [good, ("a/../../b/x.png", tarfile.REGTYPE, image)], "leads out of the archive"),
    ("a name that ends in ..", [good, ("a/b/..", tarfile.REGTYPE, image)], "leads out of the archive"),
    ("a folder .. at the end", [good, ("a/../", tarfile.DIRTYPE, "")], "leads out of the archive"),
    ("the name ..", [good, ("..", tarfile.REGTYPE, image)], "leads out of the archive"),
    ("an absolute name", [good, ("/tmp/x.png", tarfile.REGTYPE, image)], "absolute name"),
    ("a symbolic link", [good, ("b/x.png", tarfile.SYMTYPE, "/etc/passwd")], "is a link"),
    ("a hard link", [good, ("b/x.png", tarfile.LNKTYPE, "a/1.png")], "is a link"),
    ("a hard link with an odd name", [good, ("b/e\u0301.png", tarfile.LNKTYPE, "a/e\u0301.png")], "is a link"),
    ("a name of 64 KiB", [good, ("b/" + "x" * 65530 + ".png", tarfile.REGTYPE, image)], "65536 bytes"),
    ("a PNG header of 100,000 x 100,000", [good, ("a/2.png", tarfile.REGTYPE, huge)], "more than the limit"),
    ("a member twice", [good, good], "twice"),
    ("images in no folder", [("1.png", tarfile.REGTYPE, image)], "not in class folders"),
    ("no images", [("a/readme", tarfile.REGTYPE, b"hello")], "without images"),
    ("a class without an image", [good, ("b/readme", tarfile.REGTYPE, b"hello")], "a class without an image"),
]
for title, members, sentence in CASES:
    for name in ["evil.tar", "evil.tar.gz"]:
        evil(name, members)
        os.makedirs("place")
        code, said = run(name, "-o", "place/out", *OPTIONS)
        ok(code == 65 and sentence in said and len(said.splitlines()) == 1 and not os.listdir("place"),
           "%s in %s is refused" % (title, name), "%d: %s; left %s" % (code, said, os.listdir("place")))
        shutil.rmtree("place")

# Only the end has data, so that the sparse map has a single entry.
with open("a1", "wb") as hollow:
    hollow.seek(1 << 20)
    hollow.write(image)
subprocess.run(["tar", "--sparse", "--hole-detection=raw", "--transform=s,a1,a/1.png,", "-cf", "sparse.tar", "a1"], check=True)
code, said = run("sparse.tar", "-o", "sparse", *OPTIONS)
ok(code == 65 and "a/1.png is a sparse file" in said, "a sparse member is refused", said)

# A bomb: 3 GiB of zeros as one image, and as much in small files.
entry = tarfile.TarInfo("a/2.png")
entry.size = 3 << 30
with gzip.open("bomb.tar.gz", "wb", compresslevel=1) as packed:
    packed.write(entry.tobuf())
    for _ in range(64):
        packed.write(bytes(1 << 20))
code, said = run("bomb.tar.gz", "-o", "bomb", *OPTIONS)
ok(code == 65 and "compression bomb" in said, "a compression bomb is refused by what its header declares", said)
entry.name = "a/readme"
entry.size = 1200 << 20
open("head", "wb").write(entry.tobuf())
open("tail", "wb").write(tarfile.TarInfo("b").tobuf())
subprocess.run("(cat head; head -c 1200M /dev/zero; cat tail) | zstd -q -1 -o bomb.tar.zst", shell=True, check=True)
code, said = run("bomb.tar.zst", "-o", "bomb", *OPTIONS)
ok(code == 65 and "compression bomb" in said, "also one whose zeros are not an image", said)

for name, cut in [("a.tar.gz", 0.5), ("a.tar", 0.6), ("a.tar.zst", 0.5), ("a.zip", 0.7)]:
    data = open(name, "rb").read()
    open("cut-" + name, "wb").write(data[:int(len(data) * cut)])
    code, said = run("cut-" + name, "-o", "cut", *OPTIONS)
    ok(code == 65 and "cut-" + name in said and not os.path.exists("cut"), "%s cut off is refused" % name, said)
for name in ["a.tar.gz", "a.tar.zst", "a.zip"]:
    data = bytearray(open(name, "rb").read())
    start = len(data) // 3
    if name.endswith("zip"):  # within a file that is packed: others are not read
        start = zipfile.ZipFile(name).getinfo("top/a/1.png").header_offset + 100
    for at in range(start, start + 40):
        data[at] ^= 0x55
    open("noise-" + name, "wb").write(data)
    code, said = run("noise-" + name, "-o", "noise", *OPTIONS)
    ok(code == 65 and not os.path.exists("noise"), "%s with noise in it is refused" % name, "%d %s" % (code, said))

archives.finish()
