"""DINO (Caron et al., 2021): two large and several small crops of each image; the student learns what the teacher, its moving average,
finds in the large ones. The accuracy of nearest neighbours shows what was learned.

    python dino.py --data packed --size 224 --small 96 --crops 6 --model resnet50 --batch 512 --epochs 100
"""
import argparse
import copy
import math

import torch
import torchvision
from torch import nn
from torch.nn import functional

import ffload
from simclr import neighbours


class Head(nn.Module):
    """A projection, and prototypes of length 1."""

    def __init__(self, width, outputs):
        super().__init__()
        self.projection = nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, 128))
        self.prototypes = nn.Parameter(torch.randn(outputs, 128))

    def forward(self, features):
        return functional.linear(functional.normalize(self.projection(features), dim=1), functional.normalize(self.prototypes, dim=1))


def outputs(net, views):
    """The net's outputs for views of one size, in one pass."""
    return net(torch.cat(views)).chunk(len(views))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--small", type=int, default=96)
    parser.add_argument("--crops", type=int, default=6, help="small crops of an image")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--prototypes", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--momentum", type=float, default=0.996, help="of the teacher, at first")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)

    colours = "flip,jitter=0.4:0.4:0.2:0.1,grayscale=0.2"
    blur = f"blur={args.size // 10 | 1}:0.1-2"
    views = {"first": (1, f"rrc={args.size}:0.4-1,{colours},{blur}"),
             "second": (1, f"rrc={args.size}:0.4-1,{colours},{blur}:0.1,solarize=128:0.2"),
             "small": (args.crops, f"rrc={args.small}:0.05-0.4,{colours},blur={args.small // 10 | 1}:0.1-2:0.5")}
    train = ffload.Loader(args.data + "/train", args.batch, views=views, drop_last=True, device=args.device)
    known = ffload.Loader(args.data + "/train", args.batch, shuffle=False, device=args.device)
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, device=args.device)

    body = torchvision.models.get_model(args.model)
    width = body.fc.in_features
    body.fc = nn.Identity()
    student = nn.Sequential(body, Head(width, args.prototypes)).to(args.device, memory_format=torch.channels_last)
    teacher = copy.deepcopy(student).requires_grad_(False)
    centre = torch.zeros(args.prototypes, device=args.device)
    optimizer = torch.optim.AdamW(student.parameters(), args.lr, weight_decay=0.04)
    steps = args.epochs * len(train)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)
    step = 0
    for epoch in range(args.epochs):
        student.train()
        for images, _ in train:
            large = [*images["first"], *images["second"]]
            with torch.no_grad():
                found = outputs(teacher, large)
                wanted = [((one - centre) / 0.04).softmax(1) for one in found]
                centre = 0.9 * centre + 0.1 * torch.cat(found).mean(0)
            said = [(one / 0.1).log_softmax(1) for one in (*outputs(student, large), *outputs(student, images["small"]))]
            losses = [-(target * logs).sum(1).mean() for t, target in enumerate(wanted) for s, logs in enumerate(said) if s != t]
            loss = sum(losses) / len(losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            momentum = 1 - (1 - args.momentum) * (math.cos(math.pi * step / steps) + 1) / 2
            with torch.no_grad():
                for own, of_student in zip(teacher.state_dict().values(), student.state_dict().values()):
                    if own.is_floating_point():
                        own.lerp_(of_student, 1 - momentum)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    print(f"accuracy {neighbours(teacher[0], known, val):.4f}")


if __name__ == "__main__":
    main()
