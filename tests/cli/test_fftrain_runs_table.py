#!/usr/bin/python3
"""fftrain runs: the table of a folder's runs against their own logs and recipes, read by plain lines. Prints TAP. Environment: BUILD."""
# Needs: fftrain tests/make_set
import csv
import fcntl
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
from runs import epochs, events, fftrain, make, recipe, refused  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"
make("set", "--count", 100, "--splits", "train,test", "--height", 8, "--width", 8, "--statistics")
COMMON = ["--data", "set", "--model", "smallnet", "--augment", "none", "--batch", 20, "--threads", 1, "--warmup", 0, "--quiet"]


def train(name, *options):
    done = fftrain(*COMMON, "--name", name, *options)
    if done.returncode:
        print("#", done.stderr)


def expected(name):
    """(metric, best, its epoch, last epoch, epochs, status) by the run's own log."""
    by = recipe("runs/" + name).get("best-by", "accuracy")
    known = [line for line in epochs("runs/" + name) if isinstance(line["val_loss"], float)]
    best = max(known, key=lambda line: (line["val_accuracy"] if by == "accuracy" else -line["val_loss"], -line["epoch"]), default=None)
    end = events("runs/" + name, "end")
    return ("val_" + by, best and best["val_" + by], best and best["epoch"], max([line["epoch"] for line in epochs("runs/" + name)], default=0),
            events("runs/" + name, "start")[-1]["epochs"], end[-1]["status"] if end else "killed")


train("one", "--epochs", 3, "--lr", 0.1)
train("two", "--epochs", 5, "--lr", 0.3, "--seed", 7)
train("early", "--epochs", 20, "--lr", 0.3, "--patience", 1)
train("low", "--epochs", 3, "--lr", 0.1, "--best-by", "loss")
train("lower", "--epochs", 6, "--lr", 0.2, "--best-by", "loss", "--groups", "fc.*:lr=0.1,momentum=0.5")
train("blind", "--epochs", 2, "--val", "none")
shutil.copytree("runs/two", "runs/killed", symlinks=True)
with open("runs/killed/log.jsonl") as file:
    lines = [line for line in map(json.loads, file) if line["event"] != "end" and line.get("epoch") != 5]
lines = [{**line, "val_accuracy": 0.5} if line["event"] == "epoch" else line for line in lines]  # of equal ones the first is the best
with open("runs/killed/log.jsonl", "w") as file:
    file.write("".join(json.dumps(line) + "\n" for line in lines))
os.makedirs("runs/no run/checkpoints")
open("runs/notes.txt", "w").close()
NAMES = ["one", "two", "early", "low", "lower", "blind", "killed"]
want = {name: expected(name) for name in NAMES}

done = fftrain("runs", "--json")
rows = json.loads(done.stdout)
found = {row["run"]: (row["metric"], row["best"], row["best_epoch"], row["epoch"], row["epochs"], row["status"]) for row in rows}
tap.ok(done.returncode == 0 and not done.stderr and found.keys() == want.keys() and
       all(a == b or (isinstance(b, float) and abs(a - b) < 1e-9) for name in want for a, b in zip(found[name], want[name])), "each run's best, epochs and end",
       "%s\n%s\n%s" % (found, want, done.stderr))
order = sorted(NAMES, key=lambda name: (want[name][1] is None, want[name][0] == "val_loss",
                                        want[name][1] is not None and (want[name][1] if want[name][0] == "val_loss" else -want[name][1]), name))
tap.ok([row["run"] for row in rows] == order, "the best first, by accuracy, then by loss, then those without", ([row["run"] for row in rows], order))
recipes = {name: recipe("runs/" + name) for name in NAMES}
differing = {key for name in NAMES for key in recipes[name] if len({recipes[other].get(key) for other in NAMES}) > 1} - {"epochs"} # every table has a column of these
tap.ok({key for row in rows for key in row["settings"]} == differing and {"lr", "best-by", "seed"} < differing and "batch" not in differing and
       all(row["settings"][key] == recipes[row["run"]].get(key) for row in rows for key in differing), "the settings in which they differ, and no others",
       (differing, rows[0]))
