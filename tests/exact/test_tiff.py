"""TIFF against Pillow: equal pixels for every layout, in strips, tiles and planes, packed or not; cut and
damaged.

Prints TAP. Environment: BUILD."""
import os
import struct
import sys

from oracle import OLD, PYPI, VERSION, Image, agree, damage, flips, have, run, tap

import odd_tiff


FIVE_SAMPLES = "tiff (2, (1,), (8, 8, 8, 8, 8"  # or more
# Of colours or inks and two or more samples, or one more, that mean nothing.
MORE_SAMPLES = tuple("tiff (%d, (1,), (8, 8, 8, 8, 8%s), (0%s)" % (kind, ", 8" * more, ", 0" * (more + (kind == 2)) or ",")
                     for kind in (2, 5) for more in range(3))


def quietly(make):
    """What `make` returns, without libtiff's output on stderr inside Pillow."""
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        return make()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def only_we_refuse(name):
    """CIE Lab, and planes that Pillow's decoder of raw data takes for something else than they are."""
    odd_planes = "planes of compression 1" in name and ("(16, 16, 16" in name or "(8, 8, 8, 8), ())" in name)
    # Pillow 13 and its own libtiff.
    newer = PYPI and (name == "tiff of compression 8 with tag 339 of (3, [1, 1])" or (
        VERSION >= (13, 0) and " planes" in name and name.startswith(MORE_SAMPLES)))
    return "(8, (1,), (8, 8, 8), ())" in name or odd_planes or newer


def errs(name):
    """Pillow 9.4 refuses CMYK of 16 bits by a big-endian writer and signed bytes; 11 turns the bytes of signed 16
    bits of a big-endian writer once too often; until 12 it refuses grey with an unspecified sample, and from 10 to 12
    planes of RGB and unspecified samples; from 13 on those that are not packed."""
    if VERSION < (13, 0) and name.startswith("tiff (1, (1,), (8, 8), (0,)) "):
        return True
    if OLD:
        return name.startswith(("tiff (5, (1,), (16, 16, 16, 16), ()) >", "tiff (1, (2,), (8,), ())"))
    packed = name.endswith((" deflated", "compression 8", "compression 32773"))
    planes = " planes" in name and name.startswith("tiff (2, (1,), ") and ", (0" in name
    planes = planes and not (packed and ("tiles" in name or VERSION >= (13, 0)))
    if PYPI and VERSION >= (13, 0) and packed and "tiles of planes" in name and FIVE_SAMPLES in name:
        return ", (0" not in name  # its libtiff refuses
    return planes or (name.startswith("tiff (1, (2,), (16,), ()) >") and packed)


def known():
    """Files that one of the versions reads wrong, and short palettes."""
    signed = struct.pack(">5h", 0, 100, 255, 300, -5)
    ink = struct.pack(">8H", 0, 0x4000, 0xFF00, 0, 0xFFFF, 0, 0, 0x80FF)
    planes = (bytes([1, 2]), bytes([3, 4]), bytes([5, 6]), bytes([9, 9]))
    indexes = {320: (3, [0x1100, 0x2200, 0x3300, 0x4400, 0x5500, 0x6600])}
    grey = lambda *values: [(value,) * 3 for value in values]
    for compression in (1, 8, 32773):
        pack = ", compression %d" % compression
        of = lambda width, *layout, **options: odd_tiff.tiff(width, 1, *layout, compression=compression, **options)
        yield "signed 16 bits" + pack, of(5, 1, (2,), (16,), (), order=">", data=[signed]), grey(0, 100, 255, 255, 0)
        twice = of(2, 1, (1,), (8,), (), data=[b"\x01\x80"], more={263: (3, [0])})
        yield "two photometric tags" + pack, twice.replace(struct.pack("<HHL", 263, 3, 1), struct.pack("<HHL", 262, 3, 1)), grey(1, 128)
        yield "grey and something" + pack, of(2, 1, (1,), (8, 8), (0,), data=[b"\x07\x09\x80\x01"]), grey(7, 128)
        yield "signed bytes" + pack, of(4, 1, (2,), (8,), (), data=[b"\x00\x7f\x80\xff"]), grey(0, 127, 128, 255)
        yield "inks of 16 bits" + pack, of(2, 5, (1,), (16,) * 4, (), order=">", data=[ink]), [(255, 191, 0), (0, 127, 127)]
        yield "planes" + pack, of(2, 2, (1,), (8,) * 4, (0,), planar=2, data=planes), [(1, 3, 5), (2, 4, 6)]
        yield "a short palette" + pack, of(4, 3, (1,), (8,), (), more=indexes, data=[b"\x00\x01\x02\xff"]), [
            (0x11, 0x33, 0x55), (0x22, 0x44, 0x66), (0, 0, 0), (0, 0, 0)]


