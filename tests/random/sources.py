"""Random sources of ffpack: their files, and what they say, as the code that wrote the files knows.

Each image has one colour, its number, so a sample is recognized by its pixels whatever became of its name."""
import io
import os
import random
import subprocess
import tarfile
import zipfile

import numpy
from PIL import Image

from cases import Wrong, shell

CLASSES = [["cat", "dog", "eel"], [str(i) for i in range(12)], [str(i) for i in range(1, 6)], ["5", "17", "3"], ["AT&amp;T", "b c", "d|e"],
           ["n01", "N02", "é"], ["00", "01", "02"], ["-", "_", "a"], ["cafe\u0301", "caff", "b"]]
CHOICES = {
    "source": ["folder", "labels", "list", "zip", "npz", "wds", "cifar", "imagenet"],
    "classes": CLASSES,
    "each": [2, 1, 3],
    "splits": [("train",), ("train", "val"), ("train", "test"), ("Train", "valid"), ("training", "TEST")],
    "order": ["as is", "reversed", "shuffled"],
    "blank": [False, True],       # after each comma of a list
    "unlabeled": [0, 1],          # a line with -1
    "unused": [0, 1],             # a line of an image that is not there
    "missing": [0, 1],            # a class without a sample in the last split
    "twice": [0, 1, 2],           # a line twice: the same class, or another one
    "header": [False, True],
    "index": [False, True],       # a first column without a title that counts the lines, as pandas writes one
    "ends": ["\n", "\r\n", "\r"],
    "bom": [False, True],
    "comma": [",", "\t"],
    "floats": [False, True],      # 1.0, as pandas writes a column with gaps
    "columns": [1, 2],
    "flat": [False, True],        # images without class folders: only a list says their classes
    "numbered": [False, True],    # a second list, which numbers classes that the first one names
    "stray": ["", "data.npy", "train.bin", "test_batch", "notes.txt", "backup.tar"],
    "names": ["plain", "bom", "blanks", "\r\n"],  # the file with the names of the classes
    "known": [False, True],       # names of classes from a packed set
    "keys": [("x", "y"), ("images", "labels"), ("images", "fine_labels"), ("x", "classes_of_x"), ("data", "targets")],
    "array": ["u8", "f32", "u16"],
    "odd value": [None, "nan", "inf", "1e6"],
    "matrix": [None, "u1", "f4"],  # several classes of each sample, as whole numbers or floats
    "pixels": ["rgb", "gray of 16 bits", "two sizes"],
    "broken": [None, "one", "a class"],
    "lost": [None, "the last file", "a file between", "the end of a file"],
}
ONLY = {"keys", "array", "odd value", "matrix", "lost", "pixels", "broken"}  # of some kinds of sources
SIDE = 20
CANONICAL = {"training": "train", "valid": "val"}


def canonical(split):
    return CANONICAL.get(split.lower(), split.lower())


