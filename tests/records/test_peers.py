#!/usr/bin/python3
"""Sets as other loaders write them, packed by ffpack and compared, value for value and label for label, with what the loaders read: the
small ones below peers/, and (TEST_LENGTH=long) fresh ones, written by the loaders from PyPI. peers.py wrote both. Prints TAP."""
# Needs: ffpack
import lzma
import os
import random
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import packing  # noqa: E402
from packing import Image, pack, tap  # noqa: E402

place = tempfile.mkdtemp()


def truth(path):
    """[(key, label, image of Pillow)]"""
    with open(path) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [(key, label, Image.frombytes(mode, tuple(map(int, size.split("x"))), bytes.fromhex(pixels))) for key, label, mode, size, pixels in rows]


def check(name, source, rows):
    out = os.path.join(place, "out")
    labels = [label for _, label, _ in rows]
    named = not labels[0].lstrip("-").isdigit()
    if not pack(name, out, source):
        return
    found = packing.Packed(out)
    kind, dtype, width, classes = found.fields["label"]
    got = [classes[i] if named else str(i) for i in found.labels["label"]]
    wrong = []
    if found.keys != [key for key, _, _ in rows]:
        wrong.append("keys %s, wanted %s" % (found.keys, [key for key, _, _ in rows]))
    if kind != "class" or got != labels:
        wrong.append("labels %s of %s, wanted %s" % (got, classes, labels))
    for i, (key, _, picture) in enumerate(rows):
        if not wrong and found.tensors[i] != packing.STEPS(picture).numpy().tobytes():
            wrong.append("sample %d (%s) differs from the loader's" % (i, key))
    tap.ok(not wrong, name, "\n".join(wrong))
    shutil.rmtree(out)


def check_all(what, folder):
    names = sorted(name[:-6] for name in os.listdir(folder) if name.endswith(".truth"))
    for name in names:
        source = [path for path in (os.path.join(folder, name + ending) for ending in ("", ".beton", ".beton.xz", ".tfrecord", ".parquet")) if os.path.exists(path)][0]
        if source.endswith(".xz"):  # mostly empty pages of 2 MiB
            with lzma.open(source) as packed, open(os.path.join(place, name + ".beton"), "wb") as file:
                file.write(packed.read())
            source = os.path.join(place, name + ".beton")
        check("%s: %s" % (what, name), source, truth(os.path.join(folder, name + ".truth")))
    return len(names)


if tap.SHORT:
    tap.ok(check_all("kept", os.path.join(HERE, "peers")) == 18, "there are kept sets of each loader")
if tap.LONG:
    PEERS = {  # what tests/records/peers.py imports, with what it needs and the system does not have
        "tfrecord": (["tfrecord==1.14.6", "crc32c", "protobuf==4.25.8"], False),
        "litdata": (["litdata==0.2.17", "zstd", "lightning-utilities", "boto3", "botocore", "s3transfer", "jmespath", "filelock", "requests", "fsspec", "packaging",
                     "typing_extensions", "urllib3", "idna", "charset_normalizer", "certifi", "python-dateutil", "six"], False),
        "parquet": (["pyarrow==17.0.0"], False),
        "streaming": (["mosaicml-streaming==0.13.0", "numpy<2"], True),
        "ffcv": (["ffcv==1.0.2", "numba<0.60", "llvmlite<0.43", "numpy<2", "opencv-python-headless<4.12", "assertpy", "fastargs", "imgcat", "pandas", "psutil",
                  "terminaltables", "tqdm", "pytz", "tzdata", "python-dateutil", "six"], False),
    }
    seed = os.environ.get("FF_SEED") or str(random.randrange(1 << 30))
    for peer, (packages, dependencies) in PEERS.items():
        python = None if tap.SANITIZE else tap.environment("peer-" + peer, *packages, dependencies=dependencies)
        if not python:
            tap.skip("fresh sets of " + peer, "PyPI cannot be reached, or its package cannot be built")
            continue
        folder = os.path.join(place, peer)
        done = tap.run([python, os.path.join(HERE, "peers.py"), peer, folder, seed])
        if tap.ok(done.returncode == 0, "%s writes sets (seed %s)" % (peer, seed), done.stderr.decode()[-2000:]):
            check_all("fresh", folder)
shutil.rmtree(place)
tap.finish()
