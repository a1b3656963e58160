#!/usr/bin/python3
"""--sync-bn: nets with batch norms train on several ranks as on one device and as in torch, however a batch is split: on the CPU among
replicas (--dp), processes (--ranks) and ranks of MPI, and on simulated GPUs (fftrain_sim). Prints TAP.

Where a ReLU's input is 0 except for rounding, the order of sums decides what passes. After some steps that is in all numbers, also between
one thread and two; hence small learning rates of the deep nets. Without --sync-bn the losses differ from the first step on."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy  # noqa: E402
import runs  # noqa: E402
import tap  # noqa: E402
from jobs import MPIRUN  # noqa: E402
from runs import distance, losses, make, same, tensors  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)
runs.ENVIRONMENT.update(LD_LIBRARY_PATH=os.path.join(tap.BUILD, "tests"), FF_SIM_GRAPHS="1")


def fftrain(name, *arguments, **how):
    return runs.fftrain(*arguments, "--out", name, **how)


def check(name, alone, done):
    """One or more steps: the parameters and the running statistics of the run `name` are those of `alone`."""
    if done.returncode:
        tap.ok(False, "%s: as one device" % name, done.stderr)
        return
    a, b = tensors(alone) if isinstance(alone, str) else alone, tensors(name)
    found = [distance({k: a[k] for k in a if ("running" in k) == running}, b) for running in (False, True)]
    tap.ok(max(found) <= 1e-6, "%s: parameters and running statistics as on one device, within 1e-6" % name, found)


def compare_losses(name, alone, steps, done):
    found = max((abs(a - b) for a, b in zip(losses(alone), losses(name))), default=1) if done.returncode == 0 else 1
    tap.ok(found <= 1e-4 and len(losses(name)) == steps, "%s: the same losses in %d steps" % (name, steps), (found, done.stderr))


BATCH, STEPS = 24, 20
UNEVEN = ["--dp", "cpu,cpu,cpu", "--dp-balance", "2,3,3"]
PLAIN = ["--threads", 1, "--seed", 3, "--schedule", "constant", "--warmup", 0, "--optimizer", "sgd", "--momentum", 0, "--no-nesterov",
         "--weight-decay", 0, "--label-smoothing", 0]
for place in "one", "many", "gpu", "rest":
    os.mkdir(place)
make("one/train", "--count", BATCH, "--height", 16, "--width", 16, "--statistics")
make("many/train", "--count", BATCH * STEPS - 20, "--height", 16, "--width", 16, "--statistics")  # the last batch is of one or two ranks
make("gpu/train", "--count", 8, "--height", 8, "--width", 8, "--statistics")
make("rest/train", "--count", 30, "--height", 8, "--width", 8, "--statistics")
SPLITS = [("dp-2", ["--dp", "cpu,cpu"], ()), ("dp-3", ["--dp", "cpu,cpu,cpu"], ()), ("dp-4", ["--dp", "cpu,cpu,cpu,cpu"], ()),
          ("dp-233", UNEVEN, ()), *(("ranks-%d" % n, ["--ranks", n], ()) for n in (1, 2, 3, 4, 8))]
if shutil.which("mpirun") and not tap.SANITIZE:
    SPLITS += [("mpi-%d" % n, [], (*MPIRUN, n)) for n in (1, 2, 4)]
elif tap.SHORT:
    tap.skip("ranks of MPI", "mpirun is not installed")

# ---- on the CPU

NETS = tap.LONG * [("mobilenet_v2", "cifar", 2e-4, 1e-7)] + tap.SHORT * [("smallnet", "auto", 0.01, 1e-3)]
for net, stem, few, slow in NETS:
    RUN = ["--model", net, "--stem", stem, "--batch", BATCH, "--epochs", 1, "--augment", "crop=2,flip", *PLAIN]
    ONE = ["--data", "one", *RUN, "--lr", few]
    TWENTY = ["--data", "many/train", *RUN, "--lr", slow, "--last-batch", "keep", "--hash-every", 1]
    alone = net + "-alone"
    tap.ok(fftrain(alone, *ONE).returncode == 0, alone)
    tap.ok(fftrain(alone + "-20", *TWENTY).returncode == 0 and len(losses(alone + "-20")) == STEPS, alone + ", %d steps" % STEPS)
    for split, how, before in SPLITS:
        name = net + "-" + split
        if net == "mobilenet_v2" and split not in ("dp-2", "dp-233", "ranks-1", "ranks-2", "ranks-8", "mpi-2"):
            continue
        check(name, alone, fftrain(name, *ONE, "--sync-bn", *how, before=before))
        if split == "dp-233" or (net != "mobilenet_v2" and split in ("dp-2", "ranks-3", "mpi-2")):
            compare_losses(name + "-20", alone + "-20", STEPS, fftrain(name + "-20", *TWENTY, "--sync-bn", *how, before=before))
    tap.ok(same(net + "-dp-2", net + "-ranks-2"), net + ": replicas and processes: the same bits")
    if os.path.exists(net + "-mpi-2"):
        tap.ok(same(net + "-dp-2", net + "-mpi-2"), net + ": replicas and ranks of MPI: the same bits")
    tap.ok(same(alone, net + "-ranks-1"), net + ": nothing changes for one rank")

if tap.SHORT:
    fftrain("own-20", *TWENTY, "--dp", "cpu,cpu")
    tap.ok(max(abs(a - b) for a, b in zip(losses("smallnet-alone-20"), losses("own-20"))) > 1e-2, "without it each rank has statistics of its own")
    PARTS = ["--data", "one", *RUN, "--lr", 0.01, "--accumulate", 2]
    fftrain("parts-alone", *PARTS)
    check("parts", "parts-alone", fftrain("parts", *PARTS, "--sync-bn", *UNEVEN))
    MIXED = ["--data", "one", *RUN, "--lr", 0.01, "--augment", "flip,mixup", "--compute", "reference"]
    fftrain("mixed-alone", *MIXED)
    check("mixed", "mixed-alone", fftrain("mixed", *MIXED, "--sync-bn", *UNEVEN))
    done = fftrain("none", *ONE, "--sync-bn", *UNEVEN, "-n")
    tap.ok(done.returncode == 0 and "activations" in done.stdout, "a dry run", done.stderr)
if not tap.LONG:
    shutil.rmtree(PLACE)
    tap.finish()

# ---- torch, with the whole batch


def torch_step(torchvision, torch, start, images, labels, rate):
    net = torchvision.models.resnet18(num_classes=start["fc.bias"].size)
    net.conv1, net.maxpool = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False), torch.nn.Identity()
    state = {k: torch.from_numpy(v.astype("float32")) for k, v in start.items() if "running" not in k}
    net.load_state_dict(state, strict=False)
    net.train()
    torch.nn.functional.cross_entropy(net(images), labels).backward()
    torch.optim.SGD(net.parameters(), lr=rate).step()
    return {k: v.detach().double().numpy() for k, v in net.state_dict().items() if v.is_floating_point()}


try:
    import torch
    import torchvision
except ImportError as missing:
    tap.skip("torch's batch norms", "Python lacks a module: %s" % missing)
else:
    torch.set_num_threads(1)
    RUN = ["--data", "one", "--model", "resnet18", "--stem", "cifar", "--batch", BATCH, "--epochs", 1, "--augment", "none", *PLAIN]
    fftrain("start", *RUN, "--lr", 0)
    done = fftrain("torch-233", *RUN, "--lr", 2e-4, "--sync-bn", *UNEVEN)
    raw = subprocess.run([tap.program("dump_batches"), "one/train", str(BATCH), "1", "none"], capture_output=True, check=True).stdout
    images = numpy.frombuffer(raw, "float32", BATCH * 3 * 16 * 16).reshape(BATCH, 3, 16, 16)
    labels = numpy.frombuffer(raw, "int64", BATCH, images.nbytes)
    check("torch-233", torch_step(torchvision, torch, tensors("start"), torch.from_numpy(images.copy()), torch.from_numpy(labels.copy()), 2e-4), done)

# ---- on simulated GPUs

GPU = {"program": runs.SIMULATED}
for net, more in ("smallnet", []), ("mobilenet_v2", ["--no-warm-up"]):
    RUN = ["--data", "gpu", "--model", net, "--batch", 8, "--epochs", 1, "--augment", "flip", *PLAIN, "--precision", "f32", "--lr", 2e-4,
           "--tune", 0, *more]
    fftrain("gpu-" + net, *RUN, "--device", "cuda:0", **GPU)
    for split, how in [("dp", ["--dp", "0,1"]), ("ranks", ["--ranks", 2]), ("shared", ["--ranks", 2, "--device", "cuda:0"])]:
        if split == "dp" or net == "smallnet":
            check("gpu-%s-%s" % (net, split), "gpu-" + net, fftrain("gpu-%s-%s" % (net, split), *RUN, "--sync-bn", *how, **GPU))
REST = ["--data", "rest/train", "--model", "smallnet", "--batch", 8, "--epochs", 2, "--augment", "flip", *PLAIN, "--lr", 2e-4, "--last-batch", "keep"]
for precision, how in ("f32", []), ("f32", ["--accumulate", 2]), ("f16", []):
    name = "gpu-rest-" + precision + "".join(map(str, how))
    fftrain(name, *REST, *how, "--precision", precision, "--device", "cuda:0", **GPU)
    for split, among in [("dp", ["--dp", "0,1", "--dp-balance", "3,1"]), ("calls", ["--dp", "0,1", "--dp-balance", "3,1", "--no-graph"]),
                         ("ranks", ["--ranks", 2])]:
        done = fftrain(name + "-" + split, *REST, *how, "--precision", precision, "--sync-bn", *among, **GPU)
        if precision == "f32":
            check(name + "-" + split, name, done)
        elif done.returncode == 0:
            found = distance(tensors(name), tensors(name + "-" + split))
            tap.ok(found < 2e-4, "%s-%s: within the rounding of f16" % (name, split), found)
        if split == "ranks":
            launched = 1 + 5 * 3 if how else 1 + 6  # by the warm-up; for whole batches, with micro-batches from the second on
            tap.ok(done.stderr.count("graphs: %d launched\n" % launched) == 2, "%s-ranks: graphs have all collectives" % name, done.stderr)
    tap.ok(same(name + "-dp", name + "-calls"), name + ": graphs with collectives between them, or calls: the same bits")

shutil.rmtree(PLACE)
tap.finish()
