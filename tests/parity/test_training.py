"""Training beside PyTorch on real images: the same weights file, order and augmented batches. Each step from torch's state:
the loss and the update; and runs left alone: no further from torch than twice what torch with one thread is from torch with
two. Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository); FF_STEPS (default 2),
FF_BATCH (8), FF_NETS (vgg11_bn). tests/bench/RESULTS.md has the figures
of FF_STEPS=100 FF_BATCH=16 FF_NETS="resnet18 vgg11_bn mobilenet_v2"."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

SHARED = os.environ.get("FF_SHARED_DATA", os.path.join(tap.ROOT, "..", "shared", "data"))
IMAGES = os.path.join(SHARED, "cifar10-jpeg.tar.zst")
STEPS, BATCH = int(os.environ.get("FF_STEPS", 2)), int(os.environ.get("FF_BATCH", 8))
NETS = os.environ.get("FF_NETS", "vgg11_bn").split()
SIDE, CLASSES, AUGMENT = 32, 10, "crop=4,flip,cutout=8"

try:
    import numpy
    import torch
    from torch import nn
    import torchvision
except ImportError as missing:
    tap.skip("training beside PyTorch", missing)
    tap.finish()
if tap.SANITIZE or not os.path.exists(IMAGES):
    tap.skip("training beside PyTorch", "not under sanitizers" if tap.SANITIZE else "no %s" % IMAGES)
    tap.finish()


def small_form(name):
    """torchvision's net as fftrain has it for small images, without dropout."""
    if name == "resnet18":
        net = torchvision.models.resnet18(num_classes=CLASSES)
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    elif name == "vgg11_bn":
        net = torchvision.models.vgg11_bn(num_classes=CLASSES)
        net.avgpool, net.classifier = nn.AdaptiveAvgPool2d(1), nn.Linear(512, CLASSES)
    else:
        net = torchvision.models.mobilenet_v2(num_classes=CLASSES, dropout=0)
        net.features[0][0].stride = net.features[2].conv[1][0].stride = (1, 1)
    return net


