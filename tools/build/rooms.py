#!/usr/bin/env python3
"""Checks the house against its table of rooms (rooms.txt). Prints each fault and exits 1 if there is one: an include of a higher
room, of another room on the same floor, or of another house; a file outside any room; a folder with more modules than one sees at a
glance; a room without a first page."""
import collections
import os
import re
import sys

TABLE = "tools/build/rooms.txt"
SOURCES = (".c", ".h", ".cu", ".cuh", ".inc")
INCLUDE = re.compile(r'^ *# *include *"([^"]+)"', re.M)
MODULES = 20
# The houses on top of format and loader, side by side.
HOUSES = ("loader/library", "loader/python", "train", "tools/ffpack", "tools/ffinspect")


def rooms():
    """The table: folder -> (floor, first page, why it may have more modules, or None)."""
    table = {}
    for line in open(TABLE, encoding="utf-8"):
        fields = line.split(None, 3)
        if not fields or line.startswith("#"):
            continue
        floor, folder, page = fields[:3]
        note = fields[3].strip() if len(fields) > 3 else ""
        table[folder] = (int(floor), page, note if note.startswith("flat:") else None)
    return table


def below(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path, table):
    """The innermost room that holds the file; None if no room does."""
    folder = os.path.dirname(path)
    while folder and folder not in table:
        folder = os.path.dirname(folder)
    return folder or None


def house_of(path):
    return next((house for house in HOUSES if below(path, house)), None)


def pages(table):
    """The opening comment of each room's main header, in one line; "" if there is none."""
    opened = {}
    for folder, (_, page, _) in table.items():
        path = os.path.join(folder, page)
        text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        comment = re.match(r"/\*.*?\*/", text, re.S)
        opened[folder] = " ".join(comment[0].replace("\n *", " ").split()) if comment else ""
    return opened


def allowed(page):
    """The rooms that a first page lists; "format" stands for all rooms of that folder."""
    listed = re.search(r"May include ([^.]*)\.", page)
    return set(listed[1].split(", ")) if listed else set()


def include_fault(path, included, table, may):
    """Why `path` may not include `included`; None: it may."""
    here, there = room_of(path, table), room_of(included, table)
    if not os.path.exists(included):
        return f'"{included}" is not a path from the top'
    if not there:
        return f'"{included}" is in no room'
    if here == there:
        return None
    if house_of(included) not in (None, house_of(path)):
        return f'{house_of(path) or here} includes "{included}" of {house_of(included)}'
    if table[there][0] >= table[here][0]:
        return f'{here}, floor {table[here][0]}, includes "{included}" of {there}, floor {table[there][0]}'
    known = there in may[here] or "format" in may[here] and below(there, "format")
    if table[here][1] != "-" and not known:
        return f'{here} includes "{included}", and its first page, {table[here][1]}, does not list {there}'
    return None


def sources(tops):
    for top in tops:
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(SOURCES))


def source_faults(table, may, used):
    """Adds to `used` the rooms that each room includes."""
    for path in sources(sorted({folder.split("/")[0] for folder in table})):
        if not room_of(path, table):
            yield f"{path}: in no room of {TABLE}"
            continue
        text = open(path, encoding="utf-8").read()
        for match in INCLUDE.finditer(text):
            fault = include_fault(path, match[1], table, may)
            used[room_of(path, table)].add(room_of(match[1], table))
            if fault:
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {fault}"


def page_faults(table, opened, may, used):
    """Checks that a first page names its room, its floor and exactly the lower rooms that the room includes."""
    for folder, (floor, page, _) in table.items():
        path = os.path.join(folder, page)
        if page == "-":
            continue
        if f"Room {folder}, floor {floor}: " not in opened[folder]:
            yield f'{path}: its opening comment has no "Room {folder}, floor {floor}: ..."'
        for other in sorted(may[folder] - {"nothing", "format", folder}):
            if other not in table or table[other][0] >= floor:
                yield f"{path}: its opening comment lists {other}, which is on no lower floor"
            elif other not in used[folder] and not other.startswith("format"):
                yield f"{path}: its opening comment lists {other}, which nothing here includes"


def crowd_faults(table):
    """Modules are counted by the files that are compiled."""
    modules = collections.defaultdict(set)
    for path in sources(sorted({folder.split("/")[0] for folder in table})):
        if path.endswith((".c", ".cu")):
            modules[os.path.dirname(path)].add(os.path.basename(path))
    for folder, names in sorted(modules.items()):
        flat = table[folder][2] if folder in table else None
        if len(names) > MODULES and not flat:
            yield f"{folder}: {len(names)} modules; at most {MODULES} lie in one folder"


def main():
    table = rooms()
    opened = pages(table)
    may = {folder: allowed(page) for folder, page in opened.items()}
    used = collections.defaultdict(set)
    faults = [*source_faults(table, may, used), *page_faults(table, opened, may, used), *crowd_faults(table)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
