#!/usr/bin/python3
"""Training steps (forward, loss, backward, SGD update) of fftrain's nets compared with PyTorch's: the same net, batch and threads,
f32, in one run, in alternating rounds. PyTorch runs contiguous and channels-last; the ratio is against its faster one.

usage: train_step.py [--program BENCH_PROGRAM] [--rounds N] [--threads N] [--cpu-time] [--json FILE] [CASE...]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
    from torch import nn
    import torchvision
except ImportError as error:
    print(f"train_step: skipped: {error}; Debian packages python3-torch, python3-torchvision")
    sys.exit(0)


def smallnet(channels):
    """The same net as train/net/models/smallnet.c."""
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.MaxPool2d(2),
                nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*stage(channels, 16), *stage(16, 32), *stage(32, 64),
                         nn.Conv2d(64, 128, 3, bias=False), nn.BatchNorm2d(128),
                         nn.ReLU(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def resnet(stem, name="resnet18"):
    net = getattr(torchvision.models, name)(num_classes=10)
    if stem == "cifar":
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
    return net


def vgg(name):
    """The net with the head for small images."""
    features = getattr(torchvision.models, name)(init_weights=False).features
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mobilenet(stem):
    net = torchvision.models.mobilenet_v2(num_classes=10, dropout=0)
    if stem == "cifar":
        net.features[0][0].stride = net.features[2].conv[1][0].stride = (1, 1)
    return net


# name: (our arguments NAME STEM CHANNELS SIDE, batch, PyTorch's net, steps per round, goal)
CASES = {
    "smallnet-28x1": (["smallnet", "auto", 1, 28], 256, lambda: smallnet(1), 12, 2.0),
    "smallnet-32x3": (["smallnet", "auto", 3, 32], 256, lambda: smallnet(3), 10, 2.0),
    "resnet18-cifar-64": (["resnet18", "cifar", 3, 32], 64, lambda: resnet("cifar"), 2, 1.5),
    "resnet18-cifar-128": (["resnet18", "cifar", 3, 32], 128, lambda: resnet("cifar"), 1, 1.5),
    "resnet18-imagenet-64": (["resnet18", "imagenet", 3, 32], 64, lambda: resnet("imagenet"),
                             10, 1.5),
    "resnet18-imagenet-128": (["resnet18", "imagenet", 3, 32], 128, lambda: resnet("imagenet"),
                              6, 1.5),
    "resnet50-cifar-32": (["resnet50", "cifar", 3, 32], 32, lambda: resnet("cifar", "resnet50"), 1, 1.3),
    "vgg11-cifar-64": (["vgg11", "cifar", 3, 32], 64, lambda: vgg("vgg11"), 3, 1.3),
    "vgg11_bn-cifar-64": (["vgg11_bn", "cifar", 3, 32], 64, lambda: vgg("vgg11_bn"), 3, 1.3),
    "mobilenet_v2-cifar-64": (["mobilenet_v2", "cifar", 3, 32], 64, lambda: mobilenet("cifar"), 2, 1.3),
    "mobilenet_v2-imagenet-16": (["mobilenet_v2", "imagenet", 3, 128], 16, lambda: mobilenet("imagenet"), 2, 1.3),
}


CPU_TIME = "--cpu-time" in sys.argv
clock = time.process_time if CPU_TIME else time.perf_counter


class Ours:
    def __init__(self, program, arguments, batch, threads):
        command = [program] + [str(a) for a in arguments] + [str(batch), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().split()
        if len(line) != 4:
            sys.exit("train_step: the benchmark program ended")
        return [float(line[2 if CPU_TIME else 0]), float(line[1])]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Theirs:
    def __init__(self, make, arguments, batch, memory_format):
        channels, side = arguments[2], arguments[3]
        torch.manual_seed(1)
        self.net = make().to(memory_format=memory_format).train()
        self.x = torch.randn(batch, channels, side, side).contiguous(memory_format=memory_format)
        self.y = torch.arange(batch) % 10
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9,
                                         weight_decay=5e-4)

    def steps(self, count):
        times = []
        for _ in range(count):
            start = clock()
            self.optimizer.zero_grad(set_to_none=True)
            self.loss(self.net(self.x), self.y).backward()
            self.optimizer.step()
            times.append((clock() - start) * 1e3)
        return [min(times), statistics.median(times)]

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(os.environ.get("BUILD", "build"),
                                                          "tests", "bench_train_step"))
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true",
                        help="processor time instead of wall time: with --threads 1, for a busy machine")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.backends.mkldnn.flags(enabled=True)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}; there are: {', '.join(CASES)}")
    print(f"training step, f32, {options.threads} threads, PyTorch {torch.__version__}; "
          f"ms a step, best (median) of {options.rounds} alternating rounds")
    head = ("case", "ffpack", "PyTorch contiguous", "channels-last", "ratio", "median ratio", "goal")
    print("{:22} {:>17} {:>19} {:>17} {:>7} {:>13} {:>6}".format(*head))
    records = []
    for name in options.cases or CASES:
        arguments, batch, make, steps, goal = CASES[name]
        runners = [Ours(options.program, arguments, batch, options.threads),
                   Theirs(make, arguments, batch, torch.contiguous_format),
                   Theirs(make, arguments, batch, torch.channels_last)]
        for runner in runners:
            runner.steps(2)
        results = [[], [], []]
        for _ in range(options.rounds):
            for runner, result in zip(runners, results):
                result.append(runner.steps(steps))
        for runner in runners:
            runner.close()
        best = [min(r[0] for r in result) for result in results]
        median = [statistics.median(r[1] for r in result) for result in results]
        ratio, median_ratio = min(best[1:]) / best[0], min(median[1:]) / median[0]
        cells = [f"{b:.1f} ({m:.1f})" for b, m in zip(best, median)]
        print("{:22} {:>17} {:>19} {:>17} {:>6.2f}x {:>12.2f}x {:>5.1f}x".format(
            name, *cells, ratio, median_ratio, goal), flush=True)
        records.append({"case": name, "best_ms": best, "median_ms": median, "ratio": ratio,
                        "median_ratio": median_ratio, "goal": goal})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)


main()
