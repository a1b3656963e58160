#!/usr/bin/python3
"""One model on several ranks: micro-batches, mixed pairs and what else a batch's split must not change, beside test_fftrain_sameness.py;
how all of them stop, continue and refuse. Prints TAP."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from runs import ENVIRONMENT, FFTRAIN, apart, epochs, fftrain, make, same, starts  # noqa: E402

PLACE = tempfile.mkdtemp()
os.chdir(PLACE)


BATCH, STEPS, EPOCHS = 24, 20, 16
os.mkdir("one")
os.mkdir("many")
make("one/train", "--count", BATCH, "--height", 16, "--width", 16, "--statistics")
make("one/test", "--count", 50, "--height", 16, "--width", 16, "--statistics")
make("larger", "--count", BATCH, "--height", 32, "--width", 32, "--statistics")
make("many/train", "--count", BATCH * STEPS - 10, "--height", 32, "--width", 32, "--statistics")
TRAINED = ["--batch", BATCH, "--epochs", 1, "--threads", 1, "--seed", 3, "--dropout", 0.3, "--lr", 0.002, "--augment", "crop=4,flip",
           "--schedule", "constant", "--warmup", 0]
RUN = ["--model", "smallnet", "--freeze", "norm", *TRAINED]  # without a batch's statistics
FAST = ["--data", "one", *RUN, "--lr", 0.1]  # moves the parameters by 6e-3
VGG = ["--data", "larger", "--model", "vgg11", *TRAINED, "--lr", 0.1]

# ---- micro-batches, mixed pairs, clipping and state

for name, run, how in [("accumulate", FAST, ["--accumulate", 2]), ("accumulate, vgg11", VGG, ["--accumulate", 2]),
                       ("mixup", FAST, ["--augment", "crop=4,flip,mixup"]), ("clip", FAST, ["--clip-norm", 0.1]),
                       ("adamw", FAST, ["--optimizer", "adamw", "--lr", 1e-5, "--ema", 0.9]), ("labels", FAST, ["--label-smoothing", 0.1])]:
    alone = fftrain(*run, *how, "--out", name + "-alone")
    done = fftrain(*run, *how, "--dp", "cpu,cpu,cpu", "--dp-balance", "2,3,3", "--out", name)
    found = apart(name + "-alone", name) if done.returncode == alone.returncode == 0 else 1
    tap.ok(found <= 1e-6, "%s on three replicas: the same parameters within 1e-6" % name, (found, done.stderr))
done = fftrain(*FAST, "--batch", 16, "--accumulate", 2, "--dp", "cpu,cpu,cpu", "--dp-balance", "2,3,3", "--out", "users")
alone = fftrain(*FAST, "--batch", 16, "--accumulate", 2, "--out", "users-alone")
tap.ok(done.returncode == 0 and apart("users-alone", "users") <= 1e-6, "--batch 16 --accumulate 2 --dp-balance 2,3,3", done.stderr)

done = fftrain("--data", "one", *RUN, "--lr", 0.001, "--scale-lr", "--dp", "cpu,cpu", "--out", "scaled")
again = fftrain("--data", "one", *RUN, "--dp", "cpu,cpu", "--out", "dp-2")
tap.ok(done.returncode == again.returncode == 0 and same("scaled", "dp-2"), "--scale-lr multiplies --lr by the ranks", done.stderr)

done = fftrain("--data", "one", *RUN, "--dp", "cpu", "--out", "dp-1")
tap.ok(done.returncode == 0 and len(starts("dp-1")[0].get("ranks", [])) == 1, "--dp with one device is a job of one rank", done.stderr)

done = fftrain("--data", "one", *RUN, "--dp", "cpu,cpu", "--out", "no-network", LD_PRELOAD=tap.program("no_network.so"))
tap.ok(done.returncode == 0 and same("no-network", "dp-2"), "--dp needs no network", done.stderr)

# ---- gradients sent in 16 bits: each rank's sums are rounded, and their sum is, by at most the half of a last place, u; so, in norm, the
# update is off by u * (|a| + |b| + |a + b|) of the ranks' gradients a and b, which is below 4 u |a + b| where they are not opposed

runs = [fftrain(*FAST, "--dp", "cpu,cpu", "--lr", 0, "--out", "untrained"), fftrain(*FAST, "--dp", "cpu,cpu", "--out", "f32")]
update = apart("untrained", "f32") if not any(done.returncode for done in runs) else 0
for name, u in ("f16", 2 ** -11), ("bf16", 2 ** -8):
    done = fftrain(*FAST, "--dp", "cpu,cpu", "--reduce-dtype", name, "--out", name)
    found = apart("f32", name) if done.returncode == 0 else 1
    tap.ok(u / 16 * update < found < 4 * u * update, "gradients sent in %s: rounded, and no further off than that" % name,
           (found, update, done.stderr))
done = fftrain("--data", "many/train", *RUN, "--ranks", 2, "--lr", 1e6, "--reduce-dtype", "f16", "--out", "none")
tap.ok(done.returncode == 1 and done.stderr.count("NaN") + done.stderr.count("infinite") >= 1 and "was lost" not in done.stderr,
       "what is not finite is found by all ranks", (done.returncode, done.stderr))

# ---- a run stops on all ranks, and continues with others

if not tap.SANITIZE:
    LONG = ["--data", "many/train", *RUN, "--epochs", EPOCHS, "--lr", 0.0005, "--last-batch", "keep", "--hash-every", 1]
    fftrain(*LONG, "--dp", "cpu,cpu", "--out", "whole")
    stopped = subprocess.Popen([FFTRAIN, *map(str, LONG), "--ranks", "2", "--out", "stopped"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, **ENVIRONMENT})
    while stopped.poll() is None and not (os.path.exists("stopped/hashes.jsonl") and open("stopped/hashes.jsonl").read().count("loss") > STEPS):
        time.sleep(0.01)
    stopped.send_signal(signal.SIGTERM)
    told = stopped.communicate(timeout=60)[1]
    tap.ok(stopped.returncode == 75 and "--resume continues from" in told, "SIGTERM: all ranks stop after the same step, with a checkpoint", told)
    shutil.copytree("stopped", "three", symlinks=True)
    done = fftrain("--resume", "stopped", "--dp", "cpu,cpu")
    tap.ok(done.returncode == 0 and same("whole", "stopped") and len(epochs("stopped")) == EPOCHS,
           "two ranks' checkpoint continues with two replicas, to the bits of a run that was not stopped", done.stderr)
    done = fftrain("--resume", "three", "--dp", "cpu,cpu,cpu")
    found = apart("whole", "three") if done.returncode == 0 else 1
    tap.ok(found < 1e-3 and len(epochs("three")) == EPOCHS, "and with three, to the same parameters within 1e-3", (found, done.stderr))

# ---- what is refused

for name, how, says, code in [
        ("more ranks than samples", ["--batch", 2, "--dp", "cpu,cpu,cpu"], "3 ranks share batches of 2 samples, and rank 0 gets no samples", 2),
        ("too few parts", ["--dp", "cpu,cpu", "--dp-balance", "1"], "--dp-balance 1: 2 replicas need one number each", 2),
        ("too many parts", ["--dp", "cpu,cpu", "--dp-balance", "1,2,3"], "--dp-balance 1,2,3: 2 replicas need one number each", 2),
        ("a part of nothing", ["--dp", "cpu,cpu", "--dp-balance", "0,3"], "--dp-balance 0,3: 2 replicas need one number each", 2),
        ("parts of another word", ["--dp", "cpu,cpu", "--dp-balance", "automatic"], "--dp-balance automatic: 2 replicas need one number each", 2),
        ("parts without devices", ["--dp-balance", "1,2"], "--dp-balance needs --dp", 2),
        ("a GPU twice", ["--dp", "0,1,0"], "--dp: device 0 is named twice; 2x0 puts two replicas on it", 2),
        ("no replica", ["--dp", "0xcpu"], "--dp: 0 replicas on a device; 1 to 64 are possible", 2),
        ("an unknown device", ["--dp", "0,gpu1"], "--dp: 'gpu1' is not a device", 2),
        ("a GPU and the CPU", ["--dp", "cpu,0"], "--dp: replicas are on GPUs or on the CPU", 2),
        ("--scale-lr without --lr", ["--dp", "cpu,cpu", "--scale-lr"], "--scale-lr multiplies --lr, which is missing", 2),
        ("what looks at a net", ["--dp", "cpu,cpu", "--overfit", 1], "several ranks only train", 2),
        ("--dp and --device", ["--dp", "cpu,cpu", "--device", "cpu"], "--dp and --device exclude each other", 2)]:
    done = fftrain("--data", "one", *(word for word in RUN if word not in ("--lr", 0.002)), *how, "--out", "none")
    tap.ok(done.returncode == code and says in done.stderr, name, (done.returncode, done.stderr))
done = fftrain("--data", "nowhere", *RUN, "--dp", "cpu,cpu", "--out", "none")
tap.ok(done.returncode == 74 and "fftrain: nowhere: no such folder" in done.stderr and "every rank opens it" not in done.stderr,
       "a missing set on one machine: no advice for several", done.stderr)
done = fftrain("--data", "one", *RUN, "--dp", "cpu,cpu", "-n")
tap.ok(done.returncode == 0 and "activations" in done.stdout, "a dry run of replicas shows the first one's plan", done.stderr)

shutil.rmtree(PLACE)
tap.finish()
