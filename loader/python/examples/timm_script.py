"""timm's models, mixup and loss: its create_loader and its prefetcher are one ffload.Loader here.

    python timm_script.py --data packed --model resnet18 --mixup 0.2 --cutmix 1.0
"""
import argparse

import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch

import ffload


@torch.no_grad()
def evaluate(model, loader):
    """Top-1, each sample counted once."""
    model.eval()
    top1 = timm.utils.AverageMeter()
    for images, labels in loader:
        top1.update(timm.utils.accuracy(model(images), labels)[0].item() / 100, len(labels))
    return top1.avg


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--augment", default="crop=4,flip", help="what timm does not do to a batch")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--mixup", type=float, default=0.2)
    parser.add_argument("--cutmix", type=float, default=1.0)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    timm.utils.random_seed(0)

    dataset = ffload.Dataset(args.data + "/train")
    classes = len(dataset.classes)
    train = ffload.Loader(dataset, args.batch, augment=args.augment, drop_last=True, device=args.device)
    val = ffload.Loader(args.data + "/val", args.batch, device=args.device)
    mixup = timm.data.Mixup(args.mixup, args.cutmix, label_smoothing=args.smoothing, num_classes=classes)
    loss_of = timm.loss.SoftTargetCrossEntropy()
    model = timm.create_model(args.model, num_classes=classes).to(args.device, memory_format=torch.channels_last)
    optimizer = timm.optim.create_optimizer_v2(model, "nesterov", lr=args.lr, weight_decay=5e-4)
    schedule = timm.scheduler.CosineLRScheduler(optimizer, args.epochs)
    for epoch in range(args.epochs):
        model.train()
        train.sampler.set_epoch(epoch)
        for images, labels in train:
            images, targets = mixup(images, labels)
            loss = loss_of(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step(epoch + 1)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {evaluate(model, val):.4f}", flush=True)


if __name__ == "__main__":
    main()
