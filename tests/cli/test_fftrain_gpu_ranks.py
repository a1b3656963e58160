#!/usr/bin/python3
"""One model on several simulated GPUs (fftrain_sim with a stand-in for NCCL): micro-batches and narrow gradients, beside
test_fftrain_sameness.py; the cards of ranks, their memory and their shares by speed. Streams and collectives wait at random. Prints TAP."""
import concurrent.futures
import os
import re
import shutil
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import apart, starts  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)
runs.ENVIRONMENT.update(LD_LIBRARY_PATH=os.path.join(tap.BUILD, "tests"), FF_SIM_CARDS="4", FF_SIM_DELAY_NS="300000", FF_NCCL_SIM_DELAY_NS="300000")


def make(name, count):
    runs.make(name, "--count", count, "--height", 32, "--width", 32, "--statistics")


def fftrain(*arguments, **environment):
    return runs.fftrain(*arguments, program=runs.SIMULATED, **environment)


BATCH = 8
os.mkdir("one")
make("one/train", BATCH)
RUN = ["--model", "vgg11", "--stem", "cifar", "--epochs", 1, "--threads", 1, "--seed", 3, "--dropout", 0.3, "--lr", 0.1, "--augment",
       "crop=4,flip", "--schedule", "constant", "--warmup", 0, "--precision", "f32", "--tune", 0, "--no-warm-up"]
FAST = ["--data", "one", *RUN, "--batch", BATCH]
ALONE = ["--device", "cuda:0"]
TWO_ON_ONE = ["--ranks", 2, "--device", "cuda:0"]
UNEVEN = ["--dp", "0,1,2", "--dp-balance", "2,3,3"]
PARTS = ["--accumulate", 2]

# ---- all runs first, two at a time

RUNS = {"parts": [*FAST, *PARTS, *ALONE], "bf16": [*FAST, "--dp", "0,1", "--reduce-dtype", "bf16"],
        "f16": [*FAST, "--ranks", 2, "--reduce-dtype", "f16"], "f32": [*FAST, *ALONE], "untrained": [*FAST, *ALONE, "--lr", 0],
        "parts-233": [*FAST, *PARTS, *UNEVEN], "parts-shared": [*FAST, *PARTS, *TWO_ON_ONE]}
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    done = dict(zip(RUNS, pool.map(lambda name: fftrain(*RUNS[name], "--out", name), RUNS)))

# ---- micro-batches, and gradients sent in 16 bits

tap.ok(done["parts"].returncode == 0, "micro-batches on one GPU", done["parts"].stderr)
for name in "parts-233", "parts-shared":
    found = apart("parts", name) if done[name].returncode == 0 else 1
    tap.ok(found <= 1e-6, "%s: micro-batches: the same parameters within 1e-6" % name, (found, done[name].stderr))

for name, u in ("f16", 2 ** -11), ("bf16", 2 ** -8):  # the bound: test_fftrain_ranks.py
    found, update = (apart("f32", name), apart("f32", "untrained")) if done[name].returncode == 0 else (1, 0)
    tap.ok(u / 16 * update < found < 4 * u * update, "gradients sent in %s: rounded, and no further off than that" % name,
           (found, update, done[name].stderr))

# ---- which card each rank has

os.mkdir("nvml")
shutil.copy(tap.program("fake_nvml.so"), "nvml/libnvidia-ml.so.1")
small = fftrain("--data", "one", "--model", "smallnet", "--batch", BATCH, "--tune", 0, "--dp", "0,1", "--dp-balance", "1,3", "--epochs", 1, "--out",
                "cards", CUDA_VISIBLE_DEVICES="2,0", LD_LIBRARY_PATH="nvml:" + runs.ENVIRONMENT["LD_LIBRARY_PATH"])
ranks = starts("cards")[0]["ranks"] if small.returncode == 0 else []
tap.ok([(one["host"], one["samples"]) for one in ranks] == [(socket.gethostname(), 2), (socket.gethostname(), 6)], "each rank's host and samples are in the log",
       (ranks, small.stderr))
tap.ok([one["device"].split(", ")[::2] for one in ranks] == [["cuda:0", "PCI 0000:3d:00.0"], ["cuda:1", "card 5 at PCI 0000:3b:00.0"]],
       "and its card: CUDA_VISIBLE_DEVICES gives cards other numbers, NVML has the machine's", ranks)
tap.ok("ranks          0 on host " in small.stdout and all(one["device"] in small.stdout for one in ranks), "they are printed, too", small.stdout)

# ---- memory: all ranks' needs are counted before any is taken


def memory(cards, *arguments):
    """A run on cards with so many KiB each; returns it, and the most that each rank took of its card."""
    done = fftrain("--data", "wide", "--model", "smallnet", "--epochs", 1, "--warmup", 0, "--augment", "none", "--placement", "stream", "--tune", 0,
                   "--no-warm-up", "--batch", 20, "--quiet", "--out", "none", *arguments, FF_SIM_MEMORY=",".join(map(str, cards)))
    took = re.findall(r"^(?:rank (\d+): )?memory: taken \d+ times, at most (\d+) KiB", done.stderr, re.M)
    return done, [int(most) for _, most in sorted((int(rank or 0), most) for rank, most in took)]


