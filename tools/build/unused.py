#!/usr/bin/env python3
"""Lists the functions declared in headers of format, loader, train and tools that no program uses, and those that two headers
declare: a program that links both would have one of them, or none. Exits 1 if there is one. A use
is the name in a function's body, in an initializer or in a macro of a file that ships. Comments, declarations, a function's own
body, and bodies of unused functions do not count."""
import os
import re
import sys

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*'
                   r'|[A-Za-z_]\w*|[{}();=]', re.S | re.M)
# What may be unused, and why.
ALLOWED = {
    "ff_augment_plain": "the plain loops that the fast ones and the kernels are tested against",
    "ff_resample_plain": "the plain loops that the fast ones and the kernels are tested against",
    "ff_resampler_use": "tests run the kernels of every instruction set",
    "ff_compute_implementation": "tests run every implementation of the build",
}

# The functions of these headers are for other people's programs.
LIBRARY = "loader/library/include/"

KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "defined", "__attribute__", "FF_PRINTF"}


def files():
    for top in ("format", "loader", "train", "tools"):
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, name) for name in names if name.endswith((".c", ".h", ".inc", ".cu", ".cuh")))


def read(path, declared, uses):
    """Adds the functions that a header declares, name -> {header: where}, and uses of names, name -> {the users}."""
    text = re.sub(r'extern "C" \{|\}  *// extern', "", open(path, encoding="utf-8").read())
    depth, round_, user, typedef, last = 0, 0, None, False, ""
    for match in TOKEN.finditer(text):
        token = match.group()
        if token.lstrip().startswith("#"):
            for name in re.findall(r"\w+", token):
                uses.setdefault(name, set()).add(None)
        elif token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
        elif token in "()":
            round_ += 1 if token == "(" else -1
            if token == "(" and depth == 0 and round_ == 1 and last and last not in KEYWORDS and not typedef:
                user = last
                if path.startswith(LIBRARY):
                    uses.setdefault(user, set()).add(None)
                elif path.endswith(".h"):
                    declared.setdefault(user, {}).setdefault(path, f"{path}:{text.count(chr(10), 0, match.start()) + 1}")
        elif token in ";=":
            if depth == 0:
                user, typedef = None, False
        elif token[0].isalpha() or token[0] == "_":
            if token == "typedef":
                typedef = True
            if depth and token != user:
                uses.setdefault(token, set()).add(user)
        last = token if token[0].isalpha() or token[0] == "_" else ""


def main():
    declared, uses = {}, {}
    for path in files():
        read(path, declared, uses)
    found, before = set(), None
    while found != before:
        before = found
        found = {name for name in declared if not uses.get(name, set()) - (before - set(ALLOWED))}
    where = {name: " and ".join(places.values()) for name, places in declared.items()}
    for name in sorted(found - set(ALLOWED), key=where.get):
        print(f"{where[name]}: no program uses {name}")
    twice = sorted(name for name, places in declared.items() if len(places) > 1)
    for name in twice:
        print(f"{where[name]}: {name} is declared twice")
    for name in sorted(set(ALLOWED) - found):
        print(f"tools/build/unused.py: {name} needs no exception")
    return found != set(ALLOWED) or bool(twice)


sys.exit(main())
