"""ffload in a compiled PyTorch loop on a GPU, in one process. Prints lines of JSON.

    python_loop.py wait --data cifar10                        resident and streamed: share of a step that goes to its batch
    python_loop.py stream --data large --batch 64             streamed batches: share of the pinned copy's bandwidth
    python_loop.py accuracy --data cifar10 --folder images    seconds to --target, with ffload and with the usual DataLoader

wait: steps with the loader and steps on one batch that stays, in rounds that alternate: 1 - steady / loaded is the cost of the
batches, on the GPU or by waiting for the host; next to it the loader's own count of its waits on the host. The goal is 1 %. stream:
stored bytes that arrive per second, compared with copies of the same number of bytes from pinned memory, in rounds that alternate.
A round is timed from its first batch to its last; the batches that were ready before are a hundredth of it. accuracy: the same
model, recipe and seed, after compiling; the clock runs from the first batch to the end of the first epoch whose evaluation reaches
the target, evaluations included. --data: a packed set with train/ and test/; --folder: the same images in train/ and test/, of
class folders. PYTHONPATH names the build's python/. --device cpu makes everything but the speed testable without a GPU."""
import argparse
import json
import statistics
import time

import numpy
import torch
import torch.nn.functional as F

import ffload
import torch_steps
import usual_loop


class Training:
    """Model, optimizer and the compiled step."""

    def __init__(self, options, classes, steps):
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.options, self.cuda = options, options.device != "cpu"
        self.model = torch_steps.build(options.net, options.side, classes).to(options.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), options.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, options.lr, total_steps=steps)
        self.loss = torch.compile(self.loss_of) if options.compile else self.loss_of
        self.forward = torch.compile(self.forward_of) if options.compile else self.forward_of

    def forward_of(self, images):
        with torch.autocast(self.options.device, torch.bfloat16):
            return self.model(images)

    def loss_of(self, images, labels):
        return F.cross_entropy(self.forward_of(images).float(), labels)

    def step(self, images, labels):
        self.optimizer.zero_grad()
        self.loss(images, labels).backward()
        self.optimizer.step()

    def now(self):
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter()


def loader_of(options, split, **more):
    more.setdefault("last_batch", "drop")
    return ffload.Loader(f"{options.data}/{split}", options.batch, device=options.device, workers=options.workers or None, **more)


def first(batches):
    for images, labels in batches:
        return images.clone(memory_format=torch.preserve_format), labels.clone()


def wait(options):
    classes = len(ffload.Dataset(options.data + "/train").classes)
    for placement in options.placements.split(","):
        loader = loader_of(options, "train", augment=options.augment, epochs=0, placement=placement)
        training = Training(options, classes, 1)
        batches = iter(loader)
        steady = first(batches)
        for _ in range(options.warm):
            training.step(*steady)
            training.step(*next(batches))

        def milliseconds(give):
            began = training.now()
            for _ in range(options.steps):
                training.step(*give())
            return 1e3 * (training.now() - began) / options.steps
        rounds, waited = [], loader.stats()["wait_seconds"]
        for _ in range(options.rounds):
            rounds.append((milliseconds(lambda: steady), milliseconds(lambda: next(batches))))
        waited = 1e3 * (loader.stats()["wait_seconds"] - waited) / (options.rounds * options.steps)
        alone, loaded = (statistics.median(times) for times in zip(*rounds))
        print(json.dumps({"placement": loader.describe()["placement"], "step_ms": round(alone, 3), "with_loader_ms": round(loaded, 3),
                          "share_of_batches": round(statistics.median(1 - a / b for a, b in rounds), 4),
                          "host_wait_share": round(waited / loaded, 4)}), flush=True)
        loader.close()


def stream(options):
    loader = loader_of(options, "train", augment="flip", epochs=0, placement="stream", dtype="f16")
    batches, steps = iter(loader), max(options.steps, 1000)
    stored = options.batch * numpy.asarray(ffload.Dataset(options.data + "/train").view(0)).nbytes
    host, there = torch.empty(stored, dtype=torch.uint8, pin_memory=True), torch.empty(stored, dtype=torch.uint8, device=options.device)

    def rate(once):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            once()
        torch.cuda.synchronize()
        return steps * stored / (time.perf_counter() - began) / 1e9
    rate(lambda: next(batches))
    rounds = [(rate(lambda: next(batches)), rate(lambda: there.copy_(host, non_blocking=True))) for _ in range(options.rounds)]
    print(json.dumps({"batch": options.batch, "streamed_gb_per_second": round(statistics.median(a for a, _ in rounds), 2),
                      "pinned_copy_gb_per_second": round(statistics.median(b for _, b in rounds), 2),
                      "share": round(statistics.median(a / b for a, b in rounds), 3)}), flush=True)
    loader.close()


def accuracy_of(training, batches):
    training.model.eval()
    right = seen = 0
    with torch.no_grad():
        for images, labels in batches:
            images, labels = images.to(training.options.device), labels.to(training.options.device)
            right += (training.forward(images).argmax(1) == labels).sum()
            seen += len(labels)
    training.model.train()
    return right.item() / seen


def accuracy(options):
    test = loader_of(options, "test", order="sequential", last_batch="keep")
    for kind in ("ffload", "usual"):
        train = loader_of(options, "train", augment=options.augment) if kind == "ffload" else usual_loop.loader(options)[0]
        training = Training(options, len(ffload.Dataset(options.data + "/train").classes), options.epochs * len(train))
        example = first(test)
        training.step(*example) # compiles; then the model starts again
        accuracy_of(training, [example])
        fresh = Training(options, len(ffload.Dataset(options.data + "/train").classes), options.epochs * len(train))
        training.model.load_state_dict(fresh.model.state_dict())
        training.optimizer.load_state_dict(fresh.optimizer.state_dict())
        began = training.now()
        for epoch in range(options.epochs):
            for images, labels in train:
                training.step(*(t.to(options.device, non_blocking=True) for t in (images, labels)))
                training.schedule.step()
            reached = accuracy_of(training, test)
            print(json.dumps({"loader": kind, "epoch": epoch + 1, "accuracy": round(reached, 4),
                              "seconds": round(training.now() - began, 3)}), flush=True)
            if reached >= options.target:
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("wait", "stream", "accuracy"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--folder", help="of accuracy")
    parser.add_argument("--placements", default="resident,stream")
    parser.add_argument("--augment", default="crop=4,flip")
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--target", type=float, default=0.93)
    parser.add_argument("--workers", type=int, default=0, help="0: ffload's own choice; the usual loader loads in the loop's process")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    options = parser.parse_args()
    if options.what == "accuracy":
        if not options.folder:
            parser.error("accuracy needs --folder")
        options.folder += "/train"
    {"wait": wait, "stream": stream, "accuracy": accuracy}[options.what](options)


if __name__ == "__main__":
    main()
