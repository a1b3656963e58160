"""Accuracy compared with PyTorch's on CIFAR-10's JPEGs, on the same cores in one run.
  finetune a ResNet-18 that PyTorch trained on 1000 images of each of four classes is tuned on 400 of each of the other classes,
  with a new head, by both programs, SEEDS (5) times: the accuracies.
  timm seconds from a folder of JPEGs to TARGET (0.6) of the test set, a ResNet-18 of IMAGES (20000), by fftrain and by a script
  with timm, until the first evaluation after an epoch that reaches it.
  precision fftrain in bf16 compared with itself in f32 on the CPU, with PRECISION_SEEDS (3) seeds, on PRECISION_IMAGES (10000): the
  losses of the last 50 of 300 steps of smallnet, and the accuracy of a ResNet-18 after 10 epochs. Not run without its name.
usage: accuracy.py [finetune] [timm] [precision]. Environment: BUILD, FF_SHARED_DATA (default ../shared/data next to the repository)."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
SHARED = os.environ.get("FF_SHARED_DATA", os.path.join(ROOT, "..", "shared", "data"))
IMAGES = os.path.join(SHARED, "cifar10-jpeg.tar.zst")
SEEDS, TARGET = int(os.environ.get("SEEDS", 5)), float(os.environ.get("TARGET", 0.6))
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)

try:
    import torch
    from torch import nn
    import torchvision
    from torchvision import transforms
except ImportError as error:
    print(f"accuracy: skipped: {error}; Debian packages python3-torch, python3-torchvision")
    sys.exit(0)
if not os.path.exists(IMAGES):
    print(f"accuracy: skipped: no {IMAGES}")
    sys.exit(0)
torch.set_num_threads(os.cpu_count())


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")


def pack(source, name):
    call(f"{BUILD}/ffpack", source, "-o", name, "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)))


def epochs_of(*options):
    """The epochs of a run: (seconds since its start, the event)."""
    began, found = time.perf_counter(), []
    run = subprocess.Popen([str(word) for word in (f"{BUILD}/fftrain", *options, "--threads", os.cpu_count(), "--log-json", "/dev/stderr")],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "epoch" and "val_accuracy" in event:
            found.append((time.perf_counter() - began, event))
    if run.wait():
        sys.exit(f"fftrain {options} failed")
    return found


def ours(*options):
    """The evaluations of a run: (seconds since its start, accuracy)."""
    return [(seconds, event["val_accuracy"]) for seconds, event in epochs_of(*options)]


def resnet18(classes):
    return torchvision.models.resnet18(num_classes=classes)


def save_safetensors(state, path):
    header, parts, at = {}, [], 0
    for name, value in state.items():
        parts.append(value.contiguous().numpy().tobytes())
        header[name] = {"dtype": "F32" if value.dtype == torch.float32 else "I64", "shape": list(value.shape),
                        "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def folder_tensors(path):
    folder = torchvision.datasets.ImageFolder(path, transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)]))
    images, labels = zip(*folder)
    return torch.stack(images), torch.tensor(labels)


def augmented(images):
    """Random crops with 4 black pixels of padding, and flips, as torchvision's before ToTensor."""
    black = (-torch.tensor(MEAN) / torch.tensor(STD)).view(1, 3, 1, 1)
    padded, out = nn.functional.pad(images - black, (4, 4, 4, 4)) + black, torch.empty_like(images)
    for i, (down, right) in enumerate(torch.randint(0, 9, (len(images), 2)).tolist()):
        one = padded[i, :, down:down + 32, right:right + 32]
        out[i] = one.flip(2) if torch.rand(()) < 0.5 else one
    return out


def torch_train(net, data, epochs, rate, batch=64):
    images, labels = data
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4, nesterov=True)
    steps = len(images) // batch * epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for at in range(0, len(images) - batch + 1, batch):
            chosen = order[at:at + batch]
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(augmented(images[chosen])), labels[chosen]).backward()
            optimizer.step()
            schedule.step()


def torch_accuracy(net, data):
    net.eval()
    with torch.no_grad():
        return sum((net(x).argmax(1) == y).sum().item() for x, y in zip(data[0].split(250), data[1].split(250))) / len(data[0])


