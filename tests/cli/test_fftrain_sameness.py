#!/usr/bin/python3
"""The sameness table: one device, replicas (--dp), uneven ones, processes (--ranks), ranks of MPI and those that share a GPU train to the
same parameters and losses and evaluate every sample once; a run continues in the middle of an epoch with another number of ranks. On the
CPU, and on simulated GPUs (fftrain_sim with a stand-in for NCCL) whose streams and collectives wait at random. Prints TAP, and the table.

No net normalizes by a batch, whose statistics are of a rank's samples (test_fftrain_sync.py has those of all ranks): smallnet's norms are
frozen, and vgg11 has none. Every row is of smallnet; some are also of vgg11, whose gradients are several
buckets. The short part is smallnet on the CPU."""
import concurrent.futures
import glob
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import MPIRUN  # noqa: E402
from runs import FFTRAIN, SIMULATED, apart, epochs, fftrain, losses, make, same, starts  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)
STEPS = 20
NUMBERS = 1, 2, 3, 4, 8
SMALLNET, VGG = (16, ["--model", "smallnet", "--freeze", "norm"]), (32, ["--model", "vgg11", "--stem", "cifar"])  # sides of images, nets
RUN = ["--epochs", 1, "--threads", 1, "--seed", 3, "--dropout", 0.3, "--lr", 0.002, "--augment", "crop=4,flip", "--schedule", "constant",
       "--warmup", 0]
UNEVEN = ["--dp-balance", "2,3,3"]


