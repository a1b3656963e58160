"""Pillow and torchvision as the oracle of the exactness tests: our program's results, theirs, and TAP lines
about the differences. A test without them is skipped when this is imported.

Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository); FF_PILLOW_OF_PYPI=1 where
Pillow brings its own libraries (test_pillow_versions.py)."""
import inspect
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = tap.program("exact_image")
SHARED = os.environ.get("FF_SHARED_DATA", os.path.join(tap.ROOT, "..", "shared", "data"))

try:
    import numpy
    import PIL
    import torch
    import torchvision
    from PIL import Image, ImageFile, ImageOps, PpmImagePlugin, features
    from torchvision import transforms
    from torchvision.transforms import functional
except ImportError as missing:
    tap.skip("torchvision", missing)
    tap.finish()

torch.set_num_threads(1)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INTERPOLATION = {
    "bilinear": transforms.InterpolationMode.BILINEAR,
    "bicubic": transforms.InterpolationMode.BICUBIC,
}
# Where Pillow's versions differ, the newer one is followed (README.md): an older oracle is adapted.
VERSION = tuple(map(int, PIL.__version__.split(".")[:2]))
OLD = VERSION < (10, 0)
PYPI = os.environ.get("FF_PILLOW_OF_PYPI") == "1"
# libjpeg-turbo 3, which PyPI's Pillow has, smooths the blocks of incomplete progressive JPEGs otherwise than 2.
SMOOTHS_OTHERWISE = int((features.version("libjpeg_turbo") or "0").split(".")[0]) >= 3


def run(files, **options):
    """[(bytes, shape) or an error's message] of each file."""
    arguments = [PROGRAM]
    options.setdefault("pillow_12", VERSION < (13, 0))
    for name, value in options.items():
        if value is not False:
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


def palette_colors(image):
    """The colours of the palette as the file has them; None where the image has no palette."""
    if image.mode != "P" or image.palette is None:
        return None
    rawmode, values = image.palette.getdata()
    return len(values) // len(rawmode.split(";")[0])


def blacken(image, colors):
    """Entries beyond a short palette are black; before Pillow 10 they were grey."""
    image.load()
    if colors is not None and image.mode == "P":
        image.putpalette(image.im.getpalette("RGB", "RGB")[: 3 * colors].ljust(768, b"\0"))


def repair_plain_ppm():
    """Before Pillow 10 a number that a block ends within comes again in every later block, and at the end."""
    source = textwrap.dedent(inspect.getsource(PpmImagePlugin.PpmPlainDecoder._decode_blocks))
    for wrong, right in (("half_token = False", 'half_token = b""'),
                         ("block = half_token + block", 'block, half_token = half_token + block, b""')):
        assert source.count(wrong) == 1
        source = source.replace(wrong, right)
    names = {}
    exec(source, vars(PpmImagePlugin), names)
    PpmImagePlugin.PpmPlainDecoder._decode_blocks = names["_decode_blocks"]


if OLD:
    repair_plain_ppm()


def open_image(data, mode, exif=False, draft=None):
    """draft: the resize's (height, width) from (height, width), which Pillow may reduce a JPEG for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        if draft:
            image.draft("RGB", draft((image.height, image.width))[::-1])
        if OLD:
            blacken(image, palette_colors(image))
        return (ImageOps.exif_transpose(image) if exif else image).convert("L" if mode == "gray" else "RGB")


def native_size(data):
    """(height, width) as the file says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Image.open(io.BytesIO(data)).size[::-1]


