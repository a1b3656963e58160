"""Odd TIFF files, generated: every layout that Pillow knows and some that it does not, in strips and tiles,
packed or not, in either byte order, BigTIFF."""
import io
import random
import struct
import zlib

from odd_files import picture

FORMS = {1: "B", 2: "B", 3: "H", 4: "L", 6: "b", 8: "h", 9: "l", 11: "f", 12: "d", 16: "Q"}
SIZES = ((1, 1), (1, 9), (13, 1), (31, 17))

# photometric, sample format, bits of each sample, extra samples
LAYOUTS = [(p, (1,), (b,), ()) for p in (0, 1) for b in (1, 2, 4, 8, 16)]
LAYOUTS += [(1, (1,), (12,), ()), (1, (2,), (16,), ()), (0, (3,), (32,), ()), (1, (3,), (32,), ()), (1, (1,), (32,), ())]
LAYOUTS += [(1, (2,), (32,), ()), (1, (1,), (8, 8), (2,))]
LAYOUTS += [(2, (1,), (8,) * 3, ()), (2, (1,), (16,) * 3, ()), (2, (1, 1, 1), (8,) * 3, ()), (2, (1,), (8,) * 4, (999,))]
LAYOUTS += [(2, (1,), (8,) * (3 + n), (first,) + (0,) * (n - 1)) for n in (1, 2, 3) for first in (0, 1, 2)]
LAYOUTS += [(2, (1,), (8,) * 4, ()), (2, (1,), (16,) * 4, ())] + [(2, (1,), (16,) * 4, (e,)) for e in (0, 1, 2)]
LAYOUTS += [(3, (1,), (b,), ()) for b in (1, 2, 4, 8)] + [(3, (1,), (8, 8), (2,))]
LAYOUTS += [(5, (1,), (8,) * (4 + n), (0,) * n) for n in (0, 1, 2)] + [(5, (1,), (16,) * 4, ())]
LAYOUTS += [(1, (1,), (8, 8), (0,)), (1, (1,), (24,), ()), (8, (1,), (8,) * 3, ()), (1, (2,), (8,), ()), (4, (1,), (1,), ())]
LAYOUTS += [(2, (1,), (5, 6, 5), ()), (1, (3,), (64,), ()), (2, (2, 2, 2), (8,) * 3, ()), (1, (3,), (16,), ())]


def directory(order, tags, at, big=False):
    """A directory at `at` and the values after it. tags: {tag: (type, values)}."""
    count, entry, word = ("Q", "HHQ", 8) if big else ("H", "HHL", 4)
    values_at = at + struct.calcsize(order + count) + len(tags) * (4 + 2 * word) + word
    out, after = struct.pack(order + count, len(tags)), b""
    for tag, (kind, values) in sorted(tags.items()):
        data = values if isinstance(values, bytes) else struct.pack(order + "%d%s" % (len(values), FORMS[kind]), *values)
        out += struct.pack(order + entry, tag, kind, len(values))
        if len(data) <= word:
            out += data.ljust(word, b"\0")
        else:
            out += struct.pack(order + "Q" if big else order + "L", values_at + len(after))
            after += data + bytes(len(data) % 2)
    return out + bytes(word) + after


def packbits(data):
    out = b""
    for i in range(0, len(data), 100):
        part = data[i : i + 100]
        out += bytes([257 - len(part)]) + part[:1] if len(part) > 1 and len(set(part)) == 1 else bytes([len(part) - 1]) + part
    return out


PACK = {1: lambda d: d, 8: zlib.compress, 32946: zlib.compress, 32773: packbits}


