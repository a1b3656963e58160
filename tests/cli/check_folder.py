"""check_folder.py FOLDER PACKED: order, keys and values of a packed folder (f32, mean 0.5, std 0.25,
resize 32, crop 28) against torchvision's ImageFolder. Exit 77 where torchvision is missing."""
import os
import sys

try:
    import numpy as np
    from torchvision import datasets, transforms
except ImportError as missing:
    print(missing)
    sys.exit(77)

folder, packed = sys.argv[1:3]
expected = datasets.ImageFolder(
    folder,
    transforms.Compose([
        transforms.Resize(32),
        transforms.CenterCrop(28),
        transforms.ToTensor(),
        transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    ]),
)
with open(f"{packed}/shard-000000.ffs", "rb") as file:
    shard = file.read()
keys = "".join(os.path.relpath(path, folder) for path, _ in expected.samples).encode()
assert keys in shard, "the keys are not ImageFolder's, in its order"
tensors = np.stack([expected[i][0].numpy() for i in range(len(expected))]).astype("<f4")
stride = (tensors[0].nbytes + 63) // 64 * 64
rows = np.frombuffer(shard, np.uint8, stride * len(tensors), 4096).reshape(len(tensors), stride)
found = rows[:, : tensors[0].nbytes].copy().view("<f4").reshape(tensors.shape)
different = int((found.view("<u4") != tensors.view("<u4")).sum())
assert different == 0, f"{different} of {tensors.size} values differ"
labels = b"".join(int(label).to_bytes(8, "little") for _, label in expected.samples)
assert labels in shard, "the labels are not ImageFolder's"
