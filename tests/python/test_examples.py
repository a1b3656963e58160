#!/usr/bin/python3
"""Each of loader/python/examples, run at a small size on images whose class is their colour: it learns them, counts every sample of the
validation set once, and continues from a checkpoint as if it had never stopped. accelerate, timm and Hugging Face's Trainer come from PyPI
where PYTHON does not have them. PyPI's JAX and Lightning: with PYTHON, a Python that has them. Prints TAP. Environment: BUILD, PYTHON."""
import importlib.util
import os
import re
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import jobs  # noqa: E402
import package  # noqa: E402
import tap  # noqa: E402

EXAMPLES = os.path.join(tap.ROOT, "loader", "python", "examples")
CLASSES, TRAIN, VAL = {"blue": (110, 120, 150), "green": (110, 150, 120), "red": (150, 115, 115)}, 32, 11
missing = [name for name in ("numpy", "PIL", "torch", "torchvision") if importlib.util.find_spec(name) is None]
if missing:
    tap.skip("examples", "the Python module %s is not installed" % missing[0])
    tap.finish()


def make_images(folder):
    """Class folders below train and val: noise around the class's colour."""
    import numpy
    from PIL import Image
    dice = numpy.random.RandomState(0)
    for split, count in (("train", TRAIN), ("val", VAL)):
        for name, colour in CLASSES.items():
            os.makedirs(os.path.join(folder, split, name))
            for i in range(count):
                pixels = numpy.clip(dice.normal(colour, 60, (32, 32, 3)), 0, 255).astype("uint8")
                Image.fromarray(pixels).save(os.path.join(folder, split, name, "%02d.png" % i))


