#!/usr/bin/python3
"""What finds out what is wrong with a run: a loss that is not a number, fftrain diff, fftrain replay; with the
faults planted. Prints TAP."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import FFTRAIN, SIMULATED, fftrain, stored  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("what is wrong with a run", missing)
    tap.finish()

rng = random.Random(int(os.environ.get("FF_SEED", "7")))
place = tempfile.mkdtemp()
os.chdir(place)
FFPACK = os.path.join(tap.BUILD, "ffpack")
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "2"
environment = dict(os.environ, **runs.ENVIRONMENT)
COUNT, BATCH, BAD = 120, 20, 37


def make(name, change=None):
    """A set of smooth images in f32, one of them changed."""
    random_images = numpy.random.RandomState(3)
    labels = random_images.randint(0, 4, COUNT).astype(numpy.int64)
    images = random_images.normal(size=(COUNT, 3, 12, 12)).astype(numpy.float32) * 0.3
    images += labels[:, None, None, None] * 0.4
    if change is not None:
        images[BAD, 1, 5, 5:7] = change
    numpy.savez(name + ".npz", images=images, labels=labels)
    done = subprocess.run([FFPACK, name + ".npz", "-o", name, "--dtype", "f32", "--array-layout", "chw"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def order(seed=0):
    """The numbers of the samples of the first epoch."""
    done = subprocess.run([tap.program("dump_order"), str(COUNT), str(COUNT), str(seed)], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def tensors(path):
    """{name: bytes} of f32 tensors."""
    return {name: data for name, (dtype, _, data) in stored(path)[0].items() if dtype == "F32"}


def all_finite(run):
    """Whether there are checkpoints, and none has a value that is not finite."""
    folders = [name for name in os.listdir(run + "/checkpoints") if name.startswith("step-")]
    return folders and all(numpy.isfinite(numpy.frombuffer(values, numpy.float32)).all()
                           for name in folders for values in tensors("%s/checkpoints/%s/model.safetensors" % (run, name)).values())


def rows(text):
    """The tables of a replay: {name: (shape, values)}, in their order."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"(\S.*?)  +(\d+(?: x \d+)*) +(\S+) +(\S+) +(\S+) +(\S+)   +(\S+) +(\S+) +(\S+) +(\S+)$", line)
        if match:
            found[match[1]] = (match[2], [None if one == "-" else float(one) for one in match.groups()[2:]])
    return found


def hash_lines(run):
    return [json.loads(line) for line in open(run + "/hashes.jsonl")][1:]


make("set")
make("not-a-number", numpy.nan)
make("huge", 1e35)
make("other", 0.5)
COMMON = ["--model", "smallnet", "--batch", BATCH, "--epochs", 4, "--augment", "crop=2,flip", "--threads", 2, "--quiet"]
SET = ["--data", "set", *COMMON]
step_of_bad = order().index(BAD) // BATCH + 1

# ---- a loss that is not a number

done = fftrain("--data", "not-a-number", *COMMON, "--out", "nan", "--checkpoint-every", "1 step")
assert step_of_bad > 1
tap.ok(done.returncode == 1 and re.search(r"loss became NaN at step %d \(epoch 1, .*not-a-number holds NaN or infinite values: sample %d \(\S+\) " % (
    step_of_bad, BAD), done.stderr), "a sample that holds NaN is named by its number", done.stderr)
tap.ok("--resume nan/checkpoints/step-%d continues" % (step_of_bad - 1) in done.stderr and all_finite("nan") and
       "fftrain replay nan --step %d shows" % step_of_bad in done.stderr, "and the last good checkpoint", done.stderr)
