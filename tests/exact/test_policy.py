"""What policies draw, against torchvision's: every drawn change has the parameters that torchvision makes of one of its
operations and magnitudes, and their frequencies are theirs (chi-squared, at a level of one in a million). The weights of AugMix are
distributed as torchvision's (Kolmogorov and Smirnov's test of two samples, at the same level).
Prints TAP. Environment: BUILD."""
# Needs: tests/exact_change
import collections
import functools
import itertools
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = tap.program("exact_change")

try:
    import numpy
    import torch
    from torchvision.transforms import autoaugment
    from torchvision.transforms.functional import _get_inverse_affine_matrix as inverse
except ImportError as missing:
    tap.skip("torchvision", missing)
    tap.finish()

HEIGHT, WIDTH = 160, 224
KIND = {"Posterize": 0, "Solarize": 1, "Invert": 2, "Brightness": 3, "Equalize": 4, "AutoContrast": 5, "Contrast": 6, "Color": 7,
        "Sharpness": 9}

MARK = {13: ("mix",), 14: ("chain",), 15: ("mixed",)}  # without their weights

known = {}  # of each kind, the numbers seen first


def key(kind, values):
    """Numbers that differ by rounding are the same key."""
    for other in known.setdefault(kind, []):
        if all(abs(a - b) <= 1e-6 * abs(b) + 1e-9 for a, b in zip(values, other)):
            return (kind,) + other
    known[kind].append(tuple(values))
    return (kind,) + tuple(values)


def key_of(name, magnitude, bilinear):
    """What exact_change prints of torchvision's operation with a magnitude; None: nothing."""
    shift = int(abs(magnitude) + 1e-4) * (1 if magnitude > 0 else -1)  # torch's 16 may be 15.999999
    centre = [-WIDTH * 0.5, -HEIGHT * 0.5]
    matrix = {
        "ShearX": lambda: inverse(centre, 0.0, [0, 0], 1.0, [math.degrees(math.atan(magnitude)), 0.0]),
        "ShearY": lambda: inverse(centre, 0.0, [0, 0], 1.0, [0.0, math.degrees(math.atan(magnitude))]),
        "TranslateX": lambda: inverse([0, 0], 0.0, [shift, 0], 1.0, [0.0, 0.0]),
        "TranslateY": lambda: inverse([0, 0], 0.0, [0, shift], 1.0, [0.0, 0.0]),
        "Rotate": lambda: inverse([0, 0], -magnitude, [0, 0], 1.0, [0.0, 0.0]),
    }.get(name)
    if matrix:
        return key(11 if bilinear else 10, [m / (0.5 * (WIDTH if i < 3 else HEIGHT)) for i, m in enumerate(matrix())])
    if name == "Identity":
        return None
    value = {"Posterize": int(magnitude), "Solarize": magnitude}.get(
        name, 0.0 if name in ("Invert", "Equalize", "AutoContrast") else 1.0 + magnitude)
    return key(KIND[name], [value, 1.0 - value, 0, 0, 0, 0])


def outcomes(space, name, indexes, bilinear):
    """[(probability, key)] of an operation whose magnitude is one of `indexes`."""
    magnitudes, signed = space[name]
    if magnitudes.ndim == 0:
        return [(1.0, key_of(name, 0.0, bilinear))]
    signs = (1, -1) if signed else (1,)
    return [(1.0 / len(indexes) / len(signs), key_of(name, sign * float(magnitudes[i]), bilinear))
            for i in indexes for sign in signs]


def distribution(*steps):
    """{tuple of keys: probability} of independent steps, each [(probability, key)]."""
    found = collections.Counter()
    for chosen in itertools.product(*steps):
        found[tuple(k for _, k in chosen if k)] += math.prod(p for p, _ in chosen)
    return found


def any_of(space, indexes, bilinear):
    return [(p / len(space), k) for name in space for p, k in outcomes(space, name, indexes, bilinear)]


def auto(policy):
    transform = autoaugment.AutoAugment(policy)
    space = transform._augmentation_space(10, (HEIGHT, WIDTH))
    total = collections.Counter()
    for pair in transform.policies:
        steps = [[(1 - p, None)] + [(p * q, k) for q, k in outcomes(space, name, [index], False)] for name, p, index in pair]
        for keys, p in distribution(*steps).items():
            total[keys] += p / len(transform.policies)
    return total


@functools.lru_cache(None)
def read(change):
    kind, *numbers = change.split(":")
    return MARK[int(kind)] if int(kind) in MARK else key(int(kind), [float.fromhex(number) for number in numbers])


def lines_of(words, samples):
    out = subprocess.run([PROGRAM], input="draw %s 7 3 %d %d %d\n" % (words, samples, HEIGHT, WIDTH), stdout=subprocess.PIPE,
                         check=True, text=True).stdout
    return [line.split() for line in out.splitlines()]


def drawn(words, samples):
    return collections.Counter(tuple(read(change) for change in line) for line in lines_of(words, samples))


