"""What a run leaves in its folder: the counts of its evaluation, and sheets of what the net saw and got wrong, whose
samples are known by their colours."""
# Needs: ffpack fftrain
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # noqa: E402
from events import events  # noqa: E402

try:
    import numpy
    from PIL import Image
except ImportError as missing:
    tap.skip("a run's folder", "Python lacks a module: %s" % missing)
    tap.finish()

os.chdir(tempfile.mkdtemp())
PAPER = (246, 246, 243)


def color(split, number):
    """A different colour for each sample; classes differ in red, except for every fifth sample."""
    red = number % 7 if number % 5 else 6 - number % 7
    return red * 35 + 5, number * 5 % 256, 40 if split == "train" else 220


def sheet(path):
    """The colours of a sheet's pictures, 128 pixels wide, row by row."""
    with Image.open(path) as image:
        pixels = numpy.asarray(image.convert("RGB"))
    found, y = [], 0
    while y + 128 <= pixels.shape[0]:
        cell = pixels[y:y + 128, 24:24 + 128]
        if (cell == cell[0, 0]).all() and tuple(cell[0, 0]) != PAPER:
            found += [tuple(int(v) for v in pixels[y + 64, x + 64]) for x in range(24, pixels.shape[1] - 128, 142)
                      if tuple(pixels[y, x]) != PAPER]
            y += 128
        y += 1
    return found


for split, count in ("train", 70), ("test", 49):
    for number in range(count):
        folder = os.path.join("source", split, "class %d" % (number % 7))
        os.makedirs(folder, exist_ok=True)
        Image.new("RGB", (64, 64), color(split, number)).save(os.path.join(folder, "%03d.png" % number))
tap.run([os.path.join(tap.BUILD, "ffpack"), "source", "-o", "set", "--dtype", "u8", "--mean", "0.5,0.5,0.5", "--std",
         "0.2,0.2,0.2"])
order = {split: sorted(range(count), key=lambda n: (n % 7, n)) for split, count in (("train", 70), ("test", 49))}


def run(folder, *more):
    return tap.run([os.path.join(tap.BUILD, "fftrain"), "--data", "set", "--model", "smallnet", "--batch", "16", "--threads", "1",
                    "--augment", "none", "--order", "sequential", "--out", folder, *more])


done = run("run", "--epochs", "3")
tap.ok(done.returncode == 0, "a run with a folder", (done.stdout + done.stderr).decode())
with open("run/evaluation.json") as file:
    told = json.load(file)
with open("run/log.jsonl") as file:
    last = [line for line in map(json.loads, file) if line["event"] == "epoch"][-1]

tap.ok(told["epoch"] == 3 and told["samples"] == 49 and told["data"] == "set/test" and
       all(abs(told[key] - last[key]) < 1e-9 for key in ("val_accuracy", "val_top5_accuracy")) and
       round(told["val_accuracy"] * 49) == told["correct"], "its evaluation is that of the log's last epoch", told)
classes, pairs = told["classes"], told["confusion"]
tap.ok([one["name"] for one in classes] == ["class %d" % c for c in range(7)] and all(one["samples"] == 7 for one in classes) and
       [one["correct"] for one in classes] == [sum(n for a, b, n in pairs if a == b == c) for c in range(7)] and
       [sum(n for a, _, n in pairs if a == c) for c in range(7)] == [7] * 7 and
       sum(one["correct"] for one in classes) == told["correct"], "classes and confusions agree", told)
worst = told["worst"]
wrong = [one for one in worst if one["label"] != one["prediction"]]
tap.ok(len(worst) == 36 and sorted((one["loss"] for one in worst), reverse=True) == [one["loss"] for one in worst] and
       len({one["sample"] for one in worst}) == 36 and
       all(one["label"] == order["test"][one["sample"]] % 7 for one in worst) and 0 < len(wrong),
       "the worst samples come by their loss, with their labels", worst)
tap.ok(sheet("run/worst.png") == [color("test", order["test"][one["sample"]]) for one in worst], "worst.png shows them",
       sheet("run/worst.png"))
tap.ok(sheet("run/inputs.png") == [color("train", number) for number in order["train"][:16]],
       "inputs.png shows the samples of the first step, in their colours", sheet("run/inputs.png"))
images = {tag: value for tag, _, value in events("run/events") if isinstance(value, tuple)}
same = {tag: images.get(tag, [0, 0, 0])[2] == open("run/%s.png" % name, "rb").read()
        for tag, name in (("inputs", "inputs"), ("worst errors", "worst"))}
tap.ok(all(same.values()), "the event file has both sheets", same)

with open("run/report.html") as file:
    page = file.read()
tap.ok("done, epoch 3 of 3" in page and "%d of 49 samples" % told["correct"] in page, "report.html is of the whole run")

# ---- --show-batch: the same sheet without a run
shown = tap.run([os.path.join(tap.BUILD, "fftrain"), "--data", "set", "--model", "smallnet", "--batch", "16", "--threads", "1",
                 "--augment", "none", "--order", "sequential", "--out", "none-of-it", "--show-batch", "batch.png"])
tap.ok(shown.returncode == 0 and open("batch.png", "rb").read() == open("run/inputs.png", "rb").read() and not os.path.exists("none-of-it"),
       "--show-batch writes the run's inputs.png, and begins no run", shown.stderr.decode())
os.makedirs("alone")
os.rename("set/train", "alone/train")
for title, given, code, words in (("no validation set", "alone", 0, ""), ("no training set", "set", 2, "has no split 'train'; name one of its sets: set/test"), ("no set", "nowhere", 74, "nowhere")):
    if os.path.exists("batch.png"):
        os.remove("batch.png")
    shown = tap.run([os.path.join(tap.BUILD, "fftrain"), "--data", given, "--model", "smallnet", "--batch", "16", "--threads", "1",
                     "--augment", "none", "--order", "sequential", "--show-batch", "batch.png"])
    tap.ok(shown.returncode == code and words in shown.stderr.decode() and os.path.exists("batch.png") == (code == 0) and
           (code or sheet("batch.png") == [color("train", number) for number in order["train"][:16]]), "--show-batch of " + title,
           (shown.returncode, shown.stderr.decode()))
os.rename("alone/train", "set/train")

# ---- files that cannot be written: told once, and the run continues
run("bad", "--epochs", "1")
for name in "worst.png", "evaluation.json":
    os.remove("bad/" + name)
    os.mkdir("bad/" + name)
done = tap.run([os.path.join(tap.BUILD, "fftrain"), "--resume", "bad", "--epochs", "2"])
notes = [line for line in done.stdout.decode().splitlines() if line.startswith("note: ")]
with open("bad/log.jsonl") as file:
    logged = [line["event"] for line in map(json.loads, file)]
tap.ok(done.returncode == 0 and len(notes) == 1 and "bad/evaluation.json" in notes[0] and logged.count("note") == 1 and
       logged[-1] == "end", "files that cannot be written are one note", (done.stdout + done.stderr).decode())
tap.finish()