def tiff(width, height, photometric, sample_format, bits, extra, order="<", fill=1, compression=1, rows=None, tile=None,
         planar=1, big=False, more=None, data=None):
    """Noise in the given layout, or `data` a block; `more` tags replace others, or with None remove them."""
    rng = random.Random(repr((width, height, photometric, sample_format, bits, extra)))
    planes = len(bits) if planar == 2 else 1
    depth = sum(bits) // planes
    block_width, block_height = tile or (width, rows or height)
    down, across = -(-height // block_height), -(-width // block_width)
    blocks = []
    given = data and [PACK[compression](block) for block in data]
    for _ in range(0 if given else planes):
        for y in range(down):
            for _ in range(across):
                seen = block_height if tile else min(block_height, height - y * block_height)
                size = (block_width * depth + 7) // 8 * seen
                if sample_format[0] == 3 and bits == (32,):
                    data = struct.pack(order + "%df" % (size // 4), *[rng.uniform(-50, 400) for _ in range(size // 4)])
                elif bits[0] in (16, 32) and photometric < 2:
                    form = order + "%d%s" % (size * 8 // bits[0], "H" if bits[0] == 16 else "L")
                    data = struct.pack(form, *[rng.choice((rng.randrange(300), rng.getrandbits(bits[0])))
                                               for _ in range(size * 8 // bits[0])])
                else:
                    data = bytes(rng.choice((rng.randrange(256), 255, 0)) for _ in range(size))
                blocks.append(PACK[compression](data))
    start = 16 if big else 8
    blocks = given or blocks
    offsets, data = [], b""
    for block in blocks:
        offsets.append(start + len(data))
        data += block + bytes(len(block) % 2)
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, bits), 259: (3, [compression]), 262: (3, [photometric]),
            277: (3, [len(bits)]), 284: (3, [planar]), 266: (3, [fill])}
    if sample_format != (1,):
        tags[339] = (3, sample_format)
    if extra:
        tags[338] = (3, extra)
    if tile:
        tags.update({322: (3, [block_width]), 323: (3, [block_height]), 324: (4, offsets), 325: (4, [len(b) for b in blocks])})
    else:
        tags.update({278: (4, [block_height]), 273: (4, offsets), 279: (4, [len(b) for b in blocks])})
    if photometric == 3:
        tags[320] = (3, [rng.randrange(65536) for _ in range(3 << bits[0])])
    for tag, value in (more or {}).items():
        tags.pop(tag, None)
        if value:
            tags[tag] = value
    name = b"II" if order == "<" else b"MM"
    at = start + len(data)
    header = struct.pack(order + "2sHHHQ", name, 43, 8, 0, at) if big else struct.pack(order + "2sHL", name, 42, at)
    return header + data + directory(order, tags, at, big)


def layouts(sizes=SIZES):
    for layout in LAYOUTS:
        for order in "<>":
            for fill in (1, 2):
                for width, height in sizes:
                    name = "tiff %r %s fill %d %dx%d" % (layout, order, fill, width, height)
                    yield name, tiff(width, height, *layout, order=order, fill=fill)
                    yield name + " deflated", tiff(width, height, *layout, order=order, fill=fill, compression=8)


def blocks():
    for layout in LAYOUTS:
        for order in "<>":
            name = "tiff %r %s " % (layout, order)
            for compression in (1, 8, 32773):
                pack = "of compression %d" % compression
                yield name + "strips " + pack, tiff(31, 17, *layout, order=order, compression=compression, rows=5)
                yield name + "tiles " + pack, tiff(50, 40, *layout, order=order, compression=compression, tile=(16, 32))
                if len(layout[2]) > 1:
                    yield name + "planes " + pack, tiff(31, 17, *layout, order=order, compression=compression, rows=5, planar=2)
                    yield name + "tiles of planes " + pack, tiff(50, 40, *layout, order=order, compression=compression,
                                                                 tile=(16, 16), planar=2)


def rare():
    grey, rgb, palette = (1, (1,), (8,), ()), (2, (1,), (8,) * 3, ()), (3, (1,), (8,), ())
    for orientation in range(10):
        for layout in (grey, rgb):
            turned = {274: (3, [orientation])}
            for compression in (1, 8):
                yield ("tiff of orientation %d %r %d" % (orientation, layout, compression),
                       tiff(21, 13, *layout, compression=compression, more=turned))
    for order in "<>":
        yield "tiff of 64 bits " + order, tiff(9, 8, *rgb, order=order, big=True)
        yield "tiff of 64 bits deflated " + order, tiff(9, 8, *rgb, order=order, big=True, compression=8)
    for tag in (258, 259, 262, 266, 277, 278, 284, 320, 273, 256, 257):
        for compression in (1, 8):
            for layout in (grey, rgb, palette, (0, (1,), (1,), ())):
                name = "tiff %r of compression %d without tag %d" % (layout, compression, tag)
                yield name, tiff(9, 8, *layout, compression=compression, more={tag: None})
    for tag, value in (
        (258, (3, [8, 8, 8, 8])), (258, (3, [8])), (258, (3, [8, 8])), (258, (4, [8, 8, 8])), (258, (1, [8, 8, 8])),
        (277, (3, [4])), (277, (3, [7])), (277, (4, [3])), (262, (4, [2])), (284, (3, [3])), (259, (3, [99])),
        (339, (3, [1])), (339, (3, [1, 1])), (339, (3, [2, 2, 2])), (339, (3, [1, 1, 2])), (256, (3, [9, 8])),
        (256, (9, [9])), (278, (4, [0xFFFFFFFF])), (278, (4, [3])), (278, (4, [0])), (338, (3, [0])), (0xBC01, (1, b"x")),
        (266, (3, [3])), (273, (16, [8])), (274, (3, [6])), (274, (4, [8])),
    ):
        for compression in (1, 8):
            name = "tiff of compression %d with tag %d of %r" % (compression, tag, value)
            yield name, tiff(9, 8, *rgb, compression=compression, more={tag: value})
    for count in (3, 6, 30, 768, 771):
        yield "tiff of %d palette values" % count, tiff(9, 8, *palette, more={320: (3, [i * 83 % 65536 for i in range(count)])})
    yield "tiff of a long palette", tiff(9, 8, *palette, more={320: (4, [i * 85 for i in range(768)])})
    yield "tiff with fewer strips", tiff(9, 8, *rgb, rows=2, more={273: (4, [8, 8])})
    yield "tiff of indexes with fewer strips", tiff(9, 8, *palette, rows=2, more={273: (4, [8])})
    yield "tiff of inverted grey with fewer strips", tiff(9, 8, 0, (1,), (8,), (), rows=2, more={273: (4, [8])})
    yield "tiff of ink with fewer strips", tiff(9, 8, 5, (1,), (8,) * 4, (), rows=2, more={273: (4, [8])})
    yield "tiff with bytes after its end", tiff(9, 8, *rgb) + b"trailing"


def is_packed(mode, compression):
    """Whether libtiff has this compression for the mode; where not, Pillow 11 and 12 may crash."""
    modes = {"jpeg": ("L", "RGB", "RGBA", "CMYK", "LA"), "webp": ("RGB", "RGBA", "CMYK")}
    return mode in ("1",) if compression in ("group3", "group4", "tiff_ccitt") else mode in modes.get(compression, (mode,))


def packed_by_libtiff(Image, has_webp=True):
    """Through Pillow's own writer: LZW, JPEG, group 3 and 4, and libtiff's other kinds."""
    for width, height in SIZES + ((100, 90),):
        for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "LA", "I;16", "I", "F"):
            image = Image.new(mode, (width, height)) if mode in ("I", "F", "I;16") else picture(Image, "L", width, height)
            if mode not in ("I", "F", "I;16"):
                image = picture(Image, mode, width, height) if mode in ("RGB", "RGBA", "CMYK", "LA") else image.convert(mode)
            for compression in ("tiff_lzw", "jpeg", "tiff_adobe_deflate", "packbits", "group3", "group4", "tiff_ccitt", "lzma",
                                "zstd", "webp"):
                if not is_packed(mode, compression) or (compression == "webp" and not has_webp):
                    continue
                out = io.BytesIO()
                try:
                    image.save(out, "TIFF", compression=compression)
                except OSError:
                    continue  # a libtiff without this compression
                yield "tiff %s %s %dx%d" % (mode, compression, width, height), out.getvalue()
            if mode == "RGB":
                for sampling in (0, 1, 2):
                    for quality in (10, 95):
                        out = io.BytesIO()
                        ycbcr = image.convert("YCbCr")
                        ycbcr.save(out, "TIFF", compression="jpeg", quality=quality, tiffinfo={530: (1, 1)} if sampling == 0 else {})
                        yield "tiff YCbCr jpeg %d %d %dx%d" % (sampling, quality, width, height), out.getvalue()
                for compression in ("tiff_lzw", "tiff_adobe_deflate"):
                    out = io.BytesIO()
                    image.convert("YCbCr").save(out, "TIFF", compression=compression)
                    yield "tiff YCbCr %s %dx%d" % (compression, width, height), out.getvalue()