seconds = {row["run"]: row["seconds"] for row in rows}
tap.ok(abs(seconds["one"] - events("runs/one", "end")[-1]["seconds"]) < 1e-6 and seconds["killed"] > 0, "the seconds are those of the log", seconds)

done = fftrain("runs", "runs/", "--csv")
table = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
head = next(csv.reader(io.StringIO(done.stdout)))
tap.ok(len(head) == len(set(head)) and "epochs" in head, "each column of --csv has a name of its own", head)
tap.ok(done.returncode == 0 and [line["run"] for line in table] == order and
       all(line[key] == (row["settings"][key] or "") for line, row in zip(table, rows) for key in differing) and
       all(line["best"] == "" if row["best"] is None else abs(float(line["best"]) - row["best"]) < 1e-9 for line, row in zip(table, rows)) and
       '"fc.*:lr=0.1,momentum=0.5"' in done.stdout, "--csv has the same", done.stdout)

odd = ["two\nlines", "a bare\rreturn", 'commas, "quotes"']  # what CSV quotes
for name in odd:
    shutil.copytree("runs/two", "odd/" + name, symlinks=True)
done = tap.run([os.path.join(tap.BUILD, "fftrain"), "runs", "odd", "--csv"])
rows_of = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
tap.ok(sorted(row[0] for row in rows_of[1:]) == sorted(odd) and len({len(row) for row in rows_of}) == 1, "names of runs with line ends, commas and quotes in --csv", done.stdout)

done = fftrain("runs")
lines = done.stdout.splitlines()
tap.ok(lines[0].split()[:6] == ["run", "best", "epoch", "epochs", "seconds", "status"] and [line.split()[0] for line in lines[1:]] == order and
       all(line.index("of") == lines[1].index("of") for line in lines[1:]), "the table for people", lines)
row = next(line for line in lines if line.startswith("early"))
tap.ok(row.split()[1:4] == ["%.2f" % (100 * want["early"][1]), "%", str(want["early"][2])], "its numbers", row)
tap.ok("%d of 20" % want["early"][3] in row and "stopped early" in row and "loss %.4f" % want["low"][1] in done.stdout and
       "4 of 5" in next(line for line in lines if line.startswith("killed")), "how runs ended", lines)

# ---- a run that trains, and the same one killed
RUN = "alive/it"
alive = subprocess.Popen([runs.FFTRAIN, *map(str, COMMON), "--out", RUN, "--epochs", "1000000"], env={**os.environ, **runs.ENVIRONMENT}, stderr=subprocess.DEVNULL)


def status():
    tables = json.loads(fftrain("runs", "alive", "--json").stdout)
    page = fftrain("report", RUN, "-o", "alive.html")
    said = re.search(r"(running|killed|not ended), epoch", open("alive.html").read()) if page.returncode == 0 else None
    return tables[0]["status"], said and said.group(1)


until = time.time() + 60
while not (os.path.exists(RUN + "/log.jsonl") and epochs(RUN)) and time.time() < until:
    time.sleep(0.05)
while_training = status()
second = fftrain("--resume", RUN)
tap.ok(while_training == ("running", "running") and alive.poll() is None, "a run that trains", while_training)
tap.ok(second.returncode == 2 and "another fftrain is training there" in second.stderr, "is not resumed next to itself", second.stderr)
alive.kill()
alive.wait()
killed = status()
tap.ok(killed == ("killed", "killed"), "a run that was killed", killed)
holder = os.open(RUN, os.O_RDONLY)  # a look at the folder holds it for a moment
fcntl.flock(holder, fcntl.LOCK_SH)
threading.Timer(0.04, os.close, [holder]).start()
resumed = subprocess.Popen([runs.FFTRAIN, "--resume", RUN, "--quiet"], env={**os.environ, **runs.ENVIRONMENT}, stderr=subprocess.PIPE, text=True)
until = time.time() + 60
while status()[0] != "running" and resumed.poll() is None and time.time() < until:
    time.sleep(0.05)
