#!/usr/bin/python3
"""Folders as people have them, and the same in archives: names of splits, lists of labels, what is left out
and counted, options that do not apply to a source, and hints whose commands are run."""
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import FIXED, Packed, ffpack, image, refuses, tap  # noqa: E402

rng = random.Random(10)
here = os.path.dirname(os.path.abspath(__file__))
place = tempfile.mkdtemp()
os.chdir(place)
out = os.path.join(place, "out")
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64)
AVIF = b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(64)
VIDEO = b"\0\0\0\x18ftypisom\0\0\2\0isommp41" + bytes(64)


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def make(root, files):
    """files: names, or {name: bytes}; images where no bytes are given."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for name in files:
        data = files[name] if isinstance(files, dict) else None
        write(os.path.join(root, name), image(rng, "JPEG") if data is None else data)


def archives(root):
    """The folder in a tar, under several top folders, and in a zip."""
    with tarfile.open(root + ".tar.gz", "w:gz") as tar:
        tar.add(root, "top/" + root)
    with tarfile.open(root + ".tar", "w") as tar:
        for name in sorted(os.listdir(root)):
            tar.add(os.path.join(root, name), name)
    with zipfile.ZipFile(root + ".zip", "w") as packed:
        for at, _, names in os.walk(root):
            for name in sorted(names, reverse=True):
                packed.write(os.path.join(at, name))
    return [root + ".tar.gz", root + ".tar", root + ".zip"]


def packs(name, source, *options):
    shutil.rmtree(out, ignore_errors=True)
    done = ffpack(source, "-o", out, *FIXED, *options)
    said = done.stdout.decode() + done.stderr.decode()
    return said if tap.ok(done.returncode == 0, name, said) else None


def items(folder=out):
    """[(key, label)] of a packed split; none where there is no set."""
    if not os.path.exists(os.path.join(folder, "index.ffx")):
        return []
    found = Packed(folder)
    return list(zip(found.keys, found.labels["label"]))


def classes(folder=out):
    return Packed(folder).fields["label"][3] if os.path.exists(os.path.join(folder, "index.ffx")) else None


def splits():
    return sorted(os.listdir(out)) if os.path.isdir(out) else None


def is_(name, found, wanted):
    tap.ok(found == wanted, name, "%r, wanted %r" % (found, wanted))


def says(name, said, *pieces):
    missing = [piece for piece in pieces if piece not in (said or "")]
    tap.ok(not missing, name, "no %s in\n%s" % (missing, said))


def not_packed(name, code, pieces, *arguments):
    shutil.rmtree(out, ignore_errors=True)
    refuses(name, code, pieces, *arguments, out=out)


# ---- names of splits -----------------------------------------------------------------------------

for given, wanted in [(("train", "validation"), ["train", "val"]), (("Train", "Val"), ["train", "val"]),
                      (("training", "testing"), ["test", "train"]), (("TRAIN", "dev", "Test"), ["test", "train", "val"]),
                      (("valid",), ["val"])]:
    make("names", ["%s/%s/%d.jpg" % (split, c, i) for split in given for c in "ab" for i in range(2)])
    for source in ["names"] + archives("names"):
        if packs("splits called %s in %s" % (" ".join(given), source), source):
            is_("and are %s" % wanted, splits(), wanted)
            is_("numbered each", items(os.path.join(out, wanted[-1])), [("a/0.jpg", 0), ("a/1.jpg", 0), ("b/0.jpg", 1), ("b/1.jpg", 1)])
make("twice", ["%s/a/0.jpg" % split for split in ("train", "val", "Validation")])
for source in ["twice"] + archives("twice")[:1]:
    not_packed("two folders of one split in %s are refused" % source, 2,
               ["the folders Validation and val would both be the split val", "--exclude val"], source)
packs("without one of them", "twice", "--exclude", "val")
is_("the other one is val", splits(), ["train", "val"])
packing.numpy.savez("x.npz", x_train=packing.numpy.zeros((2, 4, 4), "u1"), x_validation=packing.numpy.ones((3, 4, 4), "u1"))
tap.ok(ffpack("x.npz", "-o", "npz", "--mean", ".5", "--std", ".5").returncode == 0
       and sorted(os.listdir("npz")) == ["train", "val"], "x_validation is val")
make("web", [])
for split in ("train", "valid"):
    os.makedirs("web/" + split)
    with tarfile.open("web/%s/0.tar" % split, "w") as tar:
        make("sample", {"0.jpg": None, "0.cls": "1"})
        for name in ("0.jpg", "0.cls"):
            tar.add("sample/" + name, name)
packs("tars in train and valid", "web")
is_("are train and val", splits(), ["train", "val"])
shutil.copytree("web/valid", "web/val")
not_packed("tars in val and valid", 2, ["the folders val and valid would both be the split val"], "web")

# ---- a mixture, and the commands in the refusal ---------------------------------------------------

make("mixed", ["train/a/0.jpg", "train/b/0.jpg", "val/a/0.jpg", "val/b/0.jpg", "extra/0.jpg", "more/x/0.jpg"])
for source in ["mixed"] + archives("mixed"):
    not_packed("splits next to others in %s" % source, 2,
               ["the folder train, a split by its name, next to extra,more", "--exclude extra,more", "--splits", "--splits none", "--format"],
               source)
    said = packs("--exclude of them", source, "--exclude", "extra,more")
    says("counts them", said, "left out: 1 folder that --exclude 'extra' names (", "left out: 1 folder that --exclude 'more' names (")
    is_("leaves the splits", items(out + "/val"), [("a/0.jpg", 0), ("b/0.jpg", 1)])
    said = packs("--splits none", source, "--splits", "none")
    is_("makes all of them classes", classes(), ["extra", "more", "train", "val"])
    says("and reports it", said, "classes with names of splits: train, val")
    said = packs("--splits NAME=FOLDER", source, "--splits", "val=val/,train=./train")
    is_("names the splits", splits(), ["train", "val"])
    says("and counts what else there is", said, "left out: 2 images in no split's folder (")
packs("--splits by their own names", "mixed", "--splits", "train,val")
for wanted, sentence in [("train=no", "mixed has no folder no"), ("train=train,train=val", "'train' is there twice"),
                         ("a=train,b=train/a", "is the folder of two splits, or is inside one"), ("more", "'more' names no split, wanted NAME=FOLDER"),
                         ("a b=train", "is not the name of a split"), ("train=", "has no folder"), ("", "names no split")]:
    not_packed("--splits '%s'" % wanted, 2, ["--splits: ", sentence], "mixed", "--splits", wanted)

# ---- unwanted files, and files without a known extension ------------------------------------------

make("odd", {"a/0.jpg": None, "a/1.jfif": None, "a/2.jpe": None, "a/3.gif": image(rng, "GIF", "L"), "a/sub/4": image(rng, "PNG"),
             "b/5.webp": image(rng, "WEBP"), "b/6.dat": image(rng, "TIFF"), "b/7.x": image(rng, "BMP"), "b/8.pnm": image(rng, "PPM"),
             ".git/a/0.jpg": None, "__MACOSX/a/._0.jpg": b"resource", "a/._0.jpg": b"resource", "b/.cache/x.jpg": None, "b/.thumb.jpg": None,
             "readme.md": "x", "b/notes.txt": image(rng, "JPEG"), "a/BMW": "BMW is a name, P6 too", "b/clip.mov": VIDEO, "a/empty": b"",
             "top.jpg": None})
wanted = [("a/0.jpg", 0), ("a/1.jfif", 0), ("a/2.jpe", 0), ("a/3.gif", 0), ("a/sub/4", 0), ("b/5.webp", 1), ("b/6.dat", 1), ("b/7.x", 1), ("b/8.pnm", 1)]
counted = {"hidden folders": 3, "hidden files": 2, "files in .md": 1, "files in .txt": 1, "files without an ending": 2,
           "files in .mov": 1, "images in no class folder": 1}
for source in ["odd"] + archives("odd")[1:2]:
    for dry in ([], ["--dry-run"]):
        said = packs("unwanted files in %s %s" % (source, dry), source, "--json", *dry)
        found = {kind["what"]: kind["count"] for kind in json.loads(said)["left_out"]} if said else None
        is_("is counted", found, counted)
    said = packs("unwanted files", source)
    is_("is not numbered", items(), wanted)
    says("is reported with an example", said, "left out: 3 hidden folders (", "left out: 1 file in .txt (b/notes.txt)", "left out: 1 file in .md (readme.md)")
    tap.ok((packs("--dry-run", source, "--dry-run") or "").count("left out:") == len(counted), "--dry-run says the same")
same = packs("no such things", "names")
tap.ok(same and "left out" not in same, "nothing is left out of a plain folder", same)

for kind, data in (("HEIC", HEIC), ("AVIF", AVIF)):
    name = "x." + kind.lower()
    make("apple", {"a/0.jpg": None, "b/1.jpg": None, "a/" + name: data, "b/" + name: data})
    for source in ["apple"] + archives("apple")[1:2]:
        not_packed("%s in %s" % (kind, source), 65, ["a/%s is a %s image, which is not read (and 1 more like it)" % (name, kind), "--exclude '*.%s'" % kind.lower()], source)
        says("--on-error skip counts it", packs("skip", source, "--on-error", "skip"), "left out: 2 %s images (a/%s, ...)" % (kind, name))
        packs("the named --exclude", source, "--exclude", "*." + kind.lower())
        is_("goes without", items(), [("a/0.jpg", 0), ("b/1.jpg", 1)])
    make("apple", {"a/0.jpg": None, "a/1.jpg": data})
    not_packed("%s called .jpg" % kind, 65, ["a/1.jpg", "(a %s image)" % kind], "apple")

says("--exclude that fits nothing", packs("packs", "names", "--exclude", "*.gif,c"), "--exclude '*.gif' names nothing in it", "--exclude 'c' names nothing")
not_packed("an empty pattern", 2, ["--exclude: 'a,,b' has an empty pattern"], "names", "--exclude", "a,,b")
make("deep", ["a/x/0.jpg", "a/y/x/1.jpg", "b/x/2.jpg", "b/3.jpg"])
for pattern, left in (("x", ["b/3.jpg"]), ("a/x", ["a/y/x/1.jpg", "b/3.jpg", "b/x/2.jpg"]), ("?/x/*.jpg", ["b/3.jpg"]),
                      ("[0-2].jpg", ["b/3.jpg"]), ("x/", ["b/3.jpg"])):
    for source in ["deep"] + archives("deep")[:1]:
        packs("--exclude %s" % pattern, source, "--exclude", pattern, "--allow-empty-classes")
        is_("leaves of %s" % source, sorted(key for key, _ in items()), left)

# ---- classes without images -----------------------------------------------------------------------

make("hollow", ["train/a/0.jpg", "train/c/0.jpg", "val/a/0.jpg", "val/c/0.jpg"])
os.makedirs("hollow/train/b")
for source in ["hollow"] + archives("hollow")[1:2]:
    not_packed("a class without an image in %s" % source, 65, ["train/b: a class without an image", "--allow-empty-classes"], source)
    if packs("--allow-empty-classes", source, "--allow-empty-classes"):
        is_("counts the class", classes(out + "/train"), ["a", "b", "c"])
        is_("and val, which lacks its folder, has train's numbers", items(out + "/val"), [("a/0.jpg", 0), ("c/0.jpg", 2)])
shutil.rmtree("hollow/train/b")
shutil.rmtree("hollow/val/c")
for source in ["hollow"] + archives("hollow")[1:2]:
    not_packed("a split that lacks a class in %s" % source, 65, ["val: has no class folder c, which", "--allow-empty-classes"], source)
    packs("the option that it names", source, "--allow-empty-classes")
    is_("gives train's numbers", (classes(out + "/val"), items(out + "/val")), (["a", "c"], [("a/0.jpg", 0)]))

# ---- tiny-imagenet --------------------------------------------------------------------------------

wnids = ["n01443537", "n01629819", "n03444034"]
files = {"wnids.txt": "\n".join(reversed(wnids)), "words.txt": "n01443537\tgoldfish\n"}
for wnid in wnids:
    files["train/%s/%s_boxes.txt" % (wnid, wnid)] = "%s_0.JPEG\t0\t10\t63\t58\n" % wnid
    files.update({"train/%s/images/%s_%d.JPEG" % (wnid, wnid, i): None for i in range(3)})
truth = [("val_%d.JPEG" % i, wnids[(i * 2 + 2) % 3]) for i in range(12)]
files["val/val_annotations.txt"] = "".join("%s\t%s\t0\t32\t44\t62\n" % line for line in truth)
files.update({"val/images/" + name: None for name, _ in truth})
files.update({"test/images/test_%d.JPEG" % i: None for i in range(4)})
make("tiny", files)
val = sorted(("images/" + name, wnids.index(wnid)) for name, wnid in truth)
shutil.copytree("tiny", "sub/tiny")
for source in ["tiny"] + archives("tiny"):
    said = packs("tiny-imagenet's layout in %s, in one command" % source, source)
    if not said:
        continue
    is_("train", items(out + "/train"), [("%s/images/%s_%d.JPEG" % (w, w, i), k) for k, w in enumerate(wnids) for i in range(3)])
    is_("val has train's numbers", (items(out + "/val"), classes(out + "/val")), (val, wnids))
    is_("test has none", items(out + "/test"), [("images/test_%d.JPEG" % i, -1) for i in range(4)])
    says("both are reported", said, "val: labels from ", "val/val_annotations.txt", "test: without labels (class -1)", "left out: 5 files in .txt")
    wrong = [i for i, (key, _) in enumerate(val) if Packed(out + "/val").tensors[i] != packing.expected(open("tiny/val/" + key, "rb").read())]
    tap.ok(not wrong, "the values are those of the named images", wrong)
    if source == "tiny":
        shutil.copytree(out, "tiny.out")
    elif source.endswith((".zip", ".gz")):
        is_("the same labels, keys and values as from the folder", (Packed(out + "/val").keys, Packed(out + "/val").tensors),
            (Packed("tiny.out/val").keys, Packed("tiny.out/val").tensors))
write("tiny/val/other.csv", "val_1.JPEG,n01443537\n")
not_packed("two lists that name images", 2, ["both val/other.csv and val/val_annotations.txt name images of val", "--labels val=FILE"], "tiny")
packs("--labels chooses", "tiny", "--labels", "val=val/val_annotations.txt")
is_("the right one", items(out + "/val"), val)
os.remove("tiny/val/other.csv")
write("tiny/val/val_annotations.txt", files["val/val_annotations.txt"].replace("n03444034", "n0000", 1))
not_packed("a class that train has not", 65, ["val/val_annotations.txt: line 1: 'n0000' is not a class of train"], "tiny")
write("tiny/val/val_annotations.txt", files["val/val_annotations.txt"].split("\n", 1)[1])
not_packed("an image without a line", 65, ["tiny/val: tiny/val/val_annotations.txt has no line for images/val_0.JPEG"], "tiny")
says("--on-error skip leaves it out", packs("skips", "tiny", "--on-error", "skip"), "left out: 1 image without a line in tiny/val/val_annotations.txt (images/val_0.JPEG)")
is_("and packs the rest", items(out + "/val"), val[1:])

# ---- hints are commands that work -----------------------------------------------------------------


def follow(name, source, *options):
    """Runs the command in a refusal."""
    shutil.rmtree(out, ignore_errors=True)
    said = ffpack(source, "-o", out, *FIXED, *options).stderr.decode()
    found = re.search(r": ffpack (.*)$", said.strip())
    if not tap.ok(found is not None, name + ": the refusal names a command", said):
        return
    words = [out if word == "OUT" else word for word in shlex.split(found.group(1))]
    done = ffpack(*words, *FIXED)
    tap.ok(done.returncode == 0, name + ": the command works", said + done.stderr.decode())


make("kaggle", {**{"train/%d.jpg" % i: None for i in range(4)}, **{"test/%d.jpg" % i: None for i in range(9, 11)},
                "labels.csv": "id,breed\n" + "".join("%d,%s\n" % (i, "pug" if i % 2 else "beagle") for i in range(4))})
for source in ["kaggle"] + archives("kaggle"):
    follow("a flat train next to labels.csv in %s" % source, source)
    is_("gives its labels", (classes(out + "/train"), items(out + "/train"), items(out + "/test")),
        (["beagle", "pug"], [("%d.jpg" % i, i % 2) for i in range(4)], [("10.jpg", -1), ("9.jpg", -1)]))
write("kaggle/extra/0.jpg", image(rng))
follow("the same with --exclude", "kaggle", "--exclude", "extra")
follow("the same with --splits", "kaggle", "--splits", "train,test")
shutil.rmtree("kaggle/extra")
make("apart", {"train/a/0.jpg": None, "train/b/0.jpg": None, "val/images/1.png": None, "val/images/2.png": None, "val.tsv": "1.png\tb\n2.png\ta\n"})
follow("a val with its list next to it", "apart")
is_("has train's numbers", items(out + "/val"), [("images/1.png", 1), ("images/2.png", 0)])
make("flat", {"1.png": None, "2.png": None, "list.txt": "1.png\tx\n2.png\ty\n"})
follow("images in no folder", "flat")
is_("have their labels", items(), [("1.png", 0), ("2.png", 1)])

# ---- --labels ---------------------------------------------------------------------------------------

make("bare", ["1.png", "2.png", "d/3.jpg", "e/4.png"])
for text, wanted in [
        ("1.png\tx\n2.png\ty\nd/3.jpg\tx\ne/4.png\tz\n", (["x", "y", "z"], [0, 1, 0, 2])),
        ("image,label,box\n4,z,1\n3,x,2\n2,y,3\n1,x,4\n", (["x", "y", "z"], [0, 1, 0, 2])),
        ('name,class\n./1.png,"b, c"\n2.png,a\n3.jpg,a\ne/4,a\n', (["a", "b, c"], [1, 0, 0, 0])),
        ("1.png,7\n2.png,0\n3.jpg,-1\n4.png,7\n", ([], [7, 0, -1, 7])),
        ("1.png\tx\t1\n1.png\tx\t2\n2.png\ty\t1\n3.jpg\tx\t9\n4.png\tx\t5\n", (["x", "y"], [0, 1, 0, 0]))]:
    write("given.list", text)
    for source in ["bare"] + archives("bare")[1:2]:
        if packs("--labels %r of %s" % (text[:20], source), source, "--labels", "given.list"):
            is_("are the labels", (classes(), items()), (wanted[0], list(zip(["1.png", "2.png", "d/3.jpg", "e/4.png"], wanted[1]))))
write("given.list", "1.png,x\n2.png,x\n3.jpg,x\n4.png,y\nno.png,x\nnone.png,y\n")
says("lines without an image", packs("are not a failure", "bare", "--labels", "given.list"), "given.list: 2 lines name no image (no.png, ...)")
write("order", "y\nx\n")
packs("with --classes", "bare", "--labels", "given.list", "--classes", "order")
is_("in that order", (classes(), [label for _, label in items()]), (["y", "x"], [1, 1, 1, 0]))
for name, text, sentence in [
        ("an image without a line", "1.png,x\n2.png,x\n3.jpg,x\n", "given.list has no line for e/4.png"),
        ("two classes of one image", "1.png,x\n2.png,x\n1.png,y\n", "given.list: lines 1 and 3 give 1.png two classes, 'x' and 'y'"),
        ("one cell", "1.png x\n", "given.list: line 1 is '1.png x', wanted an image's name and its class"),
        ("no class", "1.png,x\n2.png,\n3.jpg,x\n4.png,x\n", "given.list: line 2 is empty, wanted a class"),
        ("no lines", "\n", "given.list: has no lines")]:
    write("given.list", text)
    not_packed(name, 65, [sentence], "bare", "--labels", "given.list")
make("alike", ["a/1.png", "b/1.png"])
write("given.list", "1.png,x\n")
not_packed("one line for two images", 65, ["line 1 ('1.png') stands for b/1.png and another image; wanted their paths"], "alike", "--labels", "given.list")
write("given.list", "a/1.png,x\nb/1.png,y\n")
packs("their paths", "alike", "--labels", "given.list")
is_("tell them apart, whatever their folders", (classes(), items()), (["x", "y"], [("a/1.png", 0), ("b/1.png", 1)]))
not_packed("--labels of no split", 2, ["--labels: names has no split 'no'"], "names", "--labels", "no=given.list")
make("names", ["%s/%s/0.jpg" % (split, c) for split in ("train", "val") for c in "ab"])
not_packed("--labels where all have class folders", 2, ["--labels: all splits of names have class folders"], "names", "--labels", "given.list")
not_packed("--labels that is missing", 74, ["--labels: no.list: cannot open"], "names", "--labels", "val=no.list")
# Numbers as names of classes are names: 10 comes before 2.
make("digits", ["train/%s/0.jpg" % c for c in ("2", "10")] + ["val/1.png"])
write("digits/val/val.csv", "1.png,2\n")
packs("classes called by numbers", "digits")
is_("are found by their names", (classes(out + "/val"), items(out + "/val")), (["10", "2"], [("1.png", 1)]))

# ---- --classes-from ---------------------------------------------------------------------------------

make("some", ["n03444034/0.jpg", "n01443537/0.jpg"])
for given in ("tiny.out", "tiny.out/train", "sub/tiny/train", "sub/tiny"):
    for source in ["some"] + archives("some")[1:2]:
        packs("--classes-from %s for %s" % (given, source), source, "--classes-from", given)
        is_("gives its classes and numbers", (classes(), items()), (wnids, [("n01443537/0.jpg", 0), ("n03444034/0.jpg", 2)]))
write("given.list", "0.jpg,n03444034\n")
make("one", ["0.jpg"])
packs("--classes-from with --labels", "one", "--labels", "given.list", "--classes-from", "tiny.out")
is_("gives the number", items(), [("0.jpg", 2)])
write("list.csv", "one/0.jpg,n01629819\n")
packs("--classes-from for a list", "list.csv", "--classes-from", "tiny.out")
is_("gives it, too", items(), [("one/0.jpg", 1)])
make("some", ["n0/0.jpg"])
not_packed("a class that is not there", 65, ["folder n0 is not a class that tiny.out names"], "some", "--classes-from", "tiny.out")
not_packed("--classes-from of no folder", 74, ["nowhere"], "some", "--classes-from", "nowhere")
not_packed("--classes-from of an empty one", 65, ["--classes-from: one is not a packed set and holds no class folders"], "some", "--classes-from", "one")
not_packed("both", 2, ["--classes and --classes-from exclude each other"], "some", "--classes-from", "tiny.out", "--classes", "order")

# ---- every option, every kind -----------------------------------------------------------------------

make("img", ["a/0.jpg", "b/0.jpg"])
subprocess.run([sys.executable, os.path.join(here, "make_inputs.py"), "idx", "idx", "4"], check=True)
subprocess.run([sys.executable, os.path.join(here, "make_inputs.py"), "cifar10", "cifar", "12"], check=True)
with tarfile.open("n01440764.tar", "w") as tar:
    tar.add("img/a/0.jpg", "n01440764_1.JPEG")
with tarfile.open("imagenet.tar", "w") as tar:
    tar.add("n01440764.tar")
sources = {"folder": "img", "archive": archives("img")[1], "list": "list.csv", "webdataset": "web/train/0.tar", "imagenet": "imagenet.tar",
           "idx": "idx", "npy": "x.npz", "cifar": "cifar"}
tree, every = {"folder", "archive"}, set(sources)
options = {"--classes": (["order"], every), "--classes-from": (["tiny.out"], every), "--labels": (["given.list"], tree), "--splits": (["none"], tree | {"webdataset"}),
           "--exclude": (["*.gif"], tree), "--allow-empty-classes": ([], tree | {"imagenet"}), "--val-labels": (["x"], {"imagenet"}),
           "--array-layout": (["chw"], {"idx", "npy"}), "--label-kind": (["class"], every - {"cifar", "imagenet"}), "--exif": ([], every - {"idx", "npy", "cifar"}),
           "--fast-decode": ([], every - {"idx", "npy", "cifar"}), "--allow-truncated": ([], every - {"idx", "npy", "cifar"})}
for option, (value, uses) in options.items():
    for kind, source in sources.items():
        done = ffpack(source, "--dry-run", option, *value)
        said = done.stderr.decode()
        unused = said.startswith("ffpack: %s: " % option) and done.returncode == 2 and ("does not apply to %s" % source in said or "holds arrays" in said)
        tap.ok(unused == (kind not in uses), "%s for %s: %s" % (option, kind, "used" if kind in uses else "refused"), said)
for source in ("idx", "x.npz"):
    not_packed("--array-layout of %s" % source, 2, ["--array-layout: ", "has no axis of channels"], source, "--array-layout", "hwc")
not_packed("--val-labels without validation images", 2, ["--val-labels: imagenet.tar holds no validation images"], "imagenet.tar", "--val-labels", "x")

# ---- no sources ---------------------------------------------------------------------------------------

for url in ("hf://datasets/x", "ftp://host/train-{000..146}.tar", "file:///x"):
    not_packed(url, 2, [url + ": ", url.split("/")[0] + "// is not read; wanted a file or folder of this machine, a URL of"], url)
for packed in ("tiny.out", "tiny.out/val", "tiny.out/val/index.ffx", "tiny.out/val/shard-000000.ffs"):
    not_packed("%s as a source" % packed, 2, [packed + ": is packed already", "ffinspect", "ffpack append", "ffpack merge"], packed)
make("huge", {"a/wide.ppm": b"P6\n1100000 1\n255\n" + bytes(3300000)})
done = ffpack("huge", "-o", out)
says("an image that is too wide is named", done.stderr.decode(), "ffpack: huge/a/wide.ppm: an image of 1100000 x 1 pixels would be packed as")
make("single", ["a/0.jpg"])
says("one is not a plural", packs("one item of one class", "single"), "\n1 item, 1 class (label),", "\n1 item in ")
write("single/a/1.jpg", b"broken")
says("one left out, too", packs("skips one", "single", "--on-error", "skip"), "  1 item was left out: ")
os.remove("out.skipped.tsv")

os.chdir("/")
shutil.rmtree(place)
tap.finish()
