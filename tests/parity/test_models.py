"""The nets against torchvision's and against cifarnet's written in torch: names, shapes and counts,
logits in evaluation and training, and every parameter after training steps, from the same weights
and batches; torch computes in f64. Prints TAP. Environment: BUILD."""
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = tap.program("train_steps")

try:
    import numpy
    import torch
    import torchvision
    from torch import nn
    from torch.nn import functional
except ImportError as missing:
    tap.skip("torchvision", missing)
    tap.finish()

torch.set_num_threads(2)


# ---- nets

class Group(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)
        self.norm1 = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
        self.norm1.weight.requires_grad = self.norm2.weight.requires_grad = False

    def forward(self, x):
        x = functional.gelu(self.norm1(functional.max_pool2d(self.conv1(x), 2)))
        return functional.gelu(self.norm2(self.conv2(x)))


class CifarNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        self.layers = nn.Sequential(nn.GELU(), Group(24, 64), Group(64, 256), Group(256, 256), nn.MaxPool2d(3))
        self.head = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        x = self.layers(self.whiten(x)).flatten(1)
        return self.head(x) / x.size(-1)


def small_resnet(make):
    net = make(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    return net


class SmallVgg(nn.Module):
    def __init__(self):
        super().__init__()
        vgg = torchvision.models.vgg
        self.features = vgg.make_layers(vgg.cfgs["D"], batch_norm=True)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


# ---- the parameters of large nets

def listed(*arguments):
    result = subprocess.run([PROGRAM, "-", "-", *arguments], capture_output=True, text=True)
    if result.returncode:
        return [result.stderr]
    return [line for line in result.stdout.splitlines() if not line.startswith("loss")]


def wanted(net):
    trained = {name for name, p in net.named_parameters() if p.requires_grad}
    return [" ".join([name, str(int(name in trained)), str(p.dim()), *map(str, p.shape)])
            for name, p in net.state_dict().items()]


def check_list(name, net, counts, *arguments):
    got, want = listed("model=" + name, *arguments), wanted(net)
    differing = ["%s, not %s" % pair for pair in zip(got, want) if pair[0] != pair[1]]
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    tap.ok(got == want and (len(want), trained) == counts, "%s %s: names, shapes and order" % (name, " ".join(arguments)),
           differing or ([] if got == want and (len(want), trained) == counts else [len(got), len(want), trained]))


# ---- steps

class Muon:
    """A few lines of torch: train/optimizers/muon.h."""

    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum, self.buffers = list(parameters), lr, momentum, {}

    def step(self):
        for p in self.parameters:
            buffer = self.buffers.setdefault(p, torch.zeros_like(p))
            buffer.mul_(self.momentum).add_(p.grad)
            g = p.grad.add(buffer, alpha=self.momentum).reshape(len(p), -1)
            x = g / (g.norm() + 1e-7)
            if x.size(0) > x.size(1):
                x = x.T
            for _ in range(3):
                a = x @ x.T
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            if g.size(0) > g.size(1):
                x = x.T
            p.data.mul_(len(p) ** 0.5 / p.data.norm())
            p.data.add_(x.view(p.shape), alpha=-self.lr)


def optimizers(net, options):
    lr, momentum = options["lr"], options["momentum"]
    make = lambda parameters, rate: torch.optim.SGD(
        parameters, lr=rate, momentum=momentum, weight_decay=options.get("decay", 0), nesterov=bool(options.get("nesterov")))
    trained = [p for p in net.parameters() if p.requires_grad]
    if not options.get("airbench"):
        return [make(trained, lr)]
    return [Muon([p for p in trained if p.dim() == 4], lr, momentum), make([p for p in trained if p.dim() != 4], lr / 2)]


def distance(want, got):
    want, got = want.double().flatten(), got.double().flatten()
    scale = want.norm().item() / math.sqrt(max(want.numel(), 1))
    return (want - got).norm().item() / math.sqrt(max(want.numel(), 1)) / max(scale, 1e-7)


def check_steps(name, make, side, batch, tolerance, compute, steps=1, **options):
    torch.manual_seed(len(name) + side)
    net = make()
    for key, p in net.state_dict().items():
        if key.endswith("running_var"):
            p.uniform_(0.5, 2)
        elif p.is_floating_point() and p.dim() == 1:
            p.add_(torch.randn(p.shape) * 0.1)
        if "bn3.weight" in key: # rounding grows less through 16 blocks with small values than with large ones
            p.mul_(0.2)
    frozen = {key for key, p in net.named_parameters() if not p.requires_grad}
    images = torch.randn(steps, batch, 3, side, side)
    labels = torch.randint(0, 10, (steps, batch))
    given = list(net.state_dict().items())
    with tempfile.TemporaryDirectory() as folder:
        source, result = os.path.join(folder, "in"), os.path.join(folder, "out")
        with open(source, "wb") as file:
            for _, p in given:
                p.detach().numpy().tofile(file)
            for step in range(steps):
                images[step].numpy().tofile(file)
                labels[step].numpy().tofile(file)
        arguments = {"model": name, "side": side, "batch": batch, "steps": steps, "compute": compute, **options}
        done = subprocess.run([PROGRAM, source, result, *("%s=%s" % pair for pair in arguments.items())],
                              capture_output=True, text=True)
        title = "%s, %d px, %d steps, %s" % (name, side, steps, compute)
        if done.returncode:
            return tap.ok(False, title, done.stderr)
        bytes_ = numpy.fromfile(result, numpy.uint8)
    place = 0

    def take(shape, dtype=numpy.float32):
        nonlocal place
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        values = bytes_[place:place + size].view(dtype).reshape(shape)
        place += size
        return torch.from_numpy(values.copy())

    notes, worst = [], 0

    def compare(what, want, got, limit=tolerance):
        nonlocal worst
        apart = distance(want, got)
        worst = max(worst, apart / limit)
        if not apart <= limit:
            notes.append("%s: %g apart" % (what, apart))

    begun = {key: p.clone() for key, p in given}
    net = net.double()
    update = optimizers(net, options)
    net.eval()
    with torch.no_grad():
        compare("evaluation", net(images[0].double()), take((batch, 10)), 1e-4)
    net.train()
    losses = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss")]
    for step in range(steps):
        net.zero_grad()
        logits = net(images[step].double())
        loss = functional.cross_entropy(logits, labels[step], label_smoothing=options.get("smoothing", 0),
                                        reduction="sum" if options.get("summed") else "mean")
        loss.backward()
        for one in update:
            one.step()
        compare("logits of step %d" % step, logits.detach(), take((batch, 10)), tolerance if step else 1e-3)
        mean = loss.item() / (batch if options.get("summed") else 1)
        if not abs(mean - losses[step]) <= 1e-3 * abs(mean):
            notes.append("loss of step %d: %g, not %g" % (step, losses[step], mean))
    for key, want in net.state_dict().items():
        if not want.is_floating_point():
            got = take(want.shape, numpy.int64)
            if not torch.equal(want, got):
                notes.append("%s: %s, not %s" % (key, got, want))
            continue
        got = take(want.shape)
        if key in frozen and not torch.equal(got, begun[key]):
            notes.append(key + " was changed")
        compare(key, want - begun[key] if want.dim() > 1 else want, got - begun[key] if want.dim() > 1 else got,
                1e-7 if key in frozen else tolerance)
    tap.ok(not notes, "%s: at %.2g of the tolerance" % (title, worst), notes)


models = torchvision.models
check_list("resnet50", models.resnet50(), (320, 25557032), "side=64", "classes=1000", "batch=2", "stem=imagenet")
check_list("resnet50", small_resnet(models.resnet50), (320, 23520842), "batch=2")
check_list("vgg16_bn", models.vgg16_bn(init_weights=False), (97, 138365992), "side=224", "classes=1000", "batch=1")
check_list("cifarnet", CifarNet(), (39, 1971352), "batch=2")
for compute in ("onednn", "reference"):
    known = subprocess.run([PROGRAM, "-", "-", "model=smallnet", "compute=" + compute], capture_output=True)
    if known.returncode:
        tap.skip(compute, "not in this build")
        continue
    sgd = {"lr": 0.1, "momentum": 0.9, "nesterov": 1, "decay": 5e-4}
    fast = {"lr": 0.01, "momentum": 0.6, "nesterov": 1, "decay": 0.02, "summed": 1, "smoothing": 0.2, "airbench": 1}
    if compute == "reference": # unit tests compare the two on every operation
        check_steps("cifarnet", CifarNet, 32, 4, 1e-3, compute, **fast)
        continue
    check_steps("cifarnet", CifarNet, 32, 8, 1e-3, compute, steps=3, **fast)
    check_steps("resnet18", lambda: small_resnet(models.resnet18), 16, 4, 1e-3, compute, **sgd)
    check_steps("resnet50", lambda: models.resnet50(num_classes=10), 64, 4, 2e-2, compute, stem="imagenet", **sgd)
    check_steps("vgg16_bn", SmallVgg, 32, 4, 5e-2, compute, smoothing=0.1, **sgd)
tap.finish()
