"""fftrain --recipe cifar-speed against cifar10-airbench's airbench94_muon, on the same images and GPU.

    cifar_speed.py --fftrain build/fftrain --ffinspect build/ffinspect --data CIFAR --script airbench94_muon.py [--runs 50]

CIFAR is packed once (ffpack cifar10-jpeg -o CIFAR --dtype u8). First one of our runs fills the plan cache, and --first runs follow,
undisturbed by a peer. Then the peer starts, and our runs and the peer's alternate, seeds 0, 1, ... Without --script only our runs
are made. Ours is one process per run: its clocks are those that fftrain logs (warm: whitening, all training epochs with their
augmentation, the final evaluation with views; cold: warming up too), and in addition the time from the start of the process to its
end. The peer is one compiled process; its start is reported once. The script gets the images in the order of ffpack's numbers, but
first the images that our whitening uses. Every run is written to --out when it ends. Nothing begins for which --seconds leave no
time. Exit code: 0 all of ours ran, 1 one failed, 3 nothing was measured."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import servers

HERE = os.path.dirname(os.path.abspath(__file__))


def export(ffinspect, split, whitened, path):
    """[N, 32, 32, 3] u8 and labels of a packed split, with the samples `whitened` in front."""
    import numpy
    whitened = numpy.array(whitened, dtype=numpy.int64)
    with tempfile.TemporaryDirectory() as folder:
        array = os.path.join(folder, "images.npy")
        subprocess.run([ffinspect, split, "--npy", array], check=True, stdout=subprocess.DEVNULL)
        images = numpy.load(array)
        about = json.loads(subprocess.run([ffinspect, split, "--json", "--sample", f"0:{len(images)}"], check=True, capture_output=True, text=True).stdout)
    if images.dtype != numpy.uint8:
        raise servers.Failed(f"{split}: packed as {images.dtype}; pack it with --dtype u8")
    if images.shape[1] == 3:
        images = images.transpose(0, 2, 3, 1)
    labels = numpy.array([sample["labels"][0]["label"]["value"] for sample in about["splits"][0]["sample"]])
    whitened = whitened[whitened < len(images)]
    order = numpy.concatenate([whitened, numpy.setdiff1d(numpy.arange(len(images)), whitened)]).astype(numpy.int64)
    numpy.savez(path, images=numpy.ascontiguousarray(images[order]), labels=labels[order])


class Race:
    def __init__(self, options, folder, out):
        self.options, self.folder, self.out, self.began = options, folder, out, time.monotonic()
        self.mine, self.other, self.failed = [], [], 0
        self.start = None  # the peer's seconds
        self.server = None

    def left(self):
        return self.options.seconds - (time.monotonic() - self.began)

    def log(self, event):
        self.out.write(json.dumps({**self.options.tag, "seconds": round(time.monotonic() - self.began, 1), **event}) + "\n")
        self.out.flush()

    def ours(self, seed, kind):
        """One training; None if it failed or there was no time for it."""
        options, log_path = self.options, os.path.join(self.folder, "log.jsonl")
        if os.path.exists(log_path):
            os.remove(log_path)
        command = [options.fftrain, "--recipe", options.recipe, "--data", options.data, "--device", options.device, "--seed", str(seed),
                   "--log-json", log_path, *options.more.split()]
        began = time.perf_counter()
        process = servers.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        limit = min(self.left(), options.patience)
        try:
            _, said = process.communicate(timeout=max(limit, 0.1))
            code, cut = process.returncode, False
        except subprocess.TimeoutExpired:
            code, said, cut = servers.end_group(process), f"no end within {limit:.0f} s", limit < options.patience
        wall = time.perf_counter() - began
        try:
            if code:
                raise ValueError(f"exit code {code}: {(said.strip().splitlines() or [''])[-1][:200]}")
            events = [json.loads(line) for line in open(log_path)]
            end = next(event for event in events if event["event"] == "end")
            accuracy = [event for event in events if event["event"] == "epoch" and event.get("val_accuracy") is not None][-1]["val_accuracy"]
            run = {"accuracy": accuracy, "timed_seconds": end["timed_seconds"], "wall_seconds": round(wall, 3)}
            run.update({name: end[name] for name in ("warm_up_seconds", "cold_seconds") if end.get(name) is not None})
        except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
            self.failed += not cut
            self.log({"seed": seed, "kind": kind, "cut" if cut else "failed": str(error) or repr(error), "ours": True})
            print(f"# fftrain {'was cut off' if cut else 'FAILED'}: {error!r}", flush=True)
            return None
        self.log({"seed": seed, "kind": kind, "ours": run})
        return run

    def start_peer(self):
        options = self.options
        whitened = [int(line) for line in open(options.whitened)] if options.whitened else []
        paths = {split: os.path.join(self.folder, f"{split}.npz") for split in ("train", "test")}
        for split, path in paths.items():
            export(options.ffinspect, os.path.join(options.data, split), whitened if split == "train" else [], path)
        command = [options.python, os.path.join(HERE, "airbench.py"), "--script", options.script, "--train", paths["train"], "--test", paths["test"]]
        began = time.monotonic()
        self.server = servers.Server("airbench94_muon", command, min(self.left() - 2, options.peer_patience))
        self.start = self.server.ready.get("start_seconds", round(time.monotonic() - began, 2))
        self.log({"theirs_ready": self.server.ready})

    def theirs(self, seed):
        answer = self.server.ask("run", min(self.left(), self.options.patience), "accuracy", "seconds")
        run = {"accuracy": float(answer["accuracy"]), "timed_seconds": float(answer["seconds"])}
        self.log({"seed": seed, "theirs": run})
        return run

    def rounds(self):
        """Our runs and the peer's in turn, until all are done, the time is up or one fails."""
        try:
            self.start_peer()
            slowest = 0
            for seed in range(self.options.runs):
                began = time.monotonic()
                if self.left() < 1.5 * slowest:
                    break
                run = self.ours(seed, "round")
                if run is None:
                    break
                self.mine.append(run)
                self.other.append(self.theirs(seed))
                slowest = max(slowest, time.monotonic() - began)
        except (servers.Failed, OSError, ValueError, KeyError, ImportError, subprocess.SubprocessError) as error:
            self.log({"peer_failed": str(error)})
            print(f"# the peer failed: {error}", flush=True)
        if self.server:
            self.server.close()

    def run(self):
        options = self.options
        first = self.ours(1000, "first")  # may compile and choose engines
        alone = []
        for seed in range(options.first) if first else []:
            if self.left() < 1:
                break
            run = self.ours(seed, "alone")
            if run:
                alone.append(run)
        print("| program | runs | accuracy, mean ± its error | seconds, median |\n|---|---|---|---|")
        if alone:
            print(summary(f"fftrain --recipe {options.recipe}, alone", alone), flush=True)
        if not options.script:
            print("# no peer: --script names none")
        elif first and self.left() > 2:
            self.rounds()
        self.report(first, alone)
        return 1 if self.failed else 0 if alone or self.mine else 3

    def report(self, first, alone):
        if self.mine:
            print(summary(f"fftrain --recipe {self.options.recipe}, in rounds", self.mine))
        if self.other:
            print(summary("airbench94_muon", self.other))
        runs = self.mine or alone
        if not runs:
            return
        middle = lambda name, among: statistics.median(run[name] for run in among if name in run)
        for name, what in (("warm_up_seconds", "warming up"), ("cold_seconds", "with warming up")):
            if any(name in run for run in runs):
                print(f"{what}: {middle(name, runs):.3f} s")
        wall = middle("wall_seconds", runs)
        print(f"whole process: {wall:.2f} s with the plan cache, {first['wall_seconds']:.2f} s the first time")
        if self.other:
            theirs, start = middle("timed_seconds", self.other), self.start + middle("timed_seconds", self.other)
            print(f"Time: {middle('timed_seconds', runs) / theirs:.3f} of theirs (goal 0.6). Start of the process to accuracy: "
                  f"theirs {start:.2f} s, ours 1/{start / wall:.1f} of it (goal 1/20).", flush=True)