def compare(words, wanted, samples):
    """Outcomes that are expected less than 10 times are one cell."""
    found = drawn(words, samples)
    unknown = [keys for keys in found if wanted[keys] == 0]
    cells, rest = [], [0.0, 0]
    for keys, p in wanted.items():
        if p * samples >= 10:
            cells.append((p * samples, found[keys]))
        else:
            rest = [rest[0] + p * samples, rest[1] + found[keys]]
    if rest[0] >= 10:
        cells.append(rest)
    chi = sum((seen - expected) ** 2 / expected for expected, seen in cells)
    freedom = len(cells) - 1
    # Wilson and Hilferty's approximation of the quantile.
    bound = freedom * (1 - 2 / (9 * freedom) + 4.75 * math.sqrt(2 / (9 * freedom))) ** 3
    tap.ok(not unknown and abs(sum(wanted.values()) - 1) < 1e-9 and chi < bound,
           "%s: %d outcomes of %d cells, chi-squared %.0f of %.0f" % (words, len(found), len(cells), chi, bound),
           ["not torchvision's: %s" % (keys,) for keys in unknown[:5]])


trivial = autoaugment.TrivialAugmentWide()._augmentation_space(31)
compare("trivialaugment", distribution(any_of(trivial, range(31), False)), 200000)
compare("trivialaugment=bilinear", distribution(any_of(trivial, range(31), True)), 50000)
for ops, magnitude in ((2, 9), (1, 30), (3, 0)):
    space = autoaugment.RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))
    compare("randaugment=%d:%d" % (ops, magnitude), distribution(*[any_of(space, [magnitude], False)] * ops), 100000)
for policy in autoaugment.AutoAugmentPolicy:
    compare("autoaugment=" + policy.value, auto(policy), 200000)


# ---- AugMix

def augmix(severity, chains, depths, all_ops=True, bilinear=True):
    """As compare's: the chains' changes with marks, without weights; depths: equally likely, the same for all chains."""
    space = autoaugment.AugMix(all_ops=all_ops)._augmentation_space(10, (HEIGHT, WIDTH))
    change, total = any_of(space, range(severity), bilinear), collections.Counter()
    for depth in depths:
        for keys, p in distribution([(1, MARK[13])], *([change] * depth + [[(1, MARK[14])]]) * chains, [(1, MARK[15])]).items():
            total[keys] += p / len(depths)
    return total


compare("augmix=3:1", augmix(3, 1, (1, 2, 3)), 200000)
compare("augmix=10:1:1", augmix(10, 1, (1,)), 100000)
compare("augmix=2:3:1:basic:nearest", augmix(2, 3, (1,), False, False), 100000)
compare("augmix=1:1:4:basic", augmix(1, 1, (4,), False), 100000)
compare("augmix=1:2:2:basic", augmix(1, 2, (2,), False), 100000)
depths = collections.Counter()
for line in lines_of("augmix", 50000):
    text = "".join("|" if change.startswith("14:") else "" if change[:3] in ("13:", "15:") else "x" for change in line)
    depths[text] += 1
chi = sum((count - 50000 / 27) ** 2 / (50000 / 27) for count in depths.values())
tap.ok(len(depths) == 27 and chi < 81, "augmix: each of 27 combinations of depths, chi-squared %.0f of 81" % chi)


def apart(ours, theirs):
    """The largest difference between two samples' distributions, as a part of the most that is allowed."""
    every = numpy.sort(numpy.concatenate([ours, theirs]))
    difference = numpy.searchsorted(numpy.sort(ours), every, "right") - numpy.searchsorted(numpy.sort(theirs), every, "right")
    return abs(difference).max() / len(ours) / (2.694 * math.sqrt(2 / len(ours)))


def weights(chains, alpha, samples):
    torch.manual_seed(chains)
    sample, alpha = autoaugment.AugMix()._sample_dirichlet, float(alpha)
    m = sample(torch.tensor([alpha, alpha]).expand(samples, -1))
    theirs = torch.cat([m[:, :1], sample(torch.tensor([alpha] * chains).expand(samples, -1)) * m[:, 1:]], 1).double().numpy()
    ours = numpy.array([[float.fromhex(change.split(":")[1]) for change in line if change[:2] in ("13", "14")]
                        for line in lines_of("augmix=1:%d:1:%g" % (chains, alpha), samples)])
    shares = numpy.sort(ours[:, 1:])
    alike = ((shares[:, 1:] == shares[:, :-1]) & (shares[:, 1:] > 1e-6)).sum()  # as numbers of the same draws are
    return ours.round(5), theirs.round(5), alike  # torch keeps shares from 0 and 1


for chains, alpha in ((3, 1), (3, 0.3), (1, 0.5), (5, 2), (8, 0.05), (4, 20)):
    ours, theirs, alike = weights(chains, alpha, 40000)
    found = [apart(part(ours), part(theirs)) for part in (
        lambda w: w[:, 0], lambda w: w[:, 1], lambda w: w[:, -1], lambda w: w[:, 1:].max(1), lambda w: w[:, 1:].min(1),
        lambda w: (w ** 2).sum(1), lambda w: w[:, 0] - w[:, 1])]
    tap.ok(max(found) < 1 and abs(ours.sum(1) - 1).max() < 1e-4 and alike == 0,
           "augmix=1:%d:1:%g: weights, %.2f of the most apart" % (chains, alpha, max(found)), ["%s, %d equal shares" % (found, alike)])
tap.finish()
