"""Training steps of ffpack and of PyTorch at its best, in alternating rounds on one GPU.

    steps.py --ours build/gpu/serve_steps [--case resnet18:512] [--seconds 400] [--out FILE]

A case is NET:BATCH[:SIDE] (images of 32 pixels, resnet50 of 224). Both sides are servers (torch_steps.py describes their protocol).
First every case of ours alone, undisturbed by a peer; then duels, the most informative first: rounds of STEPS steps each, ours,
theirs, ours, ..., after both have warmed up. The first case comes first, in f16; "default" mode comes first, then reduce-overhead
(CUDA graphs), then max-autotune, which compiles longest. Each duel's row is printed and every round written to --out when it ends;
no duel begins for which --seconds leave no time. The last rows are PyTorch's best of each case and precision. Exit code: 0 all of
ours were measured, 1 one of them failed, 3 nothing was measured."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import servers

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ["resnet18:512", "resnet18:128", "resnet18:1024", "resnet50:256"]
VARIANTS = [(precision, how, mode) for mode in ("default", "reduce-overhead", "max-autotune") for how in ("autocast", "pure")
            for precision in ("f16", "bf16")]
LEAST = 20  # the least seconds that a duel needs


def clocks():
    """The GPU's description for the log; None without a GPU."""
    query = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
    try:
        return subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None


def spread(values):
    return f"{statistics.median(values):.3f} ms ({min(values):.3f} to {max(values):.3f})"


def duels(options):
    """(case, precision, how, mode), the most informative first."""
    first = (options.case[0], options.variants[0][0])
    def rank(duel):
        case, precision, how, mode = duel
        modes = list(dict.fromkeys(m for _, _, m in options.variants))
        precisions = list(dict.fromkeys(p for p, _, _ in options.variants))
        hows = list(dict.fromkeys(h for _, h, _ in options.variants))
        return modes.index(mode), (case, precision) != first, hows.index(how), precisions.index(precision), options.case.index(case)
    return sorted(((case, *variant) for case in options.case for variant in options.variants), key=rank)