class Device:
    """Runs of a net: of one step of `batch` samples, of 20 steps of `small` and of 4 with checkpoints."""

    def __init__(self, name, program, net, batch, small, tested, options, alone, **environment):
        self.name, self.program, self.tested, self.alone = name, program, tested, alone
        self.environment = environment
        side, model = net
        for place, count in ("one", batch), ("four", 4 * small), ("twenty", STEPS * small - 1 - small // 4):
            os.makedirs("%s/%s" % (name, place))
            make("%s/%s/train" % (name, place), "--count", count, "--height", side, "--width", side, "--statistics")
        make(name + "/one/test", "--count", tested, "--height", side, "--width", side, "--statistics")
        options = [*RUN, *model, *options]
        self.one = ["--data", name + "/one", *options, "--batch", batch, "--lr", 0.1]  # moves the parameters by more than 3e-3
        self.twenty = ["--data", name + "/twenty/train", *options, "--batch", small, "--last-batch", "keep", "--hash-every", 1]
        self.four = ["--data", name + "/four/train", *options, "--batch", small, "--hash-every", 1, "--checkpoint-every", "2 steps"]

    def fftrain(self, *arguments, before=()):
        return fftrain(*arguments, program=self.program, before=before, **self.environment)

    def all(self, runs):
        """{name: (arguments, launcher)}: two at a time."""
        def one(name):
            run, before = runs[name]
            done = self.fftrain(*run, "--out", self.name + "-" + name, before=before)
            if run[:len(self.four)] != self.four:
                for state in glob.glob("%s-%s/checkpoints/step-*/state.safetensors" % (self.name, name)):
                    os.remove(state)  # takes room, and is not needed
            return done
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return dict(zip(runs, pool.map(one, runs)))

    def table(self, splits, long, changes, equal):
        """splits: {name: (options, launcher, communicator)}; long: those that also run 20 steps; changes: (from, to) of a resume;
        equal: splits with the same bits."""
        runs = {"alone": ([*self.one, *self.alone], ()), **{name: ([*self.one, *how], before) for name, (how, before, _) in splits.items()}}
        if not tap.SANITIZE:
            runs.update({"alone-20": ([*self.twenty, *self.alone], ())} if long else {})
            runs.update({"alone-4": ([*self.four, *self.alone], ())} if changes else {})
            runs.update({name + "-20": ([*self.twenty, *splits[name][0]], splits[name][1]) for name in long})
            runs.update({begun + "-4": ([*self.four, *splits[begun][0]], splits[begun][1]) for begun, _ in changes if begun != "alone"})
        done = self.all(runs)
        at = {name: self.name + "-" + name for name in runs}
        for name in "alone", "alone-20", "alone-4":
            if name in runs:
                tap.ok(done[name].returncode == 0, "%s: %s" % (self.name, name), done[name].stderr)
        print("# %-12s %-14s one step, parameters   20 steps, losses" % (self.name, "communicator"))
        for name, (_, _, communicator) in splits.items():
            ran = done[name].returncode == 0
            one, row = apart(at["alone"], at[name]) if ran else 1, "%s: %s" % (self.name, name)
            tap.ok(one <= 1e-6, row + ": one step: the same parameters within 1e-6", (one, done[name].stderr))
            tap.ok(ran and starts(at[name])[0].get("communicator") == communicator, row + ": its communicator", ran and starts(at[name]))
            told = [epochs(at[run])[0] for run in ("alone", name)] if ran else []
            tap.ok(ran and len({round(line["val_accuracy"] * self.tested) for line in told}) == 1 and
                   abs(told[0]["val_loss"] - told[1]["val_loss"]) < 1e-5, row + ": every sample is evaluated once", told)
            twenty = ""
            if name + "-20" in runs:
                ran = done[name + "-20"].returncode == 0
                found = max(abs(a - b) for a, b in zip(losses(at["alone-20"]), losses(at[name + "-20"]))) if ran else 1
                tap.ok(found <= 1e-4 and len(losses(at[name + "-20"])) == STEPS, "%s: the same losses in %d steps within 1e-4" % (row, STEPS),
                       (found, done[name + "-20"].stderr))
                twenty = "%.1e" % found
            print("# %-12s %-14s %-22s %s" % (name, communicator, "%.1e" % one, twenty))
        for a, b in equal:
            tap.ok(same(at[a], at[b]), "%s: %s and %s: the same bits" % (self.name, a, b))
        if "alone-4" in runs:
            self.changes(splits, changes, at)

    def changes(self, splits, changes, at):
        """Two of four steps of one split, and the rest of another."""
        for begun, other in changes:
            name = "%s-%s-%s" % (self.name, begun, other)
            shutil.copytree(at[begun + "-4"], name, symlinks=True)
            for later in glob.glob(name + "/checkpoints/step-*4"):
                shutil.rmtree(later)
            how, before, _ = splits.get(other, (self.alone, (), None))
            on = self.fftrain("--resume", name + "/checkpoints/step-2", *how, before=before)
            found = apart(at["alone-4"], name) if on.returncode == 0 else 1
            tap.ok(found <= 1e-5 and len(losses(name)) == 4, "%s: %s continues in its epoch with %s" % (self.name, begun, other), (found, on.stderr))


def rows(table, *names):
    return {name: table[name] for name in names}


table = {**{"dp-%d" % n: (["--dp", "%dxcpu" % n], (), "processes") for n in (2, 3, 4)},
         "dp-233": (["--dp", "3xcpu", *UNEVEN], (), "processes"),
         **{"ranks-%d" % n: (["--ranks", n], (), "processes" if n > 1 else None) for n in NUMBERS}}
bits = [("dp-2", "ranks-2"), ("dp-3", "ranks-3"), ("alone", "ranks-1")]
more = ["dp-2", "dp-233", "ranks-3", "ranks-8"]
goes_on = [("alone", "ranks-2"), ("ranks-2", "dp-3"), ("dp-233", "alone"), ("dp-3", "ranks-8")]
real = ["dp-2", "dp-233", "ranks-2"]
if shutil.which("mpirun") and not tap.SANITIZE:
    table.update({"mpi-%d" % n: ([], (*MPIRUN, n), "mpi" if n > 1 else None) for n in NUMBERS})
    bits += [("dp-2", "mpi-2"), ("ranks-8", "mpi-8")]
    more += ["mpi-2", "mpi-8"]
    goes_on += [("mpi-2", "mpi-3"), ("ranks-2", "mpi-4")]
    real += ["mpi-2"]
elif tap.SHORT:
    tap.skip("ranks of MPI", "mpirun is not installed")
if tap.SHORT:
    Device("cpu", FFTRAIN, SMALLNET, 24, 24, 50, [], []).table(table, more, goes_on, bits)
if not tap.LONG:
    shutil.rmtree(PLACE)
    tap.finish()
Device("cpu-vgg11", FFTRAIN, VGG, 24, 8, 10, [], []).table(rows(table, *real), ["dp-233"], [], [pair for pair in bits if set(pair) <= set(real)])

ON_GPU = ["--precision", "f32", "--tune", 0, "--no-warm-up"], ["--device", "cuda:0"]
ENVIRONMENT = {"LD_LIBRARY_PATH": os.path.join(tap.BUILD, "tests"), "FF_SIM_CARDS": "8", "FF_SIM_DELAY_NS": "300000",
               "FF_NCCL_SIM_DELAY_NS": "300000"}
table = {**{"dp-%d" % n: (["--dp", ",".join(map(str, range(n)))], (), "nccl") for n in (2, 3, 4)},
         "dp-233": (["--dp", "0,1,2", *UNEVEN], (), "nccl"), "dp-shared": (["--dp", "2x0"], (), "processes"),
         **{"ranks-%d" % n: (["--ranks", n], (), "nccl" if n > 1 else None) for n in NUMBERS},
         "shared-2": (["--ranks", 2, "--device", "cuda:0"], (), "processes")}
Device("gpu", SIMULATED, SMALLNET, 8, 4, 10, *ON_GPU, **ENVIRONMENT).table(
    table, ["dp-233", "ranks-2", "shared-2"], [("alone", "ranks-2"), ("ranks-2", "dp-3"), ("dp-233", "alone")], [])
Device("gpu-vgg11", SIMULATED, VGG, 8, 4, 4, *ON_GPU, **ENVIRONMENT).table(rows(table, "dp-233", "shared-2"), [], [], [])

shutil.rmtree(PLACE)
tap.finish()
