"""Small inputs for the tests of ffpack: make_inputs.py KIND FOLDER [COUNT]. Always the same bytes."""
import gzip
import os
import struct
import sys

import numpy as np
from PIL import Image


def write(path, data):
    with open(path, "wb") as out:
        out.write(data)


def idx(folder, count):
    rng = np.random.default_rng(7)
    for prefix, n in (("train", count), ("t10k", max(count // 4, 1))):
        pixels = rng.integers(0, 256, (n, 12, 10), dtype=np.uint8)
        labels = rng.integers(0, 10, n, dtype=np.uint8)
        images = struct.pack(">4B3I", 0, 0, 8, 3, n, 12, 10) + pixels.tobytes()
        names = struct.pack(">4BI", 0, 0, 8, 1, n) + labels.tobytes()
        write(f"{folder}/{prefix}-images-idx3-ubyte", images)
        write(f"{folder}/{prefix}-labels-idx1-ubyte", names)


def flat(folder, count):
    write(f"{folder}/x-images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, count, 4, 4) + bytes(16 * count))
    write(f"{folder}/x-labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(count))


def idx_gz(folder, count):
    idx(folder, count)
    for name in sorted(os.listdir(folder)):
        with open(f"{folder}/{name}", "rb") as file:
            data = file.read()
        write(f"{folder}/{name}.gz", gzip.compress(data, 6, mtime=0))
        os.remove(f"{folder}/{name}")


def cifar10(folder, count):
    rng = np.random.default_rng(8)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = rng.integers(0, 256, (count, 3073), dtype=np.uint8)
        records[:, 0] = rng.integers(0, 10, count)
        write(f"{folder}/{name}", records.tobytes())
    names = "airplane automobile bird cat deer dog frog horse ship truck".split()
    write(f"{folder}/batches.meta.txt", ("\n".join(names) + "\n\n").encode())


def cifar100(folder, count):
    rng = np.random.default_rng(9)
    for name in ("train.bin", "test.bin"):
        records = rng.integers(0, 256, (count, 3074), dtype=np.uint8)
        records[:, 0] = rng.integers(0, 20, count)
        records[:, 1] = rng.integers(0, 100, count)
        write(f"{folder}/{name}", records.tobytes())
    write(f"{folder}/coarse_label_names.txt", "".join(f"coarse {i}\n" for i in range(20)).encode())
    write(f"{folder}/fine_label_names.txt", "".join(f"fine {i}\n" for i in range(100)).encode())


def picture(rng, width, height):
    """Smooth, so that JPEG keeps it."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 100 * np.sin(x * rng.uniform(0.05, 0.3) + y * rng.uniform(0.05, 0.3)) for _ in range(3)]
    return Image.fromarray(np.stack(planes, 2).astype(np.uint8))


def folder_of(root, count, size):
    rng = np.random.default_rng(10)
    for name in ("b", "a", "C", "a.x", "a/sub"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
        for i in range(count):
            width, height = size or (int(rng.integers(40, 60)), int(rng.integers(40, 60)))
            image = picture(rng, width, height)
            if i % 3 == 0:
                image.save(f"{root}/{name}/img{i}.png")
            elif i % 3 == 1:
                image.save(f"{root}/{name}/img{i}.JPG", quality=90)
            else:
                image.convert("L").save(f"{root}/{name}/img{i}.jpeg", quality=90)
    write(f"{root}/a/notes.txt", b"no image")
    write(f"{root}/readme.md", b"no class")


def folder(root, count):
    folder_of(root, count, None)


def same(root, count):
    folder_of(root, count, (40, 32))


def splits(root, count):
    for name in ("val", "train"):
        folder_of(f"{root}/{name}", count, (20, 16))


if __name__ == "__main__":
    kind, target = sys.argv[1:3]
    os.makedirs(target, exist_ok=True)
    globals()[kind](target, int(sys.argv[3]) if len(sys.argv) > 3 else 6)
