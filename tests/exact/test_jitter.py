"""Colour jitter against torchvision's functions on float tensors, given the same factors in the same order.

Without contrast the same operations are rounded in the same order, so the bits are the same. The mean of contrast is
summed otherwise: exactly, of values cut off to 2^-30, where torch sums in f32; they differ by at most a few 2^-24, which
contrast multiplies by |1 - factor| <= 2, and the changes after it by at most 2 each (saturation by up to 1 + |1 - factor|,
the hue's six corners lie between the smallest and the largest colour): 2^-18 is beyond all of that.
Prints TAP. Environment: BUILD."""
# Needs: tests/exact_jitter
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = tap.program("exact_jitter")

try:
    import numpy
    import torch
    import torchvision
    from torchvision.transforms import functional
except ImportError as missing:
    tap.skip("torchvision", missing)
    tap.finish()

torch.set_num_threads(1)
CHANGE = (functional.adjust_brightness, functional.adjust_contrast, functional.adjust_saturation, functional.adjust_hue)
CONTRAST = 1


def image_of(rng, channels, height, width):
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    image = torch.rand((channels, height, width), generator=generator)
    if rng.randrange(2):  # what u8 pixels are, with greys, black and white among them
        image = (image * 5).floor() / 4 if rng.randrange(2) else (image * 255).round() / 255
    if channels == 3 and rng.randrange(3) == 0:
        image[:, : height // 2] = image[:1, : height // 2]
    return image.clamp(0, 1)


def run(cases):
    given = b"".join(("%d %d %d %d %d %d %r %r %r %r\n" % (case[:3] + tuple(image.shape) + case[3])).encode() +
                     image.numpy().tobytes() for case, image in cases)
    out = subprocess.run([PROGRAM], input=given, stdout=subprocess.PIPE, check=True).stdout
    for _, image in cases:
        line, out = out.split(b"\n", 1)
        words = line.decode().split()
        size = image.numel() * 4
        yield ([float.fromhex(word) for word in words[:4]], [int(word) for word in words[4:]],
               torch.from_numpy(numpy.frombuffer(out[:size], numpy.float32).reshape(image.shape).copy()))
        out = out[size:]
    if out:
        raise SystemExit("%d bytes too many" % len(out))


def compare(name, amounts, channels=3):
    rng = random.Random(repr((name, amounts)))
    cases = []
    for i in range(120):
        sides = [rng.choice((1, 2, 3, 15, 32, rng.randrange(1, 100))) for _ in range(2)]
        amount = tuple(rng.choice((0.0, 1.0)) * a * rng.random() for a in amounts)
        cases.append(((rng.randrange(2**63), rng.randrange(2**32), i, amount), image_of(rng, channels, *sides)))
    cases.append(((1, 2, 3, tuple(map(float, amounts))), image_of(rng, channels, 300, 500)))
    wrong, same, total, worst, changes = [], 0, 0, 0.0, 0
    for (case, image), (factors, order, found) in zip(cases, run(cases)):
        amount = case[3]
        if sorted(order) != [k for k in range(4) if amount[k] > 0]:
            wrong.append("%s: changes %s" % (case, order))
        for k in range(4):
            low, high = (-amount[3], amount[3]) if k == 3 else (max(0, 1 - amount[k]), 1 + amount[k])
            if not low - 1e-6 <= factors[k] <= high + 1e-6:
                wrong.append("%s: factor %d is %g" % (case, k, factors[k]))
        wanted = image
        for k in order:
            wanted = CHANGE[k](wanted, factors[k])
        off = (found - wanted).abs().max().item()
        worst, changes = max(worst, off), changes + len(order)
        same += (found == wanted).sum().item()
        total += wanted.numel()
        if not off <= (2.0**-18 if CONTRAST in order else 0.0):
            wrong.append("%s, order %s, factors %s: off by %g" % (case, order, factors, off))
    tap.ok(not wrong, "%s (%d changes, %.2f %% of %d values bit-equal, the worst off by %g)" % (
        name, changes, 100 * same / total, total, worst), wrong)


print("# torch %s, torchvision %s" % (torch.__version__, torchvision.__version__))
compare("brightness", (1.5, 0, 0, 0))
compare("contrast", (0, 1.5, 0, 0))
compare("saturation", (0, 0, 1.5, 0))
compare("hue", (0, 0, 0, 0.5))
compare("brightness, saturation and hue in any order", (0.9, 0, 0.9, 0.4))
compare("all of them in any order", (0.4, 0.4, 0.4, 0.1))
compare("all of them, far", (1.0, 1.0, 1.0, 0.5))
compare("images of one channel", (0.9, 0.9, 0.9, 0.5), channels=1)
tap.finish()