for how in ["--dp", "cpu,cpu"], ["--ranks", 2], ["--dp", "cpu,cpu,cpu", "--dp-balance", "2,5,3", "--accumulate", 2]:
    row, part = order().index(BAD) % BATCH, BATCH // (2 if "--accumulate" in how else 1)
    rank = [row % part >= end for end in ([2, 7, 10] if "2,5,3" in how else [10, 20])].index(False)
    done = fftrain("--data", "not-a-number", *COMMON, *how, "--out", "nan-" + how[0].strip("-") + str(len(how)), "--checkpoint-every",
                   "1 step")
    tap.ok(done.returncode == 1 and re.search(r"^fftrain: the training loss became NaN at step %d .*: rank %d: not-a-number holds NaN or infinite values: "
                                              r"sample %d \(\S+\) \(ffinspect.*; --resume nan-" % (step_of_bad, rank, BAD), done.stderr, re.M),
           "%s: of another rank's, too" % " ".join(map(str, how)), done.stderr)
seed = next(seed for seed in range(1000) if BAD in order(seed)[-2:])
done = fftrain("--data", "not-a-number", *COMMON, "--batch", COUNT // 2 - 1, "--last-batch", "keep", "--seed", seed, "--dp", "cpu,cpu,cpu", "--sync-bn",
               "--out", "none")
tap.ok(done.returncode == 1 and re.search(r"NaN at step 3 .*: rank 0: not-a-number holds NaN or infinite values: sample %d " % BAD, done.stderr),
       "in a batch of which a rank has no sample", done.stderr)
done = fftrain("replay", "nan", "--step", step_of_bad)
tap.ok(done.returncode == 0 and "loss       NaN" in done.stdout and "not finite the batch is the first" in done.stdout and
       rows(done.stdout)["input"][1][3] == 2, "replay shows the batch that holds them", done.stdout + done.stderr)


def named_first(said, shown):
    """Whether a message and the replay of its step name the same, and an output is the table's first that is not finite."""
    match = re.search(r": (\S[^:]*?) is the first that is not finite \((\d+) NaN, (\d+) infinite of", said)
    told = re.search(r"^not finite (.*) is the first$", shown, re.M)
    table = rows(shown)
    bad = [name for name, (_, values) in table.items() if values[3]]
    if not match or not told or match[1] != told[1]:
        return False
    return not bad or "the output of " + bad[0] == match[1] and table[bad[0]][1][3] == int(match[2]) + int(match[3])


def step_of(said):
    match = re.search(r"became .* at step (\d+) \(epoch (\d+), ", said)
    return (int(match[1]), int(match[2])) if match else (1, 0)


done = fftrain("--data", "huge", *COMMON, "--out", "huge-run", "--checkpoint-every", "1 step")
step, epoch = step_of(done.stderr)
again = fftrain("replay", "huge-run", "--step", step)
tap.ok(done.returncode == 1 and step >= step_of_bad and epoch == (step - 1) // 6 + 1 and named_first(done.stderr, again.stdout) and all_finite("huge-run"),
       "a huge value: the first layer that is not finite is named", done.stderr + again.stdout)

fftrain(*SET, "--out", "explodes", "--checkpoint-every", "epoch")
good = "explodes/checkpoints/step-24"
done = fftrain("--resume", "explodes", "--epochs", 60, "--lr", 1e6, "--schedule", "constant", "--weight-decay", 10, "--quiet", "--checkpoint-every", "1 step")
step, epoch = step_of(done.stderr)
again = fftrain("replay", "explodes", "--step", step)
tap.ok(done.returncode == 1 and step > 24 and epoch == (step - 1) // 6 + 1 and named_first(done.stderr, again.stdout) and
       "learning rate 1e+06)" in done.stderr and "lower --lr (it is 1e+06)" in done.stderr,
       "a learning rate that explodes in the middle of a run", done.stderr + again.stdout + again.stderr)
last = re.search(r"--resume (\S+) continues from the last good checkpoint", done.stderr)
tap.ok(last and os.path.isdir(last[1]) and all_finite("explodes"), "no checkpoint has values that are not finite", done.stderr)
done = fftrain("--resume", good, "--epochs", 5, "--lr", 0.01, "--schedule", "constant", "--weight-decay", 0, "--quiet")
tap.ok(done.returncode == 0, "and it resumes from a good one with a lower rate", done.stderr)

