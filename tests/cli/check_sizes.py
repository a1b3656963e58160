"""check_sizes.py FOLDER PACKED MAX [RESIZE]: every sample of a packed folder (u8 hwc, or f16 with mean and
std) with samples of different sizes, compared with Pillow; mean and std of all their pixels. Exit 77 where
a module is missing."""
import os
import sys

try:
    import numpy as np
    from PIL import Image
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    import second_reader
except ImportError as missing:
    print(missing)
    sys.exit(77)

folder, packed, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
short = int(sys.argv[4]) if len(sys.argv) > 4 else None


def wanted_size(width, height):
    sides = [width, height]
    if short:  # torchvision's Resize(short, max_size=most)
        low = min(sides)
        sides = [short if side == low else int(short * side / low) for side in sides]
        if max(sides) > most:
            long = max(sides)
            sides = [most if side == long else int(most * short / long) for side in sides]
    elif max(sides) > most:
        sides = [most if side == max(sides) else max(1, int(most * side / max(sides))) for side in sides]
    return tuple(sides)


split = second_reader.Split(packed)
split.read_index(packed)
metadata = split.metadata
assert metadata.variable and (metadata.height, metadata.width) == (most, most)
mean, std = (np.array([int(bits, 16) for bits in values], "<u4").view("<f4") for values in (metadata.mean, metadata.std))
sizes, pixels = set(), []
for number in range(len(split.order)):
    record, key, _, tensor = split.sample(number)
    image = Image.open(os.path.join(folder, key.decode())).convert("RGB")
    size = wanted_size(*image.size)
    if image.size != size:
        image = image.resize(size, Image.BILINEAR)
    assert (record.width, record.height) == size, f"{key}: {record.width} x {record.height}, wanted {size}"
    values = np.asarray(image)
    sizes.add(size)
    pixels.append(values.reshape(-1, 3))
    if metadata.dtype == "u8":
        assert tensor == values.tobytes(), f"{key}: other values"
    else:
        scaled = values.transpose(2, 0, 1).astype("<f4") / np.float32(255)
        normal = (scaled - mean[:, None, None]) / std[:, None, None]
        assert tensor == normal.astype("<f2").tobytes(), f"{key}: other values"
assert len(sizes) > 10, "all of one size"
every = np.concatenate(pixels).astype(np.float64) / 255
assert np.allclose(every.mean(0), mean, rtol=1e-6) and np.allclose(every.std(0), std, rtol=1e-6), "mean and std"
