#!/usr/bin/env python3
"""make test-python: a wheel with the newest PyTorch and NumPy of PyPI, and the examples with these, Lightning and JAX;
the wheel alone on every Python from 3.9 on that is found (in PATH, or by pyenv). Usage: pypi.py WHEEL; the environments
stay in BUILD/test-python. Prints TAP."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

VERSIONS = range(9, 15)
LOAD = """
import hashlib, sys, ffload
from ffload import values
digest = hashlib.sha256()
for images, labels in ffload.Loader("packed/train", 32, augment="crop=4,flip", seed=3, as_="dlpack", epochs=2):
    for tensor in (images, labels):
        digest.update(values.read(tensor)[0])
with ffload.Writer("written%d%d" % sys.version_info[:2], progress=False) as writer:
    for image, label in ffload.Dataset("packed/train", as_="dlpack"):
        writer.add(image, label)
print(writer.samples, digest.hexdigest())
"""
TORCH = """
import hashlib, numpy, torch, ffload
digest = hashlib.sha256()
for images, labels in ffload.Loader("packed/train", 32, augment="crop=4,flip", seed=3, epochs=2):
    assert type(images) is torch.Tensor and images.is_contiguous(memory_format=torch.channels_last)
    digest.update(images.numpy().transpose(0, 2, 3, 1).tobytes())
    digest.update(labels.numpy().tobytes())
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
losses = []
optimizer = None
for images, labels in ffload.Loader("packed/train", 40, epochs=8):
    loss = torch.nn.functional.cross_entropy(net(images), labels)
    optimizer = optimizer or torch.optim.SGD(net.parameters(), 0.05)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
for images, labels in ffload.Loader("packed/train", 32, as_="numpy"):
    assert type(images) is numpy.ndarray and images.dtype == numpy.float32
with ffload.Writer("written_torch", progress=False, dtype=torch.float32) as writer:
    for i in range(20):
        writer.add(torch.rand(3, 8, 8), torch.tensor(i % 3))
