#!/usr/bin/python3
"""Which class a label means: numbers next to names, lists as people write them, and every way in (--labels, lists,
--classes-from, append, .npz, .cls). The oracle is the label that each image was made with.
Needs ffpack. Prints TAP."""
# Needs: ffpack
import io
import os
import shutil
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

reader = tap.second_reader()
FFPACK = os.path.join(os.path.abspath(tap.BUILD), "ffpack")
place = tempfile.mkdtemp()
os.chdir(place)
IMAGE = b"P6\n2 2\n255\n" + bytes(range(12))


def write(path, data=IMAGE):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def make(root, names):
    for name in names:
        write(os.path.join(root, name))


def read(folder):
    """{key: label}: a class by its name where it has one, None for -1; else the numbers of the field."""
    split = reader.Split(folder)
    field = split.metadata.fields[0]
    names = [name.decode() for name in field.classes]
    found = {}
    for i in range(len(split.order)):
        _, key, labels, _ = split.sample(i)
        values = [int.from_bytes(labels[0][k:k + 4], "little", signed=True) for k in range(0, len(labels[0]), 4)]
        label = values[0] if field.kind == "class" else list(labels[0])
        found[key.decode()] = label if field.kind != "class" or not names else None if label < 0 else names[label]
    return found


def fields(folder):
    return [(f.name.decode(), f.kind, f.width, [c.decode() for c in f.classes]) for f in reader.Split(folder).metadata.fields]


def ffpack(*arguments):
    done = tap.run([FFPACK, *arguments])
    return done.returncode, done.stdout.decode() + done.stderr.decode()


RAW = ["--dtype", "u8", "--mean", ".5,.5,.5", "--std", ".5,.5,.5"]


def packs(name, wanted, *arguments, folder="out", says=()):
    """Packs to out, where `folder` then has these labels, and the summary has these pieces."""
    shutil.rmtree("out", ignore_errors=True)
    code, said = ffpack(*arguments, "-o", "out", *RAW)
    found = read(folder) if code == 0 else None
    missing = [piece for piece in says if piece not in said]
    return tap.ok(code == 0 and found == wanted and not missing, name, "%s\n%r, wanted %r\nnot said: %s" % (said, found, wanted, missing))


def refuses(name, code, pieces, *arguments):
    """One sentence with these pieces, and no set."""
    shutil.rmtree("out", ignore_errors=True)
    found, said = ffpack(*arguments, "-o", "out", *RAW)
    missing = [piece for piece in pieces if piece not in said]
    tap.ok(found == code and said.count("\n") == 1 and not missing and not os.path.exists("out"), name, "%d: %s\nnot said: %s" % (found, said, missing))


# ---- numbers are names of classes (P1, P2) ---------------------------------------------------------

digits = [str(i) for i in range(12)]
make("gts", ["train/%s/0.ppm" % c for c in digits] + ["test/t%02d.ppm" % i for i in range(12)])
true = {"t%02d.ppm" % i: str(i) for i in range(12)}
clean = "".join("%s,%s\n" % line for line in true.items())
for name, text, wanted in [
        ("a clean list", clean, true),
        ("a blank after each comma", clean.replace(",", ", "), true),
        ("blanks around names, too", " " + clean.replace(",", " ,  ").replace("\n", " \n ")[:-1], true),
        ("one -1", clean.replace("t03.ppm,3", "t03.ppm,-1"), dict(true, **{"t03.ppm": None})),
        ("one -1 with blanks", clean.replace("t03.ppm,3", "t03.ppm, -1 "), dict(true, **{"t03.ppm": None})),
        ("a line without an image", clean + "t99.ppm,12\n", true),
        ("a first line without an image", "t99.ppm,12\n" + clean, true),
        ("no 0", clean.replace("t00.ppm,0", "t00.ppm,11"), dict(true, **{"t00.ppm": "11"})),
        ("whole numbers with a point", clean.replace("\n", ".0\n"), true),
        ("a header", "filename,label\n" + clean, true),
        ("an index first, by the header", "id,image_id,class\n" + "".join("%d,%s,%s\n" % (9 - i, *row) for i, row in enumerate(true.items())), true),
        ("a word of its own first, by the header", "species,image_id\n" + "".join("%s,%s\n" % (label, name) for name, label in true.items()), true),
        ("the class first, by the header", "class,image_id\n" + "".join("%s,%s\n" % (label, name) for name, label in true.items()), true),
        ("CR line ends", clean.replace("\n", "\r"), true),
        ("CRLF and a byte order mark", "\ufeff" + clean.replace("\n", "\r\n"), true)]:
    write("list.csv", text)
    packs("folders 0 to 11: " + name, wanted, "gts", "--labels", "test=list.csv", folder="out/test",
          says=["list.csv: labels are names of classes (2 is the class 2, number 4)"])
