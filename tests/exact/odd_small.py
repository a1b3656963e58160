"""Odd BMP, PPM, GIF and WebP files, generated: every depth, header and compression, odd sizes."""
import io
import random
import struct

from odd_files import exif_record, picture

SIZES = ((1, 1), (1, 9), (13, 1), (2, 3), (8, 4), (31, 17))


def noise(seed, count):
    rng = random.Random(seed)
    return bytes(rng.randrange(256) for _ in range(count))


# ---- BMP -----------------------------------------------------------------------------------------

def bmp(width, height, bits, compression=0, header=40, palette=b"", masks=(), down=False, data=None, colors=0,
        offset=None, gap=0):
    if header == 12:
        info = struct.pack("<LHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<LLlHHLLLLLL", header, width, -height if down else height, 1, bits, compression, 0, 0, 0,
                           colors, 0)
        if header > 40:
            info = (info + struct.pack("<%dL" % len(masks), *masks)).ljust(header, b"\0")
        else:
            info += struct.pack("<%dL" % len(masks[:3]), *masks[:3])
    if data is None:
        stride = (width * bits + 31) // 32 * 4
        data = noise(repr((width, height, bits, compression, header)), stride * height)
    before = 14 + len(info) + len(palette) + gap
    start = struct.pack("<2sLLL", b"BM", before + len(data), 0, before if offset is None else offset)
    return start + info + palette + bytes(gap) + data


def palette_of(entries, entry_bytes=4):
    return b"".join(noise(i, 3) + bytes(entry_bytes - 3) for i in range(entries))


def ramp(entries, entry_bytes=4):
    values = (0, 255) if entries == 2 else range(entries)
    return b"".join(bytes([v]) * 3 + bytes(entry_bytes - 3) for v in values)


def bmp_runs(width, height, four, seed):
    """Run lengths of every kind: runs, literals, ends of rows, jumps; from seed 6 on as the format has them, before
    as Pillow reads them until 12.1: without odd literals of 4 bits, and two bytes more in a jump."""
    valid = seed >= 6
    rng = random.Random(repr((width, height, four, seed)))
    out = b""
    for y in range(height):
        x = 0
        while x < width:
            left = width - x
            count = min(left, rng.randrange(1, 9))
            kind = rng.randrange(4)
            if kind == 0 and count >= 3 and (valid or not (four and count % 2)):
                literals = noise(rng.random(), (count + 1) // 2 if four else count)
                out += bytes([0, count]) + literals + bytes(len(literals) % 2)
            elif kind == 1 and left > 3 and x:
                out += b"\0\0"
                break
            elif kind == 2 and y + 1 < height and left > 2 and seed % 2:
                right = rng.randrange(left)
                out += bytes([0, 2, right, 0] if valid else [0, 2, 9, 9, right, 0])
                x += right if valid else 1
                continue
            else:
                count = count + (rng.randrange(300) if kind == 3 and seed % 3 == 0 else 0)
                out += bytes([min(count, 255), rng.randrange(256)])
            x += count
        out += b"\0\0" * (not (kind == 1 and x < width))
    return out + b"\0\1"


def bmps():
    for width, height in SIZES:
        size = "%dx%d" % (width, height)
        for bits in (1, 4, 8):
            for header in (12, 40, 64, 108, 124):
                entry = 3 if header == 12 else 4
                name = "bmp %d bits, header %d, %s" % (bits, header, size)
                yield name, bmp(width, height, bits, header=header, palette=palette_of(1 << bits, entry))
                yield name + ", ramp", bmp(width, height, bits, header=header, palette=ramp(1 << bits, entry))
            yield "bmp %d bits down, %s" % (bits, size), bmp(width, height, bits, palette=palette_of(1 << bits), down=True)
        for bits in (16, 24, 32):
            for header in (12, 40, 124):
                yield "bmp %d bits, header %d, %s" % (bits, header, size), bmp(width, height, bits, header=header)
            yield "bmp %d bits down, %s" % (bits, size), bmp(width, height, bits, down=True)
        for bits, masks in (
            (16, (0xF800, 0x7E0, 0x1F)), (16, (0x7C00, 0x3E0, 0x1F)), (24, (0xFF0000, 0xFF00, 0xFF)),
            (32, (0xFF0000, 0xFF00, 0xFF, 0)), (32, (0xFF000000, 0xFF0000, 0xFF00, 0)),
            (32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)), (32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
            (32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)), (32, (0, 0, 0, 0)),
        ):
            for header in (40, 64, 108, 124):
                if header > 40 or len(masks) < 4 or masks[3] == 0:
                    name = "bmp masks %x of %d bits, header %d, %s" % (masks[0], bits, header, size)
                    yield name, bmp(width, height, bits, 3, header, masks=masks)
    some = palette_of(16)
    yield "bmp of fewer colours", bmp(9, 5, 8, palette=some, colors=16)
    yield "bmp of 2 colours in 8 bits", bmp(9, 5, 8, palette=palette_of(2), colors=2)
    yield "bmp of 3 greys in 4 bits", bmp(3, 5, 4, palette=ramp(3), colors=3)
    yield "bmp of black and white in 8 bits", bmp(9, 5, 8, palette=ramp(2), colors=2)
    for bits, compression in ((1, 0), (8, 0), (4, 2), (8, 1)):
        for colors in (1, 2):
            data = bmp_runs(9, 5, compression == 2, 0) if compression else None
            yield ("bmp of %d greys, %d bits, compression %d" % (colors, bits, compression),
                   bmp(9, 5, bits, compression, palette=ramp(colors), colors=colors, data=data))
    yield "bmp of header 12 whose offset leaves out the palette", bmp(9, 5, 4, header=12, offset=26, palette=palette_of(16, 3))
    yield "bmp with a gap", bmp(9, 5, 24, gap=33)
    yield "bmp without an offset", bmp(9, 5, 24, offset=0)
    yield "bmp of indexes without an offset", bmp(9, 5, 4, offset=0, palette=palette_of(16))
    yield "bmp whose offset leaves out the palette", bmp(9, 5, 4, offset=54, palette=palette_of(16))
    yield "bmp with bytes after its end", bmp(9, 5, 8, palette=palette_of(256)) + b"trailing"
    yield "dib", bmp(9, 5, 24)[14:]
    yield "dib of indexes", bmp(9, 5, 8, palette=palette_of(256))[14:]
    for width, height in SIZES:
        for seed in range(10):
            for four in (False, True):
                data = bmp_runs(width, height, four, seed)
                name = "bmp run lengths %d, %d, %dx%d" % (four, seed, width, height)
                palette = ramp(256) if seed == 5 else palette_of(16 if four else 256)
                bits = 4 if four and seed != 5 else 8
                yield name, bmp(width, height, bits, 2 if four else 1, palette=palette, data=data, down=seed == 4)


