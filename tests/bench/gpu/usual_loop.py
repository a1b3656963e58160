"""The loop that most people run: ImageFolder, RandomCrop, RandomHorizontalFlip, ToTensor, Normalize in a
DataLoader, every sample in every epoch, then the copy to the GPU and an eager step.

    usual_loop.py --folder cifar10/train --net vgg16_bn [--workers 8] [--epochs 3]

Prints a line of JSON per epoch: seconds, samples a second; the first epoch warms up. `--limit N` stops an epoch after N batches and
scales, for a trial without a GPU."""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torchvision import datasets, transforms

import torch_steps


def loader(options):
    side = options.side
    crop = transforms.RandomCrop(side, padding=4) if side <= 64 else transforms.RandomResizedCrop(side)
    steps = transforms.Compose([crop, transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))])
    images = datasets.ImageFolder(options.folder, steps)
    return torch.utils.data.DataLoader(images, options.batch, shuffle=True, num_workers=options.workers, drop_last=True,
                                       pin_memory=options.device != "cpu", persistent_workers=options.workers > 0), len(images.classes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--net", default="vgg16_bn")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    batches, classes = loader(options)
    torch.backends.cudnn.benchmark = True
    model = torch_steps.build(options.net, options.side, classes).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    for epoch in range(options.epochs):
        began, done = time.perf_counter(), 0
        for images, labels in batches:
            images, labels = (t.to(options.device, non_blocking=True) for t in (images, labels))
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            done += 1
            if done == options.limit:
                break
        if options.device != "cpu":
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - began) * len(batches) / done
        print(json.dumps({"epoch": epoch + 1, "seconds": round(seconds, 3), "samples_per_second": round(len(batches) * options.batch / seconds)}), flush=True)


if __name__ == "__main__":
    main()
