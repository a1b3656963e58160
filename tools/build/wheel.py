#!/usr/bin/env python3
"""Makes a wheel of a folder that holds the package and everything else as installed: adds METADATA, WHEEL, RECORD and
entry_points.txt, and zips it. The same files give the same bytes.

Usage: wheel.py FOLDER TO VERSION README; prints the file's path. PROJECT_URL, if set, is the project's page. The tag names the
glibc that the binaries need, at least 2.34, which the package promises, and the architecture: CROSS's, or this machine's."""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile

import licences

NAME, PYTHON, PROMISED = "ffload", "3.9", (2, 34)
CROSS = os.environ.get("CROSS", "")
PROGRAMS = ("ffpack", "ffinspect", "fftrain")
TEXTS = {
    "METADATA": """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Packed image datasets in your own training loop, on the CPU or wholly on the GPU
Author: The maintainers of ffpack
{url}License-Expression: {licence}
{texts}Requires-Python: >={python}
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}""",
    "WHEEL": """Wheel-Version: 1.0
Generator: ffpack {version}
Root-Is-Purelib: false
Tag: {tag}
""",
    "entry_points.txt": "[console_scripts]\n" + "".join("%s = ffload.programs:%s\n" % (one, one) for one in PROGRAMS),
    "top_level.txt": "{name}\n",
}


def files_below(folder):
    found = []
    for at, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(at, name), folder) for name in names]
    return sorted(found)


def is_binary(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed_glibc(paths):
    """The newest version of glibc among the symbols of the binaries."""
    objdump = (CROSS + "-" if CROSS else "") + "objdump"
    said = subprocess.run([objdump, "-T", *paths], check=True, stdout=subprocess.PIPE, text=True).stdout
    return max(tuple(map(int, one.split("."))) for one in re.findall(r"\bGLIBC_([0-9.]*[0-9])", said))


def main():
    folder, to, version, readme = sys.argv[1:]
    info = "%s-%s.dist-info" % (NAME, version)
    licence = licences.gather(os.path.join(folder, NAME, "lib"), os.path.join(folder, info, "licenses"))
    names = files_below(folder)
    glibc = max(PROMISED, needed_glibc([os.path.join(folder, name) for name in names if is_binary(os.path.join(folder, name))]))
    if glibc > PROMISED:
        print("wheel: made here it needs glibc %d.%d; %d.%d suffices where it is made on Debian 12, with Debian's source "
              "packages for libarchive" % (*glibc, *PROMISED), file=sys.stderr)
    tag = "cp%s-abi3-manylinux_%d_%d_%s" % (PYTHON.replace(".", ""), *glibc, CROSS.split("-")[0] or platform.machine())
    texts = [name[len(info + "/licenses/"):] for name in names if name.startswith(info + "/licenses/")]
    with open(readme, encoding="utf-8") as file:
        values = {"name": NAME, "version": version, "python": PYTHON, "tag": tag, "readme": file.read(), "licence": licence,
                  "url": "Project-URL: Homepage, %s\n" % os.environ["PROJECT_URL"] if os.environ.get("PROJECT_URL") else "",
                  "texts": "".join("License-File: %s\n" % name for name in texts)}
    made = {os.path.join(info, name): text.format(**values).encode() for name, text in TEXTS.items()}
    path = os.path.join(to, "%s-%s-%s.whl" % (NAME, version, tag))
    record = []
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            out.writestr(entry, data, compresslevel=9)

        for name in [*names, *made]:
            data = made.get(name)
            if data is None:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
            add(name, data, 0o755 if data[:4] == b"\x7fELF" else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d\n" % (name, digest, len(data)))
        record.append("%s/RECORD,,\n" % info)
        add(info + "/RECORD", "".join(record).encode(), 0o644)
    os.replace(path + ".part", path)
    print("wheel: %s, %.1f MB" % (path, os.path.getsize(path) / 1e6))


main()