# ---- PPM -----------------------------------------------------------------------------------------

def ppms():
    for width, height in SIZES:
        size = b"%d %d" % (width, height)
        name = "%dx%d" % (width, height)
        rng = random.Random(name)
        yield "ppm P4 " + name, b"P4\n" + size + b"\n" + noise(name, (width + 7) // 8 * height)
        bits = "".join(rng.choice(("0", "1", "0 ", "1\n", "1# a 2 comment\n")) for _ in range(width * height))
        yield "ppm P1 " + name, b"P1\n" + size + b"\n" + bits.encode() + b"\n"
        for most in (255, 1, 3, 100, 254, 256, 1000, 4095, 65534, 65535):
            for magic, channels in ((5, 1), (6, 3)):
                count = width * height * channels
                values = [rng.randrange(min(65536, most + 3) if most > 255 else 256) for _ in range(count)]
                form = ">%dH" if most > 255 else ">%dB"
                head = b"P%d\n%s\n%d\n" % (magic, size, most)
                yield "ppm P%d %s of %d" % (magic, name, most), head + struct.pack(form % count, *values)
                plain = " ".join(str(rng.randrange(most + 1)) for _ in range(count)).encode()
                head = b"P%d %s # comment\n%d " % (magic - 3, size, most)
                yield "ppm P%d %s of %d" % (magic - 3, name, most), head + plain + rng.choice((b"", b"\n", b" 7\n"))
    yield "ppm with comments", b"P6\n # a\n3#b\n #c\n\r 2\t25#d\r5\n" + noise("ppm", 18)
    yield "ppm P6 of tabs", b"P6\t3\x0b2\x0c255\r" + noise("ppm", 18)
    yield "ppm P2 with comments", b"P2 2 2 255\n1#a\n2 3 # 9 9\r4 5#end"
    large = b" ".join(b"%d" % (i % 256) for i in range(700 * 600 * 3))
    for cut in range(4):
        yield "ppm P3 of several blocks, %d" % cut, b"P3 700 600 255" + b" " * (cut + 1) + large + b"\n"
    yield "ppm with bytes after its end", b"P5 2 2 255\nabcdtrailing"


# ---- GIF -----------------------------------------------------------------------------------------

def lzw(indexes, bits, clear_often=False):
    """GIF codes of the indexes; a full table stays unchanged, or is cleared."""
    clear, end = 1 << bits, (1 << bits) + 1
    out, filled, used = bytearray(), 0, 0

    def put(code):
        nonlocal filled, used
        filled |= code << used
        used += size
        while used >= 8:
            out.append(filled & 255)
            filled >>= 8
            used -= 8

    size = bits + 1
    put(clear)
    table, following = {}, end + 1
    now = ()
    for index in indexes:
        longer = now + (index,)
        if len(longer) == 1 or longer in table:
            now = longer
            continue
        put(table[now] if len(now) > 1 else now[0])
        if following < 4096:
            table[longer] = following
            if following == 1 << size and size < 12:
                size += 1
            following += 1
        elif clear_often:
            put(clear)
            table, following, size = {}, end + 1, bits + 1
        now = (index,)
    put(table[now] if len(now) > 1 else now[0])
    put(end)
    if used:
        out.append(filled & 255)
    return bytes(out)


def blocks(data, size=255):
    return b"".join(bytes([len(data[i : i + size])]) + data[i : i + size] for i in range(0, len(data), size)) + b"\0"


def gif(width, height, frame=None, screen_bits=8, own_bits=0, interlaced=False, transparent=None, before=b"", after=b";",
        screen_palette=None, own_palette=None, code_bits=None, clear_often=False, block=255):
    frame = frame or (0, 0, width, height)
    bits = own_bits or screen_bits or 8
    rng = random.Random(repr((width, height, frame, bits)))
    indexes, value = [], 0
    for _ in range(frame[2] * frame[3]):
        value = rng.randrange(1 << bits) if rng.randrange(3) == 0 else value
        indexes.append(value)
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80 | (screen_bits - 1) if screen_bits else 0, 3, 0)
    if screen_bits:
        out += screen_palette or noise(screen_bits, 3 << screen_bits)
    out += before
    if transparent is not None:
        out += b"!\xf9\4" + struct.pack("<BHB", 1, 9, transparent) + b"\0"
    out += b"," + struct.pack("<HHHHB", *frame, (0x80 | (own_bits - 1) if own_bits else 0) | (64 if interlaced else 0))
    if own_bits:
        out += own_palette or noise(own_bits + 9, 3 << own_bits)
    code_bits = code_bits or max(2, bits)
    return out + bytes([code_bits]) + blocks(lzw(indexes, code_bits, clear_often), block) + after


