"""The nets against torchvision's and against cifarnet's written in torch: names, shapes, initial
values and multiply-accumulates; logits, gradients, and every parameter after training steps, from
the same weights and batches; torch computes in f64. Prints TAP. Environment: BUILD."""
import fnmatch
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


models = torchvision.models
RESNETS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
VGGS = ["vgg%d%s" % (depth, norms) for depth in (11, 13, 16, 19) for norms in ("", "_bn")]


class SmallVgg(nn.Module):
    def __init__(self, name):
        super().__init__()
        vgg = getattr(models, name)(num_classes=10)
        self.features = vgg.features
        self.classifier = nn.Linear(512, 10)
        nn.init.normal_(self.classifier.weight, 0, 0.01)
        nn.init.constant_(self.classifier.bias, 0)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def make(name, stem, classes=10):
    """torchvision's net without dropout; with the CIFAR stem, the usual form for small images."""
    if name == "cifarnet":
        return CifarNet()
    if stem == "cifar" and name in VGGS:
        return SmallVgg(name)
    net = getattr(models, name)(num_classes=classes, **({"dropout": 0} if name not in RESNETS else {}))
    if stem == "cifar" and name in RESNETS:
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
        net.maxpool = nn.Identity()
    elif stem == "cifar":
        net.features[0][0].stride = net.features[2].conv[1][0].stride = (1, 1)
    return net


# ---- what a net is made of

class Rules:
    """While it is active nothing is drawn: notes how torch would."""

    def __enter__(self):
        init, fan = nn.init, nn.init._calculate_correct_fan
        self.noted, self.kept = {}, {name: getattr(init, name) for name in
                                     ("kaiming_normal_", "kaiming_uniform_", "normal_", "uniform_", "constant_", "ones_", "zeros_")}
        note = lambda tensor, *rule: self.noted.__setitem__(id(tensor), rule)
        deviation = lambda tensor, a, mode, kind: init.calculate_gain(kind, a) / math.sqrt(fan(tensor, mode))
        init.kaiming_normal_ = lambda t, a=0, mode="fan_in", nonlinearity="leaky_relu": note(
            t, "normal", deviation(t, a, mode, nonlinearity))
        init.kaiming_uniform_ = lambda t, a=0, mode="fan_in", nonlinearity="leaky_relu": note(
            t, "uniform", math.sqrt(3) * deviation(t, a, mode, nonlinearity))
        init.normal_ = lambda t, mean=0, std=1: note(t, "normal", std)
        init.uniform_ = lambda t, a=0, b=1: note(t, "uniform", b)
        init.constant_ = lambda t, value: note(t, "constant", value)
        init.ones_, init.zeros_ = lambda t: note(t, "constant", 1), lambda t: note(t, "constant", 0)
        return self

    def __exit__(self, *_):
        for name, kept in self.kept.items():
            setattr(nn.init, name, kept)


def macs_of(net, side):
    """Multiply-accumulates of one image: for each output, a product with a row of the weights."""
    sums = []
    hook = lambda module, _, y: sums.append(y[0].numel() * module.weight[0].numel())
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(hook)
    net.eval().to("meta")(torch.empty(1, 3, side, side, device="meta"))
    return sum(sums)


def check_list(name, stem, side, classes=10):
    with Rules() as rules:
        net = make(name, stem, classes)
    arguments = ["model=" + name, "side=%d" % side, "classes=%d" % classes, "stem=" + stem]
    result = subprocess.run([PROGRAM, "-", "-", *arguments], capture_output=True, text=True)
    parameters, want = dict(net.named_parameters()), []
    for key, p in net.state_dict().items():
        trained = key in parameters and parameters[key].requires_grad
        rule = rules.noted[id(parameters[key])] if key in parameters else ("constant", 1 if key.endswith("var") else 0)
        want.append([key, int(trained), p.dim(), *p.shape, *rule])
    got = [line.split() for line in result.stdout.splitlines()]
    wrong = [result.stderr] if result.returncode else []
    for one, other in zip(got, want + [["macs", macs_of(net, side)]]):
        # cifarnet's own initial values: unit tests
        ends = len(other) - (2 if name == "cifarnet" and len(other) > 2 else 1)
        if one[:ends] != [str(part) for part in other[:ends]] or (
                ends == len(other) - 1 and abs(float(one[-1]) - other[-1]) > 1e-6 * abs(other[-1])):
            wrong.append("%s, not %s" % (one, other))
    tap.ok(not wrong and len(got) == len(want) + 1, "%s, %s: names, shapes, order, initial values, multiply-accumulates" % (
        name, stem), wrong[:10] or [len(got), len(want) + 1])