def add(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


class Source:
    """The files, and what they say.

    expected    {split: {number: class name or None}}
    absent      numbers that a set may lack
    doubtful    [(reason, words)]: the source may be refused for the reason; a set of it is right where the answer has one of the words
    """

    def __init__(self, case):
        self.dice = random.Random(case["seed"])
        if case["source"] in ("labels", "npz", "cifar", "imagenet"):
            splits = {"labels": ("train", "test"), "cifar": ("train", "test"), "imagenet": ("train", "val")}
            case = dict(case, splits=splits.get(case["source"], tuple(map(canonical, case["splits"]))))
        meant = {"npz": ("keys", "array", "odd value", "matrix"), "cifar": ("lost",), "wds": ("lost", "pixels"), "imagenet": ("lost", "pixels")}
        meant = meant.get(case["source"], ("pixels", "broken"))
        case = {name: CHOICES[name][0] if name in ONLY and name not in meant else value for name, value in case.items()}
        if case["source"] == "imagenet":
            case = dict(case, classes=["n%08d" % i for i in range(3)], missing=0)
        self.case = case
        self.expected, self.doubtful, self.arguments, self.absent = {}, [], ["src"], set()
        self.number, self.places = 0, {}
        self.rewrite = None  # a function that writes the source again, with other pixels
        os.mkdir("src")
        getattr(self, case["source"])()
        if case["pixels"] == "two sizes":
            self.doubt("two sizes")
        if case["stray"]:
            self.stray(case["stray"])

    def samples(self):
        """(split, class, number) of all, in the order of their making."""
        found = []
        for split in self.case["splits"]:
            wanted = self.expected[canonical(split)] = {}
            names = list(self.case["classes"])
            if self.case["missing"] and split == self.case["splits"][-1]:
                names.pop(self.dice.randrange(len(names)))
                self.doubt("missing")
            for name in names:
                for _ in range(self.case["each"]):
                    found.append((split, name, self.number))
                    wanted[self.number] = name
                    self.number += 1
        return found

    def doubt(self, why, *words):
        self.doubtful.append((why, words))

    def image(self, number, side=SIDE):
        if self.case["pixels"] == "gray of 16 bits":
            return Image.fromarray(numpy.full((side, side), 1000 + number, "uint16"))
        height = side + (self.case["pixels"] == "two sizes" and number % 3 == 1)
        return Image.new("RGB", (side, height), (number % 256, number // 256, 77))

    def encoded(self, number):
        data = io.BytesIO()
        self.image(number).save(data, "png")
        return data.getvalue()

    def save(self, number, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.places[number] = path
        with open(path, "wb") as file:
            file.write(self.encoded(number))

    def break_some(self, samples):
        """Leaves images that are none."""
        if not self.case["broken"]:
            return
        split, name, number = self.dice.choice(samples)
        chosen = {n for s, c, n in samples if n == number or self.case["broken"] == "a class" and (s, c) == (split, name)}
        for one in chosen:
            with open(self.places[one], "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n, no more")
        self.absent |= chosen
        self.doubt("broken", "skipped", "left out")

    def classes_file(self):
        """The options that name the classes which numbers count from 0, and the classes in that order."""
        names, kind = self.case["classes"], self.case["names"]
        if all(name.isdigit() for name in names):
            self.doubt("numbers that may be names")
        if self.case["known"]:
            return self.known_set(), sorted(names, key=str.encode)
        with open("names", "w", encoding="utf-8", newline="") as file:
            file.write("\ufeff" if kind == "bom" else "")
            for name in names:
                file.write((" %s \t" % name if kind == "blanks" else name) + ("\r\n" if kind == "\r\n" else "\n"))
        return ["--classes", "names"], names

    def known_set(self):
        for i, name in enumerate(self.case["classes"]):
            os.makedirs("known/" + name)
            Image.new("RGB", (SIDE, SIDE), (i, 0, 77)).save("known/%s/a.png" % name)
        done = shell("ffpack", "known", "-o", "known.set", "--mean", "0,0,0", "--std", "1,1,1", "--dtype", self.case["dtype"])
        if done.code:
            raise Wrong("a plain folder is refused", done)
        return ["--classes-from", "known.set"]

    def folder(self, place="src"):
        samples = self.samples()
        for split, name, number in samples:
            self.save(number, os.path.join(place, *([split] if len(self.case["splits"]) > 1 else []), name, "im%03d.png" % number))
        self.break_some(samples)

    def zip(self):
        self.folder("tree")
        os.rmdir("src")
        with zipfile.ZipFile("src.zip", "w") as file:
            for root, _, names in os.walk("tree"):
                for name in names:
                    path = os.path.join(root, name)
                    file.write(path, os.path.relpath(path, "tree"))
        self.arguments = ["src.zip"]

    def lines(self, samples, name_of):
        """The text of a list, with all that is odd about it."""
        case, several = self.case, len(self.case["splits"]) > 1 and self.case["source"] == "list"
        rows = [[name_of(number), name] + ([split] if several else []) for split, name, number in samples]
        if case["floats"]:
            if all(name.isdigit() for name in case["classes"]):
                for row in rows:
                    row[1] += ".0"
            self.doubt("floats")
        if any(sign in name for name in case["classes"] for sign in ";|"):
            self.doubt("a class or several")
        if case["unlabeled"]:
            at = self.dice.randrange(len(rows))
            split, _, number = samples[at]
            self.expected[canonical(split)][number] = None
            rows[at][1] = "-1"
            self.doubt("unlabeled")
        if case["columns"] == 2:
            for row in rows:
                row.insert(2, "x%d" % self.dice.randrange(3))
            self.doubt("columns", "column", "label2", "other")
        if case["unused"]:
            rows.append(["absent.png", self.dice.choice(["12", "zebra", case["classes"][0]])] + rows[0][2:])
            self.doubt("unused")
        if case["twice"]:
            row = list(rows[0])
            if case["twice"] == 2:
                row[1] = case["classes"][-1]
            rows.append(row)
            self.doubt("twice")
        if case["order"] == "reversed":
            rows.reverse()
        elif case["order"] == "shuffled":
            self.dice.shuffle(rows)
        titles = (["path", "label"] + (["other"] if case["columns"] == 2 else []) + ["split"])[:len(rows[0])]
        if case["header"] or several or case["index"]:
            rows.insert(0, titles)
        if case["index"]:
            rows = [[str(i - 1) if i else ""] + row for i, row in enumerate(rows)]
        if case["ends"] == "\r":
            self.doubt("ends")
        comma = case["comma"] + (" " if case["blank"] else "")
        self.rows = [comma.join('"%s"' % cell if case["comma"] in cell else cell for cell in row) + case["ends"] for row in rows]
        return ("\ufeff" if case["bom"] else "") + "".join(self.rows)

    def write_list(self, path, samples, name_of):
        if self.case["index"] and self.case["blank"]:
            self.doubt("index")  # the path begins with a blank, as a file's name may
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(self.lines(samples, name_of))

    def labels(self):
        """A training split of class folders, and a flat split with a list; or only the flat one; or two with a list each."""
        flat = self.case["flat"]
        numbered = self.case["numbered"] and not all(name.isdigit() for name in self.case["classes"])
        if flat:
            self.case = dict(self.case, splits=("test",))
        samples = self.samples()
        for split, name, number in samples:
            place = "src" if flat else "src/test" if split == "test" else "src/train" if numbered else "src/train/" + name
            self.save(number, "%s/t%03d.png" % (place, number))
        self.write_list("labels.csv", [one for one in samples if one[0] == "test"], "t%03d.png".__mod__)
        self.arguments = ["src", "--labels", "labels.csv" if flat else "test=labels.csv"]
        if numbered and not flat:
            with open("train.csv", "w", encoding="utf-8") as file:
                for split, name, number in samples:
                    if split == "train":
                        file.write("t%03d.png,%d\n" % (number, self.case["classes"].index(name)))
            self.arguments[-1] += ",train=train.csv"
            self.doubt("names and numbers", "numbers of classes")
        self.break_some(samples)

    def list(self):
        os.rmdir("src")
        samples = self.samples()
        for _, _, number in samples:
            self.save(number, "images/t%03d.png" % number)
        self.write_list("list.csv", samples, "images/t%03d.png".__mod__)
        self.arguments = ["list.csv"] + (self.known_set() if self.case["known"] else [])
        if self.case["known"]:
            self.doubt("known")
        self.break_some(samples)

    def npz(self):
        os.rmdir("src")
        case, samples = self.case, self.samples()
        options, names = self.classes_file()
        images, labels = case["keys"]
        if case["keys"] != ("x", "y"):
            self.doubt("keys")

        def write(more=0):
            values = {}
            for split in case["splits"]:
                own = [one for one in samples if one[0] == split]
                ending = "_" + split if len(case["splits"]) > 1 or images == "x" else ""
                pixels = numpy.stack([numpy.asarray(Image.new("RGB", (SIDE, SIDE), ((n + more) % 256, (n + more) // 256, 77))) for _, _, n in own])
                if case["array"] != "u8":
                    pixels = pixels.astype("f4") / numpy.float32(255) if case["array"] == "f32" else pixels.astype("u2") * 257
                if case["odd value"] and case["array"] == "f32":
                    pixels[0, -1, -1, 2] = float(case["odd value"])
                values[images + ending] = pixels
                values[labels + ending] = numpy.array([names.index(name) if not case["known"] or not name.isdigit() else int(name) for _, name, _ in own])
                if case["matrix"]:
                    values[labels + ending] = numpy.array([[n % 2, 1, n % 3 > 0] for _, _, n in own]).astype(case["matrix"])
            numpy.savez("src.npz", **values)
        write()
        self.rewrite = lambda: write(1000)
        self.arguments = ["src.npz"] + (options if not case["matrix"] else [])

    def wds(self):
        """A tar for each split, or three."""
        case, prefix = self.case, self.dice.choice(["", "set-", "imagenet1k-"])
        samples = self.samples()
        options, names = self.classes_file()
        for split in case["splits"]:
            own = [one for one in samples if one[0] == split]
            tars = 3 if case["lost"] else 1
            paths = ["src/%s%s%06d.tar" % (prefix, split + "-" if len(case["splits"]) > 1 else "", i) for i in range(tars)]
            for i, path in enumerate(paths):
                with tarfile.open(path, "w") as tar:
                    for _, name, number in own[i::tars]:
                        add(tar, "s%03d.png" % number, self.encoded(number))
                        add(tar, "s%03d.cls" % number, str(int(name) if case["known"] and name.isdigit() else names.index(name)).encode())
            if split == case["splits"][0]:
                self.lose(paths, [[number for _, _, number in own[i::tars]] for i in range(tars)])
        self.arguments = ["src"] + options

    def lose(self, paths, numbers):
        """A file that is not there, or a tar that ends early."""
        if not self.case["lost"]:
            return
        at = 1 if self.case["lost"] == "a file between" else len(paths) - 1
        self.absent |= set(numbers[at])
        if self.case["lost"] == "the end of a file" and paths[at].endswith(".tar"):
            with tarfile.open(paths[at]) as tar:
                end = tar.getmembers()[2].offset if len(tar.getmembers()) > 2 else 0
            os.truncate(paths[at], end)
            self.doubt("cut", "end", "cut")
            return
        os.remove(paths[at])
        # The last tar of a sequence can be missed by nobody.
        self.doubt("lost", *([] if paths[at].endswith(".tar") and at == len(paths) - 1 else ["lack", "missing", "left out"]))

    def cifar(self):
        samples = [one for one in self.samples() if len(self.case["classes"]) <= 10]
        with open("src/batches.meta.txt", "w", encoding="utf-8") as file:
            file.write("".join(name + "\n" for name in self.case["classes"] + ["more%d" % i for i in range(10 - len(self.case["classes"]))]))
        if len(self.case["classes"]) != 10:
            self.doubt("classes")
        train = [one for one in samples if one[0] == "train"]
        paths = ["src/data_batch_%d.bin" % i for i in range(1, 6)]
        for path, own in list(zip(paths, (train[i::5] for i in range(5)))) + [("src/test_batch.bin", [one for one in samples if one[0] == "test"])]:
            with open(path, "wb") as file:
                for _, name, number in own:
                    colours = (number % 256, number // 256, 77)
                    file.write(bytes([self.case["classes"].index(name)]) + b"".join(bytes([value]) * 1024 for value in colours))
        self.lose(paths, [[number for _, _, number in train[i::5]] for i in range(5)])

    def imagenet(self):
        """Tars of tars for training; validation images are numbered in their names, and a list has a class for each number."""
        samples = self.samples()
        for split, path in (("train", "src/ILSVRC2012_img_train.tar"), ("val", "src/ILSVRC2012_img_val.tar")):
            own = [one for one in samples if one[0] == split]
            with tarfile.open(path, "w") as tar:
                if split == "train":
                    for name in self.case["classes"]:
                        inner = io.BytesIO()
                        with tarfile.open(fileobj=inner, mode="w") as one:
                            for _, _, number in (sample for sample in own if sample[1] == name):
                                add(one, "%s_%d.JPEG" % (name, number), self.encoded(number))
                        add(tar, name + ".tar", inner.getvalue())
                else:
                    self.dice.shuffle(own)
                    gone = self.dice.randrange(len(own)) if self.case["lost"] else None
                    for i, (_, _, number) in enumerate(own):
                        if i == gone:
                            self.absent.add(number)
                            self.doubt("lost")
                            continue
                        add(tar, "ILSVRC2012_val_%08d.JPEG" % (i + 1), self.encoded(number))
                    with open("val.txt", "w", encoding="utf-8") as file:
                        file.write("".join(name + "\n" for _, name, _ in own))
        self.arguments = ["src", "--val-labels", "val.txt"]

    def stray(self, name):
        """A file that somebody left next to the images."""
        if not os.path.isdir("src"):
            return
        path = os.path.join("src", name)
        if name.endswith(".npy"):
            numpy.save(path, numpy.zeros((4, SIDE, SIDE, 3), "uint8"))
        elif name.endswith(".tar"):
            subprocess.run(["tar", "cf", path, "--files-from", "/dev/null"], check=True)
        else:
            with open(path, "wb") as file:
                file.write(bytes(3074 * 2))
        self.doubt("stray")

