#!/usr/bin/python3
"""ffpack copy --where: the samples that a few lines of Python choose by the same labels, keys and sizes, on drawn expressions and by
hand; what is wrong is refused with its place and the nearest name. Prints TAP."""
# Needs: ffpack ffinspect
import fnmatch
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import FFPACK, NORMALIZE, Packed, image, tap  # noqa: E402

rng = random.Random(11)
os.chdir(tempfile.mkdtemp())
COLOURS, KINDS = ["red", "dark blue", "it's", "été"], ["7", "8", "9", "0"]


def ffpack(*arguments):
    return subprocess.run([FFPACK, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def make(*arguments):
    done = ffpack(*arguments)
    assert done.returncode == 0, (arguments, done.stderr)


def rows(folder):
    """[{key, colour, kind, age, height, width, split}] by the second reader, in the order of numbers."""
    found = Packed(folder)
    value = {name: found.labels[name] for name in found.fields}
    return [{"key": key, "colour": value["colour"][i], "kind": value["kind"][i], "age": value["age"][i][0],
             "height": SIZES[key][0], "width": SIZES[key][1], "split": os.path.basename(folder)} for i, key in enumerate(found.keys)]


SIZES = {}  # {key: (height, width)}


def sources():
    lines = ["path\tsplit\tcolour\tkind:names\tage"]
    for split, count in (("train", 60), ("val", 24)):
        for i in range(count):
            key = "%s_%d%s.png" % (rng.choice(["a", "b", "ü"]), len(SIZES), rng.choice(["", "_blurred"]))
            SIZES[key] = (rng.randint(8, 20), rng.randint(8, 20))
            with open(key, "wb") as file:
                file.write(image(rng, size=SIZES[key][::-1]))
            lines.append("\t".join([key, split, rng.choice(COLOURS), rng.choice(KINDS), "%g" % rng.choice([0.5, 3, 40.25])]))
    with open("list.tsv", "w") as file:
        file.write("\n".join(lines) + "\n")
    make("list.tsv", "-o", "set", "--max-side", "20", "--dtype", "u8", *NORMALIZE)


def quoted(text):
    mark = rng.choice("'\"")
    return mark + text.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark


def draw(depth):
    """(expression, what it means as a function of a row)"""
    if depth and rng.random() < 0.7:
        form = rng.choice(["and", "or", "not", "()"])
        left, right = draw(depth - 1), draw(depth - 1)
        if form == "not":
            return "not (%s)" % left[0], lambda row: not left[1](row)
        if form == "()":
            return "( %s )" % left[0], left[1]
        text = "(%s) %s (%s)" % (left[0], rng.choice([form, form.upper()]), right[0])
        return text, (lambda row: left[1](row) and right[1](row)) if form == "and" else (lambda row: left[1](row) or right[1](row))
    return comparison()


COMPARE = {"=": lambda a, b: a == b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
           "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}


def comparison():
    name = rng.choice(["colour", "kind", "age", "key", "split", "height", "width"])
    sign, spaces = rng.choice(list(COMPARE)), rng.choice(["", " "])
    if name == "colour":
        form = rng.randrange(4)
        names = rng.sample(COLOURS, 2)
        if form == 0:
            sign = rng.choice(["=", "==", "!="])
            return "colour%s%s%s" % (spaces, sign, quoted(names[0])), lambda row: COMPARE[sign](COLOUR[row["colour"]], names[0])
        if form == 1:
            number = rng.randrange(-1, 5)
            return "colour %s %d" % (sign, number), lambda row: COMPARE[sign](row["colour"], number)
        if form == 2:
            flip = rng.choice(["", "not "])
            return "colour %sin (%s, %s)" % (flip, *map(quoted, names)), lambda row: (COLOUR[row["colour"]] in names) != bool(flip)
        pattern = rng.choice(["*e*", "???", "dark?blue", "*'s"])
        return "colour like %s" % quoted(pattern), lambda row: fnmatch.fnmatchcase(COLOUR[row["colour"]], pattern)
    if name == "kind":
        names = rng.sample(KINDS, 2)
        return "kind in (%s)" % ", ".join(map(quoted, names)), lambda row: KIND[row["kind"]] in names
    if name == "key":
        if rng.random() < 0.5:
            pattern = rng.choice(["a_*", "*_blurred.png", "?_1*", "*_*_*", "*", "ü*"])
            flip = rng.choice(["", "not "])
            return "key %slike %s" % (flip, quoted(pattern)), lambda row: fnmatch.fnmatchcase(row["key"], pattern) != bool(flip)
        key = rng.choice(list(SIZES))
        return "key %s %s" % (sign, quoted(key)), lambda row: COMPARE[sign](row["key"].encode(), key.encode())
    if name == "split":
        return "split %s 'train'" % sign, lambda row: COMPARE[sign](row["split"], "train")
    number = rng.choice([0.5, 3, 12, 1.5e1])
    return "%s%s%s%s%g" % (name, spaces, sign, spaces, number), lambda row: COMPARE[sign](row[name], number)


def check_drawn():
    everything = {split: rows("set/" + split) for split in ("train", "val")}
    wrong, made = [], 0
    for _ in range(60):
        text, means = draw(rng.randrange(4))
        wanted = {split: [row["key"] for row in all_ if means(row)] for split, all_ in everything.items()}
        wanted = {split: keys for split, keys in wanted.items() if keys}
        shutil.rmtree("new", ignore_errors=True)
        done = ffpack("copy", "set", "-o", "new", "--where", text)
        if not wanted:
            if done.returncode != 2 or "no sample of set would be left" not in done.stderr or os.path.exists("new"):
                wrong += [text, done.stderr]
            continue
        made += 1
        found = {split: Packed("new/" + split).keys for split in sorted(os.listdir("new"))} if done.returncode == 0 else done.stderr
        if found != wanted:
            wrong += [text, found, wanted]
    tap.ok(not wrong and made > 20, "60 drawn expressions mean what Python means", [str(line) for line in wrong])


def check_by_hand():
    done = ffpack("copy", "set", "-o", "one", "--where", "split = 'val' and colour = 'red'", "--json")
    notes = json.loads(done.stdout)
    tap.ok(os.listdir("one") == ["val"] and "train is not copied: --where matches none of its samples" in str(notes),
           "a split of which nothing is left is not copied, which is said", done.stdout)
    keys = [row["key"] for row in rows("set/train")]
    with open("some", "w") as file:
        file.write("".join(key + "\n" for key in keys[:10]))
    make("copy", "set/train", "-o", "both", "--keys", "some", "--where", "key like 'a*'")
    make("copy", "set/train", "-o", "other", "--not-keys", "some", "--where", "key like 'a*'")
    tap.ok(Packed("both").keys == [k for k in keys[:10] if k[0] == "a"] and Packed("other").keys == [k for k in keys[10:] if k[0] == "a"],
           "with --keys and --not-keys: what both choose")
    for name in "cat/1", "cat/2", "dog/3":
        os.makedirs("folders/" + name[:3], exist_ok=True)
        with open("folders/%s.png" % name, "wb") as file:
            file.write(image(rng, size=(8, 8)))
    make("folders", "-o", "one-label")
    make("copy", "one-label", "-o", "dogs", "--where", "class in ('dog') and width = 8")
    tap.ok(Packed("dogs").keys == ["dog/3.png"], "class: the only label that is a class, whatever its name")
    deep = "(" * 30 + "colour = 0" + ")" * 30
    tap.ok(ffpack("copy", "set/train", "-o", "deep", "--where", deep).returncode == 0, "30 parentheses")


def check_refused():
    for text, place, piece in (
            ("color = 'red'", 1, "no label field 'color'; did you mean colour?"), ("heigth > 3", 1, "did you mean height?"),
            ("class = 'red'", 1, "wanted one of colour, kind, age,"), ("`class` = 'red'", 2, "no label field 'class'"),
            ("zebra = 1", 1, "wanted one of colour, kind, age, key, split, height and width"),
            ("colour = 'dark bleu'", 10, "no class 'dark bleu' in its field colour; did you mean 'dark blue'?"),
            ("colour = red", 10, "text in quotes like 'cat', found 'red'"), ("colour < 'red'", 10, "names of classes have no order"),
            ("age = 'old'", 7, "the values of age in"), ("height = '3'", 10, "height is a number"), ("split = 3", 9, "split is text"),
            ("kind = 7", 8, "7 is the name of class"), ("key like 3", 10, "a pattern in quotes"), ("key > ", 7, "found the end"),
            ("", 1, "wanted a label field"), ("colour = 'red", 10, "the text does not end"), ("(colour = 0", 12, "wanted and, or, or )"),
            ("colour = 0)", 11, "found ')'"), ("colour = 0 kind = '7'", 12, "wanted and, or, or the end, found 'kind'"),
            ("colour in 'red'", 11, "( and values"), ("colour in ('red' 'it')", 18, ", or )"), ("colour not 3", 12, "in or like"),
            ("colour ~ 3", 8, "one of = != < <= > >= in like"), ("age = 1x", 7, "a number"), ("age = 1-2", 7, "a number"),
            ("`colour = 1", 12, "a ` after the name"), ("`key` = 'x'", 2, "no label field 'key'"),
            ("(" * 40 + "age=1" + ")" * 40, 33, "more than 32 parentheses"), ("age=1 or " * 200 + "age=1", None, "more than 256"),
            ("age in (%s)" % ",".join(["1"] * 1100), None, "more than 1024 values"), ("age=1" + " " * 17000, None, "an expression has at most")):
        done = ffpack("copy", "set", "-o", "refused", "--where", text)
        tap.ok(done.returncode == 2 and done.stderr.startswith("ffpack: --where: " + ("at %d: " % place if place else ""))
               and piece in done.stderr and done.stderr.count("\n") == 1 and not os.path.exists("refused"),
               "%s is refused" % (text if len(text) < 40 else text[:40] + "..."), done.stderr)


sources()
COLOUR, KIND = (Packed("set/train").fields[name][3] for name in ("colour", "kind"))
check_drawn()
check_by_hand()
check_refused()
tap.finish()