def gifs():
    for width, height in SIZES + ((100, 90),):
        for interlaced in (False, True):
            for bits in (1, 2, 4, 8):
                name = "gif %dx%d bits=%d interlaced=%d" % (width, height, bits, interlaced)
                yield name, gif(width, height, screen_bits=bits, interlaced=interlaced)
                yield name + " own palette", gif(width, height, own_bits=bits, interlaced=interlaced, transparent=1)
    greys = bytes(v for i in range(256) for v in (i, i, i))
    yield "gif without palettes", gif(20, 11, screen_bits=0)
    yield "gif of greys", gif(20, 11, screen_palette=greys)
    yield "gif of own greys", gif(20, 11, own_bits=8, own_palette=greys)
    yield "gif of own greys alone", gif(20, 11, screen_bits=0, own_bits=8, own_palette=greys)
    for part in range(3):
        yield "gif of greys but one", gif(20, 11, screen_palette=bytes(v ^ (i == 3 * 7 + part) for i, v in enumerate(greys)))
    yield "gif of colours over greys", gif(20, 11, screen_palette=greys, own_bits=8)
    for transparent in (None, 0, 5):
        for frame in ((3, 2, 10, 5), (0, 0, 10, 5), (15, 9, 10, 5), (0, 9, 40, 5), (30, 30, 2, 2)):
            for own in (0, 4):
                for screen in (0, 4):
                    name = "gif frame %r, transparent %r, palettes %d %d" % (frame, transparent, screen, own)
                    yield name, gif(20, 11, frame=frame, transparent=transparent, own_bits=own, screen_bits=screen)
    comment = b"!\xfe\5hello\0!\xfe\0!\xff\x0bNETSCAPE2.0\3\1\0\0\0!\1\3abc\2de\0\0\0xyz"
    yield "gif with extensions and junk", gif(20, 11, before=comment)
    second = gif(20, 11, frame=(0, 0, 9, 9), own_bits=3)
    yield "gif of two frames", gif(20, 11, after=second[second.index(b",", 13 + 768) :])
    yield "gif without its end", gif(20, 11, after=b"")
    yield "gif with bytes after its end", gif(20, 11, after=b";trailing")
    yield "gif of small blocks", gif(50, 40, block=3)
    yield "gif with a full table", gif(200, 150)
    yield "gif with a full table, cleared", gif(200, 150, clear_often=True)
    yield "gif of 10-bit codes", gif(20, 11, code_bits=9)
    yield "gif of a large image", gif(500, 400)