write("list.csv", clean.replace(",11\n", ",12\n"))
refuses("folders 0 to 11: a class that is none", 65, ["list.csv: line 12 has 12, and no class of train/ is called so"], "gts", "--labels", "test=list.csv")

make("five", ["train/%d/0.ppm" % c for c in range(1, 6)] + ["test/t%d.ppm" % i for i in range(5)])
write("from0.csv", "".join("t%d.ppm,%d\n" % (i, i) for i in range(5)))
write("from1.csv", "".join("t%d.ppm,%d\n" % (i, i or 1) for i in range(5)))
refuses("folders 1 to 5, a list from 0: both readings are named", 2, ["from0.csv: line 1 has 0", "no class of train/ is called so", "0 would be class '1'", "--label-kind numbers"],
        "five", "--labels", "test=from0.csv")
packs("--label-kind numbers counts", {"t%d.ppm" % i: str(i + 1) for i in range(5)}, "five", "--labels", "test=from0.csv", "--label-kind", "numbers", folder="out/test",
      says=["from0.csv: labels are numbers of classes, from 0 (0 is 1)"])
refuses("--label-kind names", 65, ["line 1: '0' is not a class of train/"], "five", "--labels", "test=from0.csv", "--label-kind", "names")
packs("all are names", {"t%d.ppm" % i: str(i or 1) for i in range(5)}, "five", "--labels", "test=from1.csv", folder="out/test", says=["labels are names of classes"])
packs("unless they count", {"t%d.ppm" % i: str((i or 1) + 1) for i in range(5)}, "five", "--labels", "test=from1.csv", "--label-kind", "numbers", folder="out/test")

make("gtsrb", ["train/%05d/0.ppm" % c for c in range(12)] + ["test/t%02d.ppm" % i for i in range(12)])
write("list.csv", clean)
packs("2 is the folder 00002", {k: "%05d" % int(v) for k, v in true.items()}, "gtsrb", "--labels", "test=list.csv", folder="out/test")
make("flowers", ["train/%03d/0.ppm" % c for c in range(1, 13)] + ["test/t%02d.ppm" % i for i in range(12)])
write("list.csv", "".join("t%02d.ppm,%d\n" % (i, i % 11 + 1) for i in range(12)))
packs("1 is the folder 001", {"t%02d.ppm" % i: "%03d" % (i % 11 + 1) for i in range(12)}, "flowers", "--labels", "test=list.csv", folder="out/test")

# Names that are not numbers: numbers count them, as ImageFolder's.
make("pets", ["train/%s/0.ppm" % c for c in ("cat", "dog")] + ["test/%s.ppm" % c for c in "xyz"])
write("list.csv", "x,1\ny,0\nz,-1\n")
packs("numbers of cat and dog count", {"x.ppm": "dog", "y.ppm": "cat", "z.ppm": None}, "pets", "--labels", "test=list.csv", folder="out/test",
      says=["list.csv: labels are numbers of classes, from 0 (0 is cat)"])
write("list.csv", "x,1\ny,0\nz,2\n")
refuses("a number beyond them", 65, ["list.csv: line 3 has the class 2, wanted -1 to 1 as in train/"], "pets", "--labels", "test=list.csv")
make("mixed", ["train/%s/0.ppm" % c for c in ("1", "cat", "dog")] + ["test/%s.ppm" % c for c in "xy"])
write("list.csv", "x,1\ny,0\n")
refuses("names of which one is a number", 2, ["line 2 has 0", "0 would be class '1'"], "mixed", "--labels", "test=list.csv")
write("list.csv", "x,1\ny,-1\n")
refuses("a number that is a name, where not all names are numbers", 2, ["list.csv: line 1 has 1, and a class of train/ is called so", "1 would be class 'cat'", "--label-kind names or --label-kind numbers"],
        "mixed", "--labels", "test=list.csv")
for kind, label in (("names", "1"), ("numbers", "cat")):
    packs("--label-kind %s decides" % kind, {"x.ppm": label, "y.ppm": None}, "mixed", "--labels", "test=list.csv", "--label-kind", kind, folder="out/test")
