#!/usr/bin/python3
"""Training steps (forward, loss, backward, SGD update) of fftrain's nets beside PyTorch's fastest: the same net, batch and threads, in one
run, in alternating rounds. PyTorch runs in f32 and bf16, eager and compiled, contiguous and channels-last; a setting that takes over 1.5
times the fastest of its precision in its first round is left out, and one that fails is reported. Ours runs in each precision of
--precision; one that this build or processor lacks is "not in this build"; the ratio is of the fastest of either side. A row is disturbed
if others used more than 0.3 processors in a second before it, in its rounds, or in a second after it.

PyTorch is PyPI's newest, in an environment of its own (environments.py). torch.compile needs g++; its kernels are kept there.
--isa avx2 keeps the libraries of both sides from AVX-512. Our own loops choose by the processor itself: the kernels take oneDNN's blocks
of 8 channels and so AVX2; plain loops (FF_CLONES, FF_VECTOR_CLONES) need a --program that was built without their AVX-512 clones.

usage: train_step.py [--quick] [--priority] [--precision LIST] [--settings TEXT] [--isa avx2] [--rounds N] [--threads N] [--cpu-time]
    [--patience SECONDS] [--json FILE] [CASE...]
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import time

import environments
import rounds

HERE = os.path.dirname(os.path.abspath(__file__))
PRECISIONS = ("f32", "bf16")
SETTINGS = [" ".join(words) for words in itertools.product(PRECISIONS, ("eager", "compile"), ("contiguous", "channels-last"))]
SLOW = 1.5  # times the fastest of the first round
USAGE, NOT_BUILT = 2, "not in this build"  # the program's exit code for a precision that it refuses
MANY = 8    # rounds
MASKS = {   # of --isa: oneDNN's by both names (ours; PyTorch's own copy), MKL's, and PyTorch's for its loops and for what it compiles
    "all": {},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
             "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join("-AVX512" + part for part in ("F", "VL", "BW", "DQ", "CD"))},
}

# name: (our arguments NAME STEM CHANNELS SIDE BATCH, steps per round, goal)
CASES = {
    "smallnet-28x1": ("smallnet auto 1 28 256", 12, 2.0),
    "smallnet-32x3": ("smallnet auto 3 32 256", 10, 2.0),
    "resnet18-cifar-64": ("resnet18 cifar 3 32 64", 2, 1.5),
    "resnet18-cifar-128": ("resnet18 cifar 3 32 128", 1, 1.5),
    "resnet18-imagenet-64": ("resnet18 imagenet 3 32 64", 10, 1.5),
    "resnet18-imagenet-128": ("resnet18 imagenet 3 32 128", 6, 1.5),
    "resnet50-cifar-32": ("resnet50 cifar 3 32 32", 1, 1.3),
    "vgg11-cifar-64": ("vgg11 cifar 3 32 64", 3, 1.3),
    "vgg11_bn-cifar-64": ("vgg11_bn cifar 3 32 64", 3, 1.3),
    "mobilenet_v2-cifar-64": ("mobilenet_v2 cifar 3 32 64", 2, 1.3),
    "mobilenet_v2-imagenet-16": ("mobilenet_v2 imagenet 3 128 16", 2, 1.3),
}


class Bench:
    def __init__(self, options, python):
        self.options, self.python = options, python
        self.ours = options.precision.split(",")
        self.failed = {}  # of this case: {name: reason}

    def read(self, line):
        """(best, median) milliseconds."""
        best, median, processor, _ = map(float, line.split())
        return (processor, processor) if self.options.cpu_time else (best, median)

    def start(self, arguments, steps):
        """{name: side} of what runs, each with its first round done."""
        arguments = [*arguments.split(), str(self.options.threads)]
        commands = {"ffpack " + name: [self.options.program, *arguments, name] for name in self.ours}
        for name in filter(lambda name: self.options.settings in name, SETTINGS):
            commands[name] = [self.python, os.path.join(HERE, "train_step_peer.py"), *arguments, *name.split()]
        environment = {"TORCHINDUCTOR_CACHE_DIR": os.path.join(environments.PLACE, "kernels"), "TORCHINDUCTOR_COMPILE_THREADS": "1",
                       **MASKS[self.options.isa]}
        sides = {}
        for name, command in commands.items():
            try:
                side = rounds.Side(command, steps, environment, 2, self.read, self.options.patience)
                if self.options.priority:
                    side.prioritize()
                side.first = side.round()
                sides[name] = side
            except rounds.Ended as error:
                refused = name not in SETTINGS and error.code == USAGE
                self.failed[name] = NOT_BUILT if refused else str(error)
        for kind in PRECISIONS:
            theirs = [name for name in sides if name in SETTINGS and name.startswith(kind)]
            least = min((sides[name].first[0] for name in theirs), default=0)
            for name in theirs:
                if sides[name].first[0] > SLOW * least:
                    sides.pop(name).close()
        return sides

    def alternate(self, sides):
        """rounds.alternate; a side that fails in its rounds is left out."""
        while True:
            try:
                return rounds.alternate(sides, self.options.rounds, 1 if self.options.quick else rounds.TRIES)
            except rounds.Ended as error:
                name = next(name for name, side in sides.items() if side.process.returncode is not None)
                self.failed[name] = str(error)
                del sides[name]

    def case(self, name):
        """What --json has of a case."""
        arguments, steps, goal = CASES[name]
        self.failed = {}
        _, before = rounds.others_during({}, lambda: time.sleep(1))
        sides = self.start(arguments, steps)
        try:
            answers, others = self.alternate(sides)
        finally:
            for side in sides.values():
                side.close()
        _, after = rounds.others_during({}, lambda: time.sleep(1))
        return {"case": name, "goal": goal, "failed": self.failed, "others": {"before": before, "during": others, "after": after},
                "best_ms": {side: min(answer[0] for answer in each) for side, each in answers.items()},
                "median_ms": {side: statistics.median(answer[1] for answer in each) for side, each in answers.items()}}


def fastest(times, names):
    """The fastest of the names that have a time, or None."""
    return min((name for name in names if name in times), key=times.get, default=None)


def cell(record, side):
    if side in record["best_ms"]:
        return f"{record['best_ms'][side]:.1f} ({record['median_ms'][side]:.1f})"
    return NOT_BUILT if record["failed"].get(side) == NOT_BUILT else "failed"


def ratio_of(times, ours, theirs):
    return f"{times[theirs] / times[ours]:.2f}" if ours and theirs else "-"


def row(record, ours):
    """A line of the table: each of our precisions, PyTorch's fastest in f32 and of all, and the ratio of both."""
    best, median = record["best_ms"], record["median_ms"]
    own = fastest(best, ours)
    f32, all_ = (fastest(best, [name for name in SETTINGS if name.startswith(kind)]) for kind in ("f32", ""))
    cells = [cell(record, name) for name in ours]
    for theirs in (f32, all_):
        cells.append(f"{cell(record, theirs)} {theirs}" if theirs else "failed")
    same = ratio_of(best, "ffpack f32" if "ffpack f32" in best else None, f32)
    others = max(record["others"].values())
    return "| " + " | ".join([record["case"], *cells, same, ratio_of(best, own, all_), ratio_of(median, own, all_), f"{record['goal']}",
                              f"{max(others, 0):.2f}" + (" disturbed" if others > rounds.DISTURBED else "")]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(os.environ.get("BUILD", "build"), "tests", "bench_train_step"))
    parser.add_argument("--peer", help="the Python of an environment with PyTorch; default: made in the build folder")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--quick", action="store_true", help="2 rounds, disturbed or not")
    parser.add_argument("--priority", action="store_true", help="real-time priority for the rounds, for a busy machine; needs root")
    parser.add_argument("--precision", default="f32,bf16", help="ours: a list for bench_train_step")
    parser.add_argument("--settings", default="", help="PyTorch's settings that contain this text, for example f32 or compile")
    parser.add_argument("--isa", choices=MASKS, default="all", help="the instructions that the libraries of both sides may use")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="processor time instead of wall time: with --threads 1, for a busy machine")
    parser.add_argument("--patience", type=float, default=300, help="seconds for the first steps of a setting, its compilation included")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else MANY)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}; there are: {', '.join(CASES)}")
    python, reason = (options.peer, None) if options.peer else environments.python_of("torch")
    if reason:
        print(f"train_step: skipped: no environment with PyPI's PyTorch: {reason}")
        return
    version = subprocess.run([python, os.path.join(HERE, "train_step_peer.py"), "--version"], check=True, capture_output=True, text=True)
    bench = Bench(options, python)
    ours = ["ffpack " + name for name in bench.ours]
    print(f"Training step, {options.threads} threads{'' if options.isa == 'all' else ', ' + options.isa}, PyTorch {version.stdout.strip()}; "
          f"ms a step, best (median) of {options.rounds} alternating rounds\n")
    print("| case | " + " | ".join(ours) + " | PyTorch's fastest in f32 | PyTorch's fastest | ratio, f32 | ratio | of the medians | goal | "
          "others' processors |\n" + "|---" * (len(ours) + 8) + "|")
    records = []
    for name in options.cases or CASES:
        records.append(bench.case(name))
        print(row(records[-1], ours), flush=True)
    failed = [f"- {record['case']}, {side}: {why}" for record in records for side, why in record["failed"].items() if why != NOT_BUILT]
    print("\n".join(["", "Without a time:", *failed]) if failed else "", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)


if __name__ == "__main__":
    main()
