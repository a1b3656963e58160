#!/usr/bin/env python3
"""The rule of rooms and floors (tools/build/rooms.py), on a small house of its own: one fault at a time is found, named
with its place, and nothing else is."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap

TABLE = """# floor, folder, first page
0 format/base status.h
1 format/reader reader.h
2 loader/device device.h
2 loader/draw draw.h
7 train/net model.h
8 train/step step.h
9 train - main.c alone
9 tools/ffpack run.h
"""


def page(room, floor, may):
    return f"/* Room {room}, floor {floor}: a room.\n *\n * May include\n * {may}. More. */\n"


HOUSE = {
    "format/base/status.h": page("format/base", 0, "nothing"),
    "format/reader/reader.h": page("format/reader", 1, "format/base") + '#include "format/base/status.h"\n',
    "loader/device/device.h": page("loader/device", 2, "format") + '#include "format/base/status.h"\n',
    "loader/draw/draw.h": page("loader/draw", 2, "format"),
    "train/net/model.h": page("train/net", 7, "format,\n * loader/device"),
    "train/net/ops/deep/x.c": '#include "train/net/model.h"\n',
    "train/net/ops/ops.c": '#include "train/net/model.h"\n#include "loader/device/device.h"\n',
    "train/step/step.h": page("train/step", 8, "format, train/net") + '#include "train/net/model.h"\n',
    "train/main.c": '#include "train/step/step.h"\n#include "train/net/model.h"\n#include <stdio.h>\n',
    "tools/ffpack/run.h": page("tools/ffpack", 9, "format") + '#include "format/reader/reader.h"\n',
}


def findings(changes=(), table=TABLE):
    """What is printed for the house with other or more files."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**HOUSE, **dict(changes), "tools/build/rooms.txt": table}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        script = os.path.join(tap.ROOT, "tools", "build", "rooms.py")
        done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
        lines = done.stdout.splitlines() + done.stderr.splitlines()
        assert done.returncode == (1 if lines else 0), done
        return lines


def expect(name, changes, *words, table=TABLE):
    """One line, which has all of the words."""
    lines = findings(changes, table)
    tap.ok(len(lines) == 1 and all(word in lines[0] for word in words), name, lines)


tap.ok(findings() == [], "a house in order has no findings", findings())
expect("a room above", {"train/net/ops/ops.c": HOUSE["train/net/ops/ops.c"] + '\n# include "train/step/step.h"\n'},
       "train/net/ops/ops.c:4: ", "train/net, floor 7", "train/step, floor 8")
expect("another room on the same floor", {"loader/device/x.c": '#include "loader/draw/draw.h"\n'},
       "loader/device/x.c:1: ", "floor 2")
expect("a room below that the first page does not list", {"train/step/x.cu": '#include "loader/draw/draw.h"\n'},
       "train/step/x.cu:1: ", "step.h", "does not list loader/draw")
expect("a program's room from another program", {"tools/ffpack/x.c": '#include "train/net/model.h"\n'},
       "tools/ffpack/x.c:1: ", "model.h\" of train")
expect("a file that is not there", {"format/reader/x.c": '#include "reader.h"\n'}, "format/reader/x.c:1: ", "not a path from the top")
expect("a file next to the rooms", {"loader/x.c": "int x;\n"}, "loader/x.c: in no room")
expect("a first page that names another floor",
       {"format/reader/reader.h": HOUSE["format/reader/reader.h"].replace("floor 1", "floor 2")}, "format/reader/reader.h: ", '"Room format/reader, floor 1')
expect("a first page that lists a room above", {"loader/draw/draw.h": page("loader/draw", 2, "train/net")},
       "loader/draw/draw.h: ", "train/net", "no lower floor")
expect("a first page that lists what is not included", {"train/step/step.h": HOUSE["train/step/step.h"].replace(
    "format, ", "loader/draw, ")}, "train/step/step.h: ", "loader/draw, which nothing here includes")
crowd = {f"train/net/ops/m{i}.{'cu' if i % 2 else 'c'}": "" for i in range(20)}
expect("21 modules in one folder", crowd, "train/net/ops: 21 modules")
del crowd["train/net/ops/m0.c"]
tap.ok(findings(crowd) == [], "20 modules are not too many")
flat = TABLE.replace("model.h", "model.h flat: a reason")
tap.ok(findings({f"train/net/m{i}.c": "" for i in range(30)}, flat) == [], "a room that is flat for a reason may have more")
missing = TABLE + "9 train/run run.h\n"
expect("a first page that is not there", {}, "train/run/run.h", table=missing)
tap.finish()
