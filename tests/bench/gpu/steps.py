"""Training steps of ffpack and of PyTorch at its best, in alternating rounds on one card.

    steps.py --ours build/tests/bench_steps [--case resnet18:512] [--out FILE] [--quick]

A case is NET:BATCH (images of 32 pixels, resnet50 of 224). Ours and theirs are servers (torch_steps.py
says how they talk): rounds of STEPS steps each, ours, theirs, ours, ...; both are warm before. A
precision's best of PyTorch is the fastest of {autocast, pure} x {default, max-autotune}; max-autotune
comes last, because it compiles longest. Every round is written to --out as it comes, so that what was
measured survives an end. Prints a table of medians with their spread."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ["resnet18:128", "resnet18:512", "resnet18:1024", "resnet50:256"]
VARIANTS = [(precision, how, mode) for mode in ("default", "max-autotune") for precision in ("f16", "bf16")
            for how in ("autocast", "pure")]


class Server:
    """A process that makes steps on request."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended (exit {self.process.wait()})")
        return json.loads(line)

    def steps(self, count):
        """Milliseconds a step."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self.read()["ms"] / count

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def clocks():
    """What the card says of itself, for the log; None where nobody can be asked."""
    query = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
    try:
        return subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, timeout=20).stdout.strip()
    except OSError:
        return None


def spread(values):
    return f"{statistics.median(values):.3f} ms ({min(values):.3f} to {max(values):.3f})"


def duel(case, ours, theirs, options, log):
    """Rounds in turn; the lists of both."""
    mine, other = [], []
    for number in range(options.rounds):
        mine.append(ours.steps(options.steps))
        other.append(theirs.steps(options.steps))
        log({"case": case, "round": number, ours.name: mine[-1], theirs.name: other[-1], "clocks": clocks() if number == 0 else None})
    return mine, other


def run_case(case, options, log):
    net, batch = case.split(":")
    side, classes = ("224", "1000") if net == "resnet50" else ("32", "10")
    common = ["--net", net, "--batch", batch, "--side", side, "--classes", classes, "--device", options.device]
    rows, servers = {}, {}
    for precision, how, mode in options.variants:
        try:
            if precision not in servers:
                servers[precision] = Server(f"ffpack {precision}", [options.ours, *common, "--precision", precision])
                log({"case": case, "ready": servers[precision].ready, "server": servers[precision].name})
            ours = servers[precision]
            name = f"torch {precision} {how} {mode}"
            theirs = Server(name, [options.python, os.path.join(HERE, "torch_steps.py"), *common, "--precision", precision, "--how", how, "--mode", mode])
            log({"case": case, "ready": theirs.ready, "server": name})
            rows[precision, how, mode] = duel(case, ours, theirs, options, log)
            theirs.close()
        except (RuntimeError, OSError) as error:
            log({"case": case, "failed": f"{precision} {how} {mode}: {error}"})
    for server in servers.values():
        server.close()
    for precision in dict.fromkeys(p for p, _, _ in rows):
        best = min((key for key in rows if key[0] == precision), key=lambda key: statistics.median(rows[key][1]))
        mine, other = rows[best]
        print(f"| {net} | {batch} | {precision} | {spread(mine)} | {spread(other)}, {best[1]} {best[2]} | "
              f"{statistics.median(other) / statistics.median(mine):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--case", action="append")
    parser.add_argument("--variant", action="append", help="PRECISION:HOW:MODE")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default=os.devnull)
    options = parser.parse_args()
    options.variants = [tuple(v.split(":")) for v in options.variant] if options.variant else VARIANTS
    began = time.time()
    with open(options.out, "a") as out:
        def log(event):
            out.write(json.dumps({"seconds": round(time.time() - began, 1), **event}) + "\n")
            out.flush()

        print(f"card: {clocks()}")
        print("\n| net | batch | precision | ffpack, a step | PyTorch's best, a step | ratio |\n|---|---|---|---|---|---|", flush=True)
        for case in options.case or CASES:
            run_case(case, options, log)


if __name__ == "__main__":
    main()
