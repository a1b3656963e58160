"""Training steps of PyTorch's, in an environment of its own (environments.py), as bench_train_step has them of ours:

    train_step_peer.py NAME auto|cifar|imagenet CHANNELS SIDE BATCH THREADS f32|bf16 eager|compile contiguous|channels-last

For each line of standard input, a number of steps, it prints "best_ms median_ms best_cpu_ms loss" of these steps: forward, loss, backward,
and SGD's update in one kernel. bf16 is autocast's: the weights stay f32. `train_step_peer.py --version` prints PyTorch's version."""
import statistics
import sys
import time

sys.path.pop(0) # modules of this folder have the same names as other modules
import torch  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

CLASSES = 10


def smallnet(channels):
    """The same net as train/net/models/smallnet.c."""
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*stage(channels, 16), *stage(16, 32), *stage(32, 64), nn.Conv2d(64, 128, 3, bias=False), nn.BatchNorm2d(128),
                         nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))


def net_of(name, stem, channels):
    """fftrain's net: the stems for small images are not torchvision's, nor is the head of a vgg."""
    if name == "smallnet":
        return smallnet(channels)
    if name.startswith("vgg"):
        features = getattr(torchvision.models, name)(init_weights=False).features
        return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))
    net = getattr(torchvision.models, name)(num_classes=CLASSES, **{"dropout": 0} if name == "mobilenet_v2" else {})
    if stem == "cifar" and name == "mobilenet_v2":
        net.features[0][0].stride = net.features[2].conv[1][0].stride = (1, 1)
    elif stem == "cifar":
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return net


def main():
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
        return
    name, stem, channels, side, batch, threads, precision, how, layout = sys.argv[1:]
    channels, side, batch = int(channels), int(side), int(batch)
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format
    net = net_of(name, stem, channels).to(memory_format=memory_format).train()
    called = torch.compile(net) if how == "compile" else net
    x = torch.randn(batch, channels, side, side).contiguous(memory_format=memory_format)
    y = torch.arange(batch) % CLASSES
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)
    for line in sys.stdin:
        wall, processor = [], []
        for _ in range(int(line)):
            began, began_processor = time.perf_counter(), time.process_time()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = criterion(called(x), y)
            loss.backward()
            optimizer.step()
            wall.append(1e3 * (time.perf_counter() - began))
            processor.append(1e3 * (time.process_time() - began_processor))
        print(f"{min(wall):.3f} {statistics.median(wall):.3f} {min(processor):.3f} {loss.item():.6f}", flush=True)


try:
    main()
except Exception as error:  # the reason in one line
    sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")
