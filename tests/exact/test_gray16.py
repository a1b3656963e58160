#!/usr/bin/python3
"""Greys of 16 bits in image files: with --range they are packed as they are. The oracle is Pillow's own reading of the raw
values (mode I;16 or I) and NumPy's arithmetic; the second reader reads the sets. Prints TAP."""
# Needs: ffpack fftrain
import os
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from packing import Image, Packed, ffpack, numpy, tap  # noqa: E402

os.chdir(tempfile.mkdtemp())
rng = numpy.random.default_rng(16)
CORNERS = [0, 1, 255, 256, 257, 4095, 32767, 32768, 65534, 65535]
GREY = [rng.integers(0, 65536, (9, 7)).astype(numpy.uint16) for _ in range(12)]
for grey in GREY:
    grey.flat[:len(CORNERS)] = CORNERS


def tiff12(values):
    """An uncompressed TIFF of 12 bits, which Pillow only reads; `values` has an even width."""
    high, low = values[:, 0::2].astype(int), values[:, 1::2].astype(int)
    packed = numpy.stack([high >> 4, (high & 15) << 4 | low >> 8, low & 255], -1).astype(numpy.uint8).tobytes()
    tags = [(256, values.shape[1]), (257, values.shape[0]), (258, 12), (259, 1), (262, 1), (273, 8), (277, 1),
            (278, values.shape[0]), (279, len(packed))]
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(packed)) + packed + struct.pack("<H", len(tags)) + body + bytes(4)


