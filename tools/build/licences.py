"""The licences of the libraries in a wheel, by the table licences.txt. No wheel is made unless every licence is permissive."""
import os

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "licences.txt")
# Debian's files refer to these texts for files that a wheel does not hold (an xz program, a build
# script).
NOT_CARRIED = ("GPL", "GPL-1", "GPL-2", "LGPL", "LGPL-2", "LGPL-2.1", "LGPL-3", "GFDL", "GFDL-1.2", "GFDL-1.3", "Artistic")
OURS = ("libff_", "libffload.", "libjbig.")  # not from a package; libjbig: no_jbig.c
HEAD = """The libraries in this wheel: file, licence (SPDX), package and version. The text of each licence lies next to
this file under the library's name, as the package has it: it is about the whole source package, also of programs and
files for building, which are not here. Debian has the sources under package and version. libgomp may be combined with
programs of any licence, by GCC's exception for runtime libraries. libjbig.so.0 is ffpack's own: it replaces a library
under the GPL, and decodes nothing.

"""


def read_table():
    """The set of permissive licences, and the licence of each library."""
    permissive, of = set(), {}
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if line.startswith("PERMISSIVE GPL"):
                permissive.add(" ".join(words[1:]))
            elif line.startswith("PERMISSIVE"):
                permissive.update(words[1:])
            elif words and not line.startswith("#"):
                of[words[0]] = " ".join(words[1:])
    return permissive, of


def check(library, table):
    """The licence of a library, which is named by its file, such as libz.so.1; ends the program if the licence is not
    permissive."""
    permissive, of = table
    licence = of.get(library.split(".so")[0])
    if licence is None:
        raise SystemExit("wheel: %s: its licence is not known; read it, and add a line to tools/build/licences.txt" % library)
    if not set(licence.split(" AND ")) <= permissive:
        raise SystemExit("wheel: %s is under %s, and a wheel holds libraries with permissive licences only%s" % (
            library, licence, "; it comes with the system's libarchive: make the wheel on Debian with its source packages"
            if library.startswith(("libacl.", "libnettle.")) else ""))
    return licence


def gather(libraries, texts):
    """The licence expression of a wheel. `libraries`: the folder of the libraries; `texts`: the folder of the licences, whose file
    "libraries" (lines of file, package, version) becomes LIBRARIES.txt."""
    table = read_table()
    with open(os.path.join(texts, "libraries"), encoding="utf-8") as file:
        package = {line.split()[0]: " ".join(line.split()[1:]) for line in file}
    names = [name for name in sorted(os.listdir(libraries)) if name in package or not name.startswith(OURS)]
    found = {name: check(name, table) for name in names}
    with open(os.path.join(texts, "LIBRARIES.txt"), "w", encoding="utf-8") as file:
        file.write(HEAD + "".join("%s: %s; %s\n" % (name, found[name], package.get(name, "?")) for name in found))
    os.remove(os.path.join(texts, "libraries"))
    for name in NOT_CARRIED:
        if os.path.exists(os.path.join(texts, name)):
            os.remove(os.path.join(texts, name))
    return " AND ".join(sorted({"Apache-2.0"}.union(*(one.split(" AND ") for one in found.values()))))