def compare_all():
    have("tiff", list(known()))
    agree("tiff layouts", list(odd_tiff.layouts(((13, 1), (31, 17)))), refused=None, allowed=only_we_refuse, errs=errs)
    agree("tiff blocks", list(odd_tiff.blocks()), refused=None, allowed=only_we_refuse, errs=errs)
    rare = list(odd_tiff.rare())
    agree("tiff, rare", rare, refused=None if PYPI else 62, allowed=only_we_refuse)
    # PyPI's Pillow 11 and 12 crash after a file that they refuse to write.
    crashes = PYPI and VERSION < (13, 0)
    packed = [] if crashes else list(odd_tiff.packed_by_libtiff(Image, has_webp=not PYPI))
    agree("tiff packed by libtiff", packed)
    files = [odd_tiff.tiff(9, 8, 2, (1,), (8,) * 3, (), compression=c, rows=3) for c in (1, 8, 32773)]
    files += [odd_tiff.tiff(9, 8, 3, (1,), (4,), (), order=">"), odd_tiff.tiff(20, 17, 1, (1,), (16,), (), tile=(16, 16))]
    files += [data for name, data in packed if name in ("tiff RGB jpeg 13x1", "tiff L tiff_lzw 31x17", "tiff 1 group4 31x17")]
    damaged(files)


def damaged(files):
    for truncated in (False, True):
        for i, data in enumerate(files):
            name = "tiff %d, allowed %d" % (i, truncated)
            cut = [data[:n] for n in range(0, len(data), 1 if len(data) < 900 else 7)]
            # libtiff's results for a truncated directory, and for much damaged data, are undefined: where it
            # fills a strip in part, Pillow shows uninitialized memory.
            damage(name + ", cut off", cut, truncated=truncated, allowed=lambda sentence: "TIFF" in sentence, most=0 if OLD else 8)
            damage(name + ", with flipped bits", list(flips(data, 2, 100, i)), truncated=truncated,
                   allowed=lambda sentence: "TIFF" in sentence, most=(4 * (i == 0) + (i == 3 and truncated)) if OLD else 15, undefined=2 if PYPI or i in (1, 6) else 0, lenient=2 * PYPI + (i == 1 and VERSION < (13, 0)))


def sentences():
    """The message for a refused file: libtiff's last one, because it continues after earlier ones."""
    grey = (9, 8, 1, (1,), (8,), ())
    packed = odd_tiff.tiff(*grey, compression=8, more={279: (4, [1 << 28])})
    for name, data, start in (
        ("libtiff's last error", packed, "broken TIFF: the pixels from 0, 0 on cannot be read: Read error on strip"),
        ("CIELAB", odd_tiff.tiff(9, 8, 8, (1,), (8,) * 3, ()), "a TIFF of CIELAB colours (photometric 8) is not read"),
    ):
        got = run([data], mode="rgb", dtype="u8")[0]
        good = isinstance(got, str) and got.startswith(start)
        tap.ok(good, "%s is said" % name, [] if good else [str(got)[:200]])


quietly(compare_all)
sentences()
tap.finish()