# ---- steps

class Muon:
    """A few lines of torch: train/compute/optimizers/muon.h."""

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


def distance(want, got, floor=1e-7):
    want, got = want.double().flatten(), got.double().flatten()
    scale = want.norm().item() / math.sqrt(max(want.numel(), 1))
    return (want - got).norm().item() / math.sqrt(max(want.numel(), 1)) / max(scale, floor)


class Exchange:
    """One run of PROGRAM from the net's parameters: what it printed, and OUT, taken piece by piece."""

    def __init__(self, net, images, labels, arguments, mix=None):
        with tempfile.TemporaryDirectory() as folder:
            source, result = os.path.join(folder, "in"), os.path.join(folder, "out")
            with open(source, "wb") as file:
                for p in net.state_dict().values():
                    p.detach().numpy().tofile(file)
                for step in range(len(images)):
                    images[step].numpy().tofile(file)
                    labels[step].numpy().tofile(file)
                    if mix is not None:
                        mix[step].numpy().tofile(file)
            done = subprocess.run([PROGRAM, source, result, *("%s=%s" % pair for pair in arguments.items())],
                                  capture_output=True, text=True)
            self.failure = done.stderr if done.returncode else None
            self.losses = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss")]
            self.bytes = numpy.fromfile(result, numpy.uint8) if not done.returncode else None
        self.place = 0

    def take(self, shape, dtype=numpy.float32):
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        values = self.bytes[self.place:self.place + size].view(dtype).reshape(shape)
        self.place += size
        return torch.from_numpy(values.copy())


def train(net, held):
    net.train()
    for module in held:
        module.eval()


def widen(net, images, held=()):
    """Draws the norms' parameters, and shifts each channel that a ReLU reads so that none of its values
    for these images is near an edge: there rounding alone would decide what gradients pass."""
    last = []

    def remember(module, _, y):
        last[:] = [module]

    def shift(module, inputs):
        z, = inputs
        edges = (0, 6) if isinstance(module, nn.ReLU6) else (0,)
        values = z.transpose(0, 1).flatten(1)
        tried = torch.randn(60, 1, 1) * values.std() * 0.3
        nearest = torch.stack([(values + tried - edge).abs().amin(2) for edge in edges]).amin(0)
        best = tried[nearest.argmax(0), 0, 0]
        last[0].bias.data += best
        return z + best.view(-1, *[1] * (z.dim() - 2))

    hooks = []
    for name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5)
            if name.endswith("bn3"): # rounding grows less through many blocks with small values than with large ones
                module.weight.data.mul_(0.2)
            module.bias.data.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
        if isinstance(module, (nn.BatchNorm2d, nn.Conv2d, nn.Linear)) and module.bias is not None:
            hooks.append(module.register_forward_hook(remember))
        if isinstance(module, (nn.ReLU, nn.ReLU6)):
            module.inplace = False
            hooks.append(module.register_forward_pre_hook(shift))
    with torch.no_grad():
        statistics = {key: p.clone() for key, p in net.state_dict().items() if key not in dict(net.named_parameters())}
        train(net, held)
        net(images)
        net.load_state_dict(statistics, strict=False)
    for hook in hooks:
        hook.remove()