make("sorted", ["train/%s/0.ppm" % c for c in ("0", "1", "cat")] + ["test/%s.ppm" % c for c in "xy"])
packs("where both readings are the same", {"x.ppm": "1", "y.ppm": None}, "sorted", "--labels", "test=list.csv", folder="out/test")
write("list.csv", "x,1\ny,cat\n")
packs("a name next to a number that is one", {"x.ppm": "1", "y.ppm": "cat"}, "mixed", "--labels", "test=list.csv", folder="out/test")

# The same lines by every other way.
ffpack("gts/train", "-o", "setA", *RAW)
make("", true)
write("list.csv", clean)
write("header.csv", "path,label:class\n" + clean)
for text in ("list.csv", "header.csv"):
    packs("--classes-from with %s as SOURCE" % text, true, text, "--classes-from", "setA", says=["labels are names of classes"])
counted = dict(zip(true, sorted(digits)))
packs("--label-kind numbers for SOURCE", counted, "list.csv", "--classes-from", "setA", "--label-kind", "numbers")
packs("a header declares numbers", counted, (write("numbers.csv", "path,label:numbers\n" + clean), "numbers.csv")[1], "--classes-from", "setA")
code, said = ffpack("append", "setA", "list.csv", "--classes-from", "setA")
found = read("setA")
tap.ok(code == 0 and {k: found[k] for k in true} == true, "append --classes-from", said + repr(found))
make("pics", ["p%02d.ppm" % i for i in range(12)])
ffpack("gtsrb/train", "-o", "padded", *RAW)
write("pics/names.csv", "".join("p%02d.ppm, %d \n" % (i, i) for i in range(12)))
write("pics/beyond.csv", "p00.ppm,12\n")
for name, text in (("setA", "%d"), ("padded", "%05d")):
    before = read(name)
    for given, options, code, piece in (("names", [], 2, "has no class names, and %s has some; wanted the same ones: --classes-from %s" % (name, name)),
                                        ("beyond", ["--classes-from", name], 65, "line 1 has 12, and no class of %s is called so" % name)):
        found, said = ffpack("append", name, "pics/%s.csv" % given, *options)
        tap.ok(found == code and piece in said and said.count("\n") == 1 and read(name) == before, "append to names like %s: %s are refused" % (text % 2, given), said)
    code, said = ffpack("append", name, "pics/names.csv", "--classes-from", name)
    tap.ok(code == 0 and read(name) == {**before, **{"p%02d.ppm" % i: text % i for i in range(12)}} and "labels are names of classes" in said,
           "append to names like %s: numbers with blanks are names" % (text % 2), said)
