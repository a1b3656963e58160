"""Odd image files, generated: every PNG colour type, depth and interlacing, and the kinds of JPEG."""
import io
import random
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pack_row(values, depth):
    """Values of one row (channels interleaved) -> bytes, most significant first."""
    if depth == 16:
        return struct.pack(">%dH" % len(values), *values)
    if depth == 8:
        return bytes(values)
    per_byte = 8 // depth
    out = bytearray((len(values) + per_byte - 1) // per_byte)
    for i, value in enumerate(values):
        out[i // per_byte] |= value << (8 - depth - depth * (i % per_byte))
    return bytes(out)


def filtered(rows, pixel_bytes, rng):
    """Each row after a random filter (PNG specification, section 9)."""
    out = bytearray()
    before = bytes(len(rows[0])) if rows else b""
    for row in rows:
        kind = rng.randrange(5)
        out.append(kind)
        for i, value in enumerate(row):
            a = row[i - pixel_bytes] if i >= pixel_bytes else 0
            b = before[i]
            c = before[i - pixel_bytes] if i >= pixel_bytes else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            out.append((value - (0, a, b, (a + b) // 2, paeth)[kind]) & 255)
        before = row
    return bytes(out)


def png(width, height, depth, color, interlaced=False, seed=0, before=b"", palette_entries=None, idat_bytes=None):
    rng = random.Random(repr((width, height, depth, color, interlaced, seed)))
    channels = CHANNELS[color]
    pixels = [[[rng.randrange(1 << depth) for _ in range(channels)] for _ in range(width)] for _ in range(height)]
    pixel_bytes = max(1, channels * depth // 8)
    data = b""
    for left, top, step_x, step_y in PASSES if interlaced else ((0, 0, 1, 1),):
        rows = [
            pack_row([v for x in range(left, width, step_x) for v in pixels[y][x]], depth)
            for y in range(top, height, step_y)
        ]
        if rows and rows[0]:
            data += filtered(rows, pixel_bytes, rng)
    data = zlib.compress(data)
    idat_bytes = idat_bytes or len(data)
    out = SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)) + before
    if color == 3:
        entries = palette_entries or 1 << depth
        out += chunk(b"PLTE", bytes(rng.randrange(256) for _ in range(3 * entries)))
    for start in range(0, len(data), idat_bytes):
        out += chunk(b"IDAT", data[start : start + idat_bytes])
    return out + chunk(b"IEND", b"")


def pngs():
    """(name, bytes) of every colour type, depth and interlacing in odd sizes, and of odd extras."""
    for color, depths in DEPTHS.items():
        for depth in depths:
            for interlaced in (False, True):
                for width, height in ((1, 1), (1, 9), (13, 1), (2, 3), (5, 5), (31, 17)):
                    name = "png color=%d depth=%d interlaced=%d %dx%d" % (color, depth, interlaced, width, height)
                    yield name, png(width, height, depth, color, interlaced)
    transparent = chunk(b"tRNS", bytes(range(0, 256, 17)))
    for depth in (4, 8):
        good = png(19, 7, depth, 3)
        at = good.index(b"IDAT") - 4
        yield "png palette with tRNS depth=%d" % depth, good[:at] + transparent + good[at:]
    for color, value in ((0, b"\0\x07"), (2, b"\0\1\0\2\0\3")):
        for depth in (8, 16):
            yield "png tRNS color=%d depth=%d" % (color, depth), png(9, 8, depth, color, before=chunk(b"tRNS", value))
    yield "png short palette", png(40, 40, 8, 3, palette_entries=10)
    yield "png short palette, 2 bits", png(40, 40, 2, 3, palette_entries=2)
    yield "png small IDATs", png(30, 30, 8, 2, idat_bytes=7)
    odd = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"cHRM", bytes(32)) + chunk(b"sRGB", b"\1")
    odd += chunk(b"tEXt", b"Comment\0odd") + chunk(b"pHYs", bytes(9)) + chunk(b"bKGD", b"\0\1\0\2\0\3")
    yield "png odd ancillary chunks", png(12, 11, 8, 2, before=odd)
    profile = chunk(b"iCCP", b"name\0\0" + zlib.compress(b"no profile"))
    yield "png odd profile", png(12, 11, 8, 6, before=profile)


def with_chunk(data, chunk_data, last=False):
    """A chunk before the pixels, or after them."""
    at = data.index(b"IEND" if last else b"IDAT") - 4
    return data[:at] + chunk_data + data[at:]


def turned_pngs(Image):
    """(name, bytes) of PNGs with an orientation in an eXIf chunk, an old text, or XMP."""
    plain = png(13, 6, 8, 2)
    for orientation in range(10):
        record = exif_record(Image, orientation)
        yield "png, eXIf %d" % orientation, with_chunk(plain, chunk(b"eXIf", record[6:]))
        yield "png, late eXIf %d" % orientation, with_chunk(plain, chunk(b"eXIf", record[6:]), last=True)
        text = b"\nexif\n%8d\n" % len(record) + b"\n".join(record.hex().encode()[i : i + 72] for i in range(0, 2 * len(record), 72))
        key = b"Raw profile type exif\0"
        yield "png, text %d" % orientation, with_chunk(plain, chunk(b"tEXt", key + text + b"\n"))
        packed = chunk(b"zTXt", key + b"\0" + zlib.compress(text + b"\n"))
        yield "png, packed text %d" % orientation, with_chunk(plain, packed)
        for form in (b'<x tiff:Orientation="%d"/>', b"<tiff:Orientation>%d</tiff:Orientation>"):
            xmp = form % orientation
            key = b"XML:com.adobe.xmp\0"
            yield "png, XMP %r" % xmp, with_chunk(plain, chunk(b"iTXt", key + b"\0\0en\0key\0" + xmp))
            packed = chunk(b"iTXt", key + b"\1\0\0\0" + zlib.compress(xmp))
            yield "png, packed XMP %r" % xmp, with_chunk(plain, packed)
            both = with_chunk(plain, packed + chunk(b"eXIf", exif_record(Image, 6)[6:]))
            yield "png, EXIF and XMP %r" % xmp, both
            other = directory("<", (0x010E, 3, 1, bytes(4)))
            yield "png, other EXIF and XMP %r" % xmp, with_chunk(plain, packed + chunk(b"eXIf", other))
    yield "png without EXIF", plain


def picture(Image, mode, width, height):
    """Smooth with some noise, so that JPEG's subsampling and clipping both show."""
    rng = random.Random(repr((mode, width, height)))
    bands = len(Image.new(mode, (1, 1)).getbands())
    values = bytearray()
    for y in range(height):
        for x in range(width):
            for band in range(bands):
                value = (x * (3 + band) + y * (5 - band)) % 256 if (x // 7 + y // 5) % 2 else 255 * ((x + band) % 2)
                values.append(max(0, min(255, value + rng.randrange(-20, 21))))
    return Image.frombytes(mode, (width, height), bytes(values))


def saved(Image, mode, width, height, **options):
    out = io.BytesIO()
    picture(Image, mode, width, height).save(out, "JPEG", **options)
    return out.getvalue()


def odd_sizes(Image):
    rng = random.Random(1)
    sizes = [(1, 1), (1, 40), (40, 1), (2, 3), (3, 2), (223, 224), (224, 223), (255, 257), (500, 375), (31, 301)]
    sizes += [(rng.randrange(1, 90), rng.randrange(1, 90)) for _ in range(20)]
    for width, height in sizes:
        out = io.BytesIO()
        picture(Image, "RGB", width, height).save(out, "PNG")
        yield "%dx%d" % (width, height), out.getvalue()


def sized_jpegs(Image):
    rng = random.Random(2)
    for i in range(36):
        width, height = rng.randrange(1, 120), rng.randrange(1, 120)
        mode = ("RGB", "RGB", "L", "CMYK")[i % 4]
        yield "jpeg %s %dx%d" % (mode, width, height), saved(
            Image, mode, width, height, subsampling=i % 3, quality=rng.randrange(40, 100), progressive=i % 5 == 4)


def with_sampling(data, sampling):
    """The same blocks under another sampling of the first component: another image, but valid where the sizes
    give as many blocks."""
    at = next(i for i in range(len(data)) if data[i] == 0xFF and data[i + 1] in (0xC0, 0xC2))
    return data[: at + 11] + bytes([sampling]) + data[at + 12 :]


def exif_record(Image, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def directory(order, *tags):
    """A TIFF header and a directory of (tag, type, count, the 4 bytes of value or offset)."""
    out = struct.pack(order + "2sHL", b"II" if order == "<" else b"MM", 42, 8) + struct.pack(order + "H", len(tags))
    for tag, kind, values, data in tags:
        out += struct.pack(order + "HHL", tag, kind, values) + data
    return out + bytes(4)


def exif_records(Image):
    """(name, record): every orientation, and odd ways to write one."""
    for orientation in range(10):
        yield "orientation %d" % orientation, exif_record(Image, orientation)
    for order in "<>":
        six = struct.pack(order + "H", 6) + bytes(2)
        for kind in range(18):
            value = struct.pack(order + "L", 6) if kind in (4, 9, 13) else six
            yield "type %d%s" % (kind, order), b"Exif\0\0" + directory(order, (0x0112, kind, 1, value))
        there = struct.pack(order + "L", 26)
        values = ((5, "LL", (6, 1)), (5, "LL", (12, 2)), (5, "LL", (6, 0)), (10, "ll", (-6, -1)), (10, "ll", (6, -1)))
        values += ((12, "d", (6,)), (16, "Q", (6,)))
        for kind, form, value in values:
            record = directory(order, (0x0112, kind, 1, there)) + struct.pack(order + form, *value)
            yield "type %d of %r%s" % (kind, value, order), b"Exif\0\0" + record
        float_six = struct.pack(order + "f", 6)
        yield "a float%s" % order, b"Exif\0\0" + directory(order, (0x0112, 11, 1, float_six))
        twice = directory(order, (0x0112, 3, 1, six), (0x0112, 3, 1, struct.pack(order + "H", 3) + bytes(2)))
        yield "twice%s" % order, b"Exif\0\0" + twice
        yield "two values%s" % order, b"Exif\0\0" + directory(order, (0x0112, 3, 2, struct.pack(order + "HH", 6, 3)))
        yield "none%s" % order, b"Exif\0\0" + directory(order, (0x0112, 3, 0, six))
        lost = directory(order, (0x0112, 3, 1, six), (0x010E, 2, 99, there), (0x0112, 3, 1, bytes(4)))
        yield "a lost value between%s" % order, b"Exif\0\0" + lost
        for cut in (9, 12, 20, 22, 24):
            yield "cut at %d%s" % (cut, order), b"Exif\0\0" + directory(order, (0x0112, 3, 1, six))[:cut]


def turned_files(Image):
    """(name, bytes) of images with EXIF orientations."""
    for width, height in ((1, 1), (1, 7), (9, 1), (33, 65), (100, 37)):
        for orientation in range(1, 9):
            for mode in ("RGB", "L"):
                name = "jpeg %s %dx%d, orientation %d" % (mode, width, height, orientation)
                yield name, saved(Image, mode, width, height, exif=exif_record(Image, orientation))
    for name, record in exif_records(Image):
        yield "jpeg, EXIF with %s" % name, saved(Image, "RGB", 5, 3, exif=record)
    other = saved(Image, "RGB", 5, 3, exif=exif_record(Image, 3))
    first = exif_record(Image, 8)
    yield "jpeg with two EXIF records", other[:20] + b"\xff\xe1" + struct.pack(">H", len(first) + 2) + first + other[20:]
    yield "jpeg without EXIF", saved(Image, "RGB", 5, 3)


def rare_jpegs(Image):
    yield "jpeg 440 16x16", with_sampling(saved(Image, "RGB", 16, 16, subsampling=1), 0x12)
    yield "jpeg 411 32x32", with_sampling(saved(Image, "RGB", 32, 32, subsampling=2), 0x41)
    yield "jpeg 441 32x32", with_sampling(saved(Image, "RGB", 32, 32, subsampling=2), 0x14)
    yield "jpeg grey of sampling 2x2", with_sampling(saved(Image, "L", 23, 9), 0x22)
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0"
    plain = saved(Image, "RGB", 19, 21, subsampling=0)
    without_jfif = plain[:2] + plain[20:]
    for transform in (0, 1, 2, 7):
        marker = adobe + bytes([transform])
        yield "jpeg RGB with Adobe transform %d" % transform, plain[:2] + marker + without_jfif[2:]
    cmyk = saved(Image, "CMYK", 17, 18)
    at = cmyk.index(b"Adobe") + 11
    for transform in (0, 1, 2):
        yield "jpeg CMYK with Adobe transform %d" % transform, cmyk[:at] + bytes([transform]) + cmyk[at + 1 :]
    yield "jpeg without JFIF", without_jfif


def jpegs(Image):
    sizes = ((1, 1), (1, 17), (40, 1), (7, 9), (16, 16), (33, 65), (50, 37))
    for width, height in sizes:
        variants = [("444", "RGB", {"subsampling": 0}), ("422", "RGB", {"subsampling": 1})]
        variants += [("420", "RGB", {"subsampling": 2}), ("grey", "L", {})]
        variants += [("cmyk", "CMYK", {}), ("progressive", "RGB", {"progressive": True})]
        variants += [("progressive grey", "L", {"progressive": True}), ("quality 5", "RGB", {"quality": 5})]
        variants += [("progressive cmyk", "CMYK", {"progressive": True}), ("quality 100", "RGB", {"quality": 100})]
        for name, mode, options in variants:
            yield "jpeg %s %dx%d" % (name, width, height), saved(Image, mode, width, height, **options)
    turned = saved(Image, "RGB", 21, 34, exif=exif_record(Image, 6))
    yield "jpeg with EXIF orientation 6", turned
    yield "jpeg with bytes after its end", turned + b"trailing"
    yield from rare_jpegs(Image)
