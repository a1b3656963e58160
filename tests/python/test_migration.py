#!/usr/bin/python3
"""The page's "From ImageFolder + DataLoader to ffpack": its two scripts, as they are written there, run on Fashion-MNIST and on CIFAR-10's
JPEGs in folders; on an f32 set without augmentation, in the same order, they have the same loss in each of 50 steps, and the same test
accuracy. Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository); FASHION_MNIST."""
import gzip
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402
import tap  # noqa: E402

FASHION = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
CIFAR = os.path.join(os.environ.get("FF_SHARED_DATA", os.path.join(tap.ROOT, "..", "shared", "data")), "cifar10-jpeg.tar.zst")
EACH = {"train": 32, "test": 20} # images of a class: two steps of the page's 128 an epoch, ten of BATCH
BATCH, STEPS = 32, 50

# Runs a script of the page: losses of its steps, and what it prints. The DataLoader that shuffles takes the order of our loader.
HARNESS = """
import json, sys
import torch
text, ordered = open(sys.argv[1]).read(), sys.argv[2] == "ordered"
losses = []
forward = torch.nn.CrossEntropyLoss.forward
def recorded(self, *arguments):
    loss = forward(self, *arguments)
    losses.append(loss.item())
    return loss
torch.nn.CrossEntropyLoss.forward = recorded
if ordered:
    import ffload
    ours = ffload.Loader("packed/train", %d, drop_last=True, return_indices=True)
    class Order:
        def __iter__(self):
            return (samples.tolist() for images, labels, samples in ours)
        def __len__(self):
            return len(ours)
    DataLoader = torch.utils.data.DataLoader
    def loader(data, batch_size, shuffle=False, drop_last=False, **options):
        if shuffle:
            return DataLoader(data, batch_sampler=Order(), **options)
        return DataLoader(data, batch_size, drop_last=drop_last, **options)
    torch.utils.data.DataLoader = loader
exec(compile(text, sys.argv[1], "exec"), {"__name__": "__main__"})
json.dump(losses, open(sys.argv[3], "w"))
""" % BATCH


def fashion():
    """Fashion-MNIST as folders of PNGs below cifar10/."""
    import numpy
    from PIL import Image
    for split, name in (("train", "train"), ("test", "t10k")):
        with gzip.open(os.path.join(FASHION, name + "-images-idx3-ubyte.gz")) as images, \
                gzip.open(os.path.join(FASHION, name + "-labels-idx1-ubyte.gz")) as labels:
            pixels = numpy.frombuffer(images.read(16 + 28 * 28 * 4000)[16:], "uint8").reshape(-1, 28, 28)
            classes = numpy.frombuffer(labels.read()[8:], "uint8")[:len(pixels)]
        for label in range(10):
            folder = os.path.join("cifar10", split, str(label))
            os.makedirs(folder)
            for i in numpy.flatnonzero(classes == label)[:EACH[split]]:
                Image.fromarray(pixels[i]).save(os.path.join(folder, "%05d.png" % i))


def cifar():
    """CIFAR-10's JPEGs, some of each class."""
    seen = {}
    data = subprocess.run(["zstd", "-dc", CIFAR], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            words = member.name.split("/")
            if not member.isfile() or len(words) < 3:
                continue
            split, label = words[-3:-1]
            seen[split, label] = seen.get((split, label), 0) + 1
            if seen[split, label] > EACH[split]:
                continue
            os.makedirs(os.path.join("cifar10", split, label), exist_ok=True)
            with open(os.path.join("cifar10", split, label, words[-1]), "wb") as file:
                file.write(tar.extractfile(member).read())


def page():
    """(the command that packs, the torchvision script, ours), each as text."""
    with open(os.path.join(tap.ROOT, "loader", "python", "README.md"), encoding="utf-8") as file:
        section = re.search(r"^## From ImageFolder.*?(?=^## |\Z)", file.read(), re.M | re.S).group()
    shell = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    before, after, rest = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    return shell[0], before + rest, after + rest


def changed(text, *pairs):
    for old, new in pairs:
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return text


def run(text, ordered=False):
    """(losses, what is printed)."""
    with open("script.py", "w", encoding="utf-8") as file:
        file.write(text)
    done = package.python(HARNESS, "script.py", "ordered" if ordered else "", "losses", timeout=300,
                          environment={"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"})
    if done.returncode:
        print("# " + done.stderr.strip().replace("\n", "\n# "))
        return [], ""
    with open("losses", encoding="utf-8") as file:
        return json.load(file), done.stdout


def pack(command, *more):
    words = shlex.split(command) + list(more)
    assert words[0] == "ffpack"
    subprocess.run([os.path.join(tap.BUILD, "ffpack"), *words[1:], "--force"], check=True, stdout=subprocess.DEVNULL)


def compare(name):
    command, before, after = page()
    short = [("range(10)", "range(1)")]
    pack(command)
    losses, said = run(changed(before.replace("num_workers=8", "num_workers=1"), *short))
    tap.ok(len(losses) == 2 and "test accuracy" in said, "%s: the torchvision script, as written" % name, said)
    losses, said = run(changed(after, *short))
    tap.ok(len(losses) == 2 and "test accuracy" in said, "%s: the one with ffload, as written" % name, said)

    pack(command, "--dtype", "f32")
    epochs = ("range(10)", "range(%d)" % (STEPS * BATCH // (10 * EACH["train"])))
    theirs, their_text = run(changed(before.replace("num_workers=8", "num_workers=1"), epochs, ("Compose(augment + usual)", "Compose(usual)"),
                                     ("(train_set, 128,", "(train_set, %d," % BATCH)), ordered=True)
    # Convolutions of channels-last images round differently.
    ours, our_text = run(changed(after, epochs, ('augment="crop=4,flip"', 'layout="contiguous"'), ('"packed/train", 128,', '"packed/train", %d,' % BATCH)))
    apart = [abs(a - b) for a, b in zip(theirs, ours)]
    tap.ok(len(theirs) == len(ours) == STEPS and max(apart) <= 1e-5, "%s, f32: the same losses in %d steps" % (name, STEPS),
           "%d and %d steps, up to %s apart: %s" % (len(theirs), len(ours), max(apart, default=None), apart))
    tap.ok(their_text == our_text != "", "%s, f32: and the same test accuracy" % name, their_text + our_text)


missing = [name for name in ("numpy", "PIL", "torch", "torchvision") if importlib.util.find_spec(name) is None]
os.chdir(package.PLACE)
for title, source, make in (("Fashion-MNIST", FASHION, fashion), ("CIFAR-10", CIFAR, cifar)):
    if missing or not os.path.exists(source):
        tap.skip(title, "the Python module %s is not installed" % missing[0] if missing else "%s is not there" % source)
        continue
    subprocess.run(["rm", "-rf", "cifar10", "packed"], check=True)
    make()
    compare(title)
package.finish()