with tarfile.open("web.tar", "w") as tar:
    for key, label in true.items():
        for name, data in ((key, IMAGE), (key[:-3] + "cls", label.encode())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
packs("a .cls with --classes-from", {k[:-4]: v for k, v in true.items()}, "web.tar", "--classes-from", "setA", says=["labels are names of classes"])
packs("a .cls that counts", {k[:-4]: v for k, v in counted.items()}, "web.tar", "--classes-from", "setA", "--label-kind", "numbers")
numpy = sys.modules["numpy"]
images = numpy.arange(13 * 75, dtype=numpy.uint8).reshape(13, 5, 5, 3)
numpy.savez("x.npz", images=images, labels=numpy.array([*range(12), -1]))
packs("an .npz with --classes-from", {"images:%d" % i: str(i) if i < 12 else None for i in range(13)}, "x.npz", "--classes-from", "setA", says=["labels are names of classes"])
numpy.savez("x.npz", images=images, labels=numpy.array([*range(12), 12]))
refuses("an .npz with a class that is none", 65, ["x.npz: item 13 has 12, and no class of setA is called so"], "x.npz", "--classes-from", "setA")
numpy.savez("x.npz", images=images[:5], labels=numpy.arange(5))
write("one-based", "".join("%d\n" % i for i in range(1, 6)))
refuses("an .npz from 0, classes from 1", 2, ["x.npz: item 1 has 0", "0 would be class '1'", "--label-kind numbers"], "x.npz", "--classes", "one-based")
packs("counts when told so", {"images:%d" % i: str(i + 1) for i in range(5)}, "x.npz", "--classes", "one-based", "--label-kind", "numbers")
refuses("--label-kind numbers without names", 2, ["--label-kind: x.npz has numbers and no names of classes"], "x.npz", "--label-kind", "numbers")

# ---- -1 is not a class (P29), and names next to numbers (P22) -------------------------------------------

make("flat", ["%s.ppm" % c for c in "abcd"])
write("list.csv", "a,cat\nb,dog\nc,-1\nd, -1.0\n")
wanted = {"a.ppm": "cat", "b.ppm": "dog", "c.ppm": None, "d.ppm": None}
packs("-1 among names of --labels", wanted, "flat", "--labels", "list.csv")
for header in ("", "path,label\n", "path,label:class\n", "path,label:names\n"):
    write("flat/list.csv", header + "a.ppm,cat\nb.ppm,dog\nc.ppm,-1\nd.ppm, -1.0\n")
    packs("-1 among names of a list with header %r" % header, wanted, "flat/list.csv")
os.remove("flat/list.csv")

def web(labels):
    with tarfile.open("web.tar", "w") as tar:
        for i, label in enumerate(labels):
            for name, data in (("%d.ppm" % i, IMAGE), ("%d.json" % i, b'{"label": %s}' % label.encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


for labels in (['"dog"', "-1", '"cat"'], ["-1.0", '"dog"', '"cat"', '"-1"'], ['"-1"', '"cat"']):
    web(labels)
    packs("-1 among names of a .json: %s" % labels, {str(i): None if "-1" in label else label.strip('"') for i, label in enumerate(labels)}, "web.tar")
web(["-1", '"-1"'])
packs("-1 alone", {"0": -1, "1": -1}, "web.tar", says=["label: class, no classes; 2 items have no label (-1)"])

make("two", ["train/%s.ppm" % c for c in "abc"] + ["test/%s.ppm" % c for c in "abc"])
write("n.csv", "a,0\nb,1\nc,2\n")
write("w.csv", "a,z\nb,x\nc,y\n")
refuses("numbers of train, names of test", 65, ["w.csv: its classes are names, but n.csv has numbers"], "two", "--labels", "train=n.csv,test=w.csv")
refuses("names of train, numbers of test", 2, ["n.csv: line 1 has 0", "no class of w.csv is called so", "0 would be class 'x'", "--label-kind numbers"],
        "two", "--labels", "train=w.csv,test=n.csv")
make("half", ["train/%s.ppm" % c for c in "abc"] + ["val/%s/0.ppm" % c for c in "xyz"])
refuses("numbers of train, class folders of val", 65, ["half/val: its classes are names, but n.csv has numbers"], "half", "--labels", "train=n.csv")
write("w2.csv", "a,x\nb,x\nc,-1\n")
packs("names in both", {"a.ppm": "x", "b.ppm": "x", "c.ppm": None}, "two", "--labels", "train=w.csv,test=w2.csv", folder="out/test")
write("n2.csv", "a,1\nb,-1\nc,1\n")
packs("numbers in both", {"a.ppm": 1, "b.ppm": -1, "c.ppm": 1}, "two", "--labels", "train=n.csv,test=n2.csv", folder="out/test")

# ---- blanks at the ends of images' names -------------------------------------------------------------

make("blank", [" a.ppm", "b .ppm", "in/ c.ppm", "d.ppm"])
blanks = {" a.ppm": "cat", "b .ppm": "dog", "in/ c.ppm": "cat", "d.ppm": "emu"}
for name, text in (("paths", " a.ppm,cat\nb .ppm,dog\nin/ c.ppm,cat\nd.ppm,emu\n"), ("names", '" a",cat\n"b ",dog\n" c",cat\n"d",emu\n'),
                   ("trimmed names", "a.ppm,cat\nb,dog\nc.ppm,cat\nd,emu\n")):
    write("list.csv", text)
    packs("blanks at the ends of names: %s" % name, blanks, "blank", "--labels", "list.csv", "--splits", "none")
make("blank", ["a.ppm"])
write("list.csv", " a.ppm,cat\nb .ppm,dog\nin/ c.ppm,cat\nd.ppm,emu\n")
refuses("two images that differ by a blank", 65, ["stands for", "and another image"], "blank", "--labels", "list.csv")

# ---- a first line whose image is missing (P15), further columns (N8) ---------------------------------

wanted = {"%s.ppm" % c: v for c, v in zip("abcd", ("cat", "dog", "cat", "emu"))}
for name, text in [("first", "zzz.png,aardvark\na,cat\nb,dog\nc,cat\nd,emu\n"), ("second", "a,cat\nzzz.png,aardvark\nb,dog\nc,cat\nd,emu\n")]:
    write("list.csv", text)
    if packs("a line without an image, %s" % name, wanted, "flat", "--labels", "list.csv", says=["list.csv: 1 line names no image (zzz.png)"]):
        tap.ok(fields("out")[0][3] == ["cat", "dog", "emu"], "is not a class", fields("out"))
write("list.csv", "filename,a,b,c\na.ppm,1,0,1\nb.ppm,0,0,1\nc.ppm,0,1,0\nd.ppm,0,0,0\n")
refuses("several label columns", 2, ["list.csv: has besides the images' names the columns a and b, c", "--label TITLE"], "flat", "--labels", "list.csv")
packs("--label chooses one", {"%s.ppm" % c: int(c == "c") for c in "abcd"}, "flat", "--labels", "list.csv", "--label", "b", says=["list.csv: names from column filename, classes from column b; not used: column a, c"])
write("list.csv", "a.ppm,1,7\nb.ppm,0,8\nc.ppm,0,9\nd.ppm,0,9\n")
refuses("several columns of numbers without a header", 2, ["list.csv: has besides the images' names the columns 2 and 3"], "flat", "--labels", "list.csv")
write("list.csv", "a.ppm,cat,7,1.5\nb.ppm,dog,8,1\nc.ppm,cat,9,2\nd.ppm,emu,9,3\n")
packs("a name and boxes", wanted, "flat", "--labels", "list.csv", says=["list.csv: not used: column 3, 4"])
write("list.csv", "id,image,target,fold\n7,a.ppm,cat,x\n8,b.ppm,dog,y\n9,c.ppm,cat,x\n1,d.ppm,emu,z\n")
packs("columns by their titles", wanted, "flat", "--labels", "list.csv", says=["list.csv: names from column image, classes from column target; not used: column id, fold"])
write("list.csv", ",path,split,target\n0,a.ppm,x,cat\n1,b.ppm,x,dog\n2,c.ppm,x,cat\n3,d.ppm,x,emu\n")
packs("pandas' index", wanted, "flat", "--labels", "list.csv", says=["list.csv: names from column path, classes from column target; not used: column 1, split"])
shutil.copy("list.csv", "flat/list.csv")
packs("pandas' index in SOURCE", wanted, "flat/list.csv", says=["flat/list.csv: paths from column path; labels from target; splits from split; not used: column 1"])
os.remove("flat/list.csv")

# ---- paths in --labels (N9), labels of arrays (N10) --------------------------------------------------

here = os.path.realpath(place)
wanted = {"t%02d.ppm" % i: str(i) for i in range(12)}
for name, root in [("from the folder of SOURCE on", "test/"), ("with SOURCE", "gts/test/"), ("with ./ and SOURCE", "./gts/test/"), ("from / on", here + "/gts/test/")]:
    write("list.csv", "".join("%s%s,%s\n" % (root, *line) for line in true.items()))
    packs("paths " + name, wanted, "gts", "--labels", "test=list.csv", folder="out/test")
os.symlink("gts", "link")
packs("from / on, by a link", wanted, "link", "--labels", "test=list.csv", folder="out/test")
write("list.csv", "".join("%s/flat/%s.ppm,%s\n" % (here, c, c) for c in "abcd"))
packs("from / on, of the only split", {c + ".ppm": c for c in "abcd"}, "flat", "--labels", "list.csv")
write("list.csv", "".join("/mnt/%s.ppm,%s\n" % (c, c) for c in "abcd"))
refuses("paths of another folder", 65, ["list.csv has no line for a.ppm and others; its lines name other files, such as '/mnt/a.ppm'"], "flat", "--labels", "list.csv")
numpy.save("x.npy", images[:4])
numpy.save("y.npy", numpy.arange(4))
refuses("--labels of an array", 2, ["--labels: does not apply to x.npy, which is read as --format npy and has its labels in y.npy next to x.npy"], "x.npy", "--labels", "y.npy")
shutil.rmtree("out", ignore_errors=True)
code, said = ffpack("x.npy", "-o", "out", *RAW)
tap.ok(code == 0 and "y.npy has the labels of ./x.npy" in said and "label: class, numbers 0 to 3; x:0 is 0" in said, "labels next to an array are named", said)
os.remove("x.npy")
os.remove("y.npy")

# ---- lists as SOURCE: one image on several lines (P3), words for splits (P18), line ends (P27) --------


def lists(name, text, wanted, **more):
    write("flat/list.csv", text)
    packs(name, wanted, "flat/list.csv", *more.pop("options", ()), **more)
    os.remove("flat/list.csv")


def no_list(name, text, code, *pieces, options=()):
    write("flat/list.csv", text)
    refuses(name, code, pieces, "flat/list.csv", *options)
    os.remove("flat/list.csv")


no_list("one path, two classes", "a.ppm,cat\nb.ppm,dog\na.ppm,dog\n", 65, "flat/list.csv: lines 1 and 3 have different labels for a.ppm")
no_list("written in two ways", "a.ppm,cat\nb.ppm,dog\n./a.ppm,dog\n", 65, "flat/list.csv: lines 1 and 3 have different labels for a.ppm")
no_list("in two splits", "path,label,split\na.ppm,cat,train\na.ppm,dog,val\n", 65, "lines 2 and 3 have different labels for a.ppm")
lists("the same class twice is said", "a.ppm,cat\nb.ppm,dog\nb.ppm,dog\na.ppm,cat\n", {"a.ppm": "cat", "b.ppm": "dog"},
      says=["flat/list.csv: 2 lines name an image once more, which is packed as often (a.ppm, ...)"])
lists("an image in two splits is said", "path,label,split\na.ppm,cat,train\na.ppm,cat,val\n", {"a.ppm": "cat"}, folder="out/val",
      says=["flat/list.csv: 1 image is in two splits (a.ppm)"])
for words, names in [(("Train", "valid", "TEST"), ("train", "val", "test")), (("train", "validation", " test "), ("train", "val", "test")),
                     (("training", "dev", "testing"), ("train", "val", "test")), (("0", "1", "2"), ("0", "1", "2"))]:
    text = "path,label,split\n" + "".join("%s.ppm,%s,%s\n" % line for line in zip("abc", ("x", "y", "x"), words))
    lists("splits %s" % (words,), text, {"b.ppm": "y"}, folder="out/" + names[1])
    tap.ok(sorted(os.listdir("out")) == sorted(names), "are %s" % (names,), os.listdir("out"))
lists("Train and train", "path,label,split\na.ppm,x,Train\nb.ppm,y,train\nc.ppm,x,test\n", {"a.ppm": "x", "b.ppm": "y"}, folder="out/train")
no_list("val and dev", "path,label,split\na.ppm,x,train\nb.ppm,y,val\nc.ppm,x,dev\n", 65, "line 4 names the split 'dev', earlier lines 'val', which are the same")
lists("CR line ends", "a.ppm,cat\rb.ppm,dog\rc.ppm,cat\r", {"a.ppm": "cat", "b.ppm": "dog", "c.ppm": "cat"})
lists("CR line ends and quotes", '"a.ppm","c\nat"\r"b.ppm",dog\r\rc.ppm,dog', {"a.ppm": "c\nat", "b.ppm": "dog", "c.ppm": "dog"})

# ---- one ; in a class name (P4), whole numbers with a point (P5, P14) -------------------------------

no_list("a ; in one class name", "a.ppm,AT&amp;T\nb.ppm,cat\nc.ppm,dog\nd.ppm,AT&amp;T\n", 2, "line 1 has 'AT&amp;T', which may be one class or several", "--label-kind class")
no_list("in several", "a.ppm,AT&amp;T\nb.ppm,H&amp;M\n", 2, "may be one class or several")
for options, header in [(("--label-kind", "class"), ""), (("--label-kind", "names"), ""), ((), "path,label:class\n")]:
    lists("one class, by %r" % (options or header,), header + "a.ppm,AT&amp;T\nb.ppm,cat\nc.ppm,dog\nd.ppm,x|y\n", options=options,
          wanted={"a.ppm": "AT&amp;T", "b.ppm": "cat", "c.ppm": "dog", "d.ppm": "x|y"})
for options, header in [(("--label-kind", "multi-hot"), ""), ((), "path,label:multi-hot\n")]:
    lists("two tags, by %r" % (options or header,), header + "a.ppm,p;q\nb.ppm,cat\n", options=options, wanted={"a.ppm": [0, 1, 1], "b.ppm": [1, 0, 0]},
          says=["label: multi-hot, 3 names; a.ppm is p, q"])
lists("tags that occur again", "a.ppm,p;q\nb.ppm,q\nc.ppm,\n", {"a.ppm": [1, 1], "b.ppm": [0, 1], "c.ppm": [0, 0]}, says=["label: multi-hot, 2 names; a.ppm is p, q"])
write("list.csv", "a,p;q\nb,p\nc,q\nd,q|p\n")
refuses("tags in --labels", 2, ["list.csv: line 1 has 'p;q', which looks like several classes", "--label-kind class"], "flat", "--labels", "list.csv")
write("list.csv", "a,p;q\nb,p;r\nc,s\nd,s\n")
refuses("tags in --labels, each next to another", 2, ["line 1 has 'p;q', which looks like several classes"], "flat", "--labels", "list.csv")
packs("a class of --labels with a ;", {"a.ppm": "p;q", "b.ppm": "p;r", "c.ppm": "s", "d.ppm": "s"}, "flat", "--labels", "list.csv", "--label-kind", "class")
write("list.csv", "a,AT&amp;T\nb,cat\nc,cat\nd,AT&amp;T\n")
packs("one that is not a list of names", {"a.ppm": "AT&amp;T", "b.ppm": "cat", "c.ppm": "cat", "d.ppm": "AT&amp;T"}, "flat", "--labels", "list.csv")
no_list("nan among names", "a.ppm,cat\nb.ppm,NaN\n", 65, "column 2: line 2 has nan or inf among names; wanted -1", "--label-kind names")
no_list("inf alone", "a.ppm,inf\nb.ppm,-inf\n", 65, "column 2: line 1 has nan or inf among names")
lists("a class that is called nan", "a.ppm,cat\nb.ppm,nan\n", {"a.ppm": "cat", "b.ppm": "nan"}, options=("--label-kind", "names"))
write("list.csv", "a,cat\nb,nan\nc,cat\nd,cat\n")
refuses("nan in --labels", 65, ["list.csv: line 2 has nan or inf among names"], "flat", "--labels", "list.csv")
for text in ("1.0,2.0,10.0,-1.0", "1,2.0,10.00,-1"):
    text = "".join("%s.ppm,%s\n" % line for line in zip("abcd", text.split(",")))
    wanted = {"a.ppm": 1, "b.ppm": 2, "c.ppm": 10, "d.ppm": -1}
    lists("pandas' classes as SOURCE", text, wanted, says=["label: class, numbers 1 to 10; a.ppm is 1; 1 item has no label (-1)"])
    lists("with a header", "path,label\n" + text, wanted)
    write("list.csv", text)
    packs("the same as --labels", wanted, "flat", "--labels", "list.csv")
lists("numbers that are not whole are values", "a.ppm,1.0\nb.ppm,2.5\n", {"a.ppm": [*b"\0\0\x80?"], "b.ppm": [*b"\0\0 @"]}, says=["target: vector, 1 number; a.ppm is 1"])
lists("--label-kind value", "a.ppm,1\nb.ppm,2\n", {"a.ppm": [*b"\0\0\x80?"], "b.ppm": [*b"\0\0\0@"]}, options=("--label-kind", "value"))
lists("boxes are one vector", "a.ppm,1.0,2.0\nb.ppm,2.0,3.0\n", {"a.ppm": [*b"\0\0\x80?\0\0\0@"], "b.ppm": [*b"\0\0\0@\0\0@@"]}, says=["target: vector, 2 numbers; a.ppm is 1, 2"])
write("list.csv", "a,0.5\nb,1\nc,1\nd,1\n")
refuses("a class that is not whole", 65, ["list.csv: line 1 has a number that is not whole"], "flat", "--labels", "list.csv")
packs("unless it is a name", {"a.ppm": "0.5", "b.ppm": "1", "c.ppm": "1", "d.ppm": "1"}, "flat", "--labels", "list.csv", "--label-kind", "names")
refuses("--labels with several classes of an image", 2, ["--label-kind: a list of --labels holds one class for each image"], "flat", "--labels", "list.csv", "--label-kind", "multi-hot")

# ---- --classes FILE (P19), arrays (P24, N10), the summary ---------------------------------------------

write("names", b"\xef\xbb\xbfa \r\n b\rc\t\n")
write("list.csv", "a,0\nb,1\nc,2\nd,0\n")
packs("--classes with a byte order mark, blanks and line ends", {"a.ppm": "a", "b.ppm": "b", "c.ppm": "c", "d.ppm": "a"}, "flat", "--labels", "list.csv", "--classes", "names",
      says=["label: class, 3 names; a.ppm is a"])
for first in (0, 1):
    write("names", "".join("%d %s\n" % (first + i, c) for i, c in enumerate("abc")))
    packs("names after their numbers from %d" % first, {"a.ppm": "%d a" % first, "b.ppm": "%d b" % (first + 1), "c.ppm": "%d c" % (first + 2), "d.ppm": "%d a" % first},
          "flat", "--labels", "list.csv", "--classes", "names", says=["names: every class is called by its number and a word ('%d a')" % first])
for rows, kind, said in [([[1, 1, 0], [0, 1, 0]], "multi-hot", "label: multi-hot, 3 classes; x:0 is 0, 1"), ([[1, 0, 0], [0, 0, 1]], "soft", "label: soft, 3 classes; x:0 is 1, 0, 0"),
                         ([[.5, .5, 0], [0, 1, 0]], "soft", "label: soft, 3 classes; x:0 is 0.5, 0.5, 0"), ([[.5, .51, 0], [0, 1, 0]], "vector", "label: vector, 3 numbers; x:0 is 0.5, 0.51, 0")]:
    numpy.save("x.npy", images[:2])
    numpy.save("y.npy", numpy.array(rows, "f4"))
    shutil.rmtree("out", ignore_errors=True)
    code, said_all = ffpack("x.npy", "-o", "out", *RAW)
    tap.ok(code == 0 and fields("out")[0][1] == kind and said in said_all and "y.npy has the labels of ./x.npy" in said_all, "floats %s are %s" % (rows, kind), said_all)
    split = reader.Split("out")
    tap.ok([list(numpy.frombuffer(split.sample(i)[2][0], "u1" if kind == "multi-hot" else "<f4")) for i in range(2)] == numpy.array(rows, "f4").tolist()
           or numpy.allclose([numpy.frombuffer(split.sample(i)[2][0], "u1" if kind == "multi-hot" else "<f4") for i in range(2)], rows), "with these values")
def arrays(name, labels, kind, wanted, *says):
    """x.npy with y.npy, by --label-kind: the labels, or what the refusal says."""
    numpy.save("x.npy", images[:len(labels)])
    numpy.save("y.npy", labels)
    if says:
        return refuses(name, 2, says, "x.npy", "--label-kind", kind)
    dtype = "<f4" if labels.dtype.kind == "f" else "<i8"
    wanted = [list(numpy.array(row, dtype).tobytes()) for row in wanted] if kind == "value" else wanted
    return packs(name, {"x:%d" % i: row for i, row in enumerate(wanted)}, "x.npy", "--label-kind", kind)


floats, whole = numpy.array([0, 2, -1, 10], "f4"), numpy.array([0, 2, -1, 10])
hot, others = numpy.array([[0, 1], [1, 1]]), numpy.array([[0, 2], [1, 1]])
arrays("floats as classes", floats, "class", [0, 2, -1, 10])
arrays("floats as values", floats, "value", [[v] for v in floats])
arrays("whole numbers as values", whole, "value", [[v] for v in whole])
arrays("several of 0 and 1 as values", hot, "value", hot.tolist())
arrays("as multi-hot", hot, "multi-hot", hot.tolist())
arrays("floats that sum to 1 as multi-hot", numpy.array([[0, 1], [1, 0]], "f4"), "multi-hot", [[0, 1], [1, 0]])
arrays("floats that are not whole as classes", floats + .5, "class", None, "--label-kind: the labels of x.npy are numbers that are not whole")
arrays("nan as a class", numpy.array([0, numpy.nan], "f8"), "class", None, "are numbers that are not whole")
arrays("several numbers as a class", hot, "class", None, "--label-kind: the labels of x.npy are several numbers each")
arrays("others as multi-hot", others, "multi-hot", None, "are other numbers than 0 and 1")
arrays("one as multi-hot", whole, "multi-hot", None, "are one number each")
refuses("--label-kind of class folders", 2, ["--label-kind: no split of gts/train has its labels from a list"], "gts/train", "--label-kind", "names")
web(["1", "2"])
for kind in ("value", "multi-hot"):
    refuses("--label-kind %s of a .json" % kind, 2, ["--label-kind: web.tar has no labels of this kind"], "web.tar", "--label-kind", kind)
web(['"cat"', '"dog"'])
refuses("--label-kind numbers of names in a .json", 65, ["has a name as its label, wanted a number"], "web.tar", "--label-kind", "numbers")
code, said = ffpack("pets/train", "--dry-run")
tap.ok(code == 0 and "\nlabel: class, 2 names; cat/0.ppm is cat\n" in said, "a dry run reports it, too", said)
code, said = ffpack("flat", "--splits", "none", "--dry-run", "--labels", "list.csv", "--json")
tap.ok(code == 0 and '"label: class, numbers 0 to 2; a.ppm is 0"' in said, "and --json", said)
shutil.copytree("flat", "bare/test")
make("bare/train", ["a/0.ppm"])
code, said = ffpack("bare", "--dry-run")
tap.ok(code == 0 and "label: class, 1 name; a/0.ppm is a; 4 items have no label (-1)\n" in said, "items without a label are counted", said)
write("flat/list.csv", "a.ppm\nb.ppm\n")
code, said = ffpack("flat/list.csv", "--dry-run")
tap.ok(code == 0 and "\nno labels\n" in said, "a set without labels reports it", said)

os.chdir("/")
shutil.rmtree(place)
tap.finish()
