"""WebP, GIF, BMP and PPM against Pillow: equal pixels for odd files, whole, cut and damaged.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository)."""
import io
import struct

from oracle import OLD, Image, agree, damage, flips, have, photographs, tap

import odd_small


def cuts(data, step=1):
    return [data[:n] for n in list(range(0, min(len(data), 120))) + list(range(120, len(data), step))]


def damaged(name, files, step=1, flipped=150, start=2, **strictness):
    """Each file cut at many places and with flipped bits, with and without --allow-truncated."""
    for truncated in (False, True):
        cut = [part for _, data in files for part in cuts(data, step)]
        damage("%s cut off, allowed %d" % (name, truncated), cut, truncated=truncated, **strictness)
        changed = [part for i, (_, data) in enumerate(files) for part in flips(data, start, flipped, i)]
        damage("%s with flipped bits, allowed %d" % (name, truncated), changed, truncated=truncated, **strictness)


def some(files, *parts):
    return [(name, data) for name, data in files if any(part in name for part in parts)]


def reencoded(photos):
    """Some of the photographs in every kind."""
    for name, data in photos:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        for kind, options in (("WEBP", {"quality": 80}), ("WEBP", {"lossless": True, "method": 0}), ("BMP", {}),
                              ("PPM", {}), ("GIF", {})):
            out = io.BytesIO()
            image.save(out, kind, **options)
            yield "%s %s %s" % (name, kind, options), out.getvalue()


def known():
    """What Pillow 9.4 gets wrong or does not read: headers of 52 and 56 bytes, two masks, short palettes, plain PPMs
    of several blocks."""
    pixel = bytes([0x11, 0x22, 0x33, 0x44])
    for header, masks, want in ((52, (0xFF0000, 0xFF00, 0xFF), (0x33, 0x22, 0x11)),
                                (56, (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0x11, 0x22, 0x33)),
                                (56, (0xFF000000, 0xFF00, 0xFF, 0), (0x44, 0x22, 0x11)),
                                (124, (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0x44, 0x22, 0x11))):
        data = odd_small.bmp(1, 1, 32, 3, header, masks=masks, data=pixel)
        yield "bmp of header %d with masks %r" % (header, masks), data, [want]
    palette = bytes([1, 2, 3, 0, 4, 5, 6, 0])
    yield "bmp of a short palette", odd_small.bmp(4, 1, 8, palette=palette, colors=2, data=b"\0\1\2\xff"), [
        (3, 2, 1), (6, 5, 4), (0, 0, 0), (0, 0, 0)]
    gif = b"GIF89a" + struct.pack("<HHBBB", 2, 1, 0x80, 0, 0) + b"\1\2\3\4\5\6," + struct.pack("<HHHHB", 0, 0, 2, 1, 0)
    gif += b"\2" + odd_small.blocks(odd_small.lzw([1, 3], 2)) + b";"
    yield "gif of a short palette", gif, [(4, 5, 6), (0, 0, 0)]
    values = [i * 7 % 256 for i in range(700 * 600 * 3)]
    for start in range(4):
        data = b"P3 700 600 255" + b" " * (start + 1) + b" ".join(b"%d" % value for value in values)
        yield "ppm of several blocks, %d" % start, data, list(zip(values[::3], values[1::3], values[2::3]))


def known_runs():
    """[(name, a BMP of 4 bits, its indexes, its indexes until Pillow 12)]: odd literals, and jumps."""
    for name, width, data, new, old in (
        ("3 literals", 4, b"\0\3\x12\x30\1\x40\0\1", [1, 2, 3, 4], None),
        ("5 literals", 6, b"\0\5\x12\x34\x50\0\1\x60\0\1", [1, 2, 3, 4, 5, 6], None),
        ("3 literals and a run", 8, b"\0\3\x12\x30\5\x45\0\0\0\1", [1, 2, 3, 4, 5, 4, 5, 4], [1, 2, 4, 5, 4, 5, 4, 0]),
        ("a jump", 6, b"\1\x10\0\2\3\0\2\x23\0\1", [1, 0, 0, 0, 2, 3], None),
        ("a jump and two bytes", 6, b"\1\x10\0\2\2\0\3\0\2\x23\0\1", None, [1, 0, 0, 0, 2, 3]),
    ):
        yield name, odd_small.bmp(width, 1, 4, 2, palette=odd_small.palette_of(16), data=data), new, old


def have_runs():
    palette = odd_small.palette_of(16)
    colors = lambda indexes: [tuple(palette[4 * i : 4 * i + 3])[::-1] for i in indexes]
    files = list(known_runs())
    have("as Pillow 13", [(name, data, colors(new)) for name, data, new, _ in files if new])
    have("as Pillow 12", [(name, data, colors(old)) for name, data, _, old in files if old], pillow_12=True)


def main():
    have("known", list(known()))
    have_runs()
    bmps, ppms = list(odd_small.bmps()), list(odd_small.ppms())
    gifs, webps = list(odd_small.gifs()), list(odd_small.webps(Image))
    agree("bmp", bmps, refused=None)
    agree("ppm", ppms)
    agree("gif", gifs, modes=("rgb", "gray"))
    # Grey for Pillow, until it is asked for RGB.
    agree("gif", [file for file in gifs if file[0] != "gif of own greys"], modes=("native",))
    agree("webp", webps)
    agree("webp, turned upright", list(odd_small.webps_turned(Image)), exif=True, modes=("rgb", "gray"))
    damaged("bmp", some(bmps, "4 bits, header 40, 8x4", "16 bits, header 40, 8x4", "lengths 0, 1, 8x4", "lengths 1, 0, 8x4", "masks f800 of 16 bits, header 124, 8x4", "lengths 1, 7, 8x4", "greys, 4 bits", "greys, 8 bits"),
            lenient=3 if OLD else 0)  # a bit makes a header of 56 bytes of three files
    damaged("ppm", some(ppms, "2x3 of 255", "2x3 of 1000", "P1 8x4", "P4 8x4"))
    damaged("gif", some(gifs, "gif 8x4 bits=4", "(3, 2, 10, 5), transparent 5, palettes 4 0"),
            lenient=2 if OLD else 0)  # a graphic control without a byte
    damaged("webp", some(webps, "8x4", "webp animated"), step=7, flipped=60)
    photos = photographs()
    if photos:
        agree("photographs in other kinds", list(reencoded(photos[::50])), modes=("rgb",))
    else:
        tap.skip("photographs in other kinds", "imagenet-sample-400.tar is not in FF_SHARED_DATA")
    tap.finish()


main()
