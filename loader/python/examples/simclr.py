"""SimCLR (Chen et al., 2020): two views of each image, and a contrastive loss; the accuracy of nearest neighbours shows what was learned.

    python simclr.py --data packed --size 224 --model resnet50 --batch 512 --epochs 100
"""
import argparse

import torch
import torchvision
from torch import nn
from torch.nn import functional

import ffload


def contrastive(one, other, temperature):
    """NT-Xent: each image's other view among all other views of the batch."""
    features = functional.normalize(torch.cat([one, other]), dim=1)
    scores = features @ features.T / temperature
    scores.fill_diagonal_(-torch.inf)
    rows = torch.arange(len(scores), device=scores.device)
    return functional.cross_entropy(scores, (rows + len(one)) % len(scores))


@torch.no_grad()
def neighbours(model, train, val, count=5):
    """The accuracy of labels by the nearest images of the training set."""
    model.eval()
    known = [(functional.normalize(model(images), dim=1), labels) for images, labels in train]
    features, classes = (torch.cat(parts) for parts in zip(*known))
    right = seen = 0
    for images, labels in val:
        nearest = (functional.normalize(model(images), dim=1) @ features.T).topk(count).indices
        right += (classes[nearest].mode(1).values == labels).sum().item()
        seen += len(labels)
    return right / seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)

    augment = f"rrc={args.size},flip,jitter=0.8:0.8:0.8:0.2,grayscale=0.2,blur={args.size // 10 | 1}:0.1-2:0.5"
    train = ffload.Loader(args.data + "/train", args.batch, views=2, augment=augment, drop_last=True, device=args.device)
    known = ffload.Loader(args.data + "/train", args.batch, shuffle=False, device=args.device)
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, device=args.device)

    model = torchvision.models.get_model(args.model)
    width = model.fc.in_features
    model.fc = nn.Identity()
    model = model.to(args.device, memory_format=torch.channels_last)
    head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 128)).to(args.device)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], args.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train))
    for epoch in range(args.epochs):
        model.train()
        for (one, other), _ in train:
            loss = contrastive(head(model(one)), head(model(other)), args.temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    print(f"accuracy {neighbours(model, known, val):.4f}")


if __name__ == "__main__":
    main()
