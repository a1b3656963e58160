"""Decode, resize, crop, ToTensor and Normalize against Pillow and torchvision: equal bytes.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data beside the repository)."""
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build")), "tests", "exact_image")
SHARED = os.environ.get("FF_SHARED_DATA", os.path.join(ROOT, "..", "shared", "data"))
sys.path.insert(0, HERE)

try:
    import numpy
    import PIL
    import torch
    import torchvision
    from PIL import Image, ImageFile, ImageOps
    from torchvision import transforms
except ImportError as missing:
    print("1..1\nok 1 - torchvision # SKIP %s" % missing)
    sys.exit(0)
import odd_files

torch.set_num_threads(1)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INTERPOLATION = {
    "bilinear": transforms.InterpolationMode.BILINEAR,
    "bicubic": transforms.InterpolationMode.BICUBIC,
}
count = failures = 0


def report(good, name, lines=()):
    global count, failures
    count += 1
    failures += not good
    print("%sok %d - %s" % ("" if good else "not ", count, name))
    for line in list(lines)[:10]:
        print("#   " + line)


def run(files, **options):
    """[(bytes, shape) or an error's sentence] of each file."""
    arguments = [PROGRAM]
    for name, value in options.items():
        arguments.append("--" + name.replace("_", "-") + ("" if value is True else "=%s" % value))
    with tempfile.TemporaryFile() as given:
        for data in files:
            given.write(b"%d\n" % len(data) + data)
        given.seek(0)
        done = subprocess.run(arguments, stdin=given, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit("%s: exit %d" % (" ".join(arguments), done.returncode))
    results, at = [], 0
    while at < len(done.stdout):
        end = done.stdout.index(b"\n", at)
        line, at = done.stdout[at:end].decode("utf-8", "replace"), end + 1
        if line.startswith("ok "):
            width, height, channels, size = map(int, line.split()[1:])
            results.append((done.stdout[at : at + size], (height, width, channels)))
            at += size
        else:
            results.append(line[len("error ") :])
    assert len(results) == len(files)
    return results


def tensor_bytes(tensor, dtype, layout):
    if layout == "hwc":
        tensor = tensor.permute(1, 2, 0)
    tensor = tensor.contiguous()
    if dtype == "f16":
        return tensor.half().numpy().tobytes()
    if dtype == "bf16":
        return tensor.bfloat16().view(torch.int16).numpy().tobytes()
    return tensor.numpy().tobytes()


def open_image(data, mode, exif=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        return (ImageOps.exif_transpose(image) if exif else image).convert("L" if mode == "gray" else "RGB")


def expected(data, mode, steps, dtype, layout, normalize, exif):
    image = open_image(data, mode, exif)
    for step in steps:
        image = step(image)
    if dtype == "u8":
        values = numpy.asarray(image).reshape(image.height, image.width, -1)
        return (values if layout == "hwc" else numpy.ascontiguousarray(values.transpose(2, 0, 1))).tobytes()
    tensor = transforms.ToTensor()(image)
    if normalize:
        channels = tensor.shape[0]
        tensor = transforms.Normalize(MEAN[:channels], STD[:channels])(tensor)
    return tensor_bytes(tensor, dtype, layout)


def compare(name, files, mode="rgb", resize=None, crop=None, interpolation="bilinear", dtype="f32", layout="chw",
            normalize=True, exif=False):
    """files: [(name, bytes)]. resize: N or (h, w); crop: N or (h, w). One TAP line."""
    options = {"mode": mode, "dtype": dtype, "layout": layout, "interpolation": interpolation}
    steps = []
    if exif:
        options["exif"] = True
    if resize:
        options["resize"] = resize if isinstance(resize, int) else "%dx%d" % resize
        steps.append(transforms.Resize(resize, interpolation=INTERPOLATION[interpolation]))
    if crop:
        options["crop"] = crop if isinstance(crop, int) else "%dx%d" % crop
        steps.append(transforms.CenterCrop(crop))
    if normalize and dtype != "u8":
        options["mean"], options["std"] = ",".join(map(repr, MEAN)), ",".join(map(repr, STD))
    wrong, values = [], 0
    for start in range(0, len(files), 40):
        part = files[start : start + 40]
        for (file_name, data), got in zip(part, run([data for _, data in part], **options)):
            want = expected(data, mode, steps, dtype, layout, normalize, exif)
            values += len(want)
            if isinstance(got, str):
                wrong.append("%s: %s" % (file_name, got))
            elif got[0] != want:
                differing = sum(a != b for a, b in zip(got[0], want)) if len(got[0]) == len(want) else -1
                wrong.append("%s: %d of %d bytes differ, shape %s" % (file_name, differing, len(want), got[1]))
    report(not wrong, "%s (%d files, %d bytes)" % (name, len(files), values), wrong)


def pillow(data, mode="rgb"):
    """Pillow's pixels, or None where it refuses."""
    try:
        return open_image(data, mode).tobytes()
    except Exception:
        return None


def damage(name, files, allowed=lambda sentence: False, most=None, truncated=False, mode="rgb",
           lenient=0):
    """Every file as Pillow has it: refused where it refuses, else the same pixels; what only we
    refuse must be `allowed`, and at most `most` files; what only Pillow refuses at most `lenient`.
    files: [bytes]."""
    wrong, refused, stricter, laxer = [], 0, 0, 0
    options = {"allow_truncated": True} if truncated else {}
    results = run(files, mode=mode, dtype="u8", layout="hwc", pixel_limit=1000000, **options)
    ImageFile.LOAD_TRUNCATED_IMAGES = truncated
    for i, (data, got) in enumerate(zip(files, results)):
        want = pillow(data, mode)
        if isinstance(got, str):
            refused += 1
            stricter += want is not None
            if want is not None and not allowed(got):
                wrong.append("file %d: only we refuse: %s" % (i, got))
            if not got or "\n" in got:
                wrong.append("file %d: not a sentence: %r" % (i, got))
        elif want is None:
            laxer += 1
            if laxer > lenient:
                wrong.append("file %d: only Pillow refuses" % i)
        elif got[0] != want:
            wrong.append("file %d: other pixels" % i)
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    if most is not None and stricter > most:
        wrong.append("only we refuse %d files, at most %d wanted" % (stricter, most))
    summary = "%s (%d files, %d refused, %d of them only by us)" % (name, len(files), refused, stricter)
    report(not wrong, summary, ["%d wrong" % len(wrong)] + wrong if wrong else [])


def flips(data, start, how_many, seed):
    rng = random.Random(seed)
    for _ in range(how_many):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(start, len(data))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


def odd_sizes():
    rng = random.Random(1)
    sizes = [(1, 1), (1, 40), (40, 1), (2, 3), (3, 2), (223, 224), (224, 223), (255, 257), (500, 375), (31, 301)]
    sizes += [(rng.randrange(1, 90), rng.randrange(1, 90)) for _ in range(20)]
    for width, height in sizes:
        out = io.BytesIO()
        odd_files.picture(Image, "RGB", width, height).save(out, "PNG")
        yield "%dx%d" % (width, height), out.getvalue()


def photographs():
    path = os.path.join(SHARED, "imagenet-sample-400.tar")
    if not os.path.exists(path):
        return None
    with tarfile.open(path) as archive:
        return [(m.name, archive.extractfile(m).read()) for m in archive if m.isfile()]


def main():
    print("# torch %s, torchvision %s, Pillow %s" % (torch.__version__, torchvision.__version__, PIL.__version__))
    odd = list(odd_files.pngs()) + list(odd_files.jpegs(Image))
    for mode in ("rgb", "gray"):
        compare("odd files, mode %s, u8" % mode, odd, mode=mode, dtype="u8", layout="hwc")
    for dtype in ("f32", "f16", "bf16"):
        for layout in ("chw", "hwc"):
            compare("odd files, %s %s normalized" % (dtype, layout), odd[::3], dtype=dtype, layout=layout)
    compare("odd files, gray f32", odd[1::3], mode="gray")
    compare("odd files, ToTensor only", odd[2::3], normalize=False)
    turned = list(odd_files.turned_files(Image))
    compare("EXIF orientations, u8", turned, dtype="u8", exif=True)
    compare("EXIF orientations, gray", turned, mode="gray", dtype="u8", exif=True)
    compare("EXIF orientations, ignored", turned, dtype="u8")
    compare("EXIF orientations, resize and crop, f32", turned[::5], resize=20, crop=17, exif=True)

    sized = list(odd_sizes())
    for interpolation in ("bilinear", "bicubic"):
        for resize, crop in ((256, 224), (32, 32), (17, None), ((20, 300), None), ((64, 64), (70, 51)), (7, 5)):
            compare("odd sizes, %s, resize %s, crop %s" % (interpolation, resize, crop), sized, resize=resize,
                    crop=crop, interpolation=interpolation, dtype="u8")
        compare("odd sizes gray, %s" % interpolation, sized, mode="gray", resize=48, crop=(48, 40), dtype="u8",
                interpolation=interpolation)
    for crop in (1, 50, 51, (33, 64), (300, 3)):
        compare("odd sizes, crop %s without resize" % (crop,), sized, crop=crop, dtype="u8")

    small = [data for name, data in odd_files.jpegs(Image) if "7x9" in name or "33x65" in name]
    # Whether Pillow notices a missing end marker depends on how its bit buffer happens to be filled.
    # The same goes for damage behind the last pixel.
    no_end = lambda sentence: sentence.startswith("truncated JPEG") and sentence.endswith("end of the image")
    rare = lambda sentence: no_end(sentence) or sentence.startswith("broken JPEG")
    strict = lambda sentence: sentence.startswith(("broken PNG", "truncated PNG"))
    for i, data in enumerate(small[:10]):
        damage("jpeg %d cut at every byte" % i, [data[:n] for n in range(len(data))], no_end)
        damage("jpeg %d cut at every byte, allowed" % i, [data[:n] for n in range(len(data))], truncated=True)
        damage("jpeg %d with flipped bits" % i, list(flips(data, 2, 300, i)), rare, 6)
        # Pillow's own parser looks closer at a header's segments than libjpeg.
        damage("jpeg %d with flipped bits, allowed" % i, list(flips(data, 2, 300, i)),
               lambda sentence: "JPEG" in sentence, 3, truncated=True, lenient=8)
    for color in odd_files.DEPTHS:
        data = odd_files.png(9, 7, 8, color, interlaced=color % 4 == 0, idat_bytes=60)
        damage("png of colour type %d cut at every byte" % color, [data[:n] for n in range(len(data))], strict)
        damage("png of colour type %d with flipped bits" % color, list(flips(data, 8, 200, color)), strict)

    photos = photographs()
    if not photos:
        report(True, "photographs # SKIP imagenet-sample-400.tar is not in FF_SHARED_DATA (%s)" % SHARED)
    else:
        compare("photographs, resize 256, crop 224, f32", photos, resize=256, crop=224)
        some = photos[::10]
        for dtype in ("f16", "bf16"):
            compare("photographs, resize 256, crop 224, %s" % dtype, some, resize=256, crop=224, dtype=dtype)
        compare("photographs, bicubic 232, crop 224, f16 hwc", some, resize=232, crop=224, dtype="f16", layout="hwc",
                interpolation="bicubic")
        compare("photographs, gray, resize 64x64", some, mode="gray", resize=(64, 64), dtype="u8")
        compare("photographs, as they are, u8", some, dtype="u8", layout="hwc")
    print("1..%d" % count)
    return failures != 0


sys.exit(main())
