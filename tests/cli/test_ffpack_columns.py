#!/usr/bin/python3
"""Tables as pandas and Excel write them, as SOURCE and for --labels: separators, quotes, line ends, an index without a
title; columns by their titles, by --columns and by number. Python's csv module writes the tables (pandas' to_csv calls
it), and every sample must have the class, by name, that the table says. Prints TAP."""
# Needs: ffpack
import csv
import itertools
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

reader = tap.second_reader()
rng = random.Random(41)
os.chdir(tempfile.mkdtemp())
RAW = ["--dtype", "u8", "--mean", ".5,.5,.5", "--std", ".5,.5,.5"]
IMAGE = b"P6\n2 2\n255\n" + bytes(range(12))
NAMES = ["plain.ppm", "a, b.ppm", 'in "quotes".ppm', '"first.ppm"', "semi;colon.ppm", "tab\there.ppm", "new\nline.ppm", "é 日本.ppm", " blank.ppm", "100%.ppm", "z.ppm", "y.ppm"]
CLASSES = ["cat", "T-shirt, top", 'the "best"', "a;b", "été"]
for folder in ("set", "set/images"):
    os.makedirs(folder)
for name in NAMES:
    open("set/images/" + name, "wb").write(IMAGE)
label_of = {name: CLASSES[i % len(CLASSES)] for i, name in enumerate(NAMES)}


def write(path, rows, separator=",", end="\r\n", mark=False, quoting=csv.QUOTE_MINIMAL):
    with open(path, "w", newline="", encoding="utf-8-sig" if mark else "utf-8") as file:
        csv.writer(file, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)


def ffpack(*arguments):
    return tap.run([os.path.join(tap.BUILD, "ffpack"), *map(str, arguments)])


def read(folder, field):
    """{key: class name} of a field."""
    split = reader.Split(folder)
    at = [f.name.decode() for f in split.metadata.fields].index(field)
    classes = [c.decode() for c in split.metadata.fields[at].classes]
    found = {}
    for i in range(len(split.order)):
        _, key, labels, _ = split.sample(i)
        found[key.decode()] = classes[int.from_bytes(labels[at][:4], "little", signed=True)]
    return found


def packs(title, wanted, *arguments, field="label", folder="out", says=(), fields=None):
    shutil.rmtree("out", ignore_errors=True)
    done = ffpack(*arguments, "-o", "out", *RAW)
    said = (done.stdout + done.stderr).decode()
    try:
        found = read(folder, field) if done.returncode == 0 else None
        has = [f.name.decode() for f in reader.Split(folder).metadata.fields] if found else None
    except (ValueError, reader.Wrong, OSError) as error:
        found, has = error, None
    missing = [piece for piece in says if piece not in said]
    tap.ok(found == wanted and not missing and (fields is None or has == fields), title, "%s\n%s, wanted %s\nnot said: %s; fields %s" % (said, found, wanted, missing, has))


def refuses(title, code, pieces, *arguments):
    shutil.rmtree("out", ignore_errors=True)
    done = ffpack(*arguments, "-o", "out", *RAW)
    said = done.stderr.decode()
    missing = [piece for piece in pieces if piece not in said]
    tap.ok(done.returncode == code and not missing and said.count("\n") == 1 and not os.path.exists("out"), title, "exit %d\n%s\nnot said: %s" % (done.returncode, said, missing))


# ---- every form of a table, as SOURCE and as --labels
wanted = {"images/" + name: label for name, label in label_of.items()}
for separator, end, mark, index, quoting in itertools.product(",;\t", ("\n", "\r\n"), (False, True), (False, True), (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)):
    title = "separator %r, lines end with %r, mark %d, index %d, %s" % (separator, end, mark, index, "all quoted" if quoting else "quoted where needed")
    names = list(NAMES)
    rng.shuffle(names)
    rows = [["path", "label"]] + [["images/" + name, label_of[name]] for name in names]
    if index:
        rows = [["" if not i else str(i - 1)] + row for i, row in enumerate(rows)]
    write("set/table.csv", rows, separator, end, mark, quoting)
    packs(title, wanted, "set/table.csv", "--label-kind", "class", says=["set/table.csv: paths from column path; labels from label" + ("; not used: column 1" if index else "") + "\n"],
          fields=["label"])