def summary(name, runs):
    accuracy, seconds = [100 * run["accuracy"] for run in runs], [run["timed_seconds"] for run in runs]
    error = f"{statistics.stdev(accuracy) / len(accuracy) ** 0.5:.3f}" if len(accuracy) > 1 else "-"
    return f"| {name} | {len(runs)} | {statistics.mean(accuracy):.3f} % ± {error} | {statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f}) |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fftrain", required=True)
    parser.add_argument("--ffinspect", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--script")
    parser.add_argument("--whitened", help="numbers of the samples that whitening uses, in their order, one per line: build/tests/dump_order 50000 5000")
    parser.add_argument("--first", type=int, default=10, help="runs of ours before the peer starts")
    parser.add_argument("--runs", type=int, default=50, help="rounds of ours and theirs")
    parser.add_argument("--seconds", type=float, default=1e6, help="ends by itself within about this number of seconds")
    parser.add_argument("--patience", type=float, default=120, help="seconds that one run may take")
    parser.add_argument("--peer-patience", type=float, default=240, help="seconds that the peer's start may take")
    parser.add_argument("--recipe", default="cifar-speed", help="another file for a trial without a card")
    parser.add_argument("--more", default="", help="further options for fftrain")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default=os.devnull)
    parser.add_argument("--tag", type=json.loads, default={}, help="a JSON object that every line of --out begins with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(options.out, "a") as out:
        sys.exit(Race(options, folder, out).run())


if __name__ == "__main__":
    main()
