"""The example scripts (loader/python/examples) with ffload and, unchanged, with PyTorch's DataLoader in its place (dataloader/ffload.py), on
CIFAR-10's JPEGs with SEEDS (4, at least 2) seeds each: the accuracies of the last epoch, and how many standard errors their means are apart.
Both sides run by turns. A script whose modules PYTHON does not have runs in an environment of PyPI (environments.py), or is skipped with the
reason. Usage: scripts.py [SCRIPT...]. Environment: BUILD, PYTHON, SEEDS, IMAGES (2000), VAL (2000), EPOCHS (3), PEERS_DIR, FF_SHARED_DATA
(default ../shared/data next to the repository)."""
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import environments

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
IMAGES = os.path.join(os.environ.get("FF_SHARED_DATA", os.path.join(ROOT, "..", "shared", "data")), "cifar10-jpeg.tar.zst")
SEEDS, COUNT, EPOCHS, VAL = (int(os.environ.get(name, usual)) for name, usual in (("SEEDS", 4), ("IMAGES", 2000), ("EPOCHS", 3), ("VAL", 2000)))
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
SIDES = {"ffload": ("packed", os.path.join(BUILD, "python")), "DataLoader": ("images", os.path.join(ROOT, "tests", "bench", "dataloader"))}
# -r and -t: torch 1.13 takes their default for nothing in Python 3.11.
RANKS = ["-m", "torch.distributed.run", "--standalone", "-r", "9:1", "-t", "9:1", "--nproc_per_node", "2"]
SCRIPTS = {  # the modules that each needs, its options, and what starts it
    "plain": (["torchvision"], ["--lr", 0.05], []),
    "torchvision_script": (["torchvision"], ["--lr", 0.05, "--augment", "crop=4,flip", "--model", "resnet18", "--print-every", 1000, "--ema-decay", 0], []),
    "lightning_script": (["lightning"], ["--lr", 0.02], []),
    "ddp": (["torchvision"], ["--lr", 0.05], RANKS),
    "accelerate_script": (["accelerate"], ["--lr", 0.02], []),
    "timm_script": (["timm"], ["--lr", 0.05], []),
}
# Every seed that a script sets, and the loader's, differ by SEED.
SEEDED = """
import functools, os, runpy, sys, torch
seed, usual = int(os.environ["SEED"]), torch.manual_seed
torch.manual_seed = lambda value: usual(value + seed)
torch.manual_seed(0)
import ffload
class Loader(ffload.Loader):
    def __init__(self, *words, **more):
        super().__init__(*words, **{**more, "seed": seed})
ffload.Loader = Loader
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def prepare():
    subprocess.run(["tar", "xf", IMAGES], check=True)
    for split, source, count in (("train", "train", COUNT), ("val", "test", VAL)):
        for name in os.listdir(source):
            os.makedirs(f"images/{split}/{name}")
            for file in sorted(os.listdir(f"{source}/{name}"))[:count // 10]:
                os.link(f"{source}/{name}/{file}", f"images/{split}/{name}/{file}")
    subprocess.run([BUILD + "/ffpack", "images", "-o", "packed", "--progress", "none", "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD))], check=True, stdout=subprocess.DEVNULL)
    with open("seeded.py", "w", encoding="ascii") as file:
        file.write(SEEDED)


def python_of(script):
    """(a Python with the script's modules, None), or (None, the reason why there is none)."""
    if all(importlib.util.find_spec(name) for name in ("torch", *SCRIPTS[script][0])):
        return sys.executable, None
    return environments.python_of("scripts")


def accuracy(side, script, seed, python):
    """Of the last epoch."""
    data, package = SIDES[side]
    _, options, launcher = SCRIPTS[script]
    command = [python, *launcher, "seeded.py", f"{ROOT}/loader/python/examples/{script}.py", "--data", data, "--batch", 50, "--epochs", EPOCHS, *options]
    variables = {"SEED": seed, "PYTHONPATH": package, "FF_MEAN": " ".join(map(str, MEAN)), "FF_STD": " ".join(map(str, STD)), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": 1}
    done = subprocess.run(list(map(str, command)), env={**os.environ, **{name: str(value) for name, value in variables.items()}}, capture_output=True, text=True)
    found = re.findall(r"(?:accuracy|model: top-1) (\d\.\d+)", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{script} with {side} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return float(found[-1])


def main():
    if not os.path.exists(IMAGES):
        print(f"scripts: skipped: no {IMAGES}")
        return
    place = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    os.chdir(place)
    prepare()
    print("| script | ffload, % | DataLoader, % | apart, standard errors |\n|---|---|---|---|")
    for script in sys.argv[1:] or SCRIPTS:
        python, reason = python_of(script)
        if reason:
            print(f"| {script} | skipped: {reason} | | |")
            continue
        found = {side: [] for side in SIDES}
        for seed in range(SEEDS):
            for side, values in found.items():
                values.append(100 * accuracy(side, script, seed, python))
        ours, theirs = found.values()
        noise = ((statistics.variance(ours) + statistics.variance(theirs)) / SEEDS) ** 0.5
        columns = ["%.2f (%s)" % (statistics.mean(values), " ".join("%.2f" % value for value in values)) for values in (ours, theirs)]
        print("| %s | %s | %s | %+.1f |" % (script, *columns, (statistics.mean(ours) - statistics.mean(theirs)) / max(noise, 1e-9)), flush=True)
    os.chdir("/")
    shutil.rmtree(place)


main()
