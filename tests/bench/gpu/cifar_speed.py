"""fftrain --recipe cifar-speed against cifar10-airbench's airbench94_muon, on the same images and card.

    cifar_speed.py --fftrain build/fftrain --ffinspect build/ffinspect --data CIFAR --script airbench94_muon.py [--runs 50]

CIFAR is packed once (ffpack cifar10-jpeg -o CIFAR). Runs alternate, ours and theirs, seeds 0, 1, ...
Ours is a process a run: its clock is the one that fftrain logs (whitening, all training epochs with
their augmentation, the final evaluation with views; device events), and beside it the time from the
start of the process to its end. Theirs is one compiled process; its start is reported once. The
images go to the script in the order of ffpack's numbers, those in front that whitening looks at
being the ones ours looks at. Every run is written to --out as it comes."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))


def export(ffinspect, split, whitened, path):
    """[N, 32, 32, 3] u8 and labels of a packed split, with the samples `whitened` in front."""
    with tempfile.TemporaryDirectory() as folder:
        array = os.path.join(folder, "images.npy")
        subprocess.run([ffinspect, split, "--npy", array], check=True, stdout=subprocess.DEVNULL)
        images = numpy.load(array)
        about = json.loads(subprocess.run([ffinspect, split, "--json", "--sample", f"0:{len(images)}"], check=True, capture_output=True, text=True).stdout)
    if images.dtype != numpy.uint8:
        raise SystemExit(f"{split}: packed as {images.dtype}; pack it with --dtype u8")
    if images.shape[1] == 3:
        images = images.transpose(0, 2, 3, 1)
    labels = numpy.array([sample["labels"][0]["label"]["value"] for sample in about["splits"][0]["sample"]])
    order = numpy.concatenate([whitened, numpy.setdiff1d(numpy.arange(len(images)), whitened)]).astype(numpy.int64)
    numpy.savez(path, images=numpy.ascontiguousarray(images[order]), labels=labels[order])


def ours(options, seed, log_path):
    """One training; (accuracy, seconds by device events, seconds of the process)."""
    if os.path.exists(log_path):
        os.remove(log_path)
    began = time.perf_counter()
    subprocess.run([options.fftrain, "--recipe", "cifar-speed", "--data", options.data, "--device", options.device, "--seed", str(seed),
                    "--log-json", log_path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    events = [json.loads(line) for line in open(log_path)]
    end = next(event for event in events if event["event"] == "end")
    epoch = [event for event in events if event["event"] == "epoch"][-1]
    return epoch["val_accuracy"], end["timed_seconds"], wall


def summary(name, runs):
    accuracy, seconds = [100 * a for a, _ in runs], [s for _, s in runs]
    error = statistics.stdev(accuracy) / len(accuracy) ** 0.5 if len(accuracy) > 1 else float("nan")
    return f"| {name} | {len(runs)} | {statistics.mean(accuracy):.3f} % ± {error:.3f} | {statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f}) |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fftrain", required=True)
    parser.add_argument("--ffinspect", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--script", required=True)
    parser.add_argument("--whitened", help="numbers of the samples that whitening looks at, in their order, one a line: build/tests/dump_order 50000 5000")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after about so long")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default=os.devnull)
    options = parser.parse_args()
    began, mine, other, walls = time.time(), [], [], []
    with tempfile.TemporaryDirectory() as folder, open(options.out, "a") as out:
        def log(event):
            out.write(json.dumps(event) + "\n")
            out.flush()

        paths = {split: os.path.join(folder, f"{split}.npz") for split in ("train", "test")}
        whitened = numpy.loadtxt(options.whitened, dtype=numpy.int64) if options.whitened else numpy.arange(0)
        export(options.ffinspect, os.path.join(options.data, "train"), whitened, paths["train"])
        export(options.ffinspect, os.path.join(options.data, "test"), numpy.arange(0), paths["test"])
        theirs = subprocess.Popen([options.python, os.path.join(HERE, "airbench.py"), "--script", options.script, "--train", paths["train"], "--test", paths["test"]],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = json.loads(theirs.stdout.readline())
        log(ready)
        log_path = os.path.join(folder, "log.jsonl")
        first = ours(options, 1000, log_path)  # fills the plan cache
        log({"first": first})
        for seed in range(options.runs):
            accuracy, seconds, wall = ours(options, seed, log_path)
            mine.append((accuracy, seconds))
            walls.append(wall)
            theirs.stdin.write("run\n")
            theirs.stdin.flush()
            answer = json.loads(theirs.stdout.readline())
            other.append((answer["accuracy"], answer["seconds"]))
            log({"seed": seed, "ours": mine[-1], "wall": wall, "theirs": other[-1]})
            if time.time() - began > options.seconds:
                break
        theirs.stdin.close()
        theirs.wait()
    print("| program | runs | accuracy, mean ± its error | seconds, median |\n|---|---|---|---|")
    print(summary("fftrain --recipe cifar-speed", mine))
    print(summary("airbench94_muon", other))
    wall = statistics.median(walls)
    start = ready["start_seconds"] + statistics.median(s for _, s in other)
    print(f"\nTime: {statistics.median(s for _, s in mine) / statistics.median(s for _, s in other):.3f} of theirs (goal 0.6). "
          f"Start of the process to accuracy: ours {wall:.2f} s with the plan cache, {first[2]:.2f} s without; theirs {start:.2f} s: 1/{start / wall:.1f} (goal 1/20).")


if __name__ == "__main__":
    main()