def freeze(net, names):
    """No gradients of these parameters; the norms among them, which torch's eval() holds."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    of_norms = {id(p) for module in norms for p in module.parameters()}
    for key, p in net.named_parameters():
        if any(fnmatch.fnmatchcase(key, part) or part == "norm" and id(p) in of_norms for part in names.split(",")):
            p.requires_grad = False
    return [module for module in norms if not module.weight.requires_grad and not module.bias.requires_grad]


def check_gradients(name, stem, side, batch, compute="onednn", frozen=None):
    """Logits and gradients: 1e-4 in norm, each tensor."""
    torch.manual_seed(len(name) + side)
    net = make(name, stem, 10)
    images, labels = torch.randn(1, batch, 3, side, side), torch.randint(0, 10, (1, batch))
    trained = [key for key, p in net.named_parameters() if p.requires_grad]
    held = freeze(net, frozen) if frozen else []
    widen(net, images[0], held)
    title = "%s, %s, %d px: logits and gradients, %s%s" % (name, stem, side, compute, ", %s frozen" % frozen if frozen else "")
    run = Exchange(net, images, labels, {"model": name, "stem": stem, "side": side, "batch": batch, "gradients": 1,
                                         "compute": compute, **({"freeze": frozen} if frozen else {})})
    if run.failure:
        return tap.ok(False, title, run.failure)
    net = net.double()
    net.eval()
    with torch.no_grad():
        pairs = [("logits in evaluation", net(images[0].double()), run.take((batch, 10)))]
    train(net, held)
    logits = net(images[0].double())
    functional.cross_entropy(logits, labels[0]).backward()
    pairs.append(("logits", logits.detach(), run.take((batch, 10))))
    gradients = [(key, p.grad, run.take(p.shape)) for key, p in net.named_parameters() if key in trained]
    pairs += [(key, want, got) for key, want, got in gradients if want is not None]
    left = [key for key, want, got in gradients if want is None and got.any()]
    for key, p in net.state_dict().items():
        got = run.take(p.shape, numpy.float32 if p.is_floating_point() else numpy.int64)
        if "running" in key:
            pairs.append((key, p, got))
        elif not p.is_floating_point() and not torch.equal(p, got):
            left.append(key)
    # a bias that a later norm takes away again has a gradient of 0, or one of little but what cancelled
    usual = sorted(want.square().mean().sqrt().item() for _, want, _ in pairs)[len(pairs) // 2]
    apart = sorted(((distance(want, got, usual * (1 if want.norm() < 1e-9 * usual else 0.1)), what)
                    for what, want, got in pairs), reverse=True)
    tap.ok(apart[0][0] <= 1e-4 and not left, "%s: %.2g apart at most" % (title, apart[0][0]),
           ["%s: %g apart" % (what, far) for far, what in apart if not far <= 1e-4][:10] + left)


def check_steps(name, stem, side, batch, tolerance, compute, steps=1, **options):
    torch.manual_seed(len(name) + side)
    net = make(name, stem)
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
    mix = torch.rand(steps, batch) if options.get("mixed") else None
    weights = 0.5 + torch.arange(10).double() / 4 if options.get("weighted") else None
    given = list(net.state_dict().items())
    arguments = {"model": name, "stem": stem, "side": side, "batch": batch, "steps": steps, "compute": compute, **options}
    title = ", ".join(["%s, %d px, %d steps" % (name, side, steps), compute, *(
        str(options[key]) if key == "loss" else key for key in ("loss", "weighted", "mixed", "smoothing", "parts") if options.get(key))])
    run = Exchange(net, images, labels, arguments, mix)
    if run.failure:
        return tap.ok(False, title, run.failure)
    take = run.take
    notes, worst = [], 0

    def compare(what, want, got, limit=tolerance):
        nonlocal worst
        apart = distance(want, got)
        worst = max(worst, apart / limit)
        if not apart <= limit:
            notes.append("%s: %g apart" % (what, apart))

    def binary(logits, target, weight, label_smoothing, reduction):
        """torch's binary cross entropy of the targets that timm's loss makes."""
        kind, _, threshold = options["loss"].partition("=")
        soft = target if target.dim() > 1 else functional.one_hot(target, 10).double()
        soft = soft * (1 - label_smoothing) + label_smoothing / 10
        soft = soft.gt(float(threshold)).double() if threshold else soft
        terms = functional.binary_cross_entropy_with_logits(logits, soft, weight, reduction="none")
        each = terms.mean(1) if kind == "bce" else terms.sum(1)
        return each.sum() if reduction == "sum" else each.mean()

    begun = {key: p.clone() for key, p in given}
    net = net.double()
    update = optimizers(net, options)
    net.eval()
    with torch.no_grad():
        part = batch // options.get("parts", 1)
        compare("evaluation", net(images[0, :part].double()), take((part, 10)), 1e-4)
    net.train()
    for step in range(steps):
        net.zero_grad()
        logits = net(images[step].double())
        target = labels[step]
        if mix is not None:
            share, hot = mix[step].double()[:, None], functional.one_hot(target, 10).double()
            target = share * hot + (1 - share) * hot[torch.arange(batch) ^ 1]
        loss = (binary if "loss" in options else functional.cross_entropy)(
            logits, target, weight=weights, label_smoothing=options.get("smoothing", 0), reduction="sum" if options.get("summed") else "mean")
        loss.backward()
        for one in update:
            one.step()
        compare("logits of step %d" % step, logits.detach(), take((batch, 10)), tolerance if step else 1e-3)
        mean = loss.item() / (batch if options.get("summed") else 1)
        if not abs(mean - run.losses[step]) <= 1e-3 * abs(mean):
            notes.append("loss of step %d: %g, not %g" % (step, run.losses[step], mean))
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


# Net, stem, side, batch. SOME: a form of each family; the rest of EVERY takes minutes (FF_MODELS=all).
SOME = [("resnet18", "cifar", 8, 8), ("resnet50", "imagenet", 32, 8), ("vgg11", "cifar", 32, 2), ("vgg11_bn", "cifar", 32, 4),
        ("mobilenet_v2", "imagenet", 64, 8)]
EVERY = SOME + [("resnet18", "imagenet", 64, 4), ("resnet101", "cifar", 8, 16), ("resnet152", "cifar", 8, 16), ("vgg11", "imagenet", 64, 2),
                ("vgg16_bn", "imagenet", 64, 4), ("resnet34", "cifar", 8, 8),
                *((name, "cifar", 32, 4 if name.endswith("_bn") else 2) for name in VGGS[2:])]
if tap.SHORT:
    check_list("cifarnet", "auto", 32, 10)
    for name in RESNETS + VGGS + ["mobilenet_v2"]:
        check_list(name, "imagenet", 96, 1000)
        check_list(name, "cifar", 32)
for compute in ("onednn", "reference"):
    known = subprocess.run([PROGRAM, "-", "-", "model=smallnet", "compute=" + compute], capture_output=True)
    if known.returncode:
        tap.skip(compute, "not in this build")
        continue
    sgd = {"lr": 0.1, "momentum": 0.9, "nesterov": 1, "decay": 5e-4}
    fast = {"lr": 0.01, "momentum": 0.6, "nesterov": 1, "decay": 0.02, "summed": 1, "smoothing": 0.2, "airbench": 1}
    if compute == "reference": # unit tests compare the two on every operation
        if not tap.LONG:
            continue
        check_steps("cifarnet", "auto", 32, 4, 1e-3, compute, **fast)
        check_gradients("resnet18", "cifar", 8, 4, compute, frozen="norm")
        continue
    if tap.SHORT:
        check_steps("cifarnet", "auto", 32, 8, 1e-3, compute, steps=3, **fast)
        check_steps("vgg11", "cifar", 32, 2, 1e-3, compute, weighted=1, lr=0.1, momentum=0.9, parts=2, smoothing=0.1)
        check_steps("vgg11", "cifar", 32, 4, 1e-3, compute, loss="bce=0.2", mixed=1, lr=0.1, momentum=0.9, parts=2, smoothing=0.1)
        check_steps("vgg11", "cifar", 32, 2, 1e-3, compute, loss="bce-sum", weighted=1, lr=0.01, momentum=0.9, smoothing=0.1)
        check_gradients("resnet18", "cifar", 8, 8, frozen="layer2.*,norm")
        check_gradients("mobilenet_v2", "cifar", 16, 8)
    if tap.LONG:
        check_steps("resnet18", "cifar", 16, 4, 1e-3, compute, **sgd)
        for more in ({}, {"mixed": 1, "smoothing": 0.1}):
            check_steps("vgg11", "cifar", 32, 2, 1e-3, compute, weighted=1, lr=0.1, momentum=0.9, **more)
        check_gradients("resnet18", "cifar", 8, 8, frozen="conv1.*,bn1.*,layer1.*,layer2.*")
        check_gradients("mobilenet_v2", "cifar", 16, 8, frozen="norm")
        for case in EVERY if os.environ.get("FF_MODELS") == "all" else SOME:
            check_gradients(*case)
tap.finish()