# A name with blanks around is trimmed in --labels; the others are found.
names = [name for name in NAMES if name.strip() == name]
os.makedirs("flat")
for name in names:
    open("flat/" + name, "wb").write(IMAGE)
wanted_flat = {name: label_of[name] for name in names}
for separator, end, mark, index in itertools.product(",;\t", ("\n", "\r\n"), (False, True), (False, True)):
    rows = [["filename", "category"]] + [[name, label_of[name]] for name in reversed(names)]
    if index:
        rows = [["" if not i else str(i - 1)] + row for i, row in enumerate(rows)]
    write("labels.csv", rows, separator, end, mark)
    packs("--labels: separator %r, lines end with %r, mark %d, index %d" % (separator, end, mark, index), wanted_flat, "flat", "--labels", "labels.csv", "--label-kind", "class",
          says=["labels.csv: names from column filename, classes from column category" + ("; not used: column 1" if index else "") + "\n"])

# ---- titles
rows = [[name, label_of[name]] for name in names]
for path in ("path", "file", "filename", "image", "key", "image_path", "filepath", "File_Name", "image_id"):
    for label in ("label", "class", "target", "category"):
        write("flat/table.csv", [[label, "other column", path]] + [[b, str(i), a] for i, (a, b) in enumerate(rows)])
        packs("columns %s and %s, in any order" % (label, path), wanted_flat, "flat/table.csv", "--label", label, "--label-kind", "names", field=label, fields=[label],
              says=["flat/table.csv: paths from column %s; labels from %s; not used: column other column" % (path, label)])
write("flat/table.csv", [["", "Unnamed: 0", "width", "path", "split", "label"]] + [[i, i, 640, a, "dev" if i % 3 else "train", b] for i, (a, b) in enumerate(rows)])
packs("two indexes, a width and splits", {a: b for i, (a, b) in enumerate(rows) if i % 3}, "flat/table.csv", "--label-kind", "class", folder="out/val", fields=["width", "label"], says=[
    "flat/table.csv: paths from column path; labels from width, label; splits from split; not used: column 1, Unnamed: 0"])
for title in ("index", "Idx", "no", "number"):
    write("flat/table.csv", [[title, "path", "label"]] + [[i, a, b] for i, (a, b) in enumerate(rows)])
    packs(title + " before the paths counts the rows", wanted_flat, "flat/table.csv", "--label-kind", "names", fields=["label"],
          says=["flat/table.csv: paths from column path; labels from label; not used: column %s\n" % title])
packs("--label takes it", {a: str(i) for i, (a, b) in enumerate(rows)}, "flat/table.csv", "--label", "number", "--label-kind", "names", field="number", fields=["number"])
packs("so does --columns", {a: str(i) for i, (a, b) in enumerate(rows)}, "flat/table.csv", "--columns", "label=number", "--label-kind", "names", field="number", fields=["number"])
write("flat/table.csv", [["index", "path"]] + [[b, a] for a, b in rows])
packs("index as the only other column is the label", wanted_flat, "flat/table.csv", "--label-kind", "names", field="index", fields=["index"])
write("flat/table.csv", [["path", "label", "Unnamed: 0", "Unnamed: 0.1"]] + [[a, b, i, ""] for i, (a, b) in enumerate(rows)])
packs("pandas' columns without a title behind the others", wanted_flat, "flat/table.csv", "--label-kind", "names", fields=["label"],
      says=["labels from label; not used: column Unnamed: 0, Unnamed: 0.1\n"])
write("flat/table.csv", [["path", "label"]] + rows)
packs("nothing is left over", wanted_flat, "flat/table.csv", "--label-kind", "class", says=["flat/table.csv: paths from column path; labels from label\n"])
write("flat/table.csv", rows)
shutil.rmtree("out", ignore_errors=True)
tap.ok(b"from column" not in ffpack("flat/table.csv", "-o", "out", *RAW, "--label-kind", "class").stdout, "without a header nothing is said of columns")