tap.ok(resumed.poll() is None, "a look at a run's folder does not keep it from being resumed")
resumed.kill()
tap.ok(not resumed.communicate()[1], "without a word")

# ---- the same as a page

done = fftrain("report", "runs")
page = open("runs/report.html").read()
cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td>(.*?)</td>", page)]
plain = [re.split("  +", line.strip()) for line in lines[1:]]
tap.ok(done.returncode == 0 and done.stdout.startswith("runs/report.html: 7 runs, ") and html.unescape(" ".join(cells)).split() == " ".join(sum(plain, [])).split(),
       "fftrain report of the folder has the table", (cells, plain, done.stderr))
links = re.findall('href="(.*?)"', page)
tap.ok(links == ["./%s/report.html" % name for name in order] and all(os.path.exists("runs/" + link) for link in links), "its links are the runs' pages", links)
os.rename("runs/blind", "runs/blind %41&")
os.remove("runs/blind %41&/report.html")
os.rename("runs/low", "runs/low #%41&")
done = fftrain("report", "runs", "-o", "elsewhere.html")
links = re.findall('href="(.*?)"', open("elsewhere.html").read())
tap.ok(len(links) == 6 and all(os.path.exists(urllib.parse.unquote(link)) and link.startswith("/") for link in links) and "blind %41&amp;" in open("elsewhere.html").read(),
       "elsewhere the links begin at the root; a run without a page has none", (links, done.stderr))
os.rename("runs/blind %41&", "runs/blind")
os.rename("runs/low #%41&", "runs/low")
refused("a folder without a run has no page", 2, ["holds no run"], "report", "set")

# ---- --name

done = fftrain(*COMMON, "--name", "again", "--epochs", 1, "--val", "none", "--resume", "auto")
then = fftrain(*COMMON, "--name", "again", "--epochs", 2, "--val", "none", "--resume", "auto")
tap.ok(done.returncode == 0 and then.returncode == 0 and [line["epoch"] for line in epochs("runs/again")] == [1, 2], "--resume auto continues with --name", then.stderr)
shutil.rmtree("runs/again")
refused("a name that is taken", 2, ["runs/one", "holds another run"], *COMMON, "--name", "one", "--epochs", 1)
for name in ("a/b", "", "..", "."):
    refused("the name '%s'" % name, 2, ["--name", "without /", "--out"], *COMMON, "--name", name, "--epochs", 1)
refused("--name and --out", 2, ["--name and --out"], *COMMON, "--name", "x", "--out", "y", "--epochs", 1)
refused("--name and --resume", 2, ["leave out --name"], "--resume", "runs/one", "--name", "x")

# ---- what is not a run, and what cannot be read

os.makedirs("runs/broken")
open("runs/broken/recipe.txt", "w").close()
open("runs/broken/log.jsonl", "w").close()
done = fftrain("runs", "--json")
tap.ok(done.returncode == 0 and [row["run"] for row in json.loads(done.stdout)] == order and "left out" in done.stderr and "runs/broken/log.jsonl" in done.stderr,
       "a run without a log is left out, and named", done.stderr)
os.makedirs("empty")
refused("a folder without runs", 2, ["empty", "recipe.txt"], "runs", "empty")
refused("no folder", 74, ["nowhere"], "runs", "nowhere")
refused("a run itself", 2, ["runs/one", "is a run itself", "fftrain report runs/one"], "runs", "runs/one")
refused("two folders", 2, ["one folder"], "runs", "empty", "empty")
refused("both forms", 2, ["--json", "--csv"], "runs", "--json", "--csv")
shutil.rmtree(place)
tap.finish()