# ---- WebP ----------------------------------------------------------------------------------------

def webp_saved(image, **options):
    out = io.BytesIO()
    image.save(out, "WEBP", **options)
    return out.getvalue()


def webps(Image):
    for width, height in SIZES + ((100, 90),):
        size = "%dx%d" % (width, height)
        for mode in ("RGB", "RGBA", "L"):
            image = picture(Image, mode, width, height)
            for name, options in (
                ("lossy", {"quality": 80}), ("lossless", {"lossless": True}), ("exact", {"lossless": True, "exact": True}),
                ("quality 5", {"quality": 5}), ("quality 100", {"quality": 100, "method": 6}),
            ):
                yield "webp %s %s %s" % (mode, name, size), webp_saved(image, **options)
    icc = webp_saved(picture(Image, "RGB", 20, 15), icc_profile=b"no profile", exif=exif_record(Image, 6))
    yield "webp with a profile and EXIF", icc
    yield "webp with bytes after its end", icc + b"trailing"
    frames = [picture(Image, "RGBA", 20, 15), picture(Image, "RGBA", 20, 15).transpose(Image.Transpose.ROTATE_180)]
    for lossless in (False, True):
        animated = webp_saved(frames[0], save_all=True, append_images=frames[1:], lossless=lossless, duration=40)
        yield "webp animated, lossless %d" % lossless, animated
    # A first frame that leaves part of the canvas.
    for x, y in ((0, 0), (4, 0), (2, 6), (10, 8)):
        for mode in ("RGB", "RGBA"):
            still = webp_saved(picture(Image, mode, 10, 7), lossless=mode == "RGBA")
            frame = struct.pack("<HBHBHBHB", x // 2, 0, y // 2, 0, 9, 0, 6, 0) + b"\x28\0\0" + b"\2"
            yield "webp first frame at %d,%d %s" % (x, y, mode), webp_animation(20, 15, frame + image_chunks(still))


def image_chunks(data):
    """The chunks of a still image without its VP8X header."""
    at, out = 12, b""
    while at < len(data):
        size = struct.unpack("<L", data[at + 4 : at + 8])[0]
        if data[at : at + 4] in (b"VP8 ", b"VP8L", b"ALPH"):
            out += data[at : at + 8 + size + size % 2]
        at += 8 + size + size % 2
    return out


def webp_animation(width, height, *frames):
    header = struct.pack("<BBHHBHB", 0x12, 0, 0, width - 1, 0, height - 1, 0)
    out = b"WEBPVP8X" + struct.pack("<L", len(header)) + header + b"ANIM" + struct.pack("<LLH", 6, 0xFFFFFFFF, 0)
    for frame in frames:
        out += b"ANMF" + struct.pack("<L", len(frame)) + frame
    return b"RIFF" + struct.pack("<L", len(out)) + out


def webps_turned(Image):
    for orientation in range(1, 9):
        for mode in ("RGB", "RGBA"):
            image = picture(Image, mode, 21, 13)
            yield "webp %s, orientation %d" % (mode, orientation), webp_saved(image, exif=exif_record(Image, orientation))
            odd = webp_saved(image, icc_profile=b"profile", exif=exif_record(Image, orientation))
            yield "webp %s, after a chunk of 7 bytes, orientation %d" % (mode, orientation), odd
            record = exif_record(Image, orientation)[6:]
            yield "webp %s, bare orientation %d" % (mode, orientation), webp_saved(image, exif=record)
