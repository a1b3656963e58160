"""Two ranks on two cores compared with one process with two threads, and with torch.nn.parallel.DistributedDataParallel on gloo:
training steps of a ResNet-18 (cifar stem, 32x32, batch 64 over all), samples a second, medians of rounds that alternate; how much
of the reduction is hidden behind the backward pass; seconds until 8 ranks begin; how much host memory 8 ranks need for data. Prints
Markdown. Environment: BUILD, ROUNDS (3)."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
ROUNDS = int(os.environ.get("ROUNDS", 3))
BATCH, COUNT = 64, 1280
PLACE = tempfile.mkdtemp(prefix="ffbench")
os.chdir(PLACE)
subprocess.run([BUILD + "/tests/make_set", "set", "--count", str(COUNT), "--height", "32", "--width", "32", "--statistics"], check=True,
               stdout=subprocess.DEVNULL)

DDP = """
import os, sys, time
import torch, torchvision
from torch import nn
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
net = torchvision.models.resnet18(num_classes=6)
net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
net = nn.parallel.DistributedDataParallel(net.to(memory_format=torch.channels_last))
optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, nesterov=True)
images, labels = torch.randn(32, 3, 32, 32).contiguous(memory_format=torch.channels_last), torch.randint(0, 6, (32,))
def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(images), labels).backward()
    optimizer.step()
for _ in range(3):
    step()
began = time.perf_counter()
for _ in range(15):
    step()
if torch.distributed.get_rank() == 0:
    print(15 * 64 / (time.perf_counter() - began))
"""


def ours(*how):
    """The rate of the second epoch, and the end event."""
    log = os.path.join(PLACE, "log")
    if os.path.exists(log):
        os.remove(log)
    subprocess.run([BUILD + "/fftrain", "--data", "set", "--model", "resnet18", "--stem", "cifar", "--batch", str(BATCH), "--epochs", "2",
                    "--augment", "none", "--out", "none", "--quiet", "--log-json", log, *how], check=True, stdout=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return [event["samples_per_second"] for event in events if event["event"] == "epoch"][-1], events[-1]


def ddp():
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT="29717", WORLD_SIZE="2")
    ranks = [subprocess.Popen([sys.executable, "-c", DDP], env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL) for rank in range(2)]
    told = [rank.communicate()[0] for rank in ranks]
    return float(told[0]) if told[0] else None


def memory(ranks, count):
    """The peak of host memory that a job's processes use together, shared pages counted once; and the data's bytes."""
    if not os.path.exists("data%d" % count):
        subprocess.run([BUILD + "/tests/make_set", "data%d" % count, "--count", str(count), "--height", "64", "--width", "64", "--statistics"],
                       check=True, stdout=subprocess.DEVNULL)
    job = subprocess.Popen([BUILD + "/fftrain", "--data", "data%d" % count, "--model", "smallnet", "--batch", "64", "--epochs", "1",
                            "--augment", "none", "--out", "none", "--quiet", "--ranks", str(ranks), "--threads", "1"],
                           stdout=subprocess.DEVNULL)
    most = 0
    while job.poll() is None:
        children = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=False).stdout.split()
        used = 0
        for process in [str(job.pid), *children]:
            try:
                with open("/proc/%s/smaps_rollup" % process, encoding="ascii") as file:
                    used += next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
            except (OSError, StopIteration):
                pass
        most = max(most, used)
        time.sleep(0.2)
    if job.returncode:
        sys.exit("fftrain failed")
    return most, sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk("data%d" % count) for name in names)


def main():
    cases = {"one process, 2 threads": ["--threads", "2"], "--dp cpu,cpu": ["--dp", "cpu,cpu", "--threads", "1"],
             "--ranks 2": ["--ranks", "2", "--threads", "1"]}
    rates, hidden = {name: [] for name in [*cases, "DDP on gloo"]}, []
    for _ in range(ROUNDS):
        for name, how in cases.items():
            rate, end = ours(*how)
            rates[name].append(rate)
            if "reduce_seconds" in end:
                hidden.append(1 - end["reduce_wait_seconds"] / end["reduce_seconds"])
        rate = ddp()
        if rate:
            rates["DDP on gloo"].append(rate)
    one = statistics.median(rates["one process, 2 threads"])
    print("| ResNet-18, batch 64, 2 cores | samples/s | of one process |\n|---|---|---|")
    for name, found in rates.items():
        print("| %s | %s |" % (name, "%.1f | %.2f" % (statistics.median(found), statistics.median(found) / one) if found else "skipped | "))
    print("\nHidden behind the backward pass: %.0f %% of the time of reductions (median)." % (100 * statistics.median(hidden)))
    began = time.perf_counter()
    subprocess.run([BUILD + "/fftrain", "--data", "set", "--model", "smallnet", "--batch", "64", "--epochs", "1", "--augment", "none",
                    "--out", "none", "--quiet", "--ranks", "8", "--threads", "1"], check=True, stdout=subprocess.DEVNULL)
    print("8 ranks of a smallnet begin, train an epoch of %d samples and end in %.1f s." % (COUNT, time.perf_counter() - began))
    (one, small), (eight, _) = memory(1, 640), memory(8, 640)
    (one_more, data), (eight_more, _) = memory(1, 20000), memory(8, 20000)
    print("From 1 to 8 ranks the host's memory grows by %.1f %% of the data (%.0f MiB more data), without what nets need." % (
        100 * ((eight_more - one_more) - (eight - one)) / (data - small), (data - small) / 2**20))
    shutil.rmtree(PLACE)


main()