print(torch.__version__, numpy.__version__, losses[-1] < losses[0])
"""


def run(*command, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)


def interpreter(minor):
    """One that runs, or None."""
    name = "python3.%d" % minor
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for path in [shutil.which(name), *sorted(glob.glob("%s/versions/3.%d.*/bin/%s" % (root, minor, name)), reverse=True)]:
        if path and run(path, "-c", "import ensurepip, venv").returncode == 0:
            return path
    return None


def environment(path, name, *packages):
    """A virtual environment with the wheel and packages: its python, and what pip said where it failed."""
    place = os.path.join(tap.BUILD, "test-python", name)
    python = os.path.join(place, "bin", "python")
    for command in ([path, "-m", "venv", place], packages and [python, "-m", "pip", "-q", "install", "--upgrade", *packages],
                    [python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", "--force-reinstall", WHEEL]):
        done = run(*command) if command else None
        if done and done.returncode:
            return None, done.stderr
    return python, ""


WHEEL = os.path.abspath(sys.argv[1])
work = tempfile.TemporaryDirectory()
bare = {"PATH": "/usr/bin:/bin", "HOME": work.name}
run(sys.executable, os.path.join(tap.ROOT, "tests/cli/make_inputs.py"), "cifar10", work.name + "/cifar", "40")
found = {minor: interpreter(minor) for minor in VERSIONS}
digests = set()
for minor, path in found.items():
    if path is None:
        tap.skip("Python 3.%d" % minor, "it was not found in PATH or by pyenv")
        continue
    python, said = environment(path, "3.%d" % minor)
    if python and not os.path.exists(work.name + "/packed"):
        done = run(os.path.join(os.path.dirname(python), "ffpack"), "cifar", "-o", "packed", cwd=work.name, env=bare)
        tap.ok(done.returncode == 0, "ffpack packs", done.stderr)
    done = python and run(python, "-c", LOAD, cwd=work.name, env=bare)
    tap.ok(done and done.returncode == 0 and done.stdout.startswith("200 "), "Python 3.%d alone" % minor, said or done.stderr)
    digests.add(done and done.stdout)
tap.ok(len(digests) == 1, "all have the same batches", sorted(map(str, digests)))
newest = max((minor for minor, path in found.items() if path and minor <= 13), default=None)
PACKAGES = ("torch", "numpy", "torchvision", "pillow", "lightning", "jax", "accelerate", "timm", "transformers")
python, said = environment(found[newest], "torch", *PACKAGES) if newest else (None, "no Python was found")
if python is None:
    tap.skip("PyTorch of PyPI", said.strip().splitlines()[-1])
else:
    done = run(python, "-c", TORCH, cwd=work.name, env=bare)
    tap.ok(done.returncode == 0 and done.stdout.strip().endswith("True"), "PyTorch of PyPI: " + done.stdout.strip(), done.stderr)
    for name in ("test_examples.py", "test_migration.py"):
        done = run(python, os.path.join(tap.ROOT, "tests/python", name), env=dict(os.environ, BUILD=tap.BUILD))
        tap.ok(done.returncode == 0, name + " with PyPI's packages", [line for line in done.stdout.splitlines() if line[:3] != "ok "] + done.stderr.splitlines())
    folders = run(python, "-c", "from ffload import programs; print(programs.cuda_folders())").stdout
    cuda = re.search(r"^CUDA_VERSION := (\d+)", open(os.path.join(tap.BUILD, "config.mk")).read(), re.M)
    site = glob.glob(os.path.join(tap.BUILD, "test-python/torch/lib/python3*/site-packages"))[0]
    has = cuda and glob.glob(site + "/nvidia/*/lib/libcublas.so.%d" % (int(cuda.group(1)) // 1000))
    if not has:
        tap.skip("the CUDA module opens with its nvidia-* packages", "it is of another CUDA than the module, or has none: %s" % folders.strip()[:100])
    else:
        done = run(tap.program("cuda_open"), site + "/ffload/lib", cuda.group(1), "-1", env={"PATH": "/nowhere", "LD_DEBUG": "files"})
        used = re.findall(r"file=(\S*lib(?:cudnn|cublas|nvrtc)\.so\S*) \[0\];  generating link map", done.stdout + done.stderr)
        tap.ok("opened: CUDA" in done.stdout + done.stderr and len(used) >= 3 and all("/nvidia/" in one for one in used),
            "the CUDA module opens with its nvidia-* packages", used)
    stubs = glob.glob(os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/**/stubs/libcuda.so", recursive=True)
    stand_in = stubs and run(os.path.join(tap.ROOT, "tests/gpu/fake_driver"), stubs[0], work.name + "/driver").returncode == 0
    if not has or not stand_in:
        tap.skip("fftrain compiles engines with them", "there is no stand-in for the driver, or it is of another CUDA")
    else:  # started by its path, in no environment: it must be told of the packages
        done = run(os.path.join(os.path.dirname(python), "fftrain"), "--dry-run", "--device-json", os.path.join(tap.ROOT, "tests/gpu/sm_90_h200.json"), "--data",
                   "packed", "--model", "resnet18", "--precision", "bf16", "--batch", "64", cwd=work.name,
                   env={"HOME": work.name, "LD_LIBRARY_PATH": work.name + "/driver", "LD_DEBUG": "files"})
        used = re.findall(r"file=(/\S*lib(?:cudnn|cublas|nvrtc)\S*\.so\S*) \[0\];  generating link map", done.stderr)
        engines = re.search(r"^engines +of (\d+) convolutions", done.stdout, re.MULTILINE)
        tap.ok(done.returncode == 0 and engines and used and all(one.startswith(site) for one in used), "fftrain compiles engines with them", used or done.stderr[-1000:])
tap.finish()
