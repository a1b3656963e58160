"""Event files of a run and with odd tags and numbers, read by a plain decoder and by TensorBoard's
own reader, which pip installs into the build folder."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # noqa: E402
from events import events  # noqa: E402

READ = r"""
import glob, json, math, sys
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util
path, = glob.glob(sys.argv[1] + "/events.out.tfevents.*")
for event in EventFileLoader(path).Load():
    for value in event.summary.value:
        kind = value.metadata.plugin_data.plugin_name
        array = tensor_util.make_ndarray(value.tensor)
        got = array.item() if kind == "scalars" else [int(array[1]), int(array[0]), array[2].hex()]
        print(json.dumps([kind, value.tag, event.step, got]))
"""
ODD = 'a tag "with" <odd>\n\tletters %'
scratch = tempfile.TemporaryDirectory()


def read_by_tensorboard(python, folder):
    done = subprocess.run([python, "-c", READ, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        return done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def same(ours, theirs):
    """Whether TensorBoard read the same records."""
    def plain(value):
        return list(value[:2]) + [value[2].hex()] if isinstance(value, tuple) else repr(value)
    if isinstance(theirs, str):
        return False
    return [["images" if isinstance(value, tuple) else "scalars", tag, step, plain(value)] for tag, step, value in ours] \
        == [[kind, tag, step, got if kind == "images" else repr(got)] for kind, tag, step, got in theirs]


odd = os.path.join(scratch.name, "odd")
done = tap.run([tap.program("write_events"), odd])
tap.ok(done.returncode == 0, "an event file is written", done.stderr.decode())
got = events(odd)
want = [("train/loss", 0, "2.25"), ("train/loss", 1, "nan"), ("train/loss", 2, "inf"), ("train/loss", 3, "-inf"),
        ("train/loss", 4, "inf"), ("train/loss", 1 << 40, "0.10000000149011612"), ("", 5, "1.0"), (ODD, 5, "2.0"),
        ("Käse/猫", 5, "3.0"), ("not%FF%20utf-8", 5, "4.0"), ("x" * 1000, 5, "5.0")]
tap.ok([(tag, step, repr(value)) for tag, step, value in got[:-2]] == want, "scalars, steps and tags", repr(got[:-2]))
tap.ok([(tag, step, value[:2], len(value[2])) for tag, step, value in got[-2:]] ==
       [("sheet", 6, (1, 1), 69), ("nothing", 6, (0, 0), 0)], "images", repr(got[-2:]))

# ---- a run: the numbers of its log
folder, log = os.path.join(scratch.name, "run"), os.path.join(scratch.name, "log.jsonl")
tap.run([tap.program("make_set"), os.path.join(scratch.name, "set"), "--splits", "train,test", "--count", "60", "--height", "8",
         "--width", "8", "--statistics"])
done = tap.run([os.path.join(tap.BUILD, "fftrain"), "--data", os.path.join(scratch.name, "set"), "--model", "smallnet", "--epochs",
                "3", "--val-every", "2", "--batch", "16", "--threads", "1", "--log-json", log, "--tensorboard", folder, "--out", "none"])
tap.ok(done.returncode == 0, "a run with --tensorboard", done.stderr.decode())
run = events(folder)
with open(log) as file:
    epochs = [line for line in map(json.loads, file) if line["event"] == "epoch"]
TAGS = {"train/loss": "train_loss", "train/accuracy": "train_accuracy", "val/loss": "val_loss", "val/accuracy": "val_accuracy",
        "val/top5_accuracy": "val_top5_accuracy",
        "learning_rate": "learning_rate", "speed/samples_per_second": "samples_per_second",
        "speed/data_wait_percent": "data_wait_percent"}
want = {(tag, 3 * line["epoch"]): line[key] for line in epochs for tag, key in TAGS.items() if line.get(key) is not None}
got_run = {(tag, step): value for tag, step, value in run if tag in TAGS}
tap.ok(got_run.keys() == want.keys() and len(want) == 21 and all(abs(got_run[k] - want[k]) <= 1e-6 * abs(want[k]) for k in want),
       "its scalars are the numbers of its log", "%s\n%s" % (got_run, want))

# ---- points between epochs: each is the mean of 50 steps
folder, log = os.path.join(scratch.name, "points"), os.path.join(scratch.name, "points.jsonl")
tap.run([tap.program("make_set"), os.path.join(scratch.name, "many"), "--count", "804", "--height", "8", "--width", "8", "--statistics"])
tap.run([os.path.join(tap.BUILD, "fftrain"), "--data", os.path.join(scratch.name, "many"), "--model", "smallnet", "--epochs", "2",
         "--batch", "8", "--threads", "1", "--log-json", log, "--tensorboard", folder, "--out", "none", "--log-every", "50"])
with open(log) as file:
    epochs = [line for line in map(json.loads, file) if line["event"] == "epoch"]
points = {tag: [(step, value) for name, step, value in events(folder) if name == "step/" + tag]
          for tag in ("loss", "samples_per_second", "data_wait_percent")}
losses = [value for _, value in points["loss"]]
tap.ok(all([step for step, _ in line] == [50, 100, 150, 200] for line in points.values()) and
       all(abs(sum(losses[2 * e:2 * e + 2]) / 2 - epochs[e]["train_loss"]) < 1e-5 for e in (0, 1)) and
       all(value > 0 for _, value in points["samples_per_second"]) and all(0 <= value <= 100 for _, value in points["data_wait_percent"]),
       "points every 50 steps", "%s %s" % (points, epochs))

# ---- the log has the points before an epoch's end, and by default 50 an epoch, 10 steps apart at least
def step_lines(name, *options):
    log = os.path.join(scratch.name, name + ".jsonl")
    done = tap.run([os.path.join(tap.BUILD, "fftrain"), "--data", os.path.join(scratch.name, "many"), "--model", "smallnet", "--threads", "1", "--quiet",
                    "--log-json", log, "--out", "none", *options])
    with open(log) as file:
        lines = [line for line in map(json.loads, file)]
    return [line for line in lines if line["event"] == "step"], [line for line in lines if line["event"] == "epoch"], done.stderr.decode()


with open(log) as file:
    logged = [line for line in map(json.loads, file) if line["event"] == "step"]
tap.ok([(line["epoch"], line["step"]) for line in logged] == [(1, 50), (2, 150)] and
       all(abs(line["train_loss"] - losses[i]) < 1e-5 for i, line in ((0, logged[0]), (2, logged[1]))), "the log's lines within an epoch", str(logged))
single, whole_epoch, told = step_lines("single", "--epochs", "2", "--batch", "20", "--log-every", "1", "--warmup", "1", "--lr", "0.1")
one = [line["train_loss"] for line in single]
tap.ok([line["step"] for line in single] == [step for step in range(1, 81) if step % 40] and
       all(line["samples_per_second"] > 0 for line in single) and
       all(abs(line["learning_rate"] - 0.1 * line["step"] / 41) < 1e-7 for line in single[:39]), "--log-every 1", told + str(single)[:300])
chosen, _, told = step_lines("chosen", "--epochs", "2", "--batch", "20", "--warmup", "1", "--lr", "0.1")
tap.ok([line["step"] for line in chosen] == [10, 20, 30, 50, 60, 70] and abs(chosen[1]["train_loss"] - sum(one[10:20]) / 10) < 1e-6 and
       abs(chosen[3]["train_loss"] - sum(one[39:49]) / 10) < 1e-6 and chosen[4]["learning_rate"] == single[58]["learning_rate"],
       "of an epoch of 40 steps every 10 steps, the mean of these", told + str(chosen))
tap.run([tap.program("make_set"), os.path.join(scratch.name, "more"), "--count", "1206", "--height", "8", "--width", "8", "--statistics"])
chosen, _, told = step_lines("long", "--data", os.path.join(scratch.name, "more"), "--epochs", "1", "--batch", "2")
tap.ok([line["step"] for line in chosen] == list(range(13, 603, 13)), "of an epoch of 603 steps 50 times at most", told + str(chosen)[:300])
tap.ok(not step_lines("never", "--epochs", "1", "--batch", "20", "--log-every", "0")[0], "--log-every 0: never")

# ---- on a GPU outcomes arrive many at once: each point is the mean of its own steps all the same, and has a share of their time
simulated = tap.program("fftrain_sim")
if os.path.exists(simulated):
    log = os.path.join(scratch.name, "card.jsonl")
    of_card = {}
    for every in ("1", "3"):
        done = tap.run([simulated, "--data", os.path.join(scratch.name, "many"), "--model", "smallnet", "--threads", "1", "--quiet", "--device", "cuda", "--precision", "f32",
                        "--log-json", log, "--out", "none", "--epochs", "2", "--batch", "20", "--log-every", every, "--warmup", "1", "--lr", "0.1"])
        with open(log) as file:
            of_card[every] = [line for line in map(json.loads, file)]
        os.remove(log)
    lines, each = of_card["3"], {line["step"]: line["train_loss"] for line in of_card["1"] if line["event"] == "step"}
    card, trained = ([line for line in lines if line["event"] == event] for event in ("step", "epoch"))
    means = {step: sum(each[step - i] for i in range(3)) / 3 for step in (3, 6, 21, 39, 43, 79)}
    timed = sum(60 / line["samples_per_second"] for line in card)
    tap.ok([line["step"] for line in card] == [step for step in range(1, 81) if step % 40 % 3 == 0 and step % 40] and
           all(abs(line["train_loss"] - means.get(line["step"], line["train_loss"])) < 1e-6 for line in card) and
           0.5 < timed / sum(line["seconds"] for line in trained) < 1.001, "points of a GPU's steps", done.stderr.decode() + str(card)[:900])

# ---- a run that was stopped and resumed has the same points, except the one with the stop
def losses_of(name, files):
    return {step: value for tag, step, value in events(os.path.join(scratch.name, name), files) if tag == "step/loss"}


def options_of(name):
    return [os.path.join(tap.BUILD, "fftrain"), "--data", os.path.join(scratch.name, "many"), "--model", "smallnet", "--epochs", "2", "--batch", "6",
            "--threads", "1", "--quiet", "--log-every", "50", "--tensorboard", os.path.join(scratch.name, name), "--out", os.path.join(scratch.name, name + "-run")]


tap.run(options_of("whole"))
process = subprocess.Popen([*options_of("parts"), "--checkpoint-every", "10 steps"])
while process.poll() is None and not os.path.exists(os.path.join(scratch.name, "parts-run", "checkpoints", "step-20")):
    time.sleep(0.001)
process.terminate()
stopped = process.wait()
with open(os.path.join(scratch.name, "parts-run", "log.jsonl")) as file:
    steps = [line for line in map(json.loads, file) if line["event"] == "end"][-1]["steps"]
done = tap.run([os.path.join(tap.BUILD, "fftrain"), "--resume", os.path.join(scratch.name, "parts-run"), "--quiet", "--tensorboard",
                os.path.join(scratch.name, "parts")])
whole, parts = losses_of("whole", 1), losses_of("parts", 2)
after = min([step for step in whole if step > steps], default=0)  # the mean of fewer steps
tap.ok(stopped in (0, 75) and done.returncode == 0 and sorted(whole) == sorted(parts) == [50, 100, 134, 184, 234, 268] and
       all(abs(whole[step] - parts[step]) < 1e-5 for step in whole if step != after),
       "a resumed run has the points of the whole one", "%s stopped after %d: %s %s" % (stopped, steps, whole, parts))

python = None if tap.SANITIZE else tap.environment("tensorboard", "tensorboard==2.18.0", "protobuf==5.29.3", "absl-py==2.1.0",
                                                   "six==1.16.0")
if python:
    theirs = read_by_tensorboard(python, odd)
    tap.ok(same(got, theirs), "TensorBoard reads the same", str(theirs))
    tap.ok(same(run, read_by_tensorboard(python, os.path.join(scratch.name, "run"))), "and the run's")
else:
    tap.skip("TensorBoard reads the same", "tensorboard cannot be installed from PyPI")
tap.finish()
