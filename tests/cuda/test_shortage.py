#!/usr/bin/env python3
"""Over the strict stand-in for CUDA's runtime, each allocation of a training and of a loader fails in turn, and a GPU is gone from some call on.
The program ends by itself, with the documented code and one sentence that has what to do, and has released everything. After a GPU's loss the
checkpoint before stays, and the run resumes from it to the bits of a run that lost nothing. TAP."""
# Needs: strict-programs tests/make_set
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap

STRICT = os.path.join(tap.BUILD, "strict")
PATIENCE = 120  # seconds; a run takes two
NO_MEMORY = {"fftrain": 1, "libffload": 5}
DEVICE_ADVICE = "are free; smaller batches and placement stream need less; nvidia-smi shows what else uses the GPU"
PINNED_ADVICE = "of pinned memory, which is the host's; free some of it, raise the container's limit, or use smaller batches"
LOST_ADVICE = "; the GPU may be gone: the driver's reason is in the kernel's log (sudo dmesg | grep Xid)"

LIBRARY = "the stream did not take the plain library's work"  # in cuDNN's place


def run(words, **variables):
    """(exit code or "hangs", lines on stderr, what the stand-in counted and, as "said", what the run said on stdout)."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, text=True,
                              errors="replace", env=dict(os.environ, FF_STRICT_COUNTS="1", **variables))
    except subprocess.TimeoutExpired:
        return "hangs", [], {}
    counts, lines = {}, []
    for line in done.stderr.splitlines():
        if line.startswith("strict: kernels"):
            counts = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", line)}
        elif "::" not in line:  # Python's own, of launched ranks
            lines.append(line)
    counts["said"] = done.stdout.partition(";")[0]  # without the times
    return done.returncode, lines, counts


def without_memory(name, words):
    """Each allocation of the program fails in turn."""
    speaker = "fftrain" if words[0].endswith("fftrain") else "libffload"
    code, lines, whole = run(words)
    wrong = [] if code == 0 and not lines and not whole["held"] else [f"nothing fails: {code}, {lines}, {whole}"]
    for number in range(1, whole["allocations"] + 1):
        code, lines, counts = run(words, FF_STRICT_NO_MEMORY=str(number))
        good = code == NO_MEMORY[speaker] and len(lines) == 1 and lines[0].startswith(speaker + ": ") and \
            lines[0].endswith((DEVICE_ADVICE, PINNED_ADVICE)) and counts.get("held") == 0
        if not good:
            wrong.append(f"allocation {number}: exit {code}, {lines[:4]}, {counts.get('held')} are held")
    tap.ok(not wrong, f"{name}: each of {whole['allocations']} allocations fails", wrong)


def gone(name, words, times, first=1):
    """The GPU is gone at some calls from `first` on. In the last ones, which release, nothing is left to do: the run says what it would have
    said. How many calls it takes depends on how often it asks whether something is done."""
    _, _, whole = run(words)
    wrong = []
    for at in range(times):
        number = first + (whole["calls"] - first) * at // times
        code, lines, counts = run(words, FF_STRICT_GONE=str(number))
        ends = code == 0 and not lines and counts["said"] == whole["said"] and number > 0.85 * counts["calls"]
        if not ends and (code != 1 or len(lines) != 1 or not lines[0].endswith((LOST_ADVICE, LIBRARY))):
            wrong.append(f"call {number} of {whole['calls']}: exit {code}, {lines[:4]}")
    tap.ok(not wrong, f"{name}: the GPU is gone at {times} calls", wrong)


def weights_of(checkpoint):
    with open(os.path.join(checkpoint, "model.safetensors"), "rb") as file:
        return file.read()


def newest(out):
    folder = os.path.join(out, "checkpoints")
    steps = sorted((name for name in os.listdir(folder) if name.startswith("step-")), key=lambda name: int(name[5:]))
    return os.path.join(folder, steps[-1]) if steps else ""


def keeps_checkpoint(words):
    """A run that saves each step loses its GPU after half of its calls, and resumes on another one."""
    saving = words + ["--checkpoint-every", "1 steps", "--keep", "20"]
    code, lines, whole = run(saving + ["--out", "whole"])
    wrong = [f"nothing is lost: {code}, {lines}"] if code else []
    for percent in (70, 80, 90):
        out = f"lost.{percent}"
        code, lines, _ = run(saving + ["--out", out], FF_STRICT_GONE=str(whole["calls"] * percent // 100))
        left = newest(out)
        if code != 1 or not left or left == newest("whole").replace("whole", out):
            wrong.append(f"{percent} %: exit {code}, {lines}, the last checkpoint is {left}")
            continue
        code, lines, _ = run([words[0], "--resume", out, "--quiet"])
        if code or weights_of(newest(out)) != weights_of(newest("whole")):
            wrong.append(f"{percent} %: it resumes from {left}: exit {code}, {lines}, {newest(out)}")
    tap.ok(not wrong, "the checkpoint before the loss stays, and the run resumes to the same bits", wrong)


def ends_both(words, rank, advice, **variables):
    """Whether each of two ranks says in one sentence what happens on one, and the launcher which one ended first; and the exit code and the lines."""
    code, lines, _ = run(words, FF_STRICT_RANK=str(rank), **variables)
    lines = [line for line in lines if "strict: kernels" not in line]
    good = code == 1 and len(lines) == 3 and sum(line.endswith(advice) for line in lines) == 2 and \
        sum(line.startswith("rank 1: ") for line in lines) == 1 and re.fullmatch("fftrain: rank [01] ended with exit code 1", lines[-1])
    return good, code, lines


def gone_on_one(words):
    """The GPU of one of two ranks is gone: each rank says so in one sentence, and the launcher who ended; the run resumes on other GPUs."""
    saving = words + ["--checkpoint-every", "1 steps", "--keep", "20"]
    done = subprocess.run(saving + ["--out", "two"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=dict(os.environ, FF_STRICT_COUNTS="1"))
    calls = [max(map(int, re.findall(speaker + r"strict: .* calls (\d+)", done.stderr, re.M))) for speaker in ("^", "^rank 1: ")]
    wrong, resumed = [f"nothing is lost: {done.returncode}, {done.stderr}"] if done.returncode else [], [0, 0]
    for rank in range(2):
        for percent in ((10, 30, 50, 70), (10, 40, 70, 84))[rank]:
            out = f"two.{rank}.{percent}"
            good, code, lines = ends_both(saving + ["--out", out], rank, LOST_ADVICE, FF_STRICT_GONE=str(calls[rank] * percent // 100))
            if good and os.path.isdir(out + "/checkpoints") and newest(out):
                resumed[rank] += 1
                code, lines, _ = run([words[0], "--resume", out, "--quiet", "--ranks", "2"])
                good = code == 0 and weights_of(newest(out)) == weights_of(newest("two"))
            if not good:
                wrong.append(f"rank {rank}, {percent} %: exit {code}, {lines}")
    tap.ok(not wrong and min(resumed) > 0, "the GPU of one of two ranks is gone", [*wrong, resumed])


def no_memory_on_one(words):
    """The memory of one of two GPUs is used up once NCCL has connected the ranks."""
    wrong = []
    for rank in range(2):
        good, code, lines = ends_both(words + ["--out", "none"], rank, (DEVICE_ADVICE, PINNED_ADVICE), FF_STRICT_NO_MEMORY="25")
        if not good:
            wrong.append(f"rank {rank}: exit {code}, {lines}")
    tap.ok(not wrong, "the memory of one of two GPUs is used up", wrong)


def main():
    if not os.access(os.path.join(STRICT, "fftrain"), os.X_OK):
        tap.skip("no memory, and no GPU", "no CUDA module: built without a CUDA toolkit, or with a sanitizer")
        tap.finish()
    os.environ.pop("CMOCKA_MESSAGE_OUTPUT", None)
    subprocess.run([tap.program("make_set"), "set", "--count", "90", "--height", "8", "--width", "8", "--splits", "train,test", "--statistics"],
                   stdout=subprocess.DEVNULL, check=True)
    train = [os.path.join(STRICT, "fftrain"), "--threads", "1", "--augment", "flip", "--lr", "0.004", "--seed", "3", "--quiet", "--data", "set",
             "--model", "smallnet", "--batch", "14", "--epochs", "1", "--device", "cuda"]
    resident = train + ["--precision", "f16", "--placement", "resident"]
    streamed = train + ["--precision", "f32", "--placement", "stream", "--ema", ".9", "--groups", "conv[23].weight:optimizer=muon"]
    loader = [os.path.join(STRICT, "library_short"), "batch_size 16 epochs 1 placement resident"]
    if tap.SHORT:
        without_memory("libffload, resident", loader)
        without_memory("libffload, streamed", loader[:1] + ["batch_size 16 epochs 1 placement stream augment flip"])
        gone("libffload", loader, 12, first=24)  # the calls before are the program's own
    if tap.LONG:
        without_memory("resident, f16", resident + ["--out", "none"])
        without_memory("streamed, averages, Muon", streamed + ["--out", "none"])
        gone("a training", resident + ["--out", "none"], 24)
        gone("a training, streamed", streamed + ["--out", "none"], 12)
        keeps_checkpoint(resident)
        # The ranks end at once: what waits until a rank is taken for lost waits longer than this test.
        two = train[:train.index("--device")] + ["--precision", "f16", "--ranks", "2", "--rank-timeout", str(3 * PATIENCE)]
        gone_on_one(two)
        no_memory_on_one(two)
    tap.finish()


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    main()
