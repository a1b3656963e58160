#!/usr/bin/python3
"""ffinspect's contact sheets: which samples they show, known by their colours, and names in scripts
of many kinds with Pango and without. Prints TAP."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

try:
    import numpy
    from PIL import Image
except ImportError as missing:
    tap.skip("contact sheets", "Python lacks a module: %s" % missing)
    tap.finish()

os.chdir(tempfile.mkdtemp())
SIDE, CELL, MARGIN, GAP = 128, 128, 24, 14  # of images of 64 x 64


def color(split, class_, item):
    """A different colour for each sample, far from those of paper and ink."""
    return 255 - 50 * split, class_ * 5 % 256, item * 4 % 256


def pack(name, splits):
    """splits: {split: [(class name, images)]}"""
    for s, (split, classes) in enumerate(splits.items()):
        for c, (class_, count) in enumerate(classes):
            folder = os.path.join(name + "-source", split, class_)
            os.makedirs(folder)
            for i in range(count):
                Image.new("RGB", (64, 64), color(s, c, i)).save(os.path.join(folder, "%03d.png" % i))
    run = tap.run([os.path.join(tap.BUILD, "ffpack"), name + "-source", "-o", name, "--dtype", "u8", "--mean", "0.5,0.5,0.5",
                   "--std", "0.2,0.2,0.2"])
    assert run.returncode == 0, run.stderr


def draw(*arguments, **environment):
    """The sheet as an array, and the output."""
    run = subprocess.run([os.path.join(tap.BUILD, "ffinspect"), *arguments, "--png", "sheet.png"],
                         capture_output=True, text=True, env={**os.environ, **environment})
    assert run.returncode == 0 and not run.stderr, run.stderr
    return numpy.asarray(Image.open("sheet.png").convert("RGB")), run.stdout


def pictures(sheet):
    """The colours of the cells from left to right, row by row, and where each is: [(colour, y, x)]."""
    found = []
    y = 0
    while y + SIDE <= sheet.shape[0]:
        if (sheet[y:y + SIDE, MARGIN:MARGIN + SIDE] == sheet[y, MARGIN]).all() and tuple(sheet[y, MARGIN]) != (246, 246, 243):
            for x in range(MARGIN, sheet.shape[1] - MARGIN, CELL + GAP):
                if tuple(sheet[y, x]) != (246, 246, 243):
                    found.append((tuple(int(v) for v in sheet[y, x]), y, x))
            y += SIDE
        y += 1
    return found


def shown(*arguments, **environment):
    return [cell[0] for cell in pictures(draw(*arguments, **environment)[0])]


def middles(share, count):
    return [(2 * i + 1) * count // (2 * share) for i in range(share)]


# ---- which samples
counts = {"a": 50, "b": 5, "c": 2}
pack("uneven", {"train": list(counts.items())})
wanted = [color(0, c, i) for c, (share, count) in enumerate([(5, 50), (5, 5), (2, 2)]) for i in middles(share, count)]
found = shown("uneven/train", "--grid", "2x6")
tap.ok(found == wanted, "every class as often as the others, spread over its samples", (found, wanted))
found = shown("uneven/train", "--grid", "1x3")
tap.ok(found == [color(0, 0, 25), color(0, 1, 2), color(0, 2, 1)], "one of each class", found)
tap.ok(sorted(shown("uneven/train", "--grid", "9x9")) == sorted(
    color(0, c, i) for c, count in enumerate(counts.values()) for i in range(count)), "all samples, once each")
pack("many", {"train": [("class-%02d" % c, 3) for c in range(40)], "test": [("class-%02d" % c, 2) for c in range(40)],
              "val": [("class-%02d" % c, 1) for c in range(40)]})
found = shown("many/train", "--grid", "2x4")
tap.ok(found == [color(0, c, 1) for c in range(0, 40, 5)], "more classes than places: a spread of them", found)
found = shown("many", "--grid", "4x4")
tap.ok(found == [color(0, c, 1) for c in range(0, 40, 5)] + [color(2, c, 0) for c in range(0, 40, 10)] +
       [color(1, c, 1) for c in range(0, 40, 10)], "rows are shared by all splits", found)
found = shown("many", "--grid", "1x2")
tap.ok(found == [color(0, 0, 1), color(0, 20, 1), color(2, 0, 0), color(2, 20, 0), color(1, 0, 1), color(1, 20, 1)],
       "... one each at least", found)
found = shown("many", "--grid", "3x4", "--seed", "1")
tap.ok(len(set(found)) == 12 and [c[0] for c in found] == [255] * 4 + [155] * 4 + [205] * 4 and
       len({c[1] for c in found}) > 4, "--seed: at random, of all splits", found)

# ---- names
NAMES = {"Latin": "Łódź Übergröße", "accents": "été", "none": "ete", "Greek": "Αθήνα", "Cyrillic": "Жаба зелёная",
         "CJK": "猫", "another CJK": "犬", "Arabic": "قطة صغيرة", "Devanagari": "बिल्ली",
         "long": "a name much too long for its place, which is known by its end alone: one",
         "long too": "a name much too long for its place, which is known by its end alone: two"}
pack("names", {"train": [(name, 1) for name in NAMES.values()]})
order = sorted(NAMES, key=lambda kind: NAMES[kind].encode())


def captions(sheet):
    """{kind: the pixels below its image}"""
    cells = pictures(sheet)
    assert len(cells) == len(order)
    return {kind: sheet[y + SIDE + 2:y + SIDE + 34, x - 4:x + CELL + 4]
            for kind, (_, y, x) in zip(order, cells)}


def same(some, others):
    return some.shape == others.shape and (some == others).all()


def alike(pieces):
    return [(a, b) for a in order for b in order if a < b and same(pieces[a], pieces[b])]


def empty(pieces):
    return [kind for kind in order if (pieces[kind].max(axis=2) < 180).sum() < 10]


plain, said = draw("names", "--grid", "1x20", FFPACK_PANGO="0")
by_font = captions(plain)
tap.ok(not alike(by_font) and not empty(by_font), "without Pango no two names look the same", (alike(by_font), empty(by_font)))
tap.ok("names marked ~ are transliterated: to draw any script takes libpangocairo-1.0.so.0 and a font" in said,
       "... and what is missing is reported", said)
pack("latin", {"train": [("plain", 1)]})
tap.ok("~" not in draw("latin", FFPACK_PANGO="0")[1], "... but not of plain names")
with open("fonts.conf", "w") as file:
    file.write('<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">'
               "<fontconfig><cachedir>cache</cachedir></fontconfig>")
tap.ok(same(draw("names", "--grid", "1x20", FONTCONFIG_FILE=os.path.abspath("fonts.conf"))[0], plain),
       "Pango without a font: as without Pango")

sheet, said = draw("names", "--grid", "1x20")
drawn = captions(sheet)
lacking = "no font here has their letters" in said
if "to draw any script" in said:
    for kind in order:
        tap.skip("Pango: " + kind, "libpangocairo-1.0.so.0 or any font is missing here")
else:
    tap.ok(not alike(drawn) and not empty(drawn), "Pango: no two names look the same", (alike(drawn), empty(drawn)))
    for kind in order:
        # The drawing differs from that of code points or boxes.
        os.makedirs("one", exist_ok=True)
        pack("one/" + kind, {"train": [(NAMES[kind], 1)]})
        text = draw("one/" + kind)[1]
        if "no font here" in text:
            tap.skip("Pango draws a name: " + kind, "no font here has its letters (fonts-unifont has)")
        else:
            tap.ok("~" not in text and not same(drawn[kind], by_font[kind]), "Pango draws a name: " + kind, text)
    tap.ok(lacking or "~" not in said, "Pango: what lacks letters is said", said)

# A heading of a sheet of one column takes more lines, and no word is lost: the small font's unit test counts
# its dots. Here: it is as high as it must be, and ends above the first image.
wide, narrow = (pictures(draw("names", "--grid", grid)[0])[0][1] for grid in ("1x20", "11x1"))
tap.ok(narrow > wide, "a heading that is wider than its sheet is wrapped", (wide, narrow))
tap.finish()
