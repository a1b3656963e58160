#!/usr/bin/python3
"""Batches of raw u16 samples: scaled by the recorded range and normalized, as numpy does it in ten lines; the same images
packed as f32 give the same batches. Prints TAP."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import package  # noqa: E402, F401
import ffload  # noqa: E402
import numpy  # noqa: E402

work = tempfile.TemporaryDirectory()
os.chdir(work.name)
random = numpy.random.RandomState(1)
RAW = random.randint(0, 65536, (12, 16, 17, 3)).astype("u2")
RAW[0, 0, 0] = 0
RAW[0, 0, 1] = 65535
numpy.save("x.npy", RAW)
MEAN, STD = numpy.float32([0.4, 0.5, 0.6]), numpy.float32([0.2, 0.25, 0.3])


def pack(name, *options):
    subprocess.run([os.path.join(tap.BUILD, "ffpack"), "x.npy", "-o", name, *options], check=True, capture_output=True)
    return name


def batch(path, **options):
    loader = ffload.Loader(path, 12, order="sequential", last_batch="keep", **options)
    images = next(iter(loader))[0]
    return numpy.asarray(images.float().numpy() if hasattr(images, "float") else images, "f4")


def expected(low, high, mean, std):
    x = ((RAW.astype("f8") - low) / (high - low)).astype("f4")
    return ((x - mean) / std).transpose(0, 3, 1, 2)


NORMALIZE = ["--mean", "0.4,0.5,0.6", "--std", "0.2,0.25,0.3"]
for low, high in ((0, 65535), (100, 4095), (0.5, 1000.25)):
    for layout in ("chw", "hwc"):
        name = "w-%s-%s" % (high, layout)
        options = ["--range", "%s,%s" % (low, high), "--layout", layout, *NORMALIZE]
        words = pack(name, "--dtype", "u16", *options)
        floats = pack(name + "-f32", "--dtype", "f32", *options)
        wanted = expected(low, high, MEAN, STD)
        found = batch(words)
        tap.ok(numpy.array_equal(found, wanted), "range %s,%s, %s: numpy's values" % (low, high, layout), (found.min(), found.max(), wanted.min(), wanted.max()))
        for dtype in ("f16", "bf16"):
            found = batch(words, dtype=dtype)
            tap.ok(numpy.isfinite(found).all() and numpy.array_equal(found, batch(floats, dtype=dtype)), "  in %s as from f32" % dtype, found.max())
        same = [("crop=4", 0), ("flip", 0), ("crop=4:reflect", 0), ("cutout=4", 0), ("mixup", 1e-6), ("rrc=9", 1e-4), ("resize=20,crop", 1e-4)]
        for augment, least in same:
            try:
                ours, theirs = batch(words, augment=augment, seed=3), batch(floats, augment=augment, seed=3)
            except Exception as error:
                tap.ok(False, "  augment " + augment, error)
                continue
            tap.ok(numpy.abs(ours - theirs).max() <= least * numpy.abs(theirs).max(), "  augment %s as from f32" % augment, numpy.abs(ours - theirs).max())
plain = pack("plain", "--dtype", "u16", "--range", "0,65535", "--stats", "compute")
found = batch(plain)
x = (RAW / 65535.0).reshape(-1, 3)
wanted = expected(0, 65535, x.mean(0).astype("f4"), x.std(0).astype("f4"))
tap.ok(numpy.abs(found - wanted).max() < 1e-4, "with computed statistics", numpy.abs(found - wanted).max())
stored = ffload.Loader(plain, 12, order="sequential", last_batch="keep", dtype="u16")
images = numpy.asarray(next(iter(stored))[0])
tap.ok(numpy.array_equal(images, RAW.transpose(0, 3, 1, 2)), "dtype u16: as stored", images.dtype)
tap.finish()