def of_rank_0(done):
    """The lines of rank 0 and of the launcher."""
    return [line for line in done.stderr.splitlines() if not re.match(r"rank \d+: ", line)]


os.mkdir("wide")
make("wide/train", 40)
THREE = ["--dp", "0,1", "--dp-balance", "1,3"]
most = memory([1000000], *THREE)[1]
done, took = memory(most, *THREE)
tap.ok(done.returncode == 0 and most[0] < most[1], "shares of memory: what is counted suffices", (most, done.stderr))
done, took = memory([1000000, most[1] - 1], *THREE)
told = re.fullmatch(r"fftrain: rank 1 needs about .* of the device's memory with 3/4 of batches of 20, and cuda:1 on host .* has .* free; "
                    r"--dp-balance (\d+,\d+) would fit; so would --batch \d+, or --accumulate \d+", of_rank_0(done)[0])
tap.ok(done.returncode == 1 and told and took == [0, 0], "a share that does not fit is refused before any memory is taken", (took, done.stderr))
done, took = memory([1000000, most[1] - 1], "--dp", "0,1", "--dp-balance", told.group(1) if told else "1,3")
tap.ok(done.returncode == 0 and told and sum(map(int, told.group(1).split(","))) == 20, "and the shares that would fit do: %s" % (told and told.group(1)),
       done.stderr)
done, took = memory([most[1], 1000000], "--ranks", 2, "--device", "auto")
tap.ok(done.returncode == 0, "processes: equal shares of it fit", done.stderr)
done, took = memory([1000000, most[0]], "--ranks", 2)
tap.ok(done.returncode == 1 and "; --dp-balance auto would fit" in done.stderr, "where they do not, auto would", done.stderr)
each = memory([1000000], "--dp", "2x0")[1]
both = sum(each)
done, took = memory([both - 1], "--dp", "2x0")
tap.ok(done.returncode == 1 and took == [0, 0] and "rank 0 and the ranks next to it need about" in done.stderr,
       "replicas that share a GPU: the memory of both is counted", (both, took, done.stderr))
done, took = memory([both], "--dp", "2x0")
tap.ok(done.returncode == 0 and took == each, "to the last KiB", (each, took, done.stderr))

# ---- --dp-balance auto

SMALLNET = ["--data", "wide", "--model", "smallnet", "--warmup", 0, "--augment", "none", "--placement", "stream", "--tune", 0, "--no-warm-up",
            "--batch", 20, "--epochs", 1, "--no-graph"]
SLOW = {"FF_SIM_DELAY_NS": "0,100000000,0"}


def shares(run):
    return [one["samples"] for one in starts(run)[-1]["ranks"]]


for name, how, slow in ("auto-3", ["--dp", "0,1,2"], 1), ("auto-2", ["--ranks", 2], 1), ("auto-on-1", ["--ranks", 2, "--device", "cuda:0"], None):
    done = fftrain(*SMALLNET, *how, "--dp-balance", "auto", "--out", name, **SLOW)
    found = shares(name) if done.returncode == 0 else [0]
    with open(name + "/recipe.txt" if done.returncode == 0 else os.devnull, encoding="utf-8") as file:
        recipe = file.read()
    told = ",".join(map(str, found))
    tap.ok(sum(found) == 20 and (slow is None or found[slow] == min(found) < max(found) - 1), "%s: the slow card has fewer samples: %s" % (name, told),
           (found, done.stderr))
    tap.ok("dp-balance = auto=%s\n" % told in recipe and "balance        %s of 20 samples: " % told in done.stdout, "%s: that is told and kept" % name,
           (recipe, done.stdout))
for more in ["--epochs", 2, "--dp-balance", "auto"], ["--epochs", 3]:
    before = shares("auto-3")
    done = fftrain("--resume", "auto-3", "--dp", "2,1,0", *more)
    tap.ok(done.returncode == 0 and shares("auto-3") == before and "balance  " not in done.stdout, "a run that continues keeps its shares: %s" % more, done.stderr)
done = fftrain("--resume", "auto-3", "--epochs", 4, "--dp", "0,1", **SLOW)
tap.ok(done.returncode == 0 and len(shares("auto-3")) == 2 and "balance  " in done.stdout, "with other ranks they are measured again", done.stderr)
done = fftrain("--resume", "auto-3", "--epochs", 5, "--device", "cuda:0")
tap.ok(done.returncode == 0 and "ranks" not in starts("auto-3")[-1], "and alone there are none", done.stderr)
done = fftrain(*SMALLNET, "--dp", "0,1", "--dp-balance", "auto", "--out", "auto-small", FF_SIM_MEMORY="%d,1000000" % (most[0] - 1), **SLOW)
tap.ok(done.returncode == 0 and shares("auto-small")[0] < 5, "a fast card gets no more than fits: %s" % (done.returncode or shares("auto-small")),
       done.stderr)
done = fftrain(*SMALLNET, "--dp", "0,1", "--dp-balance", "auto", "--out", "none", FF_SIM_MEMORY="1500,1500")
tap.ok(done.returncode == 1 and len(of_rank_0(done)) == 3 and " needs about " in of_rank_0(done)[0], "where nothing fits, that is said", done.stderr)

shutil.rmtree(PLACE)
tap.finish()