# ---- --columns
shutil.copy("flat/" + rows[0][0], "flat/image")
write("flat/table.csv", [["cat", "image"], ["dog", rows[1][0]]])
packs("a first line with an image called image is not a header, where no title of labels is next to it", {"image": "cat", rows[1][0]: "dog"}, "flat/table.csv",
      "--columns", "path=2,label=1", "--label-kind", "names")
os.remove("flat/image")
odd = [["id_code", "size, in pixels", "diagnosis", "fold"]] + [[a, 7, b, "train" if i % 2 else "val"] for i, (a, b) in enumerate(rows)]
halves = {a: b for i, (a, b) in enumerate(rows) if i % 2}
for separator in ",;\t":
    write("flat/table.csv", odd, separator)
    refuses("titles that nobody knows, %r" % separator, 65, ["flat/table.csv: its first line 'id_code", "--columns path=NAME,label=NAME"], "flat/table.csv")
    packs("--columns with %r" % separator, wanted_flat, "flat/table.csv", "--columns", "path=id_code,label=diagnosis", "--label-kind", "class", field="diagnosis", fields=["diagnosis"],
          says=["flat/table.csv: paths from column id_code; labels from diagnosis; not used: column size, in pixels, fold"])
    packs("--columns with a split, %r" % separator, halves, "flat/table.csv", "--columns", "path=id_code,label=diagnosis,split=fold", "--label-kind", "class", field="diagnosis", folder="out/train",
          says=["splits from fold; not used: column size, in pixels"])
    shutil.copy("flat/table.csv", "labels.csv")
    packs("--columns of --labels, %r" % separator, wanted_flat, "flat", "--exclude", "*.csv", "--labels", "labels.csv", "--columns", "path=id_code,label=diagnosis", "--label-kind", "class",
          says=["names from column id_code, classes from column diagnosis; not used: column size, in pixels, fold"])
packs("two labels", wanted_flat, "flat/table.csv", "--columns", "path=id_code,label=diagnosis,label=fold", "--label-kind", "class", field="diagnosis", fields=["diagnosis", "fold"])
write("flat/table.csv", [["x", b, a, i] for i, (a, b) in enumerate(rows)], ";")
packs("by number, where there is no header", wanted_flat, "flat/table.csv", "--columns", "label=2,path=3", "--label-kind", "class", fields=["label"],
      says=["flat/table.csv: paths from column 3; labels from 2; not used: column 1, 4"])
shutil.move("flat/table.csv", "labels.csv")
packs("by number of --labels", wanted_flat, "flat", "--labels", "labels.csv", "--columns", "label=2,path=3", "--label-kind", "class",
      says=["names from column 3, classes from column 2; not used: column 1, 4"])
write("flat/table.csv", [["image", "label", "better"]] + [[a, "wrong", b] for a, b in rows])
packs("--columns label= beside a title that is known", wanted_flat, "flat/table.csv", "--columns", "label=better", "--label-kind", "class", field="better", fields=["better"],
      says=["paths from column image; labels from better; not used: column label"])
for columns, said in (("path=picture,label=better", "flat/table.csv has no column 'picture'; its first line is: image, label, better; wanted a title, or a number from 1 to 3"),
                      ("path=4", "has no column '4'"), ("path=0", "has no column '0'"), ("path=image,label=image", "one column has two roles"), ("image", "'image' is neither path=, label= nor split="),
                      ("path=", "'path=' is neither"), ("colour=better", "'colour=better' is neither"), ("label=better,label=better", "one column has two roles")):
    refuses("--columns " + columns, 2, ["--columns", said], "flat/table.csv", "--columns", columns)
