"""Damaged JPEGs against Pillow: the same ones are refused, the others have the same pixels.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository)."""
import io
import os
import random
import subprocess

from oracle import SMOOTHS_OTHERWISE, Image, PROGRAM, agree, damage, flips, photographs, pillow, run, tap

import odd_files


def made():
    """[(name, bytes)] of tests/programs/make_jpegs.c."""
    out = subprocess.run([os.path.join(os.path.dirname(PROGRAM), "make_jpegs")], stdout=subprocess.PIPE, check=True).stdout
    files = []
    while out:
        line, out = out.split(b"\n", 1)
        size, name = line.decode().split(" ", 1)
        files.append((name, out[: int(size)]))
        out = out[int(size) :]
    return files


def scan_data(data):
    """Where the first scan's pixels begin."""
    at = data.index(b"\xff\xda")
    return at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")


def overwritten(data, how_many, seed):
    """A few bytes of the pixels replaced: by noise, or by what looks like a marker of every kind, with and
    without parameters; restart markers out of order among them."""
    rng = random.Random(seed)
    start = scan_data(data)
    markers = [0x00, 0x01, 0x02, 0xBF, 0xC0, 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xDD, 0xE0, 0xE1, 0xFE, 0xFF]
    markers += list(range(0xD0, 0xD8))
    for i in range(how_many):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 3))):
            at = rng.randrange(start, len(data) - 4)
            stray = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
            if i % 2:
                stray = bytes([0xFF, rng.choice(markers)]) + rng.choice((b"", b"\0\x04", b"\xff\xff", b"\0\0"))
            changed[at : min(at + len(stray), len(data) - 2)] = stray[: len(data) - 2 - at]
        yield bytes(changed)


def without_segments(data, how_many, seed):
    """Bytes between restart markers missing, or repeated."""
    rng = random.Random(seed)
    start = scan_data(data)
    for i in range(how_many):
        at = rng.randrange(start, len(data) - 2)
        end = min(len(data) - 2, at + rng.randrange(1, 120))
        yield data[:at] + data[end:] if i % 2 else data[:end] + data[at:]


def damaged(name, data, seed):
    # Then only refusals are compared.
    other = {"undefined": len(data)} if SMOOTHS_OTHERWISE and "progressive" in name else {}
    for truncated in (False, True):
        what = "jpeg %s, allowed %d" % (name, truncated)
        cut = [data[:n] for n in range(0, len(data), 5)] + [data[:n] for n in range(len(data) - 12, len(data))]
        damage(what + ", cut off", cut, truncated=truncated, **other)
        damage(what + ", bytes overwritten", list(overwritten(data, 60, seed)), truncated=truncated, **other)
        damage(what + ", bytes missing", list(without_segments(data, 30, seed)), truncated=truncated, **other)
        twice = [part[: len(part) * 2 // 3] for part in overwritten(data, 20, seed + 1)]
        damage(what + ", overwritten and cut off", twice, truncated=truncated, **other)


# Whether these need data beyond their last row's depends on the blocks in which the data comes.
BY_BLOCKS = ("Gila_monster.JPEG", "centipede.JPEG", "garbage_truck.JPEG")


# Where libjpeg cannot read the header Pillow may show a black image; we refuse.
def header(sentence):
    return sentence.endswith(("before the header is complete", "a frame header wanted before"))


def without_end():
    """Complete except for the end marker: Pillow reads those whose last row has come out by then."""
    rng = random.Random(5)
    for i in range(200):
        mode, width, height = ("RGB", "L", "RGB", "CMYK")[i % 4], rng.randrange(1, 60), rng.randrange(1, 60)
        data = odd_files.saved(Image, mode, width, height, quality=rng.randrange(30, 98), subsampling=i % 3,
                               progressive=i % 8 == 7)
        yield data[: -2 + i // 2 % 2]


def main():
    files = made()
    agree("jpegs with restart intervals and scans apart", files, refused=1)  # arithmetic coding in two blocks
    for i, (name, data) in enumerate(files):
        if "large" not in name:
            damaged(name, data, i)
        else:
            damage("jpeg %s, without its end marker" % name, [data[:-1], data[:-2], data[:-3]])
    small = [data for name, data in odd_files.jpegs(Image) if "7x9" in name or "33x65" in name]
    for i, data in enumerate(small[:10]):
        for truncated in (False, True):
            name = "small jpeg %d, allowed %d" % (i, truncated)
            damage(name + ", cut at every byte", [data[:n] for n in range(len(data))], truncated=truncated)
            damage(name + ", with flipped bits", list(flips(data, 2, 300, i)), truncated=truncated,
                   allowed=header if truncated else lambda sentence: False, most=2)
    cut = list(without_end())
    for truncated in (False, True):
        damage("jpegs without their end marker, allowed %d" % truncated, cut, truncated=truncated)
    read = sum(pillow(data) is not None for data in cut)
    tap.ok(0 < read < len(cut) / 4, "Pillow reads %d of %d of them" % (read, len(cut)))
    photos = photographs()
    if not photos:
        tap.skip("damaged photographs", "imagenet-sample-400.tar is not in FF_SHARED_DATA")
    else:
        for truncated in (False, True):
            some = [part for i, (_, data) in enumerate(photos[::20]) for part in overwritten(data, 3, i)]
            damage("photographs, bytes overwritten, allowed %d" % truncated, some, truncated=truncated)
            some = [data[:-2] for i, (name, data) in enumerate(photos) if i % 8 == 0 or name.endswith(BY_BLOCKS)] + [data[: len(data) * 2 // 3] for _, data in photos[::20]]
            damage("photographs, cut off, allowed %d" % truncated, some, truncated=truncated)
    tap.finish()


main()
