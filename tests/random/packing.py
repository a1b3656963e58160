"""Random sources: every sample has the class that the source says, read by an independent reader, and everybody counts the same.

Each image has one colour, its number, so a sample is recognized by its pixels whatever became of its name."""
import json
import os
import random
import subprocess
import sys
import zipfile

import numpy
from PIL import Image

from cases import Wrong, refused, shell, tap

sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402

CLASSES = [["cat", "dog", "eel"], [str(i) for i in range(12)], [str(i) for i in range(1, 6)], ["5", "17", "3"], ["AT&amp;T", "b c", "d|e"], ["n01", "N02", "é"],
           ["00", "01", "02"], ["-", "_", "a"]]
CHOICES = {
    "source": ["folder", "labels", "list", "zip", "npz", "wds"],
    "classes": CLASSES,
    "each": [2, 1, 3],
    "splits": [("train",), ("train", "val"), ("train", "test")],
    "order": ["as is", "reversed", "shuffled"],
    "blank": [False, True],       # after each comma of a list
    "unlabeled": [0, 1],          # a line with -1
    "unused": [0, 1],             # a line of an image that is not there
    "missing": [0, 1],            # a class without a sample in the last split
    "twice": [0, 1, 2],           # a line twice: the same class, or another one
    "header": [False, True],
    "ends": ["\n", "\r\n", "\r"],
    "bom": [False, True],
    "comma": [",", "\t"],
    "floats": [False, True],      # 1.0, as pandas writes a column with gaps
    "columns": [1, 2],
    "stray": ["", "data.npy", "train.bin", "test_batch", "notes.txt", "backup.tar"],
    "dtype": ["u8", "f16", "f32"],
    "shuffle": [False, True],
    "compress": [False, True],
    "parts": [1, 2],
    "append": [0, 1, 2],          # nothing, another folder, the same folder again
    "again": [False, True],       # stdout of the append cannot be written
}
EVEN = {"source", "classes"}
SIDE = 6


