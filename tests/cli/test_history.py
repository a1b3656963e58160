#!/usr/bin/python3
"""The history next to an index (source, command line, date, host, version): pack, append, copy, merge and repair add to it, no id
and no other file depends on it, and a set is read whatever the file holds; ffinspect shows it, lists keys and finds one. Prints
TAP."""
# Needs: ffpack ffinspect
import datetime
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import FFPACK, NORMALIZE, Packed, image, tap  # noqa: E402

rng = random.Random(5)
place = os.path.realpath(tempfile.mkdtemp())
os.chdir(place)
INSPECT = os.path.join(tap.BUILD, "ffinspect")
OPTIONS = ["--resize", "8x9", *NORMALIZE, "--shard-size", "4K"]
CLASSES = ["50% off", "dog's bed", "日本"]
began = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0, tzinfo=None)


def run(*arguments):
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=300)


def make(*arguments):
    done = run(FFPACK, *arguments)
    assert done.returncode == 0, (arguments, done.stderr)
    return done


def write(name, text, mode="w"):
    with open(name, mode) as file:
        file.write(text)
    return name


def history(folder):
    with open(folder + "/history.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def commands(folder):
    return [line["arguments"] for line in history(folder)]


def shown(folder):
    """The lines of the summary's history."""
    done = run(INSPECT, folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("  history"))
    end = next(i for i, line in enumerate(lines) if line.startswith("  ids"))
    return [line[14:] for line in lines[begin:end]]


def sources():
    for split, count in (("train", 5), ("val", 2)):
        for c in CLASSES:
            os.makedirs("photos/%s/%s" % (split, c))
            for i in range(count):
                write("photos/%s/%s/%d.png" % (split, c, i), image(rng), "wb")
    shutil.copytree("photos/train", "alone")
    for c in CLASSES:
        os.makedirs("more/" + c)
        write("more/%s/new.png" % c, image(rng), "wb")


def check_lines():
    make("photos", "-o", "set", *OPTIONS)
    wrong = []
    for split in ("train", "val"):
        line, = history("set/" + split)
        when = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%SZ")
        if not began <= when <= datetime.datetime.utcnow():
            wrong.append("time " + line["time"])
        wanted = {"ffpack": run(FFPACK, "--version").stdout.split()[1], "command": "pack", "host": socket.gethostname(),
                  "source": place + "/photos", "directory": place,
                  "arguments": ["ffpack", "photos", "-o", "set", *OPTIONS],
                  "content": ids("set/" + split)["content"]}
        wrong += ["%s: %r, wanted %r" % (key, line.get(key), value) for key, value in wanted.items() if line.get(key) != value]
    tap.ok(not wrong, "each split says from where, how, when, on which host and by which version it was packed", wrong)
    make("photos", "-o", "again", *OPTIONS, "--jobs", "1")
    tap.ok(tap.files_of("set") == tap.files_of("again") and commands("set/train") != commands("again/train"),
           "packing again gives the same bytes; only the history differs")
    make("photos", "-o", "again", *OPTIONS, "--force", "--no-history")
    tap.ok(tap.files_of("set") == tap.files_of("again") and not os.path.exists("again/train/history.jsonl"),
           "--force replaces a set with a history; --no-history writes none")
    text = shown("set/train")
    tap.ok(len(text) == 1 and text[0].endswith(", from %s/photos: ffpack photos -o set %s" % (place, " ".join(OPTIONS)))
           and text[0].startswith(history("set/train")[0]["time"] + " on "), "ffinspect shows it in a line", text)
    document = json.loads(run(INSPECT, "set", "--json").stdout)["splits"]
    tap.ok([s["history"] for s in document] == [history("set/" + s["split"]) for s in document]
           and all(s["history_problem"] is None for s in document), "and --json all of it", document[0]["history"])


def ids(folder):
    return json.loads(run(INSPECT, folder, "--json").stdout)["splits"][0]["ids"]


def check_kept():
    make("alone", "-o", "grown", *OPTIONS)
    pack = commands("grown")[0]
    make("append", "grown", "more")
    tap.ok(commands("grown") == [pack, ["ffpack", "append", "grown", "more"]] and len(shown("grown")) == 2,
           "an append adds its line", commands("grown"))
    write("bad", "50% off/1.png\n")
    make("copy", "grown", "-o", "fewer", "--not-keys", "bad")
    tap.ok(commands("fewer") == commands("grown") + [["ffpack", "copy", "grown", "-o", "fewer", "--not-keys", "bad"]]
           and history("fewer")[-1]["source"] == place + "/grown", "a copy has the set's, and its own", commands("fewer"))
    make("copy", "grown", "-o", "silent", "--no-history")
    tap.ok(not os.path.exists("silent/history.jsonl"), "  and none with --no-history")
    before = commands("fewer")
    make("repair", "fewer")
    same = commands("fewer") == before
    os.remove("fewer/index.ffx")
    write("fewer/history.jsonl.tmp", "half")
    make("repair", "fewer")
    tap.ok(same and commands("fewer") == before + [["ffpack", "repair", "fewer"]] and len(shown("fewer")) == 4
           and not os.path.exists("fewer/history.jsonl.tmp"), "a repair adds a line where it rebuilt the index", commands("fewer"))
    for part in (1, 2):
        make("alone", "-o", "part%d" % part, "--part", "%d/2" % part, *OPTIONS)
    make("merge", "merged", "part2", "part1")
    tap.ok([line["command"] for line in history("merged")] == ["pack", "pack", "merge"]
           and [c[5] for c in commands("merged")[:2]] == ["1/2", "2/2"] and len(shown("merged")) == 3,
           "a merge has those of the parts, then its own", commands("merged"))
    make("alone", "-o", "whole", *OPTIONS)
    tap.ok(tap.files_of("merged") == tap.files_of("whole"), "  and the bytes of one run")


def check_continues():
    """What an interrupted packing left, with a history already, is continued."""
    shutil.copytree("whole", "out.partial")
    os.remove("out.partial/index.ffx")
    shards = sorted(name for name in os.listdir("out.partial") if name.endswith(".ffs"))
    os.remove("out.partial/" + shards[-1])
    make("alone", "-o", "out", *OPTIONS, "--resume")
    tap.ok(tap.files_of("out") == tap.files_of("whole") and len(commands("out")) == 1, "an interrupted packing continues")


def put(content):
    """Makes grown's history a file of these bytes, a folder, a pipe or, None, nothing."""
    path = "grown/history.jsonl"
    if os.path.isdir(path):
        os.rmdir(path)
    elif os.path.lexists(path):
        os.remove(path)
    if content == "folder":
        os.mkdir(path)
    elif content == "pipe":
        os.mkfifo(path)
    elif content is not None:
        write(path, content, "wb")


def check_damaged():
    """(what the file becomes, what ffinspect says last, the lines it shows before)"""
    sound = open("grown/history.jsonl", "rb").read()
    cases = [("absent", None, "not recorded: there is no history.jsonl", 0),
             ("empty", b"", "history.jsonl: is empty", 0),
             ("cut off", sound[:-20], "1 line is not as ffpack writes them; the first is line 2", 1),
             ("of bytes", b"\xff\0\n{}\n" + sound, "2 lines are not as ffpack writes them; the first is line 1", 2),
             ("of another set", open("whole/history.jsonl", "rb").read(), "the last line is of other samples", 1),
             ("a folder", "folder", "grown/history.jsonl: is not a regular file", 0),
             ("a pipe", "pipe", "grown/history.jsonl: is not a regular file", 0)]
    want = ids("grown")
    for name, content, sentence, count in cases:
        put(content)
        said = shown("grown")
        problem = json.loads(run(INSPECT, "grown", "--json").stdout)["splits"][0]
        verified = run(INSPECT, "grown", "--verify")
        copied = run(FFPACK, "copy", "grown", "-o", "copied")
        tap.ok(len(said) == count + 1 and sentence in said[-1] and problem["history_problem"] == said[-1]
               and len(problem["history"]) == count and verified.returncode == 0 and ids("grown") == want
               and copied.returncode == 0 and ids("copied")["content"] == want["content"],
               "a history that is %s: the set is read, and one line reports it" % name, [*said, copied.stderr, verified.stderr])
        shutil.rmtree("copied", ignore_errors=True)
    done = run(FFPACK, "append", "grown", "more", "--allow-duplicates")
    tap.ok(done.returncode == 0 and "the history was not added to: grown/history.jsonl" in done.stderr
           and len(Packed("grown").keys) == 21, "an append next to a pipe reports that it adds no line", done.stderr)
    put(sound[:-20])
    make("append", "grown", "more", "--allow-duplicates")
    lines = open("grown/history.jsonl", "rb").read().split(b"\n")
    tap.ok(lines[1] == sound[:-20].split(b"\n")[1] and json.loads(lines[2])["command"] == "append" and not lines[3],
           "a line that is not sound stays when another is added", lines)


def check_names():
    document = json.loads(run(INSPECT, "set/train", "--json", "--sample", "0:15").stdout)["splits"][0]
    tap.ok(document["fields"][0]["classes"] == CLASSES
           and [s["labels"][0]["label"]["class"] for s in document["sample"]] == [c for c in CLASSES for _ in range(5)],
           "class names in --json are plain text", document["fields"])
    keys = Packed("set/train").keys
    done = run(INSPECT, "set/train", "--keys")
    tap.ok(done.stdout == "".join(key.replace("%", "%25") + "\n" for key in keys), "--keys: a key a line", done.stdout + done.stderr)
    done = run(INSPECT, "set/train", "--keys", "-0")
    tap.ok(done.stdout == "".join(key + "\0" for key in keys), "  -0: a zero byte after each", done.stdout + done.stderr)
    done = run(INSPECT, "set", "--keys")
    both = ["%s/%s" % (s, key) for s in ("train", "val") for key in Packed("set/" + s).keys]
    tap.ok(done.stdout.split("\n")[:-1] == [key.replace("%", "%25") for key in both], "  of several splits: SPLIT/KEY", done.stdout)
    write("some", "".join(line + "\n" for line in done.stdout.split("\n")[1:15:2]))
    make("copy", "set/train", "-o", "picked", "--keys", "some")
    tap.ok(Packed("picked").keys == keys[1:15:2], "  as copy --keys reads them")
    for arguments in (["-0"], ["--keys", "--json"], ["--keys", "--find", "x"]):
        done = run(INSPECT, "set", *arguments)
        tap.ok(done.returncode == 2 and done.stderr.count("\n") == 1, "%s is refused" % " ".join(arguments), done.stderr)


def check_find():
    train, val = Packed("set/train"), Packed("set/val")
    number = train.keys.index("日本/1.png")
    for key in ("日本/1.png", "train/日本/1.png"):
        done = run(INSPECT, "set", "--find", key)
        lines = done.stdout.split("\n")[:-1]
        wanted = ["日本/1.png: sample %d of train, shard-" % number] + \
            (["日本/1.png: sample %d of val, shard-" % val.keys.index("日本/1.png")] if "train" not in key else [])
        tap.ok(done.returncode == 0 and len(lines) == len(wanted) and all(
            line.startswith(want) and line.endswith(".ffs, 3 x 8 x 9, label: 2 日本") for line, want in zip(lines, wanted)),
            "--find %s: split, number, shard, size and class" % key, lines + [done.stderr])
    for key in ("50% off/0.png", "50%25 off/0.png"):
        tap.ok(run(INSPECT, "set/train", "--find", key).stdout.startswith("50%25 off/0.png: sample 0, "), "  spelled " + key)
    for key, near in (("1.png", "train/50%25 off/1.png"), ("dog's bad/4.png", "train/dog's bed/4.png"), ("zzzzzzzzzz", None)):
        done = run(INSPECT, "set", "--find", key)
        tap.ok(done.returncode == 1 and not done.stdout and done.stderr.count("\n") == 1
               and (("did you mean '%s'?" % near) if near else "--keys lists them") in done.stderr, "no %s: %s" % (key, near), done.stderr)
    done = run(INSPECT, "set", "--find", "日本/1.png", "--json")
    found = json.loads(done.stdout)["found"]
    tap.ok([(f["split"], f["number"], f["key"]) for f in found] ==
           [("train", number, "日本/1.png"), ("val", val.keys.index("日本/1.png"), "日本/1.png")], "--find with --json", found)
    done = run(INSPECT, "set", "--find", "nothing", "--json")
    tap.ok(done.returncode == 1 and json.loads(done.stdout)["found"] == [], "  if there is none", done.stderr)


try:
    sources()
    check_lines()
    check_kept()
    check_continues()
    check_damaged()
    check_names()
    check_find()
finally:
    os.chdir("/")
    shutil.rmtree(place)
tap.finish()