def run(name, *options, launcher=(), python=sys.executable):
    """What the example prints; nothing where it failed, or did not end: where each thread was is then said."""
    def once():
        job = jobs.Job(*launcher, python, os.path.join(EXAMPLES, name), *options, cwd=package.PLACE,
                       variables={"PYTHONPATH": package.FOLDER, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONFAULTHANDLER": "1"})
        return job.end(300, signal.SIGABRT)

    job = once()
    # Two in fifty: a rank of torch 1.13 hangs after its last line, where Gloo's process group joins its threads and has the GIL, for which
    # they wait (github.com/pytorch/pytorch/issues/56297).
    if launcher and job.code == -signal.SIGABRT and job.out:
        print("# %s hung, and is run again; it printed:\n# %s" % (name, job.out.strip().replace("\n", "\n# ")))
        job = once()
    if job.code:
        print("# " + str(job).strip().replace("\n", "\n# "))
    return job.out if job.code == 0 else ""


def learns(name, example, *options, launcher=(), python=sys.executable):
    """Its last accuracy is nearly 1, and one that all of the validation's samples, and no others, can have."""
    said = run(example, *options, launcher=launcher, python=python)
    found = [float(value) for value in re.findall(r"(?:accuracy|top-1) (\d\.\d+)", said)]
    count = VAL * len(CLASSES)
    whole = all(abs(value - round(value * count) / count) < 6e-5 for value in found)
    tap.ok(found and found[-1] > 0.9 and whole, name, said)


def needs(module, name):
    if importlib.util.find_spec(module):
        return True
    tap.skip(name, "the Python module %s is not installed" % module)
    return False


def of_pypi(*modules):
    """This Python where it has the modules, else one with versions of PyPI for the PyTorch that is installed; None: it cannot be had."""
    if all(importlib.util.find_spec(module) for module in modules):
        return sys.executable
    return tap.environment("trainers", "accelerate==0.23.0", "timm==0.9.12", "transformers==4.35.2", "tokenizers==0.15.0", "huggingface_hub==0.19.4",
                           "safetensors==0.4.1", "fsspec==2023.10.0", "regex", "tqdm", "filelock", "packaging", "typing_extensions")


def same_losses(example, first, rest, pattern, count, **more):
    """The steps of a run that was stopped and of the one that continues are those of a run without a stop."""
    options = ["--data", "packed", "--batch", 16, "--epochs", 3]
    steps = [re.findall(pattern, run(example, *options, *how, **more), re.M) for how in ([], first, rest)]
    tap.ok(len(steps[0]) == count and len(steps[1]) == 9 and steps[0] == steps[1] + steps[2],
           "%s: after a stop in the middle of an epoch it continues with the same losses" % example, str(steps))


TRAINER = """
import torch, transformers, ffload
%s
net = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=3, embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic"))
arguments = transformers.TrainingArguments("trainer", per_device_train_batch_size=16, num_train_epochs=4, report_to=[], logging_steps=6, save_steps=9, learning_rate=3e-3, use_cpu=True)
trainer = Trainer(model=net, args=arguments)
trainer.train()
losses = [round(entry["loss"], 6) for entry in trainer.state.log_history if "loss" in entry]
again = Trainer(model=net, args=arguments)
again.train(resume_from_checkpoint="trainer/checkpoint-9")
print(losses, [round(entry["loss"], 6) for entry in again.state.log_history if "loss" in entry])
"""


def test_trainer(python):
    """The page's lines for Hugging Face's Trainer: it learns, and a run from its checkpoint in the middle of an epoch ends as the first."""
    with open(os.path.join(tap.ROOT, "loader", "python", "README.md"), encoding="utf-8") as file:
        lines = re.search(r"^```python\n(class Trainer.*?)^```", file.read(), re.M | re.S).group(1)
    with open(os.path.join(package.PLACE, "trainer.py"), "w", encoding="utf-8") as file:
        file.write(TRAINER % lines)
    said = run(os.path.join(package.PLACE, "trainer.py"), python=python)
    found = re.findall(r"^\[(.*?)\] \[(.*?)\]$", said, re.M)
    first, again = ([float(number) for number in part.split(", ")] for part in found[0]) if found else ([], [])
    tap.ok(len(lines.splitlines()) == 5 and len(first) == 4 and first[3] < first[0] / 2 and again[-2:] == first[-2:], "the page's five lines for Hugging Face's Trainer", said)


def test_trainers(packed):
    python = of_pypi("accelerate", "timm", "transformers")
    if python is None:
        tap.skip("accelerate, timm, transformers", "PyPI cannot be reached")
        return
    options = [*packed, "--batch", 16]
    learns("accelerate_script.py learns", "accelerate_script.py", *options, "--epochs", 4, python=python)
    if jobs.has_torchrun():
        learns("accelerate_script.py: two ranks", "accelerate_script.py", *options, "--epochs", 4, launcher=jobs.torchrun(2), python=python)
    same_losses("accelerate_script.py", ["--max-steps", 9, "--output", "halfway"], ["--resume", "halfway"], r"^step (\d+): loss (\S+)", 3 * (TRAIN * len(CLASSES) // 16),
                python=python)
    learns("timm_script.py learns", "timm_script.py", *options, "--epochs", 10, "--mixup", 0.1, "--cutmix", 0, python=python)
    test_trainer(python)


def test_resume(data):
    """The same losses, from the middle of the second epoch, as without a stop."""
    options = ["--data", data, "--model", "resnet18", "--augment", "crop=4,flip,mixup", "--batch", 16, "--epochs", 3, "--lr", 0.01,
               "--print-every", 1, "--warmup-epochs", 1]
    whole = run("torchvision_script.py", *options, "--output", "whole")
    first = run("torchvision_script.py", *options, "--output", "parts", "--max-steps", 9)
    rest = run("torchvision_script.py", *options, "--output", "parts", "--resume", "parts/last.pt")
    steps = [re.findall(r"^step (\d+) of \d+: loss (\S+),", said, re.M) for said in (whole, first, rest)]
    tap.ok(len(steps[0]) == 3 * (TRAIN * len(CLASSES) // 16) and len(steps[1]) == 9 and steps[0] == steps[1] + steps[2],
           "torchvision_script.py: after a stop in the middle of an epoch it continues with the same losses", str(steps))


def main():
    make_images(os.path.join(package.PLACE, "images"))
    packed = ["--data", "packed", "--lr", 0.003]
    learns("plain.py packs a folder and learns it", "plain.py", "--source", "images", "--resize", 32, "--center-crop", 32, "--batch", 16,
           "--epochs", 4, *packed)
    if jobs.has_torchrun():
        learns("ddp.py: two ranks under torchrun", "ddp.py", *packed, "--batch", 16, "--epochs", 4, launcher=jobs.torchrun(2))
    learns("torchvision_script.py learns", "torchvision_script.py", *packed, "--model", "resnet18", "--augment", "crop=4,flip", "--batch", 16,
           "--epochs", 4, "--ema-decay", 0.8)
    test_resume("packed")
    small = ["--data", "packed", "--size", 32, "--batch", 16, "--epochs", 6]
    learns("simclr.py learns", "simclr.py", *small, "--temperature", 0.1)
    learns("dino.py learns", "dino.py", *small, "--small", 16, "--crops", 2, "--prototypes", 64, "--momentum", 0.9, "--lr", 0.002)
    learns("numpy_script.py learns", "numpy_script.py", "--data", "packed", "--batch", 16)
    if needs("jax", "jax_script.py learns"):
        learns("jax_script.py learns", "jax_script.py", "--data", "packed", "--batch", 16)
    if needs("lightning", "lightning_script.py learns"):
        learns("lightning_script.py learns", "lightning_script.py", *packed, "--batch", 16, "--epochs", 4)
    test_trainers(packed)
    shutil.rmtree(package.PLACE)
    tap.finish()


main()