if os.path.exists(SIMULATED):
    gpu = ["--device", "cuda", "--placement"]
    for placement in ("resident", "stream"):
        run = "gpu-" + placement
        done = fftrain("--data", "not-a-number", *COMMON, *gpu, placement, "--out", run, "--precision", "f32", program=SIMULATED)
        tap.ok(done.returncode == 1 and "holds NaN or infinite values: sample %d (" % BAD in done.stderr, "on the simulated GPU, %s: the sample" % placement,
               done.stderr)
    done = fftrain(*SET, *gpu, "stream", "--out", "narrow", "--lr", 1e5, "--warmup", 0, "--loss-scale", 1, "--checkpoint-every", "1 step",
                   program=SIMULATED)
    again = fftrain("replay", "narrow", "--step", step_of(done.stderr)[0], program=SIMULATED)
    tap.ok(done.returncode == 1 and "; f16 holds at most 65504" in done.stderr and named_first(done.stderr, again.stdout) and
           all_finite("narrow"), "in f16 an output that overflows is named", done.stderr + again.stdout + again.stderr)
else:
    tap.skip("on the simulated GPU", "it is not built")

# ---- hashes

EVERY = ["--hash-every", 5]
fftrain(*SET, *EVERY, "--out", "one", "--checkpoint-every", "7 steps", "--keep", 9)
lines = hash_lines("one")
tap.ok([line["step"] for line in lines] == [0, 5, 10, 15, 20, 24] and len({line["images"] for line in lines[1:]}) == 5 and
       len({line["parameters"][0] for line in lines}) == 6 and all(lines[1]["outputs"]), "hashes after every 5th step and the last", lines)
