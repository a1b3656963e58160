#!/usr/bin/python3
"""Two ranks on slow networks, by rate and by delay: a step takes as long as `fftrain --dry-run --world` predicts from what
`fftrain measure-net` measured there. The network's time is by far the most of a step, so that other load matters little; what was measured
while others had the processors is measured again, at most twice. Prints TAP."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import slow_network  # noqa: E402
import tap  # noqa: E402

RANKS, BATCH, STEPS = 2, 2, 3
NETWORKS = [("150 Mbit/s", 150, 0, ["--model", "vgg11", "--stem", "cifar"]),
            ("50 ms a message", 0, 50000, ["--model", "resnet18", "--stem", "cifar"])]


def measured(mbit, delay_us, net):
    """The predicted time of a step in that of the run, and the prediction."""
    train = ["--data", "set", *net, "--batch", BATCH, "--augment", "none", "--threads", 1]
    with slow_network.Network(RANKS, mbit) as network:
        network.job(delay_us, "measure-net", "-o", "net.json")
        network.job(delay_us, *train, "--epochs", 2, "--out", "none", "--quiet", "--log-json", "log")
    with open("log", encoding="utf-8") as file:
        rate = [event["samples_per_second"] for event in map(json.loads, file) if event["event"] == "epoch"][-1]
    os.remove("log")
    done = subprocess.run([os.path.join(tap.BUILD, "fftrain"), *map(str, train), "--dry-run", "--json", "--world", str(RANKS), "--net",
                           "net.json"], check=True, capture_output=True)
    world = json.loads(done.stdout)["world"]
    return world["step_seconds"] / (BATCH / rate), world


def compare(name, *case):
    for _ in range(3):
        ratio, world = measured(*case)
        good = 0.8 < ratio < 1.25 and world["reduce_seconds"] > 2 * world["compute_seconds"]
        if good:
            break
    tap.ok(good, "%s: steps take as long as predicted" % name, (ratio, world))


os.chdir(tempfile.mkdtemp())
if tap.SANITIZE or slow_network.missing():
    tap.skip("slow networks", "times of a sanitized build" if tap.SANITIZE else slow_network.missing())
else:
    subprocess.run([tap.program("make_set"), "set", "--count", str(BATCH * STEPS), "--height", "32", "--width", "32", "--statistics"],
                   check=True, capture_output=True)
    tap.program("fftrain_delay")
    for case in NETWORKS:
        compare(*case)
shutil.rmtree(os.getcwd())
tap.finish()