def link_classes(target, split, classes, count=None):
    for name in classes:
        files = sorted(os.listdir(f"images/{split}/{name}"))[:count]
        os.makedirs(f"{target}/{split}/{name}")
        for file in files:
            os.link(f"images/{split}/{name}/{file}", f"{target}/{split}/{name}/{file}")


def finetune(classes):
    link_classes("first", "train", classes[:4], 1000)
    link_classes("second", "train", classes[4:], 400)
    link_classes("second", "test", classes[4:])
    torch.manual_seed(0)
    net = resnet18(4)
    torch_train(net, folder_tensors("first/train"), 4, 0.05)
    weights = {key: value.clone() for key, value in net.state_dict().items()}
    save_safetensors(weights, "weights.safetensors")
    pack("second", "second-packed")
    train, test = folder_tensors("second/train"), folder_tensors("second/test")
    result = {"ffpack": [], "PyTorch": [], "from scratch": []}
    common = ("--data", "second-packed", "--model", "resnet18", "--stem", "imagenet", "--batch", 64, "--epochs", 6, "--optimizer", "sgd",
              "--momentum", 0.9, "--weight-decay", 1e-4, "--no-decay", "none", "--schedule", "cosine", "--warmup", 0, "--label-smoothing", 0,
              "--augment", "crop=4,flip", "--out", "none", "--lr", 0.02)
    for seed in range(SEEDS):
        result["ffpack"].append(ours(*common, "--weights", "weights.safetensors", "--seed", seed)[-1][1])
        result["from scratch"].append(ours(*common, "--seed", seed)[-1][1])
        torch.manual_seed(100 + seed)
        net = resnet18(6)
        head = {key: value for key, value in net.state_dict().items() if key.startswith("fc.")}
        net.load_state_dict({**weights, **head})
        torch_train(net, train, 6, 0.02)
        result["PyTorch"].append(torch_accuracy(net, test))
    print("| fine-tuning, test accuracy | mean | deviation | seeds |\n|---|---|---|---|")
    for name, values in result.items():
        print("| %s | %.2f %% | %.2f | %s |" % (name, 100 * statistics.mean(values), 100 * statistics.stdev(values),
                                                ", ".join("%.2f" % (100 * value) for value in values)))
    apart = statistics.mean(result["ffpack"]) - statistics.mean(result["PyTorch"])
    noise = (statistics.variance(result["ffpack"]) / SEEDS + statistics.variance(result["PyTorch"]) / SEEDS) ** 0.5
    print("\nffpack is %+.2f points from PyTorch, %.1f standard errors of the difference." % (100 * apart, abs(apart) / noise), flush=True)


EPOCHS, BATCH, RATE = 8, 128, 0.1
TIMM = """
import sys, time
import timm, timm.optim, timm.scheduler, torch, torchvision
from torchvision import transforms
source, target, epochs, batch, rate, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
began = time.perf_counter()
torch.set_num_threads(threads)
last = [transforms.ToTensor(), transforms.Normalize(%r, %r)]
train = torchvision.datasets.ImageFolder(source + "/train", transforms.Compose([transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip()] + last))
test = torchvision.datasets.ImageFolder(source + "/test", transforms.Compose(last))
loader = torch.utils.data.DataLoader(train, batch, shuffle=True, drop_last=True, num_workers=threads, persistent_workers=True)
check = torch.utils.data.DataLoader(test, 256, num_workers=threads, persistent_workers=True)
net = timm.create_model("resnet18", num_classes=10)
optimizer = timm.optim.create_optimizer_v2(net, "sgd", lr=rate, weight_decay=5e-4, momentum=0.9, filter_bias_and_bn=False)
schedule = timm.scheduler.CosineLRScheduler(optimizer, len(loader) * epochs, warmup_t=len(loader), warmup_lr_init=rate / len(loader), t_in_epochs=False)
lost, step = torch.nn.CrossEntropyLoss(), 0
for epoch in range(epochs):
    net.train()
    for images, labels in loader:
        schedule.step_update(step)
        step += 1
        optimizer.zero_grad()
        lost(net(images), labels).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(images).argmax(1) == labels).sum().item() for images, labels in check) / len(test)
    print(time.perf_counter() - began, right, flush=True)
""" % (MEAN, STD)


def reached(found):
    return next((seconds for seconds, accuracy in found if accuracy >= TARGET), None)