class Bench:
    def __init__(self, options, out):
        self.options, self.out, self.began = options, out, time.monotonic()
        self.ours, self.open, self.rows, self.failed = {}, None, {}, 0

    def left(self):
        return self.options.seconds - (time.monotonic() - self.began)

    def log(self, event):
        self.out.write(json.dumps({**self.options.tag, "seconds": round(time.monotonic() - self.began, 1), **event}) + "\n")
        self.out.flush()

    def common(self, case):
        net, batch, *side = case.split(":")
        side = side[0] if side else "224" if net == "resnet50" else "32"
        few = ["--samples", "1024"] if int(side) > 64 else []  # larger than a GPU's cache, and quickly made
        return [*few, "--net", net, "--batch", batch, "--side", side, "--classes", "1000" if int(side) > 64 else "10", "--device"]

    def our_server(self, case, precision):
        """The open server, or another one that replaces it."""
        if self.open and self.open[0] == (case, precision):
            return self.open[1]
        self.close()
        server = servers.Server(f"ffpack {case} {precision}", [*self.options.ours.split(), *self.common(case), self.options.device, "--precision", precision],
                                min(self.left(), self.options.patience))
        self.open = (case, precision), server
        return server

    def close(self):
        if self.open:
            self.open[1].close()
            self.open = None

    def alone(self, case, precision):
        """Ours alone, undisturbed by a peer."""
        try:
            server = self.our_server(case, precision)
            times = [server.steps(self.options.steps, min(self.left(), self.options.patience)) for _ in range(self.options.rounds)]
        except servers.Failed as error:
            self.open = None
            cut = self.left() < 1
            self.failed += not cut
            self.log({"case": case, "precision": precision, "cut" if cut else "failed": str(error), "ours": True})
            print(f"# ffpack {'was cut off' if cut else 'FAILED'}: {error}", flush=True)
            return
        self.ours[case, precision] = times
        self.log({"case": case, "precision": precision, "ours_ms": times, "clocks": clocks()})
        print(f"| {case} | {precision} | {spread(times)} | alone | |", flush=True)

    def duel(self, case, precision, how, mode):
        options, name = self.options, f"torch {precision} {how} {mode}"
        theirs, mine, other = None, [], []
        try:
            patience = min(self.left() - 2, options.patience * (2 if mode == "max-autotune" else 1))
            theirs = servers.Server(name, [options.python, os.path.join(HERE, "torch_steps.py"), *self.common(case), options.peer_device or options.device,
                                           "--precision", precision, "--how", how, "--mode", mode, "--warm-up", str(options.peer_warm_up)], patience)
            self.log({"case": case, "ready": theirs.ready, "server": name})
            ours = self.our_server(case, precision)
            for number in range(options.rounds):
                if self.left() < 1:
                    break
                mine.append(ours.steps(options.steps, min(self.left(), options.patience)))
                other.append(theirs.steps(options.steps, min(self.left(), options.patience)))
                self.log({"case": case, "variant": name, "round": number, "ours_ms": mine[-1], "theirs_ms": other[-1]})
        except servers.Failed as error:
            mine_failed = str(error).startswith("ffpack") and self.left() >= 1
            if str(error).startswith("ffpack"):
                self.open = None
            self.failed += mine_failed
            self.log({"case": case, "variant": name, "failed": str(error), "ours": mine_failed})
            print(f"# {error}", flush=True)
        finally:
            if theirs:
                theirs.close()
        if other:
            self.rows[case, precision, how, mode] = mine[:len(other)], other
            self.print_row(case, precision, how, mode)

    def print_row(self, case, precision, how, mode):
        mine, other = self.rows[case, precision, how, mode]
        print(f"| {case} | {precision} | {spread(mine)} | {spread(other)}, {how} {mode} | {statistics.median(other) / statistics.median(mine):.2f} |", flush=True)

    def run(self):
        options = self.options
        print("| net and batch | precision | ffpack, a step | PyTorch, a step | ratio |\n|---|---|---|---|---|", flush=True)
        plan = duels(options)
        for case, precision in dict.fromkeys((c, p) for c, p, _, _ in plan):
            if self.left() >= 1:
                self.alone(case, precision)
        for duel in plan:
            if duel[:2] not in self.ours:
                continue  # it failed alone
            if self.left() < options.least * (3 if duel[3] == "max-autotune" else 1):
                print(f"# no time for {' '.join(duel)}", flush=True)
                self.log({"no_time": duel})
                continue
            self.duel(*duel)
        self.close()
        for case, precision in dict.fromkeys(key[:2] for key in self.rows):
            best = min((key for key in self.rows if key[:2] == (case, precision)), key=lambda key: statistics.median(self.rows[key][1]))
            print("best: ", end="")
            self.print_row(*best)
        return 1 if self.failed else 0 if self.ours else 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True, help="serve_steps, with its options")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--case", action="append")
    parser.add_argument("--variant", action="append", help="PRECISION:HOW:MODE")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--peer-warm-up", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1e6, help="ends by itself within about this number of seconds")
    parser.add_argument("--patience", type=float, default=150, help="seconds that one answer may take; twice that with max-autotune")
    parser.add_argument("--least", type=float, default=LEAST, help="seconds left for which a duel begins; three times that with max-autotune")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--peer-device", help="if it is another file")
    parser.add_argument("--out", default=os.devnull)
    parser.add_argument("--tag", type=json.loads, default={}, help="a JSON object that every line of --out begins with")
    options = parser.parse_args()
    options.case = options.case or CASES
    options.variants = [tuple(v.split(":")) for v in options.variant] if options.variant else VARIANTS
    with open(options.out, "a") as out:
        sys.exit(Bench(options, out).run())


if __name__ == "__main__":
    main()
