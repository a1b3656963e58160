"""Changes of u8 images against torchvision's functions on u8 tensors, given the same parameters: 0 differing values, on a
processor with fused multiply-adds (torch computes a + alpha * b with one rounding there, as on a GPU). The weights of blur are those of
torch's vectors of 8 values.
Prints TAP. Environment: BUILD."""
# Needs: tests/exact_change
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = tap.program("exact_change")
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"

try:
    import numpy
    import torch
    import v2
    from torchvision.transforms import autoaugment
except ImportError as missing:
    tap.skip("torchvision", missing)
    tap.finish()

torch.set_num_threads(1)


def image_of(rng, channels, height, width):
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    image = torch.randint(0, 256, (channels, height, width), dtype=torch.uint8, generator=generator)
    kind = rng.randrange(5)
    if kind == 0:  # few values, far from 0 and 255
        image = image // 64 * 20 + 90
    elif kind == 1:  # a ramp, as skies have
        image = (torch.arange(height).reshape(1, -1, 1) + torch.arange(width) // 2 + image // 64).to(torch.uint8)
        image = image.expand(channels, height, width).contiguous()
    elif kind == 2:  # one value in a channel
        image[rng.randrange(channels)] = rng.randrange(256)
    return image


def run(cases):
    """cases: [([(name, number)], image)]; the changed images."""
    given = b"".join(("apply %d %d %d %d\n" % ((len(changes),) + tuple(image.shape)) +
                      "".join("%s %s\n" % (name, " ".join(map(repr, number)) if isinstance(number, tuple) else repr(number))
                              for name, number in changes)).encode() + image.numpy().tobytes()
                     for changes, image in cases)
    out = subprocess.run([PROGRAM], input=given, stdout=subprocess.PIPE, check=True).stdout
    for _, image in cases:
        yield torch.from_numpy(numpy.frombuffer(out[:image.numel()], numpy.uint8).reshape(image.shape).copy())
        out = out[image.numel():]
    if out:
        raise SystemExit("%d bytes too many" % len(out))


def compare(title, cases):
    wrong, differing, total = [], 0, 0
    for (changes, image), found in zip(cases, run(cases)):
        wanted = image
        for name, number in changes:
            wanted = v2.CHANGE[name](wanted, number)
        off = (found != wanted).sum().item()
        differing, total = differing + off, total + wanted.numel()
        if off:
            wrong.append("%s of %s: %d values" % (changes, tuple(image.shape), off))
    tap.ok(not wrong, "%s: %d of %d values differ" % (title, differing, total), wrong[:20])


def factor(rng):
    return rng.choice((rng.uniform(0, 2), 1 + rng.choice((-1, 1)) * rng.randrange(31) * 0.033, rng.uniform(2, 20), 0.0, 1.0))


NUMBER = {"posterize": lambda rng: rng.randrange(9), "solarize": lambda rng: rng.choice((rng.uniform(0, 255), rng.randrange(256))),
          "brightness": factor, "contrast": factor, "color": factor, "sharpness": factor}
for end in ("", "_bilinear"):
    NUMBER["rotate" + end] = lambda rng: rng.choice((rng.uniform(-180, 180), rng.randrange(-30, 31) * 4.5, rng.randrange(-4, 5) * 90.0))
    NUMBER["shear_x" + end] = NUMBER["shear_y" + end] = lambda rng: rng.choice((-1, 1)) * rng.randrange(31) * 0.033
    NUMBER["affine" + end] = lambda rng: (
        rng.choice((0.0, rng.uniform(-180, 180))), rng.randrange(-40, 41), rng.randrange(-40, 41),
        rng.choice((1.0, rng.uniform(0.1, 10))), rng.choice((0.0, rng.uniform(-80, 80))))


def number(rng, name, sides):
    if name != "blur":
        return NUMBER.get(name, lambda rng: 0)(rng)
    # The size reflects fewer pixels than the image has; sigma is of f32, as torchvision draws it.
    sigma = numpy.float32(rng.choice((rng.uniform(0.1, 2), 0.1, 2.0, rng.uniform(2, 30), 0.02)))
    return 1 + 2 * rng.randrange(min(32, *sides)), float(sigma)


def case_of(rng, names):
    channels, sides = rng.choice((1, 3, 3)), [rng.choice((1, 2, 3, 15, 32, rng.randrange(1, 100))) for _ in range(2)]
    changes = [(name, number(rng, name, sides)) for name in names]
    return changes, image_of(rng, channels, *sides)


print("# " + v2.VERSIONS)
for name in v2.CHANGE:
    rng = random.Random(name)
    cases = [case_of(rng, [name]) for _ in range(80)]
    cases.append(([(name, number(rng, name, (224, 224)))], image_of(rng, 3, 224, 224)))
    compare(name, cases)
rng = random.Random("several")
compare("several in a row", [case_of(rng, rng.choices(list(v2.CHANGE), k=rng.randrange(2, 9))) for _ in range(200)])



class AugMix(v2.AugMix):
    """torchvision's, with these weights and changes: of chains of at most DEPTH, those that are missing change nothing."""
    DEPTH = 4

    def __init__(self, own, shares, chains):
        super().__init__(mixture_width=len(chains), chain_depth=self.DEPTH)
        self.weights = [torch.stack([own, 1 - own]), torch.tensor(shares)]
        self.left = [change for chain in chains for change in chain + [None] * (self.DEPTH - len(chain))]

    def _sample_dirichlet(self, params):
        return self.weights.pop(0).expand(params.shape)

    def change(self, image, *_, **__):
        change = self.left.pop(0)
        return image if change is None else v2.CHANGE[change[0]](image[0], change[1])[None]

    _apply_image_or_video_transform = change  # of 0.29


def mix(rng, image, chains):
    """The changes and the wanted image."""
    own = torch.tensor(rng.choice((rng.random(), 0.0, 1.0, 0.5, rng.random() * 1e-6)))
    shares = [rng.gammavariate(0.7, 1) for _ in chains]
    shares = [share / sum(shares) for share in shares]
    transform = AugMix(own, shares, chains)
    autoaugment._apply_op = transform.change  # of versions before 0.15
    changes = [("mix", own.item())]
    for chain, weight in zip(chains, (torch.tensor(shares) * (1 - own)).tolist()):
        changes += chain + [("chain", weight)]
    return changes + [("mixed", 0)], transform(image)


def compare_mixtures(title, cases):
    cases = list(cases)
    wrong, total = [], 0
    for (changes, image, wanted), found in zip(cases, run([(changes, image) for changes, image, _ in cases])):
        off, total = (found != wanted).sum().item(), total + wanted.numel()
        if off:
            wrong.append("%s of %s: %d values" % (changes, tuple(image.shape), off))
    tap.ok(not wrong, "%s: %d of %d mixtures differ, of %d values" % (title, len(wrong), len(cases), total), wrong[:20])


def mixture_of(rng, names, sides, channels):
    chains = [[(name, number(rng, name, sides)) for name in rng.choices(names, k=rng.randrange(AugMix.DEPTH + 1))]
              for _ in range(rng.randrange(1, 9))]
    image = image_of(rng, channels, *sides)
    changes, wanted = mix(rng, image, chains)
    if rng.randrange(2):  # other changes before and after
        before, after = rng.choices(names, k=2)
        before, after = (before, number(rng, before, sides)), (after, number(rng, after, sides))
        changes, wanted = mix(rng, v2.CHANGE[before[0]](image, before[1]), chains)
        changes, wanted = [before] + changes + [after], v2.CHANGE[after[0]](wanted, after[1])
    return changes, image, wanted


rng = random.Random("mixtures")
names = [name for name in v2.CHANGE if name != "blur"]
compare_mixtures("AugMix", [mixture_of(rng, names, [rng.choice((1, 2, 3, 15, 32, rng.randrange(1, 100))) for _ in range(2)],
                                       rng.choice((1, 3, 3))) for _ in range(200)])
compare_mixtures("AugMix of 224x224", [mixture_of(rng, names, (224, 224), 3) for _ in range(6)])

# SimCLR's and DINO's; halves, where the order of the sums decides; black and white.
rng = random.Random("blur")
images = [image_of(rng, 3, 224, 224) for _ in range(8)]
halves = torch.arange(224).reshape(1, -1, 1).add(torch.arange(224)).remainder(2).add(100).expand(3, 224, 224).to(torch.uint8).contiguous()
compare("blur of 224x224 by 23", [([("blur", (23, float(numpy.float32(rng.uniform(0.1, 2)))))], image) for image in images + [halves, halves * 255]])

# Every colour there is: 2^24 pixels.
axis = torch.arange(256, dtype=torch.uint8)
colours = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij")).reshape(3, 4096, 4096)
compare("the grey of all colours", [([("grayscale", 0)], colours)])
tap.finish()
