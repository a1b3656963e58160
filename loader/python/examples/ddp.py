"""DistributedDataParallel: one process per GPU, or a few on the CPU.

    torchrun --nproc_per_node 8 ddp.py --data packed

Each loader finds its rank and the number of ranks in torch.distributed and yields this rank's share of every batch: --batch counts all
ranks. No sampler, and no set_epoch: the epochs of a loader count themselves, the same on all ranks. Training drops an incomplete last batch,
evaluation pads it: every rank has rows in every batch.
"""
import argparse
import os

import torch
import torch.distributed as dist
import torchvision
from torch import nn

import ffload


def accuracy(model, loader, device):
    """The accuracy over all samples, each counted once whatever the number of ranks: rows that only pad have weight 0."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad():
        for images, labels, weight in loader:
            counts[0] += ((model(images).argmax(1) == labels) * weight).sum()
            counts[1] += weight.sum()
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--augment", default="crop=4,flip")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=256, help="samples of a step, over all ranks")
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    cuda = torch.cuda.is_available()
    device = f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu"
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")

    dataset = ffload.Dataset(args.data + "/train")
    train = ffload.Loader(dataset, args.batch, augment=args.augment, drop_last=True, device=device)
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, last_batch="pad", device=device)

    torch.manual_seed(0)
    model = torchvision.models.get_model(args.model, num_classes=len(dataset.classes))
    model = nn.parallel.DistributedDataParallel(model.to(device, memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = accuracy(model, val, device)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {found:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