def timm(classes):
    made = subprocess.run([sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", "python", "timm==0.9.16",
                           "huggingface_hub==0.20.3", "safetensors", "pyyaml", "tqdm", "packaging", "filelock", "fsspec"], capture_output=True)
    if made.returncode:
        print("accuracy: timm skipped: it cannot be installed from PyPI")
        return
    link_classes("all", "train", classes, int(os.environ.get("IMAGES", 20000)) // 10)
    link_classes("all", "test", classes)
    began = time.perf_counter()
    pack("all", "all-packed")
    packing = time.perf_counter() - began
    here = ours("--data", "all-packed", "--model", "resnet18", "--stem", "imagenet", "--batch", BATCH, "--epochs", EPOCHS, "--lr", RATE,
                "--momentum", 0.9, "--weight-decay", 5e-4, "--no-decay", "none", "--nesterov", "--warmup", 1, "--schedule", "cosine",
                "--label-smoothing", 0, "--augment", "crop=4,flip", "--out", "run")
    here = [(seconds + packing, accuracy) for seconds, accuracy in here]
    words = ["all", TARGET, EPOCHS, BATCH, RATE, os.cpu_count()]
    done = subprocess.run([sys.executable, "-c", TIMM, *map(str, words)], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "python"})
    if done.returncode:
        sys.exit(done.stderr)
    there = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    print(f"\n| ResNet-18, {EPOCHS} epochs | seconds to {100 * TARGET:.0f} % | all epochs | accuracy | seconds of packing |\n|---|---|---|---|---|")
    for name, found, packed in (("ffpack", here, "%.1f, counted" % packing), ("timm", there, "")):
        print("| %s | %s | %.1f | %.2f %% | %s |" % (name, "%.1f" % reached(found) if reached(found) else "not reached", found[-1][0],
                                                   100 * found[-1][1], packed))
    print("\n%.2f times as fast to the end of training." % (there[-1][0] / here[-1][0]), flush=True)


def paired(what, values):
    """A line of the table: each precision's mean over the seeds, and the mean and deviation of the differences of a seed."""
    apart = [bf16 - f32 for f32, bf16 in zip(values["f32"], values["bf16"])]
    print("| %s | %.4f | %.4f | %+.4f | %.4f | %s |" % (what, statistics.mean(values["f32"]), statistics.mean(values["bf16"]), statistics.mean(apart),
                                                     statistics.stdev(apart), ", ".join("%+.4f" % one for one in apart)), flush=True)


def precision(classes):
    seeds = int(os.environ.get("PRECISION_SEEDS", 3))
    for split in ("train", "test"):
        link_classes("some", split, classes, int(os.environ.get("PRECISION_IMAGES", 10000)) // 10)
    pack("some", "some-packed")
    common = ("--data", "some-packed", "--device", "cpu", "--augment", "crop=4,flip", "--optimizer", "sgd", "--momentum", 0.9,
              "--weight-decay", 5e-4, "--warmup", 0, "--label-smoothing", 0, "--out", "none")
    short = ("--model", "smallnet", "--batch", 32, "--samples-per-epoch", 50 * 32, "--epochs", 6, "--lr", 0.02, "--schedule", "constant")
    whole = ("--model", "resnet18", "--batch", 128, "--stem", "imagenet", "--epochs", 10, "--lr", 0.05, "--schedule", "cosine")
    print("| | f32 | bf16 | bf16 - f32, mean | deviation | seeds |\n|---|---|---|---|---|---|")
    for words, wanted in ((short, {"smallnet, training loss of steps 251 to 300": "train_loss", "smallnet, test loss after 300 steps": "val_loss"}),
                          (whole, {"ResNet-18, test accuracy": "val_accuracy", "ResNet-18, test loss": "val_loss"})):
        last = {kind: [epochs_of(*common, *words, "--precision", kind, "--seed", seed)[-1][1] for seed in range(seeds)] for kind in ("f32", "bf16")}
        for what, key in wanted.items():
            paired(what, {kind: [event[key] for event in events] for kind, events in last.items()})


def main():
    asked = sys.argv[1:] or ["finetune", "timm"]
    place = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    os.chdir(place)
    os.mkdir("images")
    call("tar", "xf", IMAGES, "-C", "images")
    classes = sorted(os.listdir("images/train"))
    for name in asked:
        {"finetune": finetune, "timm": timm, "precision": precision}[name](classes)
    os.chdir("/")
    shutil.rmtree(place)


main()
