#!/usr/bin/python3
"""What the numbers of a run come from - options, recipe, ranks, threads, class weights, class names - is kept where it continues: each
change is refused or said, and what did not change is not. Prints TAP. Environment: BUILD."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import free_port, variables_of  # noqa: E402
import runs  # noqa: E402
from runs import FFTRAIN, apart, fftrain, make, refused, same, starts, stored  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
FFPACK = os.path.join(tap.BUILD, "ffpack")

# 5 steps an epoch.
make("set", "--count", 100, "--splits", "train,test", "--height", 8, "--width", 8, "--statistics")
COMMON = ["--data", "set", "--augment", "none", "--batch", 20, "--threads", 1, "--warmup", 0, "--quiet"]
NET = ["--model", "smallnet", "--schedule", "constant"]
STEADY = [*NET, "--freeze", "norm"]  # no batch norm trains, so that parts do not matter


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def two(name, one, other, words):
    """Passes where two ranks with these options end with all the words, and neither has trained."""
    port = free_port()
    jobs = [subprocess.Popen([FFTRAIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, **variables_of(rank, 2, port)}) for rank, arguments in enumerate((one, other))]
    said = [job.communicate(timeout=120)[1] for job in jobs]
    tap.ok(all(job.returncode for job in jobs) and any(all(word in text for word in words) for text in said), name,
           "%s\n%s" % ([job.returncode for job in jobs], "\n".join(said)))


# ---- --scale-lr scales once, however often the run continues

FILE = write("rates.txt", "model = smallnet\nepochs = 2\nlr = 0.01\nschedule = constant\ngroups = fc.*:lr=0.005,momentum=0.5\n")
AUTO = ["--resume", "auto", "--dp", "cpu,cpu", "--scale-lr"]


def rates(run):
    return [(line["learning_rate"], line["groups"][0]["learning_rate"] if "learning_rate" in line["groups"][0] else line["groups"][0].get("lr"))
            for line in starts(run)]


for name, options in (("a recipe's rate", ["--recipe", FILE]), ("--lr", ["--recipe", FILE, "--lr", 0.01]),
                      ("--groups", ["--recipe", FILE, "--groups", "fc.*:lr=0.005,momentum=0.5"]),
                      ("--set lr", ["--recipe", FILE, "--set", "lr=0.01"])):
    run = "scaled-" + name
    for epochs in (2, 3, 4):
        done = fftrain(*COMMON, *AUTO, *options, "--epochs", epochs, "--out", run)
    done = fftrain("--resume", run, "--dp", "cpu,cpu", "--scale-lr", "--epochs", 5, "--quiet")
    kept = runs.recipe(run)
    tap.ok(done.returncode == 0 and {line["learning_rate"] for line in starts(run)} == {0.02} and len(starts(run)) == 4 and kept["lr"] == "0.02" and
           kept["groups"] == "fc.*:lr=0.01,momentum=0.5" and "changed: lr" not in done.stderr and "changed: groups" not in done.stderr,
           "--scale-lr multiplies once in four starts: " + name, (done.stderr, starts(run)[-1]["learning_rate"], kept.get("lr"), kept.get("groups")))
done = fftrain("--resume", run, "--dp", "cpu,cpu", "--scale-lr", "--lr", 0.03, "--epochs", 6, "--quiet")
tap.ok(starts(run)[-1]["learning_rate"] == 0.06, "and a rate that is new", done.stderr)
done = fftrain("--resume", run, "--dp", "cpu,cpu", "--set", "lr=0.05", "--epochs", 7, "--quiet")
tap.ok(starts(run)[-1]["learning_rate"] == 0.05, "without --scale-lr none", done.stderr)

# ---- ranks, and what another number of them does

for how, name in (["--dp", "cpu,cpu"], "2 ranks"), (["--dp", "cpu,cpu", "--dp-balance", "1,3"], "2 ranks with shares 1,3"), (["--ranks", 2], "2 ranks"):
    run = "had " + " ".join(map(str, how))
    fftrain(*COMMON, *NET, "--epochs", 2, *how, "--out", run)
    shutil.copytree(run, "again", symlinks=True)
    done = fftrain("--resume", run, "--epochs", 3, "--quiet")
    tap.ok(done.returncode == 0 and "the run had %s and has 1 rank now: batch norms see other parts" % name in done.stderr,
           "a run with %s that continues alone reports it" % " ".join(map(str, how)), done.stderr)
    done = fftrain("--resume", "again", *how, "--epochs", 3, "--quiet")
    tap.ok(done.returncode == 0 and "the run had" not in done.stderr, "and with the same nothing", done.stderr)
    shutil.rmtree("again")
for more, says in ([*STEADY], "in the last bits"), ([*NET, "--sync-bn"], "in the last bits"), ([*NET, "--reproducible", "--parts", 4], None):
    run = "parts" + "-".join(map(str, more))
    fftrain(*COMMON, *more, "--epochs", 2, "--dp", "cpu,cpu", "--out", run)
    done = fftrain("--resume", run, "--epochs", 3, "--quiet")
    told = [line for line in done.stderr.splitlines() if "the run had" in line]
    tap.ok(done.returncode == 0 and (len(told) == 1 and says in told[0] if says else not told), "%s: %s" % (" ".join(map(str, more)), says), done.stderr)

# ---- the recipe of a run on several ranks, used by another run

fftrain(*COMMON, *NET, "--epochs", 1, "--dp", "cpu,cpu", "--dp-balance", "1,3", "--out", "uneven")
write("copied.txt", "# a line of one's own\n" + open("uneven/recipe.txt", encoding="utf-8").read())
HAD = ("the recipe's run had 2 ranks with shares 1,3 and this one has ", "batch norms see other parts of a batch")
for title, how, ranks in (("alone", [], "1 rank:"), ("with even shares", ["--ranks", 2], "2 ranks:"), ("in a dry run", ["--dry-run"], "1 rank:"),
                          ("with other shares", ["--dp", "cpu,cpu", "--dp-balance", "3,1"], "2 ranks with shares 3,1:")):
    done = fftrain("--recipe", "copied.txt", "--epochs", 1, "--quiet", "--out", "none", *how)
    told = [line for line in done.stderr.splitlines() if HAD[0] + ranks in line]
    tap.ok(done.returncode == 0 and len(told) == 1 and HAD[1] in told[0], "the recipe of a run on two ranks, used %s, reports it once" % title, done.stderr)
done = fftrain("--recipe", "copied.txt", "--epochs", 1, "--quiet", "--out", "none", "--dp", "cpu,cpu", "--dp-balance", "1,3")
tap.ok(done.returncode == 0 and not done.stderr, "and with the same ranks says nothing", done.stderr)
fftrain(*COMMON, *NET, "--reproducible", "--parts", 4, "--epochs", 1, "--dp", "cpu,cpu", "--out", "four-parts")
done = fftrain("--recipe", "four-parts/recipe.txt", "--quiet", "--out", "four-parts-alone")
tap.ok(done.returncode == 0 and not done.stderr and same("four-parts", "four-parts-alone"), "where the bits are the same, nothing is said", done.stderr)
fftrain(*COMMON, *NET, "--epochs", 1, "--out", "had-one")
tap.ok(not open("had-one/recipe.txt", encoding="utf-8").read().startswith("#"), "the recipe of a run on one rank has no ranks")
done = fftrain("diff", "had-one", "uneven")
tap.ok("#" not in done.stdout, "diff compares the options of recipes", done.stdout)
# As if it was killed before its first checkpoint.
shutil.rmtree("uneven/checkpoints")
os.mkdir("uneven/checkpoints")
done = fftrain("replay", "uneven", "--step", 2)
tap.ok(done.returncode == 0 and "the run had 2 ranks with shares 1,3 and replay has 1 rank" in done.stderr, "replay knows the ranks without a checkpoint",
       done.stderr)
done = fftrain("--resume", "uneven", "--quiet")
tap.ok(done.returncode == 0 and HAD[0] + "1 rank:" in done.stderr and "begins again" in done.stderr, "a run that begins again with other ranks reports it",
       done.stderr)

# ---- threads

fftrain(*[word for word in COMMON if word not in ("--threads", 1)], *NET, "--epochs", 1, "--out", "threads", OMP_NUM_THREADS="2")
first = starts("threads")[0]["threads"]
done = fftrain("--resume", "threads", "--epochs", 2, "--quiet", "--set", "threads=0", OMP_NUM_THREADS="1", before=["taskset", "-c", "0"])
now = starts("threads")[-1]["threads"]
if first == now:
    tap.skip("other threads", "there is one processor")
else:
    tap.ok("the run had %d compute threads and has %d now: its results will differ in the last bits" % (first, now) in done.stderr,
           "threads that follow the processors are said", done.stderr)

# ---- the recipe of --resume auto

for begun, then, words in ((["--recipe", FILE], ["--recipe", FILE], None), (["--recipe", FILE], [], None),
                           (["--recipe", FILE], ["--recipe", write("edited.txt", open(FILE).read() + "epochs = 3\n")], ["edited.txt", "--set", "--out"]),
                           (["--recipe", FILE], ["--recipe", "quickstart"], ["--recipe", "not what the run"]),
                           (NET, ["--recipe", FILE], ["--recipe", "not what the run"])):
    shutil.rmtree("auto", ignore_errors=True)
    fftrain(*COMMON, *begun, "--epochs", 1, "--out", "auto", "--resume", "auto")
    left = starts("auto")
    arguments = [*COMMON, *then, "--epochs", 2, "--out", "auto", "--resume", "auto"]
    title = "--resume auto: %s, then %s" % (" ".join(begun), " ".join(then))
    if words:
        refused(title + " is refused", 2, words, *arguments)
        tap.ok(starts("auto") == left, "and trains nothing")
    else:
        done = fftrain(*arguments)
        tap.ok(done.returncode == 0 and len(starts("auto")) == 2, title, done.stderr)

# ---- class weights

write("even.csv", "".join("%s,1\n" % name for name in "disk square ring diamond cross triangle".split()))
write("odd.csv", "".join("%s,%d\n" % (name, 1 + 9 * (i % 2)) for i, name in enumerate("disk square ring diamond cross triangle".split())))
for one, other in ((["--class-weights", "even.csv"], ["--class-weights", "odd.csv"]), ([], ["--class-weights", "balanced"])):
    two("ranks with other class weights: %s and %s" % (one, other), [*COMMON, *NET, "--epochs", 1, "--out", "none", *one],
        [*COMMON, *NET, "--epochs", 1, "--out", "none", *other], ["other class weights"])
shutil.copy("even.csv", "weights.csv")
done = fftrain(*COMMON, *NET, "--epochs", 1, "--class-weights", "weights.csv", "--out", "weighted")
fftrain("--resume", "weighted", "--epochs", 2, "--quiet")
tap.ok("class weights" not in fftrain("--resume", "weighted", "--epochs", 3, "--quiet").stderr, "the same class weights are not said")
shutil.copy("odd.csv", "weights.csv")
done = fftrain("--resume", "weighted", "--epochs", 4, "--quiet")
tap.ok("changed: the class weights are others now" in done.stderr, "an edited file of class weights is reported when the run continues", done.stderr)

# ---- running statistics of ranks

fftrain(*COMMON, *NET, "--epochs", 1, "--out", "base")
fftrain("export", "base", "-o", "a.safetensors")
data = bytearray(open("a.safetensors", "rb").read())
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
begin = 8 + struct.unpack("<Q", data[:8])[0]
at = slice(*(begin + offset for offset in header["bn2.running_mean"]["data_offsets"]))
data[at] = (numpy.frombuffer(bytes(data[at]), "float32") + 1).astype("float32").tobytes()
with open("b.safetensors", "wb") as file:
    file.write(data)
body = [*COMMON, *NET, "--freeze", "body", "--epochs", 1, "--out", "none", "--weights"]
two("ranks with other running statistics", [*body, "a.safetensors"], [*body, "b.safetensors"], ["other running statistics"])

# ---- class names

for name, order in (("named", "abc"), ("permuted", "bca")):
    os.mkdir(name + "-arrays")
    rng = numpy.random.default_rng(1)
    numpy.save(name + "-arrays/x_train.npy", rng.standard_normal((60, 3, 8, 8)).astype("float32"))
    numpy.save(name + "-arrays/y_train.npy", numpy.arange(60) % 3)
    write(name + "-arrays/classes.txt", "\n".join(order) + "\n")
    subprocess.run([FFPACK, name + "-arrays", "-o", name, "--dtype", "f32", "--classes", name + "-arrays/classes.txt"], check=True, capture_output=True)
on = [*COMMON[2:], *NET, "--epochs", 1]
fftrain("--data", "named", *on, "--out", "classes")
refused("a run does not continue with classes of other names", 65, ["class", "'a'", "'b'"], "--resume", "classes", "--data", "permuted", "--epochs", 2)
two("nor do ranks with such sets", ["--data", "named", *on, "--out", "none"], ["--data", "permuted", *on, "--out", "none"], ["other classes or transforms"])

# ---- --set, for ranks too

for how in (["--ranks", 2], ["--dp", "cpu,cpu"], []):
    run = "set-" + "-".join(map(str, how))
    done = fftrain(*COMMON, *NET, "--epochs", 1, *how, "--set", "lr=0.125", "--set", "momentum = 0.5", "--out", run)
    tap.ok(done.returncode == 0 and starts(run)[0]["learning_rate"] == 0.125 and starts(run)[0]["momentum"] == 0.5, "--set: %s" % how, done.stderr)
refused("--set without a value", 2, ["--set", "'lr'"], *COMMON, *NET, "--ranks", 2, "--set", "lr", "--out", "none")

# ---- options that a run keeps

shutil.copytree("base", "more", symlinks=True)
done = fftrain("--resume", "more", "--label", "label", "--seed", 0, "--order", "random", "--epochs", 2, "--quiet")
tap.ok(done.returncode == 0, "an option that asks for what the run does anyway", done.stderr)
make("fields", "--fields", "label,id", "--count", 40, "--splits", "train", "--height", 8, "--width", 8, "--statistics")
fftrain("--data", "fields", *COMMON[2:], *NET, "--epochs", 1, "--out", "labeled")
refused("another label", 2, ["--label: cannot change", "label, not id"], "--resume", "labeled", "--label", "id", "--epochs", 2)
shutil.copy("a.safetensors", "first.safetensors")
done = fftrain(*COMMON, *NET, "--weights", "first.safetensors", "--epochs", 1, "--out", "began")
again = fftrain("--resume", "began", "--epochs", 2, "--quiet", "--weights", "first.safetensors")
os.remove("first.safetensors")
third = fftrain("--resume", "began", "--epochs", 3, "--quiet")
tap.ok(again.returncode == third.returncode == 0 and "weights" not in again.stderr + third.stderr and runs.recipe("began")["weights"].endswith("/first.safetensors"),
       "a run keeps the weights that it began with, and does not load them again", (again.stderr, third.stderr))
refused("other --weights for a run that continues", 2, ["--weights: cannot change"], "--resume", "began", "--weights", "b.safetensors", "--epochs", 4)
refused("--weights for one that began without", 2, ["--weights: cannot change", "the default"], "--resume", "more", "--weights", "b.safetensors", "--epochs", 4)
refused("another optimizer", 2, ["--optimizer: cannot change", "sgd", "adamw"], "--resume", "more", "--optimizer", "adamw", "--epochs", 4)
fftrain(*COMMON, *NET[:2], "--schedule", "cosine", "--epochs", 2, "--out", "spread")
done = fftrain("--resume", "spread", "--epochs", 4, "--quiet")
tap.ok("the schedule cosine is spread over all epochs" in done.stderr, "other epochs change the rate of a schedule, which is said", done.stderr)
done = fftrain("--resume", "spread", "--epochs", 4, "--quiet")
tap.ok("spread over" not in done.stderr, "the same epochs do not", done.stderr)

# ---- ranks where one process looks

for name, more in (("lr-find", []), ("--overfit", ["--overfit", 1]), ("--check-gradients", ["--check-gradients"]), ("--diagnose", ["--diagnose"]),
                   ("--show-batch", ["--show-batch", "batch.png"])):
    refused("%s with --ranks" % name, 2, ["several ranks only train"], *(["lr-find"] if name == "lr-find" else []), *COMMON, *NET, *more, "--ranks", 2)


def memory(*arguments):
    return [line for line in fftrain(*COMMON, *NET, "--dry-run", *arguments).stdout.splitlines() if line.startswith("memory")]


tap.ok(memory("--ranks", 2) == memory("--dp", "cpu,cpu") != memory(), "--dry-run plans for a rank", (memory("--ranks", 2), memory()))

# ---- f16 between ranks

weights = bytearray(open("a.safetensors", "rb").read())
at = slice(*(begin + offset for offset in header["fc.weight"]["data_offsets"]))
weights[at] = (numpy.frombuffer(bytes(weights[at]), "float32") * 1e7).astype("float32").tobytes()
with open("large.safetensors", "wb") as file:
    file.write(weights)
large = [*COMMON, *NET, "--lr", 1e-9, "--epochs", 1, "--weights", "large.safetensors", "--dp", "cpu,cpu", "--out", "none"]
done = fftrain(*large, "--reduce-dtype", "f16")
tap.ok(done.returncode == 1 and "--reduce-dtype" in done.stderr and "65504" in done.stderr and fftrain(*large).returncode == 0,
       "a gradient that f16 cannot send names --reduce-dtype", done.stderr)

# ---- diff and replay of several ranks

HASHED = [*COMMON, *NET, "--epochs", 2, "--hash-every", 1, "--reproducible", "--parts", 4]
for run, how in (("one", []), ("two", ["--ranks", 2]), ("four", ["--dp", "cpu,cpu,cpu,cpu"])):
    fftrain(*HASHED, *how, "--out", run)
for other in ("two", "four"):
    done = fftrain("diff", "one", other)
    tap.ok(same("one", other) and done.returncode == 0 and "No difference in the 10 steps" in done.stdout and "cut in other parts: 1 rank" in done.stdout,
           "diff of the same run on 1 and %s ranks" % other, done.stdout + done.stderr)
fftrain(*HASHED, "--ranks", 2, "--lr", 0.01, "--out", "slower")
done = fftrain("diff", "one", "slower")
tap.ok(done.returncode == 1 and "Step 1 is the first that differs: conv1.weight is the first" in done.stdout and "inputs" not in done.stdout,
       "and of another rate", done.stdout)
fftrain(*HASHED, "--ranks", 2, "--seed", 0, "--augment", "flip", "--out", "flipped")
done = fftrain("diff", "two", "flipped")
tap.ok(done.returncode == 1 and "the inputs differ: the images" in done.stdout, "where batches are cut alike, their images are compared", done.stdout)
fftrain(*COMMON, *NET, "--epochs", 2, "--hash-every", 1, "--ranks", 2, "--out", "parted")
fftrain(*COMMON, *NET, "--epochs", 2, "--hash-every", 1, "--out", "whole")
done = fftrain("diff", "whole", "parted")
tap.ok("cut in other parts: 1 rank, 1 micro-batch; 2 ranks, 1 micro-batch" in done.stdout and "inputs" not in done.stdout,
       "diff of runs on 1 and 2 ranks does not compare a rank's part with a whole batch", done.stdout)
done = fftrain("replay", "parted", "--step", 7)
tap.ok(done.returncode == 0 and "the run had 2 ranks and replay has 1 rank: batch norms see other parts" in done.stderr and "in the run it was" in done.stdout,
       "replay of a run on two ranks reports why its loss is another", done.stdout[:400] + done.stderr)
done = fftrain("replay", "two", "--step", 7)
tap.ok("the same as in the run" in done.stdout and "the run had" not in done.stderr, "and has that of a reproducible one", done.stdout[:400] + done.stderr)

# ---- diff and replay of a run whose options changed

SEVERAL = [*COMMON, *NET, "--lr", 0.05, "--checkpoint-every", "2 steps", "--keep", 100, "--hash-every", 5, "--epochs", 2]
fftrain(*SEVERAL, "--out", "steady")
fftrain(*SEVERAL, "--out", "changed")
fftrain("--resume", "changed/checkpoints/step-4", "--lr", 0.06, "--quiet")
done = fftrain("diff", "steady", "changed")
commands = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("  fftrain")]
tap.ok("Step 5 differs" in done.stdout and "changed after step 4" in done.stdout and len(commands) == 6, "diff divides its replays where options changed", done.stdout)
found = [fftrain(*command) for command in commands]
tap.ok("No difference in the 4 steps that both have hashes of, up to step 4." in found[2].stdout and "Step 5 is the first that differs" in found[5].stdout and
       not any("other options" in one.stderr for one in (found[0], found[1], found[3])),
       "which find the step", [one.stdout[-300:] + one.stderr for one in found])
done = fftrain("replay", "changed", "--from", 0, "--step", 5)
tap.ok("was resumed with other options after step 4" in done.stderr, "a replay across the change reports it", done.stderr)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