picture = [["picture", "breed"]] + rows
write("flat/titles.csv", picture)
for skip in ((), ("--on-error", "skip", "--max-skip", "100%")):
    refuses("a line of titles is not an image, %s" % " ".join(skip), 65, ["flat/titles.csv: line 1: picture is missing, and the line may hold titles; wanted --columns path=picture,label=NAME"],
            "flat/titles.csv", "--columns", "path=1,label=2", "--label-kind", "class", *skip)
packs("by its titles", wanted_flat, "flat/titles.csv", "--columns", "path=picture,label=breed", "--label-kind", "class", field="breed")
write("flat/titles.csv", [["gone.ppm", "breed"]] + rows)
packs("a missing first image is left out", wanted_flat, "flat/titles.csv", "--label-kind", "class", "--on-error", "skip", "--max-skip", "100%", "--format", "list")
os.remove("flat/titles.csv")
os.remove("out.skipped.tsv")
refuses("--columns and --label", 2, ["--label and label= of --columns exclude each other"], "flat/table.csv", "--columns", "label=better", "--label", "label")
write("labels.csv", [["picture", "kind", "sort"]] + [row + ["x"] for row in rows])
refuses("--columns without the path", 2, ["no column of flat/table.csv is called path", "wanted path=NAME, too"], *(write("flat/table.csv", [["picture", "kind"]] + rows) or ["flat/table.csv"]), "--columns", "label=kind")
os.remove("flat/table.csv")
refuses("split= of --labels", 2, ["--columns: split= is for a list as SOURCE"], "flat", "--labels", "labels.csv", "--columns", "path=picture,split=kind")
refuses("two labels of --labels", 2, ["wanted one label="], "flat", "--labels", "labels.csv", "--columns", "path=1,label=2,label=3")
refuses("--columns of a folder", 2, ["--columns: is for a list as SOURCE, or for a list of --labels FILE"], "set", "--columns", "path=a")

write("flat/table.csv", [["path", "label", "caption"]] + [[a, b, "" if i == 3 else "text"] for i, (a, b) in enumerate(rows)])
refuses("a column that has no labels", 65, ["flat/table.csv: column caption: line 5 is empty", "--columns label=NAME takes only the columns that it names"], "flat/table.csv", "--label-kind", "class")
packs("is left out by --columns", wanted_flat, "flat/table.csv", "--label-kind", "class", "--columns", "label=label", says=["not used: column caption"])
os.remove("flat/table.csv")

# ---- names of images in a folder
write("flat.csv", [["class", "image_id"]] + [[b, a[:-4] if a.endswith(".ppm") else a] for a, b in rows])
refuses("class,image_id as SOURCE", 65, ["flat.csv: line 2: plain is missing", "for names in a folder of images wanted ffpack FOLDER --labels flat.csv"], "flat.csv", "--label-kind", "class")
packs("and for --labels", wanted_flat, "flat", "--labels", "flat.csv", "--label-kind", "class", says=["names from column image_id, classes from column class\n"])

# ---- what is not a header
write("flat/table.csv", [["plain.ppm", "image"], ["z.ppm", "label"], ["y.ppm", "path"]])
packs("words of titles as classes", {"plain.ppm": "image", "z.ppm": "label", "y.ppm": "path"}, "flat/table.csv")
open("flat/table.csv", "w").write('"first.ppm"\tcat\n"z.ppm\tdog\n')
shutil.copy("flat/z.ppm", 'flat/"z.ppm')
packs("a quote that does not end, between tabs, is a part of the name", {'"first.ppm"': "cat", '"z.ppm': "dog"}, "flat/table.csv")

# ---- unknown kinds
open("x.npz2", "wb").write(b"\1\2\3\4")
refuses("the nearest kinds", 65, ["x.npz2: starts with bytes 01 02 03 04, which is not a source that ffpack knows; the nearest are arrays of NumPy", "; ffpack --help lists all"], "x.npz2")
open("x.feather", "wb").write(b"ARROW1")
shown = ffpack("x.feather", "-o", "out").stderr.decode()
tap.ok(shown.count(";") == 4 and len(shown) < 400, "are three, in a sentence that can be read", shown)
tap.finish()