def image(number):
    return Image.new("RGB", (SIDE, SIDE), (number % 256, number // 256, 77))


class Source:
    """The files, and what they say: {split: {number: class name or None}}."""

    def __init__(self, case):
        self.case, self.dice = case, random.Random(case["seed"])
        self.expected, self.doubtful, self.arguments = {}, [], ["src"]
        self.number = 0
        os.mkdir("src")
        getattr(self, case["source"])()
        if case["stray"]:
            self.stray(case["stray"])

    def samples(self):
        """(split, class, number) of all, in the order of their making."""
        found = []
        for split in self.case["splits"]:
            self.expected[split] = {}
            names = list(self.case["classes"])
            if self.case["missing"] and split == self.case["splits"][-1]:
                names.pop(self.dice.randrange(len(names)))
                self.doubt("missing")
            for name in names:
                for _ in range(self.case["each"]):
                    found.append((split, name, self.number))
                    self.expected[split][self.number] = name
                    self.number += 1
        return found

    def name_numbers(self):
        """A file with the classes' names, for labels that count them from 0."""
        names = self.case["classes"]
        with open("names", "w", encoding="utf-8") as file:
            file.write("".join(name + "\n" for name in names))
        if all(name.isdigit() for name in names):
            self.doubt("numbers that may be names")
        return names

    def doubt(self, why):
        """It may be refused."""
        self.doubtful.append(why)

    def folder(self, place="src"):
        for split, name, number in self.samples():
            below = os.path.join(place, split, name) if len(self.case["splits"]) > 1 else os.path.join(place, name)
            os.makedirs(below, exist_ok=True)
            image(number).save(os.path.join(below, "im%03d.png" % number))

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
        """Of a list: names and classes, with all that is odd about them."""
        rows = [[name_of(split, number), name] + ([split] if len(self.case["splits"]) > 1 and self.case["source"] == "list" else [])
                for split, name, number in samples]
        if self.case["floats"]:
            if all(name.isdigit() for name in self.case["classes"]):
                for row in rows:
                    row[1] += ".0"
            self.doubt("floats")
        if any(sign in name for name in self.case["classes"] for sign in ";|"):
            self.doubt("a class or several")
        if self.case["unlabeled"]:
            at = self.dice.randrange(len(rows))
            split, _, number = samples[at]
            self.expected[split][number] = None
            rows[at][1] = "-1"
            if self.case["source"] == "list":
                self.doubt("unlabeled")
        if self.case["columns"] == 2:
            for row in rows:
                row.insert(2, "x%d" % self.dice.randrange(3))
            self.doubt("columns")
        if self.case["unused"]:
            rows.append(["absent.png", self.dice.choice(["12", "zebra", self.case["classes"][0]])] + rows[0][2:])
            self.doubt("unused")
        if self.case["twice"]:
            row = list(rows[0])
            if self.case["twice"] == 2:
                row[1] = self.case["classes"][-1]
            rows.append(row)
            self.doubt("twice")
        if self.case["order"] == "reversed":
            rows.reverse()
        elif self.case["order"] == "shuffled":
            self.dice.shuffle(rows)
        if self.case["header"] or len(self.case["splits"]) > 1 and self.case["source"] == "list":
            rows.insert(0, (["path", "label"] + (["other"] if self.case["columns"] == 2 else []) + ["split"])[:len(rows[0])])
        comma = self.case["comma"] + (" " if self.case["blank"] else "")
        if self.case["ends"] == "\r":
            self.doubt("ends")
        text = "".join(comma.join('"%s"' % cell if self.case["comma"] in cell else cell for cell in row) + self.case["ends"] for row in rows)
        return ("\ufeff" if self.case["bom"] else "") + text

    def labels(self):
        """A training split of class folders, and a flat split with a list."""
        self.case = dict(self.case, splits=("train", "test"))
        samples = self.samples()
        os.mkdir("src/test")
        for split, name, number in samples:
            below = "src/train/" + name if split == "train" else "src/test"
            os.makedirs(below, exist_ok=True)
            image(number).save("%s/t%03d.png" % (below, number))
        with open("labels.csv", "w", encoding="utf-8", newline="") as file:
            file.write(self.lines([one for one in samples if one[0] == "test"], lambda split, number: "t%03d.png" % number))
        self.arguments = ["src", "--labels", "test=labels.csv"]

    def list(self):
        os.rmdir("src")
        os.mkdir("images")
        samples = self.samples()
        for _, _, number in samples:
            image(number).save("images/t%03d.png" % number)
        with open("list.csv", "w", encoding="utf-8", newline="") as file:
            file.write(self.lines(samples, lambda split, number: "images/t%03d.png" % number))
        self.arguments = ["list.csv"]

    def npz(self):
        os.rmdir("src")
        samples = self.samples()
        values = {}
        names = self.name_numbers()
        for split in self.case["splits"]:
            own = [one for one in samples if one[0] == split]
            values["x_" + split] = numpy.stack([numpy.asarray(image(number)) for _, _, number in own])
            values["y_" + split] = numpy.array([names.index(name) for _, name, _ in own])
        numpy.savez("src.npz", **values)
        self.arguments = ["src.npz", "--classes", "names"]

    def wds(self):
        import io
        import tarfile
        prefix = self.dice.choice(["", "set-", "imagenet1k-"])
        for split in self.case["splits"]:
            self.expected[split] = {}
        samples = self.samples()
        names = self.name_numbers()
        for split in self.case["splits"]:
            with tarfile.open("src/%s%s-000.tar" % (prefix, split) if len(self.case["splits"]) > 1 else "src/%s000.tar" % prefix, "w") as tar:
                for one, name, number in samples:
                    if one != split:
                        continue
                    png = io.BytesIO()
                    image(number).save(png, "png")
                    for ending, data in (("png", png.getvalue()), ("cls", str(names.index(name)).encode())):
                        member = tarfile.TarInfo("s%03d.%s" % (number, ending))
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
        self.arguments = ["src", "--classes", "names"]

    def stray(self, name):
        """A file that somebody left beside the images."""
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


def packed(folder):
    """[(number, class name or number, or None)] of a split, by Python."""
    found = []
    with ffload.Dataset(folder) as data:
        field = next(iter(data.fields), None)
        for i in range(len(data)):
            pixels, label = data[i]
            pixels = numpy.array(pixels, dtype="float64")
            pixels = pixels.reshape(3, -1)[:, 0] if data.layout == "chw" else pixels.reshape(-1, 3)[0]
            if data.dtype != "u8":
                pixels = numpy.round(pixels * 255)
            if isinstance(label, dict):
                label = label[field]
            if numpy.ndim(label) or isinstance(label, float):
                label = str(label)  # no class at all
            elif label is not None:
                label = None if int(label) < 0 else data.classes[int(label)] if data.classes else int(label)
            found.append((int(pixels[0]) + 256 * int(pixels[1]), label))
    return found


def split_folders(out):
    below = {name: os.path.join(out, name) for name in os.listdir(out) if os.path.isdir(os.path.join(out, name))}
    return below or {"": out}


def counts_of(out):
    done = shell("ffinspect", out, "--json")
    if done.code:
        raise Wrong("ffinspect fails", done)
    return sorted(split["items"] for split in json.loads(done.out)["splits"])


def read(folder):
    try:
        return packed(folder)
    except Exception as error:
        raise Wrong("Python cannot read it", folder, error) from None


def compare(source, out, notes):
    """notes: the summary's notes; a line that is there twice may be packed twice, if one of them says so."""
    expected, found = source.expected, {}
    twice = source.case["twice"] == 1 and any("names an image once more" in note for note in notes)
    for name, folder in split_folders(out).items():
        found[name] = read(folder)
    if len(expected) == 1 and list(found) == [""]:
        found = {next(iter(expected)): found[""]}
    if set(found) != set(expected):
        raise Wrong("splits", "wanted %s" % sorted(expected), "found %s" % sorted(found))
    for split, wanted in expected.items():
        numbers = [number for number, _ in found[split]]
        if sorted(numbers) != sorted(set(numbers)) and not (twice and len(numbers) == len(set(numbers)) + 1):
            raise Wrong("a sample is packed twice", split, found[split])
        if set(numbers) != set(wanted):
            raise Wrong("other samples", split, "missing %s" % sorted(set(wanted) - set(numbers)), "more %s" % sorted(set(numbers) - set(wanted)))
        other = [(number, wanted[number], name) for number, name in found[split]
                 if name != (wanted[number] if isinstance(name, str) or wanted[number] is None else int(wanted[number]))]
        if other:
            raise Wrong("labels by name", split, "(image, in the source, in the set): %s" % other[:4])
    return {split: len(found[split]) for split in found}


def run(case):
    source = Source(case)
    options = ["--dtype", case["dtype"], "--mean", "0,0,0", "--std", "1,1,1"]
    if case["source"] == "npz" and case["dtype"] != "u8":
        options += ["--range", "0,255"]
    if case["shuffle"]:
        options += ["--shuffle", case["seed"] % 100]
    if case["compress"]:
        options += ["--compress", "zstd:1"]
    if case["missing"]:
        options += ["--allow-empty-classes"]
    dry = shell("ffpack", *source.arguments, "-o", "out", *options, "--dry-run", "--json")
    if case["parts"] == 1:
        done = shell("ffpack", *source.arguments, "-o", "out", *options, "--json")
    else:
        for part in (2, 1):
            done = shell("ffpack", *source.arguments, "-o", "part%d" % part, *options, "--part", "%d/2" % part)
            if done.code:
                break
        if done.code == 0:
            done = shell("ffpack", "merge", "out", "part1", "part2")
    if done.code:
        refused(done, "ffpack")
        if not source.doubtful and not (case["shuffle"] and case["source"] == "zip"):
            raise Wrong("a plain source is refused", done)
        if dry.code == 0:
            raise Wrong("a dry run promises what is refused", done)
        return
    if dry.code:
        raise Wrong("a dry run refuses what is packed", dry)
    counts = compare(source, "out", json.loads(dry.out).get("notes", []))
    if counts_of("out") != sorted(counts.values()):
        raise Wrong("ffinspect counts otherwise", counts_of("out"), counts)
    for name, answer in (("the dry run", dry), *([("the summary", done)] if case["parts"] == 1 else [])):
        said = sorted(split["items"] for split in json.loads(answer.out)["splits"])
        if said != sorted(counts.values()):
            raise Wrong("%s counts otherwise" % name, said, counts)
    if case["append"] and case["source"] in ("folder", "zip"):
        append(case, source)


def append(case, source):
    target = next(iter(split_folders("out").values()))
    before = read(target)
    if case["append"] == 1:
        os.mkdir("more")
        number = source.number + 1
        for name in sorted({name for _, name in before}):
            os.makedirs("more/" + name)
            image(number).save("more/%s/n%d.png" % (name, number))
            number += 1
    else:
        split = [name for name in source.expected if target.endswith(name)] if len(source.expected) > 1 else []
        os.symlink(os.path.join("src", *split) if case["source"] == "folder" else os.path.join("tree", *split), "more")
    done = shell("ffpack", "append", target, "more")
    after = read(target)
    if done.code:
        refused(done, "ffpack")
        if after != before:
            raise Wrong("a refused append changed the set", done)
        if case["append"] == 1:
            raise Wrong("a plain append is refused", done)
    elif len({number for number, _ in after}) != len(after):
        raise Wrong("append makes duplicates without a word", done)


if __name__ == "__main__":
    sys.exit("run by test_random.py")
