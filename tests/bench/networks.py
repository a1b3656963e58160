"""The prediction of `fftrain --dry-run --world` against runs on slow networks (tests/slow_network.py): a ResNet-18 (cifar stem, 32x32,
32 samples a rank), one core per rank; the network is measured by `fftrain measure-net` there, and the times of a device while all
ranks measure theirs. Prints Markdown. Environment: BUILD, ROUNDS (3)."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import slow_network  # noqa: E402

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
ROUNDS = int(os.environ.get("ROUNDS", 3))
RANKS, SHARE, STEPS = 2, 32, 12
# Mbit/s and microseconds a message; 0 = as it is.
NETWORKS = [(0, 0), (0, 20000), (5000, 0), (2000, 0), (1000, 0), (300, 0)]
PLACE = tempfile.mkdtemp(prefix="ffbench")


def devices(net):
    """A rank's prediction, from times taken while the others take theirs."""
    ranks = [subprocess.Popen([BUILD + "/fftrain", *TRAIN, "--threads", "1", "--dry-run", "--json", "--world", str(RANKS), "--net", net],
                              stdout=subprocess.PIPE, text=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
             for _ in range(RANKS)]
    return [json.loads(rank.communicate()[0])["world"] for rank in ranks][0]


TRAIN = ["--data", "set", "--model", "resnet18", "--stem", "cifar", "--batch", str(RANKS * SHARE), "--augment", "none"]


def trained(network, delay_us):
    """Seconds of a step in the second epoch; the part of a run's reductions that the backward pass hides."""
    log = os.path.join(PLACE, "log")
    if os.path.exists(log):
        os.remove(log)
    network.job(delay_us, *TRAIN, "--epochs", 2, "--out", "none", "--quiet", "--threads", 1, "--log-json", "log")
    with open(log, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    rate = [event["samples_per_second"] for event in events if event["event"] == "epoch"][-1]
    return RANKS * SHARE / rate, 1 - events[-1]["reduce_wait_seconds"] / events[-1]["reduce_seconds"]


def main():
    if slow_network.missing():
        print("skipped: " + slow_network.missing())
        return
    os.chdir(PLACE)
    subprocess.run([BUILD + "/tests/make_set", "set", "--count", str(RANKS * SHARE * STEPS), "--height", "32", "--width", "32", "--statistics"],
                   check=True, stdout=subprocess.DEVNULL)
    print("| link | a message later by | reduction / backward | hidden: run | predicted | step: run | predicted | ratio |\n"
          "|---|---|---|---|---|---|---|---|")
    for mbit, delay_us in NETWORKS:
        with slow_network.Network(RANKS, mbit) as network:
            network.job(delay_us, "measure-net", "-o", "net.json")
            runs = [(*trained(network, delay_us), devices("net.json")) for _ in range(ROUNDS)]
        step, hidden = (statistics.median(run[i] for run in runs) for i in (0, 1))
        predicted = {key: statistics.median(run[2][key] for run in runs)
                     for key in ("step_seconds", "reduce_seconds", "exposed_seconds", "backward_seconds")}
        print("| %s | %s | %.2f | %.0f %% | %.0f %% | %.0f ms | %.0f ms | %.2f |" % (
            "%d Mbit/s" % mbit if mbit else "unlimited", "%g ms" % (delay_us / 1000) if delay_us else "0",
            predicted["reduce_seconds"] / predicted["backward_seconds"], 100 * hidden,
            100 * (1 - predicted["exposed_seconds"] / predicted["reduce_seconds"]), 1000 * step, 1000 * predicted["step_seconds"],
            predicted["step_seconds"] / step), flush=True)
    shutil.rmtree(PLACE)


main()