def save_safetensors(state, path):
    kinds, header, parts, at = {torch.float32: "F32", torch.int64: "I64"}, {}, [], 0
    for name, value in state.items():
        parts.append(value.contiguous().numpy().tobytes())
        header[name] = {"dtype": kinds[value.dtype], "shape": list(value.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def load_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    kinds = {"F32": "float32", "I64": "int64"}
    return {name: torch.from_numpy(numpy.frombuffer(data[8 + size:][slice(*one["data_offsets"])], kinds[one["dtype"]])
                                   .reshape(one["shape"]).copy()) for name, one in header.items()}


def compared(net):
    """The names of the parameters, except for biases that a batch norm takes away again: their gradient is 0, what is computed of it is
    rounding alone, and AdamW makes steps of full size from its signs."""
    modules = list(net.modules())
    idle = {id(a.bias) for a, b in zip(modules, modules[1:]) if isinstance(a, nn.Conv2d) and isinstance(b, nn.BatchNorm2d)}
    return [name for name, value in net.named_parameters() if id(value) not in idle]


class Torch:
    """A net, its optimizer, and their state as arrays."""

    def __init__(self, name, optimizer, state):
        self.net = small_form(name)
        self.net.load_state_dict(state)
        self.net.train()
        self.blocks = ["momentum_buffer"] if optimizer["name"] == "sgd" else ["exp_avg", "exp_avg_sq"]
        make = torch.optim.SGD if optimizer["name"] == "sgd" else torch.optim.AdamW
        self.optimizer = make(self.net.parameters(), **optimizer["torch"])

    def bytes(self):
        parts = [value for value in self.net.state_dict().values()]
        for block in self.blocks:
            parts += [self.optimizer.state[p].get(block, torch.zeros_like(p)) if p in self.optimizer.state else torch.zeros_like(p)
                      for p in self.net.parameters()]
        return b"".join(part.detach().contiguous().numpy().tobytes() for part in parts)

    def take(self, other):
        self.net.load_state_dict(other.net.state_dict())
        self.optimizer.load_state_dict(other.optimizer.state_dict())

    def step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.net(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def values(self):
        parameters = dict(self.net.named_parameters())
        return [parameters[name].detach().clone() for name in compared(self.net)]


def norm(parts):
    return sum(part.double().pow(2).sum().item() for part in parts) ** 0.5


def apart(a, b):
    return norm([x - y for x, y in zip(a, b)])


class Ours:
    """train_steps: the loss and the parameters after each step from a given state; without one from its own."""

    def __init__(self, name, optimizer, states):
        for pipe in ("in", "out"):
            if os.path.exists(pipe):
                os.remove(pipe)
            os.mkfifo(pipe)
        self.process = subprocess.Popen(
            [tap.program("train_steps"), "in", "out", "model=" + name, "stem=cifar", "batch=%d" % BATCH, "states=%d" % states,
             "steps=%d" % STEPS, "optimizer=" + optimizer["name"], *optimizer["ours"]], stdout=subprocess.PIPE, text=True)
        self.to, self.back = open("in", "wb"), open("out", "rb")

    def give(self, state, images, labels):
        self.to.write(state + images.numpy().tobytes() + labels.numpy().tobytes())
        self.to.flush()

    def values(self, net):
        values = {}
        for key, value in net.state_dict().items():
            data = self.back.read(value.numel() * value.element_size())
            values[key] = torch.from_numpy(numpy.frombuffer(data, "uint8").copy()).view(value.dtype).reshape(value.shape)
        return values

    def step(self, torchs, images, labels):
        state = torchs.bytes()
        self.give(state, images, labels)
        self.back.read(BATCH * CLASSES * 4) # logits
        values = self.values(torchs.net)
        self.back.read(len(state) - sum(value.numel() * value.element_size() for value in torchs.net.state_dict().values()))
        line = self.process.stdout.readline()
        while not line.startswith("loss"):
            line = self.process.stdout.readline()
        return float(line.split()[1]), [values[name] for name in compared(torchs.net)]

    def close(self):
        self.to.close()
        rest = self.back.read()
        self.back.close()
        return self.process.wait() == 0 and not rest


def train_alone(name, optimizer, begun, net):
    """The parameters after all steps of fftrain, and whether train_steps has the same bits."""
    done = subprocess.run([os.path.join(tap.BUILD, "fftrain"), "--data", "packed/train", "--model", name, "--stem", "cifar", "--weights",
                           "begin.safetensors", "--augment", AUGMENT, "--batch", str(BATCH), "--epochs", "1", "--optimizer",
                           optimizer["name"], "--schedule", "constant", "--warmup", "0", "--no-decay", "none", "--dropout", "0",
                           "--label-smoothing", "0", "--seed", "0", "--out", "run", "--threads", "2", *optimizer["fftrain"]],
                          capture_output=True, text=True)
    if done.returncode:
        print("#", done.stderr)
        return None, False
    state = load_safetensors("run/checkpoints/last/model.safetensors")
    shutil.rmtree("run")
    ours = Ours(name, optimizer, 0)
    ours.to.write(b"".join(value.numpy().tobytes() for value in begun.values()))
    for images, labels in batches:
        ours.give(b"", images, labels)
    ours.to.flush()
    ours.back.read((1 + STEPS) * BATCH * CLASSES * 4) # logits
    wanted = ours.values(net)
    same = all(torch.equal(state[name], wanted[name]) for name, _ in net.named_parameters())
    return [state[name] for name in compared(net)], ours.close() and same


def check(name, optimizer):
    title = "%s, %s, %d steps of %d" % (name, optimizer["name"], STEPS, BATCH)
    torch.manual_seed(5)
    begun = {key: value.clone() for key, value in small_form(name).state_dict().items()}
    save_safetensors(begun, "begin.safetensors")
    ours, one, two = Ours(name, optimizer, 1), Torch(name, optimizer, begun), Torch(name, optimizer, begun)
    other = Torch(name, optimizer, begun)
    other.net.to(memory_format=torch.channels_last)
    loss_apart, update_apart, other_apart, losses = [], [], [], []
    for images, labels in batches:
        before = one.values()
        other.take(one)
        loss, after = ours.step(one, images, labels)
        torch.set_num_threads(1)
        wanted = one.step(images, labels)
        torch.set_num_threads(2)
        two.step(images, labels)
        other.step(images.contiguous(memory_format=torch.channels_last), labels)
        step = apart(one.values(), before)
        losses.append(wanted)
        loss_apart.append(abs(loss - wanted))
        update_apart.append(apart(after, one.values()) / step)
        other_apart.append(apart(other.values(), one.values()) / step)
    tap.ok(ours.close(), "%s: the program ends" % title)
    tap.ok(max(loss_apart) <= 1e-4, "%s: each step's loss is torch's within 1e-4" % title, max(loss_apart))
    tap.ok(max(update_apart) <= max(1e-3, 2 * max(other_apart)), "%s: each step's update is torch's within 1e-3, or twice what torch's "
           "are with channels last" % title, (update_apart, other_apart))
    final, same = train_alone(name, optimizer, begun, one.net)
    tap.ok(same, "%s: fftrain alone takes these batches: the same bits" % title)
    if not final:
        return
    limit, found = apart(one.values(), two.values()), apart(final, one.values())
    moved = apart(one.values(), [begun[name] for name in compared(one.net)])

    def figures(values):
        return "%.1e (median %.1e)" % (max(values), sorted(values)[STEPS // 2])

    print("# %s: loss %.3f to %.3f; loss apart %.1e; update apart %s, channels last %s; %d of %d within 1e-3; alone %.3g of the way "
          "from torch, torch's threads %.3g" % (title, losses[0], sum(losses[-10:]) / len(losses[-10:]), max(loss_apart),
                                                figures(update_apart), figures(other_apart), sum(u <= 1e-3 for u in update_apart),
                                                STEPS, found / moved, limit / moved), flush=True)
    if STEPS >= 100: # before, threads of torch differ less than two implementations
        tap.ok(found <= 2 * limit, "%s: alone, no further from torch than twice torch's threads" % title, (found, limit))


OPTIMIZERS = [
    {"name": "sgd", "torch": dict(lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True),
     "ours": ["lr=0.05", "momentum=0.9", "decay=5e-4", "nesterov=1"],
     "fftrain": ["--lr", "0.05", "--momentum", "0.9", "--weight-decay", "5e-4", "--nesterov"]},
    {"name": "adamw", "torch": dict(lr=1e-3, weight_decay=0.05), "ours": ["lr=1e-3", "decay=0.05"],
     "fftrain": ["--lr", "1e-3", "--weight-decay", "0.05"]},
]
place = tempfile.mkdtemp()
os.chdir(place)
COUNT = STEPS * BATCH
names = subprocess.run(["tar", "tf", IMAGES], capture_output=True, text=True, check=True).stdout.split()
names = [name for name in names if "train/" in name and name.endswith(".jpg")]
names = [name for i in range(len(names) // CLASSES) for name in names[i::len(names) // CLASSES]][:COUNT] # of every class
os.mkdir("images")
subprocess.run(["tar", "xf", IMAGES, "-C", "images", "-T", "-"], input="\n".join(names), text=True, check=True)
subprocess.run([os.path.join(tap.BUILD, "ffpack"), "images", "-o", "packed", "--dtype", "f32", "--mean", "0.4914,0.4822,0.4465", "--std",
                "0.247,0.2435,0.2616"], check=True, capture_output=True)
dump = subprocess.run([tap.program("dump_batches"), "packed/train", str(BATCH), str(STEPS), AUGMENT], capture_output=True, check=True)
size = BATCH * 3 * SIDE * SIDE * 4
batches = []
for step in range(STEPS):
    at = step * (size + BATCH * 8)
    batches.append((torch.from_numpy(numpy.frombuffer(dump.stdout[at:at + size], "float32").reshape(BATCH, 3, SIDE, SIDE).copy()),
                    torch.from_numpy(numpy.frombuffer(dump.stdout[at + size:at + size + BATCH * 8], "int64").copy())))
tap.ok(len(dump.stdout) == STEPS * (size + BATCH * 8), "batches of the loader")
for net in NETS:
    for one_optimizer in OPTIMIZERS:
        check(net, one_optimizer)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