whole = open("one/hashes.jsonl", "rb").read()
good = 0
count = int(os.environ.get("FF_KILLS", "5"))
for i in range(count):
    run = "killed-%d" % i
    process = subprocess.Popen([FFTRAIN, *map(str, [*SET, *EVERY, "--out", run, "--checkpoint-every", "%d steps" % rng.randint(1, 6)])],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = rng.randrange(1, 20)
    while process.poll() is None and not (os.path.exists(run + "/checkpoints") and any(
            int(name[5:]) >= after for name in os.listdir(run + "/checkpoints") if name[5:].isdigit())):
        time.sleep(0.001)
    process.kill()
    process.wait()
    if not os.path.exists(run + "/checkpoints/step-24"):
        fftrain("--resume", run, "--quiet")
    good += open(run + "/hashes.jsonl", "rb").read() == whole
tap.ok(good == count, "%d runs that are killed and continue have the same hashes" % count, good)
fftrain(*SET, "--out", "by-epoch")
tap.ok([line["step"] for line in hash_lines("by-epoch")][-1] == 24 and "outputs" not in hash_lines("by-epoch")[-1],
       "by default at the end, without outputs")
fftrain(*SET, "--out", "without", "--hash-every", 0)
tap.ok(not os.path.exists("without/hashes.jsonl"), "--hash-every 0: none")


def diff(one, other):
    done = fftrain("diff", one, other)
    return done.returncode, done.stdout, done.stderr


code, text, said = diff("one", "killed-0")
tap.ok(code == 0 and "No difference in the 5 steps that both have hashes of, up to step 24." in text and not said, "diff of a run and one that was killed", text + said)
os.mkdir("begun")
shutil.copy("one/recipe.txt", "begun")
with open("begun/hashes.jsonl", "w") as file:
    file.writelines(open("one/hashes.jsonl").readlines()[:2])
code, text, said = diff("one", "begun")
tap.ok(code == 0 and "No difference in the initial parameters, and both have hashes of no step." in text and not said, "and of one before its first step", text + said)


def counted(one, other, step):
    """How many parameters and how many running statistics differ after the step, and of how many."""
    names = json.loads(open(one + "/hashes.jsonl").readline())["parameters"]
    a, b = (next(line["parameters"] for line in hash_lines(run) if line["step"] == step) for run in (one, other))
    kept = [i for i, name in enumerate(names) if "running_" in name or "num_batches" in name]
    differ = [i for i in range(len(names)) if a[i] != b[i]]
    return "of %d of %d parameters and %d of %d running statistics that differ" % (
        len(set(differ) - set(kept)), len(names) - len(kept), len(set(differ) & set(kept)), len(kept))


for name, options in (("workers", ["--workers", 3]), ("verified", ["--verify-data", "always"])):
    fftrain(*SET, *EVERY, *options, "--out", name)
    code, text, said = diff("one", name)
    tap.ok(code == 0 and "No difference" in text and options[0][2:] + " " in text, "--%s changes nothing, and is listed" % options[0][2:], text + said)
fftrain(*SET, *EVERY, "--seed", 5, "--out", "seed")
code, text, said = diff("one", "seed")
tap.ok(code == 1 and "The initial parameters differ: conv1.weight is the first" in text and re.search(r"^seed +the default +5$", text, re.M) and
       counted("one", "seed", 0) in text and "one and seed part at step 0" in said, "runs of two seeds", (text + said, counted("one", "seed", 0)))
fftrain(*SET, "--hash-every", 1, "--out", "each", "--checkpoint-every", "7 steps", "--keep", 9)
fftrain(*SET, "--hash-every", 1, "--weight-decay", 0.1, "--out", "decay")
code, text, said = diff("each", "decay")
tap.ok(code == 1 and "Step 1 is the first that differs: all gradients are the same, the update is not: conv1.weight" in text and
       counted("each", "decay", 1) in text and "0 of 12 running statistics" in text and re.search(r"^weight-decay +0\.0002 +0\.1$", text, re.M),
       "one option: its step and what differs first, statistics apart", (text + said, counted("each", "decay", 1)))
fftrain("--data", "other", *COMMON, "--hash-every", 1, "--out", "image")
code, text, said = diff("each", "image")
tap.ok(code == 1 and "Step %d is the first that differs: the inputs differ: the images of its batch" % step_of_bad in text and
       "data's content id" in text, "one image: the step that it is in", text + said)
fftrain("--resume", shutil.copytree("each", "late", symlinks=True) + "/checkpoints/step-14", "--quiet", "--label-smoothing", 0.1)
code, text, said = diff("each", "late")
tap.ok(code == 1 and re.search(r"Step 15 is the first that differs: inputs, parameters before it and outputs are the same, the gradient of fc\.bias", text),
       "a run that went on with another loss", text + said)

# The commands that narrow it down.
for name, schedule in (("even", "constant"), ("drops", "multi-step=2")):
    fftrain(*SET, *EVERY, "--schedule", schedule, "--warmup", 0, "--out", name, "--checkpoint-every", "7 steps", "--keep", 9)
code, text, said = diff("even", "drops")
commands = re.findall(r"^  fftrain (.*)$", text, re.M)
tap.ok(code == 1 and "The first that does is one of 11 to 15" in text and len(commands) == 3, "between two kept steps the range and commands", text + said)
for command in commands[:2]:
    done = fftrain(*command.split())
    tap.ok(done.returncode == 0, command, done.stderr)
found = fftrain(*commands[2].split())
tap.ok(found.returncode == 1 and "Step 13 is the first that differs: all gradients are the same, the update is not: conv1.weight" in found.stdout,
       "which name the step and the layer", found.stdout + found.stderr)

# Options that changed where the run went on.
fftrain("--resume", shutil.copytree("one", "changed", symlinks=True) + "/checkpoints/step-14", "--quiet", "--label-smoothing", 0.1)
done = fftrain("replay", "changed", "--step", 20)
tap.ok("the same as in the run" in done.stdout and "from       changed/checkpoints/step-14" in done.stdout and "had other options" in done.stderr,
       "a step after options changed is replayed with those", done.stdout + done.stderr)
done = fftrain("replay", "changed", "--step", 10)
tap.ok("the same as in the run" in done.stdout and not done.stderr, "and one before with the old ones", done.stdout + done.stderr)

make_other = ["--data", "set", "--model", "resnet18", "--batch", BATCH, "--epochs", 1, "--quiet", "--out", "resnet"]
fftrain(*make_other)
code, text, said = diff("one", "resnet")
tap.ok(code == 1 and "train other nets" in said, "another net", text + said)
for name, words, arguments in (("no hashes", ["without: keeps no hashes"], ("one", "without")), ("no run", ["set: is not a run"], ("one", "set")),
                               ("nothing there", ["nothing"], ("nothing", "one")), ("one run", ["wanted fftrain diff RUN RUN"], ("one",))):
    done = fftrain("diff", *arguments)
    tap.ok(done.returncode in (2, 65, 74) and all(word in done.stderr for word in words), "diff: " + name, done.stderr)

# Files that are cut off, or changed anywhere.
bad = []
shutil.copytree("one", "broken", symlinks=True)
for i in range(60):
    data = bytearray(whole)
    if i % 2:
        data = data[:rng.randrange(len(data))]
    else:
        for _ in range(rng.choice([1, 20])):
            data[rng.randrange(len(data))] = rng.randrange(256)
    open("broken/hashes.jsonl", "wb").write(data)
    done = fftrain("diff", "broken", "one")
    if done.returncode not in (0, 1, 65) or (done.returncode and not done.stderr.startswith("fftrain: ")):
        bad.append((i, done.returncode, done.stderr))
tap.ok(not bad, "a file of hashes that is cut or changed anywhere", bad)
for name, text in (("garbage", b"\0\1garbage\n" * 50), ("cut", whole[:len(whole) // 2]), ("empty", b"")):
    shutil.copytree("one", "go-on-" + name, symlinks=True)
    open("go-on-%s/hashes.jsonl" % name, "wb").write(text)
    done = fftrain("--resume", "go-on-%s/checkpoints/step-14" % name, "--quiet")
    code, text, said = diff("one", "go-on-" + name)
    tap.ok(done.returncode == 0 and code == 0, "a run continues with a file of hashes that is " + name, done.stderr + text + said)
shutil.copytree("one", "folder", symlinks=True)
os.remove("folder/hashes.jsonl")
os.mkdir("folder/hashes.jsonl")
done = fftrain("--resume", "folder/checkpoints/step-14", "--quiet")
tap.ok(done.returncode == 0 and "hashes are no longer kept: " in done.stderr and "folder/hashes.jsonl: cannot write: Is a directory" in done.stderr, "where they cannot be written, training continues", done.stdout + done.stderr)

# ---- replay

wrong = []
for line in hash_lines("each")[1:]:
    done = fftrain("replay", "each", "--step", line["step"])
    loss = re.search(r"^loss +(\S+)$", done.stdout, re.M)
    start = re.search(r"^from +(.*)$", done.stdout, re.M)
    if not loss or float(loss[1]) != line["loss"] or "the same as in the run" not in done.stdout:
        wrong.append((line["step"], line["loss"], done.stdout[:300], done.stderr))
    numbers = [int(number) for number in re.findall(r"^ +(\d+)  \S+$", done.stdout, re.M)]
    if line["step"] <= 6 and numbers != order()[BATCH * (line["step"] - 1):BATCH * line["step"]]:
        wrong.append((line["step"], numbers))
    newest = max([0] + [step for step in (7, 14, 21) if step < line["step"]])
    if start[1] != ("each/checkpoints/step-%d" % newest if newest else "the first step"):
        wrong.append((line["step"], start[1]))
tap.ok(not wrong, "replay of every step has the run's loss to the last bit, and its samples", wrong)
names = list(rows(done.stdout))
tap.ok(names[:3] == ["input", "conv1 + pool", "bn1 + relu"] and "fc" in names and names[-1] == "fc.bias" and "conv1.weight" in names and
       not any(values[3] or values[7] for _, values in rows(done.stdout).values()), "it shows every layer and every parameter", done.stdout)
with numpy.load("set.npz") as arrays:
    batch = arrays["images"][order()[:BATCH]]
fftrain(*SET, "--augment", "none", "--out", "plain", "--hash-every", 1, "--epochs", 1)
done = fftrain("replay", "plain", "--step", 1, "--png", "step.png")
shown = rows(done.stdout)["input"]
tap.ok(shown[0] == "20 x 3 x 12 x 12" and numpy.allclose(shown[1][:3], [batch.min(), batch.max(), abs(batch).mean()], rtol=1e-3),
       "whose numbers are those of the images", (shown, done.stderr))
try:
    from PIL import Image
    sheet = Image.open("step.png")
    sheet.load()
    tap.ok(sheet.width > 9 * 12 and sheet.height > 3 * 12, "its sheet is an image", sheet.size)
except ImportError as missing:
    tap.skip("its sheet is an image", missing)
done = fftrain("replay", "one/checkpoints/step-14", "--step", 17)
tap.ok(done.returncode == 0 and "from       one/checkpoints/step-14" in done.stdout, "from a checkpoint", done.stderr)
MORE = ["--optimizer", "lamb", "--ema", 0.9, "--accumulate", 2, "--clip-norm", 1, "--last-batch", "keep", "--batch", 32]
fftrain(*SET, *MORE, "--out", "more", "--hash-every", 1, "--checkpoint-every", "3 steps", "--keep", 9)
wrong = [line["step"] for line in hash_lines("more")[1:]
         if "loss       %.17g\n           the same as in the run" % line["loss"] not in fftrain("replay", "more", "--step", line["step"]).stdout]
tap.ok(not wrong and len(hash_lines("more")) == 17, "with micro-batches, a smaller last batch, LAMB, an average and clipping, too", wrong)
fftrain(*SET, "--sizes", "0:8,2:12", "--augment", "none", "--out", "sizes", "--hash-every", 1)
small, large = (fftrain("replay", "sizes", "--step", step).stdout for step in (12, 13))
tap.ok(rows(small)["input"][0] == "20 x 3 x 8 x 8" and rows(small)["conv1 + pool"][0] == "20 x 16 x 4 x 4" and
       rows(large)["input"][0] == "20 x 3 x 12 x 12" and all("the same as in the run" in text for text in (small, large)), "with images of two sizes", small)
if os.path.exists(SIMULATED):
    for placement in ("resident", "stream"):
        run = "gpu-again-" + placement
        done = fftrain(*SET, *gpu, placement, "--deterministic", "--out", run, "--hash-every", 1, "--epochs", 2, "--checkpoint-every", "5 steps", program=SIMULATED)
        again = fftrain("replay", run, "--step", 9, program=SIMULATED)
        tap.ok("the same as in the run" in again.stdout and "loss scale" in again.stdout and "conv2" in rows(again.stdout),
               "on the simulated GPU, %s, f16" % placement,
               done.stderr + again.stdout + again.stderr)
os.rename("set", "moved")
done = fftrain("replay", "each", "--step", 9)
tap.ok(done.returncode == 74 and "set: no such folder" in done.stderr, "a set that was moved", done.stderr)
done = fftrain("replay", "each", "--step", 9, "--data", "moved")
tap.ok(done.returncode == 0 and "the same as in the run" in done.stdout, "and --data, which reports where it is", done.stderr)
done = fftrain("replay", "each", "--step", 9, "--data", "other")
tap.ok(done.returncode == 65 and "the run has other data" in done.stderr, "other data is refused", done.stderr)
for name, words, arguments in (("a step past the end", ["the run has 24 steps"], ("each", "--step", 25, "--data", "moved")),
                               ("a later checkpoint", ["is after step 3"], ("each/checkpoints/step-14", "--step", 3)),
                               ("no step", ["wanted fftrain replay RUN --step N"], ("each",)),
                               ("no run", ["moved: is neither a checkpoint"], ("moved", "--step", 3))):
    done = fftrain("replay", *arguments)
    tap.ok(done.returncode == 2 and all(word in done.stderr for word in words), "replay: " + name, done.stderr)

os.chdir("/")
shutil.rmtree(place)
tap.finish()
