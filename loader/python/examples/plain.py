"""The plain PyTorch loop: trains a model of torchvision on a folder of class folders, which is packed the first time.

    python plain.py --source photos --data packed --model resnet18 --augment rrc=224,flip
"""
import argparse
import os

import torch
import torchvision
from torch import nn

import ffload


def accuracy(model, loader):
    """The accuracy over all samples of a set, each counted once."""
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum().item()
            seen += len(labels)
    return right / seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", help="a folder with train/ and val/, of class folders; packed if --data does not exist yet")
    parser.add_argument("--data", default="packed", help="the packed set")
    parser.add_argument("--resize", type=int, default=256)
    parser.add_argument("--center-crop", type=int, default=224)
    parser.add_argument("--augment", default="crop=4,flip")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    if not os.path.exists(args.data):
        ffload.pack(args.source, args.data, resize=args.resize, center_crop=args.center_crop, stats="compute")
    dataset = ffload.Dataset(args.data + "/train")
    train = ffload.Loader(dataset, args.batch, augment=args.augment, drop_last=True, device=args.device)
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, device=args.device)

    model = torchvision.models.get_model(args.model, num_classes=len(dataset.classes))
    model = model.to(args.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train))
    for epoch in range(args.epochs):
        model.train()
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {accuracy(model, val):.4f}", flush=True)


if __name__ == "__main__":
    main()
