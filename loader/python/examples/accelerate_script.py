"""accelerate: the loader stays as it is, the model and the optimizer are prepared. A run that was stopped in the middle of an epoch
resumes with accelerate.skip_first_batches.

    accelerate launch accelerate_script.py --data packed
    accelerate launch accelerate_script.py --data packed --resume checkpoint
"""
import argparse
import json
import os

import accelerate
import torch
import torchvision
from torch import nn

import ffload


def accuracy(accelerator, model, loader):
    """The accuracy over all samples, each counted once whatever the number of ranks: rows that only pad have weight 0."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
    with torch.no_grad():
        for images, labels, weight in loader:
            counts[0] += ((model(images).argmax(1) == labels) * weight).sum()
            counts[1] += weight.sum()
    counts = accelerator.reduce(counts, "sum")
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--augment", default="crop=4,flip")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="samples of a step, over all ranks")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--max-steps", type=int, help="stop there, after a checkpoint")
    parser.add_argument("--output", default="checkpoint", help="the folder for it")
    parser.add_argument("--resume", help="such a folder")
    args = parser.parse_args()

    accelerator = accelerate.Accelerator(cpu=not torch.cuda.is_available())  # without it, ranks on CPUs train apart
    accelerate.utils.set_seed(0)
    dataset = ffload.Dataset(args.data + "/train")
    train = ffload.Loader(dataset, args.batch, augment=args.augment, drop_last=True, device=accelerator.device)
    val = ffload.Loader(args.data + "/val", args.batch, last_batch="pad", device=accelerator.device)
    model = torchvision.models.get_model(args.model, num_classes=len(dataset.classes))
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    step = 0
    if args.resume:
        accelerator.load_state(args.resume)
        with open(os.path.join(args.resume, "step.json"), encoding="utf-8") as file:
            step = json.load(file)

    for epoch in range(step // len(train), args.epochs):
        model.train()
        train.set_epoch(epoch)
        done = step % len(train)
        for images, labels in accelerate.skip_first_batches(train, done) if done else train:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            accelerator.print(f"step {step}: loss {loss.item():.6f}", flush=True)
            if step == args.max_steps:
                accelerator.save_state(args.output)
                with open(os.path.join(args.output, "step.json"), "w", encoding="utf-8") as file:
                    json.dump(step, file)
                return
        found = accuracy(accelerator, model, val)
        accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {found:.4f}", flush=True)


if __name__ == "__main__":
    main()
