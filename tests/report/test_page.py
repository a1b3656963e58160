"""fftrain report: pages of real and made-up runs, read by an HTML parser and opened in a headless browser."""
import base64
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # noqa: E402

os.chdir(tempfile.mkdtemp())
FFTRAIN = os.path.join(tap.BUILD, "fftrain")
VOID = {"meta", "img"}


class Page(html.parser.HTMLParser):
    """Tags must balance; text by tag, attributes, and what the page would load."""

    def __init__(self, path):
        super().__init__()
        self.open, self.problems, self.tags, self.text = [], [], [], ""
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.feed(self.source)
        self.close()
        self.problems += ["<%s> is not closed" % tag for tag in self.open]

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append("</%s> at %s" % (tag, self.getpos()))

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data

    def handle_entityref(self, name):
        self.problems.append("&%s;" % name)

    def named(self, tag, class_=None):
        return [found for name, found in self.tags if name == tag and (class_ is None or class_ in found.get("class", "").split())]

    def pictures(self):
        return [base64.b64decode(found["src"].removeprefix("data:image/png;base64,"), validate=True) for found in self.named("img")]

    def is_sound(self):
        loads = [(tag, found) for tag, found in self.tags if tag in ("script", "link", "iframe", "object", "base") or
                 "href" in found or not found.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")]
        self.problems += ["loads %s" % (load,) for load in loads]
        if re.search(r"https?:|url\(|@import", self.source):
            self.problems.append("names an address")
        return not self.problems


def report(*arguments):
    return tap.run([FFTRAIN, "report", *arguments])


def read(path):
    with open(path, "rb") as file:
        return file.read()


# ---- a real run
tap.run([tap.program("make_set"), "set", "--splits", "train,test", "--count", "120", "--height", "12", "--width", "12",
         "--statistics"])
for name, rate in ("one", "0.02"), ("two", "0.1"):
    tap.run([FFTRAIN, "--data", "set", "--model", "smallnet", "--batch", "16", "--threads", "1", "--epochs", "3", "--lr", rate,
             "--out", name])
with open("one/recipe.txt", "a") as file:
    file.write("name = <b> & \"c\"\n")
written = read("one/report.html")
done = report("one")
page = Page("one/report.html")
tap.ok(done.returncode == 0 and done.stdout.startswith(b"one/report.html: 1 run, ") and
       written == read("one/report.html").replace(b"name = &lt;b&gt; &amp; &quot;c&quot;\n", b""),
       "a run's page is in its folder, as the run left it there", done.stderr.decode())
tap.ok(page.is_sound(), "it is well-formed and loads nothing", page.problems)
with open("one/log.jsonl") as file:
    lines = [json.loads(line) for line in file]
epochs, told = [line for line in lines if line["event"] == "epoch"], json.loads(read("one/evaluation.json"))
want = ["%.2f %%" % (100 * line[key]) for line in epochs for key in ("val_accuracy", "train_accuracy")]
want += ["%.4g" % line[key] for line in epochs for key in ("val_loss", "train_loss", "learning_rate")]
want += ["done, epoch 3 of 3", "%d of %d samples of set/test" % (told["correct"], told["samples"]), 'name = <b> & "c"', "set/train", "lr = 0.02"]
want += ["%s taken for %s" % (told["classes"][a]["name"], told["classes"][b]["name"]) for a, b, n in told["confusion"] if a != b][:1]
tap.ok(all(text in page.text for text in want), "its numbers are the log's", [text for text in want if text not in page.text])
cells = re.findall(r'<td(?: class="(?:right|wrong)[^>]*)?>(\d*)</td>', page.source.split('class="matrix"')[1].split("</table>")[0])
matrix = {(i // 6, i % 6): int(cell) for i, cell in enumerate(cells) if cell}
tap.ok(len(cells) == 36 and matrix == {(a, b): n for a, b, n in told["confusion"]}, "its matrix is the evaluation's", cells)
tap.ok(page.pictures() == [read("one/worst.png"), read("one/inputs.png")], "its pictures are the folder's")

# ---- several
done = report("one", "two", "-o", "both.html")
page = Page("both.html")
lines = [found["class"] for found in page.named("path", "line")]
tap.ok(done.returncode == 0 and page.is_sound() and sorted(lines) == sorted(
    ["line c%d%s" % (run, how) for run in (0, 1) for how in ("", "", "", "", " dashed", " dashed")]),
    "two runs are in the same charts", [lines, page.problems])
differ = re.findall(r'<tr class="differs"><th>(\w+)</th>', page.source)
tap.ok("learning_rate" in differ and "model" not in differ and len(page.named("article")) == 2, "settings that differ are marked", differ)
same = read("both.html")
report("one", "two", "-o", "both.html")
tap.ok(read("both.html") == same and report("one", "two", "-o", "-").stdout == same, "the same page again, and on the standard output")

# ---- made-up logs
START = {"event": "start", "model": "<script>alert(1)</script>", "epochs": 9, "list": [1, {"a": None}], "flag": True, "text": "\u732b\u0007"}


def epoch(number, **more):
    return {"event": "epoch", "epoch": number, "train_loss": 1 / number, "train_accuracy": 0.5, "val_loss": None, "val_accuracy": None,
            "learning_rate": 0.1, "seconds": 1.5, "samples_per_second": 100, "data_wait_percent": 20, **more}


def write(path, events, tail=""):
    with open(path, "w") as file:
        file.write("".join(json.dumps(event) + "\n" for event in events) + tail)


def page_of(*events, tail=""):
    write("odd.jsonl", events, tail)
    done = report("odd.jsonl", "-o", "odd.html")
    assert done.returncode == 0, done.stderr
    return Page("odd.html")


odd = page_of(START, epoch(1), epoch(2, train_loss="NaN"), epoch(3, train_loss="Infinity"), epoch(4), {"event": "note", "text": "a <note>"},
              {"event": "new kind"}, {"event": "end", "status": "failed", "message": "the loss & all"}, tail='{"event":"epo')
tap.ok(odd.is_sound() and "<script>" not in odd.source and "<script>alert(1)</script>" in odd.text and "Note: a <note>" in odd.text and
       "1 line of its log could not be read" in odd.text and "failed, epoch 4 of 9: the loss & all" in odd.text and
       "\u732b%07" in odd.text and '[1,{"a":null}]' in odd.text, "odd texts and a line that is cut", odd.problems)
lines = re.findall(r'class="line c0 dashed" d="([^"]*)"', odd.source)
tap.ok(any(line.count("M") == 2 and "L" not in line for line in lines), "a loss that is not a number interrupts its line", lines)
resumed = page_of(START, epoch(1), epoch(2), epoch(3, learning_rate=7.25), START, epoch(3), epoch(4))
tap.ok("epoch 4 of 9" in resumed.text and "7.25" not in resumed.text and len(re.findall("odd.jsonl, epoch 3: ", resumed.text)) == 4,
       "epochs of a resumed run replace the old ones", resumed.text)
again = page_of(START, epoch(1), epoch(2, learning_rate=7.25), {"event": "end", "status": "done"}, dict(START, model="other"), epoch(1))
tap.ok("not ended, epoch 1 of 9" in again.text and "other" in again.text and "7.25" not in again.text, "of several runs in a log the last")
one = page_of(START, epoch(1, val_accuracy=1.0, val_loss=0.0, samples_per_second=0, learning_rate=0))
tap.ok(one.is_sound() and "nan" not in one.source and "inf" not in one.source and "100.00 %" in one.text, "a single epoch, zeros")
averaged = page_of(START, epoch(1), epoch(2, val_accuracy=0.5, val_loss=1, val_ema_accuracy=0.625, val_ema_loss=0.75))
tap.ok(averaged.is_sound() and "of the average 62.50 %" in averaged.text and averaged.text.count("averages dotted") == 2 and
       len(averaged.named("path", "dotted")) == 2 and "averages" not in one.text, "averages of the parameters")

# ---- a run that was stopped in its second epoch and resumed: its time and rate are those of both sessions
BEGUN = dict(START, first_step=0, steps=90)
two = page_of(BEGUN, epoch(1, seconds=2, samples_per_second=100), {"event": "end", "status": "stopped", "seconds": 3.5, "train_seconds": 2.5, "samples": 250},
              dict(BEGUN, first_step=12), epoch(2, seconds=1, samples_per_second=900),
              {"event": "end", "status": "done", "seconds": 4.5, "train_seconds": 6, "val_seconds": 0.5, "data_wait_percent": 25, "samples": 540})
cells = [re.sub("<[^>]*>", " ", cell).split() for cell in re.findall("<td>(.*?)</td>", re.search("<h2>Time</h2>(.*?)</table>", two.source, re.S).group(1), re.S)]
seconds = [float(cell[0]) if cell[0] != "-" else 0 for cell in cells]
tap.ok(two.is_sound() and seconds[:4] == [8, 4.5, 1.5, 0.5] and seconds[5:] == [1.5, 90], "total, training, waiting, evaluation and the rest, and the mean rate", cells)
# ---- the best as the run chose it
chosen = page_of(START, epoch(1, val_accuracy=0.5, val_loss=1), epoch(2, val_accuracy=0.625, val_loss=2), epoch(3, val_accuracy=0.25, val_loss=3),
                 {"event": "end", "status": "done", "best_epoch": 1})
open_ended = page_of(START, *(epoch(n, val_accuracy=a, val_loss=n) for n, a in ((1, 0.5), (2, 0.625), (3, 0.25))))
tap.ok("best 50.00 % after epoch 1" in chosen.text and "best 62.50 % after epoch 2" in open_ended.text, "--best-by loss: best is what the run says, else the highest",
       (chosen.text[:400], open_ended.text[:400]))
started = page_of(START)
tap.ok(started.is_sound() and "not ended, epoch 0 of 9" in started.text, "a run without an epoch yet")
many = page_of(START, *(epoch(n, val_accuracy=n / 20000) for n in range(1, 20001)))
tap.ok(many.is_sound() and len(many.source) < 100000 and "100.00 %" in many.text, "20000 epochs", len(many.source))
os.makedirs("classes")
write("classes/log.jsonl", [START, epoch(1)])
with open("classes/evaluation.json", "w") as file:
    json.dump({"epoch": 1, "data": "x", "samples": 500, "correct": 250, "classes": [{"name": None, "samples": 5 * (c > 0), "correct": c % 5}
               for c in range(100)], "confusion": [[c, (c + 1) % 100, c + 1] for c in range(100)] + [[0, 100, 900], [-1, 0, 900], 3, []]}, file)
for name, content in ("worst", b"x"), ("inputs", b"yz"):
    with open("classes/%s.png" % name, "wb") as file:
        file.write(content)
done = report("classes")
page = Page("classes/report.html")
tap.ok(page.is_sound() and not page.named("table", "matrix") and "99 taken for 0" in page.text and "the 20 lowest" in page.text and
       " for 100" not in page.text and "-1 taken" not in page.text and page.pictures() == [b"x", b"yz"],
       "many classes without names have no matrix, entries out of range are left out", page.problems)

# ---- long names: a name of the matrix has at most 24 characters, and all of it where the mouse is
os.makedirs("long")
write("long/log.jsonl", [START, epoch(1)])
names = ["n%d<&\"" % c + "x" * 144 + "end%d" % c for c in range(3)] + ["\u732b" * 60, "short"]
with open("long/evaluation.json", "w") as file:
    json.dump({"epoch": 1, "data": "x", "samples": 25, "correct": 5, "classes": [{"name": name, "samples": 5, "correct": 1} for name in names],
               "confusion": [[a, b, 1] for a in range(5) for b in range(5)]}, file)
done = report("long")
page = Page("long/report.html")


def middle(name, most):
    return name if len(name) <= most else name[:most - 3 - (most - 3) // 3] + "..." + name[-((most - 3) // 3):]


shown = re.findall(r'<th(?: class="up")?><span(?: title="([^"]*)")?>([^<]*)</span></th>', page.source.split('class="matrix"')[1])
shown = [(html.unescape(title), html.unescape(text)) for title, text in shown]
wanted = [(name if len(name) > 24 else "", middle(name, 24)) for name in names]
tap.ok(page.is_sound() and shown == wanted * 2, "names next to the matrix are short, their ends too, and whole as title", shown[:5])
longest = max(re.findall(r">([^<>]*)<", page.source.split("What it got")[0].split("Evaluation")[1]), key=len)
tap.ok(len(html.unescape(longest)) <= 80 and middle(names[0], 60) + " taken for " + middle(names[1], 60) in page.text,
       "so are those of the lists", longest)

# ---- refused
for name, code, words, arguments in (
        ("no run", 2, "wanted fftrain report RUN...", ()), ("a run that is not there", 74, "nowhere: cannot open", ("nowhere", "-o", "x")),
        ("a folder without a log", 2, "set: holds no run", ("set",)), ("the same next to a run", 74, "set/log.jsonl: cannot open", ("set", "one", "-o", "x")), ("a log without a run", 65, "has no line of a run", ("none", "-o", "x")),
        ("several runs without -o", 2, "-o FILE is needed for several runs", ("one", "two")),
        ("a full disk", 74, "/dev/full: cannot write", ("one", "-o", "/dev/full")), ("a folder as page", 74, "one", ("two", "-o", "one")),
        ("an evaluation that is cut", 65, "cut/evaluation.json: ", ("cut",))):
    os.makedirs("cut", exist_ok=True)
    shutil.copy("one/log.jsonl", "cut/log.jsonl")
    with open("cut/evaluation.json", "w") as file:
        file.write('{"epoch":1,')
    write("none", [{"event": "note", "text": "x"}])
    done = report(*arguments)
    said = done.stderr.decode()
    tap.ok(done.returncode == code and said.startswith("fftrain: ") and words in said and said.count("\n") == 1, "refused: " + name, said)

# ---- in a browser
browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if browser and not tap.SANITIZE:
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=profile",
                           "--enable-logging=stderr", "--window-size=1200,1600", "--screenshot=shot.png", "file://%s/both.html" % os.getcwd()],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    said = done.stderr.decode(errors="replace")
    from PIL import Image
    with Image.open("shot.png") as image:
        colors = dict((color, count) for count, color in image.convert("RGB").getcolors(1 << 22))
    lines = [color for color in ((37, 99, 235), (217, 119, 6), (96, 165, 250), (251, 191, 36)) if colors.get(color, 0) > 100]
    tap.ok(done.returncode == 0 and "CONSOLE" not in said and len(colors) > 200 and len(lines) == 2,
           "a headless browser draws it, the runs in their colours", "%s\n%s" % (lines, said))
else:
    tap.skip("a headless browser draws it", "no chromium is installed")
tap.finish()
