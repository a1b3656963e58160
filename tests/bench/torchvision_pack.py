"""torchvision_pack.py FOLDER OUT PROCESSES: packs an image folder as a usual PyTorch script does: ImageFolder with Resize 256,
CenterCrop 224, ToTensor, Normalize; each process takes every n-th chunk of 256 images, stacks their f16 tensors and saves them.
Exit 77 if torchvision is missing."""
import multiprocessing
import sys

try:
    import torch
    from torchvision import datasets, transforms
except ImportError as missing:
    print(missing)
    sys.exit(77)

CHUNK = 256
folder, out, processes = sys.argv[1], sys.argv[2], int(sys.argv[3])
images = datasets.ImageFolder(folder, transforms.Compose([
    transforms.Resize(256),
    transforms.CenterCrop(224),
    transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
]))


def save(chunk):
    torch.set_num_threads(1)
    samples = [images[i] for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(images)))]
    tensors = torch.stack([tensor.half() for tensor, _ in samples])
    labels = torch.tensor([label for _, label in samples])
    torch.save({"images": tensors, "labels": labels}, f"{out}/chunk-{chunk:06}.pt")


if __name__ == "__main__":
    with multiprocessing.Pool(processes) as pool:
        pool.map(save, range((len(images) + CHUNK - 1) // CHUNK), chunksize=1)
