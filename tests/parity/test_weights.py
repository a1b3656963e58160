#!/usr/bin/python3
"""Weights to PyTorch and back: a checkpoint loads into torchvision's net with strict=True and gives the
same loss there; torchvision's weights give the same loss here, from safetensors and from torch.save; a head for other classes learns. With
the package safetensors from PyPI, in an environment of the test's own. Prints TAP. Environment: BUILD."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

if tap.SANITIZE:
    tap.skip("weights of PyTorch", "not under sanitizers")
    tap.finish()
try:
    import numpy
    import torch
    import torchvision
except ImportError as missing:
    tap.skip("weights of PyTorch", missing)
    tap.finish()

place = tempfile.mkdtemp()
# The package without what it depends on: torch and numpy are the system's.
made = subprocess.run([sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", os.path.join(place, "python"), "safetensors"],
                      capture_output=True, text=True)
if made.returncode:
    made = subprocess.run([sys.executable, "-m", "venv", os.path.join(place, "v")], capture_output=True, text=True)
    if made.returncode == 0:
        made = subprocess.run([os.path.join(place, "v/bin/pip"), "-q", "install", "--no-deps", "--target", os.path.join(place, "python"),
                               "safetensors"], capture_output=True, text=True)
if made.returncode:
    tap.skip("weights of PyTorch", "safetensors cannot be installed from PyPI")
    shutil.rmtree(place)
    tap.finish()
sys.path.insert(0, os.path.join(place, "python"))
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(2)
os.chdir(place)
FFTRAIN = os.path.join(tap.BUILD, "fftrain")


def run(*arguments):
    done = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, timeout=600)
    if done.returncode:
        tap.ok(False, " ".join(map(str, arguments)), done.stderr)
    return done


def evaluated(*arguments):
    done = run(FFTRAIN, "evaluate", *arguments, "--json", "--threads", 2)
    return json.loads(done.stdout) if done.returncode == 0 else {"loss": 0, "accuracy": 0}


run(tap.program("make_set"), "set", "--count", 120, "--splits", "train,test", "--statistics")
run(os.path.join(tap.BUILD, "ffinspect"), "set/test", "--npy", "test.npy")
samples = torch.from_numpy(numpy.load("test.npy").astype("float32"))
labels = torch.from_numpy(numpy.load("test_label.npy").astype("int64"))
known = labels >= 0


def torch_says(net):
    net.eval()
    with torch.no_grad():
        logits = net.double()(samples.double())[known]
    return (torch.nn.functional.cross_entropy(logits, labels[known]).item(),
            (logits.argmax(1) == labels[known]).double().mean().item(), logits)


def net_of(name, classes=6):
    return getattr(torchvision.models, name)(weights=None, num_classes=classes)


# ---- from here to torch

for name in ("resnet18", "mobilenet_v2"):
    run(FFTRAIN, "--data", "set", "--model", name, "--stem", "imagenet", "--batch", 40, "--epochs", 1, "--lr", 0.01, "--out", name, "--quiet")
    run(FFTRAIN, "export", name, "-o", name + ".safetensors")
    state = load_file(name + ".safetensors")
    run(FFTRAIN, "export", name, name + "-ours.pth")
    ours = torch.load(name + "-ours.pth")
    tap.ok(list(ours) == list(net_of(name).state_dict()) and set(ours) == set(state) and all(torch.equal(ours[key], state[key]) and
           ours[key].dtype == state[key].dtype and ours[key].shape == state[key].shape for key in state),
           "%s: torch.load reads FILE.pth, the same bits in torchvision's order" % name)
    net = net_of(name)
    wanted = net.state_dict()
    result = net.load_state_dict(state, strict=True)
    tap.ok(not result.missing_keys and not result.unexpected_keys and
           all(state[key].dtype == wanted[key].dtype for key in wanted), "%s: torchvision takes the weights, strict" % name, result)
    loss, accuracy, logits = torch_says(net)
    # With the run's batch: the sums of another one may be rounded otherwise (where there is no AVX-512).
    ours = evaluated("-c", name, "set", "--batch", 40)
    tap.ok(abs(ours["loss"] - loss) < 1e-4 * max(1, loss) and abs(ours["accuracy"] - accuracy) < 0.5 / known.sum(),
           "%s: the same loss and accuracy in torch" % name, (ours, loss, accuracy))
    log = [json.loads(line) for line in open(name + "/log.jsonl")]
    last = [line for line in log if line["event"] == "epoch"][-1]
    tap.ok(last["val_loss"] == ours["loss"] and last["val_accuracy"] == ours["accuracy"], "%s: and at the end of training" % name,
           (last, ours))

lines = [json.loads(line) for line in run(FFTRAIN, "predict", "-c", "mobilenet_v2.safetensors", "set", "--top", 6).stdout.splitlines()]
told = torch.zeros(len(lines), 6, dtype=torch.float64)
for i, line in enumerate(lines):
    for one in line["top"]:
        told[i, one["class"]] = one["probability"]
apart = (told[known] - torch.softmax(logits, 1)).abs().max().item()
tap.ok(len(lines) == len(samples) and apart < 1e-5 and all(line["top"][0]["class"] == line["class"] for line in lines) and
       all(line["top"] == sorted(line["top"], key=lambda one: -one["probability"]) for line in lines),
       "fftrain predict gives torch's probabilities", apart)

# ---- from torch to here

for name, stem in (("resnet18", "imagenet"), ("mobilenet_v2", "imagenet")):
    torch.manual_seed(3)
    net = net_of(name, 6)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 2)
    save_file(net.state_dict(), name + "-torch.safetensors")
    loss, accuracy, _ = torch_says(net)
    ours = evaluated("-c", name + "-torch.safetensors", "--model", name, "--stem", stem, "set")
    tap.ok(abs(ours["loss"] - loss) < 1e-4 * max(1, loss), "%s: torch's weights have the same loss here" % name, (ours, loss))
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    net.train()(samples[:4].to(next(net.parameters()).dtype)).sum().backward()
    optimizer.step()
    saved = {"model": net_of(name, 6).state_dict(), "optimizer": optimizer.state_dict(), "args": argparse.Namespace(lr=0.1), "epoch": 1,
             "acc": torch.tensor(0.5), "best": numpy.float64(0.25)}
    saved["model"].update(load_file(name + "-torch.safetensors"))
    for title, how in (("", {}), (" in the form before 1.6", {"_use_new_zipfile_serialization": False})):
        torch.save(saved, name + ".pth", **how)
        same = evaluated(name + ".pth", "--model", name, "--stem", stem, "set")
        tap.ok(same["loss"] == ours["loss"], "%s: and from a checkpoint of torch.save%s, the same bits" % (name, title), (same, ours))
done = subprocess.run([FFTRAIN, "evaluate", "-c", "resnet18-torch.safetensors", "set"], capture_output=True, text=True)
tap.ok(done.returncode == 2 and "name it with --model" in done.stderr, "weights that do not say their model need --model", done.stderr)
state = {key: value.half() if value.dtype == torch.float32 else value for key, value in net_of("resnet18").state_dict().items()}
save_file(state, "half.safetensors")
net = net_of("resnet18")
net.load_state_dict({key: value.float() if value.dtype == torch.float16 else value for key, value in state.items()})
loss, _, _ = torch_says(net)
ours = evaluated("-c", "half.safetensors", "--model", "resnet18", "--stem", "imagenet", "set")
tap.ok(abs(ours["loss"] - loss) < 1e-4 * max(1, loss), "weights in f16 are read", (ours, loss))

# A head for other classes.
save_file(net_of("resnet18", 1000).state_dict(), "thousand.safetensors")
for command in ("evaluate", "predict"):
    done = tap.run([FFTRAIN, command, "-c", "thousand.safetensors", "--data", "set", "--model", "resnet18", "--stem", "imagenet"])
    tap.ok(done.returncode == 2 and done.stdout == b"" and b"its head is for 1000 classes" in done.stderr and b"has 6; train a new head first" in done.stderr,
           f"{command} refuses weights with a head for other classes", (done.returncode, done.stdout[-200:], done.stderr))
done = run(FFTRAIN, "--data", "set", "--model", "resnet18", "--stem", "imagenet", "--batch", 40, "--epochs", 1, "--lr", 0, "--out", "tuned",
           "--weights", "thousand.safetensors")
before, after = load_file("thousand.safetensors"), load_file("tuned/checkpoints/last/model.safetensors")
tap.ok("the head keeps its initial values: fc.weight [1000, 512] in place of [6, 512]" in " ".join(done.stdout.split()) and
       "does not record how its images were normalized" in " ".join(done.stdout.split()), "other classes: what is loaded is said", done.stdout)
tap.ok(all(torch.equal(before[key], after[key]) for key in before if not key.startswith("fc.") and "running" not in key and "tracked" not in key),
       "and everything but the head is torch's")

os.chdir("/")
shutil.rmtree(place)
tap.finish()
