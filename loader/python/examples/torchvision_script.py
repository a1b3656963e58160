"""A training script with the features of torchvision's and timm's: warm-up and cosine, label smoothing, mixup or cutmix, an average
of the weights, checkpoints from which a run resumes in the middle of an epoch. One ffload.Loader replaces their DataLoader,
sampler, transforms, prefetcher and collate function for mixup.

    python torchvision_script.py --data packed --model resnet50 --augment rrc=224,flip,mixup=0.2 --output run
    python torchvision_script.py --data packed --model resnet50 --augment rrc=224,flip,mixup=0.2 --output run --resume run/last.pt
"""
import argparse
import math
import os
import time

import torch
import torchvision
from torch import nn

import ffload


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--augment", default="rrc=224,flip", help="with mixup[=ALPHA] or cutmix[=ALPHA], pairs of labels are trained on")
    parser.add_argument("--size", help="HxW in validation, if it differs from the set's")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=2e-5)
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--warmup-epochs", type=int, default=1)
    parser.add_argument("--ema-decay", type=float, default=0.999, help="of the averaged weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, help="threads that make batches")
    parser.add_argument("--print-every", type=int, default=50, help="steps")
    parser.add_argument("--save-every", type=int, default=1000, help="steps")
    parser.add_argument("--max-steps", type=int, help="stop there, after a checkpoint")
    parser.add_argument("--output", default="run", help="folder of the checkpoints")
    parser.add_argument("--resume", help="a checkpoint")
    return parser.parse_args()


def loss_of(criterion, output, labels):
    """labels: classes, or with mixup and cutmix both samples' labels and each row's share of the first."""
    if isinstance(labels, tuple):
        first, second, share = labels
        return (share * criterion(output, first) + (1 - share) * criterion(output, second)).mean()
    return criterion(output, labels).mean()


@torch.no_grad()
def evaluate(model, loader):
    """Top-1 and top-5, each sample counted once."""
    model.eval()
    right, seen = torch.zeros(2, dtype=torch.int64), 0
    for images, labels in loader:
        output = model(images)
        ranked = output.topk(min(5, output.shape[1]), 1).indices == labels[:, None]
        right += torch.stack([ranked[:, 0].sum(), ranked.sum()]).cpu()
        seen += len(labels)
    return (right / seen).tolist()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    os.makedirs(args.output, exist_ok=True)

    dataset = ffload.Dataset(args.data + "/train")
    train = ffload.Loader(dataset, args.batch, augment=args.augment, drop_last=True, device=args.device, seed=args.seed,
                          workers=args.workers)
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, size=args.size, device=args.device, workers=args.workers)

    model = torchvision.models.get_model(args.model, num_classes=len(dataset.classes))
    model = model.to(args.device, memory_format=torch.channels_last)
    average = torch.optim.swa_utils.AveragedModel(
        model, avg_fn=lambda old, new, count: args.ema_decay * old + (1 - args.ema_decay) * new, use_buffers=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing, reduction="none")
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay, nesterov=True)
    steps, warmup = args.epochs * len(train), args.warmup_epochs * len(train)

    def share_of_lr(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share_of_lr)
    parts = {"model": model, "average": average, "optimizer": optimizer, "schedule": schedule, "loader": train}
    step = 0
    if args.resume:
        saved = torch.load(args.resume, map_location=args.device)
        step = saved.pop("step")
        for name, part in parts.items():
            part.load_state_dict(saved[name])

    def save():
        path = os.path.join(args.output, "last.pt")
        torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, path + ".partial")
        os.replace(path + ".partial", path)

    while step < steps:
        model.train()
        began, waited = time.perf_counter(), train.stats()["wait_seconds"]
        for images, labels in train:
            loss = loss_of(criterion, model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
            step += 1
            if step % args.print_every == 0:
                print(f"step {step} of {steps}: loss {loss.item():.6f}, lr {schedule.get_last_lr()[0]:.4f}", flush=True)
            if step % args.save_every == 0 or step == args.max_steps:
                save()
            if step == args.max_steps:
                return
        seconds, waited = time.perf_counter() - began, train.stats()["wait_seconds"] - waited
        for name, net in (("model", model), ("average", average)):
            top1, top5 = evaluate(net, val)
            print(f"epoch {step // len(train)}, {name}: top-1 {top1:.4f}, top-5 {top5:.4f}", flush=True)
        print(f"{seconds:.1f} s, {100 * waited / seconds:.1f} % of it waiting for data", flush=True)
    save()


if __name__ == "__main__":
    main()