def files(folder):
    """Every kind of file that holds such greys."""
    os.makedirs(folder + "/c")
    at = folder + "/c/%02d"
    Image.fromarray(GREY[0]).save(at % 0 + ".png")
    Image.fromarray(GREY[1]).save(at % 1 + ".tif")
    for i, packing in ((2, "tiff_lzw"), (3, "tiff_deflate"), (4, "packbits")):
        Image.fromarray(GREY[i]).save(at % i + ".tif", compression=packing)
    big = Image.frombytes("I;16B", (7, 9), GREY[5].astype(">u2").tobytes())
    big.save(at % 5 + ".tif")
    open(at % 6 + ".pgm", "wb").write(b"P5 7 9 65535\n" + GREY[6].astype(">u2").tobytes())
    open(at % 7 + ".pgm", "wb").write(b"P5 7 9 4095\n" + (GREY[7] // 17).astype(">u2").tobytes())
    open(at % 8 + ".pgm", "wb").write(b"P2 7 9 65535\n" + b" ".join(b"%d" % v for v in GREY[8].flat))
    open(at % 9 + ".pgm", "wb").write(b"P2 7 9 1000\n" + b" ".join(b"%d" % (v % 1001) for v in GREY[9].flat))


def raw(path):
    """The values that Pillow reads, 0 to 65535."""
    with Image.open(path) as image:
        return numpy.asarray(image).astype(numpy.uint16)


def tensors(folder, dtype):
    return [numpy.frombuffer(t, dtype) for t in Packed(folder).tensors]


def check(name, source, option, wanted, dtype, out=[0]):
    out[0] += 1
    done = ffpack(source, "-o", "o%d" % out[0], *option)
    if done.returncode:
        return tap.ok(False, name, done.stderr.decode())
    found = tensors("o%d" % out[0], dtype)
    wrong = [i for i, (f, w) in enumerate(zip(found, wanted)) if f.tobytes() != numpy.ascontiguousarray(w).astype(dtype).tobytes()]
    return tap.ok(len(found) == len(wanted) and not wrong, name, "wrong: %s of %d, wanted %d" % (wrong, len(found), len(wanted)))


def scaled(grey, low, high):
    return ((grey.astype(numpy.float64) - low) / (high - low)).astype(numpy.float32)


files("grey")
names = sorted(os.listdir("grey/c"))
pixels = [raw("grey/c/" + name) for name in names]
tap.ok(max(p.max() for p in pixels) == 65535 and all((pixels[i] == GREY[i]).all() for i in (0, 1, 2, 3, 4, 5, 6, 8)), "Pillow reads what was written")
U16 = ["--dtype", "u16", "--range", "0,65535"]
check("u16 keeps all bits", "grey", U16, pixels, "<u2")
check("--range scales, as float32", "grey", ["--dtype", "f32", "--range", "0,65535"], [scaled(p, 0, 65535) for p in pixels], "<f4")
check("another range, f16", "grey", ["--range=-1024,3071"], [scaled(p, -1024, 3071) for p in pixels], "<f2")
mean, std = numpy.float32(0.25), numpy.float32(0.5)
check("and mean and std", "grey", ["--dtype", "f32", "--range", "0,4095", "--mean", "0.25", "--std", "0.5"],
      [(scaled(p, 0, 4095) - mean) / std for p in pixels], "<f4")
check("--mode gray says the same", "grey", U16 + ["--mode", "gray"], pixels, "<u2")
check("a center crop", "grey", U16 + ["--center-crop", "4x5"], [p[2:6, 1:6] for p in pixels], "<u2")
check("one beyond the image is padded with 0", "grey", U16 + ["--center-crop", "11x9"], [numpy.pad(p, 1) for p in pixels], "<u2")
check("hwc", "grey", U16 + ["--layout", "hwc", "--compress", "zstd"], pixels, "<u2")

# ---- 12 bits, orientation
os.makedirs("twelve/c")
twelve = rng.integers(0, 4096, (6, 8)).astype(numpy.uint16)
open("twelve/c/a.tif", "wb").write(tiff12(twelve))
check("a TIFF of 12 bits", "twelve", ["--dtype", "u16", "--range", "0,4095"], [twelve], "<u2")
os.makedirs("turned/c")
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(GREY[0][:7, :7]).save("turned/c/%d.png" % orientation, exif=exif.tobytes())
square = GREY[0][:7, :7]
turned = [square, square[:, ::-1], square[::-1, ::-1], square[::-1], square.T, numpy.rot90(square, -1), square[::-1, ::-1].T, numpy.rot90(square)]
check("--exif turns them", "turned", U16 + ["--exif"], turned, "<u2")
check("and without it they stay", "turned", U16, [square] * 8, "<u2")

for out, option in (("native", []), ("gray", ["--mode", "gray"])):
    ffpack("grey", "-o", out, *U16, *option)
tap.ok(subprocess.run(["diff", "-rx", "history.jsonl", "native", "gray"], capture_output=True).returncode == 0, "--mode gray makes the same set")

# ---- statistics, appended ones, an archive
done = ffpack("grey", "-o", "stats", *U16, "--stats", "compute", "--json")
import json  # noqa: E402
said = json.loads(done.stdout) if done.returncode == 0 else {}
every = numpy.concatenate([p.ravel() for p in pixels]).astype(numpy.float64) / 65535
tap.ok(done.returncode == 0 and abs(said["mean"][0] - every.mean()) < 1e-6 and abs(said["std"][0] - every.std()) < 1e-6,
       "mean and std are those of the scaled values", (done.stdout + done.stderr).decode())
tap.ok(done.returncode == 0 and all(not s.get("clipped") for s in said["splits"]), "nothing was clipped", said)
os.makedirs("more/c")
Image.fromarray(GREY[10]).save("more/c/10.png")
done = ffpack("append", "stats", "more")
found = tensors("stats", "<u2") if done.returncode == 0 else []
tap.ok(len(found) == 11 and (found[10] == GREY[10].ravel()).all(), "append packs more in the same way", done.stderr.decode())
subprocess.run(["tar", "cf", "grey.tar", "-C", "grey", "c"], check=True)
check("an archive of them", "grey.tar", U16, pixels, "<u2")
open("list.csv", "w").write("path,label\n" + "".join("grey/c/%s,c\n" % name for name in names))
check("a list of them", "list.csv", U16, pixels, "<u2")

# ---- what has no meaning is refused, by a dry run, too
os.makedirs("mixed/c")
Image.fromarray(GREY[0]).save("mixed/c/0.png")
OTHERS = {"grey of 8 bits": ("L", "png"), "colours": ("RGB", "png"), "a JPEG": ("L", "jpg"), "a TIFF of 8 bits": ("L", "tif"),
          "32 bits": ("I", "tif"), "floats": ("F", "tif"), "a BMP": ("RGB", "bmp")}
def deep_png(color, values):
    """A PNG of 7 x 9 pixels with 16 bits a value."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(7 * values * 2) for _ in range(9))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 9, 16, color, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


OTHERS.update({"colours of 16 bits": (deep_png(2, 3), "png"), "greys and alpha of 16 bits": (deep_png(4, 2), "png")})
for name, (mode, ending) in OTHERS.items():
    path = "mixed/c/1." + ending
    if isinstance(mode, bytes):
        open(path, "wb").write(mode)
    else:
        Image.new(mode, (7, 9), 40 if mode != "RGB" else (1, 2, 3)).save(path)
    for extra in (["-o", "no"], ["--dry-run"], ["-o", "no", "--on-error", "skip", "--max-skip", "100%"]):
        done = ffpack("mixed", *U16, *extra)
        text = done.stderr.decode()
        tap.ok(done.returncode == 2 and "mixed/c/1." in text and "has no greys of 16 bits" in text and text.count("\n") == 1 and not os.path.exists("no"),
               "%s: refused (%s)" % (name, extra[-1]), "exit %d %s" % (done.returncode, text))
    os.remove(path)
for option, piece in ((["--dtype", "u16"], "--dtype u16: of image files it stores greys of 16 bits: wanted --range LO,HI"),
                      (["--dtype", "u8", "--range", "0,255"], "--dtype u8: cannot store the greys of 16 bits that --range takes from grey"),
                      (U16 + ["--resize", "5"], "--resize: is for images of 8 bits"),
                      (U16 + ["--max-side", "5"], "--max-side: is for images of 8 bits"),
                      (U16 + ["--pad-square"], "--pad-square: is for images of 8 bits"),
                      (U16 + ["--fast-decode"], "--fast-decode: is for images of 8 bits"),
                      (U16 + ["--mode", "rgb"], "--mode rgb: is for images of 8 bits")):
    done = ffpack("grey", "-o", "no", *option)
    text = done.stderr.decode()
    tap.ok(done.returncode == 2 and piece in text and text.count("\n") == 1, "refused: %s" % " ".join(option), text)

# ---- a net trained on them predicts such files
os.makedirs("two/a")
os.makedirs("two/b")
for i in range(24):
    value = (rng.integers(0, 2000, (16, 16)) + (40000 if i % 2 else 300)).astype(numpy.uint16)
    Image.fromarray(value).save("two/%s/%02d.png" % ("ab"[i % 2], i))
done = ffpack("two", "-o", "net", "--dtype", "f32", "--range", "0,65535", "--mean", "0.3", "--std", "0.3")
fftrain = [os.path.join(tap.BUILD, "fftrain")]
trained = tap.run(fftrain + ["--data", "net", "--model", "smallnet", "--augment", "none", "-j1", "-e", "6", "--batch", "8", "--out", "run", "--lr", "0.01"])
predicted = tap.run(fftrain + ["predict", "-c", "run", "two"])
packed = tap.run(fftrain + ["predict", "-c", "run", "net"])


def answers(done):
    return [(a["class"], a["probability"]) for a in map(json.loads, done.stdout.splitlines())] if done.returncode == 0 else done.stderr


tap.ok(trained.returncode == 0 and answers(predicted) == answers(packed) and len(answers(packed)) == 24,
       "predict reads such files as the packed set has them", "%s\n%s\n%s" % (trained.stderr[-300:], answers(predicted), answers(packed)))
tap.finish()