def pad_square(image):
    side = max(image.size)
    across, down = side - image.width, side - image.height
    return functional.pad(image, [across // 2, down // 2, across - across // 2, down - down // 2])


def bounded(size, most):
    """(height, width) shrunk to a long side of at most `most`."""
    if max(size) <= most:
        return size
    return tuple(most if side == max(size) else max(1, int(most * side / max(size))) for side in size)


def resize_to(find_size, interpolation):
    """A step that resizes to find_size of the native size, which a reduced image still knows."""
    def step(image):
        height, width = find_size(image.native)
        return image if image.size == (width, height) else functional.resize(
            image, [height, width], interpolation=INTERPOLATION[interpolation])
    return step


def short_side(size, wanted):
    short = min(size)
    return tuple(wanted if side == short else int(wanted * side / short) for side in size)


def expected(data, mode, steps, dtype, layout, normalize, exif, draft):
    image = open_image(data, mode, exif, draft)
    image.native = native_size(data)
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
            normalize=True, exif=False, max_side=None, square=False, fast=False):
    """files: [(name, bytes)]. resize: N or (h, w); crop: N or (h, w). One TAP line."""
    draft = None
    options = {"mode": mode, "dtype": dtype, "layout": layout, "interpolation": interpolation}
    steps = []
    if exif:
        options["exif"] = True
    if square:
        options["pad_square"] = True
        steps.append(pad_square)
    if max_side:
        options["max_side"] = max_side
    if resize:
        options["resize"] = resize if isinstance(resize, int) else "%dx%d" % resize
    if fast:
        options["fast_decode"] = True
        draft = lambda size: short_side(size, resize)
        steps.append(resize_to(draft, interpolation))
    elif resize:
        steps.append(transforms.Resize(resize, interpolation=INTERPOLATION[interpolation], max_size=max_side))
    elif max_side and square:
        steps.append(lambda image: image if image.width <= max_side else functional.resize(
            image, [max_side, max_side], interpolation=INTERPOLATION[interpolation]))
    elif max_side:
        steps.append(resize_to(lambda size: bounded(size, max_side), interpolation))
    if crop:
        options["crop"] = crop if isinstance(crop, int) else "%dx%d" % crop
        steps.append(transforms.CenterCrop(crop))
    if normalize and dtype != "u8":
        options["mean"], options["std"] = ",".join(map(repr, MEAN)), ",".join(map(repr, STD))
    wrong, values = [], 0
    for start in range(0, len(files), 40):
        part = files[start : start + 40]
        for (file_name, data), got in zip(part, run([data for _, data in part], **options)):
            want = expected(data, mode, steps, dtype, layout, normalize, exif, draft)
            values += len(want)
            if isinstance(got, str):
                wrong.append("%s: %s" % (file_name, got))
            elif got[0] != want:
                differing = sum(a != b for a, b in zip(got[0], want)) if len(got[0]) == len(want) else -1
                wrong.append("%s: %d of %d bytes differ, shape %s" % (file_name, differing, len(want), got[1]))
    tap.ok(not wrong, "%s (%d files, %d bytes)" % (name, len(files), values), wrong)


def pillow(data, mode="rgb"):
    """Pillow's pixels, or None where it refuses."""
    try:
        return open_image(data, mode).tobytes()
    except Exception:
        return None


def damage(name, files, allowed=lambda sentence: False, most=None, truncated=False, mode="rgb",
           lenient=0, undefined=0):
    """Every file as Pillow has it: refused where it refuses, else the same pixels; what only we
    refuse must be `allowed`, and at most `most` files; what only Pillow refuses at most `lenient`;
    and `undefined` are at most those whose pixels come from memory that Pillow has not written. files: [bytes]."""
    wrong, refused, stricter, laxer, other = [], 0, 0, 0, 0
    options = {"allow_truncated": True} if truncated else {}
    results = run(files, mode=mode, dtype="u8", layout="hwc", pixel_limit=1000000, **options)
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = truncated, 500000
    for i, (data, got) in enumerate(zip(files, results)):
        want = pillow(data, mode)
        if isinstance(got, str):
            refused += 1
            stricter += want is not None
            if want is not None and not allowed(got):
                wrong.append("file %d: only we refuse: %s" % (i, got))
            if not got or "\n" in got:
                wrong.append("file %d: not a message: %r" % (i, got))
        elif want is None:
            laxer += 1
            if laxer > lenient:
                wrong.append("file %d: only Pillow refuses" % i)
        elif got[0] != want:
            other += 1
            if other > undefined:
                wrong.append("file %d: other pixels" % i)
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = False, 89478485
    if most is not None and stricter > most:
        wrong.append("only we refuse %d files, at most %d wanted" % (stricter, most))
    summary = "%s (%d files, %d refused, %d of them only by us)" % (name, len(files), refused, stricter)
    tap.ok(not wrong, summary, ["%d wrong" % len(wrong)] + wrong if wrong else [])


def is_grey(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Image.open(io.BytesIO(data)).mode in ("1", "L", "LA", "I", "I;16", "I;16B", "F")


def agree(name, files, refused=0, exif=False, modes=("rgb", "gray", "native"), allowed=lambda name: False,
          errs=lambda name: False):
    """Every file as Pillow has it, in every mode; `refused` of them Pillow and we refuse, and only we those
    whose name is `allowed`. What this version of Pillow is known to do wrong, it must still do wrong: files
    whose name `errs`; tests give their correct values. files: [(name, bytes)]."""
    options = {"exif": True} if exif else {}
    for mode in modes:
        wrong, both, values = [], 0, 0
        for start in range(0, len(files), 60):
            part = files[start : start + 60]
            results = run([data for _, data in part], mode=mode, dtype="u8", layout="hwc", **options)
            for (file_name, data), got in zip(part, results):
                try:
                    wanted_mode = mode if mode != "native" else "gray" if is_grey(data) else "rgb"
                    want = numpy.asarray(open_image(data, wanted_mode, exif))
                except Exception as why:
                    if errs(file_name) and not isinstance(got, str):
                        continue
                    both += isinstance(got, str)
                    if not isinstance(got, str):
                        wrong.append("%s: only Pillow refuses: %s" % (file_name, why))
                    continue
                values += want.size
                if errs(file_name):
                    if isinstance(got, str) or got[0] == want.tobytes():
                        wrong.append("%s: Pillow is not known to be right" % file_name)
                elif isinstance(got, str):
                    if not allowed(file_name):
                        wrong.append("%s: only we refuse: %s" % (file_name, got))
                elif got[1] != want.shape + (1,) * (3 - want.ndim):
                    wrong.append("%s: shape %s, wanted %s" % (file_name, got[1], want.shape))
                elif got[0] != want.tobytes():
                    wrong.append("%s: other pixels" % file_name)
        if refused is not None and both != refused:
            wrong.append("%d files refused by both, wanted %d" % (both, refused))
        tap.ok(not wrong, "%s, mode %s (%d files, %d values)" % (name, mode, len(files), values), wrong)


def have(name, files, pillow_12=False):
    """Files whose pixels are known, [(name, bytes, [(r, g, b) of each pixel])]: for what some versions of
    Pillow do wrong."""
    results = run([data for _, data, _ in files], mode="rgb", dtype="u8", layout="hwc", pillow_12=pillow_12)
    for (file_name, _, want), got in zip(files, results):
        want = bytes(value for pixel in want for value in pixel)
        good = not isinstance(got, str) and got[0] == want
        tap.ok(good, "%s, %s" % (name, file_name), [] if good else ["%r" % (got,), "%r wanted" % want])


def flips(data, start, how_many, seed):
    rng = random.Random(seed)
    for _ in range(how_many):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(start, len(data))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


def photographs():
    path = os.path.join(SHARED, "imagenet-sample-400.tar")
    if not os.path.exists(path):
        return None
    with tarfile.open(path) as archive:
        return [(m.name, archive.extractfile(m).read()) for m in archive if m.isfile()]
